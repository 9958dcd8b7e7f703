use std::{
    ops::{AddAssign, Sub},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Usage;
use crate::{capability::Usd, limits};

/// The usage of a model's completions, counted by its owner.
#[derive(Debug, Default)]
pub struct UsageTracker(Mutex<UsageTotals>);

#[derive(Debug, Default)]
struct UsageTotals {
    total: Usage,
    last: Option<Usage>,
    count: u64,
}

impl UsageTracker {
    /// Creates a tracker without counts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a completion.
    pub fn add(&self, usage: Usage) {
        let mut counted = self.counted();
        counted.total += usage;
        counted.last = Some(usage);
        counted.count = counted.count.saturating_add(1);
    }

    /// Returns the usage of the latest completion.
    pub fn last(&self) -> Option<Usage> {
        self.counted().last
    }

    /// Returns the usage of all completions.
    pub fn total(&self) -> Usage {
        self.counted().total
    }

    /// Returns the number of completions.
    pub fn count(&self) -> u64 {
        self.counted().count
    }

    /// Resets all counts.
    pub fn reset(&self) {
        *self.counted() = UsageTotals::default();
    }

    fn counted(&self) -> MutexGuard<'_, UsageTotals> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The usage and cost of a number of completions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTally {
    /// The number of completions.
    pub completions: u64,
    /// The tokens of the completions.
    pub usage: Usage,
    /// The cost of the completions.
    pub usd: Usd,
}

impl AddAssign for UsageTally {
    fn add_assign(&mut self, other: Self) {
        self.completions = self.completions.saturating_add(other.completions);
        self.usage += other.usage;
        self.usd = self.usd.saturating_add(other.usd);
    }
}

impl Sub for UsageTally {
    type Output = Self;

    /// Returns the tally between two readings.
    fn sub(self, before: Self) -> Self {
        Self {
            completions: self.completions.saturating_sub(before.completions),
            usage: self.usage - before.usage,
            usd: self.usd.saturating_sub(before.usd),
        }
    }
}

/// The row for all agents beyond [`limits::LEDGER_AGENTS`].
const OTHERS: &str = "(others)";

/// The usage and cost of each agent of a run or session, by instance name, in order of first appearance.
///
/// The JSON is a list of rows: `[{"agent": …, "completions": …, "usage": …, "usd": …}]`. After [`limits::LEDGER_AGENTS`]
/// agents, all further ones share a row called `(others)`, so the total stays exact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<LedgerRow>", into = "Vec<LedgerRow>")]
pub struct Ledger(IndexMap<Arc<str>, UsageTally>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LedgerRow {
    agent: Arc<str>,
    #[serde(flatten)]
    tally: UsageTally,
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a completion of an agent.
    pub fn record(&mut self, agent: &Arc<str>, usage: Usage, cost: Usd) {
        self.add(agent, &UsageTally { completions: 1, usage, usd: cost });
    }

    /// Returns the tally of this agent; zero if it has no row of its own.
    pub fn of(&self, agent: &str) -> UsageTally {
        self.0.get(agent).copied().unwrap_or_default()
    }

    /// Returns the tally of all agents.
    pub fn total(&self) -> UsageTally {
        self.0.values().fold(UsageTally::default(), |mut total, row| {
            total += *row;
            total
        })
    }

    /// Returns the agents and their tallies, in order of first appearance.
    pub fn agents(&self) -> impl Iterator<Item = (&Arc<str>, &UsageTally)> {
        self.0.iter()
    }

    fn add(&mut self, agent: &Arc<str>, tally: &UsageTally) {
        let full = self.0.len() >= limits::LEDGER_AGENTS && !self.0.contains_key(agent);
        let agent = if full { OTHERS.into() } else { Arc::clone(agent) };
        *self.0.entry(agent).or_default() += *tally;
    }
}

/// Rows of a file are untrusted: duplicate agents are merged into one row, and the limit applies.
impl From<Vec<LedgerRow>> for Ledger {
    fn from(rows: Vec<LedgerRow>) -> Self {
        let mut ledger = Self::new();
        for LedgerRow { agent, tally } in rows {
            ledger.add(&agent, &tally);
        }
        ledger
    }
}

impl From<Ledger> for Vec<LedgerRow> {
    fn from(ledger: Ledger) -> Self {
        ledger.0.into_iter().map(|(agent, tally)| LedgerRow { agent, tally }).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(input_tokens: u64, output_tokens: u64, cache_read_tokens: u64, cache_write_tokens: u64) -> Usage {
        Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens }
    }

    #[test]
    fn a_tracker_keeps_the_last_and_the_total() {
        let tracker = UsageTracker::new();
        assert_eq!((tracker.last(), tracker.total(), tracker.count()), (None, Usage::default(), 0));
        for n in 0..250 {
            tracker.add(usage(n, 1, 2, 3));
        }
        let total = usage(249 * 250 / 2, 250, 500, 750);
        assert_eq!((tracker.last(), tracker.total(), tracker.count()), (Some(usage(249, 1, 2, 3)), total, 250));
        tracker.add(usage(u64::MAX, 0, 0, 0));
        assert_eq!(tracker.total().input_tokens, u64::MAX);
        tracker.reset();
        assert_eq!((tracker.last(), tracker.total(), tracker.count()), (None, Usage::default(), 0));
    }

    #[test]
    fn a_tracker_counts_for_many_at_once() {
        let tracker = UsageTracker::new();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..500).for_each(|_| tracker.add(usage(1, 2, 3, 4))));
            }
        });
        assert_eq!((tracker.total(), tracker.count()), (usage(4_000, 8_000, 12_000, 16_000), 4_000));
    }

    #[test]
    fn a_ledger_keeps_agents_apart() {
        let (ada, bob): (Arc<str>, Arc<str>) = ("ada".into(), "bob-parse-1".into());
        let cent = Usd::from_pico(10_000_000_000);
        let mut ledger = Ledger::new();
        assert_eq!(serde_json::to_value(&ledger).unwrap(), json!([]));
        ledger.record(&bob, usage(1, 2, 0, 0), cent);
        ledger.record(&ada, usage(10, 20, 30, 40), Usd::ZERO);
        ledger.record(&bob, usage(3, 4, 0, 0), cent);
        let of_bob = UsageTally { completions: 2, usage: usage(4, 6, 0, 0), usd: Usd::from_pico(20_000_000_000) };
        assert_eq!(ledger.of("bob-parse-1"), of_bob);
        assert_eq!(ledger.of("cy"), UsageTally::default());
        assert_eq!(ledger.agents().map(|(agent, _)| &**agent).collect::<Vec<_>>(), ["bob-parse-1", "ada"]);
        assert_eq!(ledger.total(), UsageTally { completions: 3, usage: usage(14, 26, 30, 40), usd: of_bob.usd });
        let json = serde_json::to_value(&ledger).unwrap();
        let counts = json!({"input_tokens": 4, "output_tokens": 6, "cache_read_tokens": 0, "cache_write_tokens": 0});
        assert_eq!(json[0], json!({"agent": "bob-parse-1", "completions": 2, "usage": counts, "usd": 0.02}));
        assert_eq!(serde_json::from_value::<Ledger>(json).unwrap(), ledger);
    }

    #[test]
    fn agents_beyond_the_bound_share_a_row() {
        let mut ledger = Ledger::new();
        let names: Vec<Arc<str>> = (0..limits::LEDGER_AGENTS + 5).map(|n| format!("a{n}").into()).collect();
        for name in names.iter().chain(&names) {
            ledger.record(name, usage(1, 0, 0, 0), Usd::from_pico(1));
        }
        assert_eq!(ledger.agents().count(), limits::LEDGER_AGENTS + 1);
        assert_eq!(ledger.of("a0").completions, 2);
        assert_eq!(ledger.of(OTHERS).completions, 10);
        assert_eq!(ledger.of("a1024"), UsageTally::default());
        assert_eq!(ledger.total().usage.input_tokens, 2 * names.len() as u64);
        // A file with too many rows and a duplicate row.
        let mut rows: Vec<_> = serde_json::to_value(&ledger).unwrap().as_array().unwrap().clone();
        rows.push(rows[0].clone());
        rows.push(json!({"agent": "new", "completions": 1, "usage": Usage::default(), "usd": 0}));
        let read: Ledger = serde_json::from_value(rows.into()).unwrap();
        assert_eq!(read.agents().count(), limits::LEDGER_AGENTS + 1);
        assert_eq!((read.of("a0").completions, read.of(OTHERS).completions), (4, 11));
    }
}
