//! Agents that work with each other: their prompts and messages, their actions, and how their runs end.

mod board;
mod bounds;
mod broken;
mod budgets;
mod delegation;
mod ends;
mod events;
mod handoff;
mod inbox;
mod interaction;
mod ordering;
mod permits;
mod prompt;
mod refused;
mod turns;
mod windows;

use std::sync::Arc;

use serde_json::{Value, json};
use shelly_host::{
    agent::{Agent, AgentEntry, AgentGroup, AgentRegistry},
    model::Completer,
};

use crate::script::{Mind, Reply, act};

/// An agent without the hints on how to work: they are the same in every prompt.
fn agent(name: &str, model: Arc<dyn Completer>) -> Agent {
    let mut agent = Agent::new(name, "", model);
    agent.options.behavioral_hints = false;
    agent
}

/// An agent with these replies, turn by turn.
fn with_steps(name: &str, steps: impl IntoIterator<Item = Reply>) -> Agent {
    agent(name, Arc::new(Mind::steps(steps)))
}

fn register(registry: &AgentRegistry, agent: Agent) {
    registry.register(AgentEntry::new(Arc::clone(&agent.name), "helps"), move || agent.clone());
}

/// An agent group with these agents.
fn agent_group(members: impl IntoIterator<Item = Agent>) -> AgentGroup {
    let registry = AgentRegistry::new();
    members.into_iter().for_each(|agent| register(&registry, agent));
    AgentGroup::new(registry)
}

/// The agent `lead`, which may delegate one level deep and has these replies.
fn lead(agent_group: AgentGroup, steps: impl IntoIterator<Item = Reply>) -> Agent {
    lead_of(&Arc::new(agent_group), steps)
}

fn lead_of(agent_group: &Arc<AgentGroup>, steps: impl IntoIterator<Item = Reply>) -> Agent {
    with_steps("lead", steps).with_agent_group(Arc::clone(agent_group), 1)
}

/// A reply that delegates these tasks: `(agent, task)`.
fn delegate(tasks: &[(&str, &str)]) -> Reply {
    orders(tasks.iter().map(|(agent, task)| order(agent, task)))
}

fn order(agent: &str, task: &str) -> Value {
    json!({"agent": agent, "task": task, "context": "know this"})
}

fn orders(tasks: impl IntoIterator<Item = Value>) -> Reply {
    act("delegate", json!({"tasks": tasks.into_iter().collect::<Vec<_>>()}))
}

fn with(mut order: Value, key: &str, value: impl Into<Value>) -> Value {
    order[key] = value.into();
    order
}

fn done(summary: &str) -> Reply {
    act("task_complete", json!({"status": "completed", "summary": summary}))
}

fn failed(summary: &str) -> Reply {
    act("task_complete", json!({"status": "failed", "summary": summary}))
}
