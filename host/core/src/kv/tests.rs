use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use proptest::prelude::*;

use super::{
    disk::DiskKvBackend,
    log::{self, MAGIC},
    memory::{KvMemoryPool, MemoryKvBackend},
    *,
};
use crate::limits;

const ANY: KvPrecondition = KvPrecondition::Anything;

fn disk(folder: &Path) -> DiskKvBackend {
    disk_of(folder, KvQuota::default())
}

fn disk_of(folder: &Path, quota: KvQuota) -> DiskKvBackend {
    let folder = folder.to_owned();
    DiskKvBackend::new(Arc::new(move || Ok(folder.clone())), vec!["a".into(), "p.kv".into()], quota)
}

fn file(folder: &Path) -> PathBuf {
    folder.join("a/p.kv")
}

fn memory(quota: KvQuota, most: usize) -> (MemoryKvBackend, Arc<KvMemoryPool>) {
    let pool = Arc::new(KvMemoryPool::new(most));
    (MemoryKvBackend::new(quota, Arc::clone(&pool)), pool)
}

/// One store in memory and one on disk.
fn both(folder: &Path, quota: KvQuota) -> [Box<dyn KvBackend>; 2] {
    [Box::new(memory(quota, limits::KV_MEMORY_BYTES).0), Box::new(disk_of(folder, quota))]
}

fn value(store: &mut dyn KvBackend, key: &str) -> Option<Vec<u8>> {
    store.get(key).unwrap().map(|entry| entry.value)
}

fn revision(store: &mut dyn KvBackend, key: &str) -> Option<u64> {
    store.get(key).unwrap().map(|entry| entry.revision)
}

#[test]
fn kv_revision_changes_on_write_and_never_repeats() {
    let folder = tempfile::tempdir().unwrap();
    for mut store in both(folder.path(), KvQuota::default()) {
        let store = &mut *store;
        let mut seen = Vec::new();
        for value in [Some(&b"same"[..]), Some(b"same"), None, Some(b""), Some(b"same")] {
            assert!(store.write("k", ANY, value).unwrap());
            seen.extend(revision(store, "k"));
        }
        assert!(seen.is_sorted_by(|a, b| a < b) && seen.len() == 4, "{seen:?}");
    }
    // Not even after the file was read again, or rewritten without live records.
    let mut store = disk(folder.path());
    let last = revision(&mut store, "k").unwrap();
    store.write("k", ANY, None).unwrap();
    let mut log = file::KvLogFile::open(&file(folder.path())).unwrap();
    log.compact(|| Ok(())).unwrap();
    let mut store = disk(folder.path());
    store.write("k", ANY, Some(b"v")).unwrap();
    assert_eq!(revision(&mut store, "k"), Some(last + 2));
}

#[test]
fn kv_write_requires_its_precondition() {
    let folder = tempfile::tempdir().unwrap();
    for mut store in both(folder.path(), KvQuota::default()) {
        let store = &mut *store;
        assert!(!store.write("k", KvPrecondition::Revision(0), Some(b"x")).unwrap());
        assert!(store.write("k", KvPrecondition::Nothing, None).unwrap(), "there is nothing to remove");
        assert!(store.write("k", KvPrecondition::Nothing, Some(b"1")).unwrap());
        let first = revision(store, "k").unwrap();
        assert!(!store.write("k", KvPrecondition::Nothing, Some(b"2")).unwrap());
        assert!(!store.write("k", KvPrecondition::Revision(first + 1), None).unwrap());
        assert_eq!(value(store, "k").unwrap(), b"1");
        assert!(store.write("k", KvPrecondition::Revision(first), Some(b"2")).unwrap());
        assert!(!store.write("k", KvPrecondition::Revision(first), Some(b"3")).unwrap(), "it is another one now");
        let second = revision(store, "k").unwrap();
        assert!(store.write("k", KvPrecondition::Revision(second), None).unwrap());
        assert_eq!(value(store, "k"), None);
    }
}

#[test]
fn kv_keys_are_listed_in_byte_order_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let names = |count: usize| (0..count).map(|at| format!("n/{at:04}"));
    let all: Vec<_> = ["é", "m", "n", "n\0", "o"].map(String::from).into_iter().chain(names(1_001)).collect();
    let (mut stored, _pool) = memory(KvQuota::default(), limits::KV_MEMORY_BYTES);
    let mut on_disk = disk(folder.path());
    for key in &all {
        stored.write(key, ANY, Some(b"")).unwrap();
    }
    for key in all.iter().take(8) {
        on_disk.write(key, ANY, Some(b"")).unwrap();
    }
    for (prefix, after, expected) in [
        ("", Some("n/1000"), vec!["o", "é"]),
        ("n/", Some("n/0999"), vec!["n/1000"]),
        ("n/", Some("a"), names(1_000).collect::<Vec<_>>().iter().map(String::as_str).collect()),
        (
            "n",
            None,
            ["n", "n\0"].into_iter().chain(names(998).collect::<Vec<_>>().leak().iter().map(String::as_str)).collect(),
        ),
        ("n/", Some("n0"), vec![]),
        ("x", None, vec![]),
        ("é", None, vec!["é"]),
    ] {
        assert_eq!(stored.keys(prefix, after).unwrap(), expected, "{prefix:?} {after:?}");
    }
    assert_eq!(on_disk.keys("n", None).unwrap(), ["n", "n\0", "n/0000", "n/0001", "n/0002"]);
}

#[tokio::test]
async fn invalid_kv_keys_and_values_are_refused() {
    let store = KvStores::default().in_memory();
    let long = "k".repeat(limits::KV_KEY_BYTES);
    for (key, bytes) in [(String::new(), 0), (format!("{long}k"), 513), ("é".repeat(257), 514)] {
        let expected = KvError::BadKey { bytes };
        assert_eq!(store.get(key.clone()).await.unwrap_err(), expected);
        assert_eq!(store.write(key.clone(), ANY, None).await.unwrap_err(), expected);
        if bytes > 0 {
            assert_eq!(store.keys(key.clone(), None).await.unwrap_err(), expected);
            assert_eq!(store.keys(String::new(), Some(key)).await.unwrap_err(), expected);
        }
    }
    let largest = vec![1; limits::KV_VALUE_BYTES];
    assert!(store.write(long.clone(), ANY, Some(largest.clone())).await.unwrap());
    assert_eq!(store.get(long.clone()).await.unwrap().unwrap().value, largest);
    let error = store.write(long, ANY, Some(vec![1; limits::KV_VALUE_BYTES + 1])).await.unwrap_err();
    assert_eq!(error, KvError::ValueTooLarge { bytes: limits::KV_VALUE_BYTES + 1 });
    assert_eq!(error.fault().to_string(), "the value has 1048577 bytes, the maximum is 1048576; split it");
}

#[test]
fn kv_quota_counts_bytes_and_allows_shrinking() {
    let folder = tempfile::tempdir().unwrap();
    let quota = KvQuota { bytes: 20, keys: 3 };
    for mut store in both(folder.path(), quota) {
        let store = &mut *store;
        store.write("ab", ANY, Some(&[0; 18])).unwrap();
        let full = KvError::Full { would: 21, most: 20 };
        assert_eq!(store.write("c", ANY, Some(b"")).unwrap_err(), full);
        assert_eq!(store.write("ab", ANY, Some(&[0; 19])).unwrap_err(), full);
        assert!(full.to_string().contains("its quota is 20"));
        store.write("ab", ANY, Some(&[1; 18])).unwrap();
        store.write("ab", ANY, Some(&[0; 4])).unwrap();
        store.write("c", ANY, Some(b"")).unwrap();
        store.write("d", ANY, Some(b"")).unwrap();
        assert_eq!(store.write("e", ANY, Some(b"")).unwrap_err(), KvError::TooManyKeys { most: 3 });
        store.write("d", ANY, None).unwrap();
        store.write("e", ANY, Some(b"")).unwrap();
    }
    // A quota below the current content: nothing grows, everything shrinks.
    let mut store = disk_of(folder.path(), KvQuota { bytes: 3, keys: 1 });
    assert!(matches!(store.write("ab", ANY, Some(&[0; 5])), Err(KvError::Full { .. })));
    assert!(matches!(store.write("f", ANY, Some(b"")), Err(KvError::Full { .. })));
    store.write("ab", ANY, Some(&[0; 3])).unwrap();
    store.write("ab", ANY, None).unwrap();
    assert_eq!(store.keys("", None).unwrap(), ["c", "e"]);
}

#[test]
fn default_kv_quota_is_64_mib_and_65536_keys() {
    let (mut store, _pool) = memory(KvQuota::default(), limits::KV_MEMORY_BYTES);
    let value = vec![0; limits::KV_VALUE_BYTES - 1];
    for at in 0..64_u8 {
        store.write(&char::from(at).to_string(), ANY, Some(&value)).unwrap();
    }
    let full = KvError::Full { would: (64 << 20) + 2, most: 64 << 20 };
    assert_eq!(store.write("é", ANY, Some(b"")).unwrap_err(), full);
    let (mut store, _pool) = memory(KvQuota::default(), limits::KV_MEMORY_BYTES);
    for at in 0..limits::KV_STORE_KEYS {
        store.write(&at.to_string(), ANY, Some(b"")).unwrap();
    }
    assert_eq!(store.write("k", ANY, Some(b"")).unwrap_err(), KvError::TooManyKeys { most: 65_536 });
}

#[test]
fn memory_kv_stores_share_and_release_one_bound() {
    let pool = Arc::new(KvMemoryPool::new(2 * limits::KV_ENTRY_BYTES + 10));
    let mut stores: Vec<_> = (0..2).map(|_| MemoryKvBackend::new(KvQuota::default(), Arc::clone(&pool))).collect();
    stores[0].write("a", ANY, Some(&[0; 4])).unwrap();
    stores[1].write("a", ANY, Some(&[0; 4])).unwrap();
    let none = KvError::NoMemory { most: 2 * limits::KV_ENTRY_BYTES + 10 };
    assert_eq!(stores[1].write("a", ANY, Some(&[0; 5])).unwrap_err(), none);
    assert_eq!(value(&mut stores[1], "a").unwrap(), [0; 4], "nothing was done");
    stores[0].write("a", ANY, Some(&[0; 3])).unwrap();
    stores[1].write("a", ANY, Some(&[0; 5])).unwrap();
    assert_eq!(stores[1].write("b", ANY, Some(b"")).unwrap_err(), none);
    stores[0].write("a", ANY, None).unwrap();
    stores[1].write("b", ANY, Some(b"")).unwrap();
    drop(stores);
    let all = vec![0; limits::KV_ENTRY_BYTES + 9];
    MemoryKvBackend::new(KvQuota::default(), pool).write("a", ANY, Some(&all)).unwrap();
}

#[test]
fn kv_file_cut_anywhere_keeps_all_but_the_last_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let mut store = disk(folder.path());
    store.write("one", ANY, Some(b"1")).unwrap();
    store.write("two", ANY, Some(b"2")).unwrap();
    let answered = fs::read(&path).unwrap();
    store.write("one", ANY, Some(b"a longer value")).unwrap();
    let whole = fs::read(&path).unwrap();
    drop(store);
    for cut in answered.len()..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut store = disk(folder.path());
        assert_eq!((value(&mut store, "one").unwrap(), value(&mut store, "two").unwrap()), (b"1".into(), b"2".into()));
        assert_eq!(fs::read(&path).unwrap(), answered, "what was half written is taken away");
        store.write("one", ANY, Some(b"3")).unwrap();
        assert_eq!(value(&mut disk(folder.path()), "one").unwrap(), b"3");
    }
    // The remains of a file system that extends a file before it writes.
    fs::write(&path, [answered.clone(), vec![0; whole.len() - answered.len()]].concat()).unwrap();
    assert_eq!(value(&mut disk(folder.path()), "one").unwrap(), b"1");
}

#[test]
fn damaged_kv_file_is_reported_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let mut store = disk(folder.path());
    for key in ["one", "two", "three"] {
        store.write(key, ANY, Some(b"value")).unwrap();
    }
    let whole = fs::read(&path).unwrap();
    let first = MAGIC.len();
    let second = first + log::encode(1, "one", Some(b"value")).len();
    for (damage, at) in [(0, 0), (first, first), (first + 25, first), (second + 5, second)] {
        let mut bytes = whole.clone();
        bytes[damage] ^= 0x40;
        fs::write(&path, &bytes).unwrap();
        let mut store = disk(folder.path());
        for _ in 0..2 {
            let error = store.write("k", ANY, Some(b"v")).unwrap_err();
            let KvError::Damaged { path: told, at: byte, .. } = &error else { panic!("{error}") };
            assert!(error.to_string().contains("move the file away (the plugin loses its content)"), "{error}");
            assert_eq!((told, *byte), (&path, at as u64), "{damage}");
            assert!(error.is_of_operator() && !error.fault().to_string().contains("p.kv"), "{:?}", error.fault());
        }
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
    fs::write(&path, "").unwrap();
    assert!(matches!(disk(folder.path()).get("one"), Err(KvError::Damaged { at: 0, .. })), "not taken for a new one");
    // The damage occurs while a process has the store open.
    fs::write(&path, &whole).unwrap();
    let mut store = disk(folder.path());
    assert!(store.get("one").unwrap().is_some());
    let mut bytes = whole.clone();
    bytes[first + 25] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    assert!(matches!(store.get("one"), Err(KvError::Damaged { .. })));
    fs::write(&path, &whole).unwrap();
    assert!(store.get("one").unwrap().is_some(), "mended");
    fs::write(&path, &whole[..second]).unwrap();
    assert!(matches!(store.get("one"), Err(KvError::Damaged { .. })), "it has become shorter");
}

#[test]
fn exhausted_kv_counters_are_reported_as_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let mut store = disk(folder.path());
    store.write("k", ANY, Some(b"v")).unwrap();
    let last = [&MAGIC[..], &log::encode(u64::MAX, "k", Some(b"v"))].concat();
    fs::write(&path, &last).unwrap();
    let mut store = disk(folder.path());
    assert_eq!(revision(&mut store, "k"), Some(u64::MAX), "it can be read");
    for value in [Some(&b"w"[..]), None] {
        let error = store.write("k", ANY, value).unwrap_err();
        let KvError::Damaged { path: told, reason, .. } = &error else { panic!("{error}") };
        assert_eq!((told, *reason), (&path, "the revision number has reached its maximum"));
    }
    assert_eq!(fs::read(&path).unwrap(), last);
    let lock = path.with_extension("lock");
    fs::write(&lock, u64::MAX.to_le_bytes()).unwrap();
    let error = store.get("k").unwrap_err();
    assert!(matches!(&error, KvError::Damaged { path, at: 0, .. } if *path == lock), "{error}");
    fs::write(&lock, (u64::MAX - 1).to_le_bytes()).unwrap();
    assert!(store.get("k").unwrap().is_some(), "mended");
}

#[test]
fn oversized_kv_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let mut store = disk(folder.path());
    store.write("k", ANY, Some(b"v")).unwrap();
    let refused = |store: &mut DiskKvBackend, says: &str| {
        let error = store.get("k").unwrap_err();
        let KvError::Damaged { path: told, reason, .. } = &error else { panic!("{error}") };
        assert_eq!((told, *reason), (&path, says));
    };
    // A sparse file takes no space on disk.
    let set_len = |len| fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len).unwrap();
    set_len(limits::KV_FILE_BYTES + 1);
    for store in [&mut store, &mut disk(folder.path())] {
        refused(store, "the file is larger than the maximum of a store");
    }
    set_len(limits::KV_FILE_BYTES);
    refused(&mut disk(folder.path()), "checksum mismatch in the head of a record");
    // The maximum content, and one more record.
    let record = |at: usize| log::encode(at as u64, &at.to_string(), Some(b""));
    let mut bytes = MAGIC.to_vec();
    bytes.extend((0..limits::KV_STORE_KEYS).flat_map(record));
    fs::write(&path, &bytes).unwrap();
    assert!(disk(folder.path()).get("65535").unwrap().is_some());
    bytes.extend(record(limits::KV_STORE_KEYS));
    fs::write(&path, &bytes).unwrap();
    refused(&mut disk(folder.path()), "the file has more keys than the maximum of a store");
}

#[test]
fn kv_record_size_matches_the_file_limit() {
    assert_eq!(log::encode(1, "", Some(b"")).len(), limits::KV_RECORD_BYTES);
}

#[test]
fn kv_warnings_of_one_store_are_limited() {
    let store = KvStores::default().in_memory();
    let error = |at: u32| KvError::Damaged { path: "p.kv".into(), at: at.into(), reason: "it is" };
    for at in 0..limits::KV_WARNINGS {
        assert_eq!([(); 2].map(|()| store.is_news(&error(at))), [true, false], "{at}");
    }
    for at in 0..2 * limits::KV_WARNINGS {
        assert!(!store.is_news(&error(at)), "{at}");
    }
    assert!(KvStores::default().in_memory().is_news(&error(0)), "each store has its own");
}

#[test]
fn kv_file_is_compacted_before_stale_data_exceeds_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    let (mut store, mut other) = (disk(folder.path()), disk(folder.path()));
    let large = vec![7; limits::KV_VALUE_BYTES];
    store.write("stays", ANY, Some(b"v")).unwrap();
    // The remains of a process that was killed while it rewrote the file.
    fs::write(path.with_extension("new"), "half a").unwrap();
    let most = 2 * large.len() as u64 + limits::KV_WASTE_BYTES + 1_024;
    let mut became_smaller = false;
    for round in 0..12_u8 {
        let before = fs::metadata(&path).unwrap().len();
        store.write("large", ANY, Some(&[&large[1..], &[round]].concat())).unwrap();
        let after = fs::metadata(&path).unwrap().len();
        became_smaller |= after < before;
        assert!(after <= most, "{after}");
        // A process that had the old file open reads the new one.
        assert_eq!(value(&mut other, "large").unwrap().last(), Some(&round));
        assert_eq!(value(&mut other, "stays").unwrap(), b"v");
    }
    assert!(became_smaller);
    assert_eq!(fs::read_dir(folder.path().join("a")).unwrap().count(), 2, "the file and its lock, nothing else");
}

#[test]
fn two_openers_of_a_kv_file_see_each_others_writes() {
    let folder = tempfile::tempdir().unwrap();
    let count = |store: &mut DiskKvBackend| {
        let mut done = 0;
        while done < 50 {
            let there = store.get("n").unwrap();
            let expected =
                there.as_ref().map_or(KvPrecondition::Nothing, |entry| KvPrecondition::Revision(entry.revision));
            let next = there.map_or(0, |entry| String::from_utf8(entry.value).unwrap().parse::<u32>().unwrap()) + 1;
            done += u32::from(store.write("n", expected, Some(next.to_string().as_bytes())).unwrap());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| count(&mut disk(folder.path())));
        }
    });
    assert_eq!(value(&mut disk(folder.path()), "n").unwrap(), b"200");
}

#[test]
fn kv_lock_held_too_long_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("l");
    let [mine, theirs] = [(); 2].map(|()| file::options().create(true).truncate(false).open(&path).unwrap());
    theirs.lock().unwrap();
    let error = disk::lock(&mine, &path, std::time::Duration::ZERO).unwrap_err();
    assert_eq!(error, KvError::InUse { path: path.clone() });
    theirs.unlock().unwrap();
    disk::lock(&mine, &path, std::time::Duration::ZERO).unwrap();
}

#[test]
fn obstacle_in_a_kv_path_is_reported_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |says: &str| {
        let error = disk(folder.path()).get("k").unwrap_err();
        assert!(matches!(&error, KvError::Disk { .. }) && error.to_string().contains(says), "{error}");
    };
    fs::write(folder.path().join("a"), "a file").unwrap();
    refused("the path is a file");
    fs::remove_file(folder.path().join("a")).unwrap();
    fs::create_dir_all(file(folder.path())).unwrap();
    refused("the path is not a regular file");
    fs::remove_dir(file(folder.path())).unwrap();
    #[cfg(unix)]
    for name in ["a/p.kv", "a/p.lock"] {
        let link = folder.path().join(name);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        refused("the path is not a regular file");
        assert!(!folder.path().join("a/elsewhere").exists());
        fs::remove_file(link).unwrap();
    }
    disk(folder.path()).write("k", ANY, Some(b"v")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(file(folder.path())).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let none =
        DiskKvBackend::new(Arc::new(|| Err("there is no folder".into())), vec!["p.kv".into()], KvQuota::default())
            .get("k");
    assert!(none.unwrap_err().to_string().ends_with("the key-value store p.kv: there is no folder"));
}

#[tokio::test]
async fn each_kv_owner_has_its_own_store() {
    let folder = tempfile::tempdir().unwrap();
    let (kv, session) = (folder.path().join("kv"), folder.path().join("s"));
    let session_of = |user: &str, plugin: &str| KvStoreOwner::Session { user: user.into(), plugin: plugin.into() };
    let of = |user: &str, plugin: &str| KvStoreOwner::User { user: user.into(), plugin: plugin.into() };
    let places = || {
        vec![
            session_of("agents.a", "p"),
            session_of("agents.b", "p"),
            of("agents.a", "p"),
            of("agents.a", "q"),
            of("agents.A", "p"),
            of("providers.a", "p"),
            KvStoreOwner::Plugin { plugin: "p".into() },
            KvStoreOwner::Plugin { plugin: "q".into() },
        ]
    };
    let stores = || {
        let kv = kv.clone();
        KvStores::on_disk(move || {
            crate::files::create_folder(&kv).map(|_| kv.clone()).map_err(|e: io::Error| e.to_string())
        })
    };
    fs::create_dir(&session).unwrap();
    let first = stores();
    first.of_session("s", session.clone());
    assert!(!kv.exists(), "nothing is made before it is used");
    for place in places() {
        let store = first.get(place.clone());
        assert_eq!(store.get("k".into()).await.unwrap(), None, "{place:?}");
        store.write("k".into(), ANY, Some(format!("{place:?}").into())).await.unwrap();
    }
    assert!(session.join("kv/agents/a/p.kv").exists() && kv.join("agents/%41/p.kv").exists());
    assert!(kv.join("plugins/p.kv").exists() && kv.join("providers/a/p.kv").exists());
    let again = stores();
    again.of_session("s", session);
    for place in places() {
        let entry = again.get(place.clone()).get("k".into()).await.unwrap().unwrap();
        assert_eq!(entry.value, format!("{place:?}").as_bytes());
    }
    // Without a session, its stores are in memory while they are referenced.
    let without = stores();
    let place = session_of("agents.a", "p");
    assert_eq!(without.get(place.clone()).get("k".into()).await.unwrap(), None);
    without.get(place.clone()).write("k".into(), ANY, Some(vec![1])).await.unwrap();
    assert_eq!(without.get(place.clone()).get("k".into()).await.unwrap().unwrap().value, [1]);
    assert_eq!(stores().get(place).get("k".into()).await.unwrap(), None);
    let unlike = KvStores::default();
    assert!(unlike.in_memory().write("k".into(), ANY, Some(vec![])).await.unwrap());
    assert_eq!(unlike.in_memory().get("k".into()).await.unwrap(), None);
    let small = KvStores::default().bounded(KvQuota { bytes: 1, keys: 1 }, 1 << 10).in_memory();
    assert!(matches!(small.write("k".into(), ANY, Some(vec![1])).await, Err(KvError::Full { would: 2, most: 1 })));
}

#[derive(Debug, Clone)]
enum Op {
    Get(String),
    Write(String, Option<Vec<u8>>),
    /// Expects the existing revision, or another one.
    Swap(String, bool, Option<Vec<u8>>),
    Keys(String, Option<String>),
    Reopen,
    Compact,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || proptest::string::string_regex("[ab/é]{1,3}").unwrap();
    let value = || proptest::option::weighted(0.7, proptest::collection::vec(any::<u8>(), 0..40));
    prop_oneof![
        key().prop_map(Op::Get),
        (key(), value()).prop_map(|(key, value)| Op::Write(key, value)),
        (key(), any::<bool>(), value()).prop_map(|(key, right, value)| Op::Swap(key, right, value)),
        (proptest::string::string_regex("[ab/é]{0,2}").unwrap(), proptest::option::of(key()))
            .prop_map(|(prefix, after)| Op::Keys(prefix, after)),
        Just(Op::Reopen),
        Just(Op::Compact),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Both kinds behave like a map for any sequence of operations, however often the file is reopened.
    #[test]
    fn a_store_is_a_map(ops in proptest::collection::vec(op(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let quota = KvQuota { bytes: 200, keys: 12 };
        let mut model: Model = BTreeMap::new();
        let mut stores: [Box<dyn KvBackend>; 2] = both(folder.path(), quota);
        for op in ops {
            match op {
                Op::Get(key) => for store in &mut stores {
                    prop_assert_eq!(value(&mut **store, &key), model.get(&key).cloned());
                },
                Op::Write(key, value) => {
                    let fits = fits(&model, quota, &key, value.as_deref());
                    for store in &mut stores {
                        prop_assert_eq!(store.write(&key, ANY, value.as_deref()).is_ok(), fits);
                    }
                    if fits {
                        change(&mut model, key, value);
                    }
                }
                Op::Swap(key, right, value) => {
                    let fits = !right || fits(&model, quota, &key, value.as_deref());
                    for store in &mut stores {
                        let there = revision(&mut **store, &key);
                        let expected = match (right, there) {
                            (true, Some(revision)) => KvPrecondition::Revision(revision),
                            (true, None) => KvPrecondition::Nothing,
                            (false, Some(revision)) => KvPrecondition::Revision(revision + 1),
                            (false, None) => KvPrecondition::Revision(1),
                        };
                        prop_assert_eq!(store.write(&key, expected, value.as_deref()).ok(), fits.then_some(right));
                    }
                    if fits && right {
                        change(&mut model, key, value);
                    }
                }
                Op::Keys(prefix, after) => for store in &mut stores {
                    let keys = model.keys().filter(|key| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| *key > after));
                    prop_assert_eq!(store.keys(&prefix, after.as_deref()).unwrap(), keys.cloned().collect::<Vec<_>>());
                },
                Op::Reopen => stores[1] = Box::new(disk_of(folder.path(), quota)),
                Op::Compact => {
                    file::KvLogFile::open(&{ disk(folder.path()).get("a").unwrap(); file(folder.path()) }).unwrap().compact(|| Ok(())).unwrap();
                    stores[1] = Box::new(disk_of(folder.path(), quota));
                }
            }
        }
    }
}

type Model = BTreeMap<String, Vec<u8>>;

fn fits(model: &Model, quota: KvQuota, key: &str, value: Option<&[u8]>) -> bool {
    let Some(value) = value else { return true };
    let bytes: usize = model.iter().map(|(key, value)| key.len() + value.len()).sum();
    let old = model.get(key).map(|value| key.len() + value.len());
    let would = bytes - old.unwrap_or(0) + key.len() + value.len();
    would as u64 <= quota.bytes && (old.is_some() || model.len() < quota.keys)
}

fn change(model: &mut Model, key: String, value: Option<Vec<u8>>) {
    match value {
        Some(value) => drop(model.insert(key, value)),
        None => drop(model.remove(&key)),
    }
}
