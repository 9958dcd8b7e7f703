//! Fills in what the file leaves to the host: grants of plugins that come with the host, and the effects of agents.

use serde_json::json;

use super::{AgentConfig, Config, ProviderKind, StepUse, TeamConfig};
use crate::capability::{KvScope, RequestedCapabilities};

/// The default share of a model's context window at which a conversation is compacted.
pub const CONTEXT_THRESHOLD: f64 = 0.8;

impl Config {
    /// Fills in what the file leaves to the host: grants of plugins that come with the host, and the effects of agents
    /// that name none. `shipped` returns what a plugin that comes with the host asks for and the scope of its store;
    /// `shortens` returns `true` for an effect that shortens conversations.
    pub fn settle(
        &mut self,
        shipped: impl Fn(&str) -> Option<(RequestedCapabilities, KvScope)>,
        shortens: impl Fn(&str) -> bool,
    ) {
        let windows: Vec<_> = self.agents.iter().map(|agent| self.may_know_window(agent)).collect();
        for (agent, may_know_window) in self.agents.iter_mut().zip(windows) {
            agent.settle(may_know_window, &shipped, &shortens);
        }
        for TeamConfig { own, .. } in &mut self.teams {
            own.coordinator.iter_mut().chain(&mut own.middleware).for_each(|step| step.settle_as(&shipped));
        }
    }

    /// Returns `true` if the context window of an agent's model is known or can be learned, from the server or from a
    /// request that it refuses as too long. A plugin says nothing about it, and a window of 0 is not to be relied on.
    pub fn may_know_window(&self, agent: &AgentConfig) -> bool {
        if agent.remote.is_some() {
            return false;
        }
        match self.provider(agent.provider.as_deref()) {
            Ok(Some(provider)) => {
                let can_be_learned = provider.kind != ProviderKind::Plugin && provider.context_window.is_none();
                self.context_window(provider).is_some() || can_be_learned
            }
            // The model is discovered later.
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

impl AgentConfig {
    /// Does the same as [`Config::settle`] for one agent; see [`Config::may_know_window`] for `may_know_window`.
    pub fn settle(
        &mut self,
        may_know_window: bool,
        shipped: impl Fn(&str) -> Option<(RequestedCapabilities, KvScope)>,
        shortens: impl Fn(&str) -> bool,
    ) {
        let is_kept_short = self.plugins.keys().any(|id| shortens(id));
        if self.effects.is_none() && may_know_window && !is_kept_short {
            let all = default_effects(self);
            self.effects = all.iter().all(|step| shipped(&step.kind).is_some()).then_some(all);
        }
        self.effects.iter_mut().flatten().chain(&mut self.middleware).for_each(|step| step.settle_as(&shipped));
    }
}

/// Returns the effects that keep a conversation within its model's context window if the file names none.
pub fn default_effects(agent: &AgentConfig) -> Vec<StepUse> {
    let threshold = agent.options.context_threshold.filter(|share| *share > 0.0).unwrap_or(CONTEXT_THRESHOLD);
    vec![
        StepUse::by_default("trim-tool-results", json!({})),
        StepUse::by_default("observation-mask", json!({"threshold": 0.5})),
        StepUse::by_default("compact", json!({"threshold": threshold})),
    ]
}
