//! Lists the lines of a session's journal.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};

use super::{
    loaded_transcript::damaged,
    table::table,
    times::{date, instant},
    transcript_words::outcome,
};
use crate::{
    agent::journal::JournalRecord,
    chat::{ChatChange, Message},
    cli::{
        render::{self, CliOutputFormat, RunOutputFormat, json_line, name, one_line, print, warn},
        session_name::named,
    },
    error::Report,
    event::AnsweredBy,
    limits,
    session::{JournalLine, JournalLineContent, SessionStore},
};

/// Prints the lines of a session's journal with their numbers, which `session fork --at` takes.
pub fn show(store: &SessionStore, given: &str, output: CliOutputFormat) -> Result<u8, Report> {
    let id = named(store, given)?;
    let mut journal = store.read(&id).map_err(|error| error.report())?;
    let header = journal.header();
    let began = format!("by shelly-host {}", name(&header.host));
    let mut steps = vec![SessionStepRow {
        n: 1,
        time: date(header.created),
        run: 0,
        instance: None,
        kind: "session",
        summary: began,
    }];
    let (mut instances, mut damage) = (HashMap::new(), None);
    for line in journal.by_ref() {
        match line {
            Ok(line) => steps.push(SessionStepRow::of(line, &mut instances)),
            Err(error) => damage = Some(damaged(&id, &error)),
        }
    }
    journal.warnings().iter().for_each(|warning| warn(warning));
    match (output, damage) {
        (CliOutputFormat::Json, Some(damage)) => return Err(damage),
        (CliOutputFormat::Json, None) => {
            let steps: Vec<_> = steps.iter().map(SessionStepRow::as_json).collect();
            print(&json_line(&json!({ "id": id, "steps": steps })))?;
        }
        (CliOutputFormat::Text, damage) => {
            print(&table(&steps.iter().map(SessionStepRow::row).collect::<Vec<_>>()))?;
            return Ok(damage.map_or(0, |damage| render::failed(&damage, RunOutputFormat::Text)));
        }
    }
    Ok(0)
}

struct SessionStepRow {
    n: u64,
    time: Option<String>,
    run: u64,
    /// The instance of the run; `None` for the session itself.
    instance: Option<Arc<str>>,
    kind: &'static str,
    /// Text on one line that is safe to show.
    summary: String,
}

impl SessionStepRow {
    fn of(line: JournalLine, instances: &mut HashMap<u64, Arc<str>>) -> Self {
        let JournalLine { n, t, run, what } = line;
        if let JournalLineContent::Record(JournalRecord::Began { instance, .. }) = &what {
            instances.insert(run, Arc::clone(instance));
        }
        let (kind, summary) = match &what {
            JournalLineContent::Opened { pid, host, .. } => {
                ("opened", format!("by shelly-host {}, process {pid}", name(host)))
            }
            JournalLineContent::Record(record) => summary(record),
        };
        Self { n, time: date(instant(t)), run, instance: instances.get(&run).cloned(), kind, summary }
    }

    fn row(&self) -> [String; 5] {
        let time = self.time.as_deref().and_then(|time| time.get(11..23)).unwrap_or("unknown");
        let who = match &self.instance {
            None => "-".into(),
            Some(instance) => format!("{} {}", self.run, name(instance)),
        };
        [format!("{:>5}", self.n), time.into(), who, self.kind.into(), self.summary.clone()]
    }

    fn as_json(&self) -> Value {
        let Self { n, time, run, instance, kind, summary } = self;
        json!({ "n": n, "time": time, "run": run, "instance": instance, "kind": kind, "summary": summary })
    }
}

/// Returns the kind of a record, as the journal has it, and its content on one line.
fn summary(record: &JournalRecord) -> (&'static str, String) {
    let short = |text: &str| one_line(text, limits::SESSION_STEP_CHARS);
    match record {
        JournalRecord::Began { agent, model, delegation_key: errand, continues, input, .. } => {
            let why = match (errand, continues) {
                (Some(errand), _) => format!(", for call {} of run {}", name(&errand.call), errand.run),
                (None, Some(before)) => format!(", continues run {before}"),
                (None, None) => String::new(),
            };
            let on = if model.is_empty() { String::new() } else { format!(" on {}", name(model)) };
            ("began", format!("{}{on}{why}{}", name(agent), said(input.iter())))
        }
        JournalRecord::Turn { iteration, changes, .. } => ("turn", format!("{}{}", iteration + 1, changed(changes))),
        JournalRecord::Asked { completion, .. } => {
            ("asked", format!("an effect asked a model, {} tokens", completion.usage.total()))
        }
        JournalRecord::Replied { usage, changes, silent, .. } => {
            let silent = if silent.is_some() { ", silent" } else { "" };
            ("replied", format!("{} tokens{silent}{}", usage.total(), changed(changes)))
        }
        JournalRecord::Wasted { usage, .. } => ("wasted", format!("{} tokens", usage.total())),
        JournalRecord::Looked { changes, .. } => ("looked", format!("the effects{}", changed(changes))),
        JournalRecord::GaveRemoteTask { given } => {
            let task = given.task.as_deref().map_or_else(|| "not answered yet".to_owned(), name);
            let spent = given.spent.map_or_else(String::new, |spent| format!(", {} tokens", spent.usage.total()));
            ("gave_remote_task", format!("message {}, task {task}{spent}", name(&given.message)))
        }
        JournalRecord::CallBegan { call, tool } => ("call_began", format!("{} {}", name(call), name(tool))),
        JournalRecord::CallEnded { result, .. } => {
            let how = if result.is_error { " failed" } else { "" };
            ("call_ended", format!("{}{how}: {}", name(&result.call_id), short(&result.text())))
        }
        JournalRecord::Sent { message } => ("sent", said([message]).trim_start_matches(": ").to_owned()),
        JournalRecord::Passed { middleware, .. } => ("passed", name(middleware)),
        JournalRecord::Retried { attempt, changes, .. } => {
            ("retried", format!("attempt {}{}", attempt + 1, changed(changes)))
        }
        JournalRecord::WentOn { input, .. } => ("went_on", said(input).trim_start_matches(": ").to_owned()),
        JournalRecord::Chose { step, members, changes, .. } => {
            let who: Vec<_> = members.iter().map(|chosen| name(&chosen.member)).collect();
            ("chose", format!("{}: {}{}", step + 1, short(&who.join(", ")), changed(changes)))
        }
        JournalRecord::Delegated { call, tasks, .. } => {
            let to: Vec<_> = tasks.iter().map(|task| name(&task.instance)).collect();
            ("delegated", format!("{} to {}", name(call), short(&to.join(", "))))
        }
        JournalRecord::Parked { delegation, .. } => ("parked", format!("{} waits for an answer", name(delegation))),
        JournalRecord::Answered { delegation, answer, .. } => {
            ("answered", format!("{}: {}", name(delegation), short(answer)))
        }
        JournalRecord::Returned { call, position, entry, .. } => {
            let what = entry.error.as_deref().or(entry.result.as_deref()).unwrap_or_default();
            ("returned", format!("task {} of {}: {}", position + 1, name(call), short(what)))
        }
        JournalRecord::Ended { outcome: ended, .. } => ("ended", outcome(ended)),
        JournalRecord::Task { task, .. } => {
            ("task", format!("{} is {}: {}", name(&task.id), task.status.as_str(), short(&task.title)))
        }
        JournalRecord::Blackboard { namespace, change, .. } => {
            let how = if change.value.is_some() { "set" } else { "deleted" };
            ("blackboard", format!("{} {how} {}", name(namespace), name(&change.key)))
        }
        JournalRecord::Decided { agent, question, outcome, by } => {
            let by = match by {
                AnsweredBy::Person => "a person",
                AnsweredBy::Policy => "the policy",
                AnsweredBy::Trust => "earlier trust",
            };
            ("decided", format!("{} asked: {}: {}, by {by}", name(agent), short(question), name(outcome)))
        }
        JournalRecord::Given { plugin, function, .. } => ("given", format!("{} {}", name(plugin), name(function))),
    }
}

/// Returns what was added to a conversation, on one line.
fn changed(changes: &[ChatChange]) -> String {
    let added = changes.iter().filter_map(|change| match change {
        ChatChange::Added(written) => Some(&*written.message),
        ChatChange::Waits(message) => Some(&**message),
        // The result of a call was shown when the call ended.
        ChatChange::Answered { .. }
        | ChatChange::Replaced { .. }
        | ChatChange::Prompted { .. }
        | ChatChange::Kept { .. } => None,
    });
    let replaced = changes.iter().filter(|change| matches!(change, ChatChange::Replaced { .. })).count();
    let edits = if replaced == 0 { String::new() } else { format!(", {replaced} edited") };
    format!("{edits}{}", said(added))
}

/// Returns the texts of messages on one line: empty, or `: …`.
fn said<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let mut words = Vec::new();
    for message in messages {
        words.push(message.text_content());
        words.extend(message.tool_calls().map(|call| format!("→ {}", call.name)));
        words.extend(message.tool_results().map(|result| format!("← {}", result.call_id)));
    }
    words.retain(|word| !word.trim().is_empty());
    match words.is_empty() {
        true => String::new(),
        false => format!(": {}", one_line(&words.join(" "), limits::SESSION_STEP_CHARS)),
    }
}
