use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    agent::{Wake, delegate::Entry},
    capability::{Account, Bounds, Usd},
    chat::{Change, Message, StopReason, ToolResult, Usage, as_base64},
    model::Completion,
    state::{BlackboardChange, Task, TaskStatus},
    tool::{Completed, Control, CurrentCall, HandOver, current_call},
};

/// Writes down what happens, in the order in which it is told.
pub trait Recorder: Send + Sync + fmt::Debug {
    /// Writes a record of a run: it follows all that were written before, and is on its way to the disk. Never waits.
    fn write(&self, run: u64, record: &Record) -> Mark;

    /// Waits until a record and all before it would survive a loss of power.
    fn kept(&self, mark: Mark) -> Pin<Box<dyn Future<Output = Result<(), Lost>> + Send + '_>>;

    /// Why nothing more is written, if that is so.
    fn lost(&self) -> Option<Lost>;
}

/// A place in what is written: larger ones come later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub u64);

/// What happens cannot be written down any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Lost {
    /// Why, and what to do.
    pub reason: String,
}

/// Something that happened in a run and that it takes to go on later. All of them in order, cut off anywhere, are a state
/// from which the run goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Record {
    /// A run began. `prompt` is its system prompt.
    Began {
        agent: Arc<str>,
        instance: Arc<str>,
        model: String,
        depth: u32,
        /// Of whom it works for; none for one that a person started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        errand: Option<ErrandId>,
        /// An earlier run whose conversation it goes on with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<u64>,
        /// What it was given; nothing for one that works for another, whose call says it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        input: Vec<Message>,
        prompt: Arc<str>,
    },
    /// The model is about to be asked, in turn `iteration`, counted from 0. The effects have looked.
    Turn {
        iteration: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        /// The memory of those effects whose memory has changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectMemory>,
        /// Time since the run began, as far as it was at work.
        #[serde(with = "millis")]
        elapsed: Duration,
    },
    /// A model has answered an effect; `cost` is known if its price is.
    Asked { effect: usize, completion: Completion, cost: Usd },
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
        changes: Vec<Change>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        silent: Option<Message>,
    },
    /// A model was asked in vain, and what it used has to be paid.
    Wasted { usage: Usage, cost: Usd },
    /// The effects have looked at the reply.
    Looked {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        effects: Vec<EffectMemory>,
    },
    /// A call that cannot be made twice is about to be made.
    CallBegan { call: String, tool: String },
    /// A call has its result.
    CallEnded {
        result: ToolResult,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        control: Option<Control>,
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
        changes: Vec<Change>,
    },
    /// Messages were sent to an agent that was about to end: it goes on with them, through all its middleware.
    WentOn {
        input: Vec<Message>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
    },
    /// Tasks were given to other agents, all those of one call.
    Delegated { call: String, tasks: Vec<Delegated> },
    /// An agent that was delegated to waits for an answer. `question` names its call.
    Parked { call: String, task: usize, delegation: String, question: String },
    /// A question has its answer; `by` names the call that gave it.
    Answered { delegation: String, by: String, answer: String },
    /// A task that was delegated has ended, and what that means for the task of the board that it stands for.
    Returned {
        call: String,
        task: usize,
        entry: Entry,
        account: Account,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        board: Option<BoardTask>,
    },
    /// A run has ended.
    Ended {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        changes: Vec<Change>,
        outcome: Ended,
        iterations: u32,
        usage: Usage,
        account: Account,
    },
    /// A task of the board is now as it says. `by` names the call that changed it.
    Task {
        task: Task,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<CallId>,
    },
    /// A blackboard has changed.
    Blackboard {
        namespace: String,
        change: BlackboardChange,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<CallId>,
    },
    /// Somebody, or what stands for somebody, has decided.
    Decided { agent: Arc<str>, question: String, outcome: String, by: String },
    /// A call of a plugin was given values that another call would not be given.
    Given {
        agent: Arc<str>,
        plugin: Arc<str>,
        function: String,
        /// Nanoseconds since 1970, in the order in which they were asked for.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        clock: Vec<u64>,
        /// Random bytes, one after the other.
        #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
        random: Vec<u8>,
    },
}

/// A task that was delegated: by which call of which run, and which of its tasks it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrandId {
    /// The run that delegated it.
    pub run: u64,
    /// The call of `delegate`.
    pub call: String,
    /// Its place in that call, from 0 on.
    pub task: usize,
}

/// A call of a tool: of which agent, and which one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallId {
    /// The agent's instance name.
    pub agent: Arc<str>,
    /// The call's id in its conversation.
    pub call: String,
}

impl CallId {
    /// The call in which this code runs.
    pub(in crate::agent) fn current() -> Option<Self> {
        current_call().map(|CurrentCall { agent, call }| Self { agent, call })
    }
}

/// One task of a call of `delegate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegated {
    /// The agent that is to work on it first.
    pub agent: Arc<str>,
    /// Its instance name.
    pub instance: Arc<str>,
    /// What may be spent on it.
    pub bounds: Bounds,
}

/// What becomes of a task of the board when the agent that has it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoardTask {
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
    /// Its state.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub state: Vec<u8>,
    /// When it is to be called again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake: Option<Wake>,
    /// Tools that it hides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Ended {
    /// With an answer.
    Answered { message: Message },
    /// The agent said that its task has ended.
    Completed { message: Message, completed: Completed },
    /// The agent handed its task over.
    HandedOver { message: Message, to: HandOver },
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
