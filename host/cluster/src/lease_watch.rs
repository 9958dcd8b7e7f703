//! Leases that stay although nobody renews them.
//!
//! The server ends a lease by its wall clock. If that jumps back, the leases that were renewed before stay for as long as
//! the jump was, and those of hosts that die later stay behind them. So a host that wants a lease also looks by its own
//! monotonic clock for how long it has not been renewed: after the time of the lease it has ended, whatever the server says.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use shelly_core::limits;

/// The leases of others that this host has seen when it wanted them.
#[derive(Debug, Default)]
pub(crate) struct LeaseWatch(Mutex<HashMap<String, SeenLease>>);

/// A lease, since when it was seen with this revision.
#[derive(Debug, Clone, Copy)]
struct SeenLease {
    revision: u64,
    since: Instant,
}

impl LeaseWatch {
    /// Notes a lease that somebody has, and returns `true` if it has had this revision for the time of a lease.
    pub fn is_overdue(&self, key: &str, revision: u64, lease: Duration) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = seen.get(key).filter(|there| there.revision == revision) {
            return there.since.elapsed() >= lease;
        }
        if seen.len() >= limits::CLUSTER_LEASES_WATCHED {
            // Those that are wanted are looked at again and again; these were forgotten.
            seen.retain(|_, there| there.since.elapsed() < lease * 2);
        }
        if seen.len() < limits::CLUSTER_LEASES_WATCHED {
            seen.insert(key.to_owned(), SeenLease { revision, since: Instant::now() });
        }
        false
    }

    /// Forgets a lease that nobody has.
    pub fn forget(&self, key: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(20);

    #[test]
    fn lease_is_overdue_that_is_not_renewed_for_its_time() {
        let watch = LeaseWatch::default();
        assert!(!watch.is_overdue("a", 1, LEASE), "it is seen for the first time");
        std::thread::sleep(LEASE);
        assert!(!watch.is_overdue("a", 2, LEASE), "it was renewed");
        std::thread::sleep(LEASE);
        assert!(watch.is_overdue("a", 2, LEASE) && watch.is_overdue("a", 2, LEASE));
        watch.forget("a");
        assert!(!watch.is_overdue("a", 2, LEASE));
    }

    #[test]
    fn only_so_many_leases_are_watched() {
        let watch = LeaseWatch::default();
        let hour = Duration::from_secs(3_600);
        (0..=limits::CLUSTER_LEASES_WATCHED).for_each(|n| assert!(!watch.is_overdue(&n.to_string(), 1, hour)));
        assert_eq!(watch.0.lock().unwrap().len(), limits::CLUSTER_LEASES_WATCHED);
        assert!(!watch.is_overdue(&limits::CLUSTER_LEASES_WATCHED.to_string(), 1, Duration::ZERO), "it was not noted");
        // Those that nobody looked at for long make room.
        assert_eq!(watch.0.lock().unwrap().len(), 1);
    }
}
