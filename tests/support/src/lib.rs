//! Shared by the unit tests of several crates below `host/`, and independent of them.

mod minisign_key;
mod odd_json;
mod test_server;

pub use minisign_key::MinisignKey;
pub use odd_json::odd_json;
pub use test_server::{CannedResponse, TestServer, answer};
