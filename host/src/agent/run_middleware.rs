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

/// Stands around a whole run of an agent: a pair of pure steps, with bytes handed from the first to the second.
#[async_trait]
pub trait RunMiddleware: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// How long what it stands around may take, each attempt by itself; none: as long as it likes.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Whether a panic of what it stands around is told to it, and to those around it, as a failure. Elsewhere it ends the
    /// run.
    fn recovers(&self) -> bool {
        false
    }

    /// Whether it may put another message in place of the answer. While one may, nobody is shown what is said before it
    /// has passed.
    fn may_replace(&self) -> bool {
        true
    }

    /// Whether a run goes on if it fails.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Before a run. `input` is what is new: the task, not the chat.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if it could not do its work; [`RunMiddleware::on_failure`] says what that means for the run.
    async fn before(&self, cx: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault>;

    /// After a run, and after each further attempt.
    ///
    /// # Errors
    ///
    /// As [`RunMiddleware::before`].
    async fn after(&self, cx: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault>;
}

/// What to do with a run that has not begun.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum BeforeRunDecision {
    /// Run, with `input` in place of the input if there is one; `state` is for `after`.
    Proceed { input: Option<Vec<Message>>, state: Vec<u8> },
    /// Do not run: this is the answer.
    Answer(Message),
    /// Do not run: fail.
    Reject(Fault),
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The final message, or why there is none. Of a run that handed over it is what the next agent is told, and of one that
    /// reported the end of its task that report.
    pub reply: Result<Message, Fault>,
    /// Of this attempt.
    pub usage: Usage,
    /// How long this attempt took.
    pub duration: Duration,
    /// Attempts before this one that this middleware asked to repeat.
    pub attempt: u32,
}

impl RunOutcome {
    /// Returns `true` if the agent wants another one to go on: the reply is what that one is told, and no answer.
    pub fn is_hand_over(&self) -> bool {
        self.reply.as_ref().is_ok_and(|reply| reply.ending() == Some(HANDED_OVER))
    }
}

/// The word for [`Ending::HandedOver`](super::RunEnding::HandedOver), for those around a run.
pub(super) const HANDED_OVER: &str = "handed-over";

/// Returns `true` if one of these may put another message in place of an answer, or hold it back.
pub(crate) fn may_replace_answers(around: &[Arc<dyn RunMiddleware>]) -> bool {
    around.iter().any(|middleware| middleware.may_replace())
}

/// What to do with a run that has ended.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum AfterRunDecision {
    /// Leave it.
    Accept,
    /// This instead.
    Replace(Message),
    /// Fail.
    Reject(Fault),
    /// Again, on the chat as it is now, after `delay` and with `feedback` as a user message; without one the agent is told
    /// to go on.
    Retry { feedback: Option<String>, delay: Duration, state: Vec<u8> },
}

/// Tells that a middleware did something other than let pass.
pub(super) async fn acted(cx: &RunCx, middleware: &str, action: &'static str) {
    let (agent, middleware) = (cx.agent.clone(), middleware.into());
    cx.events.emit(Event::MiddlewareActed { agent, middleware, action, tool: None, reason: None }).await;
}

/// The pauses before further attempts that middlewares have asked for, those before one reply or one answer together.
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
    /// Takes the next pause out of what is left, and tells of the attempt that follows it: how long the pause is, and what
    /// the middleware asked for where that is longer. `deadline` is that of the run.
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

/// The same of a call of `tool`, with the reason if it was denied.
pub(super) async fn acted_on(cx: &RunCx, middleware: &str, action: &'static str, tool: &str, reason: Option<&str>) {
    let (agent, middleware) = (cx.agent.clone(), middleware.into());
    let (tool, reason) = (Some(tool.to_owned()), reason.map(bounded));
    cx.events.emit(Event::MiddlewareActed { agent, middleware, action, tool, reason }).await;
}

/// A reason that a plugin may have given.
fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(limits::ERROR_BYTES)].to_owned()
}

/// What a middleware came to: none if it failed and it is gone on without it. That it failed is told.
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

/// The same where the run ends with it, and there is something to go on with.
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

    /// Always wants another attempt, after the longest time that there is.
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
