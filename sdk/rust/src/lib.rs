#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

// The modules in reading order.
pub mod tool;
pub mod types;

pub mod coordinator;
pub mod effect;
mod kinds;
pub mod media;
pub mod names;
pub mod near;
pub mod shorten;
mod streamed;
pub mod summary;
pub mod text;
pub use kinds::{model_middleware, provider, run_middleware, tool_middleware};

pub mod chat;
pub mod http;
mod imports;
pub use imports::{attachments, clock, outgoing, process, random};
pub use imports::{config, log, progress, sink};

mod export;
#[cfg(feature = "fs")]
pub mod fs;
#[cfg(any(all(target_arch = "wasm32", feature = "heap"), test))]
mod heap;
mod json;
pub mod kv;

pub use streamed::Streamed;
pub use tool::{Call, NoArgs, Reply, Tool};
pub use types::{Content, Error, Message, Part, ToolHints};

// Lets a plugin use the versions that the SDK was built with.
pub use {schemars, serde, serde_json};

#[doc(hidden)]
pub use export::Guarded;

#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

// The functions of the host: in a component the generated ones, elsewhere those of a `testing::Host`.
#[cfg(target_arch = "wasm32")]
use bindings::imports::shelly::plugin as host;
#[cfg(not(target_arch = "wasm32"))]
use testing::fakes as host;

#[doc(hidden)]
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod bindings;
