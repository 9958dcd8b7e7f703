//! Teams: agents that work on one conversation.

mod configured;
mod handoff;
mod namesakes;
mod plugins;
mod resume;
mod steps;

pub use plugins::{probe_team, state_machine};

use std::sync::Arc;

use async_trait::async_trait;
use shelly_host::{
    agent::{Agent, RunAnswer, RunError, Runner},
    chat::{Chat, Message, Role},
    error::Fault,
    event::RunCx,
    team::{Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment, Team},
};

use crate::script::{Mind, Reply};

/// A coordinator whose actions a closure computes from its input alone.
pub struct Plan<F>(pub F);

#[async_trait]
impl<F: Fn(&CoordinatorInput<'_>) -> Result<CoordinatorAction, Fault> + Send + Sync> Coordinator for Plan<F> {
    fn name(&self) -> &str {
        "plan"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        Ok(CoordinatorStep::new(state, (self.0)(moment)?))
    }
}

/// A coordinator that runs these members step by step, in parallel in each, and then ends the team's run.
pub fn plan(steps: &'static [&'static [&'static str]]) -> impl Coordinator {
    Plan(move |moment: &CoordinatorInput<'_>| {
        Ok(steps.get(moment.step as usize).map_or(CoordinatorAction::Done(None), |step| run(step)))
    })
}

pub fn run(members: &[&str]) -> CoordinatorAction {
    CoordinatorAction::Run(members.iter().map(|member| MemberAssignment::of(*member)).collect())
}

pub fn agent(name: &str, mind: Mind) -> Agent {
    Agent::new(name, "", Arc::new(mind))
}

/// An agent whose replies a closure computes from the newest message.
pub fn says(name: &str, what: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Agent {
    agent(name, Mind::new(move |asked| what(&asked.heard)))
}

pub async fn go(team: &Team, chat: &Chat, input: &str) -> Result<RunAnswer, RunError> {
    let name = Arc::clone(team.name());
    Runner::run(team, &RunCx::new(name), chat, vec![Message::user(input)]).await
}

/// Returns a conversation without its system prompt, as lines `role sender: text`.
pub fn lines(chat: &Chat) -> Vec<String> {
    let chat = chat.snapshot();
    let said = chat.iter().filter(|entry| entry.message.role != Role::System);
    said.map(|entry| {
        let Message { role, sender, .. } = &*entry.message;
        let role = format!("{role:?}").to_lowercase();
        format!("{role} {sender}: {}", crate::script::said(&entry.message))
    })
    .collect()
}
