//! A library that several guests share: params that are checked when they are read, detection of secrets in texts, HTML
//! to Markdown, the layout of JSON, measuring of texts, and helpers for stand-ins of models. It is not a plugin; each
//! guest uses the modules that it needs.

#[cfg(feature = "html")]
pub mod html;
pub mod json;
pub mod measure;
pub mod model;
mod params;
mod pattern;
pub mod secrets;

pub use params::{Span, at_most, bad};
pub use pattern::{Glob, Pattern};
