//! Entry points for fuzzing: parsers of untrusted input that are not part of the public API, one function each.
//!
//! For tests alone: the properties of these functions (`tests/fuzz/claims.rs`) are shared by `cargo test` and the fuzz
//! targets, which are separate packages and reach only public items. There are no stability guarantees.

pub use shelly_plugin_host::fuzz::*;
pub use shelly_provider::fuzz::*;
pub use shelly_session::journal_line;
