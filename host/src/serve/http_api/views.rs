//! The JSON that clients get. Its schemas are part of `/openapi.json`.

use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::problem::Problem;
use crate::{
    agent::{RunAnswer, RunEnding},
    approval::QuestionKind,
    capability::Usd,
    chat::Part,
    error::cut,
    files, limits,
    model::{Ledger, UsageTally},
    serve::{
        hosted_runs::{HostedQuestion, HostedRunOutcome, HostedRunState, RunSnapshot},
        triggers::{TriggerFiring, TriggerSnapshot},
    },
    tool::{CompletionStatus, TaskCompletion},
};

/// A run that has begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StartedRunView {
    /// The id of the run.
    pub run: String,
    /// The name of its session; null if nothing is recorded.
    pub session: Option<String>,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunView {
    /// The id.
    run: String,
    /// The state.
    state: HostedRunState,
    /// The instance name of the agent or team; null until it is built.
    agent: Option<String>,
    /// Its model.
    model: Option<String>,
    /// The name of the session; null if nothing is recorded.
    session: Option<String>,
    /// The beginning of the task.
    task: String,
    /// The time of the request.
    started: String,
    /// The time of the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished: Option<String>,
    /// The ids of its open questions.
    questions: Vec<u64>,
    /// The sequence of the newest event; 0 if there is none.
    last_event: u64,
    /// The usage of all agents of the session so far.
    usage: UsageView,
    /// Its cost in US dollars; null if a price is unknown.
    cost_usd: Option<f64>,
    /// The usage of each agent.
    agents: Vec<AgentUsageView>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RunResultView>,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Problem>,
    /// Problems that did not keep the run from beginning.
    warnings: Vec<String>,
}

/// The answer of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunResultView {
    /// The text; in the list of all runs, its beginning.
    text: String,
    /// The answer as JSON, if it follows a schema. The list of all runs has none that is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    /// The way in which the run ended.
    ending: RunEndingView,
    /// The turns of an agent or the steps of a team.
    iterations: u32,
}

/// The way in which a run with an answer ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunEndingView {
    /// The last reply calls no tool.
    Answered,
    /// The agent reported that its task is done.
    Completed,
    /// The agent reported that its task has failed.
    Failed,
    /// The agent asked for another agent to go on.
    HandedOver,
}

/// All runs that the server remembers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RunsView {
    /// The runs, the newest first.
    pub runs: Vec<RunView>,
}

/// The usage of a number of requests to models.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct UsageView {
    /// The number of replies.
    completions: u64,
    /// Prompt tokens neither read from nor written to the vendor's cache.
    input_tokens: u64,
    /// Tokens of replies.
    output_tokens: u64,
    /// Prompt tokens read from the cache.
    cache_read_tokens: u64,
    /// Prompt tokens written to the cache.
    cache_write_tokens: u64,
}

/// The usage of one agent.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct AgentUsageView {
    /// The instance name.
    agent: String,
    /// Its usage.
    usage: UsageView,
    /// Its cost in US dollars; null if a price is unknown.
    cost_usd: Option<f64>,
}

/// An empty answer: the request was done.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct DoneView {}

/// A question that waits for a person.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct QuestionView {
    /// The id for the answer.
    id: u64,
    /// The run that waits.
    run: String,
    /// The instance name of the agent that asked.
    agent: String,
    /// The time at which it was asked.
    asked: String,
    /// The time at which it is declined if nobody answers.
    expires: String,
    /// `open` or `permission`, with their fields.
    #[serde(flatten)]
    content: QuestionContentView,
}

/// The content of a question.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum QuestionContentView {
    /// An agent wants to know something.
    Open {
        /// The text.
        text: String,
        /// The topic in a word or two; may be empty.
        header: String,
        /// The options; without any, the answer is free text.
        options: Vec<QuestionOptionView>,
        /// `true` if more than one option may be chosen.
        multi_select: bool,
        /// The most that may be chosen.
        max_selections: usize,
    },
    /// An agent wants to do something.
    Permission {
        /// The action in words.
        action: String,
        /// The action for programs: `kind` says which, beside the fields of that kind.
        subject: Value,
        /// The details: arguments, a command, or the diffs of proposed changes.
        detail: String,
    },
}

/// An option of a question.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct QuestionOptionView {
    /// The label, with which it is chosen.
    label: String,
    /// Its meaning; may be empty.
    description: String,
}

/// The open questions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct QuestionsView {
    /// The questions, in the order in which they were asked.
    pub questions: Vec<QuestionView>,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionView {
    /// The name.
    pub session: String,
    /// The first task, cut.
    pub title: String,
    /// The agent or team that a person started.
    pub agent: String,
    /// Its model.
    pub model: String,
    /// The state of the last run.
    pub state: SessionStateView,
    /// The time of creation; null if the session cannot be read.
    pub created: Option<String>,
    /// The time of the last write.
    pub modified: String,
    /// `true` if this person made it here. Runs do not go on in others.
    pub own: bool,
}

/// The state of the last run of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SessionStateView {
    /// A process works in it.
    InUse,
    /// No run has begun.
    Empty,
    /// The last run was interrupted; it goes on without a task.
    Interrupted,
    /// The last run has an answer.
    Answered,
    /// The last run ended with an error.
    Failed,
    /// The session cannot be read.
    Unreadable,
}

/// The newest sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionsView {
    /// The sessions, the newest first.
    pub sessions: Vec<SessionView>,
}

/// A session with its conversation.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionDetailView {
    /// The session.
    #[serde(flatten)]
    pub session: SessionView,
    /// The usage of all agents.
    pub usage: UsageView,
    /// Its cost in US dollars; null if a price is unknown.
    pub cost_usd: Option<f64>,
    /// The newest messages between the person and the agent, the oldest first.
    pub messages: Vec<SessionMessageView>,
    /// The attachments: files, and long texts of its records.
    pub attachments: Vec<SessionAttachmentView>,
}

/// A message of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionMessageView {
    /// `user` or `assistant`.
    pub role: &'static str,
    /// The text, cut if it is very long.
    pub text: String,
}

/// An attachment of a session.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SessionAttachmentView {
    /// Its SHA-256 in hexadecimal digits, which is its name.
    pub digest: String,
    /// Its size.
    pub bytes: u64,
}

/// An agent or team that runs can be started with.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServedAgentView {
    /// The name.
    pub name: String,
    /// `agent` or `team`.
    pub kind: &'static str,
    /// The description in the config; may be empty.
    pub description: String,
    /// `true` for the one that runs if a request names none.
    pub entry: bool,
    /// The name of its model in the config; null: the first one of the config.
    pub model: Option<String>,
}

/// The agents and teams.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServedAgentsView {
    /// The agents, then the teams.
    pub agents: Vec<ServedAgentView>,
}

/// A plugin that agents can use.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServedPluginView {
    /// The id.
    pub id: String,
    /// The version in its manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The kinds: `tool`, `effect` and others.
    pub kinds: Vec<&'static str>,
    /// The reason why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The plugins.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ServedPluginsView {
    /// The plugins, by id.
    pub plugins: Vec<ServedPluginView>,
}

/// A trigger of the config.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TriggerView {
    /// The name.
    name: String,
    /// The key that says what fires it: `cron`, `webhook` or `files`.
    kind: &'static str,
    /// The fields of cron with their time zone, or the patterns of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// The agent or team of its runs; null: the one that runs if a request names none.
    agent: Option<String>,
    /// The next time, if it waits for one.
    next: Option<String>,
    /// The last firing that was to start a run.
    last: Option<TriggerFiringView>,
    /// The number of its runs at work.
    at_work: u64,
    /// `true` if a firing waits for the end of a run: of the trigger, or of any if the server takes no more.
    queued: bool,
    /// The number of runs that it has started.
    started: u64,
    /// The number of firings for which nothing was done, since runs were at work.
    skipped: u64,
    /// The number of times that passed without a server.
    missed: u64,
    /// The number of runs that could not begin.
    failed: u64,
}

/// A firing of a trigger that was to start a run.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TriggerFiringView {
    /// The time.
    time: String,
    /// The id of the run; null if none began.
    run: Option<String>,
    /// The reason why no run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// The paths in the task for which the firing had no value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
}

/// The triggers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TriggersView {
    /// The triggers, in the order of the config; empty if the server works without them.
    pub triggers: Vec<TriggerView>,
}

/// The outcome of a firing.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TriggerFiredView {
    /// The name of the trigger.
    pub trigger: String,
    /// The outcome.
    pub outcome: TriggerOutcomeView,
    /// The id of the run; null if none was started.
    pub run: Option<String>,
    /// The reason why none is started by this firing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// The outcome of a firing, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum TriggerOutcomeView {
    /// A run was started.
    Started,
    /// The firing waits for the end of a run: of the trigger, or of any if the server takes no more.
    Queued,
    /// Nothing is done, since as many runs are at work as the trigger may have.
    Skipped,
    /// The webhook has come before.
    Repeated,
}

/// The health of the server.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HealthView {
    /// `ok`, or `stopping`.
    pub status: &'static str,
    /// The number of runs at work.
    pub runs: usize,
}

/// Formats a time as RFC 3339 in UTC with milliseconds.
pub(super) fn shown_time(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(files::writable_date(time)).to_string()
}

/// Returns a cost; `None` if tokens were used at no cost, which means that the price is unknown.
pub(super) fn cost(tally: &UsageTally) -> Option<f64> {
    let is_unknown = tally.usd == Usd::ZERO && tally.usage.total() > 0;
    // The JSON of an amount is a number of dollars.
    if is_unknown { None } else { serde_json::to_value(tally.usd).ok()?.as_f64() }
}

/// Returns the text of an answer; of one that consists of images or files, their types.
pub(super) fn answer_text(answer: &RunAnswer) -> String {
    let text = answer.message.text_content();
    if !text.trim().is_empty() {
        return text;
    }
    let media = answer.message.parts.iter().filter_map(|part| match part {
        Part::Media(media) => Some(format!("[{}]", media.media_type)),
        _ => None,
    });
    media.collect::<Vec<_>>().join("\n")
}

impl UsageView {
    pub fn of(tally: &UsageTally) -> Self {
        let UsageTally { completions, usage, .. } = *tally;
        Self {
            completions,
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
        }
    }
}

impl TriggerView {
    pub fn of(trigger: TriggerSnapshot) -> Self {
        let firing = |last: TriggerFiring| TriggerFiringView {
            time: shown_time(last.time),
            run: last.run.map(|run| run.to_string()),
            problem: last.problem,
            missing: last.missing,
        };
        Self {
            name: trigger.name,
            kind: trigger.kind,
            schedule: trigger.schedule,
            agent: trigger.agent,
            next: trigger.next.map(shown_time),
            last: trigger.last.map(firing),
            at_work: trigger.at_work,
            queued: trigger.is_queued,
            started: trigger.started,
            skipped: trigger.skipped,
            missed: trigger.missed,
            failed: trigger.failed,
        }
    }
}

impl RunView {
    /// Returns the view of a run; `open` are the questions of all runs.
    pub fn of(run: RunSnapshot, open: &[HostedQuestion]) -> Self {
        let questions = open.iter().filter(|open| open.question.run == run.id).map(|open| open.id).collect();
        let total = run.agents.total();
        let state = run.state();
        let (result, error) = match run.outcome {
            Some(HostedRunOutcome::Completed { answer, value }) => (Some(RunResultView::of(&answer, value)), None),
            Some(HostedRunOutcome::Failed { error, .. }) => (None, Some(*Problem::of_report(&error))),
            Some(HostedRunOutcome::Cancelled | HostedRunOutcome::Interrupted) | None => (None, None),
        };
        Self {
            run: run.id.to_string(),
            state,
            agent: run.agent.map(|agent| agent.to_string()),
            model: run.model,
            session: run.session,
            task: run.task,
            started: shown_time(run.started),
            finished: run.finished.map(shown_time),
            questions,
            last_event: run.last_event,
            usage: UsageView::of(&total),
            cost_usd: cost(&total),
            agents: AgentUsageView::all(&run.agents),
            result,
            error,
            warnings: run.warnings,
        }
    }

    /// Returns the view of a run in a list of runs. A long answer is cut there, and left out as JSON.
    pub fn listed(run: RunSnapshot, open: &[HostedQuestion]) -> Self {
        let mut view = Self::of(run, open);
        if let Some(result) = &mut view.result {
            result.text = cut(&result.text, limits::SERVE_LISTED_ANSWER_CHARS);
            result.value.take_if(|value| value.to_string().len() > limits::SERVE_LISTED_ANSWER_CHARS);
        }
        view
    }
}

impl AgentUsageView {
    fn all(ledger: &Ledger) -> Vec<Self> {
        let row = |(agent, tally): (&std::sync::Arc<str>, &UsageTally)| Self {
            agent: agent.to_string(),
            usage: UsageView::of(tally),
            cost_usd: cost(tally),
        };
        ledger.agents().map(row).collect()
    }
}

impl RunResultView {
    fn of(answer: &RunAnswer, value: Option<Value>) -> Self {
        let ending = match &answer.ending {
            RunEnding::Answered => RunEndingView::Answered,
            RunEnding::Completed(TaskCompletion { status: CompletionStatus::Completed, .. }) => {
                RunEndingView::Completed
            }
            RunEnding::Completed(TaskCompletion { status: CompletionStatus::Failed, .. }) => RunEndingView::Failed,
            RunEnding::HandedOver(_) => RunEndingView::HandedOver,
        };
        Self { text: answer_text(answer), value, ending, iterations: answer.iterations }
    }
}

impl QuestionView {
    pub fn of(open: HostedQuestion) -> Self {
        let HostedQuestion { id, question, asked, expires } = open;
        let content = match &question.kind {
            QuestionKind::Open(open) => QuestionContentView::Open {
                text: open.text.clone(),
                header: open.header.clone(),
                options: open
                    .options
                    .iter()
                    .map(|option| QuestionOptionView {
                        label: option.label.clone(),
                        description: option.description.clone(),
                    })
                    .collect(),
                multi_select: open.multi_select,
                max_selections: open.most_selections(),
            },
            QuestionKind::Permission { subject, detail, .. } => QuestionContentView::Permission {
                action: subject.to_string(),
                subject: serde_json::to_value(subject).unwrap_or_default(),
                detail: detail.clone(),
            },
        };
        Self {
            id,
            run: question.run.to_string(),
            agent: question.from.to_string(),
            asked: shown_time(asked),
            expires: shown_time(expires),
            content,
        }
    }
}
