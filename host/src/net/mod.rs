//! The way out: one HTTP client for the whole process, WebSockets that begin with it, where credentials come from, and the
//! way out of plugins, which is bounded by what they are granted. Only here: reqwest and tungstenite.
//!
//! The client of models follows no redirects, asks no proxy that no config names, bounds time and size of whatever a server
//! says, tries again what may pass, and turns every failure into a [`Fault`](crate::error::Fault) that never shows a key.

mod client;
pub mod egress;
mod exchange;
mod failure;
mod proxy;
mod rate;
mod response;
mod restricted_client;
mod retry;
mod secret;
mod secret_command;
mod secret_source;
pub(crate) mod sse;
mod status;
#[cfg(test)]
pub(crate) mod test_server;
mod tls;
mod websocket;

pub use client::{AuthHeader, HttpClient, HttpRequest, endpoint, header_name, origin};
pub use exchange::HttpResponse;
pub(crate) use failure::FailedAttempt;
pub use failure::{is_loopback, is_readable_on_the_way, mend};
pub use proxy::{HttpClientConfig, ProxyUrl};
pub use rate::{RateLimitStatus, RateLimits};
pub use response::{ByteStream, SuccessResponse};
pub use retry::{Retries, RetryObserver, RetryPause};
pub use secret::Secret;
pub use secret_source::{Keyring, ResolvedSecret, SecretError, SecretSource};
pub use status::{fault as fault_of_status, fault_in_reply, shown};
pub use websocket::WebSocket;
