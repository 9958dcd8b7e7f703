//! The consequences of a middleware's decision: events, pauses before further attempts, failures.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    agent::outcome::RunError,
    error::{Fault, OnFailure, seconds},
    event::{Event, MiddlewareAction, RunCx},
    limits,
};

/// Emits the event that a middleware intervened.
pub(crate) async fn acted(cx: &RunCx, middleware: &str, action: MiddlewareAction) {
    let (agent, middleware) = (cx.agent.clone(), middleware.into());
    cx.events.emit(Event::MiddlewareActed { agent, middleware, action, tool: None, reason: None }).await;
}

/// The attempts so far of a request that a middleware sends again, for the event.
#[derive(Debug, Default)]
pub(crate) struct RepeatedAttempt<'a> {
    /// The number of attempts so far.
    pub attempts: u32,
    /// The model that failed, by its name in the config, and its failure.
    pub failed: Option<(&'a str, &'a Fault)>,
    /// The other model that is asked now.
    pub instead: Option<&'a str>,
}

impl RepeatedAttempt<'_> {
    /// Says in a person's words what happens next: `asks spare instead (local: connection refused)`, `again in 0.2 s
    /// (attempt 2)`. `asked` is the pause that the middleware wants.
    fn in_words(&self, pause: Duration, asked: Duration) -> String {
        let mut words = match self.instead {
            Some(model) => format!("asks {model} instead"),
            None => "again".to_owned(),
        };
        if !pause.is_zero() {
            words.push_str(&format!(" in {}", short_seconds(pause)));
        }
        let attempt = self.instead.is_none().then(|| format!("attempt {}", self.attempts + 1));
        let failed = self.failed.map(|(model, fault)| format!("{model}: {}", bounded(&fault.to_string())));
        let details: Vec<_> = attempt.into_iter().chain(failed).collect();
        words.push_str(&format!(" ({})", details.join("; ")));
        if pause != asked {
            words.push_str(&format!("; the middleware asked for {}", seconds(asked)));
        }
        words
    }
}

/// Formats a pause: `0.2 s`, `60 s`.
fn short_seconds(time: Duration) -> String {
    match time.as_secs_f32() {
        short if short < 10.0 => format!("{short:.1} s"),
        long => format!("{long:.0} s"),
    }
}

/// The remaining time for pauses before further attempts, shared by all middleware around one reply or one answer.
#[derive(Debug)]
pub(crate) struct MiddlewarePauses {
    left: Duration,
}

impl Default for MiddlewarePauses {
    fn default() -> Self {
        Self { left: limits::MIDDLEWARE_WAITING }
    }
}

impl MiddlewarePauses {
    /// Returns the next pause, cut to the time that is left, and emits an event for the attempt with the words of
    /// `repeated`. `deadline` is that of the run.
    pub(crate) async fn take(
        &mut self,
        cx: &RunCx,
        middleware: &str,
        asked: Duration,
        deadline: Option<Instant>,
        repeated: RepeatedAttempt<'_>,
    ) -> Duration {
        let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        let pause = asked.min(limits::MIDDLEWARE_DELAY).min(self.left).min(left);
        self.left -= pause;
        let reason = Some(repeated.in_words(pause, asked));
        let (agent, middleware) = (cx.agent.clone(), middleware.into());
        cx.events
            .emit(Event::MiddlewareActed { agent, middleware, action: MiddlewareAction::Retry, tool: None, reason })
            .await;
        pause
    }
}

/// Emits the event that a middleware intervened in a call of `tool`, with the reason if the call was denied.
pub(crate) async fn acted_on(cx: &RunCx, middleware: &str, action: MiddlewareAction, tool: &str, reason: Option<&str>) {
    let (agent, middleware) = (cx.agent.clone(), middleware.into());
    let (tool, reason) = (Some(tool.to_owned()), reason.map(bounded));
    cx.events.emit(Event::MiddlewareActed { agent, middleware, action, tool, reason }).await;
}

/// Returns a reason, which a plugin may have given, with bounded length.
fn bounded(reason: &str) -> String {
    reason[..reason.floor_char_boundary(limits::ERROR_BYTES)].to_owned()
}

/// Returns `None` if the middleware failed and `on_failure` is `skip`; emits `MiddlewareFailed`.
pub(crate) async fn unless_failed<T>(
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
pub(crate) async fn stop_if_failed<T>(
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
    use std::sync::Arc;

    use async_trait::async_trait;

    use super::*;
    use crate::{
        agent::{AfterRunDecision, Agent, RunMiddleware, RunOutcome},
        chat::{Chat, Message},
        model::ScriptedCompleter,
    };

    /// A middleware that always requests another attempt, after the longest possible pause.
    struct Again;

    #[async_trait]
    impl RunMiddleware for Again {
        fn name(&self) -> &str {
            "again"
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
            assert_eq!(pauses.take(&cx, "m", asked, deadline, RepeatedAttempt::default()).await, expected);
        }
    }

    #[test]
    fn repeated_attempt_says_what_happens_next() {
        let fault = Fault::other("connection refused");
        let (failed, second) = (Some(("local", &fault)), Duration::from_secs(1));
        let repeated = |attempts, failed, instead| RepeatedAttempt { attempts, failed, instead };
        for (attempt, pause, asked, words) in [
            (
                repeated(1, failed, Some("spare")),
                Duration::ZERO,
                Duration::ZERO,
                "asks spare instead (local: connection refused)",
            ),
            (
                repeated(2, failed, None),
                second / 5,
                second / 5,
                "again in 0.2 s (attempt 3; local: connection refused)",
            ),
            (repeated(1, None, None), Duration::ZERO, Duration::ZERO, "again (attempt 2)"),
            (
                repeated(1, None, None),
                60 * second,
                90 * second,
                "again in 60 s (attempt 2); the middleware asked for 90 seconds",
            ),
        ] {
            assert_eq!(attempt.in_words(pause, asked), words);
        }
    }
}
