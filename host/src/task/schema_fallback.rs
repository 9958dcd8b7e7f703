use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use crate::{
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
};

/// The names of the models whose servers refuse a schema, shared by all runs with that schema.
#[derive(Debug, Clone, Default)]
pub(super) struct RefusingModels(Arc<Mutex<BTreeSet<String>>>);

impl RefusingModels {
    fn contains(&self, model: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(model)
    }

    fn insert(&self, model: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_owned());
    }
}

/// A model that is asked again without the schema of its reply if its server refuses a request with it: some servers know no
/// schemas, and vendors accept a part of JSON Schema each. The reply is checked in any case.
pub(super) struct SchemaFallbackModel {
    model: Arc<dyn Completer>,
    refusing: RefusingModels,
}

impl SchemaFallbackModel {
    pub fn new(model: Arc<dyn Completer>, refusing: RefusingModels) -> Self {
        Self { model, refusing }
    }
}

#[async_trait]
impl Completer for SchemaFallbackModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let name = &self.model.info().name;
        if request.response_schema.is_none() {
            return self.model.complete(cx, request, sink).await;
        }
        if !self.refusing.contains(name) {
            match self.model.complete(cx, request, sink).await {
                Err(Fault::Invalid { .. }) => {}
                reply => return reply,
            }
        }
        let request = CompletionRequest { response_schema: None, ..request.clone() };
        let reply = self.model.complete(cx, &request, sink).await;
        if reply.is_ok() {
            // The schema was to blame.
            self.refusing.insert(name);
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chat::{ChatSnapshot, Message},
        model::ScriptedCompleter,
    };

    #[tokio::test]
    async fn refused_schema_is_left_out_from_then_on() {
        let refused = || Err(Fault::invalid("unknown field response_format"));
        let replies = [refused(), refused(), refused(), ScriptedCompleter::text("1"), ScriptedCompleter::text("2")];
        let (model, refusing) = (Arc::new(ScriptedCompleter::new(replies)), RefusingModels::default());
        let messages = ChatSnapshot::from_messages(vec![Message::user("go")]).unwrap();
        let request =
            CompletionRequest { response_schema: Some("{}".into()), ..CompletionRequest::new(messages, [].into()) };
        let ask = async || {
            let model = SchemaFallbackModel::new(Arc::clone(&model) as _, refusing.clone());
            model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.is_ok()
        };
        // The first request fails for another reason.
        assert_eq!([ask().await, ask().await, ask().await], [false, true, true]);
        let sent: Vec<_> = model.requests().iter().map(|request| request.response_schema.is_some()).collect();
        assert_eq!(sent, [true, false, true, false, false]);
    }

    #[tokio::test]
    async fn other_failures_are_not_repeated_without_schema() {
        let fault = Fault::Unavailable { message: "down".into(), after: None };
        let model = Arc::new(ScriptedCompleter::new([Err(fault.clone())]));
        let messages = ChatSnapshot::from_messages(vec![Message::user("go")]).unwrap();
        let request =
            CompletionRequest { response_schema: Some("{}".into()), ..CompletionRequest::new(messages, [].into()) };
        let model = SchemaFallbackModel::new(model, RefusingModels::default());
        assert_eq!(model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.unwrap_err(), fault);
    }
}
