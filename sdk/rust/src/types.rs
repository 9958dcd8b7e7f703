//! The words that all kinds share, as `wit/types.wit` has them, with what makes them short to write in Rust.

#[doc(inline)]
pub use crate::bindings::imports::shelly::plugin::types::*;

impl ToolHints {
    /// A tool that only computes from its arguments: changes nothing, the same again, nothing of the world in it.
    pub const PURE: ToolHints = ToolHints::all();
}

impl Error {
    /// Anything that has no case of its own.
    pub fn other(cause: impl std::fmt::Display) -> Error {
        Error::Other(cause.to_string())
    }

    /// The text, whatever the case.
    pub fn message(&self) -> &str {
        match self {
            Error::Invalid(text)
            | Error::Denied(text)
            | Error::NotFound(text)
            | Error::TooLarge(text)
            | Error::Exhausted(text)
            | Error::Timeout(text)
            | Error::Other(text) => text,
            Error::RateLimited(retry) | Error::Unavailable(retry) => &retry.message,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Text(text)
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Part {
        Part::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Part {
        Part::Text(text)
    }
}

impl Message {
    /// A message of one text, from nobody in particular.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message { sender: String::new(), role, parts: vec![Part::Text(text.into())], meta: Vec::new() }
    }

    /// Its text parts, one after the other.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}

impl ToolResult {
    /// Its texts and its JSON, one a line.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Text(text) | Content::Json(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}

impl Default for Usage {
    /// Nothing used.
    fn default() -> Usage {
        Usage { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 }
    }
}
