//! State that agents share besides their conversations: blackboards, task boards, notes on disk, and the tools for them.
//!
//! Each type is a handle: clones refer to the same board or folder. Locks are held briefly and never across an await.
//! Dropping the future cancels a wait.

mod blackboard;
mod notes;
mod reflections;
mod shown_name;
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
pub use watched_value::{StateChangeFn, StateRestoreError};
