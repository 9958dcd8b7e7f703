//! Reservations of the runs at work, of the limits of their namespace.

use std::{collections::BTreeMap, ops::Bound, sync::PoisonError};

use async_nats::jetstream::kv::Store;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shelly_core::{
    capability::{Budget, Usd},
    limits,
};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, random_token},
    run_spec::RunSpec,
    shared_connection::SharedConnection,
    taken_run::run_lease_key,
};

/// Limits of a namespace, which hold for all its runs at work together. They are the same on all its workers: each checks
/// its own when it takes a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamespaceLimits {
    /// The runs at work at once.
    pub runs: Option<u64>,
    /// The sum of the tokens of their budgets. A run without such a budget counts as all of it.
    pub tokens: Option<u64>,
    /// The sum of the dollars of their budgets. A run without such a budget counts as all of it.
    pub usd: Option<Usd>,
}

/// The sums that the runs at work of a namespace with limits have reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamespaceUse {
    /// The number of runs.
    pub runs: u64,
    /// The sum of their tokens.
    pub tokens: u64,
    /// The sum of their dollars.
    pub usd: Usd,
}

/// The reservations of a namespace.
#[derive(Debug, Clone)]
pub struct NamespaceCounters {
    shared: SharedConnection,
}

impl NamespaceCounters {
    pub(crate) fn new(shared: SharedConnection) -> Self {
        Self { shared }
    }

    /// Returns the sums of what is reserved.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails, or has reservations that cannot be read.
    pub async fn reserved(&self) -> Result<NamespaceUse, ClusterError> {
        let task = |handles: ClusterHandles| async move {
            let store = &handles.run_streams().await?.counters;
            Ok(handles.reservations(store).await?.0.sum(""))
        };
        self.shared.call("read the counters of", &self.shared.options().namespace, task).await
    }
}

/// The key in the bucket of counters under which the reservations are.
const KEY: &str = "runs";
/// The version of their form.
const VERSION: u32 = 1;
/// Pico-dollars in a micro-dollar.
const MICRO_DOLLAR: u64 = 1_000_000;

/// The reservations of all runs at work, in one value: a sum that is checked and changed in one step cannot be exceeded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct RunReservations {
    version: u32,
    /// Random for each write, so that a writer recognizes its own.
    #[serde(default)]
    stamp: String,
    runs: BTreeMap<String, RunReservation>,
}

/// The reservation of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RunReservation {
    worker: String,
    /// The value of the worker's lease: a worker that lost the run does not remove what its successor reserved.
    holder: String,
    tokens: u64,
    micro_dollars: u64,
    /// `true` for a run whose part is one of its parent run's, which waits for it: it counts for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    of_parent: bool,
}

/// The version of reservations, whatever else is in them.
#[derive(Deserialize)]
struct ReservationVersion {
    version: u32,
}

/// The answer to a run that asks for a part of the limits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReservationOutcome {
    /// The part is reserved, or there are no limits.
    Reserved,
    /// Others have it now; the text says which limit.
    Full(String),
    /// The run alone exceeds the limit that the text names.
    NeverFits(String),
}

impl RunReservations {
    fn parse(value: &[u8]) -> Result<Self, ClusterError> {
        let what = "the reservations of the namespace";
        if value.len() > limits::CLUSTER_RESERVATION_BYTES {
            return Err(ClusterError::too_large(what, value.len(), limits::CLUSTER_RESERVATION_BYTES));
        }
        let invalid = |error: serde_json::Error| ClusterError::invalid(what, error.to_string());
        let ReservationVersion { version } = serde_json::from_slice(value).map_err(invalid)?;
        if version > VERSION {
            return Err(ClusterError::Newer { what: what.into(), version });
        }
        serde_json::from_slice(value).map_err(invalid)
    }

    /// Returns the sums without those of one run.
    fn sum(&self, without: &str) -> NamespaceUse {
        let others = self.runs.iter().filter(|(run, of)| *run != without && !of.of_parent);
        others.fold(NamespaceUse::default(), |sum, (_, of)| NamespaceUse {
            runs: sum.runs.saturating_add(1),
            tokens: sum.tokens.saturating_add(of.tokens),
            usd: sum.usd.saturating_add(Usd::from_pico(of.micro_dollars.saturating_mul(MICRO_DOLLAR))),
        })
    }

    /// Reserves for a run a part of what its parent run has, which waits for it: a limit that the parent run has used up
    /// must not keep it waiting. Returns `false` if the parent run has nothing or less.
    fn reserve_below(
        &mut self,
        run: &str,
        parent: &str,
        (worker, holder): (&str, &str),
        budget: &Budget,
        most: &NamespaceLimits,
    ) -> bool {
        let Some(of_parent) = self.runs.get(parent).filter(|_| parent != run) else { return false };
        // A run without a bound of its own is bounded by what the parent run gave it.
        let tokens = budget.tokens.unwrap_or(of_parent.tokens);
        let micro_dollars = budget.usd.map_or(of_parent.micro_dollars, |usd| usd.pico().div_ceil(MICRO_DOLLAR));
        let fits = (most.tokens.is_none() || tokens <= of_parent.tokens)
            && (most.usd.is_none() || micro_dollars <= of_parent.micro_dollars)
            && (self.runs.contains_key(run) || self.runs.len() < limits::CLUSTER_RESERVATIONS);
        if fits {
            let (worker, holder) = (worker.to_owned(), holder.to_owned());
            let reservation = RunReservation { worker, holder, tokens, micro_dollars, of_parent: true };
            self.runs.insert(run.to_owned(), reservation);
        }
        fits
    }

    /// Reserves a part for a run, which replaces what the run had.
    fn reserve(
        &mut self,
        run: &str,
        (worker, holder): (&str, &str),
        budget: &Budget,
        most: &NamespaceLimits,
    ) -> ReservationOutcome {
        let others = self.sum(run);
        let tokens = budget.tokens.or(most.tokens).unwrap_or(0);
        let usd = budget.usd.or(most.usd).unwrap_or(Usd::ZERO);
        if let Some(limit) = most.tokens.filter(|limit| tokens > *limit) {
            return ReservationOutcome::NeverFits(format!(
                "the run may spend {tokens} tokens, all runs of the namespace together {limit}"
            ));
        }
        if let Some(limit) = most.usd.filter(|limit| usd > *limit) {
            return ReservationOutcome::NeverFits(format!(
                "the run may spend {usd}, all runs of the namespace together {limit}"
            ));
        }
        let full =
            |limit: String| ReservationOutcome::Full(format!("room in the namespace, whose runs at work may {limit}"));
        if let Some(limit) = most.runs.filter(|limit| others.runs >= *limit) {
            return full(format!("be {limit}"));
        }
        if !self.runs.contains_key(run) && self.runs.len() >= limits::CLUSTER_RESERVATIONS {
            return full(format!("be {}", limits::CLUSTER_RESERVATIONS));
        }
        if let Some(limit) = most.tokens.filter(|limit| others.tokens.saturating_add(tokens) > *limit) {
            return full(format!("spend {limit} tokens"));
        }
        if let Some(limit) = most.usd.filter(|limit| others.usd.saturating_add(usd) > *limit) {
            return full(format!("spend {limit}"));
        }
        let (worker, holder) = (worker.to_owned(), holder.to_owned());
        let reservation = RunReservation {
            worker,
            holder,
            tokens,
            micro_dollars: usd.pico().div_ceil(MICRO_DOLLAR),
            of_parent: false,
        };
        self.runs.insert(run.to_owned(), reservation);
        ReservationOutcome::Reserved
    }
}

impl ClusterHandles {
    async fn reservations(&self, store: &Store) -> Result<(RunReservations, Option<u64>), ClusterCallError> {
        match self.leader_value(store, KEY).await? {
            Some((value, revision)) => Ok((RunReservations::parse(&value)?, Some(revision))),
            None => Ok((RunReservations { version: VERSION, ..RunReservations::default() }, None)),
        }
    }

    /// Changes the reservations until nobody else did so meanwhile. `change` returns `false` if nothing is to be changed.
    async fn change_reservations<T>(
        &self,
        mut change: impl FnMut(&mut RunReservations) -> (T, bool),
    ) -> Result<T, ClusterCallError> {
        let store = &self.run_streams().await?.counters;
        for _ in 0..limits::CLUSTER_CHANGE_TRIES {
            let (mut all, revision) = self.reservations(store).await?;
            let (result, is_changed) = change(&mut all);
            if !is_changed {
                return Ok(result);
            }
            all.stamp = random_token()?;
            let value = Bytes::from(serde_json::to_vec(&all).map_err(ClusterCallError::failed)?);
            let stored = match revision {
                Some(revision) => self.update(store, KEY, &value, revision).await?,
                None => self.create(store, KEY, &value).await?,
            };
            // A write whose reply was lost and that another one followed is repeated: it sets the same reservation.
            if stored.is_some() {
                return Ok(result);
            }
        }
        Err(ClusterCallError::Failed("other workers change the reservations all the time".into()))
    }

    /// Reserves a part of the limits for a run, of that of its parent run if it has one. Without limits nothing is counted.
    pub async fn reserve(
        &self,
        run: &str,
        parent: Option<&str>,
        holder: (&str, &str),
        budget: &Budget,
        most: &NamespaceLimits,
    ) -> Result<ReservationOutcome, ClusterCallError> {
        if *most == NamespaceLimits::default() {
            return Ok(ReservationOutcome::Reserved);
        }
        self.change_reservations(|all| {
            let outcome = match parent.is_some_and(|parent| all.reserve_below(run, parent, holder, budget, most)) {
                true => ReservationOutcome::Reserved,
                false => all.reserve(run, holder, budget, most),
            };
            let is_changed = outcome == ReservationOutcome::Reserved;
            (outcome, is_changed)
        })
        .await
    }

    /// Removes the reservation of a run; with a holder, only if it is the holder's.
    ///
    /// Reservations that cannot be read have none that this host could remove. They must not keep it from answering
    /// messages of runs that have ended, also in a namespace without limits, where they are of no use.
    pub async fn remove_reservation(&self, run: &str, holder: Option<&str>) -> Result<(), ClusterCallError> {
        let removed = self.change_reservations(|all| {
            let is_own = |of: &RunReservation| holder.is_none_or(|holder| of.holder == holder);
            let is_there = all.runs.get(run).is_some_and(is_own);
            if is_there {
                all.runs.remove(run);
            }
            ((), is_there)
        });
        match removed.await {
            Err(ClusterCallError::Cluster(_)) => Ok(()),
            removed => removed,
        }
    }

    /// Removes the reservations of runs that have ended, or whose entries were removed.
    ///
    /// Whoever ends a run removes its reservation before its message is acknowledged. A worker that stood still meanwhile
    /// may reserve a part after that, and die before it sees the end: then no message leads anybody to that part.
    ///
    /// Each call looks at [`limits::CLUSTER_RESERVATIONS_CHECKED`] reservations, and the next one goes on after those.
    pub async fn remove_ended_reservations(&self) -> Result<(), ClusterCallError> {
        let streams = self.run_streams().await?;
        let checked = || streams.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let all = match self.reservations(&streams.counters).await {
            Ok((all, _)) => all,
            // Those that cannot be read are left to a host that can.
            Err(ClusterCallError::Cluster(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let after = checked().clone();
        let rest = all.runs.range::<str, _>((Bound::Excluded(after.as_str()), Bound::Unbounded));
        let looked: Vec<_> = rest.take(limits::CLUSTER_RESERVATIONS_CHECKED).collect();
        let mut over = BTreeMap::new();
        for (run, of) in &looked {
            if self.is_run_over(run).await? {
                over.insert(run.as_str(), of.holder.as_str());
            }
        }
        if !over.is_empty() {
            let remove = |all: &mut RunReservations| {
                let before = all.runs.len();
                // Not that of a later run with the same id.
                all.runs.retain(|run, of| over.get(run.as_str()) != Some(&of.holder.as_str()));
                ((), all.runs.len() < before)
            };
            match self.change_reservations(remove).await {
                // A host of a later version has changed them meanwhile.
                Ok(()) | Err(ClusterCallError::Cluster(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let next = looked.last().filter(|_| looked.len() == limits::CLUSTER_RESERVATIONS_CHECKED);
        *checked() = next.map(|(run, _)| (*run).clone()).unwrap_or_default();
        Ok(())
    }

    /// Returns `true` if a run has ended or was removed.
    async fn is_run_over(&self, id: &str) -> Result<bool, ClusterCallError> {
        // Somebody else has written it.
        if !RunSpec::is_id(id) {
            return Ok(true);
        }
        match self.stored_run(id).await {
            Ok(Some((stored, _))) => Ok(stored.entry.ending().is_some()),
            // A server that just became the leader may lag behind. Whoever reserves a part has the lease on the run.
            Ok(None) => Ok(!self.is_lease_held(&run_lease_key(id)).await?),
            // An entry that cannot be read is left to a host that can.
            Err(ClusterCallError::Cluster(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLDER: (&str, &str) = ("w", "0a");

    fn usd(dollars: u64) -> Usd {
        Usd::from_pico(dollars * 1_000_000_000_000)
    }

    #[test]
    fn sums_never_exceed_the_limits() {
        let most = NamespaceLimits { runs: Some(3), tokens: Some(100), usd: Some(usd(2)) };
        let small = Budget { tokens: Some(40), usd: Some(usd(1)), ..Budget::default() };
        let mut all = RunReservations::default();
        assert_eq!(all.reserve("a", HOLDER, &small, &most), ReservationOutcome::Reserved);
        assert_eq!(all.reserve("b", HOLDER, &small, &most), ReservationOutcome::Reserved);
        let full = all.reserve("c", HOLDER, &small, &most);
        assert!(matches!(&full, ReservationOutcome::Full(why) if why.contains("100 tokens")), "{full:?}");
        let few = Budget { tokens: Some(1), usd: Some(usd(1)), ..Budget::default() };
        let full = all.reserve("c", HOLDER, &few, &most);
        assert!(matches!(&full, ReservationOutcome::Full(why) if why.contains("$2.00")), "{full:?}");
        assert_eq!(all.reserve("a", ("v", "0b"), &small, &most), ReservationOutcome::Reserved, "taken over, not added");
        assert_eq!(all.sum(""), NamespaceUse { runs: 2, tokens: 80, usd: usd(2) });
        let many = NamespaceLimits { runs: Some(2), ..NamespaceLimits::default() };
        let full = all.reserve("c", HOLDER, &few, &many);
        assert!(matches!(&full, ReservationOutcome::Full(why) if why.contains("be 2")), "{full:?}");
    }

    #[test]
    fn child_runs_in_the_part_of_its_parent() {
        let most = NamespaceLimits { runs: Some(1), tokens: Some(100), usd: None };
        let budget = |tokens: Option<u64>| Budget { tokens, ..Budget::default() };
        let mut all = RunReservations::default();
        assert!(!all.reserve_below("child", "parent", HOLDER, &budget(Some(1)), &most), "the parent has nothing");
        assert_eq!(all.reserve("parent", HOLDER, &budget(Some(60)), &most), ReservationOutcome::Reserved);
        let reserved = all.sum("");
        assert!(all.reserve_below("child", "parent", HOLDER, &budget(Some(60)), &most));
        assert!(all.reserve_below("grandchild", "child", HOLDER, &budget(None), &most));
        assert!(!all.reserve_below("other", "parent", HOLDER, &budget(Some(61)), &most), "more than the parent has");
        assert!(!all.reserve_below("self", "self", HOLDER, &budget(None), &most));
        assert_eq!(all.sum(""), reserved, "nothing is counted twice");
        assert!(matches!(all.reserve("other", HOLDER, &budget(Some(1)), &most), ReservationOutcome::Full(_)));
        // Where tokens are not limited, nobody has reserved any.
        let most = NamespaceLimits { tokens: None, ..most };
        assert!(all.reserve_below("other", "parent", HOLDER, &budget(Some(61)), &most));
    }

    #[test]
    fn run_that_never_fits_is_told_so() {
        let most = NamespaceLimits { tokens: Some(10), usd: Some(usd(1)), ..NamespaceLimits::default() };
        let mut all = RunReservations::default();
        for large in [
            Budget { tokens: Some(11), ..Budget::default() },
            Budget { tokens: Some(1), usd: Some(usd(2)), ..Budget::default() },
        ] {
            assert!(matches!(all.reserve("a", HOLDER, &large, &most), ReservationOutcome::NeverFits(_)), "{large:?}");
        }
        assert_eq!(all.reserve("a", HOLDER, &Budget::default(), &most), ReservationOutcome::Reserved, "all of it");
        assert_eq!(all.sum("").tokens, 10);
    }

    #[test]
    fn reservations_fit_into_a_message() {
        let most = NamespaceLimits { runs: Some(u64::MAX), ..NamespaceLimits::default() };
        let (id, worker) = ("r".repeat(limits::CLUSTER_RUN_ID_BYTES - 5), "w".repeat(limits::CLUSTER_RUN_ID_BYTES));
        let huge = Budget { tokens: Some(u64::MAX), usd: Some(Usd::from_pico(u64::MAX)), ..Budget::default() };
        let mut all = RunReservations { version: VERSION, ..RunReservations::default() };
        for n in 0..=limits::CLUSTER_RESERVATIONS {
            let outcome = all.reserve(&format!("{id}{n:05}"), (&worker, &"0".repeat(24)), &huge, &most);
            let is_full = matches!(outcome, ReservationOutcome::Full(_));
            assert_eq!(is_full, n == limits::CLUSTER_RESERVATIONS, "{n}");
        }
        let value = serde_json::to_vec(&all).unwrap();
        assert_eq!(RunReservations::parse(&value), Ok(all));
    }

    #[test]
    fn reservations_that_are_none_are_refused() {
        for (value, why) in [
            (String::new(), "the reservations"),
            (r#"{"version":2,"runs":7}"#.into(), "version 2"),
            (r#"{"version":1,"runs":7}"#.into(), "invalid type"),
            (" ".repeat(limits::CLUSTER_RESERVATION_BYTES + 1), "more than"),
        ] {
            let refused = RunReservations::parse(value.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }
}
