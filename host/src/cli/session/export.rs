use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{
    loaded_transcript::{LoadedTranscript, facts, read},
    markdown,
    session_project_args::SessionProjectArgs,
    times::{date, instant},
};
use crate::{
    agent::journal::RecordedRunEnd,
    chat::Message,
    cli::render::{json_line, name, print, tell, used},
    error::{ErrorKind, Report, without_number},
    files,
    session::{RunTranscript, SessionStore, TranscriptMessage},
    tool::CompletionStatus,
};

/// Print a session as one document, to read or to share.
///
/// The document contains the whole conversation, including thoughts, but no storage details. Credentials known to the host
/// were never recorded; everything else is included: review the document before you share it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host session export last > session.md
  shelly-host session export last --format json | jq '.runs[].usage'
  shelly-host session export 20261122 --out session.md")]
pub struct SessionExportArgs {
    #[command(flatten)]
    project: SessionProjectArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = ExportFormat::Markdown)]
    format: ExportFormat,
    /// Write the document to this file, replacing it (default: `-`, standard output).
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The session: its name, the beginning of its name, or `last` for the newest.
    #[arg(value_name = "ID")]
    id: String,
}

/// The format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// For people.
    Markdown,
    /// For programs: one JSON value.
    Json,
}

/// Returns a whole session as a Markdown document.
///
/// # Errors
///
/// A [`Report`] if there is no such session, or it is damaged.
pub fn exported_markdown(store: &SessionStore, id: &str) -> Result<String, Report> {
    read(store, id)?.whole().map(|read| markdown::of(&read))
}

impl SessionExportArgs {
    pub fn execute(&self) -> Result<u8, Report> {
        let read = read(&self.project.store_with(&self.id)?, &self.id)?.whole()?;
        let text = match self.format {
            ExportFormat::Markdown => markdown::of(&read),
            ExportFormat::Json => json_line(&document(&read)) + "\n",
        };
        match self.out.as_deref().filter(|path| *path != Path::new("-")) {
            None => print(&text)?,
            Some(path) => {
                let shown = name(&path.display().to_string());
                let failed = |cause: String| {
                    Report::new(ErrorKind::Usage, format!("cannot write {shown}"))
                        .cause(cause)
                        .hint("name another file with --out, or omit --out to print to standard output")
                };
                // A device or a folder would be replaced by a file.
                if path.symlink_metadata().is_ok_and(|there| !there.is_file()) {
                    return Err(failed("the path exists and is not a regular file".into()));
                }
                // Makes the path absolute, as a bare name has no parent folder.
                let written = std::path::absolute(path).and_then(|path| files::replace(&path, text.as_bytes()));
                written.map_err(|error| failed(without_number(&error.to_string())))?;
                tell(&format!("wrote {shown}\n"));
            }
        }
        Ok(0)
    }
}

/// Returns a session as one JSON value.
pub fn document(read: &LoadedTranscript) -> Value {
    let runs: Vec<_> = read.transcript.runs().map(run).collect();
    json!({ "session": facts(&read.id, &read.header), "runs": runs, "agents": used(read.transcript.ledger()) })
}

fn run(run: &RunTranscript) -> Value {
    json!({
        "run": run.run,
        "agent": run.agent,
        "instance": run.instance,
        "model": run.model,
        "began": date(instant(run.began)),
        "parent": run.errand,
        "continues": run.continues,
        "prompt": run.prompt,
        "messages": run.said().map(said).collect::<Vec<_>>(),
        "not_read": run.waiting().collect::<Vec<_>>(),
        "calls": calls(run),
        "completions": run.spent.completions,
        "usage": run.spent.usage,
        "usd": used(&run.spent)["usd"],
        "outcome": run.ended.as_ref().map(outcome),
    })
}

fn said(said: &TranscriptMessage) -> Value {
    let Message { sender, role, parts, .. } = &*said.message;
    json!({ "sender": sender, "role": role, "parts": parts, "note": said.note, "edited": said.edited })
}

/// Returns each call with its result, which may not be in the conversation yet, and with the runs that worked for it.
fn calls(run: &RunTranscript) -> Vec<Value> {
    let results = run.results();
    let mut below: HashMap<&str, Vec<u64>> = HashMap::new();
    for (call, child) in &run.children {
        below.entry(call).or_default().push(*child);
    }
    let calls = run.said().flat_map(|said| said.message.tool_calls());
    let call = |call: &crate::chat::ToolCall| {
        let result = results.get(&*call.id);
        let state = match result {
            Some(result) if result.is_error => "failed",
            Some(_) => "done",
            None if run.has_begun(&call.id) => "begun",
            None => "open",
        };
        let runs = below.get(&*call.id).cloned().unwrap_or_default();
        json!({
            "id": call.id,
            "tool": call.name,
            "arguments": call.arguments,
            "state": state,
            "result": result.map(|result| &result.content),
            "runs": runs,
        })
    };
    calls.map(call).collect()
}

fn outcome(ended: &RecordedRunEnd) -> Value {
    match ended {
        RecordedRunEnd::Answered { message } => json!({ "kind": "answered", "answer": message.text_content() }),
        RecordedRunEnd::Completed { message, completed } => {
            let done = completed.status == CompletionStatus::Completed;
            json!({ "kind": "completed", "done": done, "answer": message.text_content() })
        }
        RecordedRunEnd::HandedOver { to, .. } => json!({ "kind": "handed_over", "to": to.agent, "reason": to.reason }),
        RecordedRunEnd::Failed { error, exhausted, cancelled, .. } => {
            json!({ "kind": "failed", "error": error, "exhausted": exhausted, "cancelled": cancelled })
        }
    }
}
