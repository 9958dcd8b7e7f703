use std::{
    io,
    time::{Duration, SystemTime},
};

use super::{
    SessionError, SessionStore, StorageEntryKind,
    error::disk,
    list::JournalStat,
    storage::remove_all,
    store::{GONE, NEW},
    writer::LOCK,
};
use crate::{error::Report, limits};

/// Which sessions are to go. All that is absent removes nothing.
#[derive(Debug, Clone, Default)]
pub struct PrunePolicy {
    /// The newest, which stay in any case. Alone: all others go.
    pub keep: Option<usize>,
    /// Those that were not written to for so long go.
    pub older_than: Option<Duration>,
    /// The oldest go until all take at most so many bytes.
    pub most_bytes: Option<u64>,
    /// Also those whose last run has not ended: they could go on.
    pub unfinished: bool,
    /// Nothing is removed: it is only told what would be.
    pub dry_run: bool,
}

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Sessions and their bytes, the oldest first.
    pub removed: Vec<(String, u64)>,
    /// The bytes of all of them.
    pub freed: u64,
    /// Sessions that would have gone and are in use.
    pub in_use: Vec<String>,
    /// Sessions that would have gone and have a run that has not ended.
    pub unfinished: Vec<String>,
    /// Sessions that could not be removed, or not wholly, and why. Names that begin with a dot are what a crash left.
    pub failed: Vec<(String, Report)>,
}

impl SessionStore {
    /// Removes a session that nobody uses, by its full name, and returns the bytes that it took; none if it is gone.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: it is in use, the disk says no.
    pub fn remove(&self, id: &str) -> Result<Option<u64>, SessionError> {
        // A name that another one begins with is not that one's.
        match self.resolve(id) {
            Ok(found) if found == id => {}
            Ok(_) | Err(SessionError::NotFound { .. } | SessionError::Ambiguous { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let bytes = self.bytes_of(id);
        let removed = self.remove_unused(id);
        self.sync_after_removal();
        match removed? {
            RemovalOutcome::Done => Ok(Some(bytes)),
            RemovalOutcome::Gone => Ok(None),
            RemovalOutcome::InUse => Err(SessionError::InUse { id: id.to_owned() }),
        }
    }

    /// Removes sessions, never one that is in use, and what a crash left of some that were being made or removed. One that
    /// cannot be removed does not keep the others.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: the folder cannot be read.
    pub fn prune(&self, policy: &PrunePolicy) -> Result<PruneReport, SessionError> {
        let mut pruned = PruneReport::default();
        if !policy.dry_run {
            self.remove_leftovers(&mut pruned.failed)?;
        }
        for (id, bytes) in self.chosen(policy, &mut pruned.unfinished)? {
            let removal = match policy.dry_run {
                true if self.is_in_use(&id) => Ok(RemovalOutcome::InUse),
                true => Ok(RemovalOutcome::Done),
                false => self.remove_unused(&id),
            };
            match removal {
                Ok(RemovalOutcome::Done) => {
                    pruned.freed += bytes;
                    pruned.removed.push((id, bytes));
                }
                Ok(RemovalOutcome::InUse) => pruned.in_use.push(id),
                Ok(RemovalOutcome::Gone) => {}
                Err(error) => pruned.failed.push((id, error.report())),
            }
        }
        if !policy.dry_run {
            self.sync_after_removal();
        }
        Ok(pruned)
    }

    /// The sessions that are to go and their bytes, the oldest first. Those that stay because they are unfinished are
    /// added to `stay`.
    fn chosen(&self, policy: &PrunePolicy, stay: &mut Vec<String>) -> Result<Vec<(String, u64)>, SessionError> {
        let PrunePolicy { keep, older_than, most_bytes, unfinished, dry_run: _ } = *policy;
        let mut stays = |id: &str| {
            let stays = !unfinished && self.could_go_on(id);
            if stays {
                stay.push(id.to_owned());
            }
            stays
        };
        let now = SystemTime::now();
        let is_old = |found: &JournalStat| match older_than {
            Some(age) => now.duration_since(found.modified).is_ok_and(|since| since >= age),
            // `keep` alone removes all others, and `most_bytes` chooses by itself.
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

    /// Removes a session, if nobody uses it. It has no name any more before its first file goes.
    fn remove_unused(&self, id: &str) -> Result<RemovalOutcome, SessionError> {
        let (folder, gone) = (self.folder.join(id), self.folder.join(format!("{GONE}{}", self.random(8)?)));
        let lock = match self.storage.entry(&folder.join(LOCK)) {
            // Nobody can hold what is no file.
            Ok(entry) if entry.kind != StorageEntryKind::File => None,
            _ => match self.lock(id) {
                Ok(None) => return Ok(RemovalOutcome::InUse),
                Err(SessionError::NotFound { .. }) => return Ok(RemovalOutcome::Gone),
                lock => lock?,
            },
        };
        match self.storage.rename(&folder, &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RemovalOutcome::Gone),
            renamed => renamed.map_err(disk("remove", &folder))?,
        }
        drop(lock);
        let removed = remove_all(&*self.storage, &gone, limits::SESSION_FOLDERS_DEEP);
        removed.map(|()| RemovalOutcome::Done).map_err(disk("remove", &gone))
    }

    /// Lets what was removed stay so if the power fails now, where that can be: else some would be back, and whole.
    fn sync_after_removal(&self) {
        let _ = self.storage.sync_folder(&self.folder);
    }

    /// Removes what a crash left.
    fn remove_leftovers(&self, failed: &mut Vec<(String, Report)>) -> Result<(), SessionError> {
        for name in self.all_names()? {
            let path = self.folder.join(&name);
            let is_old = || {
                let age = self.storage.entry(&path).ok().and_then(|entry| entry.modified.elapsed().ok());
                age.is_some_and(|age| age >= limits::SESSION_LEFTOVER_AGE) && !self.is_in_use(&name)
            };
            if name.starts_with(GONE) || (name.starts_with(NEW) && is_old()) {
                let removed = remove_all(&*self.storage, &path, limits::SESSION_FOLDERS_DEEP);
                let error = removed.map_err(disk("remove", &path)).err();
                failed.extend(error.map(|error| (name, error.report())));
            }
        }
        Ok(())
    }
}

/// What came of a removal.
enum RemovalOutcome {
    Done,
    InUse,
    /// Somebody else has removed it.
    Gone,
}
