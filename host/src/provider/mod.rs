//! Models over HTTP: native completers. Wire formats are private to each.

mod discovery;
mod openai;
pub(crate) mod sse;

pub use discovery::{Found, discover, key_variables};
pub(crate) use openai::reply;
pub use openai::{MaxTokensField, OpenAi, OpenAiConfig, list_models};
