use std::path::PathBuf;

use clap::Args;

use crate::{
    chat::Message,
    error::{ErrorKind, Report},
    task::{AnswerSchema, AttachedFile, TaskInput},
};

/// The options of a task: the files that are attached to it, and the schema of its answer.
#[derive(Args, Default)]
pub struct TaskMaterialArgs {
    /// Attach a file to the task: UTF-8 text, a PNG, JPEG, GIF or WebP image, or a PDF; repeatable. A model that takes no
    /// images or PDFs gets their names and sizes.
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// Require an answer that follows the JSON Schema in this file, and print it as JSON. An answer that does not follow is
    /// asked for again.
    #[arg(long, value_name = "FILE")]
    pub schema: Option<PathBuf>,
}

impl TaskMaterialArgs {
    /// Reads the schema of the answer.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the file cannot be read, or the schema cannot be used.
    pub fn answer_schema(&self) -> Result<Option<AnswerSchema>, Report> {
        self.schema.as_deref().map(AnswerSchema::read).transpose()
    }

    /// Reads the attached files.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a file cannot be attached.
    pub fn attachments(&self) -> Result<Vec<AttachedFile>, Report> {
        AttachedFile::read_all(&self.attach)
    }

    /// Returns the message that gives an agent the task with its files and the schema; `None` without a task.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a file cannot be attached, or there is no task for the files.
    pub(super) fn message(
        &self,
        task: Option<String>,
        schema: Option<&AnswerSchema>,
    ) -> Result<Option<Message>, Report> {
        let Some(text) = task else {
            return match self.attach.is_empty() {
                true => Ok(None),
                false => Err(Report::new(ErrorKind::Usage, "attached files without a task")
                    .hint("give the task after the session, or omit --attach")),
            };
        };
        let attachments = self.attachments()?;
        Ok(Some(TaskInput { text, attachments, schema: schema.cloned() }.into_message()))
    }
}
