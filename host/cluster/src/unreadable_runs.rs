//! Runs whose entries this host cannot read, and so leaves alone.

use shelly_core::limits;

use super::{cluster_error::ClusterError, run_spec::RunSpec, seal_error::SealError};

/// The runs whose entries this host cannot read. They are left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadableRuns {
    /// The number of those that a later version has written.
    pub newer: usize,
    /// The number of those that are encrypted with a key that this host does not have.
    pub without_key: usize,
    /// The number of those that are no entries, were changed, or are plain although this host has a key.
    pub other: usize,
    /// The ids of some of them, at most [`limits::CLUSTER_UNREADABLE_NAMED`].
    pub named: Vec<String>,
}

impl UnreadableRuns {
    /// Returns the number of all of them.
    pub fn total(&self) -> usize {
        self.newer + self.without_key + self.other
    }

    /// Counts the entry under this key, which was not read for this reason.
    pub(crate) fn note(&mut self, key: &str, error: &ClusterError) {
        let count = match error {
            ClusterError::Newer { .. } | ClusterError::Sealed(SealError::Newer { .. }) => &mut self.newer,
            ClusterError::Sealed(SealError::NoKey { .. }) => &mut self.without_key,
            _ => &mut self.other,
        };
        *count += 1;
        // Anybody may have made the key.
        if self.named.len() < limits::CLUSTER_UNREADABLE_NAMED && RunSpec::is_id(key) {
            self.named.push(key.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_runs_are_counted_by_reason_and_named() {
        let (what, key) = (String::new(), String::new());
        let mut all = UnreadableRuns::default();
        all.note("a", &ClusterError::Newer { what: what.clone(), version: 2 });
        all.note("b", &SealError::Newer { what: what.clone(), version: 2 }.into());
        all.note("c", &SealError::NoKey { what: what.clone(), key }.into());
        all.note("No!", &SealError::Plain { what }.into());
        assert_eq!((all.newer, all.without_key, all.other, all.total()), (2, 1, 1, 4));
        assert_eq!(all.named, ["a", "b", "c"]);
        for n in 0..limits::CLUSTER_UNREADABLE_NAMED {
            all.note(&format!("n{n}"), &ClusterError::NotFound { what: String::new() });
        }
        assert_eq!(
            (all.named.len(), all.other),
            (limits::CLUSTER_UNREADABLE_NAMED, limits::CLUSTER_UNREADABLE_NAMED + 1)
        );
    }
}
