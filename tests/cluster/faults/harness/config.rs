//! The config of a worker.

use super::{
    plan::FaultPlan,
    tasks::{AGENTS, PLACED, PlacedPart, TaskKind},
};

/// The namespace of the trial.
pub const NAMESPACE: &str = "faults";

/// The runs that the namespace takes at once: more than there are, so that each reserves its part and none waits.
const RUNS: usize = 1_000;

/// Returns the config of a worker that reaches the cluster by these URLs.
pub fn config_text(model_port: u16, urls: &[String], plan: &FaultPlan) -> String {
    let FaultPlan { servers, lease, has_places, .. } = plan;
    let model = format!(
        "{{name: local, kind: openai, base_url: 'http://127.0.0.1:{model_port}/v1', model: m, context_window: 32768, \
         retries: 0}}"
    );
    let exec = "{name: exec, programs: [effect]}";
    let depth = "options: {max_delegation_depth: 3}";
    let toolboxes = |names: &str| format!("toolboxes: [{names}]");
    let keys = match has_places {
        true => format!("{}, {}", toolboxes(&format!("{exec}, tasks")), agent_tools(&placed_below_lead())),
        false => toolboxes(exec),
    };
    let keys = [format!("{keys}, {depth}"), depth.to_owned(), depth.to_owned(), toolboxes(exec)];
    let mut agents: Vec<_> = AGENTS.into_iter().zip(keys).map(|(name, keys)| agent(name, &keys)).collect();
    if *has_places {
        agents.extend(PLACED.iter().map(|placed| {
            let toolboxes = match placed.kind {
                TaskKind::Board => toolboxes("tasks"),
                _ => toolboxes(exec),
            };
            let below = agent_tools(&PlacedPart::below(placed.kind, placed.part));
            agent(placed.agent, &format!("place: [{}], {toolboxes}, {below}, {depth}", placed.label))
        }));
    }
    let limits = if *has_places { format!(", limits: {{runs: {RUNS}}}") } else { String::new() };
    format!(
        "providers: [{model}]\nprograms: {{effect: {{command: mktemp, args: [['*']]}}}}\nagents:\n{}\
         cluster: {{nats: '{}', namespace: {NAMESPACE}, replicas: {servers}, lease: {}ms{limits}}}\n",
        agents.concat(),
        urls.join(", "),
        lease.as_millis()
    )
}

fn agent(name: &str, keys: &str) -> String {
    format!("  - {{name: {name}, description: Is the {name}., effects: [], {keys}}}\n")
}

fn agent_tools(agents: &[PlacedPart]) -> String {
    let names: Vec<_> = agents.iter().map(|part| part.agent).collect();
    format!("agent_tools: [{}]", names.join(", "))
}

/// Returns the agents that the lead hands tasks on to.
fn placed_below_lead() -> Vec<PlacedPart> {
    [TaskKind::Place, TaskKind::Board, TaskKind::Cancel]
        .into_iter()
        .flat_map(|kind| PlacedPart::below(kind, 0))
        .collect()
}
