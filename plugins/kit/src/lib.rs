//! What several of our guests share: params that are checked as they are read, and secrets that are found in texts. It is
//! a library, no plugin: each guest takes what it names.

mod params;
mod pattern;
pub mod secrets;

pub use params::{Span, at_most, bad};
pub use pattern::{Glob, Pattern};
