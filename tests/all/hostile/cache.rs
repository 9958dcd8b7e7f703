//! The cache of compiled code, whose folder others may write to.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use shelly_host::{
    limits,
    plugin::{Limits, PluginEngine},
};
use tempfile::TempDir;

use super::{House, Packed, call, guest::Guest, pack};

fn says(text: &str) -> Packed {
    pack(&["tool"], "", &Guest::tool().answer("call", |image| image.reply(text)).component())
}

/// Loads a plugin with an engine of its own, as another process would; what its tool says.
async fn answer(directory: &Path, packed: &Packed) -> String {
    let engine = Arc::new(PluginEngine::new(Some(directory.into())).unwrap());
    let house = House { engine, limits: Limits::default() };
    let plugin = packed.load(&house).await.unwrap();
    call(&plugin, "t", "{}").await.text()
}

/// The only entry.
fn entry(directory: &Path) -> PathBuf {
    let entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].clone()
}

/// Marks a file as old; a file that was not written since is still old.
fn age(path: &Path) {
    fs::File::options().write(true).open(path).unwrap().set_modified(OLD).unwrap();
}

fn is_old(path: &Path) -> bool {
    fs::metadata(path).unwrap().modified().unwrap() == OLD
}

const OLD: SystemTime = SystemTime::UNIX_EPOCH;

#[tokio::test]
async fn second_load_uses_cached_code() {
    let home = TempDir::new().unwrap();
    let (directory, packed) = (home.path().join("cache"), says("one"));
    assert_eq!(answer(&directory, &packed).await, "one");
    let entry = entry(&directory);
    age(&entry);
    assert_eq!(answer(&directory, &packed).await, "one");
    assert!(is_old(&entry), "it was compiled and written again");
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn damaged_cache_entry_is_recompiled() {
    let home = TempDir::new().unwrap();
    let (directory, packed) = (home.path().join("cache"), says("one"));
    answer(&directory, &packed).await;
    let entry = entry(&directory);
    let whole = fs::read(&entry).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&[][..], &whole[..10], &whole[..whole.len() - 1], &flipped, &vec![0; whole.len()]] {
        fs::write(&entry, damaged).unwrap();
        age(&entry);
        assert_eq!(answer(&directory, &packed).await, "one");
        assert!(!is_old(&entry), "damaged code was taken");
    }
}

#[tokio::test]
async fn cached_code_of_another_component_is_not_run() {
    let home = TempDir::new().unwrap();
    let (first, second) = (home.path().join("first"), home.path().join("second"));
    let (one, two) = (says("one"), says("two"));
    answer(&first, &one).await;
    answer(&second, &two).await;
    fs::copy(entry(&second), entry(&first)).unwrap();
    assert_eq!(answer(&first, &one).await, "one");
}

#[tokio::test]
async fn a_directory_that_others_can_write_is_not_used() {
    let home = TempDir::new().unwrap();
    let packed = says("one");
    let made = home.path().join("made");
    answer(&made, &packed).await;
    let link = home.path().join("link");
    std::os::unix::fs::symlink(&made, &link).unwrap();
    let entry = entry(&made);
    for (directory, mode) in [(&made, 0o770), (&made, 0o707), (&made, 0o750), (&link, 0o700)] {
        fs::set_permissions(&made, fs::Permissions::from_mode(mode)).unwrap();
        fs::write(&entry, "not code").unwrap();
        assert_eq!(answer(directory, &packed).await, "one", "{mode:o}");
        assert_eq!(fs::read(&entry).unwrap(), b"not code", "{mode:o}: it was written into");
    }
}

#[tokio::test]
async fn code_cache_evicts_its_oldest_entries() {
    let home = TempDir::new().unwrap();
    let directory = home.path().join("cache");
    answer(&directory, &says("one")).await;
    let kept = entry(&directory);
    let file = |name: &str, age: u64| {
        let path = directory.join(name);
        let file = fs::File::create(&path).unwrap();
        // A hole: it takes no room on the disk.
        file.set_len(limits::CACHE_BYTES / 2).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    };
    let (oldest, old) = (file("oldest.bin", 200), file("old.bin", 100));
    answer(&directory, &says("two")).await;
    assert!(!oldest.exists() && old.exists() && kept.exists());
}

#[test]
fn altered_cache_entry_is_reported_once() {
    let place = crate::support::Place::new();
    place.plugin_bytes("model", "kinds = [\"provider\"]", &Guest::of(&["provider"]).component());
    let cache = place.path().join("cache");
    let run = || {
        let mut command = place.command(&["run", "--plugins", "plugins", "--model", "model", "go"]);
        let ran = place.ran(command.env("SHELLY_CACHE_DIR", &cache).output().unwrap());
        assert_eq!((ran.code, &*ran.stdout), (0, "ok\n"), "{}", ran.shown());
        ran.stderr
    };
    let says = "was altered; compiling the component again";
    assert!(!run().contains(says));
    // That of the model and of the effects that every agent has.
    let entries = fs::read_dir(entry(&cache)).unwrap().map(|entry| entry.unwrap().path());
    let entries: Vec<_> = entries.filter(|entry| entry.extension().is_some_and(|is| is == "bin")).collect();
    assert!(!entries.is_empty());
    for entry in &entries {
        let mut bytes = fs::read(entry).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(entry, bytes).unwrap();
    }
    let told = run();
    for entry in &entries {
        let digest = &entry.file_name().unwrap().to_str().unwrap()[..64];
        let says = format!("warning: the compiled code of the component {digest} in ");
        assert_eq!(told.matches(&says).count(), 1, "{told}");
    }
    assert_eq!(told.matches(says).count(), entries.len(), "{told}");
    assert!(!run().contains(says), "it is written anew");
}
