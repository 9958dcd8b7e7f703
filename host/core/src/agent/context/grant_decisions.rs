use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::{
    capability::CapabilityDecision,
    event::{Event, RunCx},
};

/// The capabilities that the plugins of an agent were granted or denied. They are reported once, when the agent runs first.
#[derive(Debug, Default)]
pub struct GrantDecisions {
    /// The decision on each requested capability.
    pub decisions: Vec<CapabilityDecision>,
    /// Notices for a person.
    pub notices: Vec<String>,
    told: AtomicBool,
}

impl GrantDecisions {
    /// Creates decisions that were not reported yet.
    pub fn new(decisions: Vec<CapabilityDecision>, notices: Vec<String>) -> Self {
        Self { decisions, notices, told: AtomicBool::new(false) }
    }

    /// Emits the events, once. Also reports which middleware has `withheld` the agent's replies.
    pub(crate) async fn tell(&self, agent: &Arc<str>, withheld: Vec<String>, cx: &RunCx) {
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
