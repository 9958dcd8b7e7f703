//! Room in a project for the sessions of a batch.

use super::{batch_name::BatchName, task_file::TaskFile, task_index::TaskIndex};
use crate::{
    error::{ErrorKind, Report, count},
    session::{SessionError, SessionStore},
};

const MEND: &str = "remove sessions, which `shelly-host session prune --keep 20 --dry-run` shows";

/// Checks before the first task that the project has room for the sessions of all tasks that are to be run.
///
/// # Errors
///
/// A [`Report`] with the limit and the mend.
pub(super) fn check_room_for_all(
    store: &SessionStore,
    batch_name: &BatchName,
    tasks: TaskFile,
    index: &TaskIndex,
    retries_failed: bool,
) -> Result<(), Report> {
    let pending = index.count(|state| state.is_pending(retries_failed));
    if store.check_room(pending as usize).is_ok() {
        return Ok(());
    }
    // Tasks that were interrupted go on in the sessions that they have.
    let begun = begun(store, batch_name, tasks, index, retries_failed)?;
    // A file that was changed meanwhile may have a task twice.
    let new = pending.saturating_sub(begun);
    // A project over its limits has no room for none either, although none needs room.
    if new == 0 {
        return Ok(());
    }
    store.check_room(new as usize).map_err(|full| {
        let sessions = count(new, "new session", "new sessions");
        let report = Report::new(ErrorKind::Usage, format!("the project has no room for {sessions} of this batch"));
        report.cause(full.to_string()).hint(format!(
            "{MEND}; or split the tasks file and remove the sessions of each part before the next; or record no sessions \
             with --no-session"
        ))
    })
}

/// Returns the number of tasks that are to be run and have a session already.
fn begun(
    store: &SessionStore,
    batch_name: &BatchName,
    mut tasks: TaskFile,
    index: &TaskIndex,
    retries_failed: bool,
) -> Result<u64, Report> {
    let mut begun = 0;
    while let Some(task) = tasks.next()? {
        let state = index.state(&task.id).filter(|state| state.is_pending(retries_failed));
        let name = state.map(|state| batch_name.session_name(&task, state.failures));
        begun += u64::from(name.is_some_and(|name| has_session(store, &name)));
    }
    Ok(begun)
}

/// Returns `true` if there is a session of this full name. Resolving a name would list all sessions.
pub(super) fn has_session(store: &SessionStore, name: &str) -> bool {
    store.contains(name)
}

/// Reports that no further task of a batch can be recorded.
pub(super) fn no_room(full: &SessionError) -> Report {
    let report = Report::new(ErrorKind::Run, "no further task can be recorded");
    report.cause(full.to_string()).hint(format!("{MEND}; then run the same command again to continue"))
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use super::*;
    use crate::session::{DiskStorage, NewSession, SessionStoreOptions};

    /// A batch of the tasks `a` and `b` in a project without sessions.
    struct TwoTasks {
        folder: tempfile::TempDir,
        batch_name: BatchName,
        index: TaskIndex,
    }

    impl TwoTasks {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let batch_name = BatchName::open(&folder.path().join("o.jsonl"), folder.path(), true).unwrap();
            let mut index = TaskIndex::default();
            assert!(index.add("a") && index.add("b"));
            let new = Self { folder, batch_name, index };
            new.write_tasks(&["a", "b"]);
            new
        }

        fn write_tasks(&self, ids: &[&str]) {
            let line = |id: &&str| format!("{{\"id\": \"{id}\", \"task\": \"x\"}}\n");
            fs::write(self.folder.path().join("t.jsonl"), ids.iter().map(line).collect::<String>()).unwrap();
        }

        fn store(&self, sessions: usize, sessions_bytes: u64) -> SessionStore {
            let options = SessionStoreOptions { sessions, sessions_bytes, ..SessionStoreOptions::default() };
            SessionStore::new(Arc::new(DiskStorage), self.folder.path().join("sessions"), options)
        }

        fn tasks(&self) -> TaskFile {
            TaskFile::open(&self.folder.path().join("t.jsonl")).unwrap()
        }

        fn check(&self, sessions: usize, bytes: u64) -> Result<(), Report> {
            check_room_for_all(&self.store(sessions, bytes), &self.batch_name, self.tasks(), &self.index, false)
        }

        /// Creates the session of the task at this place of the file, as a run does that is interrupted later.
        fn begin(&self, at: usize) {
            let mut tasks = self.tasks();
            let task = (0..=at).map(|_| tasks.next().unwrap().unwrap()).last().unwrap();
            let id = self.batch_name.session_name(&task, 0);
            drop(self.store(9, ALL).create(NewSession { id: Some(id), ..NewSession::default() }).unwrap());
        }
    }

    const ALL: u64 = 1 << 30;

    #[test]
    fn sessions_of_a_batch_must_fit_before_it_begins() {
        let batch = TwoTasks::new();
        assert_eq!(batch.check(2, ALL), Ok(()));
        let report = batch.check(1, ALL).unwrap_err();
        assert_eq!(
            report.to_string(),
            "the project has no room for 2 new sessions of this batch: there are 0 sessions, the maximum is 1"
        );
        assert!(report.hint.unwrap().contains("--no-session"), "the mend is named");
        batch.begin(0);
        assert_eq!(batch.check(2, ALL), Ok(()));
        let report = batch.check(2, 1).unwrap_err();
        assert!(report.to_string().contains("no room for 1 new session of this batch: all sessions take"), "{report}");
    }

    #[test]
    fn batch_without_new_sessions_goes_on_in_a_full_project() {
        let batch = TwoTasks::new();
        batch.begin(0);
        batch.begin(1);
        assert!(batch.store(2, 1).check_room(0).is_err(), "the sessions take more bytes than they may");
        assert_eq!(batch.check(2, 1), Ok(()));
        assert_eq!(batch.check(1, ALL), Ok(()));
        // More lines of known tasks than were counted.
        batch.write_tasks(&["a", "b", "a"]);
        assert_eq!(batch.check(2, 1), Ok(()));
    }
}
