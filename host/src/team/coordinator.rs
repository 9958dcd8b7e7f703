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

/// Decides who in a team works next: a pure step, whose state the host keeps.
#[async_trait]
pub trait Coordinator: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// The models of the config that it may ask, beside the team's own.
    fn models(&self) -> &NameSet {
        &NO_MODELS
    }

    /// Whether it may ask models at all; one that may not is answered [`Fault::Denied`].
    fn may_ask(&self) -> bool {
        true
    }

    /// Returns `true` if it is told in the conversation that a member hands over, by a note of that member: for one that is not
    /// told [`MemberOutcome::HandedOver`].
    fn reads_hand_overs(&self) -> bool {
        false
    }

    /// Decides. `state` is what the last call returned; empty in the first call of each run of the team.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which ends the team's run; [`Fault::Exhausted`] is the one for too many rounds.
    async fn next(&self, cx: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault>;
}

static NO_MODELS: LazyLock<NameSet> = LazyLock::new(NameSet::default);

/// What a coordinator is told.
#[derive(Debug)]
pub struct CoordinatorInput<'a> {
    /// Steps before this one; calls for an [`CoordinatorAction::Ask`] do not count.
    pub step: u32,
    /// The conversation that the team shares. It stands still during a call.
    pub shared: &'a ChatSnapshot,
    /// Who is there now, in order. Members may come and go between steps.
    pub members: &'a [MemberProfile],
    /// The last step, in order of selection.
    pub reports: &'a [MemberReport],
    /// The member that worked last, also in an earlier run of this team on this conversation.
    pub active: Option<&'a str>,
    /// The answer to an [`CoordinatorAction::Ask`], only in the call that follows it.
    pub reply: Option<Result<Completion, Fault>>,
}

/// One of the team, as its coordinator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberProfile {
    /// Unique in the team.
    pub name: Arc<str>,
    /// What it is in the team; several may share one.
    pub role: Arc<str>,
    /// What it is good for.
    pub description: Arc<str>,
}

/// How a member of the last step fared.
#[derive(Debug, Clone)]
pub struct MemberReport {
    /// Who.
    pub member: Arc<str>,
    /// How.
    pub fared: MemberOutcome,
}

/// What a member's work came to.
#[derive(Debug, Clone)]
pub enum MemberOutcome {
    /// Its reply is in the chat.
    Replied,
    /// It wants another one to go on.
    HandedOver(TaskHandoff),
    /// It failed, and the team goes on without its reply.
    Failed(Fault),
}

/// Who works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberAssignment {
    /// A name out of [`CoordinatorInput::members`].
    pub member: Arc<str>,
    /// Put as a user message before that member alone. None: it just sees what is new in the shared chat.
    pub task: Option<String>,
}

impl MemberAssignment {
    /// This member, without a task of its own.
    pub fn of(member: impl Into<Arc<str>>) -> Self {
        Self { member: member.into(), task: None }
    }
}

/// What to do.
#[derive(Debug, Clone)]
pub enum CoordinatorAction {
    /// These work now, side by side. Nobody twice in a row ends the run as failed.
    Run(Vec<MemberAssignment>),
    /// The team is done. None: with the last message of the chat.
    Done(Option<Vec<Part>>),
    /// Ask a model, then call again.
    Ask(Box<ModelQuery>),
}

/// The answer of a coordinator.
#[derive(Debug, Clone)]
pub struct CoordinatorStep {
    /// For the next call; at most [`limits::STATE_BYTES`](crate::limits::STATE_BYTES).
    pub state: Vec<u8>,
    /// What to do.
    pub action: CoordinatorAction,
    /// Why, in its own words, for people: told with the step.
    pub reasoning: Option<String>,
}

impl CoordinatorStep {
    /// This action, and nothing to say.
    pub fn new(state: Vec<u8>, action: CoordinatorAction) -> Self {
        Self { state, action, reasoning: None }
    }
}
