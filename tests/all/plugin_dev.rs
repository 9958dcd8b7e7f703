//! `plugin dev`: builds after each change, trials after each build, and an end that leaves no process behind.

use std::{
    fs,
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use crate::{
    authors,
    scripted_build::{command, component, project_of},
    support::Place,
};

/// A project that is watched.
struct WatchedProject {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
    stderr: Lines<BufReader<ChildStderr>>,
}

impl WatchedProject {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, stdout, stderr }
    }

    /// Returns the next line of standard output for which `is_meant` returns `true`.
    fn line(&mut self, is_meant: impl Fn(&str) -> bool) -> String {
        let lines = self.stdout.by_ref().map(Result::unwrap);
        let mut before = Vec::new();
        for line in lines {
            if is_meant(&line) {
                return line;
            }
            before.push(line);
        }
        panic!("it ended after {before:#?} {:#?}", self.stderr.by_ref().collect::<Vec<_>>())
    }

    /// Returns the next value that is printed, which is about this event.
    fn event(&mut self, name: &str) -> Value {
        let json: Value = serde_json::from_str(&self.line(|_| true)).unwrap();
        assert_eq!(json["event"], name, "{json}");
        json
    }

    /// Interrupts it, as Ctrl-C does, and returns the exit code.
    fn interrupted(&mut self) -> Option<i32> {
        let interrupt = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(interrupt.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for WatchedProject {
    fn drop(&mut self) {
        // It has ended already if the test has succeeded.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn dev(place: &Place, words: &[&str]) -> WatchedProject {
    let words = [&["plugin", "dev", "dice"], words].concat();
    WatchedProject::start(command(place, &words))
}

#[test]
fn failed_build_keeps_the_last_plugin() {
    let place = Place::new();
    let folder = project_of(&place, "calculator");
    let mut watched = dev(&place, &["--release", "--output", "json"]);
    assert_eq!(watched.event("watching")["files"], 3);
    let first = watched.event("built");
    assert_eq!((first["plugin"].as_str(), first["changes"].is_null()), (Some("calculator"), true), "{first}");
    assert_eq!(watched.stderr.next().unwrap().unwrap(), "optimised");

    place.file("dice/broken", "");
    let failed = watched.event("failed");
    assert!(failed["error"]["message"].as_str().unwrap().starts_with("cargo failed"), "{failed}");
    assert!(folder.join("build/calculator/calculator.wasm").is_file(), "the last one stays");
    fs::remove_file(folder.join("broken")).unwrap();
    assert_eq!(watched.event("built")["changes"], serde_json::json!([]));
    place.file("dice/component.txt", component("compare"));
    let changes = watched.event("built")["changes"].to_string();
    assert!(changes.contains("- tool calculate") && changes.contains("+ tool text_diff"), "{changes}");

    // A build that never ends does not outlive the command.
    place.file("dice/endless", "");
    let pid = watched.stderr.by_ref().map(Result::unwrap).find_map(|line| line.strip_prefix("pid ").map(str::to_owned));
    let pid = pid.unwrap();
    assert_eq!(watched.interrupted(), Some(130));
    let is_alive = Command::new("kill").args(["-0", &pid]).stderr(Stdio::null()).status().unwrap().success();
    assert!(!is_alive, "{pid}");
}

#[test]
fn step_is_repeated_with_what_is_granted() {
    let place = Place::new();
    project_of(&place, "token-budget");
    place.file("dice/step.yaml", "messages: [{text: Hello}]\nrun_usage: {input_tokens: 900}\n");
    let given = ["--params", "{max_tokens: 1000}", "--grant", "powers: [note, stop]", "--output", "json"];
    let mut watched = dev(&place, &[&["--step", "dice/step.yaml"], &given[..]].concat());
    watched.event("watching");
    watched.event("built");
    let first = watched.event("tried");
    assert_eq!((&first["decision"]["decision"], &first["ok"]), (&Value::from("edits"), &Value::from(true)), "{first}");
    assert!(first["difference_to_last"].is_null(), "{first}");
    place.file("dice/step.yaml", "messages: [{text: Hello}]\nrun_usage: {input_tokens: 9}\n");
    watched.event("built");
    let second = watched.event("tried");
    let difference = second["difference_to_last"].as_str().unwrap();
    assert!(difference.lines().any(|line| line.starts_with('-') && line.contains("\"note\"")), "{second}");
    place.file("dice/step.yaml", "messages: [{text: Hello}]\nrun_usage: {input_tokens: 10}\n");
    watched.event("built");
    assert_eq!(watched.event("tried")["is_same"], true);
    // A mistake in the input ends nothing.
    place.file("dice/step.yaml", "messages: 7\n");
    watched.event("built");
    watched.event("failed");
    assert_eq!(watched.interrupted(), Some(130));
}

#[test]
fn request_is_repeated_with_the_limits_of_a_config() {
    let place = Place::new();
    project_of(&place, "scripted-model");
    place.file("dice/request.yaml", "messages: [{text: Hello}]\n");
    for (limits, is_ok) in [("limits: {}\n", true), ("limits: {input_bytes: 2}\n", false)] {
        place.file("limits.yaml", limits);
        let given = ["--config", "limits.yaml", "--params", "{replies: [Hello yourself.]}", "--output", "json"];
        let mut watched = dev(&place, &[&["--complete", "dice/request.yaml"], &given[..]].concat());
        watched.event("watching");
        watched.event("built");
        let tried = watched.event("tried");
        assert_eq!(tried["ok"], is_ok, "{tried}");
        let (reply, error) = (&tried["reply"]["text"], tried["error"]["message"].as_str().unwrap_or_default());
        assert!(if is_ok { *reply == "Hello yourself." } else { error.contains("input_bytes") }, "{tried}");
        assert_eq!(watched.interrupted(), Some(130));
    }
}

#[test]
fn folders_of_a_trial_are_below_the_named_one() {
    let place = Place::new();
    project_of(&place, "read-files");
    place.file("data/a.txt", "in the folder");
    let call = ["--call", "read_file", r#"{"path": "a.txt"}"#, "--grant", "files: [{path: ., as: .}]"];
    let mut watched = dev(&place, &[&call[..], &["--dir", "data", "--output", "json"]].concat());
    watched.event("watching");
    watched.event("built");
    let tried = watched.event("tried");
    assert!(tried["result"]["content"][0]["text"].as_str().unwrap().contains("in the folder"), "{tried}");
    assert_eq!(watched.interrupted(), Some(130));
}

#[test]
fn watch_needs_a_project_and_a_trial_that_can_be_repeated() {
    let place = Place::new();
    project_of(&place, "calculator");
    for (words, says) in [
        (&["plugin", "dev", "nowhere"][..], "there is no plugin.toml in nowhere"),
        (&["plugin", "dev", "dice", "--step", "-"], "a trial that is repeated cannot read standard input"),
        (&["plugin", "dev", "dice", "--step", "a", "--complete", "b"], "cannot be used with"),
    ] {
        let ran = place.ran(command(&place, words).output().unwrap());
        assert!(ran.code == 2 && ran.stderr.contains(says), "{words:?}: {}", ran.shown());
    }
}

#[test]
fn real_project_is_built_and_tried_after_each_change() {
    let place = Place::new();
    let folder = authors::new_project(&place, "dice", &[]);
    let words = ["plugin", "dev", "dice", "--call", "dice", r#"{"text": "to be"}"#];
    let mut watched = WatchedProject::start(authors::command(&place, &words));
    watched.line(|line| line.starts_with("watching     "));
    watched.line(|line| line == r#"{"words":2,"lines":1,"characters":5}"#);
    let counted = "words: text.split_whitespace()";
    authors::change(&folder.join("src/lib.rs"), counted, "words: 2 * text.split_whitespace()");
    watched.line(|line| line.starts_with("sources      ") && line.contains("src/lib.rs"));
    watched.line(|line| line == "changed      nothing in what it wants, imports and offers");
    watched.line(|line| line.trim_start() == r#"+{"words":4,"lines":1,"characters":5}"#);
    assert_eq!(watched.interrupted(), Some(130));
}
