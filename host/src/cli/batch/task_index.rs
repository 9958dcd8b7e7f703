use std::collections::{HashMap, hash_map::Entry};

use crate::digest::Sha256Digest;

/// The ids of all tasks of a file, as digests, with the state of each. A million of them take some tens of megabytes.
#[derive(Default)]
pub(super) struct TaskIndex(HashMap<TaskKey, TaskState>);

/// The beginning of the SHA-256 digest of an id. Two ids with the same key cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TaskKey([u8; 16]);

/// The state of a task after earlier starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TaskState {
    /// The number of times that the task has failed; saturates.
    pub failures: u8,
    /// `true` if the task is answered.
    pub is_answered: bool,
}

impl TaskState {
    /// Returns `true` if the task has failed and was not answered since.
    pub fn has_failed(self) -> bool {
        self.failures > 0 && !self.is_answered
    }

    /// Returns `true` if the task runs now.
    pub fn is_pending(self, retries_failed: bool) -> bool {
        !self.is_answered && (self.failures == 0 || retries_failed)
    }
}

impl TaskKey {
    pub fn of(id: &str) -> Self {
        let mut key = [0; 16];
        key.copy_from_slice(&Sha256Digest::of(id).0[..16]);
        Self(key)
    }
}

impl TaskIndex {
    /// Adds an id; returns `false` if it is there already.
    pub fn add(&mut self, id: &str) -> bool {
        match self.0.entry(TaskKey::of(id)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(entry) => {
                entry.insert(TaskState::default());
                true
            }
        }
    }

    /// Returns the state of a task; `None` if there is no such id.
    pub fn state(&self, id: &str) -> Option<TaskState> {
        self.0.get(&TaskKey::of(id)).copied()
    }

    /// Records a result of an earlier start; returns `false` if there is no such id.
    pub fn record(&mut self, id: &str, is_answered: bool) -> bool {
        let Some(state) = self.0.get_mut(&TaskKey::of(id)) else { return false };
        match is_answered {
            true => state.is_answered = true,
            false => state.failures = state.failures.saturating_add(1),
        }
        true
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of tasks in such a state.
    pub fn count(&self, is_so: impl Fn(TaskState) -> bool) -> u64 {
        self.0.values().filter(|state| is_so(**state)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_result_decides_what_is_pending() {
        let mut index = TaskIndex::default();
        assert!(index.add("a") && index.add("b") && index.add("c") && index.add("d") && !index.add("a"));
        for (id, is_answered) in [("a", true), ("b", false), ("b", false), ("c", false), ("c", true)] {
            assert!(index.record(id, is_answered));
        }
        assert!(!index.record("e", true));
        let pending = |id: &str| [false, true].map(|retries| index.state(id).unwrap().is_pending(retries));
        assert_eq!(["a", "b", "c", "d"].map(pending), [[false; 2], [false, true], [false; 2], [true; 2]]);
        assert_eq!(index.state("b").unwrap().failures, 2);
        assert_eq!((index.count(TaskState::has_failed), index.len()), (1, 4));
        assert_eq!(index.state("e"), None);
    }
}
