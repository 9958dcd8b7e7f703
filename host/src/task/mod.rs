//! The task that a person gives to a run: its text, the files that are attached to it, and the JSON Schema that its answer
//! follows. Tasks that agents delegate, and those of the task board, are others.
//!
//! - `marked_text.rs` puts text of others into a task, between marks.
//! - `attached_file.rs` reads a file that is attached to a task.
//! - `answer_schema.rs` enforces a schema on the answer of an agent or team; `schema_references.rs` resolves the references in it,
//!   and `schema_fallback.rs` asks again without it where a server refuses it.
//! - `task_input.rs` makes all of it the message that an agent gets.

mod answer_schema;
mod attached_file;
mod marked_text;
mod schema_fallback;
mod schema_references;
mod task_input;

pub use answer_schema::AnswerSchema;
pub use attached_file::{AttachedFile, AttachedFileError};
pub(crate) use marked_text::{marked_text, without_marked_texts};
pub use task_input::TaskInput;
