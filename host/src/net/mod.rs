//! The way out: one HTTP client for the whole process. Only here: reqwest.
//!
//! It follows no redirects and asks no proxies, bounds time and size of whatever a server says, tries again what may
//! pass, and turns every failure into a [`Fault`](crate::error::Fault) that never shows a key.

mod client;
mod secret;
mod status;
#[cfg(test)]
pub(crate) mod test_server;

pub use client::{Auth, ByteStream, HttpClient, Reply, Request, endpoint, header_name, origin};
pub use secret::Secret;
pub use status::{fault_in_reply, shown};
