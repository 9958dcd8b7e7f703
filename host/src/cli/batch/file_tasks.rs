use std::path::Path;

use super::{schema_cache::SchemaCache, task_file::TaskFile, task_survey::used_by};
use crate::{
    error::Report,
    task::{AnswerSchema, AttachedFile},
};

/// The tasks of a file, read for another command.
pub struct FileTasks {
    file: TaskFile,
    schemas: SchemaCache,
}

/// A task of a file, with everything that it names.
pub struct FileTask {
    /// The number of its line.
    pub line_number: u64,
    pub id: String,
    pub text: String,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub attachments: Vec<AttachedFile>,
    pub schema: Option<AnswerSchema>,
}

impl FileTasks {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Report> {
        Ok(Self { file: TaskFile::open(path)?, schemas: SchemaCache::default() })
    }

    /// Checks all tasks, and returns their number. `check_runner` checks the agent and the model that a task names.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the line and the mend of the first one that cannot be used.
    pub fn check(
        path: &Path,
        check_runner: impl Fn(Option<&str>, Option<&str>) -> Result<(), Report>,
    ) -> Result<usize, Report> {
        let (mut file, schemas) = (TaskFile::open(path)?, SchemaCache::default());
        let mut count = 0;
        while let Some(task) = file.next()? {
            task.check(&schemas)
                .map_err(|report| report.in_file(format!("{}, line {}", file.shown(), task.line_number)))?;
            check_runner(task.agent.as_deref(), task.model.as_deref())
                .map_err(|report| used_by(report, file.shown(), task.line_number))?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns the next task; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the line, or the file that the task names, and the mend.
    pub fn next(&mut self) -> Result<Option<FileTask>, Report> {
        let Some(task) = self.file.next()? else { return Ok(None) };
        let schema = task.answer_schema(&self.schemas)?;
        let attachments = AttachedFile::read_all(&task.attachments)?;
        let (line_number, id, text) = (task.line_number, task.id, task.text);
        Ok(Some(FileTask { line_number, id, text, agent: task.agent, model: task.model, attachments, schema }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn line_that_names_an_unknown_runner_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "{\"task\": \"a\"}\n\n{\"task\": \"b\", \"agent\": \"ada\", \"model\": \"m\"}\n")
            .unwrap();
        let checked = |agent: &'static str, model: &'static str| {
            FileTasks::check(&path, |of_task, on_model| {
                match (of_task.is_none_or(|name| name == agent), on_model.is_none_or(|name| name == model)) {
                    (true, true) => Ok(()),
                    (is_known, _) => Err(Report::new(ErrorKind::Usage, if is_known { "no model" } else { "no agent" })),
                }
            })
        };
        assert_eq!(checked("ada", "m"), Ok(2));
        for (agent, model, says) in [("bob", "m", "no agent"), ("ada", "n", "no model")] {
            let report = checked(agent, model).unwrap_err();
            assert!(report.message == says && report.causes[0].ends_with("t.jsonl, line 3"), "{report}");
        }
    }
}
