use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

/// The party for which a run works.
#[derive(Debug, Clone, Default)]
pub(crate) enum RunOrigin {
    /// The person who started the run.
    #[default]
    Person,
    /// The agent that delegated a task to it.
    Delegator(Arc<DelegationContext>),
    /// The parent that runs it as a team member or calls it as a tool.
    Member {
        /// The instance name of the parent.
        parent: Arc<str>,
        /// The id of the call; `None` for a team member.
        call: Option<Arc<str>>,
    },
}

impl RunOrigin {
    /// Returns the context that the delegating agent gave.
    pub fn assignment(&self) -> Option<&Arc<DelegationContext>> {
        match self {
            Self::Delegator(assignment) => Some(assignment),
            Self::Person | Self::Member { .. } => None,
        }
    }

    /// Returns the instance name of the parent; `None` if a person started the run.
    pub fn parent(&self) -> Option<&Arc<str>> {
        match self {
            Self::Person => None,
            Self::Delegator(assignment) => Some(&assignment.delegator),
            Self::Member { parent, .. } => Some(parent),
        }
    }

    /// Returns the id of the parent's call for which the run works; `None` if a person or a team started the run.
    pub fn parent_call(&self) -> Option<&Arc<str>> {
        match self {
            Self::Person => None,
            Self::Delegator(assignment) => Some(&assignment.call),
            Self::Member { call, .. } => call.as_ref(),
        }
    }
}

/// The context that the delegating agent gave to an agent.
#[derive(Debug)]
pub struct DelegationContext {
    /// The instance name of the delegating agent.
    pub delegator: Arc<str>,
    /// The id of the call with which it delegated the task.
    pub call: Arc<str>,
    /// The facts that the agent must know.
    pub context: String,
    /// The number of times that the task may still be handed to another agent.
    pub handoffs_left: u32,
    /// The source of answers to the agent's questions.
    pub question_route: QuestionRoute,
    /// The time that a question waits for its answer; `None`: no limit.
    pub question_time: Option<Duration>,
}

/// The source of answers to the agent's questions.
#[derive(Debug, Clone)]
pub enum QuestionRoute {
    /// The context that the agent was given.
    Context,
    /// The delegating agent.
    Parent(mpsc::Sender<DelegateQuestion>),
}

/// A question that waits for its answer.
#[derive(Debug)]
pub struct DelegateQuestion {
    /// The instance name of the agent that asks.
    pub agent: Arc<str>,
    /// The id of the call that asks.
    pub call: String,
    pub question: String,
    pub answer: oneshot::Sender<String>,
    /// Set when the agent has waited long enough and goes on without an answer.
    pub timed_out: Arc<AtomicBool>,
}
