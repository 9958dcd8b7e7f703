//! Damaged sessions, and sessions that another process removes at the same time: the others stay usable.

use std::{fs, io, path::Path, sync::Arc};

use super::{
    tests::{began, ended, named, said},
    *,
};
use shelly_core::{agent::journal::Recorder, limits};

/// A disk on which one folder is unreadable, since the user who runs the tests may have access to everything.
#[derive(Debug)]
struct ForbiddingStorage(&'static str);

impl ForbiddingStorage {
    fn check(&self, path: &Path) -> io::Result<()> {
        match path.parent().into_iter().flat_map(Path::components).any(|part| part.as_os_str() == self.0) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }
}

impl SessionStorage for ForbiddingStorage {
    fn create_folder(&self, path: &Path) -> io::Result<bool> {
        self.check(path).and_then(|()| DiskStorage.create_folder(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        self.check(path).and_then(|()| DiskStorage.open(path))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        self.check(path).and_then(|()| DiskStorage.open_or_create(path))
    }

    fn entries(&self, folder: &Path, most: usize) -> io::Result<Vec<StorageEntry>> {
        self.check(&folder.join("any")).and_then(|()| DiskStorage.entries(folder, most))
    }

    fn entry(&self, path: &Path) -> io::Result<StorageEntry> {
        self.check(path).and_then(|()| DiskStorage.entry(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(from).and_then(|()| DiskStorage.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(from).and_then(|()| DiskStorage.link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check(path).and_then(|()| DiskStorage.remove_file(path))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.check(path).and_then(|()| DiskStorage.remove_folder(path))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.check(&path.join("any")).and_then(|()| DiskStorage.sync_folder(path))
    }
}

fn write(store: &SessionStore, id: &str) {
    let session = store.create(named(id)).unwrap();
    session.write(1, &began(None));
    session.write(1, &said("a needle"));
    session.write(1, &ended(false));
}

fn names(of: &[(String, impl Sized)]) -> Vec<&str> {
    of.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
#[cfg(unix)]
fn one_damaged_session_leaves_the_others_usable() {
    use std::os::unix::fs::symlink;
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let precious = elsewhere.path().join("precious");
    fs::write(&precious, "kept").unwrap();
    let store =
        SessionStore::new(Arc::new(ForbiddingStorage("forbidden")), folder.path(), SessionStoreOptions::default());
    let whole = SessionStore::new(Arc::new(DiskStorage), folder.path(), SessionStoreOptions::default());
    let at = |path: &str| folder.path().join(path);
    for id in ["fine", "forbidden", "linked", "filed", "journal-linked", "lock-folder", "foreign", "deep", "empty"] {
        write(&whole, id);
    }
    for id in ["linked", "filed"] {
        fs::remove_dir_all(at(id).join("attachments")).unwrap();
    }
    symlink(elsewhere.path(), at("linked/attachments")).unwrap();
    fs::write(at("filed/attachments"), "a file").unwrap();
    fs::remove_file(at("journal-linked/journal.jsonl")).unwrap();
    symlink(&precious, at("journal-linked/journal.jsonl")).unwrap();
    fs::remove_file(at("lock-folder/lock")).unwrap();
    fs::create_dir_all(at("lock-folder/lock/below")).unwrap();
    fs::create_dir_all(at("foreign/mine/yours")).unwrap();
    fs::write(at("foreign/mine/yours/notes"), "notes").unwrap();
    fs::create_dir_all(at(&format!("deep/{}", "d/".repeat(limits::SESSION_FOLDERS_DEEP as usize + 1)))).unwrap();
    fs::write(at("empty/journal.jsonl"), "").unwrap();
    fs::create_dir(at("something-else")).unwrap();

    drop(store.create(named("another")).unwrap());
    assert_eq!(store.usage().unwrap().sessions, 11);
    let list = store.list(99).unwrap();
    let reason = |id: &str| match &list.iter().find(|summary| summary.id == id).unwrap().content {
        Ok((header, _)) => format!("agent {}", header.agent),
        Err(reason) => reason.clone(),
    };
    for (id, why) in [
        ("fine", "agent ada"),
        ("another", "agent ada"),
        ("foreign", "agent ada"),
        ("lock-folder", "agent ada"),
        ("forbidden", "permission denied"),
        ("linked", "expected a folder, found a link or a file"),
        ("filed", "expected a folder, found a link or a file"),
        ("journal-linked", "the path is a link"),
        ("empty", "the header has no end"),
    ] {
        assert!(reason(id).contains(why), "{id}: {}", reason(id));
    }
    assert_eq!(list.len(), 10, "what has no journal is no session");

    let SessionSearchResults { found, mut left_out } = store.search("needle", 99).unwrap();
    left_out.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(names(&left_out), ["empty", "filed", "forbidden", "journal-linked", "linked"], "{left_out:?}");

    let pruned = store.prune(&PrunePolicy { keep: Some(0), unfinished: true, ..PrunePolicy::default() }).unwrap();
    let mut failed = names(&pruned.failed);
    failed.sort_unstable();
    assert_eq!(failed, ["deep", "forbidden"]);
    assert_eq!((pruned.removed.len(), pruned.in_use.len()), (8, 0));
    assert_eq!(store.names().unwrap().len(), 2, "the one that is forbidden, and what is no session");
    assert_eq!(fs::read_to_string(&precious).unwrap(), "kept", "no link is followed");
    assert!(matches!(store.remove("forbidden"), Err(SessionError::Disk { .. })));

    // The remainder of the deep one is reported again, and blocks nothing else.
    let again = store.prune(&PrunePolicy::default()).unwrap();
    assert!(names(&again.failed).iter().all(|name| name.starts_with(".gone-")) && again.failed.len() == 1);
    assert!(again.failed[0].1.to_string().contains("too many nested folders"), "{again:?}");
}

#[test]
fn session_removed_meanwhile_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(Arc::new(DiskStorage), folder.path(), SessionStoreOptions::default());
    for id in ["a", "ab", "c"] {
        write(&store, id);
    }
    assert!(store.remove("a").unwrap().is_some_and(|bytes| bytes > 0));
    assert_eq!(store.remove("a").unwrap(), None, "the one whose name begins so is another");
    assert_eq!(store.remove("none").unwrap(), None);
    assert!(matches!(store.remove("../c"), Err(SessionError::BadName { .. })));
    assert!(matches!(store.journals.take("a"), Err(SessionError::NotFound { .. })));
    assert_eq!(store.usage().unwrap().sessions, 2);

    // Several prune at once: a session removed by one is no error for the others.
    for n in 0..40 {
        write(&store, &format!("s{n}"));
    }
    let everything = PrunePolicy { keep: Some(0), ..PrunePolicy::default() };
    let all: Vec<_> = std::thread::scope(|scope| {
        let at_once: Vec<_> = (0..4).map(|_| scope.spawn(|| store.prune(&everything).unwrap())).collect();
        at_once.into_iter().map(|pruned| pruned.join().unwrap()).collect()
    });
    assert!(all.iter().all(|pruned| pruned.failed.is_empty()), "{all:?}");
    store.prune(&everything).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn taken_session_name_error_says_if_in_use() {
    let store = tests::store(&MemoryDisk::new());
    let session = store.create(named("s")).unwrap();
    let error = store.create(named("s")).unwrap_err();
    assert!(matches!(error, SessionError::Exists { in_use: true, .. }));
    assert!(error.report().to_string().contains("a process writes to it"), "{}", error.report());
    drop(session);
    let error = store.create(named("s")).unwrap_err();
    assert!(matches!(error, SessionError::Exists { in_use: false, .. }));
    assert_eq!(error.report().hint.unwrap(), "resume it, or choose another name");
}

#[test]
fn session_error_hints_name_working_commands() {
    let folder = tempfile::tempdir().unwrap();
    let store = SessionStore::new(Arc::new(DiskStorage), folder.path(), SessionStoreOptions::default());
    write(&store, "s");
    let journal = folder.path().join("s/journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    for (journal_is, hint) in [
        (String::new(), "the session cannot be opened; remove it with `shelly-host session rm s`"),
        ("PK\u{3}\u{4} foreign\n".into(), "the session cannot be opened; remove it with `shelly-host session rm s`"),
        (text.replacen("ada", "bob", 1), "the session cannot be opened; remove it with `shelly-host session rm s`"),
        (
            text.replacen("needle", "noodle", 1),
            "continue from before the damage with `shelly-host session resume s --up-to-damage`, which keeps a copy \
             of the journal",
        ),
    ] {
        fs::write(&journal, journal_is).unwrap();
        let report = store.open("s", SessionOpenOptions::default()).unwrap_err().report();
        assert_eq!(report.hint.as_deref(), Some(hint), "{report}");
    }
    let SessionSearchResults { found, left_out } = store.search("Do it", 9).unwrap();
    assert_eq!((found.len(), names(&left_out)), (1, vec!["s"]), "the title stands before the damage");
    let full = SessionError::TooMany { there: 1, most: 1 }.report();
    assert_eq!(full.hint.unwrap(), "remove some; `shelly-host session prune --keep 20 --dry-run` shows which");
    store.remove("s").unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_list_counts_attachments() {
    let store = tests::store(&MemoryDisk::new());
    write(&store, "s");
    let summary = store.list(1).unwrap().remove(0);
    let prompt = limits::SESSION_INLINE_PROMPT_BYTES as u64 + 1;
    assert_eq!(summary.bytes, summary.journal_bytes + prompt);
    assert_eq!(summary.bytes, store.usage().unwrap().bytes);
}

#[test]
fn prune_syncs_once_for_many_sessions() {
    let disk = MemoryDisk::new();
    let store = tests::store(&disk);
    let removed_with = |many: usize| {
        (0..many).for_each(|n| drop(store.create(named(&format!("s{n}"))).unwrap()));
        let before = disk.operations();
        assert_eq!(store.prune(&PrunePolicy { keep: Some(0), ..PrunePolicy::default() }).unwrap().removed.len(), many);
        disk.operations() - before
    };
    let (one, many) = (removed_with(1), removed_with(101));
    assert!(many < 101 * one && (many - one) / 100 <= 30, "{one} operations for one, {many} for 101");
}
