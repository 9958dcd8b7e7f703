use std::time::{Duration, SystemTime};

use super::{
    SessionError, SessionStore,
    journal_storage::{JournalRemoval, JournalStat},
};
use shelly_core::error::Report;

/// The choice of sessions to remove. An absent criterion removes nothing.
#[derive(Debug, Clone, Default)]
pub struct PrunePolicy {
    /// The number of newest sessions that always stay. Alone, it removes all others.
    pub keep: Option<usize>,
    /// Removes sessions that were not written to for this long.
    pub older_than: Option<Duration>,
    /// Removes the oldest sessions until all take at most this many bytes.
    pub most_bytes: Option<u64>,
    /// Also removes sessions whose last run has not ended and could be resumed.
    pub unfinished: bool,
    /// Removes nothing, and only reports what would be removed.
    pub dry_run: bool,
}

/// The sessions that were removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// The removed sessions and their bytes, the oldest first.
    pub removed: Vec<(String, u64)>,
    /// The total bytes of the removed sessions.
    pub freed: u64,
    /// Sessions that were chosen, but are in use.
    pub in_use: Vec<String>,
    /// Sessions that were chosen, but have an unfinished run.
    pub unfinished: Vec<String>,
    /// Sessions that could not be removed, or not completely, with the error. Names that begin with a dot are leftovers of a
    /// crash.
    pub failed: Vec<(String, Report)>,
}

impl SessionStore {
    /// Removes a session that no process uses, by its full name, and returns its size in bytes; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if it is in use or the disk fails.
    pub fn remove(&self, id: &str) -> Result<Option<u64>, SessionError> {
        // A prefix of another session's name does not name that session.
        match self.resolve(id) {
            Ok(found) if found == id => {}
            Ok(_) | Err(SessionError::NotFound { .. } | SessionError::Ambiguous { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let bytes = self.bytes_of(id);
        let removed = self.journals.remove(id);
        self.journals.sync_removals();
        match removed? {
            JournalRemoval::Removed => Ok(Some(bytes)),
            JournalRemoval::Missing => Ok(None),
            JournalRemoval::InUse => Err(SessionError::InUse { id: id.to_owned() }),
        }
    }

    /// Removes sessions, never one that is in use, and the leftovers of sessions whose creation or removal was interrupted
    /// by a crash. A session that cannot be removed does not stop the removal of the others.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the folder cannot be read.
    pub fn prune(&self, policy: &PrunePolicy) -> Result<PruneReport, SessionError> {
        let mut pruned = PruneReport::default();
        if !policy.dry_run {
            pruned.failed = self.journals.remove_leftovers()?;
        }
        for (id, bytes) in self.chosen(policy, &mut pruned.unfinished)? {
            let removal = match policy.dry_run {
                true if self.is_in_use(&id) => Ok(JournalRemoval::InUse),
                true => Ok(JournalRemoval::Removed),
                false => self.journals.remove(&id),
            };
            match removal {
                Ok(JournalRemoval::Removed) => {
                    pruned.freed += bytes;
                    pruned.removed.push((id, bytes));
                }
                Ok(JournalRemoval::InUse) => pruned.in_use.push(id),
                Ok(JournalRemoval::Missing) => {}
                Err(error) => pruned.failed.push((id, error.report())),
            }
        }
        if !policy.dry_run {
            self.journals.sync_removals();
        }
        Ok(pruned)
    }

    /// Returns `true` if a session cannot be read on this host although it need not be damaged.
    fn is_unreadable_here(&self, id: &str) -> bool {
        matches!(self.journals.status(id), Err(SessionError::Newer { .. } | SessionError::Storage { .. }))
    }

    /// Returns the sessions to remove and their bytes, the oldest first. Adds those that stay because they are unfinished to
    /// `stay`.
    fn chosen(&self, policy: &PrunePolicy, stay: &mut Vec<String>) -> Result<Vec<(String, u64)>, SessionError> {
        let PrunePolicy { keep, older_than, most_bytes, unfinished, dry_run: _ } = *policy;
        let mut stays = |id: &str| {
            // A session of a newer version, or of a key that is missing here, is removed by its name alone.
            if self.is_unreadable_here(id) {
                return true;
            }
            let stays = !unfinished && self.could_go_on(id);
            if stays {
                stay.push(id.to_owned());
            }
            stays
        };
        let now = SystemTime::now();
        let is_old = |found: &JournalStat| match older_than {
            Some(age) => now.duration_since(found.modified).is_ok_and(|since| since >= age),
            // `keep` alone removes all others; `most_bytes` makes its own choice.
            None => keep.is_some() && most_bytes.is_none(),
        };
        let mut all = Vec::new();
        for (place, found) in self.newest()?.into_iter().enumerate() {
            let bytes = self.bytes_of(&found.id);
            let mut may_go = place >= keep.unwrap_or(0);
            let goes = may_go && is_old(&found);
            may_go &= !goes || !stays(&found.id);
            all.push((may_go && goes, may_go, found.id, bytes));
        }
        let mut left: u64 = all.iter().map(|(goes, _, _, bytes)| if *goes { 0 } else { *bytes }).sum();
        let mut chosen = Vec::new();
        for (goes, may_go, id, bytes) in all.into_iter().rev() {
            let is_too_much = !goes && may_go && most_bytes.is_some_and(|most| left > most) && !stays(&id);
            if is_too_much {
                left -= bytes;
            }
            if goes || is_too_much {
                chosen.push((id, bytes));
            }
        }
        Ok(chosen)
    }
}
