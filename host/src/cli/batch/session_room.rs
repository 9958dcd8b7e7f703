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
    let new = pending - begun;
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

/// Returns `true` if there is a session of this full name. Looking a name up would list all sessions.
pub(super) fn has_session(store: &SessionStore, name: &str) -> bool {
    store.folder().join(name).is_dir()
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

    #[test]
    fn sessions_of_a_batch_must_fit_before_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        fs::write(&path, "{\"id\": \"a\", \"task\": \"a\"}\n{\"id\": \"b\", \"task\": \"b\"}\n").unwrap();
        let batch_name = BatchName::open(&folder.path().join("o.jsonl"), folder.path(), true).unwrap();
        let mut index = TaskIndex::default();
        assert!(index.add("a") && index.add("b"));
        let store = |sessions, sessions_bytes| {
            let options = SessionStoreOptions { sessions, sessions_bytes, ..SessionStoreOptions::default() };
            SessionStore::new(Arc::new(DiskStorage), folder.path().join("sessions"), options)
        };
        let check = |sessions, bytes| {
            let tasks = TaskFile::open(&path).unwrap();
            check_room_for_all(&store(sessions, bytes), &batch_name, tasks, &index, false)
        };
        let all = 1 << 30;
        assert_eq!(check(2, all), Ok(()));
        let report = check(1, all).unwrap_err();
        assert_eq!(
            report.to_string(),
            "the project has no room for 2 new sessions of this batch: there are 0 sessions, the maximum is 1"
        );
        assert!(report.hint.unwrap().contains("--no-session"), "the mend is named");
        // The task `a` was interrupted, and its session is there.
        let mut tasks = TaskFile::open(&path).unwrap();
        let id = batch_name.session_name(&tasks.next().unwrap().unwrap(), 0);
        drop(store(2, all).create(NewSession { id: Some(id), ..NewSession::default() }).unwrap());
        assert_eq!(check(2, all), Ok(()));
        let report = check(2, 1).unwrap_err();
        assert!(report.to_string().contains("no room for 1 new session of this batch: all sessions take"), "{report}");
    }
}
