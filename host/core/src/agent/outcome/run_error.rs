use super::{JournalWriteError, WindowExceeded};
use crate::{
    capability::BudgetExhausted,
    chat::ChatEditError,
    error::{ErrorKind, Fault},
    limits,
};

/// The reason why a run has no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RunError {
    /// The request to the model failed.
    #[error("the request to the model failed")]
    Model(#[source] Fault),
    /// The run reached its maximum number of turns.
    #[error("no answer after {count} {unit}", count = .0, unit = if *.0 == 1 { "turn" } else { "turns" })]
    MaxIterations(u32),
    /// The budget of the run is spent.
    #[error("{0}")]
    Budget(BudgetExhausted),
    /// A request is larger than the context window of its model.
    #[error(transparent)]
    Window(Box<WindowExceeded>),
    /// The conversation reached [`limits::CHAT_BYTES`].
    #[error("the conversation reached {} MiB without an answer", limits::CHAT_BYTES >> 20)]
    ChatFull,
    /// The conversations of the run together reached their maximum number of bytes.
    #[error(
        "the conversations of this run exceed {0} bytes in total, without an answer; raise `runs.chat_bytes` in the \
         config"
    )]
    ConversationsFull(usize),
    /// A message of the input is not allowed in a conversation.
    #[error("the input is not valid in this conversation")]
    Input(#[source] ChatEditError),
    /// The reply was cut at the maximum length that the model or the config allows.
    #[error("the model's reply was cut off at its maximum length")]
    Cut,
    /// The reply has neither text nor calls, which is no answer.
    #[error("the model returned an empty reply")]
    Empty,
    /// The model or its vendor declined to answer.
    #[error("the model declined to answer: {0}")]
    Refused(String),
    /// An effect ended the run.
    #[error("`{by}` stopped the run ({code}): {message}")]
    Stopped { by: String, code: String, message: String },
    /// An effect failed.
    #[error("effect `{name}` failed")]
    Effect {
        name: String,
        #[source]
        fault: Fault,
    },
    /// A middleware failed.
    #[error("middleware `{name}` failed")]
    Middleware {
        name: String,
        #[source]
        fault: Fault,
    },
    /// A middleware rejected the task or the answer.
    #[error("rejected by middleware `{by}`")]
    Rejected {
        by: String,
        #[source]
        fault: Fault,
    },
    /// The coordinator of a team failed, or reached its bound.
    #[error("coordinator `{name}` failed")]
    Coordinator {
        name: String,
        #[source]
        fault: Fault,
    },
    /// A member of a team failed.
    #[error("member `{member}` failed")]
    Member {
        member: String,
        #[source]
        fault: Fault,
    },
    /// The journal cannot be written any more. The run stops, since later work could not be resumed.
    #[error("cannot write the journal of the session")]
    Unrecorded(#[source] JournalWriteError),
    /// The run was cancelled.
    #[error("the run was cancelled")]
    Cancelled,
    /// Code inside the run panicked; nothing else is affected.
    #[error("the run crashed: {0}")]
    Crashed(String),
}

impl RunError {
    /// Returns the kind of the failure. Only a failed request to the model counts as the provider's.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Model(_) => ErrorKind::Provider,
            Self::Crashed(_) => ErrorKind::Bug,
            _ => ErrorKind::Run,
        }
    }

    /// Returns `true` if a bound on turns, spending, time or the size of all conversations ended the run, so that its task is
    /// unfinished. A stop by an effect is no bound: the effect has ended the run as failed.
    pub fn is_exhausted(&self) -> bool {
        match self {
            Self::Member { fault, .. } | Self::Coordinator { fault, .. } => matches!(fault, Fault::Exhausted { .. }),
            _ => matches!(self, Self::MaxIterations(_) | Self::Budget(_) | Self::ConversationsFull(_)),
        }
    }

    /// Returns the failure in the form that middleware, parent runs and coordinators receive. Its case says whether another
    /// attempt is of use: after a stop by an effect, and in a full conversation, it would end in the same way. So both are
    /// [`Fault::Exhausted`], although they are not [`is_exhausted`](Self::is_exhausted).
    pub(crate) fn as_fault(&self) -> Fault {
        match self {
            Self::Model(fault) | Self::Rejected { fault, .. } => fault.clone(),
            Self::MaxIterations(_)
            | Self::Budget(_)
            | Self::ChatFull
            | Self::ConversationsFull(_)
            | Self::Stopped { .. } => Fault::Exhausted { message: self.to_string() },
            Self::Cut | Self::Window(_) => Fault::TooLarge { message: self.in_full() },
            Self::Empty | Self::Cancelled | Self::Crashed(_) | Self::Unrecorded(_) => Fault::other(self.to_string()),
            Self::Input(error) => Fault::invalid(error.to_string()),
            Self::Member { fault, .. } | Self::Coordinator { fault, .. } => fault.clone().with_context(self),
            Self::Effect { fault, .. } | Self::Middleware { fault, .. } => Fault::other(format!("{self}: {fault}")),
            Self::Refused(_) => Fault::Denied { message: self.to_string() },
        }
    }

    /// Returns the failure with its cause, in one line.
    pub fn in_full(&self) -> String {
        match std::error::Error::source(self) {
            Some(cause) => format!("{self}: {cause}"),
            None => self.to_string(),
        }
    }
}
