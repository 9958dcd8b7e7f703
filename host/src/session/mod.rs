//! Sessions on disk: a journal of what the agents did, written as it happens, so that they go on after a crash.
//!
//! A [`Store`] is the folder that holds all sessions of a project. A [`Session`] is one that is open for writing: it is
//! the [`Recorder`](crate::agent::journal::Recorder) of its runs. What is on disk is described, for whoever wants to
//! read it without us, in `host/docs/sessions.md`.
//!
//! The store blocks: call it from a thread that may. An open session never does; a thread of its own writes.

mod attachments;
mod error;
mod fork;
mod format;
mod list;
mod memory;
mod prune;
mod reader;
mod recall;
mod search;
mod secrets;
#[expect(clippy::module_inception, reason = "the type that the room is named after")]
mod session;
mod storage;
mod store;
mod writer;

pub use error::SessionError;
pub use format::{Digest, Fork, Header, Part, PartKind, VERSION};
pub use list::{Status, Summary, Usage};
pub use memory::{DiskFault, MemoryDisk};
pub use prune::{Policy, Pruned};
pub use reader::{Journal, Line, What};
pub use search::Found;
pub use secrets::Secrets;
pub use session::Session;
pub use storage::{Disk, Entry, Kind, Storage, StoredFile};
pub use store::{New, Opened, Opening, Options, Store};

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;
