use std::collections::HashSet;

use crate::{
    agent::{RunAnswer, RunError},
    chat::Chat,
    error::Fault,
    model::CompletionRequest,
    plugin::PluginError,
};

/// The system prompt of the agent.
pub const INSTRUCTIONS: &str = "Do what you are asked.";
/// The last reply of the model.
pub const DONE: &str = "done";
/// Turns of the model beside the calls of the attack.
pub const TURNS: u32 = 3;
/// The token budget of a team that the attack coordinates: so small that one that never ends exhausts it.
pub const TEAM_TOKENS: u64 = 500;

/// The raw outcome of an attack, before it is judged.
pub struct AttackRun {
    pub loaded: Result<(), PluginError>,
    pub ended: Option<Result<RunAnswer, RunError>>,
    pub faults: Vec<Fault>,
    pub chat: Chat,
    pub requests: Vec<CompletionRequest>,
    /// Requests to another model of the agent, which the attack may use only if it was granted.
    pub other_requests: usize,
    /// Requests to the model of the team, if the attack is a coordinator.
    pub team_requests: usize,
    /// The tools of the agent.
    pub tools: HashSet<String>,
    /// The calls of [`LOOKUP`](super::baseline::LOOKUP).
    pub lookups: usize,
}
