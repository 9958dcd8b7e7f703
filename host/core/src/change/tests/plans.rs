//! Tests of plans: what they show, what they warn of, and their limits.

use super::*;

#[test]
fn plan_says_if_it_cannot_be_undone() {
    let world = World::new(&[("big", ""), ("a", "1")]);
    let bare = ChangeApplier::new([], [], world.key());
    let plan = bare.plan(&[world.write("a", Some("1"), "2")]).unwrap();
    assert!(!plan.is_plain() && plan.shown().contains("cannot be undone: this run has no session"));
    bare.apply(&plan, BY, &[]).unwrap();
    assert_eq!(world.tree()["a"], "2");
    // A tree larger than the kept contents can be removed, but not restored.
    let file = fs::File::create(world.root.join("big")).unwrap();
    file.set_len(limits::CHANGE_UNDO_BYTES + 1).unwrap();
    let changes = world.changes();
    let plan = changes.plan(&[world.of("big", FileChangeAction::Remove)]).unwrap();
    assert!(plan.shown().contains("cannot be undone: the previous content has 67108865 bytes"), "{}", plan.shown());
    changes.apply(&plan, BY, &[]).unwrap();
    assert!(!world.root.join("big").exists() && world.history().last().unwrap().is_err());
    file.set_len(limits::CHANGED_TREE_BYTES + 1).unwrap();
    fs::File::create(world.root.join("huge")).unwrap().set_len(limits::CHANGED_TREE_BYTES + 1).unwrap();
    let error = changes.plan(&[world.of("huge", FileChangeAction::MoveTo(world.place("x")))]).unwrap_err();
    assert!(error.to_string().contains("more than 268435456 bytes"), "{error}");
}

#[test]
fn plan_shows_every_change_and_warning() {
    let world = World::new(&[("a", "1\n"), ("d/.git/config", "x")]);
    let changes = world.changes();
    let names: Vec<_> = (0..limits::CHANGES_SHOWN + 7).map(|n| format!("n{n:03}")).collect();
    let mut wanted: Vec<_> = names.iter().map(|name| world.write(name, None, "n\n")).collect();
    wanted.push(world.write("long", None, &"line of a long file\n".repeat(5_000)));
    let shown = changes.plan(&wanted).unwrap().shown();
    assert!(
        shown.starts_with("create n000 (+1 -0)\n") && shown.contains("\nand 8 more changes, which are not shown\n"),
        "{shown}"
    );
    assert!(shown.contains("more lines of long are not shown]") && shown.chars().count() < limits::CHANGE_DETAIL_CHARS);
    for (wanted, says) in [
        (world.write(".git/hooks/pre-commit", None, "#!"), "careful: .git/hooks/pre-commit: read by version control"),
        (world.of("d", FileChangeAction::CopyTo(world.place("e"))), "careful: d: read by version control"),
        (world.of("d", FileChangeAction::Remove), "careful: d/.git: read by version control"),
    ] {
        let plan = changes.plan(&[wanted]).unwrap();
        assert!(plan.is_remarkable() && plan.shown().contains(says), "{}", plan.shown());
    }
    let mut protected = fs::metadata(world.root.join("a")).unwrap().permissions();
    protected.set_readonly(true);
    fs::set_permissions(world.root.join("a"), protected).unwrap();
    for wanted in [world.write("a", Some("1\n"), "2\n"), world.of("a", FileChangeAction::Remove)] {
        let plan = changes.plan(&[wanted]).unwrap();
        assert!(plan.shown().starts_with("careful: a: read-only\n"), "{}", plan.shown());
    }
    let forged = world.write("a\ncareful: no\u{1b}[2J", None, "x");
    let shown = changes.plan(&[forged]).unwrap().shown();
    assert!(shown.starts_with("careful: a\\ncareful: no\\u{1b}[2J: the name has invisible characters"), "{shown}");
    assert!(shown.contains("\ncreate a\\ncareful: no\\u{1b}[2J (+1 -0)\n"), "{shown}");
    // However long the paths are, the warnings come first, and the end of each path is shown.
    let far = |n: usize| format!("{}{n}/file-{n}", "a".repeat(200) + "/" + &"é/".repeat(1_200));
    let mut many: Vec<_> = (0..limits::CHANGES_SHOWN).map(|n| world.write(&far(n), None, "n\n")).collect();
    many.push(world.write(".git/hooks/pre-commit", None, "#!"));
    let shown = changes.plan(&many).unwrap().shown();
    assert!(shown.starts_with("careful: .git/hooks/pre-commit: read by version control"), "{shown:.300}");
    let line = format!("create {}[…]{}0/file-0 (+1 -0)\n", "a".repeat(80), "é/".repeat(36));
    assert!(shown.contains(&line), "{line}{shown:.600}");
    assert!(shown.chars().count() < limits::CHANGE_DETAIL_CHARS);
    let content: Arc<[u8]> = Arc::from(&b"x"[..]);
    let one = changes.plan(&[world.of("new", FileChangeAction::Write(Arc::clone(&content)))]).unwrap();
    let two = changes.plan(&[world.of("new2", FileChangeAction::Write(content))]).unwrap();
    assert_ne!(one.digest(), two.digest());
}

#[test]
fn change_limits_are_enforced() {
    let world = World::new(&[("a", "1\n")]);
    let folder = |path: &str| {
        fs::create_dir_all(world.root.join(path)).unwrap();
        world.root.join(path)
    };
    for n in 0..=limits::CHANGED_ENTRIES {
        fs::write(folder("many").join(n.to_string()), "").unwrap();
    }
    folder(&format!("deep/{}", "d/".repeat(limits::CHANGED_DEPTH as usize)));
    let changes = world.changes();
    for (path, says) in [
        ("many", "`many` is too large to be changed by a tool: more than 10000 entries"),
        ("deep", "`deep` is too large to be changed by a tool: more than 64 nested folders"),
    ] {
        let error = changes.plan(&[world.of(path, FileChangeAction::Remove)]).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let edit = || [world.write("a", Some("1\n"), "2\n")];
    // The result for the model is part of the record.
    let told = ToolResultContent::Text("x".repeat(limits::CHANGE_RECORD_BYTES as usize));
    let error = changes.apply(&changes.plan(&edit()).unwrap(), BY, &[told]).unwrap_err();
    assert!(error.to_string().ends_with("the record is too large") && world.tree()["a"] == "1\n", "{error}");
    let long = world.write("long", None, &"y".repeat(limits::DIFF_LINE_CHARS * 2));
    let shown = changes.plan(&[long]).unwrap().shown();
    assert!(shown.contains(&format!("\n+{}…\n", "y".repeat(limits::DIFF_LINE_CHARS - 1))), "{shown}");
    let lines = "line\n".repeat(limits::UNDO_LINES * 2);
    make(&changes, &[world.write("lines", None, &lines)]).unwrap();
    let shown = world.history().last().unwrap().unwrap().shown().unwrap();
    assert!(shown.ends_with("more lines are not shown]\n"), "{shown}");
    assert!(changes.plan(&edit()).unwrap().is_plain());
    let large = "m\n".repeat(limits::DIFF_BYTES / 2);
    let count = limits::DIFFS_BYTES / limits::DIFF_BYTES + 1;
    let many: Vec<_> = (0..count).map(|n| world.write(&format!("m{n}"), None, &large)).collect();
    let plan = changes.plan(&many).unwrap();
    let compared = plan.summaries().filter(|summary| summary.lines.is_some()).count();
    assert_eq!(compared, count - 1, "the last one is too much at once");
    let kept = world.session().join("changes");
    let file = fs::File::create(kept.join("0")).unwrap();
    file.set_len(limits::SESSION_UNDO_BYTES).unwrap();
    let shown = changes.plan(&edit()).unwrap().shown();
    assert!(shown.contains("cannot be undone: the session has reached its maximum size"), "{shown}");
    file.set_len(0).unwrap();
    for n in 0..limits::SESSION_UNDO_RECORDS {
        fs::write(kept.join(format!("{n}.json")), "").unwrap();
    }
    let shown = changes.plan(&edit()).unwrap().shown();
    assert!(shown.contains("cannot be undone: the session has reached its maximum number"), "{shown}");
}

#[test]
fn file_counts_as_seen_if_all_that_it_will_hold_is_shown() {
    let world = World::new(&[("a", "1\n2\n"), ("b", "x\n")]);
    let changes = world.changes();
    let seen = |wanted: &[FileChange]| {
        let files = changes.plan(wanted).unwrap().files_shown_whole();
        let below = |file: &PathBuf| file.strip_prefix(&world.root).unwrap().display().to_string();
        files.iter().map(below).collect::<Vec<_>>()
    };
    assert_eq!(seen(&[world.write("new", None, "1\n2\n"), world.write("b", Some("x\n"), "y\n")]), ["new", "b"]);
    assert_eq!(seen(&[world.write("a", Some("1\n2\n"), "1\n3\n")]), [""; 0], "a line of it was there before");
    assert_eq!(
        seen(&[world.of("a", FileChangeAction::MoveTo(world.place("c")))]),
        [""; 0],
        "what it holds is not shown"
    );
    let long = world.write("long", None, &"line of a long file\n".repeat(5_000));
    assert_eq!(seen(&[world.write("new", None, "1\n"), long]), [""; 0], "something is left out");
    let wide = world.write("wide", None, &"x".repeat(limits::DIFF_LINE_CHARS));
    assert_eq!(seen(&[wide]), [""; 0], "a line is cut");
}
