use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::Instant;

use super::RunError;
use crate::{
    chat::Message,
    error::{Fault, OnFailure, seconds},
    event::{Event, RunCx},
    limits,
    model::Usage,
};

/// Middleware around whole runs of an agent or team: a pair of pure steps, with state passed from the first to the second.
#[async_trait]
pub trait RunMiddleware: Send + Sync {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns the time limit of the run inside, for each attempt; `None`: no limit.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns `true` if a panic of the run inside becomes a failure for this middleware and those around it. Otherwise a
    /// panic ends the run.
    fn recovers(&self) -> bool {
        false
    }

    /// Returns `true` if it may replace the answer. Then nobody is shown a message before the middleware has passed it.
    fn may_replace(&self) -> bool {
        true
    }

    /// Returns the consequence of its failure for the run.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Runs before a run. `input` holds the new messages: the task, not the chat.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if it could not do its work; [`RunMiddleware::on_failure`] decides what that means for the run.
    async fn before(&self, cx: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault>;

    /// Runs after a run, and after each further attempt.
    ///
    /// # Errors
    ///
    /// The errors of [`RunMiddleware::before`].
    async fn after(&self, cx: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault>;
}

/// The decision about a run that has not begun.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum BeforeRunDecision {
    /// Run, with `input` in place of the original input if it is set; `state` is passed to `after`.
    Proceed { input: Option<Vec<Message>>, state: Vec<u8> },
    /// Do not run: this is the answer.
    Answer(Message),
    /// Do not run: fail.
    Reject(Fault),
}

/// The outcome of an attempt.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The final message, or the failure. If the agent handed over, it is the message for the next agent; if the agent
    /// reported the end of its task, it is that report.
    pub reply: Result<Message, Fault>,
    /// The usage of this attempt.
    pub usage: Usage,
    /// The duration of this attempt.
    pub duration: Duration,
    /// The number of earlier attempts that this middleware rejected with a retry.
    pub attempt: u32,
}

impl RunOutcome {
    /// Returns `true` if the agent hands over: then the reply is the message for the next agent, and no answer.
    pub fn is_hand_over(&self) -> bool {
        self.reply.as_ref().is_ok_and(|reply| reply.ending() == Some(HANDED_OVER))
    }
}

/// The word for [`RunEnding::HandedOver`](super::RunEnding::HandedOver) that middleware sees.
pub(super) const HANDED_OVER: &str = "handed-over";

/// Returns `true` if one of these may replace or withhold an answer.
pub(crate) fn may_replace_answers(around: &[Arc<dyn RunMiddleware>]) -> bool {
    around.iter().any(|middleware| middleware.may_replace())
}

/// The decision about a run that has ended.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum AfterRunDecision {
    /// Accept the outcome.
    Accept,
    /// Replace it with this message.
    Replace(Message),
    /// Fail.
    Reject(Fault),
    /// Run again on the chat as it is now, after `delay`. `feedback` becomes a user message; without it the agent is told
    /// to go on.
    Retry { feedback: Option<String>, delay: Duration, state: Vec<u8> },
}

/// Emits the event that a middleware intervened.
pub(super) async fn acted(cx: &RunCx, middleware: &str, action: &'static str) {
    let (agent, middleware) = (cx.agent.clone(), middleware.into());
    cx.events.emit(Event::MiddlewareActed { agent, middleware, action, tool: None, reason: None }).await;
}

/// The remaining time for pauses before further attempts, shared by all middleware around one reply or one answer.
#[derive(Debug)]
pub(super) struct MiddlewarePauses {
    left: Duration,
}

impl Default for MiddlewarePauses {
    fn default() -> Self {
        Self { left: limits::MIDDLEWARE_WAITING }
    }
}

impl MiddlewarePauses {
    /// Returns the next pause, cut to the time that is left, and emits an event for the attempt: the length of the pause,
    /// and the requested length if that is longer. `deadline` is that of the run.
    pub(super) async fn take(
        &mut self,
        cx: &RunCx,
        middleware: &str,
        asked: Duration,
        deadline: Option<Instant>,
    ) -> Duration {
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let pause = asked.min(limits::MIDDLEWARE_DELAY).min(self.left).min(left);
        self.left -= pause;
        let reason = (!asked.is_zero()).then(|| match pause == asked {
            true => format!("after {}", seconds(pause)),
            false => format!("after {}; it asked for {}", seconds(pause), seconds(asked)),
        });
        let (agent, middleware) = (cx.agent.clone(), middleware.into());
        cx.events.emit(Event::MiddlewareActed { agent, middleware, action: "retry", tool: None, reason }).await;
        pause
    }
}

/// Emits the event that a middleware intervened in a call of `tool`, with the reason if the call was denied.
pub(super) async fn acted_on(cx: &RunCx, middleware: &str, action: &'static str, tool: &str, reason: Option<&str>) {
    let (agent, middleware) = (cx.agent.clone(), middleware.into());
    let (tool, reason) = (Some(tool.to_owned()), reason.map(bounded));
    cx.events.emit(Event::MiddlewareActed { agent, middleware, action, tool, reason }).await;
}

/// Returns a reason, which a plugin may have given, with bounded length.
fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(limits::ERROR_BYTES)].to_owned()
}

/// Returns `None` if the middleware failed and `on_failure` is `skip`; emits `MiddlewareFailed`.
pub(super) async fn unless_failed<T>(
    cx: &RunCx,
    name: &str,
    then: OnFailure,
    outcome: Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    let fault = match outcome {
        Ok(done) => return Ok(Some(done)),
        Err(fault) => fault,
    };
    let (agent, middleware, skipped) = (cx.agent.clone(), name.into(), then == OnFailure::Skip);
    let reason = bounded(&fault.to_string());
    cx.events.emit(Event::MiddlewareFailed { agent, middleware, reason, skipped }).await;
    if skipped { Ok(None) } else { Err(fault) }
}

/// Returns `instead` if the middleware failed and `on_failure` is `skip`; any other failure ends the run.
pub(super) async fn stop_if_failed<T>(
    cx: &RunCx,
    name: &str,
    then: OnFailure,
    outcome: Result<T, Fault>,
    instead: impl FnOnce() -> T,
) -> Result<T, RunError> {
    let done = unless_failed(cx, name, then, outcome).await;
    done.map(|done| done.unwrap_or_else(instead)).map_err(|fault| RunError::Middleware { name: name.into(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::Agent, chat::Chat, model::ScriptedCompleter};

    /// A middleware that always requests another attempt, after the longest possible pause.
    struct Again;

    #[async_trait]
    impl RunMiddleware for Again {
        fn name(&self) -> &str {
            "again"
        }

        async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
            Ok(BeforeRunDecision::Proceed { input: None, state: Vec::new() })
        }

        async fn after(&self, _: &RunCx, _: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
            Ok(AfterRunDecision::Retry { feedback: None, delay: Duration::from_millis(u64::MAX), state: Vec::new() })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_before_attempts_of_a_run_are_bounded_together() {
        for middlewares in [1, 2] {
            let model = Arc::new(ScriptedCompleter::new((0..1_000).map(|_| ScriptedCompleter::text("done"))));
            let mut agent = Agent::new("a", "", Arc::clone(&model) as _);
            for _ in 0..middlewares {
                agent = agent.with_middleware(Again);
            }
            let begun = Instant::now();
            let failed = agent.run(&RunCx::new("a"), &Chat::new(), vec![Message::user("go")]).await;
            assert!(failed.is_err());
            assert_eq!(begun.elapsed().as_secs(), limits::MIDDLEWARE_WAITING.as_secs(), "{middlewares}");
            assert!(model.requests().len() > limits::MIDDLEWARE_RETRIES as usize);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pause_ends_with_the_time_of_the_run() {
        let (cx, second) = (RunCx::new("a"), Duration::from_secs(1));
        let mut pauses = MiddlewarePauses::default();
        let deadline = Some(Instant::now() + 7 * second);
        for (asked, deadline, expected) in [
            (Duration::MAX, deadline, 7 * second),
            (second, None, second),
            (Duration::MAX, None, limits::MIDDLEWARE_DELAY),
            (Duration::MAX, None, limits::MIDDLEWARE_WAITING - limits::MIDDLEWARE_DELAY - 8 * second),
            (Duration::MAX, None, Duration::ZERO),
        ] {
            assert_eq!(pauses.take(&cx, "m", asked, deadline).await, expected);
        }
    }
}
