//! What stands around requests to a model, outermost first.

use std::sync::OnceLock;

use futures_util::future::BoxFuture;

use super::{
    Agent, RunError,
    completion::{Asked, send},
    delegate::Instance,
    journal::Record,
    middleware::{acted, stop_if_failed},
};
use crate::{
    capability::Usd,
    error::Fault,
    limits,
    model::{AfterRequest, BeforeRequest, Completion, CompletionRequest, ModelMiddleware, Sending, Usage},
};

/// Asks a model through the chain.
pub(super) async fn ask(
    me: &Instance,
    agent: &Agent,
    asked: Asked,
    usage: &mut Usage,
) -> Result<(Completion, Usd), RunError> {
    let model = asked.model.unwrap_or_else(|| agent.completer.info().name.clone());
    Chain { me, agent, shown: asked.shown, usage }.through(0, model, asked.request).await
}

struct Chain<'a> {
    me: &'a Instance,
    agent: &'a Agent,
    shown: bool,
    usage: &'a mut Usage,
}

/// A request, and where it goes.
struct Route {
    model: String,
    request: CompletionRequest,
    state: Vec<u8>,
}

impl Chain<'_> {
    /// The request as the middleware at `level` gets it; beyond the last one is the model.
    fn through(
        &mut self,
        level: usize,
        model: String,
        request: CompletionRequest,
    ) -> BoxFuture<'_, Result<(Completion, Usd), RunError>> {
        let agent = self.agent;
        let Some(middleware) = agent.model_middleware.get(level) else {
            let asked = Asked { model: Some(model), request, shown: self.shown };
            return Box::pin(send(self.me, agent, asked, self.usage));
        };
        Box::pin(async move {
            let (cx, name, then) = (&self.me.cx, middleware.name(), middleware.on_failure());
            let rejected = |fault| RunError::Rejected { by: name.into(), fault };
            let digest = OnceLock::new();
            let decision = middleware.before(cx, &Sending::new(&model, &request, 0, &digest)).await;
            let decision = decision.and_then(|decision| self.checked_before(&**middleware, decision));
            let pass = || BeforeRequest::Proceed { model: None, request: None, state: Vec::new() };
            let mut route = match stop_if_failed(cx, name, then, decision, pass).await? {
                BeforeRequest::Proceed { model: other, request: changed, state } => {
                    if changed.is_some() {
                        acted(cx, name, "replace-request").await;
                    }
                    if other.as_ref().is_some_and(|other| *other != model) {
                        acted(cx, name, "route").await;
                    }
                    Route { model: other.unwrap_or(model), request: changed.unwrap_or(request), state }
                }
                BeforeRequest::Answer(completion) => {
                    acted(cx, name, "answer").await;
                    return Ok((Completion { usage: Usage::default(), ..completion }, Usd::default()));
                }
                BeforeRequest::Reject(fault) => {
                    acted(cx, name, "reject-request").await;
                    return Err(rejected(fault));
                }
            };
            // It may have been changed.
            let digest = OnceLock::new();
            let mut attempt = 0;
            loop {
                let reply = self.through(level + 1, route.model.clone(), route.request.clone()).await;
                let paid = Paid::of(self.me, &reply);
                let fault = reply.as_ref().err().map(RunError::as_fault);
                let told = match (&reply, &fault) {
                    (_, Some(fault)) => Err(fault),
                    (Ok((completion, _)), None) => Ok(completion),
                    (Err(_), None) => unreachable!("every failure has a fault"),
                };
                let sending = Sending::new(&route.model, &route.request, attempt, &digest);
                let decision = middleware.after(cx, &sending, told, std::mem::take(&mut route.state)).await;
                let decision = decision.and_then(|decision| self.checked_after(&**middleware, decision));
                match stop_if_failed(cx, name, then, decision, || AfterRequest::Accept).await? {
                    AfterRequest::Accept => {
                        paid.keep();
                        return reply;
                    }
                    AfterRequest::Replace(completion) => {
                        acted(cx, name, "replace-reply").await;
                        // What it says is its own, what was used is not.
                        paid.keep();
                        let (usage, cost) =
                            reply.map_or_else(|_| Default::default(), |(asked, cost)| (asked.usage, cost));
                        return Ok((Completion { usage, ..completion }, cost));
                    }
                    AfterRequest::Reject(fault) => {
                        acted(cx, name, "reject-reply").await;
                        return Err(rejected(fault));
                    }
                    AfterRequest::Retry { .. } if attempt == limits::MIDDLEWARE_RETRIES => {
                        paid.keep();
                        return reply;
                    }
                    AfterRequest::Retry { model, delay, state } => {
                        acted(cx, name, "retry").await;
                        drop(paid);
                        self.me.purse.check().map_err(RunError::Budget)?;
                        attempt += 1;
                        route = Route { model: model.unwrap_or(route.model), state, ..route };
                        tokio::time::sleep(delay.min(limits::MIDDLEWARE_DELAY)).await;
                    }
                }
            }
        })
    }

    fn checked_before(
        &self,
        middleware: &dyn ModelMiddleware,
        decision: BeforeRequest,
    ) -> Result<BeforeRequest, Fault> {
        if let BeforeRequest::Proceed { model, request, .. } = &decision {
            if let Some(model) = model {
                self.agent.check_model(model, middleware.models())?;
            }
            if let Some(request) = request {
                let cannot = |error| Fault::invalid(format!("the request that it made cannot be sent: {error}"));
                request.messages.check().map_err(cannot)?;
            }
        }
        Ok(decision)
    }

    fn checked_after(&self, middleware: &dyn ModelMiddleware, decision: AfterRequest) -> Result<AfterRequest, Fault> {
        if let AfterRequest::Retry { model: Some(model), .. } = &decision {
            self.agent.check_model(model, middleware.models())?;
        }
        Ok(decision)
    }
}

/// What a reply took that is on its way out. If it does not get there, whatever holds it back, it was asked in vain, and
/// has been paid for.
struct Paid<'a> {
    me: &'a Instance,
    of: Option<(Usage, Usd)>,
}

impl<'a> Paid<'a> {
    fn of(me: &'a Instance, reply: &Result<(Completion, Usd), RunError>) -> Self {
        let paid = reply.as_ref().ok().map(|(completion, cost)| (completion.usage, *cost));
        Self { me, of: paid.filter(|(usage, _)| *usage != Usage::default()) }
    }

    fn keep(mut self) {
        self.of = None;
    }
}

impl Drop for Paid<'_> {
    fn drop(&mut self) {
        if let Some((usage, cost)) = self.of {
            self.me.write(|| Record::Wasted { usage, cost });
        }
    }
}
