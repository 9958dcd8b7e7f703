//! Runs in the queue that the server does not offer again.
//!
//! By its wall clock, it offers a run again whose worker has been silent for the lease. If that jumps back, a run that was
//! offered before waits for as long as the jump was. So each host that takes runs looks by its own monotonic clock for how
//! long nobody has had a run that was offered.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use shelly_core::limits;

/// The offered runs that nobody has, as this host has seen them.
#[derive(Debug, Default)]
pub(crate) struct OfferWatch {
    /// The sequence in the queue at which the next look begins.
    next: u64,
    /// The runs that nobody has, by the sequence of their messages.
    unheld: HashMap<u64, UnheldRun>,
}

/// An offered run that nobody has, since when the last change of its lease had this revision.
#[derive(Debug, Clone, Copy)]
struct UnheldRun {
    revision: u64,
    since: Instant,
}

impl OfferWatch {
    /// Returns the sequence at which a look begins.
    pub fn first(&self) -> u64 {
        self.next
    }

    /// Ends a look: the next one begins at this sequence, or anew.
    pub fn end_look(&mut self, next: Option<u64>) {
        self.next = next.unwrap_or_default();
    }

    /// Notes an offered run that a worker has.
    pub fn note_held(&mut self, sequence: u64) {
        self.unheld.remove(&sequence);
    }

    /// Notes an offered run that nobody has, and returns `true` if nobody has had it for longer than the server waits. One
    /// whose lease was changed was offered since: each worker takes the lease before it declines a run or finds no room for
    /// it. Without that, the more hosts look, the more often such a run would be offered.
    pub fn is_forgotten(&mut self, sequence: u64, revision: u64, patience: Duration) -> bool {
        if self.unheld.len() >= limits::CLUSTER_UNHELD_RUNS && !self.unheld.contains_key(&sequence) {
            // Most of them have ended since. Those that have not are seen again.
            self.unheld.clear();
        }
        let now = UnheldRun { revision, since: Instant::now() };
        let noted = self.unheld.entry(sequence).or_insert(now);
        if noted.revision != revision {
            *noted = now;
        }
        let is_forgotten = noted.since.elapsed() >= patience;
        if is_forgotten {
            self.unheld.remove(&sequence);
        }
        is_forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_forgotten_that_nobody_has_for_long() {
        let (mut watch, patience) = (OfferWatch::default(), Duration::from_millis(20));
        assert!(!watch.is_forgotten(1, 5, patience), "it is seen for the first time");
        std::thread::sleep(patience);
        watch.note_held(1);
        assert!(!watch.is_forgotten(1, 5, patience), "a worker had it meanwhile");
        std::thread::sleep(patience);
        assert!(!watch.is_forgotten(1, 6, patience), "a worker has declined it meanwhile");
        std::thread::sleep(patience);
        assert!(watch.is_forgotten(1, 6, patience));
        assert!(!watch.is_forgotten(1, 6, patience), "the server has the time to offer it");
    }

    #[test]
    fn only_so_many_offers_are_watched() {
        let mut watch = OfferWatch::default();
        let hour = Duration::from_secs(3_600);
        for sequence in 0..=limits::CLUSTER_UNHELD_RUNS as u64 {
            assert!(!watch.is_forgotten(sequence, 1, hour));
            assert!(watch.unheld.len() <= limits::CLUSTER_UNHELD_RUNS);
        }
        assert_eq!(watch.unheld.len(), 1, "the last one, after the others made room");
        watch.end_look(Some(7));
        assert_eq!(watch.first(), 7);
        watch.end_look(None);
        assert_eq!(watch.first(), 0);
    }
}
