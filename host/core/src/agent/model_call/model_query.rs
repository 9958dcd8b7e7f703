use super::{ModelRequest, ask};
use crate::{
    agent::{
        context::{AgentModels, RunState},
        effect::ModelQuery,
    },
    capability::{NameSet, Usd},
    error::Fault,
    model::{Completion, Usage},
};

/// Asks a model for an effect or middleware that may ask the models `granted` and the agent's own.
pub(crate) async fn ask_for(
    me: &RunState,
    models: &AgentModels,
    granted: &NameSet,
    ModelQuery { model, request }: ModelQuery,
    usage: &mut Usage,
) -> Result<(Completion, Usd), Fault> {
    if let Some(model) = &model {
        models.check(model, granted)?;
    }
    // A conversation as seen after a reply has calls without results.
    request
        .messages
        .check()
        .map_err(|error| Fault::invalid(format!("invalid conversation in the request to the model: {error}")))?;
    let asked = ModelRequest { model, request, shown: false };
    ask(me, models, asked, usage).await.map_err(|error| error.as_fault())
}
