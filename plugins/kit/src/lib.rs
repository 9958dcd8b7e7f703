//! What several of our guests share: params that are checked as they are read, secrets that are found in texts, HTML as
//! Markdown, what a text measures, what stands in for a model. It is a library, no plugin: each guest takes what it names.

#[cfg(feature = "html")]
pub mod html;
pub mod measure;
pub mod model;
mod params;
mod pattern;
pub mod secrets;

pub use params::{Span, at_most, bad};
pub use pattern::{Glob, Pattern};
