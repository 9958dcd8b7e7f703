//! What agents share beside their conversations: blackboards, a board of tasks, notes on disk, and the tools for them.
//!
//! Each is a handle: clones are the same board or folder. Locks are held for moments, never while something is waited
//! for; whoever waits stops by dropping the future.

mod blackboard;
mod notes;
mod reflections;
mod tasks;
mod tools;
mod watched_value;

pub use blackboard::{Blackboard, BlackboardChange, BlackboardEntry, BlackboardError};
pub use notes::{NoteError, NoteList, NoteStore, NoteSummary};
pub use reflections::ReflectionStore;
pub use tasks::{
    ClaimedTask, NewTask, Task, TaskActor, TaskBlocker, TaskBoard, TaskDependency, TaskError, TaskFilter, TaskMetadata,
    TaskStatus, TaskStatusReport, TaskUpdate,
};
pub use tools::{blackboard_tools, note_tools, task_tools};
pub use watched_value::StateRestoreError;

use crate::{error::cut, limits};

/// A name that was given and is wrong, as an error repeats it.
fn named(name: &str) -> String {
    cut(name, limits::NAME_SHOWN_CHARS)
}
