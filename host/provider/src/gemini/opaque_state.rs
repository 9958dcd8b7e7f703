//! Tags of opaque state that only this vendor understands. It is stored with the parts of a reply and sent back.

/// The signature of a thought.
pub const THOUGHT: &str = "gemini.thought:";
/// The signature of the text before it.
pub const TEXT: &str = "gemini.text:";
/// A signature in a part of its own.
pub const ALONE: &str = "gemini.alone:";
/// The signature of a call, in the call's metadata.
pub const CALL: &str = "gemini.thought_signature";
/// The vendor's id of a call, in the call's metadata. The chat may use another id, and not every model assigns one.
pub const ID: &str = "gemini.id";
