//! Conversions between the contract's types and the host's, with bounds on everything that a guest returns.

mod from_guest;
mod payload_size;
mod text;
mod to_guest;

#[cfg(test)]
mod tests;

pub use super::bindings::types::Error as WitError;
pub use from_guest::*;
pub use payload_size::GuestPayload;
pub use text::{bounded, sha256};
pub use to_guest::*;
