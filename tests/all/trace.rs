//! `shelly-host trace`: what the runs of a session did.

use std::{fs, io::Read, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use flate2::read::GzDecoder;
use serde_json::Value;

use crate::{
    PLUGIN_ROOT,
    support::{Place, Ran},
};

const TASK: &str = "How many words are in a.txt, and how many lines are in b.txt?";

/// An agent that delegates, and one that reads files.
fn place() -> Place {
    let place = Place::new();
    place.file("docs/a.txt", "one two three\nfour\n");
    place.file("docs/b.txt", "x\ny z\n");
    place.file(
        "shelly.yaml",
        format!(
            "plugin_dirs: ['{PLUGIN_ROOT}']\n\
             providers: [{{name: offline, kind: plugin, plugin: offline-model}}]\n\
             agents:\n  - name: lead\n    options: {{max_delegation_depth: 1}}\n  \
             - name: reader\n    description: reads files and counts words and lines in them\n    \
             plugins: {{read-files: {{files: [{{path: docs, as: .}}]}}, count-text: }}\n"
        ),
    );
    place
}

/// A place in which `lead` has worked in the session `s`.
fn worked() -> Place {
    let place = place();
    fine(place.run(&["run", TASK, "--session", "s"]));
    place
}

fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

fn lines(place: &Place) -> Vec<String> {
    let printed = fine(place.run(&["trace", "s", "--format", "jsonl"]));
    printed.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn summary_shows_the_tree_of_runs() {
    let place = worked();
    let summary = fine(place.run(&["trace", "last"]));
    let text = &summary.stdout;
    assert!(text.starts_with(&format!("s  {TASK}\n")) && text.contains(" turns · "), "{}", summary.shown());
    let row = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
    assert!(row("lead ").contains("delegate") && row("lead ").ends_with("answered"), "{}", summary.shown());
    assert!(row("└ reader").contains("answered"), "{}", summary.shown());
    let unknown = place.run(&["trace", "unknown"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("there is no session `unknown`"), "{}", unknown.shown());
    // A session of an earlier release has no events.
    fs::remove_file(place.path().join(".shelly/local/sessions/s/events.jsonl")).unwrap();
    let old = fine(place.run(&["trace", "s"]));
    assert!(old.stdout.contains("no events were recorded in this session"), "{}", old.shown());
    assert!(old.stdout.contains("└ reader"), "{}", old.shown());
}

#[test]
fn page_holds_the_lines_of_the_trace() {
    let place = worked();
    let expected = lines(&place);
    let wrote = fine(place.run(&["trace", "s", "--config", "shelly.yaml", "--html", "page.html"]));
    assert_eq!((&*wrote.stdout, &*wrote.stderr), ("", "wrote page.html\n"));
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    let mut text = String::new();
    for block in page.split("data-chunk=\"").skip(1).filter_map(|block| block.split_once("\">")) {
        let Some((base64, _)) = block.1.split_once("</script>") else { continue };
        let Ok(bytes) = STANDARD.decode(base64) else { continue };
        GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    }
    // What a command prints has the folder of the test replaced.
    let text = text.replace(place.path().to_str().unwrap(), "[DIR]");
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(place.path().join("page.html")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "it has everything that was said");
    }
    let folder = place.run(&["trace", "s", "--html", "docs"]);
    assert!(folder.code == 2 && folder.stderr.contains("not a regular file"), "{}", folder.shown());
    assert!(folder.stderr.contains("name another file with --html"), "{}", folder.shown());
}

#[cfg(unix)]
#[test]
fn page_is_opened_in_a_browser() {
    use std::os::unix::fs::PermissionsExt;
    let place = worked();
    for name in ["xdg-open", "open"] {
        let program = place.file(&format!("bin/{name}"), "#!/bin/sh\ncp \"$1\" opened.html\n");
        fs::set_permissions(program, fs::Permissions::from_mode(0o700)).unwrap();
    }
    fs::create_dir(place.path().join("temporary")).unwrap();
    let run = |path: String| {
        let mut command = place.command(&["trace", "s", "--open"]);
        command.env("PATH", path).env("TMPDIR", place.path().join("temporary"));
        fine(place.ran(command.output().unwrap()))
    };
    let opened = run(format!("{}/bin:/usr/bin:/bin", place.path().display()));
    assert!(!opened.stderr.contains("warning"), "{}", opened.shown());
    let page = fs::read_to_string(place.path().join("opened.html")).unwrap();
    assert!(page.contains("id=\"shelly-trace\""), "{page}");
    let nothing = run("/nowhere".into());
    assert!(nothing.stderr.contains("open the page yourself: [DIR]/temporary/shelly-trace-"), "{}", nothing.shown());
    for entry in fs::read_dir(place.path().join("temporary")).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    }
}

#[test]
fn trace_is_printed_for_other_programs() {
    let place = worked();
    let lines = lines(&place);
    assert!(lines[0].contains("\"event\":\"stream_started\""), "{}", lines[0]);
    let of_kind = |kind: &str| lines.iter().filter(|line| line.contains(&format!("\"event\":\"{kind}\""))).count();
    assert!(of_kind("run_started") >= 2 && of_kind("run_started") == of_kind("run_finished"), "{lines:#?}");
    assert!(of_kind("plugin_call") > 0 && of_kind("model_delta") == 0, "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("message_added") && line.contains("has 4 words")), "{lines:#?}");
    let json = |format: &str| -> Value {
        let printed = fine(place.run(&["trace", "s", "--format", format]));
        let wrote = fine(place.run(&["trace", "s", "--format", format, "--out", "trace.json"]));
        assert_eq!((&*wrote.stdout, &*wrote.stderr), ("", "wrote trace.json\n"));
        let written = fs::read_to_string(place.path().join("trace.json")).unwrap();
        let shown = written.replace(&place.path().display().to_string(), "[DIR]");
        assert_eq!(shown, printed.stdout, "nothing of it acts on a terminal");
        serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"))
    };
    let spans = &json("otlp")["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let names: Vec<_> = spans.as_array().unwrap().iter().filter_map(|span| span["name"].as_str()).collect();
    for name in ["invoke_agent lead", "invoke_agent reader", "chat offline-model", "execute_tool delegate"] {
        assert!(names.iter().any(|there| there.starts_with(name)), "{name}: {names:?}");
    }
    let log = json("inspect");
    assert_eq!((log["version"].as_u64(), log["status"].as_str()), (Some(2), Some("success")));
    let both = place.run(&["trace", "s", "--format", "otlp", "--diff", "s"]);
    assert_eq!(both.code, 2, "{}", both.shown());
}

#[test]
fn two_runs_are_compared() {
    let place = worked();
    fine(place.run(&["run", TASK, "--session", "same"]));
    let same = fine(place.run(&["trace", "s", "--diff", "same"]));
    assert!(same.stdout.contains("the runs have the same "), "{}", same.shown());
    fine(place.run(&["run", "How many lines are in b.txt?", "--session", "other"]));
    let other = place.run(&["trace", "s", "--diff", "other"]);
    assert!(other.code == 1 && other.stdout.contains("the runs part "), "{}", other.shown());
    assert!(other.stdout.lines().any(|line| line.starts_with("- ") && line.contains("calls ")), "{}", other.shown());
    assert!(Path::new(&place.path()).join(".shelly/local/sessions/other/events.jsonl").is_file());
}

#[test]
fn batch_tasks_are_recorded_without_readers() {
    let place = place();
    place.file("t.jsonl", format!("{}\n", serde_json::json!({ "task": TASK })));
    fine(place.run(&["batch", "--tasks", "t.jsonl", "--output", "out.jsonl"]));
    let printed = fine(place.run(&["trace", "last", "--format", "jsonl"]));
    for kind in ["run_started", "message_added", "model_finished", "tool_finished", "plugin_call", "run_finished"] {
        assert!(printed.stdout.contains(&format!("\"event\":\"{kind}\"")), "{kind}: {}", printed.shown());
    }
    assert!(!printed.stdout.contains("model_delta"), "{}", printed.shown());
}
