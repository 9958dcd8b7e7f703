//! Tracks how long agents have waited for models that have not begun to reply.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use crate::{
    event::{Event, ModelWait},
    limits,
};

/// The agents whose model has not begun to reply.
#[derive(Default)]
pub struct SilentModels(BTreeMap<Arc<str>, SilentModel>);

struct SilentModel {
    since: Instant,
    /// The time at which it is reported next.
    due: Instant,
}

impl SilentModels {
    /// Updates the state from an event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::ModelStarted { agent, .. } => {
                let since = Instant::now();
                self.0.insert(Arc::clone(agent), SilentModel { since, due: since + limits::MODEL_QUIET_TOLD });
            }
            // A worker takes as long as the work of the agent does.
            Event::ModelWaits { agent, wait: ModelWait::Worker, .. } => {
                self.0.remove(agent);
            }
            // This event has a line of its own.
            Event::ModelWaits { agent, .. } => {
                if let Some(silence) = self.0.get_mut(agent) {
                    silence.due = Instant::now() + limits::MODEL_QUIET_TOLD;
                }
            }
            Event::ModelDelta { agent, .. } | Event::ModelFinished { agent, .. } | Event::RunFinished { agent, .. } => {
                self.0.remove(agent);
            }
            _ => {}
        }
    }

    /// Waits until an agent is due to be reported.
    pub async fn next(&self) {
        match self.0.values().map(|silence| silence.due).min() {
            Some(due) => sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the agents that are due, and how long each has waited. Each is due again once it has waited twice as long.
    pub fn overdue(&mut self) -> Vec<(Arc<str>, Duration)> {
        let now = Instant::now();
        let due = self.0.iter_mut().filter(|(_, silence)| silence.due <= now);
        due.map(|(agent, silence)| {
            let waited = now - silence.since;
            silence.due = now + waited;
            (Arc::clone(agent), waited)
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{chat::ReplyDelta, event::RequestTokens};

    #[tokio::test(start_paused = true)]
    async fn silent_model_is_reported_at_doubling_intervals() {
        let mut silences = SilentModels::default();
        let started = |agent: &str| Event::ModelStarted {
            agent: agent.into(),
            iteration: 0,
            tokens: 1,
            parts: RequestTokens::default(),
            window: None,
        };
        silences.note(&started("ada"));
        assert!(silences.overdue().is_empty());
        let mut told = Vec::new();
        for _ in 0..3 {
            silences.next().await;
            told.extend(silences.overdue().into_iter().map(|(agent, waited)| (agent.to_string(), waited.as_secs())));
        }
        let quiet = limits::MODEL_QUIET_TOLD.as_secs();
        assert_eq!(told, [quiet, 2 * quiet, 4 * quiet].map(|seconds| ("ada".to_owned(), seconds)));
        // An event with a line of its own, and a reply that begins.
        silences.note(&started("bob"));
        let (agent, model, detail) = ("ada".into(), "m".into(), String::new());
        silences.note(&Event::ModelWaits { agent, model, wait: ModelWait::Retry, detail });
        silences.note(&Event::ModelDelta { agent: "bob".into(), delta: ReplyDelta::Text("H".into()) });
        assert_eq!(silences.0.len(), 1);
        let begun = Instant::now();
        silences.next().await;
        assert_eq!(begun.elapsed().as_secs(), quiet);
        let (agent, model, detail) = ("ada".into(), "worker:ada".into(), "waiting for a worker".into());
        silences.note(&Event::ModelWaits { agent, model, wait: ModelWait::Worker, detail });
        assert!(silences.0.is_empty(), "no model is silent");
    }
}
