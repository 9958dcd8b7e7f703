//! Models over HTTP: native completers. Wire formats are private to each.

mod discovery;
mod openai;
mod sse;

pub use discovery::{Found, discover, key_variables};
pub use openai::{MaxTokensField, OpenAi, OpenAiConfig, list_models};
