//! Built-in middleware, for users of the library.

use std::time::Duration;

use async_trait::async_trait;

use super::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome};
use crate::{chat::Message, error::Fault, event::RunCx};

/// A middleware that rejects answers. It ignores failed runs, and handoffs, whose message to the next agent is no answer.
/// [`OutputGuardrail::with_handoffs`] includes handoffs.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use shelly_core::{
///     agent::{Agent, LoggingMiddleware, OutputGuardrail, RunError, TimeoutMiddleware},
///     chat::{Chat, Message},
///     error::Fault,
///     event::RunCx,
///     model::ScriptedCompleter,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let guardrail = OutputGuardrail::new("no-secrets", |answer| {
///     match answer.text_content().contains("CONFIDENTIAL") {
///         true => Err(Fault::other("the answer holds confidential information")),
///         false => Ok(()),
///     }
/// });
/// let model = ScriptedCompleter::new([ScriptedCompleter::text("CONFIDENTIAL: 42")]);
/// let agent = Agent::new("assistant", "Be helpful.", Arc::new(model))
///     .with_middleware(LoggingMiddleware) // the outermost
///     .with_middleware(TimeoutMiddleware(Duration::from_secs(60)))
///     .with_middleware(guardrail);
/// let outcome = agent.run(&RunCx::new("assistant"), &Chat::new(), vec![Message::user("What is it?")]).await;
/// assert!(matches!(outcome, Err(RunError::Rejected { .. })));
/// # }
/// ```
pub struct OutputGuardrail<F> {
    name: String,
    check: F,
    attempts: u32,
    handoffs: bool,
}

impl<F: Fn(&Message) -> Result<(), Fault> + Send + Sync> OutputGuardrail<F> {
    /// Creates a guardrail that rejects an answer with the failure of `check`.
    pub fn new(name: impl Into<String>, check: F) -> Self {
        Self { name: name.into(), check, attempts: 0, handoffs: false }
    }

    /// Sets the number of times that the agent is told the reason and tries again before the answer is rejected. Bound:
    /// [`limits::MIDDLEWARE_RETRIES`](crate::limits::MIDDLEWARE_RETRIES).
    pub fn with_retries(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Includes handoff messages in the check, for content that must not reach any agent.
    pub fn with_handoffs(mut self) -> Self {
        self.handoffs = true;
        self
    }
}

#[async_trait]
impl<F: Fn(&Message) -> Result<(), Fault> + Send + Sync> RunMiddleware for OutputGuardrail<F> {
    fn name(&self) -> &str {
        &self.name
    }

    async fn after(&self, _: &RunCx, outcome: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        let Ok(answer) = &outcome.reply else { return Ok(AfterRunDecision::Accept) };
        if outcome.is_handoff() && !self.handoffs {
            return Ok(AfterRunDecision::Accept);
        }
        Ok(match (self.check)(answer) {
            Ok(()) => AfterRunDecision::Accept,
            Err(why) if outcome.attempt < self.attempts => {
                let feedback = Some(format!("Your answer was not accepted: {why}. Give a corrected answer."));
                AfterRunDecision::Retry { feedback, delay: Duration::ZERO, state: Vec::new() }
            }
            Err(why) => AfterRunDecision::Reject(why),
        })
    }
}

/// A middleware that rejects tasks before a model sees them.
pub struct InputGuardrail<F> {
    name: String,
    check: F,
}

impl<F: Fn(&[Message]) -> Result<(), Fault> + Send + Sync> InputGuardrail<F> {
    /// Creates a guardrail that rejects a task with the failure of `check`.
    pub fn new(name: impl Into<String>, check: F) -> Self {
        Self { name: name.into(), check }
    }
}

#[async_trait]
impl<F: Fn(&[Message]) -> Result<(), Fault> + Send + Sync> RunMiddleware for InputGuardrail<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn may_replace(&self) -> bool {
        false
    }

    async fn before(&self, _: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault> {
        Ok(match (self.check)(input) {
            Ok(()) => BeforeRunDecision::Proceed { input: None, state: Vec::new() },
            Err(why) => BeforeRunDecision::Reject(why),
        })
    }
}

/// A middleware that limits the wall time of each attempt.
pub struct TimeoutMiddleware(pub Duration);

#[async_trait]
impl RunMiddleware for TimeoutMiddleware {
    fn name(&self) -> &str {
        "timeout"
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(self.0)
    }

    fn may_replace(&self) -> bool {
        false
    }
}

/// A middleware that turns a panic of the run inside into a failure for the middleware around it, which can replace it.
/// Without this middleware a panic ends the run, and nothing else.
pub struct RecoveryMiddleware;

#[async_trait]
impl RunMiddleware for RecoveryMiddleware {
    fn name(&self) -> &str {
        "recovery"
    }

    fn recovers(&self) -> bool {
        true
    }

    fn may_replace(&self) -> bool {
        false
    }
}

/// The target under which [`LoggingMiddleware`] writes.
pub const LOGGER_TARGET: &str = "shelly_host::runs";

/// A middleware that logs the beginning and the end of each attempt through `tracing`.
pub struct LoggingMiddleware;

#[async_trait]
impl RunMiddleware for LoggingMiddleware {
    fn name(&self) -> &str {
        "logger"
    }

    fn may_replace(&self) -> bool {
        false
    }

    async fn before(&self, cx: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault> {
        tracing::info!(target: LOGGER_TARGET, run = &*cx.run, agent = &*cx.agent, depth = cx.depth, messages = input.len(), "begins");
        Ok(BeforeRunDecision::Proceed { input: None, state: Vec::new() })
    }

    async fn after(&self, cx: &RunCx, outcome: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        let tokens = outcome.usage.total();
        let (run, agent, attempt, seconds) = (&*cx.run, &*cx.agent, outcome.attempt, outcome.duration.as_secs_f64());
        match &outcome.reply {
            Ok(_) => tracing::info!(target: LOGGER_TARGET, run, agent, attempt, tokens, seconds, "answers"),
            Err(error) => tracing::warn!(target: LOGGER_TARGET, run, agent, attempt, tokens, seconds, %error, "fails"),
        }
        Ok(AfterRunDecision::Accept)
    }
}
