use std::{collections::BTreeSet, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    agent::{Wake, delegate::DelegationReport},
    capability::{AllocationBounds, BudgetBreakdown, Usd},
    chat::{ChatChange, Message, StopReason, ToolResult, Usage, as_base64},
    event::AnsweredBy,
    event::NondeterministicInputs,
    model::Completion,
    state::{BlackboardChange, Task, TaskStatus},
    tool::{CurrentCall, RunControl, TaskCompletion, TaskHandoff, current_call},
};

/// Writes down what happens, in the order in which it is told.
pub trait Recorder: Send + Sync + fmt::Debug {
    /// Writes a record of a run: it follows all that were written before, and is on its way to the disk. Never waits.
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition;

    /// Waits until a record and all before it would survive a loss of power.
    fn kept(&self, mark: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>>;

    /// Why nothing more is written, if that is so.
    fn lost(&self) -> Option<JournalWriteError>;
}

/// A place in what is written: larger ones come later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalPosition(pub u64);

/// What happens cannot be written down any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct JournalWriteError {
    /// Why, and what to do.
    pub reason: String,
}

/// Something that happened in a run and that it takes to go on later. All of them in order, cut off anywhere, are a state
/// from which the run goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum JournalRecord {
    /// A run began. `prompt` is its system prompt.
    Began {
        agent: Arc<str>,
        instance: Arc<str>,
        model: String,
        depth: u32,
        /// Of whom it works for; none for one that a person started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errand: Option<DelegationId>,
        /// An earlier run whose conversation it goes on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<u64>,
        /// How its conversation goes with that of whom it works for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beside: Option<SideChatRef>,
        /// What it was given; nothing for one that works for another, whose call says it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        input: Vec<Message>,
        prompt: Arc<str>,
        /// What has changed in its conversation since an earlier run there, or all that makes it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
    },
    /// The model is about to be asked, in turn `iteration`, counted from 0. The effects have looked.
    Turn {
        iteration: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        /// The memory of those effects whose memory has changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectMemory>,
        /// Time since the run began, as far as it was at work.
        #[serde(with = "millis")]
        elapsed: Duration,
    },
    /// A model has answered an effect, named by its place and its name; `cost` is known if its price is.
    Asked {
        effect: usize,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        completion: Completion,
        cost: Usd,
    },
    /// The model has replied. The effects have not looked, no call was run. `silent` is a reply that says nothing, and
    /// does not stand in the conversation.
    Replied {
        iteration: u32,
        model: String,
        stop: StopReason,
        usage: Usage,
        cost: Usd,
        #[serde(with = "millis")]
        took: Duration,
        changes: Vec<ChatChange>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        silent: Option<Message>,
    },
    /// A model was asked in vain, or for a tool: what it used has to be paid, and what it said stands nowhere.
    Wasted { usage: Usage, cost: Usd },
    /// The effects have looked at the reply.
    Looked {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectMemory>,
    },
    /// A call that cannot be made twice is about to be made.
    CallBegan { call: String, tool: String },
    /// A call has its result.
    CallEnded {
        result: ToolResult,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        control: Option<RunControl>,
        /// Whether it counts for the budget.
        counted: bool,
    },
    /// A message was sent to an agent at work.
    Sent { message: Message },
    /// A middleware has let the run pass, and this is what it wants to remember. `input` is what it put in place of the
    /// input.
    Passed {
        level: usize,
        middleware: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
        state: Vec<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Vec<Message>>,
    },
    /// A middleware has asked for another attempt, the `attempt`th beyond the first.
    Retried {
        level: usize,
        attempt: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
        state: Vec<u8>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        input: Vec<Message>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
    },
    /// Messages were sent to an agent that was about to end: it goes on with them, through all its middleware.
    WentOn {
        input: Vec<Message>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
    },
    /// A team has decided who works next. `state` is what its coordinator wants to remember; messages have come into its
    /// conversation since the step before.
    Chose {
        step: u32,
        members: Vec<ChosenMember>,
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
        state: Vec<u8>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        /// Time since the run began, as far as it was at work.
        #[serde(with = "millis")]
        elapsed: Duration,
    },
    /// Tasks were given to other agents, all those of one call: of `delegate`, or of an agent as a tool.
    Delegated { call: String, tasks: Vec<DelegatedTask> },
    /// An agent that was delegated to waits for an answer. `question` names its call.
    Parked { call: String, task: usize, delegation: String, question: String },
    /// A question has its answer; `by` names the call that gave it.
    Answered { delegation: String, by: String, answer: String },
    /// A task that was delegated has ended, and what that means for the task of the board that it stands for.
    Returned {
        call: String,
        task: usize,
        entry: DelegationReport,
        account: BudgetBreakdown,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        board: Option<BoardTaskOutcome>,
    },
    /// A run has ended.
    Ended {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        outcome: RecordedRunEnd,
        iterations: u32,
        usage: Usage,
        account: BudgetBreakdown,
    },
    /// A task of the board is now as it says. `by` names the call that changed it.
    Task {
        task: Task,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<ToolCallId>,
    },
    /// A blackboard has changed.
    Blackboard {
        namespace: String,
        change: BlackboardChange,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<ToolCallId>,
    },
    /// Somebody, or what stands for somebody, has decided.
    Decided { agent: Arc<str>, question: String, outcome: String, by: AnsweredBy },
    /// A call of a plugin was given values that another call would not be given.
    Given {
        agent: Arc<str>,
        plugin: Arc<str>,
        function: String,
        #[serde(flatten)]
        given: NondeterministicInputs,
    },
}

/// A task that was delegated: by which call of which run, and which of its tasks it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DelegationId {
    /// The run that delegated it.
    pub run: u64,
    /// The call that gave it; of a member of a team its step.
    pub call: String,
    /// Its place in that call, from 0 on.
    pub task: usize,
}

/// How a conversation goes with that of whom its agent works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideChatRef {
    /// As what: a member's name, or a tool's.
    pub name: Arc<str>,
    /// The newest message of the other one that has been put into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<u64>,
}

/// A member of a team that works in a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenMember {
    /// Its name in the team.
    pub member: Arc<str>,
    /// What it was given to do beside what it hears.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What may be spent on it.
    pub bounds: AllocationBounds,
}

/// A call of a tool: of which agent, and which one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallId {
    /// The agent's instance name.
    pub agent: Arc<str>,
    /// The call's id in its conversation.
    pub call: String,
}

impl ToolCallId {
    /// The call in which this code runs.
    pub(in crate::agent) fn current() -> Option<Self> {
        current_call().map(|CurrentCall { agent, call }| Self { agent, call })
    }
}

/// One task of a call of `delegate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegatedTask {
    /// Names the delegation where one that delegates answers questions; not there for a call of an agent that is a tool, and in
    /// what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent that is to work on it first.
    pub agent: Arc<str>,
    /// Its instance name.
    pub instance: Arc<str>,
    /// What may be spent on it.
    pub bounds: AllocationBounds,
}

/// What becomes of a task of the board when the agent that has it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTaskOutcome {
    /// The task.
    pub id: String,
    /// The instance name of the agent that has it.
    pub holder: Arc<str>,
    /// How it ended.
    pub status: TaskStatus,
}

/// What an effect remembers, and what it has hidden.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EffectMemory {
    /// The effect's name.
    pub name: String,
    /// Its place among the effects.
    pub at: usize,
    /// Names what it was set to; not there in what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// Its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub state: Vec<u8>,
    /// When it is to be called again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
    /// Tools that it hides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// The names of the agent's tools when it last looked, if it may hide tools; not there in what older versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<BTreeSet<String>>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RecordedRunEnd {
    /// With an answer.
    Answered { message: Message },
    /// The agent said that its task has ended.
    Completed { message: Message, completed: TaskCompletion },
    /// The agent handed its task over.
    HandedOver { message: Message, to: TaskHandoff },
    /// Without an answer. `exhausted` if a bound on turns, spending or time ended it.
    Failed { error: String, exhausted: bool, cancelled: bool },
}

pub(crate) mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::{
        capability::BudgetUsage,
        chat::{Media, MediaData, OpaqueContent, Part, Role, ThinkingPart, ToolCall, ToolResultContent},
        limits,
        tool::CompletionStatus,
    };

    fn message() -> Message {
        let media = Media { media_type: "image/png".into(), name: None, source: MediaData::Bytes([0, 255][..].into()) };
        let call =
            ToolCall { id: "c".into(), name: "t".into(), arguments: "{".into(), meta: vec![("k".into(), "v".into())] };
        let parts = vec![
            Part::Text("é\u{2028}\n\"".into()),
            Part::Media(media),
            Part::Thinking(ThinkingPart { text: String::new(), opaque: Some("o".into()) }),
            Part::ToolCall(call),
            Part::Other(OpaqueContent { kind: "k".into(), json: "[".into() }),
        ];
        Message { sender: "ada".into(), role: Role::Assistant, parts, meta: vec![("k".into(), "v".into())] }
    }

    fn spent() -> (Usage, Usd, BudgetBreakdown) {
        let usage = Usage { input_tokens: u64::MAX, output_tokens: 2, cache_read_tokens: 3, cache_write_tokens: 4 };
        let usd = Usd::from_pico(1_234_567_890_123);
        let own = BudgetUsage { usage, usd, tool_calls: u64::MAX };
        (usage, usd, BudgetBreakdown { own, of_children: BudgetUsage { usage, usd: Usd::from_pico(1), tool_calls: 1 } })
    }

    fn completion() -> Completion {
        let (usage, ..) = spent();
        let stop = StopReason::EndTurn;
        Completion { parts: message().parts, stop, usage, model: "m".into(), meta: message().meta }
    }

    fn ends() -> Vec<RecordedRunEnd> {
        let (files_modified, tests_run) = (vec!["f".into()], vec!["t".into()]);
        let (status, summary, caveats) = (CompletionStatus::Failed, "s".into(), Some("c".into()));
        let completed = TaskCompletion { status, summary, files_modified, tests_run, caveats };
        let to = TaskHandoff { agent: "bob".into(), reason: "r".into(), context: "c".into() };
        vec![
            RecordedRunEnd::Answered { message: message() },
            RecordedRunEnd::Completed { message: message(), completed },
            RecordedRunEnd::HandedOver { message: message(), to },
            RecordedRunEnd::Failed { error: "e".into(), exhausted: true, cancelled: false },
        ]
    }

    /// A record of each kind, with all of its fields.
    fn records() -> Vec<JournalRecord> {
        let ((usage, cost, account), (agent, call)): (_, (Arc<str>, String)) = (spent(), ("ada".into(), "c".into()));
        let by = || Some(ToolCallId { agent: Arc::clone(&agent), call: call.clone() });
        let changes = || vec![ChatChange::Waits(message().into()), ChatChange::Prompted { id: u64::MAX }];
        let wake = Some(Wake { model_time: Some(limits::TOOL_TIME), iteration: Some(1), ..Wake::default() });
        let (name, hidden) = ("e".into(), vec!["t".into()]);
        let effects = || vec![EffectMemory { name: String::new(), at: 1, ..EffectMemory::default() }];
        let seen = Some(["t".to_owned(), "u".into()].into());
        let memory = EffectMemory { name, at: 0, setup: Some("s".into()), state: vec![0, 255], wake, hidden, seen };
        let result =
            ToolResult { call_id: call.clone(), content: vec![ToolResultContent::Json("[1]".into())], is_error: true };
        let bounds = AllocationBounds { tokens: Some(0), usd: Some(Usd::ZERO), tool_calls: Some(u64::MAX) };
        let instance: Arc<str> = "ada-t-1".into();
        let nested = (0..limits::TASK_METADATA_DEPTH).fold(json!(1.5), |inner, _| json!([inner]));
        let task = Task {
            id: "task-1".into(),
            title: "t".into(),
            description: "d".into(),
            status: TaskStatus::InProgress,
            assignee: Some("ada".into()),
            blocked_by: vec!["task-2".into()],
            metadata: [("k".into(), nested)].into(),
            created_by: None,
        };
        let change = BlackboardChange { key: "k".into(), revision: 7, value: Some("[null]".into()) };
        let given = NondeterministicInputs { clock: vec![u64::MAX, 0], random: vec![0, 255], cut: true };
        let mut records = vec![
            JournalRecord::Began {
                agent: agent.clone(),
                instance: instance.clone(),
                model: "m".into(),
                depth: 1,
                errand: Some(DelegationId { run: 1, call: call.clone(), task: 2 }),
                continues: Some(3),
                beside: Some(SideChatRef { name: "m".into(), heard: Some(7) }),
                input: vec![message()],
                prompt: "p".into(),
                changes: changes(),
            },
            JournalRecord::Turn { iteration: 1, changes: changes(), effects: vec![memory], elapsed: limits::TOOL_TIME },
            JournalRecord::Asked { effect: 1, name: "e".into(), completion: completion(), cost },
            JournalRecord::Replied {
                iteration: 1,
                model: "m".into(),
                stop: StopReason::MaxTokens,
                usage,
                cost,
                took: limits::TOOL_TIME,
                changes: changes(),
                silent: Some(message()),
            },
            JournalRecord::Wasted { usage, cost },
            JournalRecord::Looked { changes: changes(), effects: effects() },
            JournalRecord::CallBegan { call: call.clone(), tool: "t".into() },
            JournalRecord::CallEnded {
                result,
                control: Some(RunControl::Complete(TaskCompletion::bare(CompletionStatus::Completed))),
                counted: true,
            },
            JournalRecord::Sent { message: message() },
            JournalRecord::Passed {
                level: 1,
                middleware: "w".into(),
                state: vec![0, 255],
                input: Some(vec![message()]),
            },
            JournalRecord::Retried { level: 1, attempt: 2, state: vec![9], input: vec![message()], changes: changes() },
            JournalRecord::WentOn { input: vec![message()], changes: changes() },
            JournalRecord::Chose {
                step: 1,
                members: vec![ChosenMember { member: "m".into(), task: Some("t".into()), bounds }],
                state: vec![0, 255],
                changes: changes(),
                elapsed: limits::TOOL_TIME,
            },
            JournalRecord::Delegated {
                call: call.clone(),
                tasks: vec![DelegatedTask {
                    id: Some("d-1".into()),
                    agent: agent.clone(),
                    instance: instance.clone(),
                    bounds,
                }],
            },
            JournalRecord::Parked { call: call.clone(), task: 1, delegation: "d-1".into(), question: "q".into() },
            JournalRecord::Answered { delegation: "d-1".into(), by: call.clone(), answer: "a".into() },
            JournalRecord::Returned {
                call: call.clone(),
                task: 1,
                entry: DelegationReport {
                    agent: "bob".into(),
                    result: Some("r".into()),
                    ..DelegationReport::default()
                },
                account,
                board: Some(BoardTaskOutcome {
                    id: "task-1".into(),
                    holder: instance.clone(),
                    status: TaskStatus::Failed,
                }),
            },
            JournalRecord::Task { task, by: by() },
            JournalRecord::Blackboard { namespace: "n".into(), change, by: by() },
            JournalRecord::Decided {
                agent: agent.clone(),
                question: "q".into(),
                outcome: "yes".into(),
                by: AnsweredBy::Person,
            },
            JournalRecord::Given { agent, plugin: "p".into(), function: "tool.call".into(), given },
        ];
        let ended = |outcome| JournalRecord::Ended { changes: changes(), outcome, iterations: 1, usage, account };
        records.extend(ends().into_iter().map(ended));
        records
    }

    #[test]
    fn each_record_is_one_line_and_read_as_it_was_written() {
        let mut kinds = BTreeSet::new();
        for record in records() {
            let json = serde_json::to_string(&record).unwrap();
            assert!(!json.contains('\n'), "{json}");
            assert_eq!(
                serde_json::from_str::<JournalRecord>(&json).unwrap_or_else(|error| panic!("{error}: {json}")),
                record
            );
            let value: serde_json::Value = serde_json::from_str(&json).unwrap();
            kinds.insert(value["kind"].as_str().unwrap().to_owned());
        }
        let source = include_str!("journal_record.rs");
        let (_, body) = source.split_once("pub enum JournalRecord {\n").unwrap();
        let (body, _) = body.split_once("\n}\n").unwrap();
        let is_case = |line: &&str| line.starts_with("    ") && line[4..].starts_with(|c: char| c.is_ascii_uppercase());
        assert_eq!(kinds.len(), body.lines().filter(is_case).count(), "a kind is missing: {kinds:?}");
    }
}
