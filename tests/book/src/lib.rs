//! The reference pages of the book, each written from the source that it describes: the contract from `wit/`, the commands from
//! the parser of the command line, bounds and events from the doc comments of their types.
//!
//! The pages are committed. The test [`pages`] compares them with what the sources say now; with `SHELLY_UPDATE_DOCS=1` it
//! writes them anew:
//!
//! ```sh
//! SHELLY_UPDATE_DOCS=1 cargo test -p shelly-book
//! ```

mod commands;
mod contract;
mod contract_examples;
mod contract_links;
mod events;
mod json_schema;
mod limits;
mod markdown;
mod page;
mod rust_source;
#[cfg(test)]
mod tests;
mod wit_text;

pub use page::{ReferencePage, pages};
