//! The middleware chain around requests to a model, outermost first.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;

use super::completion::{ModelRequest, send};
use crate::{
    agent::{
        context::{AgentModels, RunState},
        journal::JournalRecord,
        middleware::{MiddlewarePauses, RepeatedAttempt, acted, stop_if_failed},
        outcome::RunError,
    },
    capability::Usd,
    error::Fault,
    event::MiddlewareAction,
    limits,
    model::{Completion, CompletionRequest, ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict, Usage},
};

/// Sends a request through all middleware around requests, and pays for every reply. Returns the reply and its cost. The
/// usage is added to `usage`.
pub(crate) async fn ask(
    me: &RunState,
    models: &AgentModels,
    asked: ModelRequest,
    usage: &mut Usage,
) -> Result<(Completion, Usd), RunError> {
    match models.middleware.is_empty() {
        true => send(me, models, asked, usage).await,
        false => ask_through_chain(me, models, asked, usage).await,
    }
}

async fn ask_through_chain(
    me: &RunState,
    models: &AgentModels,
    asked: ModelRequest,
    usage: &mut Usage,
) -> Result<(Completion, Usd), RunError> {
    let model = asked.model.unwrap_or_else(|| models.own.info().name.clone());
    let going = RoutedRequest { model, request: asked.request, digest: Arc::default() };
    ModelMiddlewareChain { me, models, shown: asked.shown, usage, sent: 0, pauses: MiddlewarePauses::default() }
        .through(0, going)
        .await
}

struct ModelMiddlewareChain<'a> {
    me: &'a RunState,
    models: &'a AgentModels,
    shown: bool,
    usage: &'a mut Usage,
    /// The number of requests sent.
    sent: u32,
    pauses: MiddlewarePauses,
}

/// A request and the model that it goes to.
#[derive(Clone)]
struct RoutedRequest {
    model: String,
    request: CompletionRequest,
    /// The digest of the request, computed on first use and shared by everything that sees the same request.
    digest: Arc<OnceLock<String>>,
}

impl RoutedRequest {
    fn sending(&self, attempt: u32) -> ModelRequestAttempt<'_> {
        ModelRequestAttempt::new(&self.model, &self.request, attempt, &self.digest)
    }
}

impl ModelMiddlewareChain<'_> {
    /// Passes the request to the middleware at `level`; beyond the last one is the model.
    fn through(&mut self, level: usize, going: RoutedRequest) -> BoxFuture<'_, Result<(Completion, Usd), RunError>> {
        let models = self.models;
        let Some(middleware) = models.middleware.get(level) else {
            self.sent += 1;
            let asked = ModelRequest { model: Some(going.model), request: going.request, shown: self.shown };
            return Box::pin(send(self.me, models, asked, self.usage));
        };
        Box::pin(async move {
            let (cx, name, then) = (&self.me.cx, middleware.name(), middleware.on_failure());
            let rejected = |fault| RunError::Rejected { by: name.into(), fault };
            let decision = middleware.before(cx, &going.sending(0)).await;
            let decision = decision.and_then(|decision| self.checked_before(&**middleware, decision));
            let pass = || RequestVerdict::Proceed { model: None, request: None, state: Vec::new() };
            let (mut going, mut state) = match stop_if_failed(cx, name, then, decision, pass).await? {
                RequestVerdict::Proceed { model: other, request: changed, state } => {
                    if changed.is_some() {
                        acted(cx, name, MiddlewareAction::ReplaceRequest).await;
                    }
                    if other.as_ref().is_some_and(|other| *other != going.model) {
                        acted(cx, name, MiddlewareAction::Route).await;
                    }
                    let model = other.unwrap_or(going.model);
                    let going = match changed {
                        Some(request) => RoutedRequest { model, request, digest: Arc::default() },
                        None => RoutedRequest { model, ..going },
                    };
                    (going, state)
                }
                RequestVerdict::Answer(completion) => {
                    acted(cx, name, MiddlewareAction::Answer).await;
                    return Ok((Completion { usage: Usage::default(), ..completion }, Usd::default()));
                }
                RequestVerdict::Reject(fault) => {
                    acted(cx, name, MiddlewareAction::RejectRequest).await;
                    return Err(rejected(fault));
                }
            };
            let mut attempt = 0;
            loop {
                let reply = self.through(level + 1, going.clone()).await;
                if matches!(reply, Err(RunError::Budget(_))) {
                    // No reply may replace a failure of the budget.
                    return reply;
                }
                let paid = WastedReplyGuard::of(self.me, &reply);
                let told = reply.as_ref().map(|(completion, _)| completion).map_err(RunError::as_fault);
                let told = told.as_ref().copied();
                let decision = middleware.after(cx, &going.sending(attempt), told, std::mem::take(&mut state)).await;
                let decision = decision.and_then(|decision| self.checked_after(&**middleware, decision));
                match stop_if_failed(cx, name, then, decision, || ReplyVerdict::Accept).await? {
                    ReplyVerdict::Accept => {
                        paid.keep();
                        return reply;
                    }
                    ReplyVerdict::Replace(completion) => {
                        acted(cx, name, MiddlewareAction::ReplaceReply).await;
                        // The text is the middleware's, the usage is the model's.
                        paid.keep();
                        let (usage, cost) =
                            reply.map_or_else(|_| Default::default(), |(asked, cost)| (asked.usage, cost));
                        return Ok((Completion { usage, ..completion }, cost));
                    }
                    ReplyVerdict::Reject(fault) => {
                        acted(cx, name, MiddlewareAction::RejectReply).await;
                        return Err(rejected(fault));
                    }
                    ReplyVerdict::Retry { .. }
                        if attempt == limits::MIDDLEWARE_RETRIES || self.sent >= limits::REQUESTS_PER_REPLY =>
                    {
                        paid.keep();
                        return reply;
                    }
                    ReplyVerdict::Retry { model, delay, state: kept } => {
                        drop(paid);
                        self.me.budget_account.check().map_err(RunError::Budget)?;
                        attempt += 1;
                        let repeated = RepeatedAttempt {
                            attempts: attempt,
                            failed: told.err().map(|fault| (&*going.model, fault)),
                            instead: model.as_deref().filter(|other| *other != going.model),
                        };
                        let deadline = self.me.budget_account.deadline();
                        let pause = self.pauses.take(cx, name, delay, deadline, repeated).await;
                        (going, state) = (RoutedRequest { model: model.unwrap_or(going.model), ..going }, kept);
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        })
    }

    fn checked_before(
        &self,
        middleware: &dyn ModelMiddleware,
        decision: RequestVerdict,
    ) -> Result<RequestVerdict, Fault> {
        if let RequestVerdict::Proceed { model, request, .. } = &decision {
            if let Some(model) = model {
                self.models.check(model, middleware.models())?;
            }
            if let Some(request) = request {
                let cannot = |error| Fault::invalid(format!("the middleware returned an invalid request: {error}"));
                request.messages.check().map_err(cannot)?;
            }
        }
        Ok(decision)
    }

    fn checked_after(&self, middleware: &dyn ModelMiddleware, decision: ReplyVerdict) -> Result<ReplyVerdict, Fault> {
        if let ReplyVerdict::Retry { model: Some(model), .. } = &decision {
            self.models.check(model, middleware.models())?;
        }
        Ok(decision)
    }
}

/// The cost of a reply that is on its way out. If the reply is dropped for any reason, its cost is recorded as wasted,
/// since it has been paid.
struct WastedReplyGuard<'a> {
    me: &'a RunState,
    of: Option<(Usage, Usd)>,
}

impl<'a> WastedReplyGuard<'a> {
    fn of(me: &'a RunState, reply: &Result<(Completion, Usd), RunError>) -> Self {
        let paid = reply.as_ref().ok().map(|(completion, cost)| (completion.usage, *cost));
        Self { me, of: paid.filter(|(usage, _)| *usage != Usage::default()) }
    }

    fn keep(mut self) {
        self.of = None;
    }
}

impl Drop for WastedReplyGuard<'_> {
    fn drop(&mut self) {
        if let Some((usage, cost)) = self.of {
            self.me.write(|| JournalRecord::Wasted { usage, cost });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;
    use crate::{
        agent::Agent,
        capability::NameSet,
        chat::{Chat, Message},
        event::{Event, EventSink, RunCx},
        model::ScriptedCompleter,
    };

    /// A middleware that always requests another attempt, after this pause.
    struct Again(NameSet, Duration);

    #[async_trait]
    impl ModelMiddleware for Again {
        fn name(&self) -> &str {
            "again"
        }

        fn models(&self) -> &NameSet {
            &self.0
        }

        async fn before(&self, _: &RunCx, _: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault> {
            Ok(RequestVerdict::Proceed { model: None, request: None, state: Vec::new() })
        }

        async fn after(
            &self,
            _: &RunCx,
            _: &ModelRequestAttempt<'_>,
            _: Result<&Completion, &Fault>,
            _: Vec<u8>,
        ) -> Result<ReplyVerdict, Fault> {
            Ok(ReplyVerdict::Retry { model: None, delay: self.1, state: Vec::new() })
        }
    }

    #[tokio::test]
    async fn nested_model_middleware_retries_are_bounded() {
        for (middlewares, most) in [(1, limits::MIDDLEWARE_RETRIES + 1), (3, limits::REQUESTS_PER_REPLY)] {
            let model = Arc::new(ScriptedCompleter::new((0..1_000).map(|_| ScriptedCompleter::text("done"))));
            let mut agent = Agent::new("a", "", Arc::clone(&model) as _);
            for _ in 0..middlewares {
                agent = agent.with_model_middleware(Again(NameSet::default(), Duration::ZERO));
            }
            let answer = agent.run(&RunCx::new("a"), &Chat::new(), vec![Message::user("go")]).await.unwrap();
            assert_eq!(answer.message.text_content(), "done");
            assert_eq!(model.requests().len(), most as usize, "{middlewares}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_before_attempts_are_bounded_together() {
        let asked = Duration::from_millis(u64::MAX);
        for middlewares in [1, 3] {
            let model = Arc::new(ScriptedCompleter::new((0..1_000).map(|_| ScriptedCompleter::text("done"))));
            let mut agent = Agent::new("a", "", Arc::clone(&model) as _);
            for _ in 0..middlewares {
                agent = agent.with_model_middleware(Again(NameSet::default(), asked));
            }
            let (events, mut stream) = EventSink::channel();
            let cx = RunCx::new("a").with_events(events);
            let told = tokio::spawn(async move {
                let mut told = Vec::new();
                while let Some(event) = stream.next_event().await {
                    if let Event::MiddlewareActed { action: MiddlewareAction::Retry, reason, .. } = event {
                        told.extend(reason);
                    }
                }
                told
            });
            let begun = tokio::time::Instant::now();
            agent.run(&cx, &Chat::new(), vec![Message::user("go")]).await.unwrap();
            assert_eq!(begun.elapsed().as_secs(), limits::MIDDLEWARE_WAITING.as_secs(), "{middlewares}");
            drop(cx);
            let (told, asked) = (told.await.unwrap(), crate::error::seconds(asked));
            for (told, pause) in told.iter().zip([" in 60 s", " in 60 s", ""]) {
                assert!(told.starts_with(&format!("again{pause} (attempt ")), "{middlewares}: {told}");
                assert!(told.ends_with(&format!("; the middleware asked for {asked}")), "{middlewares}: {told}");
            }
        }
    }
}
