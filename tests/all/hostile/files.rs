//! Folders: a plugin sees the granted folders of its agent and nothing else.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use shelly_host::{
    capability::{FileAccess, Grant},
    event::{Event, EventSink},
    limits,
    plugin::{Limits, Plugin, PluginPackage, resolved},
};

use super::{
    ATTACK, House, all, attack, call, call_watched, engine,
    guest::{self, Guest, SCRATCH, times},
    hasty_engine, load_from, pack, settings, told,
};
use crate::support::Place;

fn grant(folder: PathBuf, access: FileAccess) -> Grant {
    let files = [(resolved(&folder), access)].into_iter().collect();
    Grant { files, clock: true, random: true, ..Grant::default() }
}

/// The guest `probe` for an agent with this folder.
async fn probe(folder: PathBuf) -> Arc<Plugin> {
    let probe = Path::new(crate::guest::PROBE).parent().unwrap();
    load_from(probe, grant(folder, FileAccess::Read)).await.unwrap()
}

/// Loads the probe with a manifest that asks for write access.
async fn writing_probe(place: &Place, access: FileAccess) -> Arc<Plugin> {
    let manifest = "kinds = [\"tool\"]\nwants = { files = \"write\", clock = true, random = true }";
    place.plugin_bytes("probe", manifest, &fs::read(crate::guest::PROBE).unwrap());
    load_from(&place.path().join("plugins/probe"), grant(place.path().join("in"), access)).await.unwrap()
}

fn path(path: &str) -> String {
    serde_json::json!({ "path": path }).to_string()
}

const SECRET: &str = "nobody reads this";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn optional_files_are_absent_until_granted() {
    let place = leaky();
    let manifest = "kinds = [\"tool\"]\nwants = { files = \"optional\", clock = true, random = true }";
    place.plugin_bytes("probe", manifest, &fs::read(crate::guest::PROBE).unwrap());
    let folder = place.path().join("plugins/probe");
    let without = Grant { clock: true, random: true, ..Grant::default() };
    let plugin = load_from(&folder, without).await.unwrap();
    let inside = [".", "inside.txt", "deep", "deep/file.txt", "good"].map(str::to_owned);
    for way in ways_out(&place).into_iter().chain(inside) {
        assert!(call(&plugin, "read", &path(&way)).await.is_error, "{way}");
        let listed = call(&plugin, "list", &path(&way)).await;
        assert!(listed.is_error || listed.text().is_empty(), "{way}: {}", listed.text());
    }
    let granted = load_from(&folder, grant(place.path().join("in"), FileAccess::Read)).await.unwrap();
    assert_eq!(call(&granted, "read", &path("inside.txt")).await.text(), "inside");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_with_the_same_plugin_see_only_their_own_files() {
    let place = Place::new();
    let mut plugins = Vec::new();
    for agent in ["ada", "bob"] {
        place.file(&format!("{agent}/name.txt"), agent);
        place.file(&format!("{agent}/only-{agent}.txt"), agent);
        plugins.push((agent, probe(place.path().join(agent)).await));
    }
    // Both at once, again and again.
    let calls = (0..100).map(|n| {
        let (agent, plugin) = &plugins[n % 2];
        let (agent, plugin, other) = (*agent, Arc::clone(plugin), plugins[(n + 1) % 2].0);
        tokio::spawn(async move {
            assert_eq!(call(&plugin, "read", &path("name.txt")).await.text(), agent);
            let listed = call(&plugin, "list", &path(".")).await.text();
            assert_eq!(listed, format!("name.txt\nonly-{agent}.txt"));
            for theirs in [format!("only-{other}.txt"), format!("../{other}/name.txt")] {
                assert!(call(&plugin, "read", &path(&theirs)).await.is_error, "{theirs}");
            }
        })
    });
    for running in calls.collect::<Vec<_>>() {
        running.await.unwrap();
    }
}

/// A folder `in` with ways out of it that all lead to `out`.
fn leaky() -> Place {
    let place = Place::new();
    place.file("out/secret.txt", SECRET);
    place.file("in/inside.txt", "inside");
    place.file("in/deep/file.txt", "deep");
    let folder = place.path().join("in");
    let out = place.path().join("out");
    for (target, name) in [
        (PathBuf::from("inside.txt"), "good"),
        (PathBuf::from("../inside.txt"), "deep/good"),
        (out.join("secret.txt"), "absolute"),
        (PathBuf::from("../out/secret.txt"), "relative"),
        (PathBuf::from("../../out/secret.txt"), "deep/relative"),
        (PathBuf::from("../out/nothing"), "dangling"),
        (out.join("nothing"), "dangling-absolute"),
        (PathBuf::from("../out"), "folder"),
        (out.clone(), "folder-absolute"),
        (PathBuf::from(".."), "parent"),
        (PathBuf::from("/"), "root"),
        (PathBuf::from("relative"), "chain"),
        (PathBuf::from("loop"), "loop"),
        (PathBuf::from("/proc/self/cwd"), "process"),
    ] {
        symlink(target, folder.join(name)).unwrap();
    }
    place
}

/// Paths that lead out of the folder, or nowhere.
fn ways_out(place: &Place) -> Vec<String> {
    let out = place.path().join("out");
    let mut ways: Vec<String> = [
        "..",
        "../",
        "../out",
        "../out/",
        "../out/secret.txt",
        "deep/../../out/secret.txt",
        "./../out/secret.txt",
        "deep/../..",
        "nowhere/../../out/secret.txt",
        "/",
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "absolute",
        "absolute/",
        "relative",
        "relative/",
        "deep/relative",
        "dangling",
        "dangling/",
        "dangling-absolute",
        "dangling-absolute/",
        "folder",
        "folder/",
        "folder/.",
        "folder/secret.txt",
        "folder/secret.txt/",
        "folder-absolute",
        "folder-absolute/",
        "folder-absolute/secret.txt",
        "parent",
        "parent/",
        "parent/out",
        "parent/out/secret.txt",
        "parent/in/inside.txt",
        "root",
        "root/",
        "root/etc/passwd",
        "chain",
        "loop",
        "loop/",
        "process",
        "process/",
        "inside.txt/../../out/secret.txt",
        "\0",
        "inside.txt\0",
        "",
    ]
    .map(str::to_owned)
    .into();
    ways.extend([out.join("secret.txt").display().to_string(), out.display().to_string()]);
    ways.push(place.path().join("in/inside.txt").display().to_string());
    ways.push("deep/".repeat(2_000) + "file.txt");
    ways
}

#[tokio::test]
async fn paths_cannot_leave_the_granted_folder() {
    let place = leaky();
    let plugin = probe(place.path().join("in")).await;
    for (inside, text) in [
        ("inside.txt", "inside"),
        ("good", "inside"),
        ("deep/good", "inside"),
        ("deep/../inside.txt", "inside"),
        ("./deep//file.txt", "deep"),
    ] {
        let result = call(&plugin, "read", &path(inside)).await;
        assert_eq!((result.is_error, result.text().as_str()), (false, text), "{inside}");
    }
    for way in ways_out(&place) {
        for tool in ["read", "list"] {
            // The folder itself is inside, whatever it is called.
            let inside = tool == "list" && way.is_empty();
            let result = call(&plugin, tool, &path(&way)).await;
            assert!(result.is_error || inside, "{tool} {way:?}: {}", result.text());
            assert!(!result.text().contains(SECRET) && !result.text().contains("secret.txt\n"), "{tool} {way:?}");
            assert!(result.text().len() < 40_000);
        }
    }
}

#[tokio::test]
async fn writes_cannot_leave_the_writable_folder() {
    let place = leaky();
    let plugin = writing_probe(&place, FileAccess::Write).await;
    let write = |path: &str| serde_json::json!({ "path": path, "text": "changed" }).to_string();
    assert!(!call(&plugin, "write", &write("new.txt")).await.is_error, "this folder can be written");
    assert_eq!(fs::read_to_string(place.path().join("in/new.txt")).unwrap(), "changed");
    for way in ways_out(&place) {
        let result = call(&plugin, "write", &write(&way)).await;
        assert!(result.is_error, "{way:?}: {}", result.text());
    }
    let out: Vec<_> = fs::read_dir(place.path().join("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(out, ["secret.txt"]);
    assert_eq!(fs::read_to_string(place.path().join("out/secret.txt")).unwrap(), SECRET);
    assert_eq!(fs::read_to_string(place.path().join("in/inside.txt")).unwrap(), "inside");
}

/// Every way to change a folder, by name: text that makes it, with the folder in `$x`. What it was handed back is at
/// the scratch address.
fn changes(guest: &mut Guest) -> Vec<(&'static str, String)> {
    let [kept, new, empty, outside] = &["kept.txt", "new.txt", "empty", "../out.txt"].map(|name| guest.text(name));
    const FOLDER: &str = "(local.get $x)";
    let back = format!("(i32.const {SCRATCH})");
    // Flags to open with: create 1, exclusive 4, truncate 8; read 1, write 2.
    let open = |path: &str, how: u32, rights: u32| {
        format!("(call $open {FOLDER} (i32.const 0) {path} (i32.const {how}) (i32.const {rights}) {back})")
    };
    let opened = format!("(i32.load (i32.const {}))", SCRATCH + 4);
    vec![
        ("create", open(new, 1, 2)),
        ("create-exclusively", open(new, 5, 1)),
        ("write", open(kept, 0, 2)),
        ("truncate", open(kept, 8, 2)),
        (
            "set-size",
            format!(
                "{} (if (i32.eqz (i32.load8_u {back})) (then (call $set-size {opened} (i64.const 0) {back})))",
                open(kept, 0, 1)
            ),
        ),
        ("create-directory", format!("(call $create-directory {FOLDER} {new} {back})")),
        ("remove-directory", format!("(call $remove-directory {FOLDER} {empty} {back})")),
        ("unlink", format!("(call $unlink {FOLDER} {kept} {back})")),
        ("rename", format!("(call $rename {FOLDER} {kept} {FOLDER} {new} {back})")),
        ("rename-out", format!("(call $rename {FOLDER} {kept} {FOLDER} {outside} {back})")),
        ("link", format!("(call $link {FOLDER} (i32.const 0) {kept} {FOLDER} {new} {back})")),
        ("link-out", format!("(call $link {FOLDER} (i32.const 0) {kept} {FOLDER} {outside} {back})")),
        ("symlink", format!("(call $symlink {FOLDER} {kept} {new} {back})")),
        ("symlink-out", format!("(call $symlink {FOLDER} {outside} {new} {back})")),
    ]
}

/// Puts the granted folder into `$x`.
fn folder() -> String {
    format!("(call $directories (i32.const {SCRATCH})) (local.set $x (i32.load (i32.load (i32.const {SCRATCH}))))")
}

/// A guest that makes one change and says `ok`, or `refused`.
fn changing(name: &str) -> Guest {
    let mut guest = Guest::tool().import(guest::FILES);
    let change = changes(&mut guest).into_iter().find(|(found, _)| *found == name).unwrap().1;
    let refused = guest.image().reply("refused");
    let folder = folder();
    let told = format!("(if (i32.load8_u (i32.const {SCRATCH})) (then (return (i32.const {refused}))))");
    guest.attack(&format!("{folder} {change} {told}"))
}

/// Returns the contents of a folder.
fn content(folder: &Path) -> Vec<(String, Option<String>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).ok())
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    entries
}

#[tokio::test]
async fn read_only_folder_is_not_modified() {
    // What leads out is refused in any folder, and a file that was opened for reading is not cut.
    let never = ["rename-out", "link-out", "symlink-out", "set-size"];
    for (name, _) in changes(&mut Guest::tool()) {
        for (wanted, granted) in
            [("write", FileAccess::Read), ("read", FileAccess::Write), ("write", FileAccess::Write)]
        {
            let wants = format!("wants = {{ files = \"{wanted}\" }}");
            let packed = pack(&["tool"], &wants, &changing(name).component());
            packed.place.file("files/kept.txt", "kept");
            let folder = packed.place.path().join("files");
            fs::create_dir(folder.join("empty")).unwrap();
            let before = (content(&folder), content(&packed.place.path()));
            let package = Arc::clone(packed.package.as_ref().unwrap());
            let plugin = Plugin::load(engine(), &package, &settings(grant(folder.clone(), granted))).await.unwrap();
            let result = call(&Arc::new(plugin), "t", ATTACK).await.text();
            let may = (wanted, granted) == ("write", FileAccess::Write) && !never.contains(&name);
            assert_eq!(result, if may { "ok" } else { "refused" }, "{name} {wanted} {granted:?}");
            let after = (content(&folder), content(&packed.place.path()));
            // To open for writing changes nothing yet.
            assert_eq!(before == after, !may || name == "write", "{name} {wanted} {granted:?}");
        }
    }
}

#[tokio::test]
async fn open_guest_files_are_bounded() {
    // The granted folder is one of them.
    let most = limits::PLUGIN_HANDLES as u32 - 1;
    for (count, is_error) in [(most, false), (most + 1, true)] {
        let mut guest = Guest::tool().import(guest::FILES);
        let name = guest.text(".");
        let open = format!(
            "(call $open (local.get $x) (i32.const 0) {name} (i32.const 2) (i32.const 1) (i32.const {SCRATCH}))
             (if (i32.load8_u (i32.const {SCRATCH})) (then unreachable))"
        );
        let result = attack(engine(), &guest.attack(&format!("{} {}", folder(), times(count, &open)))).await;
        assert_eq!(result.is_error, is_error, "{count}: {}", result.text());
    }
}

#[tokio::test]
async fn missing_granted_folder_is_reported_at_load() {
    let place = Place::new();
    let probe = Path::new(crate::guest::PROBE).parent().unwrap();
    let package = Arc::new(PluginPackage::read(probe).unwrap());
    for name in ["nothing", "file"] {
        place.file("file", "");
        let refused =
            Plugin::load(engine(), &package, &settings(grant(place.path().join(name), FileAccess::Read))).await;
        let error = told(&refused.err().unwrap());
        assert!(error.contains(name) && error.contains("which cannot be opened"), "{error}");
    }
}

#[tokio::test]
async fn fifo_is_refused_before_it_is_opened() {
    let place = Place::new();
    fs::create_dir(place.path().join("in")).unwrap();
    let pipe = place.path().join("in/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = probe(place.path().join("in")).await;
    let writer = writing_probe(&place, FileAccess::Write).await;
    for (plugin, tool, arguments) in [
        (&reader, "read", path("pipe")),
        (&writer, "write", serde_json::json!({ "path": "pipe", "text": "x" }).to_string()),
    ] {
        let result = call(plugin, tool, &arguments).await;
        assert!(result.is_error, "{tool}");
        assert_eq!(result.text(), "`pipe` is neither a file nor a folder", "{tool}");
    }
}

/// A guest that opens `thing` so often and says whether the last time failed: `refused`, or `ok`.
fn opening(times_: u32) -> Guest {
    let mut guest = Guest::tool().import(guest::FILES);
    let name = guest.text("thing");
    let refused = guest.image().reply("refused");
    let open =
        format!("(call $open (local.get $x) (i32.const 0) {name} (i32.const 0) (i32.const 1) (i32.const {SCRATCH}))");
    let told = format!("(if (i32.load8_u (i32.const {SCRATCH})) (then (return (i32.const {refused}))))");
    guest.attack(&format!("{} {} {told}", folder(), times(times_, &open)))
}

fn mkfifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A guest of another make than our SDK, which does not look before it opens.
#[tokio::test]
async fn fifo_is_refused_without_a_check_by_the_guest() {
    let packed = pack(&["tool"], "wants = { files = \"read\" }", &opening(1).component());
    let plugin = packed.load(hasty_engine()).await.unwrap();
    mkfifo(&packed.place.path().join("files/thing"));
    for _ in 0..3 {
        let result = call(&plugin, "t", ATTACK).await;
        assert_eq!((result.is_error, result.text().as_str()), (false, "refused"));
    }
}

/// Returns the number of threads of this process with this name: other tests have threads of their own.
#[cfg(target_os = "linux")]
fn threads_called(name: &str) -> usize {
    let all = fs::read_dir("/proc/self/task").unwrap().flatten();
    all.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)).count()
}

/// Somebody puts a pipe in the place of a file between the look and the opening, again and again: each time that succeeds a
/// thread is lost until somebody opens the other end. It is lost to no more than a few opens, and to nobody else.
#[cfg(target_os = "linux")]
#[test]
fn threads_blocked_by_fifos_are_bounded() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).thread_name("lost-to-pipes").enable_all().build().unwrap();
    let place = Place::new();
    let before = threads_called("lost-to-pipes");
    let tried = std::panic::AssertUnwindSafe(async {
        let packed = pack(&["tool"], "wants = { files = \"read\" }", &opening(200).component());
        let plugin = packed.load(hasty_engine()).await.unwrap();
        let files = packed.place.path().join("files");
        mkfifo(&files.join("pipe"));
        fs::write(files.join("file"), "x").unwrap();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let swapping = std::thread::spawn({
            let (stop, files) = (Arc::clone(&stop), files.clone());
            move || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for name in ["pipe", "file"] {
                        let _ = fs::remove_file(files.join("next"));
                        fs::hard_link(files.join(name), files.join("next")).unwrap();
                        fs::rename(files.join("next"), files.join("thing")).unwrap();
                        // Renaming one link of a file over another one does nothing.
                    }
                }
            }
        });
        let mut stuck = 0;
        for _ in 0..40 {
            stuck += usize::from(call(&plugin, "t", ATTACK).await.is_error);
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        swapping.join().unwrap();
        // Without the bound each call that got stuck would have lost one, and there is room for hundreds.
        let lost = threads_called("lost-to-pipes").saturating_sub(before);
        assert!(lost < limits::OPENING_FILES + 16, "{lost} threads more, {stuck} calls got stuck");
        // Others open their files.
        let other = probe(place.path()).await;
        place.file("there.txt", "there");
        let read = call(&other, "read", &path("there.txt")).await;
        assert_eq!((read.is_error, read.text().as_str()), (false, "there"));
        // What is stuck opens at last, and so does what comes to it later.
        fs::OpenOptions::new().read(true).write(true).open(files.join("pipe")).unwrap()
    });
    let other_end = runtime.block_on(futures_util::FutureExt::catch_unwind(tried));
    // A thread that is stuck for good must not hold up whoever waits for this test, also where it fails.
    runtime.shutdown_timeout(Duration::from_secs(5));
    drop(other_end.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked)));
}

/// Returns `true` if files on this file system are opened and read without blocking where they are in memory.
#[cfg(target_os = "linux")]
fn is_local(path: &Path) -> bool {
    let kind = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().unwrap().stdout;
    ["ext2/ext3", "xfs", "btrfs", "f2fs", "tmpfs"].contains(&String::from_utf8(kind).unwrap().trim())
}

/// The host's other threads may all be held by files that do not open: what is in memory needs none.
#[cfg(target_os = "linux")]
#[test]
fn cached_file_is_read_without_another_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let place = Place::new();
    place.file("in/there.txt", "there");
    if !is_local(&place.path()) {
        return;
    }
    let read = runtime.block_on(async {
        let plugin = probe(place.path().join("in")).await;
        let (release, held) = std::sync::mpsc::channel::<()>();
        let holding = tokio::task::spawn_blocking(move || held.recv());
        let read = call(&plugin, "read", &path("there.txt")).await;
        drop(release);
        let _ = holding.await;
        read
    });
    assert_eq!((read.is_error, read.text().as_str()), (false, "there"));
}

/// A file that is opened without blocking uses the call's own processor time: that is bounded and counted, so that these
/// opens need no throttling.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn repeated_file_opens_count_as_cpu_time() {
    let mut guest = Guest::tool().import(guest::FILES);
    let name = guest.text("thing");
    let open =
        format!("(call $open (local.get $x) (i32.const 0) {name} (i32.const 0) (i32.const 1) (i32.const {SCRATCH}))");
    let close = format!("(call $close (i32.load (i32.const {})))", SCRATCH + 4);
    let guest = guest.attack(&format!("{} {}", folder(), times(10_000_000, &format!("{open} {close}"))));
    let packed = pack(&["tool"], "wants = { files = \"read\" }", &guest.component());
    let cpu = Duration::from_millis(100);
    let limits = Limits { host_calls_per_second: 1_000, cpu, ..engine().limits };
    let house = House { engine: Arc::clone(&engine().engine), limits };
    let plugin = packed.load(&house).await.unwrap();
    packed.place.file("files/thing", "x");
    if !is_local(&packed.place.path()) {
        return;
    }
    let (sink, stream) = EventSink::channel();
    let (result, events) = tokio::join!(call_watched(&plugin, "t", ATTACK, sink), all(stream));
    assert!(result.is_error && result.text().contains("(limit `cpu`)"), "{}", result.text());
    let taken = events.iter().find_map(|event| match event {
        Event::PluginCall { cpu, host_calls, .. } => Some((*cpu, *host_calls)),
        _ => None,
    });
    let (took, calls) = taken.unwrap();
    // Far more than would have been let through in any time that it has.
    assert!(took >= cpu && calls > 3_000, "{took:?} {calls}");
}

/// A guest that lists its folder so often, each time followed by this, and says `refused` as soon as it fails, or `ok`.
fn listing(times_: u32, then: &str) -> Guest {
    let mut guest = Guest::tool().import(guest::FILES);
    let refused = guest.image().reply("refused");
    let list = format!(
        "(call $list (local.get $x) (i32.const {SCRATCH}))
         (if (i32.load8_u (i32.const {SCRATCH})) (then (return (i32.const {refused}))))
         {then}"
    );
    guest.attack(&format!("{} {}", folder(), times(times_, &list)))
}

fn drop_listing() -> String {
    format!("(call $drop-listing (i32.load (i32.const {})))", SCRATCH + 4)
}

/// Returns the result of a call, and the number of host calls that it counts as.
async fn counted(plugin: &Arc<Plugin>) -> (String, u64) {
    let (sink, stream) = EventSink::channel();
    let (result, events) = tokio::join!(call_watched(plugin, "t", ATTACK, sink), all(stream));
    let calls = events.iter().find_map(|event| match event {
        Event::PluginCall { host_calls, .. } => Some(*host_calls),
        _ => None,
    });
    (result.text(), calls.unwrap())
}

#[tokio::test]
async fn folder_listings_of_one_guest_are_bounded() {
    // `.` and `..` are entries too.
    const ENTRIES: usize = limits::FOLDER_ENTRIES / 2;
    let most = (limits::LISTED_ENTRIES / ENTRIES) as u32;
    for (guest, says) in
        [(listing(most, ""), "ok"), (listing(most + 1, ""), "refused"), (listing(most + 2, &drop_listing()), "ok")]
    {
        let packed = pack(&["tool"], "wants = { files = \"read\" }", &guest.component());
        let plugin = packed.load(engine()).await.unwrap();
        let first = packed.place.file("files/first", "");
        for at in 3..ENTRIES {
            let path = packed.place.path().join(format!("files/{at}"));
            fs::hard_link(&first, &path).or_else(|_| fs::write(&path, "")).unwrap();
        }
        // What one call holds is not there in the next.
        for _ in 0..2 {
            assert_eq!(call(&plugin, "t", ATTACK).await.text(), says);
        }
        assert_eq!(call(&plugin, "t", "{}").await.text(), "ok");
    }
}

#[tokio::test]
async fn huge_folder_listing_is_refused_and_each_entry_counts() {
    let packed = pack(&["tool"], "wants = { files = \"read\" }", &listing(1, &drop_listing()).component());
    let plugin = packed.load(engine()).await.unwrap();
    let (said, empty) = counted(&plugin).await;
    assert_eq!(said, "ok");
    let first = packed.place.file("files/first", "");
    // `.`, `..` and the first are there.
    let most = limits::FOLDER_ENTRIES;
    for at in 3..most {
        let path = packed.place.path().join(format!("files/{at}"));
        fs::hard_link(&first, &path).or_else(|_| fs::write(&path, "")).unwrap();
    }
    assert_eq!(counted(&plugin).await, ("ok".into(), empty + most as u64 - 2));
    packed.place.file("files/last", "");
    // It is not there to be dropped.
    assert_eq!(counted(&plugin).await, ("refused".into(), empty + most as u64 - 2));
}

/// Listings count as more than one host call each, so that a loop of listings is throttled.
#[tokio::test]
async fn repeated_folder_listing_is_throttled() {
    let packed = pack(&["tool"], "wants = { files = \"read\" }", &listing(100, &drop_listing()).component());
    let limits = Limits { host_calls_per_second: 1_000, tool_time: Duration::from_secs(1), ..engine().limits };
    let house = House { engine: Arc::clone(&engine().engine), limits };
    let plugin = packed.load(&house).await.unwrap();
    // Some two hundred calls, and as many times `.` or `..`, are allowed at once.
    assert_eq!(call(&plugin, "t", ATTACK).await.text(), "ok");
    for at in 0..1_000 {
        packed.place.file(&format!("files/{at}"), "");
    }
    let result = call(&plugin, "t", ATTACK).await;
    let says = "throttled to 1000 calls of imported functions per second";
    assert!(result.is_error && result.text().contains(says), "{}", result.text());
}
