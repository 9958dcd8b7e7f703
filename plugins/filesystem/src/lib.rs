//! Tools for files: read, list, compare, write, edit, move, delete.
//!
//! The plugin writes nothing itself: it returns each change as a proposal, which the host shows to a person and carries
//! out.
//!
//! Params: `root`, the absolute path of a folder that was granted under that path; relative paths begin there. For a path
//! outside of all granted folders the plugin has the host ask for access, where the config allows it.

use serde::Deserialize;
use shelly_plugin::{
    Error, Reply, ToolHints, config,
    fs::{self, Kind, Metadata},
};

mod change;
mod diff;
mod edit;
mod lines;
mod look;
mod read;
mod sniff;

use change::{Copy, Delete, Edit, Mkdir, Move, Patch, Write};
use look::{Diff, List, Stat};
use read::{Read, ReadLines};

shelly_plugin::export!(tools: [Read, ReadLines, Write, Edit, Patch, List, Stat, Diff, Delete, Move, Copy, Mkdir]);

/// The hints of the tools that only read.
const READS: ToolHints = ToolHints::all();

/// The reason why a call has no result of its own.
#[derive(Debug)]
enum Halt {
    /// The call needs this folder.
    Folder(String),
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

/// Converts the result of a call to the contract's types.
fn answer(result: Result<Reply, Halt>) -> Result<Reply, Error> {
    match result {
        Ok(reply) => Ok(reply),
        Err(Halt::Folder(path)) => Ok(Reply::needs_folder(&path)),
        Err(Halt::Failed(error)) => Err(error),
    }
}

fn invalid(why: String) -> Halt {
    Halt::Failed(Error::Invalid(why))
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Params {
    root: Option<String>,
}

/// Returns the path of an argument in the form that the functions of `fs` take.
fn plain(path: &str) -> Result<String, Halt> {
    let Params { root } = config()?;
    if root.as_ref().is_some_and(|root| !root.starts_with('/')) {
        return Err(invalid("params: `root` must be the absolute path of a folder".into()));
    }
    Ok(fs::path_below(root.as_deref(), path)?)
}

/// Returns the path of a file, or of anything else in a folder, if its folder is granted.
fn inside(path: &str) -> Result<String, Halt> {
    let path = plain(path)?;
    if fs::is_outside(&path) { Err(Halt::Folder(parent(&path).to_owned())) } else { Ok(path) }
}

/// Returns the path of a folder, if it is granted.
fn folder(path: &str) -> Result<String, Halt> {
    let path = plain(path)?;
    if fs::is_outside(&path) { Err(Halt::Folder(path)) } else { Ok(path) }
}

/// Returns the folder that contains a normalized path.
fn parent(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((parent, _)) => parent,
        None => ".",
    }
}

/// Returns the facts about a path, which must exist.
fn there(path: &str) -> Result<Metadata, Halt> {
    fs::metadata(path).map_err(|error| Halt::Failed(fs::with_near_names(error, path)))
}

/// Returns the facts about a path if it exists. A link at its end is not followed.
fn found(path: &str) -> Result<Option<Metadata>, Halt> {
    match fs::link_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Folder => "folder",
        Kind::Link => "link",
        Kind::Other => "device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_folder_of_a_path() {
        for (path, expected) in [("a", "."), ("a/b", "a"), ("/a", "/"), ("/a/b", "/a"), ("/a/b/c", "/a/b")] {
            assert_eq!(parent(path), expected, "{path}");
        }
    }

    #[test]
    fn missing_folder_is_requested_and_errors_are_kept() {
        assert_eq!(answer(Err(Halt::Folder("/data".into()))), Ok(Reply::needs_folder("/data")));
        assert_eq!(answer(Err(invalid("why".into()))), Err(Error::Invalid("why".into())));
        assert_eq!(plain("./a/../b").unwrap(), "b");
        assert!(matches!(plain("~/x"), Err(Halt::Failed(Error::Invalid(_)))));
    }
}
