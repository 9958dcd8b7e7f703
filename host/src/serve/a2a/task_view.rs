//! A task as clients see it.

use std::time::SystemTime;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{incoming_message::QUESTION_ID, served_task::ServedTask};
use crate::{
    a2a::wire::{A2aArtifact, A2aMessage, A2aMetadata, A2aPart, A2aPartContent, A2aTask, A2aTaskState, A2aTaskStatus},
    agent::{RunAnswer, RunEnding},
    approval::QuestionKind,
    chat::{MediaData, Part},
    files,
    serve::hosted_runs::{HostedQuestion, HostedRunOutcome, RunHost, RunSnapshot},
    tool::{CompletionStatus, TaskCompletion},
};

/// The id of the artifact that is the answer. A task has no other one.
const ANSWER: &str = "answer";

/// The parts of a task that a client asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskParts {
    /// The maximum number of messages; `None`: all that are there.
    pub history: Option<u32>,
    pub artifacts: bool,
}

/// Returns a task with its state as it is now.
pub(super) fn task(host: &RunHost, served: &ServedTask, parts: TaskParts) -> A2aTask {
    of_snapshot(host, served, &served.run.snapshot(), parts)
}

/// Returns a task with its state as it was at this snapshot of its run.
pub(super) fn of_snapshot(host: &RunHost, served: &ServedTask, run: &RunSnapshot, parts: TaskParts) -> A2aTask {
    let questions = served.questions(host);
    A2aTask {
        id: served.id().to_owned(),
        context_id: served.context.clone(),
        status: status(served, run, questions.first()),
        artifacts: parts.artifacts.then(|| artifact(run).into_iter().collect()),
        history: served.history(parts.history),
        metadata: A2aMetadata::new(),
    }
}

/// Returns a task that was shown without its history and artifacts with those that are asked for, as they are now.
pub(super) fn with_parts(task: A2aTask, served: &ServedTask, parts: TaskParts) -> A2aTask {
    let artifacts = parts.artifacts.then(|| artifact(&served.run.snapshot()).into_iter().collect());
    A2aTask { artifacts, history: served.history(parts.history), ..task }
}

/// Returns the state of a task.
pub(super) fn status(served: &ServedTask, run: &RunSnapshot, question: Option<&HostedQuestion>) -> A2aTaskStatus {
    let ended = run.finished.unwrap_or_else(SystemTime::now);
    let since = run.started.max(served.touched());
    let (state, text, time) = match (&run.outcome, question) {
        (None, _) if run.agent.is_none() => (A2aTaskState::Submitted, None, since),
        (None, Some(question)) => {
            return A2aTaskStatus {
                state: A2aTaskState::InputRequired,
                message: Some(question_message(served, question)),
                timestamp: timestamp(question.asked.max(since)),
            };
        }
        (None, None) => (A2aTaskState::Working, None, since),
        (Some(HostedRunOutcome::Completed { answer, .. }), _) => match has_given_up(answer) {
            true => (A2aTaskState::Failed, Some(answer.message.text_content()), ended),
            false => (A2aTaskState::Completed, None, ended),
        },
        (Some(HostedRunOutcome::Failed { error, .. }), _) => {
            // A run that was never begun has no agent.
            let state = if run.agent.is_none() { A2aTaskState::Rejected } else { A2aTaskState::Failed };
            (state, Some(error.with_hint()), ended)
        }
        (Some(HostedRunOutcome::Cancelled), _) => (A2aTaskState::Canceled, None, ended),
        (Some(HostedRunOutcome::Interrupted), _) => {
            let text =
                "the server was stopped before the task was done; give the agent a new task with this `contextId`";
            (A2aTaskState::Failed, Some(text.to_owned()), ended)
        }
    };
    let message = text.map(|text| in_task(served, A2aMessage::of_agent(format!("{}-end", served.id()), text)));
    A2aTaskStatus { state, message, timestamp: timestamp(time) }
}

/// Returns the state of a task that works on, with these words of its agent.
pub(super) fn working(served: &ServedTask, words: Option<(String, u64)>) -> A2aTaskStatus {
    let message = words
        .map(|(text, sequence)| in_task(served, A2aMessage::of_agent(format!("{}-{sequence}", served.id()), text)));
    A2aTaskStatus { state: A2aTaskState::Working, message, timestamp: timestamp(SystemTime::now()) }
}

/// Returns the answer, if there is one.
pub(super) fn artifact(run: &RunSnapshot) -> Option<A2aArtifact> {
    let answer = run.answer()?;
    let mut parts: Vec<_> = answer.message.parts.iter().filter_map(shown_part).collect();
    if let Some(value) = run.value() {
        parts.push(A2aPart::of(A2aPartContent::Data(value.clone())));
    }
    if parts.is_empty() {
        // The protocol wants at least one part.
        parts.push(A2aPart::text(""));
    }
    Some(A2aArtifact { artifact_id: ANSWER.into(), name: ANSWER.into(), parts, ..A2aArtifact::default() })
}

/// Returns a question as a message of the agent: in words, and as a value for programs.
pub(super) fn question_message(served: &ServedTask, question: &HostedQuestion) -> A2aMessage {
    let (text, value) = match &question.question.kind {
        QuestionKind::Open(open) => {
            let mut text = open.text.clone();
            for option in &open.options {
                text.push_str("\n- ");
                text.push_str(&option.label);
                if !option.description.is_empty() {
                    text.push_str(": ");
                    text.push_str(&option.description);
                }
            }
            let labels: Vec<_> = open.options.iter().map(|option| option.label.as_str()).collect();
            let most = if labels.is_empty() { 0 } else { open.most_selections() };
            (text, json!({ "kind": "open", "options": labels, "maxSelections": most }))
        }
        QuestionKind::Permission { subject, detail } => {
            let text = format!("May the agent {subject}? Answer yes or no.\n\n{detail}");
            (text, json!({ "kind": "permission", "action": subject.to_string(), "verdicts": ["yes", "no"] }))
        }
    };
    let mut message = A2aMessage::of_agent(format!("{}-question-{}", served.id(), question.id), text);
    message.parts.push(A2aPart::of(A2aPartContent::Data(value)));
    message.metadata.insert(QUESTION_ID.into(), Value::from(question.id));
    in_task(served, message)
}

/// Returns a piece of the answer, as the agent says it.
pub(super) fn piece(text: &str) -> A2aArtifact {
    let parts = vec![A2aPart::text(text)];
    A2aArtifact { artifact_id: ANSWER.into(), name: ANSWER.into(), parts, ..A2aArtifact::default() }
}

/// Formats a time as the protocol wants it: RFC 3339 in UTC, with milliseconds.
pub(super) fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(files::writable_date(time)).to_string()
}

fn in_task(served: &ServedTask, message: A2aMessage) -> A2aMessage {
    A2aMessage { context_id: served.context.clone(), task_id: served.id().to_owned(), ..message }
}

/// Returns `true` if the agent has reported that it could not do the task.
fn has_given_up(answer: &RunAnswer) -> bool {
    matches!(answer.ending, RunEnding::Completed(TaskCompletion { status: CompletionStatus::Failed, .. }))
}

fn shown_part(part: &Part) -> Option<A2aPart> {
    match part {
        Part::Text(text) => Some(A2aPart::text(text.clone())),
        Part::Media(media) => {
            let content = match &media.source {
                MediaData::Bytes(bytes) => A2aPartContent::Raw(STANDARD.encode(bytes)),
                MediaData::Url(url) => A2aPartContent::Url(url.clone()),
            };
            let filename = media.name.clone().unwrap_or_default();
            Some(A2aPart { media_type: media.media_type.clone(), filename, ..A2aPart::of(content) })
        }
        _ => None,
    }
}
