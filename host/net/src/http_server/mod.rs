//! The HTTP server of the host: one listener for the HTTP API and for MCP clients.
//!
//! A client is untrusted until its request shows the bearer token, and bounded after that. [`HttpServer`] accepts
//! connections, at most [`SERVE_CONNECTIONS`](shelly_core::limits::SERVE_CONNECTIONS) unless told otherwise, bounds the head
//! and the time of each request, and checks it against the [`AccessPolicy`] before an [`HttpService`] sees it: the name in
//! `Host` (a page of another site can have its name resolve to this machine), the `Origin`, the token. The service reads
//! the body of a [`ServedRequest`] up to a bound of its own. A [stream of events](event_stream()) takes its next event only
//! when the client has read those before it. With [`ServerTls`] it speaks TLS.

mod access_policy;
mod connections;
mod event_stream;
mod served_request;
mod served_response;
mod server;
mod server_tls;
#[cfg(test)]
mod tests;
mod write_timeout_stream;

pub use access_policy::{AccessDenied, AccessPolicy, BearerToken};
pub use event_stream::{SseFrame, event_stream, single_event_stream};
pub use served_request::{BodyError, ServedRequest};
pub use served_response::{ServedBody, ServedResponse, bytes_response, json_response, stream_response, text_response};
pub use server::{CrossOriginRules, HttpServer, HttpService, RouteAccess};
pub use server_tls::{ServerTls, ServerTlsError};
