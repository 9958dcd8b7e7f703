//! Outgoing network access: one HTTP client for the whole process, the sources of credentials, and the network access of
//! plugins within their grants. Only this module uses reqwest.
//!
//! The client for models follows no redirects, uses no proxy except a configured one, and limits the time and size of
//! everything a server sends. It retries transient failures and turns every failure into a [`Fault`](shelly_core::error::Fault)
//! that never shows a key.

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
pub mod sse;
mod status;
mod tls;

pub use client::{AuthHeader, HttpClient, HttpRequest, endpoint, header_name, origin};
pub use exchange::HttpResponse;
pub use failure::FailedAttempt;
pub use failure::{is_loopback, is_readable_on_the_way, mend};
pub use proxy::{HttpClientConfig, ProxyUrl};
pub use rate::{RateLimitStatus, RateLimits};
pub use response::{ByteStream, SuccessResponse};
pub use retry::{Retries, RetryObserver, RetryPause};
pub use secret::Secret;
pub use secret_source::{Keyring, ResolvedSecret, SecretError, SecretSource};
pub use status::{fault as fault_of_status, fault_in_reply, shown};
