//! Network access of `shelly-host`: one HTTP client for the whole process, the sources of credentials, the network access of
//! plugins within their grants, and the HTTP server.
//!
//! The client for models follows no redirects, uses no proxy except a configured one, and limits the time and size of
//! everything a server sends. It retries transient failures and turns every failure into a
//! [`Fault`](shelly_core::error::Fault) that never shows a key.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `address`, `request_header`, `http_request` | a request: address, headers, credential, time limits |
//! | `secret`, `secret_source`, `secret_command` | credentials, and where they come from |
//! | `proxy`, `tls`, `restricted_client` | connections: proxy, trusted certificates, permitted addresses |
//! | `client`, `exchange` | the client: requests for a successful response, for any response |
//! | `response`, `sse`, `rate` | what a server sends: a bounded body, its events, its rate limits |
//! | `status`, `failure`, `retry` | what a failure means, its message without credentials, and when a request is repeated |
//! | [`http_server`] | the server: connections, access, requests and streams of events, for a service of another crate |
//! | [`egress`] | requests of plugins: checked against a grant, with credentials that the plugin does not see |
//!
//! # What it must not name
//!
//! This is the only crate that names reqwest. It knows no wire format of a model, no MCP and no plugin: of the crates of
//! this project it depends on `shelly-core` alone.
//!
//! # A request
//!
//! ```no_run
//! use shelly_net::{AuthHeader, HttpClient, HttpRequest, Secret, endpoint};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), shelly_core::error::Fault> {
//! let url = endpoint("https://api.example.com/v1", &["models"])?;
//! let auth = Some(AuthHeader::bearer(Secret::new("sk-123")));
//! let response = HttpClient::new()?.get(&HttpRequest { auth, ..HttpRequest::new(url) }).await?;
//! let models = response.read(1 << 20).await?;
//! # drop(models);
//! # Ok(()) }
//! ```

mod address;
mod client;
pub mod egress;
mod exchange;
mod failure;
mod http_request;
pub mod http_server;
mod proxy;
mod rate;
mod request_header;
mod response;
mod restricted_client;
mod retry;
mod secret;
mod secret_command;
mod secret_source;
pub mod sse;
mod status;
mod tls;

pub use address::{endpoint, is_loopback, is_private, is_readable_on_the_way, origin};
pub use client::HttpClient;
pub use exchange::HttpResponse;
pub use failure::{FailedAttempt, mend};
pub use http_request::HttpRequest;
pub use proxy::{HttpClientConfig, ProxyUrl};
pub use rate::{RateLimitStatus, RateLimits};
pub use request_header::{AuthHeader, header_name};
pub use response::{ByteStream, SuccessResponse};
pub use retry::{Retries, RetryObserver, RetryPause};
pub use secret::Secret;
pub use secret_source::{Keyring, ResolvedSecret, SecretError, SecretSource};
pub use status::{fault as fault_of_status, fault_in_reply, shown};
