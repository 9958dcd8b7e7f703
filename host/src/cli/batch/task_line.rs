use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::{bounded_lines::FileLine, schema_cache::SchemaCache};
use crate::{
    config,
    digest::Sha256Digest,
    error::{ErrorKind, Report, acts_on_terminal, cut, legible},
    limits,
    task::{AnswerSchema, AttachedFile},
};

/// One task of a tasks file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BatchTask {
    /// The number of its line.
    pub line_number: u64,
    pub id: String,
    pub text: String,
    /// The agent or team; `None`: the one of the command line.
    pub agent: Option<String>,
    /// The model; `None`: the one of the command line.
    pub model: Option<String>,
    pub attachments: Vec<PathBuf>,
    pub schema: Option<SchemaSource>,
    /// The digest of the line. A task whose line has changed is another task.
    pub digest: Sha256Digest,
    /// The bytes of the line.
    pub bytes: u64,
}

/// The schema of an answer: a JSON Schema in the task, or a file with one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SchemaSource {
    Inline(Value),
    File(PathBuf),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct TaskLine {
    id: Option<String>,
    task: String,
    agent: Option<String>,
    model: Option<String>,
    attachments: Option<Vec<PathBuf>>,
    schema: Option<Value>,
}

/// The keys of a line, for hints.
const KEYS: [&str; 6] = ["id", "task", "agent", "model", "attachments", "schema"];

const LIST_HINT: &str = "write one object per line, not a list, for example with jq -c '.[]' tasks.json > tasks.jsonl";

const EXAMPLE: &str = "write one object per line, for example {\"id\": \"a\", \"task\": \"What is 2 + 2?\"}";

impl BatchTask {
    /// Parses a line of the tasks file `file`; `None` for a blank line. Paths in it are relative to `folder`.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file, the line and the mend.
    pub fn parse(line: FileLine, file: &str, folder: &Path) -> Result<Option<Self>, Report> {
        let FileLine { number, bytes, is_too_long, .. } = line;
        let wrong = |cause: String, hint: &str| mistake(file, number, cause, hint);
        if is_too_long {
            let most = limits::TASK_LINE_BYTES;
            return Err(wrong(
                format!("the line has more than {most} bytes"),
                "write long text to a file and name it under `attachments`",
            ));
        }
        let (digest, size) = (Sha256Digest::of(&bytes), bytes.len() as u64);
        let text = String::from_utf8(bytes).map_err(|_| {
            wrong("the line is not UTF-8 text".into(), "convert the file to UTF-8, for example with iconv")
        })?;
        let text = text.strip_prefix('\u{feff}').filter(|_| number == 1).unwrap_or(&text).trim();
        if text.is_empty() {
            return Ok(None);
        }
        if text.starts_with('[') {
            return Err(wrong("the line is a JSON list, or begins one".into(), LIST_HINT));
        }
        let TaskLine { id, task, agent, model, attachments, schema } =
            serde_json::from_str(text).map_err(|error| unreadable(text, &error, file, number))?;
        let id = id.unwrap_or_else(|| number.to_string());
        if id.is_empty() || id.contains(acts_on_terminal) || id.chars().count() > limits::TASK_ID_CHARS {
            let most = limits::TASK_ID_CHARS;
            let cause = format!("`id` must have 1 to {most} characters, without line breaks and control characters");
            return Err(wrong(cause, "choose another id, or omit it: the id is then the line number"));
        }
        let attachments = attachments.unwrap_or_default();
        if task.trim().is_empty() {
            return Err(wrong("`task` is empty".into(), "write what to do"));
        }
        if task.len() > limits::TASK_BYTES {
            let cause = format!("`task` has more than {} bytes", limits::TASK_BYTES);
            return Err(wrong(cause, "write long text to a file and name it under `attachments`"));
        }
        if attachments.len() > limits::TASK_ATTACHMENTS {
            let cause = format!("`attachments` has more than {} files", limits::TASK_ATTACHMENTS);
            return Err(wrong(cause, "split the task, or grant the agent a plugin that reads files"));
        }
        let schema = match schema {
            None => None,
            Some(Value::String(path)) => Some(SchemaSource::File(folder.join(path))),
            Some(schema @ (Value::Object(_) | Value::Bool(_))) => Some(SchemaSource::Inline(schema)),
            Some(_) => {
                let hint = "write the schema as an object, or name a file that contains it";
                return Err(wrong("`schema` is neither a JSON Schema nor a path".into(), hint));
            }
        };
        let attachments = attachments.into_iter().map(|path| folder.join(path)).collect();
        Ok(Some(Self { line_number: number, id, text: task, agent, model, attachments, schema, digest, bytes: size }))
    }

    /// Checks that the attached files can be read and that the schema can be used. Returns the bytes that the task holds in
    /// memory while it runs.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the file and the mend.
    pub fn check(&self, schemas: &SchemaCache) -> Result<u64, Report> {
        self.answer_schema(schemas)?;
        Ok(self.bytes + AttachedFile::total_size(&self.attachments)?)
    }

    /// Returns the schema of the answer.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be read or used.
    pub fn answer_schema(&self, schemas: &SchemaCache) -> Result<Option<AnswerSchema>, Report> {
        self.schema.as_ref().map(|source| schemas.get(source)).transpose()
    }
}

/// Returns `true` if this mistake is that of a file that is one JSON list: its other lines are no tasks either.
pub(super) fn is_of_list(mistake: &Report) -> bool {
    mistake.hint.as_deref() == Some(LIST_HINT)
}

/// Reports a mistake in a line of a tasks file.
fn mistake(file: &str, line: u64, cause: String, hint: &str) -> Report {
    Report::new(ErrorKind::Usage, format!("{file}, line {line}: invalid task")).cause(cause).hint(hint)
}

/// Reports a line that is no JSON, or has other keys.
fn unreadable(text: &str, error: &serde_json::Error, file: &str, line: u64) -> Report {
    // The position within the line is all that matters: the parser calls every line the first one.
    let what = error.to_string();
    let what = what.split(" at line ").next().unwrap_or_default();
    let cause = format!("{}, column {}", cut(&legible(what), limits::FAILURE_SHOWN_CHARS), error.column());
    let unknown = serde_json::from_str::<serde_json::Map<String, Value>>(text).ok();
    let unknown = unknown.and_then(|keys| keys.keys().find(|key| !KEYS.contains(&key.as_str())).cloned());
    let near = unknown.and_then(|key| config::nearest(&key, &KEYS).map(str::to_owned));
    match near {
        Some(near) => mistake(file, line, cause, &format!("did you mean `{near}`?")),
        None => mistake(file, line, cause, EXAMPLE),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_at(number: u64, bytes: &[u8]) -> Result<Option<BatchTask>, Report> {
        let line = FileLine { number, start: 0, bytes: bytes.to_vec(), is_ended: true, is_too_long: false };
        BatchTask::parse(line, "t.jsonl", Path::new("/in"))
    }

    #[test]
    fn whole_task_line_is_read() {
        let line = r#"{"id": "a", "task": "Sum up.", "agent": "ada", "model": "large", "attachments": ["x.txt", "/y"], "schema": "s.json"}"#;
        let task = parse_at(7, line.as_bytes()).unwrap().unwrap();
        let expected = BatchTask {
            line_number: 7,
            id: "a".into(),
            text: "Sum up.".into(),
            agent: Some("ada".into()),
            model: Some("large".into()),
            attachments: vec!["/in/x.txt".into(), "/y".into()],
            schema: Some(SchemaSource::File("/in/s.json".into())),
            digest: Sha256Digest::of(line),
            bytes: line.len() as u64,
        };
        assert_eq!(task, expected);
        let task =
            parse_at(1, "\u{feff}{\"task\": \"x\", \"schema\": {\"type\": \"null\"}}\r".as_bytes()).unwrap().unwrap();
        assert_eq!((task.id.as_str(), task.schema), ("1", Some(SchemaSource::Inline(json!({"type": "null"})))));
        assert_eq!(parse_at(3, b" \r"), Ok(None));
    }

    #[test]
    fn bad_task_line_names_file_line_and_mend() {
        let long = format!("{{\"task\": \"{}\"}}", "x".repeat(limits::TASK_BYTES + 1));
        let id = format!("{{\"task\": \"x\", \"id\": \"{}\"}}", "é".repeat(limits::TASK_ID_CHARS + 1));
        let files = format!("{{\"task\": \"x\", \"attachments\": {}}}", json!(vec!["f"; limits::TASK_ATTACHMENTS + 1]));
        for (line, cause, hint) in [
            (&b"{\"task\": \"x\", \"modle\": \"m\"}"[..], "unknown field `modle`", "did you mean `model`?"),
            (b"{\"task\": \"x\", \"\x1b[2J\": 1}", "control character", "write one object per line"),
            (b"{\"task\": \"x\"", "EOF while parsing an object, column 12", "write one object per line"),
            (b"{\"id\": \"a\"}", "missing field `task`", "write one object per line"),
            (b"{\"task\": \"x\", \"task\": \"y\"}", "duplicate field `task`", "write one object per line"),
            (
                b"{\"task\": \"x\", \"id\": 7}",
                "invalid type: integer `7`, expected a string",
                "write one object per line",
            ),
            (b"{\"task\": \"x\", \"schema\": 7}", "`schema` is neither", "as an object"),
            (b"{\"task\": \"x\", \"id\": \"\"}", "`id` must have 1 to 200 characters", "omit it"),
            (b"{\"task\": \"x\", \"id\": \"a\\nb\"}", "`id` must have 1 to 200 characters", "omit it"),
            (id.as_bytes(), "`id` must have 1 to 200 characters", "omit it"),
            (b"{\"task\": \" \\n\"}", "`task` is empty", "write what to do"),
            (long.as_bytes(), "`task` has more than 1048576 bytes", "`attachments`"),
            (files.as_bytes(), "`attachments` has more than 100 files", "split the task"),
            (b"{\"task\": \"\xff\"}", "the line is not UTF-8 text", "iconv"),
            (b"\"What is 2 + 2?\"", "expected an object, column", "write one object per line"),
            (b"What is 2 + 2?", "expected value, column 1", "write one object per line"),
            (b"[{\"task\": \"x\"}]", "the line is a JSON list", "not a list"),
        ] {
            let report = parse_at(3, line).unwrap_err();
            assert_eq!(report.message, "t.jsonl, line 3: invalid task");
            assert!(report.causes[0].contains(cause), "{report}");
            assert!(report.hint.as_ref().unwrap().contains(hint), "{cause}: {:?}", report.hint);
        }
        let line = FileLine { number: 3, start: 0, bytes: b"{".to_vec(), is_ended: false, is_too_long: true };
        let report = BatchTask::parse(line, "t.jsonl", Path::new("/in")).unwrap_err();
        assert!(report.to_string().contains("line 3: invalid task: the line has more than 8388608 bytes"), "{report}");
    }
}
