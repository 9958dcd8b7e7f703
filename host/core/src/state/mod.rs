//! State that agents share besides their conversations: blackboards, task boards, notes, and the tools for them.
//!
//! Each type is a handle: clones refer to the same board or folder. Locks are held briefly and never across an await.
//! Dropping the future cancels a wait.

mod blackboard;
mod blackboard_document;
pub mod board_contract;
mod bucket_notes;
pub mod note_contract;
mod notes;
mod reflections;
mod shared_board;
mod shown_name;
mod tasks;
mod tools;
mod watched_value;

pub use blackboard::{Blackboard, BlackboardChange, BlackboardEntry, BlackboardError};
pub use bucket_notes::BucketNotes;
pub use notes::{NoteError, NoteList, NoteStorage, NoteStore, NoteSummary};
pub use reflections::{ReflectionStorage, ReflectionStore};
pub use tasks::{
    ClaimedTask, NewTask, Task, TaskActor, TaskBlocker, TaskBoard, TaskDependency, TaskError, TaskFilter, TaskMetadata,
    TaskStatus, TaskStatusReport, TaskUpdate,
};
pub use tools::{blackboard_tools, note_tools, task_tools};
pub use watched_value::{StateChangeFn, StateRestoreError};
