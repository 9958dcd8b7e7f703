//! Shared by the unit tests of several crates below `host/`, and independent of them.

mod odd_json;
mod test_server;

pub use odd_json::odd_json;
pub use test_server::{CannedResponse, TestServer, answer};
