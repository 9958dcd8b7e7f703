use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use super::case_host::ModelAnswerFixture;
use crate::{
    agent::ModelQuery, capability::NameSet, error::Fault, event::RunCx, model::Completion,
    trial::model_query::StepModels,
};

/// The answers of models in a test case, in order.
#[derive(Debug)]
pub(super) struct ModelScript {
    answers: Mutex<VecDeque<ModelAnswerFixture>>,
    unanswered: Mutex<Vec<String>>,
}

impl ModelScript {
    /// Creates the script; `None` if there are no answers.
    pub fn new(answers: &[ModelAnswerFixture]) -> Option<Self> {
        let script = Self { answers: Mutex::new(answers.to_vec().into()), unanswered: Mutex::default() };
        (!answers.is_empty()).then_some(script)
    }

    /// Returns a message for each query that had no answer, and removes these messages.
    pub fn take_unanswered(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.unanswered))
    }
}

#[async_trait]
impl StepModels for ModelScript {
    async fn ask(&self, _: &RunCx, query: &ModelQuery, granted: &NameSet) -> Result<Completion, Fault> {
        if let Some(name) = query.model.as_ref().filter(|name| !granted.contains(name)) {
            let name = name.escape_debug();
            let message = format!("the model `{name}` is not granted; grant it with `models: [{name}]` under `grants`");
            return Err(Fault::Denied { message });
        }
        match lock(&self.answers).pop_front() {
            Some(ModelAnswerFixture::Reply(reply)) => {
                reply.completion().map_err(|report| Fault::other(report.to_string()))
            }
            Some(ModelAnswerFixture::Error(error)) => Err(error.into()),
            None => {
                let message = "the plugin asked a model more often than `host.models` has answers; add one".to_owned();
                lock(&self.unanswered).push(message.clone());
                Err(Fault::Unavailable { message, after: None })
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
