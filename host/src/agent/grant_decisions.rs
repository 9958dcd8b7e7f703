use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    capability::CapabilityDecision,
    event::{Event, RunCx},
};

/// What the plugins of an agent have got and what they have not, told once: when it runs for the first time.
#[derive(Debug, Default)]
pub struct GrantDecisions {
    /// Of each capability that one of them wants.
    pub decisions: Vec<CapabilityDecision>,
    /// What a person should know of it.
    pub notices: Vec<String>,
    told: AtomicBool,
}

impl GrantDecisions {
    /// These, not told yet.
    pub fn new(decisions: Vec<CapabilityDecision>, notices: Vec<String>) -> Self {
        Self { decisions, notices, told: AtomicBool::new(false) }
    }

    /// Tells whoever watches the run, unless somebody was told; also by what words of the agent are `withheld`.
    pub(super) async fn tell(&self, agent: &Arc<str>, withheld: Vec<String>, cx: &RunCx) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        if !withheld.is_empty() {
            cx.events.emit(Event::RepliesWithheld { agent: Arc::clone(agent), by: withheld }).await;
        }
        for message in &self.notices {
            cx.events.emit(Event::Warning { message: message.clone() }).await;
        }
        for CapabilityDecision { plugin, capability, allowed, rule } in self.decisions.iter().cloned() {
            let agent = Arc::clone(agent);
            cx.events.emit(Event::CapabilityDecided { agent, plugin, capability, allowed, rule }).await;
        }
    }
}
