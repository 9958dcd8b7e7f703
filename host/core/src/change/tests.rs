//! Tests of changes on a real disk.

mod plans;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ChangeApplier, ChangeError, ChangeHistory, ChangeOrigin, ChangePath, FileChange, FileChangeAction, recover,
};
use crate::{chat::ToolResultContent, digest::Sha256Digest, limits, trust::UserKey};

/// A folder of the tool, and one next to it that the tool does not have; the session is kept in a third.
struct World {
    all: tempfile::TempDir,
    root: PathBuf,
}

impl World {
    fn new(files: &[(&str, &str)]) -> Self {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().canonicalize().unwrap().join("in");
        fs::create_dir(&root).unwrap();
        let world = Self { all, root };
        files.iter().for_each(|(path, text)| world.put(path, text));
        world
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn key(&self) -> UserKey {
        UserKey::new(Some(self.all.path().join("key")))
    }

    fn session(&self) -> PathBuf {
        self.all.path().join("sessions/s")
    }

    fn common(&self) -> PathBuf {
        self.all.path().join("common")
    }

    fn changes(&self) -> ChangeApplier {
        let changes = ChangeApplier::new([self.root.join("guarded")], [], self.key());
        fs::create_dir_all(self.session()).unwrap();
        changes.of_session(self.common(), &self.session());
        changes
    }

    fn history(&self) -> ChangeHistory {
        ChangeHistory::new(self.common(), &self.session(), self.key())
    }

    fn place(&self, path: &str) -> ChangePath {
        ChangePath::new(&self.root, Path::new(path), path).unwrap()
    }

    fn write(&self, path: &str, before: Option<&str>, after: &str) -> FileChange {
        let expected = before.map(|before| Sha256Digest::of(before.as_bytes()));
        FileChange { path: self.place(path), expected, act: FileChangeAction::Write(after.as_bytes().into()) }
    }

    fn of(&self, path: &str, act: FileChangeAction) -> FileChange {
        FileChange { path: self.place(path), expected: None, act }
    }

    /// Returns the content of the folder: files with their content, links with their target, folders empty.
    fn tree(&self) -> BTreeMap<String, String> {
        fn look(at: &Path, root: &Path, tree: &mut BTreeMap<String, String>) {
            for entry in fs::read_dir(at).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                if path.is_symlink() {
                    tree.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
                } else if path.is_dir() {
                    tree.insert(name + "/", String::new());
                    look(&path, root, tree);
                } else {
                    tree.insert(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
                }
            }
        }
        let mut tree = BTreeMap::new();
        look(&self.root, &self.root, &mut tree);
        tree
    }
}

const BY: ChangeOrigin<'static> = ChangeOrigin { agent: "ada", call: "c1", tool: "edit" };

fn make(changes: &ChangeApplier, wanted: &[FileChange]) -> Result<Vec<String>, ChangeError> {
    let plan = changes.plan(wanted)?;
    changes.apply(&plan, BY, &[ToolResultContent::Text("done".into())])?;
    Ok(plan.summaries().map(|summary| summary.done()).collect())
}

fn tree(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn proposed_changes_are_applied_and_undone() {
    let before = [("a.txt", "one\ntwo\n"), ("crlf", "\u{feff}a\r\nb"), ("d/x", "x"), ("d/e/y", "y"), ("日本 語", "é")];
    type Case = (
        &'static str,
        fn(&World) -> Vec<FileChange>,
        &'static [&'static str],
        &'static [(&'static str, &'static str)],
        &'static [&'static str],
    );
    let cases: [Case; 13] = [
        ("create", |w| vec![w.write("new", None, "n\n")], &["created new (+1 -0)"], &[("new", "n\n")], &[]),
        (
            "create deep",
            |w| vec![w.write("p/q/new", None, "n")],
            &["created p/q/new (+1 -0)"],
            &[("p/", ""), ("p/q/", ""), ("p/q/new", "n")],
            &[],
        ),
        (
            "edit",
            |w| vec![w.write("a.txt", Some("one\ntwo\n"), "one\n2\n")],
            &["changed a.txt (+1 -1)"],
            &[("a.txt", "one\n2\n")],
            &[],
        ),
        (
            "bytes are bytes",
            |w| vec![w.write("crlf", Some("\u{feff}a\r\nb"), "\u{feff}a\r\nc\r\n")],
            &["changed crlf (+1 -1)"],
            &[("crlf", "\u{feff}a\r\nc\r\n")],
            &[],
        ),
        (
            "unicode",
            |w| vec![w.write("日本 語", Some("é"), "ü\n")],
            &["changed 日本 語 (+1 -1)"],
            &[("日本 語", "ü\n")],
            &[],
        ),
        ("same", |w| vec![w.write("d/x", Some("x"), "x")], &["changed d/x (+0 -0)"], &[], &[]),
        ("remove a file", |w| vec![w.of("d/x", FileChangeAction::Remove)], &["removed d/x (+0 -1)"], &[], &["d/x"]),
        (
            "remove a folder",
            |w| vec![w.of("d", FileChangeAction::Remove)],
            &["removed d"],
            &[],
            &["d/", "d/x", "d/e/", "d/e/y"],
        ),
        (
            "move a file",
            |w| vec![w.of("d/x", FileChangeAction::MoveTo(w.place("z/x")))],
            &["moved d/x to z/x"],
            &[("z/", ""), ("z/x", "x")],
            &["d/x"],
        ),
        (
            "move a folder",
            |w| vec![w.of("d", FileChangeAction::MoveTo(w.place("z")))],
            &["moved d to z"],
            &[("z/", ""), ("z/x", "x"), ("z/e/", ""), ("z/e/y", "y")],
            &["d/", "d/x", "d/e/", "d/e/y"],
        ),
        (
            "copy a folder",
            |w| vec![w.of("d", FileChangeAction::CopyTo(w.place("z")))],
            &["copied d to z"],
            &[("z/", ""), ("z/x", "x"), ("z/e/", ""), ("z/e/y", "y")],
            &[],
        ),
        (
            "make a folder and fill it",
            |w| vec![w.of("f", FileChangeAction::MakeFolder), w.write("f/g/h", None, "h")],
            &["created the folder f", "created f/g/h (+1 -0)"],
            &[("f/", ""), ("f/g/", ""), ("f/g/h", "h")],
            &[],
        ),
        (
            "move and edit",
            |w| {
                vec![
                    w.of("a.txt", FileChangeAction::MoveTo(w.place("b.txt"))),
                    w.write("b.txt", Some("one\ntwo\n"), "3\n"),
                ]
            },
            &["moved a.txt to b.txt", "changed b.txt (+1 -2)"],
            &[("b.txt", "3\n")],
            &["a.txt"],
        ),
    ];
    for (name, wanted, told, more, less) in cases {
        let world = World::new(&before);
        let (changes, start) = (world.changes(), world.tree());
        assert_eq!(make(&changes, &wanted(&world)).unwrap_or_else(|error| panic!("{name}: {error}")), told, "{name}");
        let mut expected = start.clone();
        less.iter().for_each(|gone| drop(expected.remove(*gone)));
        expected.extend(tree(more));
        assert_eq!(world.tree(), expected, "{name}");
        assert_eq!(fs::read_dir(world.common()).unwrap().count(), 0, "{name}: nothing is under way");
        assert_eq!(changes.made(BY), Some(vec![ToolResultContent::Text("done".into())]), "{name}");
        assert_eq!(changes.made(ChangeOrigin { call: "c2", ..BY }), None, "{name}");
        let undo = world.history().last().unwrap().unwrap();
        assert!(!undo.shown().unwrap().is_empty(), "{name}");
        undo.make().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(world.tree(), start, "{name}");
        assert!(world.history().last().is_none(), "{name}: once");
    }
}

#[test]
fn impossible_changes_leave_files_unchanged() {
    let world = World::new(&[("a", "1\n"), ("b", "2\n"), ("d/x", "x"), ("guarded/s", "s"), (".shelly/local/k", "k")]);
    let w = &world;
    let long = "x".repeat(limits::CHANGED_FILE_BYTES + 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        fs::write(world.all.path().join("secret"), "s").unwrap();
        symlink("../secret", world.root.join("out")).unwrap();
        symlink("..", world.root.join("up")).unwrap();
        symlink("nowhere", world.root.join("dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, world.root.join("pipe"), 0o600.into()).unwrap();
    }
    let start = world.tree_without("pipe");
    for (wanted, says) in [
        (vec![w.write("a", None, "n")], "`a` already exists"),
        (vec![w.write("a", Some("old"), "n")], "`a` has changed in the meantime"),
        (vec![w.write("none", Some("old"), "n")], "`none` has changed in the meantime"),
        (vec![w.write("d", None, "n")], "`d` is a folder, but this change needs a file"),
        (vec![w.write("a/b", None, "n")], "`a/b` is below a file"),
        (
            vec![w.write("new", None, &long)],
            "`new` is too large to be changed by a tool: 8388609 bytes, the maximum is 8388608",
        ),
        (vec![w.of("none", FileChangeAction::Remove)], "`none` does not exist"),
        (vec![w.of("a", FileChangeAction::MoveTo(w.place("b")))], "`b` already exists"),
        (vec![w.of("a", FileChangeAction::MoveTo(w.place("a")))], "`a` already exists"),
        (vec![w.of("d", FileChangeAction::MoveTo(w.place("d/e")))], "one result changes both `d` and `d/e`"),
        (vec![w.of("d", FileChangeAction::CopyTo(w.place("d/e")))], "one result changes both `d` and `d/e`"),
        (vec![w.of("d", FileChangeAction::Remove), w.write("d/y", None, "y")], "one result changes both `d` and `d/y`"),
        (vec![w.of("d", FileChangeAction::MakeFolder)], "`d` already exists"),
        (
            vec![FileChange { expected: Some(Sha256Digest::of(b"")), ..w.of("d", FileChangeAction::Remove) }],
            "`d` is a folder",
        ),
        (vec![w.write("guarded/s", Some("s"), "n")], "`guarded/s` controls shelly-host"),
        (vec![w.write(".shelly/local/new", None, "n")], "controls shelly-host"),
        (vec![w.of(".shelly", FileChangeAction::Remove)], "controls shelly-host"),
        (vec![w.of("guarded", FileChangeAction::MoveTo(w.place("free")))], "controls shelly-host"),
        (vec![w.of("d", FileChangeAction::MoveTo(w.place(".shelly/plugins")))], "controls shelly-host"),
        (
            vec![w.of("guarded", FileChangeAction::CopyTo(w.place("free"))), w.of("none", FileChangeAction::Remove)],
            "`none` does not exist",
        ),
        (
            vec![w.write("ok", None, "n"), w.write("b", Some("2\n"), "n"), w.write("a", Some("no"), "n")],
            "`a` has changed",
        ),
        #[cfg(unix)]
        (vec![w.write("out", Some("s"), "n")], "`out` is outside the folders"),
        #[cfg(unix)]
        (vec![w.write("up/secret", Some("s"), "n")], "`up/secret` is outside the folders"),
        #[cfg(unix)]
        (vec![w.of("d/x", FileChangeAction::MoveTo(w.place("up/x")))], "`up/x` is outside the folders"),
        #[cfg(unix)]
        (vec![w.write("dangling", None, "n")], "`dangling` is outside the folders"),
        #[cfg(unix)]
        (vec![w.of("out", FileChangeAction::CopyTo(w.place("stolen")))], "`out` is outside the folders"),
        #[cfg(unix)]
        (vec![w.of("pipe", FileChangeAction::Remove)], "`pipe` is a device, a pipe or a socket"),
        (vec![w.of("a", FileChangeAction::Remove); limits::CHANGES_PER_RESULT + 1], "1001 changes in one result"),
    ] {
        let error = make(&world.changes(), &wanted).unwrap_err().to_string();
        assert!(error.contains(says), "{says}: {error}");
        assert_eq!(world.tree_without("pipe"), start, "{says}");
    }
    for path in ["", ".", "../x", "a/../b", "/etc/passwd"] {
        assert!(
            matches!(ChangePath::new(&world.root, Path::new(path), path), Err(ChangeError::BadPath { .. })),
            "{path}"
        );
    }
    let far = "d/".repeat(limits::CHANGED_PATH_BYTES / 2 + 1);
    assert!(ChangePath::new(&world.root, Path::new(&far), "far").is_err(), "its path is longer than paths may be");
}

impl World {
    fn tree_without(&self, pipe: &str) -> BTreeMap<String, String> {
        // A pipe cannot be read.
        let path = self.root.join(pipe);
        let was = path.exists();
        if was {
            fs::rename(&path, self.all.path().join("pipe")).unwrap();
        }
        let tree = self.tree();
        if was {
            fs::rename(self.all.path().join("pipe"), &path).unwrap();
        }
        tree
    }
}

#[test]
fn changes_apply_only_to_the_shown_state() {
    for (name, meanwhile) in [
        ("another content", (|w: &World| w.put("b", "mine")) as fn(&World)),
        ("gone", |w| fs::remove_file(w.root.join("b")).unwrap()),
        ("something where nothing was", |w| w.put("c", "mine")),
        #[cfg(unix)]
        ("a link in its place", |w| {
            fs::rename(w.root.join("b"), w.all.path().join("b")).unwrap();
            std::os::unix::fs::symlink(w.all.path().join("b"), w.root.join("b")).unwrap();
        }),
        ("more in a folder", |w| w.put("d/new", "mine")),
    ] {
        let world = World::new(&[("a", "1"), ("b", "2"), ("d/x", "x")]);
        let changes = world.changes();
        let wanted = [
            world.write("a", Some("1"), "one"),
            world.of("d", FileChangeAction::Remove),
            world.write("b", Some("2"), "two"),
            world.write("c", None, "three"),
        ];
        let plan = changes.plan(&wanted).unwrap();
        meanwhile(&world);
        let start = world.tree();
        let error = changes.apply(&plan, BY, &[]).unwrap_err();
        assert!(matches!(error, ChangeError::Stale { .. }), "{name}: {error}");
        assert_eq!(world.tree(), start, "{name}: all of it was taken back");
        assert_eq!(fs::read_dir(world.common()).unwrap().count(), 0, "{name}");
        assert!(world.history().last().is_none(), "{name}: there is nothing to undo");
        assert_eq!(fs::read_dir(world.session().join("changes")).unwrap().count(), 0, "{name}: nothing is kept");
    }
}

#[test]
#[cfg(unix)]
fn links_inside_are_resolved_and_modes_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::new(&[("real/a", "1"), ("tree/x", "x"), ("run.sh", "echo")]);
    symlink("real", world.root.join("way")).unwrap();
    symlink("../run.sh", world.root.join("tree/in")).unwrap();
    symlink("../../out", world.root.join("tree/out")).unwrap();
    fs::write(world.all.path().join("out"), "").unwrap();
    let mode = |path: &str| fs::metadata(world.root.join(path)).unwrap().permissions().mode() & 0o7777;
    let set = |path: &str, mode| fs::set_permissions(world.root.join(path), PermissionsExt::from_mode(mode)).unwrap();
    set("run.sh", 0o4755);
    set("real/a", 0o640);
    let changes = world.changes();
    make(&changes, &[world.write("way/a", Some("1"), "2"), world.write("run.sh", Some("echo"), "rm")]).unwrap();
    assert_eq!((mode("real/a"), mode("run.sh")), (0o640, 0o755), "modes stay, and nothing runs with another's rights");
    assert_eq!(world.tree()["real/a"], "2");
    assert!(world.root.join("way").is_symlink());
    make(&changes, &[world.write("n/new", None, "n")]).unwrap();
    fs::create_dir(world.root.join("usual")).unwrap();
    fs::write(world.root.join("usual/file"), "").unwrap();
    assert_eq!((mode("n/new"), mode("n")), (mode("usual/file"), mode("usual")), "as any program makes them");
    fs::remove_dir_all(world.root.join("usual")).unwrap();
    make(&changes, &[world.of("tree", FileChangeAction::CopyTo(world.place("copy")))]).unwrap();
    let copied = world.tree();
    assert_eq!(
        (copied["copy/in"].as_str(), copied.get("copy/out")),
        ("-> ../run.sh", None),
        "what leads out is left out"
    );
    // The link is meant, not its target.
    make(&changes, &[world.of("way", FileChangeAction::Remove)]).unwrap();
    assert!(!world.root.join("way").is_symlink() && world.root.join("real/a").exists());
    for _ in 0..4 {
        world.history().last().unwrap().unwrap().make().unwrap();
    }
    assert_eq!((mode("run.sh"), mode("real/a")), (0o755, 0o640));
    assert!(world.root.join("way").is_symlink() && !world.root.join("copy").exists() && !world.root.join("n").exists());
    // In a read-only folder nothing is written.
    if rustix::process::geteuid().is_root() {
        return;
    }
    set("real", 0o500);
    let error =
        make(&changes, &[world.write("new", None, "n"), world.of("real/a", FileChangeAction::Remove)]).unwrap_err();
    assert!(error.to_string().contains("`real/a` cannot be removed: Permission denied"), "{error}");
    assert!(!world.root.join("new").exists());
}

#[test]
fn concurrent_changes_lose_no_update() {
    const WRITERS: usize = 8;
    const LINES: usize = 12;
    let world = World::new(&[("log", "")]);
    let changes = world.changes();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (world, changes) = (&world, changes.clone());
            scope.spawn(move || {
                for line in 0..LINES {
                    // A writer that loses the race reads again.
                    while let Err(error) = {
                        let before = fs::read_to_string(world.root.join("log")).unwrap();
                        let after = format!("{before}{writer} {line}\n");
                        make(&changes, &[world.write("log", Some(&before), &after)])
                    } {
                        assert!(matches!(error, ChangeError::Stale { .. }), "{error}");
                    }
                }
            });
        }
    });
    let mut lines: Vec<_> = world.tree()["log"].lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), WRITERS * LINES);
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), WRITERS * LINES, "every line of everyone is there once");
}

#[test]
fn undo_is_refused_after_a_later_modification() {
    let world = World::new(&[("a", "1"), ("b", "2")]);
    let changes = world.changes();
    make(
        &changes,
        &[world.write("a", Some("1"), "one"), world.write("b", Some("2"), "two"), world.write("d/c", None, "c")],
    )
    .unwrap();
    world.put("b", "mine");
    let undo = world.history().last().unwrap().unwrap();
    assert!(undo.shown().unwrap_err().to_string().starts_with("`b` was edited, moved or removed after"));
    let start = world.tree();
    assert!(matches!(undo.make(), Err(ChangeError::EditedSince { .. })));
    assert_eq!(world.tree(), start, "none of it is undone");
    world.put("b", "two");
    world.put("d/mine", "m");
    let shown = undo.shown().unwrap();
    assert!(shown.contains("-one") && shown.contains("+1") && shown.contains("remove d/c"), "{shown}");
    undo.make().unwrap();
    assert_eq!(world.tree(), tree(&[("a", "1"), ("b", "2"), ("d/", ""), ("d/mine", "m")]), "what others made stays");
}

#[test]
fn leftovers_of_an_interrupted_undo_are_not_restored() {
    let world = World::new(&[("d/x", "x"), ("d/y", "y")]);
    let before = world.tree();
    make(&world.changes(), &[world.of("d", FileChangeAction::Remove)]).unwrap();
    let undo = world.history().last().unwrap().unwrap();
    // The state left by a process that was killed after it had recreated one file.
    let aside = undo.asides().next().unwrap();
    world.put(&format!("{aside}/x"), "x");
    undo.make().unwrap();
    assert_eq!(world.tree(), before);
}

#[test]
#[cfg(unix)]
fn link_in_place_of_a_protected_file_is_refused() {
    let world = World::new(&[("evil/config.yaml", "providers: []")]);
    std::os::unix::fs::symlink("evil", world.root.join("link")).unwrap();
    let start = world.tree();
    for act in [FileChangeAction::MoveTo(world.place(".shelly")), FileChangeAction::CopyTo(world.place("sub/.Shelly"))]
    {
        let error = make(&world.changes(), &[world.of("link", act)]).unwrap_err().to_string();
        assert!(error.contains("controls shelly-host"), "{error}");
        assert_eq!(world.tree(), start);
    }
}

#[test]
fn foreign_change_record_is_neither_undone_nor_rolled_back() {
    let world = World::new(&[("a", "1")]);
    make(&world.changes(), &[world.write("a", Some("1"), "one")]).unwrap();
    let folder = world.session().join("changes");
    let record =
        || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some());
    let path = record().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"edit\"", "\"evil\"")).unwrap();
    assert!(world.history().last().unwrap().is_err());
    let intent = world.common().join("0-1.intent");
    fs::write(&intent, text.replace("\"edit\"", "\"evil\"")).unwrap();
    let told = recover(&world.common(), &world.key(), |_| world.session().join("changes"));
    assert!(told.len() == 1 && told[0].contains("was not written by you"), "{told:?}");
    assert_eq!(world.tree(), tree(&[("a", "one")]));
    fs::write(&intent, &text).unwrap();
    let told = recover(&world.common(), &world.key(), |_| world.session().join("changes"));
    assert!(told.len() == 1 && told[0].ends_with("were interrupted, and have been rolled back"), "{told:?}");
    assert_eq!(world.tree(), tree(&[("a", "1")]));
    assert_eq!(recover(&world.common(), &world.key(), |_| world.session().join("changes")), [] as [&str; 0]);
}
