use std::sync::Arc;

use super::{agent::Agent, context::RunState};
use crate::{
    event::Event,
    tool::{Tool, ToolBox},
};

/// Returns the agent's own tools, those of its team, and `run_tools`, which depend on the position of its run.
pub(crate) async fn all_tools(agent: &Agent, me: &RunState, run_tools: &[Arc<dyn Tool>]) -> ToolBox {
    let mut tools = agent.toolbox();
    // Tools of the team come first: no other tool may receive what is meant for the next member.
    let taken: Vec<_> = me.more_tools.names().filter(|name| tools.contains(name)).map(str::to_owned).collect();
    for name in &taken {
        let message =
            format!("{}: its own tool `{name}` is left out, because a tool of its team has the same name", agent.name);
        me.cx.events.emit(Event::Warning { message }).await;
    }
    tools = tools.without(&taken);
    for tool in me.more_tools.iter().chain(run_tools).cloned() {
        if let Err(clash) = tools.register(tool) {
            let message = format!("{}: {clash}; the second tool is left out", agent.name);
            me.cx.events.emit(Event::Warning { message }).await;
        }
    }
    tools
}
