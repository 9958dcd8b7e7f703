use crate::{
    agent::RunAnswer,
    app::{PreparedRun, RunSession, TelemetryFlush},
    cli::live::FinishedDisplay,
    error::Report,
    model::Ledger,
    task::AnswerSchema,
};

/// The end of an invocation that got as far as preparing its run.
pub(super) struct FinishedInvocation {
    pub outcome: InvocationOutcome,
    /// The usage of each agent.
    pub agents: Ledger,
    /// The name of the session.
    pub session: Option<String>,
    /// The progress that was shown.
    pub shown: FinishedDisplay,
    /// The schema that the answer follows.
    pub schema: Option<AnswerSchema>,
    /// `true` if the stream of events was begun, where that is the output.
    pub has_stream: bool,
    /// The end of telemetry, which is waited for once the outcome is shown.
    pub telemetry: TelemetryFlush,
}

/// The outcome of an invocation.
pub(super) enum InvocationOutcome {
    /// An answer of this agent on this model.
    Answered {
        agent: String,
        model: String,
        answer: Box<RunAnswer>,
    },
    Failed(Report),
    /// Cancelled by a signal, with the exit code for it.
    Cancelled(u8),
}

impl FinishedInvocation {
    /// Returns the end of an invocation whose stream of events was begun, without an answer that follows a schema: nothing
    /// was shown of it, unless the caller says so.
    pub fn of_run(
        outcome: InvocationOutcome,
        prepared: &PreparedRun,
        session: Option<&RunSession>,
        telemetry: TelemetryFlush,
    ) -> Self {
        Self {
            outcome,
            agents: prepared.agent_group.ledger(),
            session: session.map(|session| session.journal.id().to_owned()),
            shown: FinishedDisplay::default(),
            schema: None,
            has_stream: true,
            telemetry,
        }
    }

    /// Returns the end of an invocation that a signal has cancelled before its run began.
    pub fn cancelled(code: u8) -> Self {
        Self {
            outcome: InvocationOutcome::Cancelled(code),
            agents: Ledger::new(),
            session: None,
            shown: FinishedDisplay::default(),
            schema: None,
            has_stream: false,
            telemetry: TelemetryFlush::default(),
        }
    }
}
