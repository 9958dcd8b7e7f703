use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use super::{DelegationReport, RecordedRunEnd, RemoteTaskRecord};
use crate::{
    agent::effect::Wake,
    capability::{AllocationBounds, BudgetBreakdown, Usd},
    chat::{ChatChange, Message, StopReason, ToolResult, Usage, as_base64},
    event::AnsweredBy,
    event::NondeterministicInputs,
    model::Completion,
    state::{BlackboardChange, Task, TaskStatus},
    tool::{RunControl, ToolCallId},
};

/// An event in a run that is needed to resume it. The records in order, cut off anywhere, describe a state from which the
/// run can be resumed.
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
        /// The delegated task that it works on; `None` if a person started the run.
        #[serde(rename = "errand", default, skip_serializing_if = "Option::is_none")]
        delegation_key: Option<DelegationKey>,
        /// An earlier run whose conversation it continues.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<u64>,
        /// The relation of its conversation to the parent's.
        #[serde(rename = "beside", default, skip_serializing_if = "Option::is_none")]
        side_chat: Option<SideChatRef>,
        /// Its input; empty for a delegated task, which the call of the parent run holds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        input: Vec<Message>,
        prompt: Arc<str>,
        /// The changes of its conversation since an earlier run there, or all changes that make it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
    },
    /// The model is about to be asked, in turn `iteration`, counted from 0. The effects have looked.
    Turn {
        iteration: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        /// The memory of the effects whose memory has changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectMemory>,
        /// Time since the run began, without interruptions.
        #[serde(with = "millis")]
        elapsed: Duration,
    },
    /// A model has answered an effect, given by its position and its name; `cost` is known if the model has a price.
    Asked {
        effect: usize,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        name: String,
        completion: Completion,
        cost: Usd,
    },
    /// The model has replied. The effects have not looked yet, and no call was run. `silent` is a reply that says nothing
    /// and is not in the conversation.
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
    /// A reply of a model was paid for but not used, or was asked for by a tool. It is in no conversation.
    Wasted { usage: Usage, cost: Usd },
    /// The effects have looked at the reply.
    Looked {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectMemory>,
    },
    /// A task is about to be given to an agent of another host, or was given.
    GaveRemoteTask { given: RemoteTaskRecord },
    /// A call that must not be repeated is about to be made.
    CallBegan { call: String, tool: String },
    /// A call has its result.
    CallEnded {
        result: ToolResult,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        control: Option<RunControl>,
        /// Set if the call counts for the budget.
        counted: bool,
        /// The full text of a result whose beginning alone is in `result`; absent in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full_text: Option<String>,
    },
    /// A message was sent to a running agent.
    Sent { message: Message },
    /// A middleware has let the run pass and returned its `state`. `input` is set if it replaced the input.
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
    /// Messages were sent to an agent that was about to end. It continues with them, through all its middleware.
    WentOn {
        input: Vec<Message>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
    },
    /// A team has chosen the members of a step. `state` is the state of its coordinator; `changes` are the messages that
    /// came into its conversation since the previous step.
    Chose {
        step: u32,
        members: Vec<ChosenMember>,
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
        state: Vec<u8>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<ChatChange>,
        /// Time since the run began, without interruptions.
        #[serde(with = "millis")]
        elapsed: Duration,
        /// The newest message before the input of this attempt, if it had input; absent in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
    },
    /// Tasks were given to other agents: all tasks of one call of `delegate`, or the call of an agent as a tool.
    Delegated {
        call: String,
        tasks: Vec<DelegatedTask>,
        /// The arguments of `delegate` if they are not those in the conversation, since middleware has changed them; absent
        /// in records of older versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
    },
    /// An agent that was delegated to waits for an answer. `asking_call` is the id of the call with which it asked.
    Parked {
        call: String,
        #[serde(rename = "task")]
        position: usize,
        delegation: String,
        #[serde(rename = "question")]
        asking_call: String,
    },
    /// A question has its answer; `answered_by` is the id of the call that gave it.
    Answered {
        delegation: String,
        #[serde(rename = "by")]
        answered_by: String,
        answer: String,
    },
    /// A delegated task has ended. `board` is the outcome for the board task that it stands for.
    Returned {
        call: String,
        #[serde(rename = "task")]
        position: usize,
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
    /// A task of the board has this new state. `by` is the call that changed it.
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
    /// A person, or a policy in place of a person, has decided.
    Decided { agent: Arc<str>, question: String, outcome: String, by: AnsweredBy },
    /// A plugin call received values that would differ in a repeated call.
    Given {
        agent: Arc<str>,
        plugin: Arc<str>,
        function: String,
        #[serde(flatten)]
        given: NondeterministicInputs,
    },
}

/// The key of a delegated task in the journal: the run, its call, and the position of the task in the call. The id that a
/// model reads, such as `d-1`, is [`DelegatedTask::id`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DelegationKey {
    /// The run that delegated it.
    pub run: u64,
    /// The call that delegated it; for a team member, the step.
    pub call: String,
    /// Its position in that call, from 0 on.
    #[serde(rename = "task")]
    pub position: usize,
}

impl DelegationKey {
    /// Returns what takes the place of a call for the members of a step of a team.
    pub(crate) fn call_of_step(step: u32) -> String {
        format!("step-{step}")
    }
}

/// The relation of a conversation to that of the parent run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideChatRef {
    /// The name of the agent in the parent's conversation: a member's name, or a tool's.
    pub name: Arc<str>,
    /// The newest message of the parent's conversation that was put into this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<u64>,
}

/// A team member that works in a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChosenMember {
    /// Its name in the team.
    pub member: Arc<str>,
    /// The task that it was given in addition to the shared messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The budget allocated to it.
    pub bounds: AllocationBounds,
}

/// One task of a `delegate` call, or the call of an agent as a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DelegatedTask {
    /// The id by which the delegating agent answers questions. Absent for an agent that is called as a tool, and in records
    /// of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The agent that works on it first.
    pub agent: Arc<str>,
    /// The instance name of that agent.
    pub instance: Arc<str>,
    /// The budget allocated to it.
    pub bounds: AllocationBounds,
}

/// The outcome of a board task after its agent has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTaskOutcome {
    /// The id of the task.
    pub id: String,
    /// The instance name of the agent that holds it.
    pub holder: Arc<str>,
    /// The new status.
    pub status: TaskStatus,
}

/// The memory of an effect: its state, and the tools that it has hidden.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct EffectMemory {
    /// The name of the effect.
    pub name: String,
    /// Its position in the list of effects.
    pub at: usize,
    /// An identifier of its parameters; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<String>,
    /// The state of the effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub state: Vec<u8>,
    /// The conditions for the next call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
    /// The tools that it hides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
    /// The names of the agent's tools when it last looked, if it may hide tools; absent in records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<BTreeSet<String>>,
}

mod millis {
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
        error::Fault,
        limits,
        tool::{CompletionStatus, TaskCompletion, TaskHandoff},
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
            RecordedRunEnd::Failed {
                error: "e".into(),
                exhausted: true,
                cancelled: false,
                fault: Some(Fault::other("")),
            },
        ]
    }

    /// Returns a record of each kind, with all of its fields.
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
                delegation_key: Some(DelegationKey { run: 1, call: call.clone(), position: 2 }),
                continues: Some(3),
                side_chat: Some(SideChatRef { name: "m".into(), heard: Some(7) }),
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
            JournalRecord::GaveRemoteTask {
                given: RemoteTaskRecord {
                    entry: 7,
                    message: "m".into(),
                    task: Some("t".into()),
                    spent: Some(account.own),
                    passed_on: 1,
                },
            },
            JournalRecord::CallBegan { call: call.clone(), tool: "t".into() },
            JournalRecord::CallEnded {
                result,
                control: Some(RunControl::Complete(TaskCompletion::bare(CompletionStatus::Completed))),
                counted: true,
                full_text: Some("[1, 2]".into()),
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
                since: Some(u64::MAX),
            },
            JournalRecord::Delegated {
                call: call.clone(),
                tasks: vec![DelegatedTask {
                    id: Some("d-1".into()),
                    agent: agent.clone(),
                    instance: instance.clone(),
                    bounds,
                }],
                arguments: Some("{}".into()),
            },
            JournalRecord::Parked {
                call: call.clone(),
                position: 1,
                delegation: "d-1".into(),
                asking_call: "q".into(),
            },
            JournalRecord::Answered { delegation: "d-1".into(), answered_by: call.clone(), answer: "a".into() },
            JournalRecord::Returned {
                call: call.clone(),
                position: 1,
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
    fn journal_records_round_trip_as_single_lines() {
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
