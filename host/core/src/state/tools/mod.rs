//! Tools through which models use blackboards, tasks and notes.

mod blackboard;
mod hints;
mod notes;
mod tasks;
#[cfg(test)]
mod tests;
mod waiting;

pub use blackboard::blackboard_tools;
pub use notes::note_tools;
pub use tasks::task_tools;
