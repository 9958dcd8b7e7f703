//! Encryption of what the server stores, under keys that the server never has.
//!
//! - `content_key.rs` reads and creates key files, and derives keys from them.
//! - `content_seals.rs` seals and opens values; each is bound to its place.

mod content_key;
mod content_seals;

pub use content_key::ContentKey;
pub(crate) use content_seals::{ContentSeals, NO_TAG, SealKind, SealPlace, SealTag};
