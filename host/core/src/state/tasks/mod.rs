mod board;
mod error;
mod task;
mod task_board;
#[cfg(test)]
mod tests;

pub use error::TaskError;
pub use task::{
    ClaimedTask, NewTask, Task, TaskActor, TaskBlocker, TaskDependency, TaskFilter, TaskMetadata, TaskStatus,
    TaskStatusReport, TaskUpdate,
};
pub use task_board::TaskBoard;
