//! Every first-party middleware as the component that it is: tables of cases, one file a kind.

mod around_calls;
mod around_requests;
mod around_runs;

use std::sync::Arc;

use serde_json::Value;
use shelly_host::{
    agent::{Agent, RunAnswer, RunError},
    capability::{Grant, KvScope},
    chat::{Chat, Message, Role},
    error::Fault,
    event::RunCx,
    model::{Completion, ScriptedCompleter},
    plugin::Plugin,
};

use crate::effects::granted;

/// A plugin of ours with these params, granted all that it asks for; what it keeps lasts from run to run.
async fn plugin(component: &str, params: Value) -> Arc<Plugin> {
    let lasting = |grant: Grant| match grant.kv.is_empty() {
        true => grant,
        false => Grant { kv: [KvScope::Agent].into(), ..grant },
    };
    granted(component, params, lasting).await
}

fn cx() -> RunCx {
    RunCx::new("helper").with_run("run")
}

/// An agent that says these things, and its model.
fn agent(replies: impl IntoIterator<Item = Result<Completion, Fault>>) -> (Arc<ScriptedCompleter>, Agent) {
    let model = Arc::new(ScriptedCompleter::new(replies));
    let agent = Agent::new("helper", "", Arc::clone(&model) as _);
    (model, agent)
}

/// Runs it, and gives what was said beside what came of it.
async fn run(agent: &Agent) -> (Result<RunAnswer, RunError>, Vec<String>) {
    let chat = Chat::new();
    let answer = agent.run(&cx(), &chat, vec![Message::user("go")]).await;
    let snapshot = chat.snapshot();
    let said = snapshot.iter().filter(|entry| entry.message.role != Role::System);
    (answer, said.map(|entry| entry.message.text_content()).collect())
}

fn busy() -> Fault {
    Fault::Unavailable { message: "busy".into(), after: None }
}
