use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::{
    CalledFunction, EffectEditKind, FileChangeKind, FileDifference, ImportCalls, MiddlewareAction,
    NondeterministicInputs, PluginCallOutcome, PluginRequestOutcome, QuestionDecision, RequestTokens,
};
use crate::chat::{Message, ReplyDelta, Role, StopReason, Usage};

/// The origin of a tool that the agent does not have.
pub const NO_ORIGIN: &str = "none";
/// The beginning of the origin of a tool that is an agent; the agent's name in the config follows.
pub const AGENT_ORIGIN: &str = "agent:";

/// One event. Its JSON is one object with the name of the case in `event`; durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Event {
    /// A run has begun. `parent_agent` is the agent that delegated it, `prefix` is shown before its name, `task` is the
    /// newest message that it was given, cut for display.
    RunStarted {
        agent: Arc<str>,
        /// The agent's name in the config. Several agents of a run may have it, each with a name of its own in `agent`.
        configured: Arc<str>,
        parent_agent: Option<Arc<str>>,
        /// The id of the call of the parent run for which this run works; absent for the run of a person and of a team
        /// member.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_call: Option<Arc<str>>,
        depth: u32,
        prefix: Arc<str>,
        model: String,
        task: String,
    },
    /// A message was added to the agent's conversation. `message` is `None` for an agent with middleware: a text that the
    /// middleware may still replace must not be seen earlier.
    MessageAdded { agent: Arc<str>, role: Role, message: Option<Arc<Message>> },
    /// The deltas of an agent's replies and its messages are withheld: the middleware named in `by` runs around its runs or
    /// its requests and may still replace the text. Emitted once for each agent; its answer comes as a whole.
    RepliesWithheld { agent: Arc<str>, by: Vec<String> },
    /// A request goes to the model.
    ModelStarted {
        agent: Arc<str>,
        iteration: u32,
        /// The tokens of the request, as the host estimates them.
        tokens: u64,
        /// The same tokens by their part of the request.
        parts: RequestTokens,
        /// The context window of the model, in tokens; `None` if it is not known.
        window: Option<u64>,
    },
    /// A piece of the reply has arrived.
    ModelDelta { agent: Arc<str>, delta: ReplyDelta },
    /// A request to a model failed; the pieces of its reply that have arrived are void. `again`: the request is sent once
    /// more.
    ModelFailed { agent: Arc<str>, model: String, reason: String, again: bool },
    /// A request does not go to the model at once; `detail` says more, for people.
    ModelWaits { agent: Arc<str>, model: String, wait: ModelWait, detail: String },
    /// The reply is complete.
    ModelFinished {
        agent: Arc<str>,
        iteration: u32,
        model: String,
        stop: StopReason,
        calls: usize,
        usage: Usage,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        #[schemars(with = "f64")]
        duration: Duration,
    },
    /// A tool call begins. Arguments are cut for display.
    ToolStarted { agent: Arc<str>, call: String, tool: String, origin: String, arguments: String },
    /// A tool reports its progress.
    ToolProgress { agent: Arc<str>, call: String, done: f64, total: Option<f64>, message: Option<String> },
    /// A tool call has its result.
    ToolFinished {
        agent: Arc<str>,
        call: String,
        tool: String,
        is_error: bool,
        /// The reason for the failure, in the text that the model is shown, cut for display.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Bytes of the result as the model is shown it.
        bytes: usize,
        /// Time that the tool took, without the middleware around its calls.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        #[schemars(with = "f64")]
        duration: Duration,
    },
    /// A file or folder was changed as a tool had proposed.
    FileChange {
        agent: Arc<str>,
        call: String,
        tool: String,
        act: FileChangeKind,
        /// The path as the tool names it.
        path: String,
        /// The destination of a move or copy.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// Lines that were added, for a text file.
        #[serde(skip_serializing_if = "Option::is_none")]
        added: Option<usize>,
        /// Lines that were removed, for a text file.
        #[serde(skip_serializing_if = "Option::is_none")]
        removed: Option<usize>,
        /// The party that allowed the change; `None` if the config did.
        by: Option<AnsweredBy>,
        /// The unified diff, bounded, or a sentence about content without lines.
        #[serde(rename = "diff", serialize_with = "text_of_difference", skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Option<String>")]
        difference: Option<Arc<FileDifference>>,
    },
    /// An effect has changed the chat or the run.
    EffectEdited {
        agent: Arc<str>,
        effect: String,
        edit: EffectEditKind,
        /// Messages of the chat before the edit.
        messages_before: usize,
        /// Messages of the chat after the edit.
        messages_after: usize,
        /// The result or the messages that the edit replaces, cut for display. `None` if it only adds, and for an agent with
        /// middleware that may still replace texts.
        before: Option<String>,
        /// The note, the result or the messages that the edit puts there, or the tools that it hides, cut for display.
        /// `None` if it only removes, and for an agent with such middleware.
        after: Option<String>,
    },
    /// A change that an effect requested was refused.
    EffectRefused { agent: Arc<str>, effect: String, edit: EffectEditKind, reason: String },
    /// An effect failed. `skipped`: the config lets the run continue without it.
    EffectFailed { agent: Arc<str>, effect: String, reason: String, skipped: bool },
    /// A middleware did something other than let a run, a request to a model or a tool call pass. `tool` is the tool of the
    /// call, if the event is about one. `reason` says why the call was denied; for `retry` it says in words what
    /// happens next: the model that is asked instead or the number of the attempt, the delay before it, and what failed.
    MiddlewareActed {
        agent: Arc<str>,
        middleware: String,
        action: MiddlewareAction,
        tool: Option<String>,
        reason: Option<String>,
    },
    /// A middleware failed. `skipped`: the config lets the run continue without it.
    MiddlewareFailed { agent: Arc<str>, middleware: String, reason: String, skipped: bool },
    /// One call of one exported function of a plugin.
    PluginCall {
        agent: Arc<str>,
        plugin: Arc<str>,
        function: CalledFunction,
        outcome: PluginCallOutcome,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        #[schemars(with = "f64")]
        duration: Duration,
        /// CPU time of the call.
        #[serde(rename = "cpu_ms", serialize_with = "millis")]
        #[schemars(with = "f64")]
        cpu: Duration,
        /// Largest linear memory during the call, in bytes.
        memory: usize,
        /// Calls of imported functions; each entry of a folder that the plugin lists counts as one.
        host_calls: u64,
        /// Calls of imported functions by interface, for the interfaces that were called.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        imports: Vec<ImportCalls>,
        /// Bytes of strings and lists that the call received; data read from files and the network is not included.
        bytes_in: usize,
        /// Bytes of strings and lists that the call returned; data written to files and the network is not included.
        bytes_out: usize,
        #[serde(skip_serializing_if = "NondeterministicInputs::is_empty")]
        given: NondeterministicInputs,
    },
    /// A call of a plugin waits for memory: `held` of the `total` bytes of all plugins together are in use. Emitted once per
    /// call.
    PluginWaits { agent: Arc<str>, plugin: Arc<str>, held: usize, total: usize },
    /// A plugin has sent, or tried to send, an HTTP request. Emitted when the response head has arrived, or when it is known
    /// why it will not.
    PluginRequest {
        agent: Arc<str>,
        plugin: Arc<str>,
        method: String,
        /// The URL without query, user and password; after redirects, the last one.
        url: String,
        outcome: PluginRequestOutcome,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// The reason for which there is no response.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The name of the credential that was sent with the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
        /// Redirects that were followed.
        hops: u32,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        #[schemars(with = "f64")]
        duration: Duration,
    },
    /// A capability that a plugin of an agent wants was granted or denied. Emitted once for each agent, before its first
    /// turn, and whenever a tool turns out to lack a capability during a run, whether it is then granted or not. A plugin's
    /// own claims appear in its other events and never in this one.
    CapabilityDecided {
        agent: Arc<str>,
        plugin: Arc<str>,
        /// The config entry that grants it: `files: [{path: docs, mode: read}]`.
        capability: String,
        allowed: bool,
        /// The config path that grants it, or would have to; for a grant in the middle of a run, who allowed it.
        rule: Arc<str>,
    },
    /// A plugin has written to the log.
    PluginLog { agent: Arc<str>, plugin: Arc<str>, level: LogLevel, message: String },
    /// A team has decided who works next, or that it has finished. `step` counts from 0.
    TeamStep {
        agent: Arc<str>,
        step: u32,
        members: Vec<Arc<str>>,
        done: bool,
        /// The coordinator's reasons, in its own words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
    },
    /// A member of a team has replied. `text` is cut for display. It is `None` for a team with middleware: a text that the
    /// middleware may still replace must not be seen earlier.
    MemberReplied { agent: Arc<str>, text: Option<String> },
    /// An agent has handed its task over to another agent, which continues in its place.
    HandedOver { agent: Arc<str>, to: Arc<str>, reason: String },
    /// A vendor has counted more usage than was left of an agent's budget.
    Overspent { agent: Arc<str>, message: String },
    /// An agent waits for a person, or for the policy that answers in a person's place. A question that is never answered
    /// was withdrawn, or is asked again.
    QuestionAsked { agent: Arc<str>, id: u64, question: String },
    /// An agent's question was decided.
    QuestionAnswered { agent: Arc<str>, id: u64, question: String, outcome: QuestionDecision, by: AnsweredBy },
    /// A condition that needs attention; the run continues.
    Warning { message: String },
    /// This reader was too slow: `count` events were dropped before the next one.
    Missed { count: u64 },
    /// A run has ended.
    RunFinished {
        agent: Arc<str>,
        /// The error; `None` if the run ended with an answer.
        error: Option<String>,
        iterations: u32,
        usage: Usage,
        /// Usage of the agents that this one delegated to, and of their descendants.
        of_children: Usage,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        #[schemars(with = "f64")]
        duration: Duration,
    },
}

/// The reason for which a request does not go to the model at once, and its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelWait {
    /// The request waits until the rate limit of its provider has room.
    RateLimit,
    /// The request was submitted in a batch.
    BatchSubmitted,
    /// The vendor is processing the batch.
    BatchPolling,
    /// The request was answered in a batch.
    BatchCompleted,
    /// The batch failed: the request goes to the model directly.
    BatchFallback,
    /// An attempt failed with a transient error: the request is sent again after a pause.
    Retry,
    /// A worker of a cluster runs the agent: the request waits until one has taken the run, and then for its answer.
    Worker,
}

/// The party that decided a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A person at a front end.
    Person,
    /// The policy for runs without a person.
    Policy,
    /// An earlier answer of a person that trusts the subject from then on.
    Trust,
}

/// The severity of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Detail for the author of the plugin.
    Debug,
    /// Information about normal operation.
    Info,
    /// A condition that needs attention.
    Warn,
    /// A failure.
    Error,
}

/// Serializes a duration as milliseconds with a fraction: a sandboxed call takes microseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

/// Serializes a compared file as its text; its absolute path is for displays on this machine.
fn text_of_difference<S: Serializer>(
    difference: &Option<Arc<FileDifference>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    difference.as_ref().map(|difference| &difference.text).serialize(serializer)
}
