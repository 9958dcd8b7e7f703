use std::{collections::BTreeMap, sync::Arc};

use crate::{
    agent::outcome::RunError,
    capability::NameSet,
    error::Fault,
    model::{Completer, ModelMiddleware},
};

/// The models that an agent or a coordinator may ask, and the middleware around its requests.
#[derive(Clone)]
pub(crate) struct AgentModels {
    /// The agent's own model.
    pub own: Arc<dyn Completer>,
    /// Further models, by name.
    pub others: Arc<BTreeMap<String, Arc<dyn Completer>>>,
    /// The middleware, outermost first.
    pub middleware: Vec<Arc<dyn ModelMiddleware>>,
}

impl AgentModels {
    /// Returns the model of this name; `None`: the agent's own.
    pub fn get(&self, name: Option<&str>) -> Result<&dyn Completer, RunError> {
        match name.filter(|name| *name != self.own.info().name) {
            None => Ok(&*self.own),
            Some(name) => self.others.get(name).map(|model| &**model).ok_or_else(|| {
                let message = format!("the agent has no model `{}`", name.escape_debug());
                RunError::Model(Fault::NotFound { message })
            }),
        }
    }

    /// Checks that a request may be sent to the model `name` if the models `granted` are allowed.
    pub fn check(&self, name: &str, granted: &NameSet) -> Result<(), Fault> {
        let own = &self.own.info().name;
        if name == own || granted.contains(name) && self.others.contains_key(name) {
            return Ok(());
        }
        let name = name.escape_debug();
        let message = format!(
            "model `{name}` is not granted; add it to `models` of the plugin's entry in the config, or use the \
             agent's own model `{own}`"
        );
        Err(Fault::Denied { message })
    }

    /// Returns `true` if a middleware around its requests may replace a reply.
    pub fn may_replace_replies(&self) -> bool {
        self.middleware.iter().any(|middleware| middleware.may_replace())
    }
}
