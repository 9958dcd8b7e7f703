//! The first reading of a tasks file: every mistake in it is found before the first task runs.

use std::path::Path;

use super::{
    schema_cache::SchemaCache,
    task_file::TaskFile,
    task_index::TaskIndex,
    task_line::{BatchTask, is_of_list},
};
use crate::{
    error::{ErrorKind, Report, legible},
    limits,
};

/// The tasks of a file, without their content.
pub(super) struct TaskSurvey {
    pub index: TaskIndex,
    /// The different pairs of agent and model, in order of first appearance.
    pub runners: Vec<RunnerUse>,
}

/// An agent or team on a model, as a task names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RunnerUse {
    pub agent: Option<String>,
    pub model: Option<String>,
    /// The first line that names them.
    pub line_number: u64,
}

impl RunnerUse {
    /// Returns `report` with the line that names the runner.
    pub fn explain(&self, report: Report, tasks: &str) -> Report {
        used_by(report, tasks, self.line_number)
    }
}

/// Returns the report of an agent or a model with the line of the tasks file `tasks` that names it.
pub(super) fn used_by(report: Report, tasks: &str, line_number: u64) -> Report {
    report.cause(format!("used by {tasks}, line {line_number}"))
}

impl TaskSurvey {
    /// Reads a tasks file to its end. `defaults` are the agent and the model of the command line.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the line and the mend.
    pub fn new(path: &Path, defaults: (Option<&str>, Option<&str>), schemas: &SchemaCache) -> Result<Self, Report> {
        let mut tasks = TaskFile::open(path)?;
        let (mut survey, mut mistakes) = (Self { index: TaskIndex::default(), runners: Vec::new() }, Vec::new());
        while mistakes.len() < limits::TASK_MISTAKES
            && let Some(task) = tasks.next_checked()?
        {
            if survey.index.len() == limits::TASKS_IN_FILE {
                let most = limits::TASKS_IN_FILE;
                let report = Report::new(ErrorKind::Usage, format!("{} has more than {most} tasks", tasks.shown()));
                return Err(report.hint("split the file, for example with split -l"));
            }
            let is_first = mistakes.is_empty() && survey.index.len() == 0;
            if let Err(mistake) = task.and_then(|task| survey.add(&task, (path, tasks.shown()), defaults, schemas)) {
                let is_list = is_first && is_of_list(&mistake);
                mistakes.push(mistake);
                if is_list {
                    break;
                }
            }
        }
        if let Some(report) = all_mistakes(tasks.shown(), "lines that are no valid tasks", mistakes) {
            return Err(report);
        }
        if survey.index.len() == 0 {
            let report = Report::new(ErrorKind::Usage, format!("{} contains no tasks", tasks.shown()));
            return Err(report.hint("write one object per line, for example {\"task\": \"What is 2 + 2?\"}"));
        }
        Ok(survey)
    }

    /// Checks a task of the file at `path`, called `shown` in messages, and adds it.
    fn add(
        &mut self,
        task: &BatchTask,
        (path, shown): (&Path, &str),
        defaults: (Option<&str>, Option<&str>),
        schemas: &SchemaCache,
    ) -> Result<(), Report> {
        let place = format!("{shown}, line {}", task.line_number);
        if !self.index.add(&task.id) {
            let (id, earlier) = (legible(&task.id), line_of(path, &task.id)?);
            let report = Report::new(ErrorKind::Usage, format!("{place}: the id `{id}` is already used"));
            let hint = match task.id == task.line_number.to_string() {
                true => "give this task an id; without one, its line number is the id",
                false => "choose another id; results are identified by it",
            };
            return Err(report.cause(format!("line {earlier} has the same id")).hint(hint));
        }
        task.check(schemas).map_err(|mut report| {
            report.message = format!("{place}: {}", report.message);
            report
        })?;
        add_runner(&mut self.runners, task, defaults, &place)
    }
}

/// Returns one report of all mistakes in the tasks file `file`; `None` if there are none. `what` says what a mistake is.
pub(super) fn all_mistakes(file: &str, what: &str, mut mistakes: Vec<Report>) -> Option<Report> {
    if mistakes.len() < 2 {
        return mistakes.pop();
    }
    let is_cut = mistakes.len() == limits::TASK_MISTAKES;
    let least = if is_cut { "at least " } else { "" };
    let report = Report::new(mistakes[0].kind, format!("{file} has {least}{} {what}", mistakes.len()));
    let report = mistakes.iter().fold(report, |report, mistake| {
        let text = mistake.with_hint();
        report.cause(text.strip_prefix(&format!("{file}, ")).unwrap_or(&text))
    });
    Some(report.hint("shelly-host batch --help says what a line contains"))
}

/// Adds the runner of a task, unless it is there.
fn add_runner(
    runners: &mut Vec<RunnerUse>,
    task: &BatchTask,
    (agent, model): (Option<&str>, Option<&str>),
    place: &str,
) -> Result<(), Report> {
    let (agent, model) = (task.agent.as_deref().or(agent), task.model.as_deref().or(model));
    if runners.iter().any(|known| known.agent.as_deref() == agent && known.model.as_deref() == model) {
        return Ok(());
    }
    if runners.len() == limits::TASK_RUNNERS {
        let most = limits::TASK_RUNNERS;
        let report = Report::new(ErrorKind::Usage, format!("{place}: more than {most} pairs of agent and model"));
        return Err(report.hint("split the file by agent and model"));
    }
    runners.push(RunnerUse {
        agent: agent.map(str::to_owned),
        model: model.map(str::to_owned),
        line_number: task.line_number,
    });
    Ok(())
}

/// Returns the first line that has this id.
fn line_of(path: &Path, id: &str) -> Result<u64, Report> {
    let mut tasks = TaskFile::open(path)?;
    while let Some(task) = tasks.next_checked()? {
        if let Ok(task) = task
            && task.id == id
        {
            return Ok(task.line_number);
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(lines: &str) -> Result<TaskSurvey, Report> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, lines).unwrap();
        std::fs::write(folder.path().join("there.txt"), "x").unwrap();
        TaskSurvey::new(&path, (None, Some("small")), &SchemaCache::default())
    }

    #[test]
    fn runners_are_collected_once() {
        let lines = "{\"task\": \"a\", \"attachments\": [\"there.txt\"]}\n{\"task\": \"b\", \"model\": \"large\"}\n\
                     {\"task\": \"c\", \"agent\": \"ada\"}\n{\"task\": \"d\", \"model\": \"small\"}\n";
        let survey = survey(lines).unwrap();
        let runners: Vec<_> = survey
            .runners
            .iter()
            .map(|uses| (uses.agent.as_deref(), uses.model.as_deref(), uses.line_number))
            .collect();
        assert_eq!(runners, [(None, Some("small"), 1), (None, Some("large"), 2), (Some("ada"), Some("small"), 3)]);
        assert_eq!(survey.index.len(), 4);
    }

    #[test]
    fn mistakes_of_a_tasks_file_name_line_and_mend() {
        for (lines, message, cause, hint) in [
            (
                "{\"id\": \"x\", \"task\": \"a\"}\n\n{\"id\": \"x\", \"task\": \"b\"}",
                "line 3: the id `x` is already used",
                "line 1 has the same id",
                "another id",
            ),
            (
                "{\"id\": \"2\", \"task\": \"a\"}\n{\"task\": \"b\"}",
                "line 2: the id `2` is already used",
                "line 1 has the same id",
                "give this task an id",
            ),
            (
                "{\"task\": \"a\", \"attachments\": [\"gone.txt\"]}",
                "line 1: cannot attach ",
                "no such file",
                "correct the path",
            ),
            (
                "{\"task\": \"a\", \"schema\": \"gone.json\"}",
                "line 1: cannot read the schema ",
                "no such file",
                "name a file",
            ),
            (
                "{\"task\": \"a\", \"schema\": {\"pattern\": \"a\"}}",
                "line 1: the schema of the answer cannot be used",
                "`pattern`",
                "`minLength`",
            ),
            ("\n \n", "t.jsonl contains no tasks", "", "write one object per line"),
        ] {
            let report = survey(lines).err().unwrap();
            assert!(report.message.contains(message), "{report}");
            assert!(report.to_string().contains(cause), "{report}");
            assert!(report.hint.as_ref().unwrap().contains(hint), "{report} {:?}", report.hint);
        }
    }

    #[test]
    fn all_bad_lines_are_reported_at_once() {
        let lines = |count: usize| "{\"task\": \"x\"}\nno\n".repeat(count);
        let report = survey(&lines(3)).err().unwrap();
        assert!(report.message.ends_with("t.jsonl has 3 lines that are no valid tasks"), "{report}");
        assert_eq!(report.causes.len(), 3);
        assert!(report.causes[1].starts_with("line 4: invalid task: ") && report.causes[1].contains("(write one"));
        let report = survey(&lines(limits::TASK_MISTAKES + 1)).err().unwrap();
        assert!(report.message.contains("at least 10 lines") && report.causes.len() == limits::TASK_MISTAKES);
        // The other lines of a list are no tasks either.
        let report = survey("[\n  {\"task\": \"x\"},\n  {\"task\": \"y\"}\n]\n").err().unwrap();
        assert!(report.message.ends_with("line 1: invalid task"), "{report}");
        assert!(report.hint.as_ref().unwrap().contains("not a list"), "{:?}", report.hint);
    }

    #[test]
    fn attached_files_of_one_task_are_bounded_together() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_len(limits::TASK_ATTACHED_BYTES / 2).unwrap();
        }
        let path = folder.path().join("t.jsonl");
        for (attachments, fits) in [("[\"a\", \"b\"]", true), ("[\"a\", \"b\", \"c\"]", false)] {
            std::fs::write(&path, format!("{{\"task\": \"x\", \"attachments\": {attachments}}}")).unwrap();
            let survey = TaskSurvey::new(&path, (None, None), &SchemaCache::default());
            assert_eq!(survey.is_ok(), fits, "{attachments}");
        }
    }
}
