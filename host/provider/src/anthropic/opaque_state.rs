//! Prefixes of opaque state that only this vendor understands. It is stored with the thoughts of a reply and sent back.

/// The prefix of opaque state that proves a thought to be the model's own; the vendor's `signature` follows.
pub const SIGNATURE: &str = "anthropic.signature:";
/// The prefix of opaque state that holds a thought hidden by the vendor; its `data` follows.
pub const REDACTED: &str = "anthropic.redacted:";
