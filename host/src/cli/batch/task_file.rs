use std::path::{Path, PathBuf};

use super::{bounded_lines::BoundedLines, task_line::BatchTask};
use crate::{
    error::{ErrorKind, Report, legible, why_unreadable},
    files, limits,
};

/// A tasks file, read line by line.
pub(super) struct TaskFile {
    lines: BoundedLines,
    /// The path for messages.
    shown: String,
    /// The folder in which attached files and schemas are looked for.
    folder: PathBuf,
}

impl TaskFile {
    /// Opens the file. It must be a regular file, because it is read twice: once to check it, once to run it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Report> {
        let file = files::open(path).map_err(|error| unreadable(path, &error))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let lines = BoundedLines::new(file, limits::TASK_LINE_BYTES);
        Ok(Self { lines, shown: shown(path), folder })
    }

    /// Returns the path for messages.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the next task; `None` at the end of the file. Blank lines are skipped.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the line and the mend.
    pub fn next(&mut self) -> Result<Option<BatchTask>, Report> {
        self.next_checked()?.transpose()
    }

    /// Returns the next task, or the mistake in its line, as [`next`](Self::next) does: after a mistake, further lines can be
    /// read.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the file cannot be read on.
    pub fn next_checked(&mut self) -> Result<Option<Result<BatchTask, Report>>, Report> {
        loop {
            let line = self.lines.next().map_err(|error| unreadable(Path::new(&self.shown), &error))?;
            let Some(line) = line else { return Ok(None) };
            if let Some(task) = BatchTask::parse(line, &self.shown, &self.folder).transpose() {
                return Ok(Some(task));
            }
        }
    }
}

/// Returns a path for messages.
pub(super) fn shown(path: &Path) -> String {
    legible(&files::without_dots(path).display().to_string())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Report {
    let report = Report::new(ErrorKind::Usage, format!("cannot read the tasks file {}", shown(path)));
    report.cause(why_unreadable(error)).hint("name a file with one task per line: --tasks tasks.jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_numbered_by_their_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "{\"task\": \"a\"}\n\n{\"task\": \"b\", \"attachments\": [\"x\"]}\n{\"task\": }")
            .unwrap();
        let mut tasks = TaskFile::open(&path).unwrap();
        assert_eq!(tasks.next().unwrap().unwrap().id, "1");
        let third = tasks.next().unwrap().unwrap();
        assert_eq!((third.id.as_str(), third.attachments), ("3", vec![folder.path().join("x")]));
        let report = tasks.next().unwrap_err();
        assert!(report.message.ends_with("t.jsonl, line 4: invalid task"), "{report}");
        assert!(tasks.next().unwrap().is_none());
        let report = TaskFile::open(folder.path()).err().unwrap();
        assert!(report.to_string().ends_with("expected a file, found a folder") && report.hint.is_some(), "{report}");
    }
}
