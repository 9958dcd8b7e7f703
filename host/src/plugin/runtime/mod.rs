//! The engine that plugins run in, and one call of one plugin.

mod cache;
mod call;
mod engine;
mod limiter;
mod state;

pub use engine::PluginEngine;
pub(super) use call::{CallSetup, Lane};
pub(super) use limiter::Limiter;
pub(super) use state::{ChatView, PluginState, Progress};
