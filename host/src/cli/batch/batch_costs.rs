use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{agent::AgentGroup, capability::Usd};

/// The costs of all tasks of a batch: those that have ended, those at work, and those of earlier starts.
pub(super) struct BatchCosts(Mutex<BatchCostState>);

struct BatchCostState {
    ended: Usd,
    /// The agents of each task at work.
    at_work: HashMap<u64, Arc<AgentGroup>>,
}

impl BatchCosts {
    /// Creates the costs of a batch whose earlier starts have cost `earlier`.
    pub fn new(earlier: Usd) -> Self {
        Self(Mutex::new(BatchCostState { ended: earlier, at_work: HashMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, BatchCostState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what these agents spend, from now on, for the task on this line.
    pub fn begin(&self, line_number: u64, agents: Arc<AgentGroup>) {
        self.lock().at_work.insert(line_number, agents);
    }

    /// Counts the cost of the task on this line, which has ended.
    pub fn end(&self, line_number: u64, cost: Usd) {
        let mut costs = self.lock();
        costs.at_work.remove(&line_number);
        costs.ended = costs.ended.saturating_add(cost);
    }

    /// Returns the cost so far.
    pub fn total(&self) -> Usd {
        let costs = self.lock();
        costs.at_work.values().fold(costs.ended, |total, agents| total.saturating_add(agents.ledger().total().usd))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::AgentRegistry;

    #[test]
    fn cost_of_a_task_is_counted_once() {
        let usd = |cents: u64| Usd::from_pico(cents * 10_000_000_000);
        let costs = BatchCosts::new(usd(1));
        costs.begin(7, Arc::new(AgentGroup::new(AgentRegistry::new())));
        assert_eq!(costs.total(), usd(1));
        costs.end(7, usd(2));
        costs.end(8, usd(4));
        assert_eq!(costs.total(), usd(7));
        assert!(costs.lock().at_work.is_empty());
    }
}
