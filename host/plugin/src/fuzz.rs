//! Entry points for fuzzing: parsers of untrusted input that are not part of the public API, one function each.
//!
//! For tests alone: the properties of these functions (`tests/fuzz/claims.rs`) are shared by `cargo test` and the fuzz
//! targets, which are separate packages and reach only public items. There are no stability guarantees.

use shelly_core::{
    capability::Powers,
    chat::{Message, Part, ToolSpec},
    error::Fault,
    model::Completion,
};

use crate::{PluginManifest, convert};

/// Parses a `plugin.toml`.
///
/// # Errors
///
/// A description of the mistake.
pub fn manifest(text: &str) -> Result<PluginManifest, String> {
    PluginManifest::parse(text)
}

/// Converts a message to its form for a guest and back, in a call that received the media of `handed`.
///
/// # Errors
///
/// The error with which a guest's message is refused.
pub fn message(message: &Message, handed: &[Part]) -> Result<Message, Fault> {
    convert::message(convert::message_to_wit(message), &convert::GuestMediaIndex::in_parts(handed))
}

/// Converts a message to the form that a guest with these powers sees, and back.
///
/// # Errors
///
/// The error with which a guest's message is refused.
pub fn message_seen(message: &Message, powers: &Powers) -> Result<Message, Fault> {
    let attached = convert::GuestMediaIndex::in_parts(&message.parts);
    convert::message(convert::message_seen(message, powers), &attached)
}

/// Converts a completion to its form for a guest and back.
///
/// # Errors
///
/// The error with which a guest's completion is refused.
pub fn completion(completion: &Completion) -> Result<Completion, Fault> {
    let attached = convert::GuestMediaIndex::in_parts(&completion.parts);
    convert::completion(convert::completion_to_wit(completion), &attached)
}

/// Converts a failure to its form for a guest and back.
pub fn fault(fault: &Fault) -> Fault {
    convert::fault(convert::fault_to_wit(fault))
}

/// Validates a tool as a guest describes it.
///
/// # Errors
///
/// The reason for which the tool cannot be offered.
pub fn tool_spec(name: &str, description: &str, schema: &str) -> Result<ToolSpec, String> {
    convert::described(name, description, schema)
}
