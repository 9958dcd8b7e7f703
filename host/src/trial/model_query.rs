//! Models that a step asks.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::fixture::{CompletionFixture, FaultFixture, RequestFixture};
use crate::{
    agent::ModelQuery,
    app::{App, GRANT_OPTION},
    capability::NameSet,
    error::{Fault, Report},
    event::RunCx,
    limits,
    model::{Completer, Completion, DeltaSink},
};

/// The models that a step can ask. Without any, a step that asks a model ends with the query as its decision.
#[async_trait]
pub trait StepModels: Send + Sync {
    /// Answers a query of a step that is granted the models of these names besides its own.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the step is given in place of the reply.
    async fn ask(&self, cx: &RunCx, query: &ModelQuery, granted: &NameSet) -> Result<Completion, Fault>;
}

/// Models of a config, of which one is the agent's own.
pub struct AppModels<'a> {
    app: &'a App,
    own: Arc<dyn Completer>,
}

impl<'a> AppModels<'a> {
    /// Looks up the agent's own model. Returns also the notices about it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such model, or it cannot be used.
    pub async fn new(app: &'a App, name: &str) -> Result<(Self, Vec<String>), Report> {
        let (own, notices) = app.lone_model(name).await?;
        Ok((Self { app, own }, notices))
    }
}

#[async_trait]
impl StepModels for AppModels<'_> {
    async fn ask(&self, cx: &RunCx, query: &ModelQuery, granted: &NameSet) -> Result<Completion, Fault> {
        let model = match &query.model {
            None => Arc::clone(&self.own),
            Some(name) if *name == self.own.info().name => Arc::clone(&self.own),
            Some(name) if granted.contains(name) => {
                self.app.lone_model(name).await.map_err(|report| Fault::other(report.to_string()))?.0
            }
            Some(name) => {
                let name = name.escape_debug();
                let message =
                    format!("the model `{name}` is not granted; grant it with {GRANT_OPTION} 'models: [{name}]'");
                return Err(Fault::Denied { message });
            }
        };
        model.complete(cx, &query.request, &DeltaSink::none()).await
    }
}

/// The answer of a step: a query to a model, with the state for the next call, or the end of the step.
pub(super) enum StepAnswer<T> {
    Query(Box<ModelQuery>, Vec<u8>),
    End(T),
}

/// The models of one trial, and what they were asked.
pub(super) struct StepQueries<'a> {
    pub models: Option<&'a dyn StepModels>,
    /// The models that the plugin is granted besides the agent's own.
    pub granted: &'a NameSet,
    /// `true` if the plugin has the power to ask a model.
    pub may_ask: bool,
    /// Each query with its reply.
    pub asked: Vec<Value>,
}

impl StepQueries<'_> {
    /// Calls a step with its state until it answers with something else than a query, or there is no model. `call` gets the
    /// reply to the last query.
    pub async fn answered<T>(
        &mut self,
        cx: &RunCx,
        state: Vec<u8>,
        reply: Option<Result<Completion, Fault>>,
        mut call: impl AsyncFnMut(Option<Result<Completion, Fault>>, Vec<u8>) -> Result<StepAnswer<T>, Fault>,
    ) -> Result<StepAnswer<T>, Fault> {
        let (mut state, mut reply) = (state, reply);
        for _ in 0..=limits::ASKS_IN_A_ROW {
            let (query, next) = match (call(reply.take(), state).await?, self.models) {
                (StepAnswer::Query(query, next), Some(models)) => {
                    reply = Some(self.ask(cx, models, &query).await);
                    (query, next)
                }
                (answer, _) => return Ok(answer),
            };
            state = next;
            let outcome = match &reply {
                Some(Ok(completion)) => json!({ "reply": CompletionFixture::from(completion) }),
                Some(Err(fault)) => json!({ "error": FaultFixture::from(fault) }),
                None => Value::Null,
            };
            self.asked.push(json!({ "query": query_json(&query), "outcome": outcome }));
        }
        let message = format!("the plugin asked a model more than {} times in a row", limits::ASKS_IN_A_ROW);
        Err(Fault::Exhausted { message })
    }

    async fn ask(&self, cx: &RunCx, models: &dyn StepModels, query: &ModelQuery) -> Result<Completion, Fault> {
        if !self.may_ask {
            let message =
                format!("power `ask-model` is not granted; grant it with {GRANT_OPTION} 'powers: [ask-model]'");
            return Err(Fault::Denied { message });
        }
        let invalid = |error| Fault::invalid(format!("invalid conversation in the request to the model: {error}"));
        query.request.messages.check().map_err(invalid)?;
        models.ask(cx, query, self.granted).await
    }
}

/// Returns a query in the form of a fixture.
pub(super) fn query_json(query: &ModelQuery) -> Value {
    json!(RequestFixture { model: query.model.clone(), ..RequestFixture::from(&query.request) })
}
