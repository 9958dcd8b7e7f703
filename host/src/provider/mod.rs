//! Models over HTTP: native completers. Wire formats are private to each.

mod adapter;
mod anthropic;
mod arguments;
mod assembly;
mod batch;
mod discovery;
mod gemini;
#[cfg(test)]
mod heard;
mod incoming;
mod lent;
mod listing;
mod media;
mod names;
mod openai;
mod printed;
mod responses;
mod schema;
mod served;
mod text;
mod think;
mod vendor;
mod wire;

pub use adapter::{AdapterConfig, ModelAdapter};
pub use anthropic::Anthropic;
pub use batch::{BatchWire, Entry, HttpBatches, Outcome, Results};
pub use discovery::{Found, discover, key_variables, key_variables_in_words, local_servers_in_words};
pub use gemini::Gemini;
pub use incoming::{Incoming, Source};
pub use listing::ListedModel;
pub use names::{NameRule, Names};
pub use openai::{ChatCompletions, MaxTokensField};
pub use responses::Responses;
pub use served::{Served, ServedWindow, WindowProbe};
pub use vendor::{Api, Preset, Vendor, WireOptions};
pub use wire::{HttpModel, Wire};

pub(crate) use crate::net::sse;
