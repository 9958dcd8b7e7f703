//! The list of reference pages, and where they are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{commands, contract::Contract, events, json_schema, limits};

/// A page of the book that is written from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferencePage {
    /// The path below `docs/`.
    pub path: String,
    /// The Markdown, with a comment at its top that names the source.
    pub text: String,
}

impl ReferencePage {
    /// Creates a page from the Markdown below its comment.
    pub fn new(path: impl Into<String>, source: &str, markdown: &str) -> Self {
        let text = format!(
            "<!-- Generated from {source}. Change that, then run: SHELLY_UPDATE_DOCS=1 cargo test -p shelly-book -->\n\n{}\n",
            markdown.trim_end()
        );
        Self { path: path.into(), text }
    }
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap_or(root)
}

/// Returns the text of a source file, by its path below the root of the repository.
///
/// # Panics
///
/// If the file cannot be read: the sources are part of the repository.
pub fn source(path: &str) -> String {
    let file = root().join(path);
    fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns all reference pages, as the sources say now.
///
/// # Panics
///
/// If a source has a form that no page can show; the message names it.
pub fn pages() -> Vec<ReferencePage> {
    let mut pages = Contract::read(&root().join("wit")).pages();
    pages.push(commands::page(&shelly_host::cli::command()));
    pages.push(json_schema::page(&shelly_host::config::json_schema(), "host/src/config"));
    pages.push(limits::page());
    pages.push(events::page());
    pages.push(events::schema_file(&shelly_host::cli::event_stream_schema()));
    pages
}
