//! File changes that tools propose and the host applies.
//!
//! A tool writes nothing: it states the new content of a file and the content from which it started. A [`ChangePlan`] checks
//! that against the present files and shows the difference; the person or policy that may approve it is asked with that
//! diff. [`ChangeApplier::apply`] then makes all changes of the plan or none, only where everything is still as shown. It
//! records the previous contents, so that the changes of a session can be undone and interrupted ones are rolled back.
//!
//! Files that the person has open in a [`EditorBuffers`] may have unsaved text: [`ChangeApplier::plan_over`] plans over it,
//! after [`UnsavedText::rebase`] has made the proposals from it. The disk is changed only after the editor has saved it.
//!
//! No link leads out of the folder for which a change is meant: the path is resolved once, must lie in that folder, and is
//! then opened without following links.

mod apply;
mod change_path;
mod change_summary;
mod changes;
mod diff;
mod display;
mod editor_buffers;
mod error;
mod file_change;
mod fingerprint;
mod folder;
mod known_names;
mod line_merge;
mod plan;
mod planned_change;
mod planned_tree;
mod protected_files;
mod record;
#[cfg(test)]
mod tests;
mod unsaved_text;

pub use change_path::ChangePath;
pub use change_summary::ChangeSummary;
pub use changes::{ChangeApplier, ChangeHistory, ChangeOrigin, UndoableChange};
pub use diff::text_difference;
pub use editor_buffers::{EditorBuffers, EditorBuffersError};
pub use error::ChangeError;
pub use file_change::{FileChange, FileChangeAction};
pub use fingerprint::content_digest;
pub use plan::ChangePlan;
pub use record::recover;
pub use unsaved_text::{SavedText, UnsavedText};
