//! Sessions in projects of others: they go on only in a trusted project, and only with consent if somebody else made them.

use std::{fs, path::Path};

use insta::assert_snapshot;
use serde_json::Value;

use super::{TASK, fine, refused, server};
use crate::{
    PLUGIN_ROOT,
    support::{Place, Ran},
};

#[test]
fn session_resumes_only_in_a_trusted_project() {
    let place = Place::untrusted();
    let server = server();
    place.file("shelly.yaml", server.config(""));
    fine(place.run(&["run", "hi", "--trust", "--session", "s"]));
    let asked = || server.asked.lock().unwrap().len();
    let before = asked();
    // What is over is only shown.
    assert_eq!(fine(place.run(&["session", "resume", "s"])).stdout, "Four.\n");
    refused(&place.run(&["session", "resume", "s", "more"]), "+ the model `local` is at");
    assert_eq!(asked(), before);
    fine(place.run(&["session", "resume", "s", "more", "--trust"]));
    assert_eq!(asked(), before + 1);
}

/// A project in this folder that is trusted, with a session `x` that was interrupted before its call of a tool.
fn interrupted(place: &Place, folder: &str) {
    let plugins = Path::new(PLUGIN_ROOT).display();
    let config = format!(
        "plugin_dirs: ['{plugins}']\nproviders: [{{name: offline, kind: plugin, plugin: offline-model}}]\n\
         agents: [{{name: a, plugins: {{count-text: }}}}]\n"
    );
    place.file(&format!("{folder}/shelly.yaml"), config);
    fine(within(place, folder, &["config", "trust", "--yes"]));
    fine(within(place, folder, &["run", TASK, "--session", "x"]));
    let path = place.path().join(folder).join(".shelly/local/sessions/x/journal.jsonl");
    let journal = fs::read_to_string(&path).unwrap();
    let before: Vec<_> = journal.split_inclusive('\n').take_while(|line| !line.contains("\"call_")).collect();
    assert!(before.last().unwrap().contains("\"kind\":\"looked\"") || before.len() > 3, "{journal}");
    fs::write(&path, before.concat()).unwrap();
}

fn within(place: &Place, folder: &str, arguments: &[&str]) -> Ran {
    place.ran(place.command(arguments).current_dir(place.path().join(folder)).output().unwrap())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Asserts that the run is refused because the user did not make the session here, and that no tool was called.
fn not_own(ran: &Ran) {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
    assert!(ran.stderr.contains("was not created by you on this machine"), "{}", ran.shown());
    assert!(ran.stderr.contains("with --trust") && !ran.stderr.contains("count_text"), "{}", ran.shown());
}

#[test]
fn foreign_session_is_not_resumed_without_consent() {
    let (theirs, place) = (Place::untrusted(), Place::untrusted());
    interrupted(&theirs, "p");
    copy(&theirs.path().join("p"), &place.path().join("p"));
    let run = |arguments: &[&str]| within(&place, "p", arguments);
    let journal = place.path().join("p/.shelly/local/sessions/x/journal.jsonl");
    let before = fs::read(&journal).unwrap();
    fine(run(&["config", "trust", "--yes"]));
    let ran = run(&["session", "resume", "x"]);
    not_own(&ran);
    assert_snapshot!(ran.shown());
    for arguments in [
        &["session", "resume", "last", "more"][..],
        &["session", "resume", "x", "--approve", "all"],
        &["session", "resume", "x", "--up-to-damage"],
        &["session", "resume", "x", "--config", "shelly.yaml"],
        &["run", "more", "--session", "x"],
    ] {
        not_own(&run(arguments));
    }
    let mut from_stdin = place.command(&["session", "resume", "x", "-"]);
    let task = fs::File::open(place.file("task.txt", "y\n")).unwrap();
    not_own(&place.ran(from_stdin.current_dir(place.path().join("p")).stdin(task).output().unwrap()));
    assert_eq!(fs::read(&journal).unwrap(), before);
    // It can be looked at, and a copy is no more the person's than it is.
    for arguments in [&["session", "list"][..], &["session", "show", "x"], &["session", "export", "x"]] {
        assert!(fine(run(arguments)).stdout.contains("one two three"), "{arguments:?}");
    }
    let fork = fine(run(&["session", "fork", "x", "--output", "json"]));
    let fork: Value = serde_json::from_str(&fork.stdout).unwrap();
    assert!(fork["id"].is_string());
    not_own(&run(&["session", "resume", "last"]));
    // No mark that it could bring along is right: not that of whoever made it, not that of another session.
    fine(run(&["run", TASK, "--session", "own"]));
    let mark = |id: &str| place.path().join("p/.shelly/local/sessions").join(id).join("mark");
    fs::copy(mark("own"), mark("x")).unwrap();
    not_own(&run(&["session", "resume", "x"]));
    fs::remove_file(mark("x")).unwrap();
    not_own(&run(&["session", "resume", "x"]));

    let ran = fine(run(&["session", "resume", "x", "--trust"]));
    assert!(ran.stdout.contains("3 words") && ran.stderr.contains("count_text"), "{}", ran.shown());
    not_own(&run(&["session", "resume", "x", "more"]));
    // What a session is about may be read by another one: that is text.
    fine(run(&["run", TASK, "--after", "x"]));
}

#[test]
fn own_session_resumes_without_consent_in_a_moved_project() {
    let place = Place::untrusted();
    interrupted(&place, "one");
    copy(&place.path().join("one"), &place.path().join("two"));
    fs::rename(place.path().join("one"), place.path().join("moved")).unwrap();
    for folder in ["two", "moved"] {
        refused(&within(&place, folder, &["session", "resume", "x"]), "without your consent");
        fine(within(&place, folder, &["config", "trust", "--yes"]));
        let ran = fine(within(&place, folder, &["session", "resume", "x"]));
        assert!(ran.stdout.contains("3 words") && ran.stderr.contains("count_text"), "{}", ran.shown());
    }
    fine(within(&place, "two", &["session", "fork", "x"]));
    fine(within(&place, "two", &["session", "resume", "last", TASK]));
}

#[test]
fn session_without_a_key_folder_is_not_own() {
    let place = Place::untrusted();
    let server = server();
    place.file("c.yaml", server.config(""));
    let run = |arguments: &[&str]| {
        let mut command = place.command(&[arguments, &["--config", "c.yaml"]].concat());
        place.ran(command.env_remove("XDG_STATE_HOME").output().unwrap())
    };
    let ran = fine(run(&["run", "hi", "--session", "s"]));
    assert!(
        ran.stderr.contains("could not be marked as yours") && ran.stderr.contains("set XDG_STATE_HOME"),
        "{}",
        ran.shown()
    );
    let asked = || server.asked.lock().unwrap().len();
    let before = asked();
    let ran = run(&["session", "resume", "s", "more"]);
    not_own(&ran);
    assert!(ran.stderr.contains("neither XDG_STATE_HOME nor HOME is set"), "{}", ran.shown());
    assert_eq!(asked(), before);
    assert_eq!(fine(run(&["session", "resume", "s", "more", "--trust"])).stdout, "Four.\n");
    // A key that is damaged is told, and left.
    let key = place.file("state/shelly-host/session.key", "no key");
    let damaged = |arguments: &[&str]| {
        let mut command = place.command(&[arguments, &["--config", "c.yaml"]].concat());
        place.ran(command.env("XDG_STATE_HOME", place.path().join("state")).output().unwrap())
    };
    let ran = fine(damaged(&["run", "hi", "--session", "t"]));
    assert!(
        ran.stderr.contains("could not be marked as yours") && ran.stderr.contains("session.key"),
        "{}",
        ran.shown()
    );
    fs::write(place.path().join(".shelly/local/sessions/t/mark"), "x").unwrap();
    let ran = damaged(&["session", "resume", "t", "more"]);
    assert!(ran.code == 2 && ran.stderr.contains("the file does not have 64 hexadecimal digits"), "{}", ran.shown());
    assert_eq!(fs::read_to_string(key).unwrap(), "no key");
}
