use std::sync::{Arc, LazyLock};

use async_trait::async_trait;

use crate::{
    agent::ModelQuery,
    capability::NameSet,
    chat::{ChatSnapshot, Part},
    error::Fault,
    event::RunCx,
    model::Completion,
    tool::TaskHandoff,
};

/// Decides which members of a team work next: a pure step, whose state the host keeps.
#[async_trait]
pub trait Coordinator: Send + Sync {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns the models of the config that it may ask, in addition to the team's own.
    fn models(&self) -> &NameSet {
        &NO_MODELS
    }

    /// Returns `true` if it may ask models; a question of another coordinator is answered with [`Fault::Denied`].
    fn may_ask(&self) -> bool {
        true
    }

    /// Returns `true` if handoffs are added to the conversation as notes of the member, for a coordinator that does not
    /// receive [`MemberOutcome::HandedOver`].
    fn reads_handoffs(&self) -> bool {
        false
    }

    /// Decides. `state` is what the last call returned; empty in the first call of each run of the team.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`], which ends the team's run; [`Fault::Exhausted`] stands for too many rounds.
    async fn next(&self, cx: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault>;
}

static NO_MODELS: LazyLock<NameSet> = LazyLock::new(NameSet::default);

/// The input of a coordinator.
#[derive(Debug)]
pub struct CoordinatorInput<'a> {
    /// The number of steps before this one; calls for a [`CoordinatorAction::Ask`] do not count.
    pub step: u32,
    /// The conversation that the team shares. It does not change during a call.
    pub shared: &'a ChatSnapshot,
    /// The current members, in order. Members may come and go between steps.
    pub members: &'a [MemberProfile],
    /// The reports on the last step, in the order in which the members were chosen.
    pub reports: &'a [MemberReport],
    /// The member that worked last, also in an earlier run of this team on this conversation.
    pub active: Option<&'a str>,
    /// The answer to a [`CoordinatorAction::Ask`], only in the call that follows it.
    pub reply: Option<Result<Completion, Fault>>,
}

/// A member of the team, as its coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberProfile {
    /// The name, unique in the team.
    pub name: Arc<str>,
    /// The role in the team; several members may share one.
    pub role: Arc<str>,
    /// The purpose of the member.
    pub description: Arc<str>,
}

/// The report on a member of the last step.
#[derive(Debug, Clone)]
pub struct MemberReport {
    /// The name of the member.
    pub member: Arc<str>,
    /// The outcome of its work.
    pub fared: MemberOutcome,
}

/// The outcome of a member's work.
#[derive(Debug, Clone)]
pub enum MemberOutcome {
    /// Its reply is in the chat.
    Replied,
    /// The member asked for another one to continue.
    HandedOver(TaskHandoff),
    /// The member failed, and the team continues without its reply.
    Failed(Fault),
}

/// The assignment of a member to a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAssignment {
    /// A name out of [`CoordinatorInput::members`].
    pub member: Arc<str>,
    /// A task that this member alone receives as a user message. `None`: it only sees the new messages of the shared chat.
    pub task: Option<String>,
}

impl MemberAssignment {
    /// Returns an assignment without a task.
    pub fn of(member: impl Into<Arc<str>>) -> Self {
        Self { member: member.into(), task: None }
    }
}

/// The action that a coordinator returns.
#[derive(Debug, Clone)]
pub enum CoordinatorAction {
    /// These members work now, side by side. An empty list twice in a row fails the run.
    Run(Vec<MemberAssignment>),
    /// The team is done, with this answer. `None`: the answer is the last message of the chat.
    Done(Option<Vec<Part>>),
    /// Ask a model, then call the coordinator again.
    Ask(Box<ModelQuery>),
}

/// The answer of a coordinator.
#[derive(Debug, Clone)]
pub struct CoordinatorStep {
    /// The state for the next call; at most [`limits::STATE_BYTES`](crate::limits::STATE_BYTES).
    pub state: Vec<u8>,
    /// The action to take.
    pub action: CoordinatorAction,
    /// The reason for the decision, for people; part of the step's event.
    pub reasoning: Option<String>,
}

impl CoordinatorStep {
    /// Returns a step with this action and without a reason.
    pub fn new(state: Vec<u8>, action: CoordinatorAction) -> Self {
        Self { state, action, reasoning: None }
    }
}
