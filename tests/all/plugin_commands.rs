//! The commands that run one call of a plugin: `plugin call`, `plugin step` and `plugin complete`, with plugins of this repository
//! and with those of tests.

mod steps;

use std::{collections::BTreeMap, fs, process::Command};

use serde_json::{Value, json};

use crate::{
    GUEST_ROOT, PLUGIN_ROOT,
    hostile::guest::{self, Guest},
    support::{Place, Ran},
    terminal,
};

/// All that the guest `probe` wants.
const PROBE: &str = "{clock: true, random: true, files: [{path: ., as: .}]}";

fn guest_folder(id: &str) -> String {
    format!("{GUEST_ROOT}/{id}")
}

fn shipped(id: &str) -> String {
    format!("{PLUGIN_ROOT}/{id}")
}

/// Calls a tool of a guest with all that this grants.
fn call(place: &Place, id: &str, tool: &str, arguments: &str, grants: &[&str]) -> Ran {
    let folder = guest_folder(id);
    let granted = grants.iter().flat_map(|grant| ["--grant", grant]);
    let words: Vec<_> = ["plugin", "call", &folder, tool, arguments].into_iter().chain(granted).collect();
    place.run(&words)
}

/// Returns the JSON value on standard output.
fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.shown()))
}

#[test]
fn tool_call_prints_result_log_and_figures() {
    let place = Place::new();
    let probe = guest_folder("probe");
    let words = ["plugin", "call", &probe, "log", r#"{"lines": 2, "bytes": 3}"#, "--grant", PROBE];
    let ran = place.run(&words);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "logged\n"), "{}", ran.shown());
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines[..2], ["log info: 0 xxx", "log info: 1 xxx"], "{}", ran.shown());
    assert!(lines[2].starts_with("1 call: ") && lines[2].contains("B, imports called: "), "{}", ran.shown());
    assert!(lines[2].contains("log 2") && lines.len() == 3, "{}", ran.shown());

    let ran = place.run(&[&words[..], &["--output", "json"]].concat());
    let json = parsed(&ran);
    assert!(ran.code == 0 && ran.stderr.is_empty(), "{}", ran.shown());
    assert_eq!(json["result"], json!({"is_error": false, "content": [{"text": "logged"}]}));
    assert_eq!(json["log"][1], json!({"level": "info", "message": "1 xxx"}));
    for (key, value) in
        [("ok", json!(true)), ("exit_code", json!(0)), ("plugin", json!("probe")), ("tool", json!("log"))]
    {
        assert_eq!(json[key], value, "{key}");
    }
    let figures = &json["figures"];
    assert_eq!(
        (&figures["calls"], &figures["outcome"], &figures["imports"]["log"]),
        (&json!(1), &json!("ok"), &json!(2))
    );
    assert!(figures["duration_ms"].as_f64() > Some(0.0) && figures["memory"].as_u64() > Some(65_536), "{figures}");
    assert!(json["proposal"].is_null() && json["error"].is_null(), "{json}");
}

#[test]
fn tool_call_takes_params_and_a_folder() {
    let place = Place::new();
    place.file("data/docs/a.txt", "in the folder");
    place.file("params.json", r#"{"x": 1}"#);
    place.file("arguments.json", r#"{"path": "docs/a.txt"}"#);
    let (probe, in_data) = (guest_folder("probe"), "{clock: true, random: true, files: [{path: docs, as: docs}]}");
    let given = |words: &[&str]| {
        let ran = place.run(&[&["plugin", "call", &probe], words].concat());
        (ran.code, ran.stdout)
    };
    let read = given(&["read", "@arguments.json", "--dir", "data", "--grant", in_data]);
    assert_eq!(read, (0, "in the folder\n".into()));
    let (code, stdout) =
        given(&["config", "--params", "@params.json", "--grant", PROBE, "--grant", "params: {x: 2, y: [3]}"]);
    assert_eq!((code, serde_json::from_str::<Value>(&stdout).unwrap()), (0, json!({"x": 1, "y": [3]})));
    let elsewhere = place.run(&["plugin", "call", &probe, "read", "--dir", "nowhere", "--grant", in_data]);
    assert!(elsewhere.code == 3 && elsewhere.stderr.contains("which cannot be opened"), "{}", elsewhere.shown());
    assert!(elsewhere.stderr.contains("relative paths are below --dir"), "{}", elsewhere.shown());
}

#[test]
fn arguments_are_read_from_standard_input() {
    let place = Place::new();
    let mut command = place.command(&["plugin", "call", &guest_folder("probe"), "echo", "-", "--grant", PROBE]);
    place.file("input", r#"{"text": "from there"}"#);
    command.stdin(fs::File::open(place.path().join("input")).unwrap());
    let ran = place.ran(command.output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "from there\n"), "{}", ran.shown());
}

#[test]
fn mistakes_in_a_tool_call_are_named_with_their_mend() {
    let place = Place::new();
    let probe = |tool: &str, arguments: &str, grants: &[&str]| call(&place, "probe", tool, arguments, grants);
    for (ran, code, says) in [
        (probe("ecko", "{}", &[PROBE]), 2, &["there is no tool `ecko`", "did you mean `echo`?"][..]),
        (
            probe("echo", "{\"text\": }", &[PROBE]),
            2,
            &["the arguments are not JSON (line 1, column 10)", "in double quotes"],
        ),
        (probe("echo", "[1]", &[PROBE]), 2, &["the arguments are not a JSON object"]),
        (probe("echo", "@nowhere", &[PROBE]), 2, &["cannot read the arguments from nowhere", "no such file or folder"]),
        (
            probe("echo", "{}", &[]),
            3,
            &[
                "plugin `probe` needs `",
                "which is not granted",
                "--grant 'files: [{path: FOLDER, mode: read}]' --grant 'clock: true' --grant 'random: true'",
            ],
        ),
        (probe("echo", "{}", &["{cloc: true}"]), 2, &["there is no key `cloc` (--grant, line 1, column 2)", "`clock`"]),
        (
            probe("echo", "{}", &[PROBE, "clock: 3"]),
            2,
            &["`clock` is not a boolean (--grant number 2, line 1, column 8)"],
        ),
        (probe("echo", "{}", &[PROBE, "confirm: true"]), 2, &["--grant: `confirm` has no effect outside of an agent"]),
        (
            probe("echo", "{}", &[PROBE, "programs: [ls]"]),
            2,
            &["there is no program `ls`", "named by --grant.programs"],
        ),
        (
            probe("echo", "{}", &[PROBE, "limits: {stack_bytes: 9}"]),
            2,
            &["--grant.limits.stack_bytes: can be set only"],
        ),
        // The tool says itself what does not fit.
        (probe("echo", r#"{"txt": "x"}"#, &[PROBE]), 1, &["the tool `echo` failed", "text"]),
        (probe("fail", r#"{"case": "denied"}"#, &[PROBE]), 1, &["asked to fail in call call-1"]),
        (probe("panic", "{}", &[PROBE]), 3, &["the tool `panic` did not end by itself", "crashed", "asked to panic"]),
        (
            probe("spin", "{}", &[PROBE, "limits: {time: 200ms}"]),
            3,
            &["timed out after 0.2 seconds (limit `time`); raise it with `--grant 'limits: {time: …}'`, up to 1h"],
        ),
        (
            probe("grow", r#"{"mib": 64}"#, &[PROBE, "limits: {memory_bytes: 16777216}"]),
            3,
            &[
                "needs more than 16 MiB of memory (limit `memory_bytes`); raise it with `--grant 'limits: {memory_bytes: …}'`",
            ],
        ),
    ] {
        assert_eq!(ran.code, code, "{says:?}: {}", ran.shown());
        for says in says {
            assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
        }
        assert_eq!(ran.stdout, "", "{says:?}");
    }
    let no_tools = place.run(&["plugin", "call", &guest_folder("probe-team"), "echo"]);
    assert!(no_tools.code == 2 && no_tools.stderr.contains("there is no tool `echo`"), "{}", no_tools.shown());
    let kept = place.run(&["plugin", "call", &shipped("calculator"), "calculate", "{}", "--params", "{x: 1}"]);
    assert!(kept.code == 2 && kept.stderr.contains("named by --params"), "{}", kept.shown());
    let in_vain = [r#"{"expression": "1 + 1"}"#, "--grant", "clock: true"];
    let ran = place.run(&[&["plugin", "call", &shipped("calculator"), "calculate"], &in_vain[..]].concat());
    assert!(
        ran.code == 0 && ran.stderr.contains("--grant grants `clock`, which the plugin does not request"),
        "{}",
        ran.shown()
    );
}

#[test]
fn failed_tool_call_is_one_json_value_too() {
    let place = Place::new();
    let probe = guest_folder("probe");
    let words = ["plugin", "call", &probe, "fail", r#"{"case": "not-found"}"#, "--grant", PROBE, "--output", "json"];
    let ran = place.run(&words);
    let json = parsed(&ran);
    assert_eq!((ran.code, &json["ok"], &json["exit_code"]), (1, &json!(false), &json!(1)), "{}", ran.shown());
    assert_eq!(json["error"], json!({"kind": "not_found", "message": "asked to fail in call call-1"}));
    assert_eq!(json["result"]["is_error"], true);
    // What fails before the call has the form of every other failure.
    let refused = place.run(&["plugin", "call", &probe, "fail", "--output", "json"]);
    let json = parsed(&refused);
    assert_eq!((refused.code, &json["error"]["kind"]), (3, &json!("plugin")), "{}", refused.shown());
}

#[test]
fn proposed_changes_are_shown_and_not_made() {
    let place = Place::new();
    place.file("there.txt", "old\n");
    let grant = "{files: [{path: ., as: .}], powers: [propose-files]}";
    let arguments = r#"{"says": "look", "changes": [{"path": "new.txt", "write": "hello\n"}, {"path": "there.txt"}]}"#;
    let ran = call(&place, "probe-changes", "propose", arguments, &[grant]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    for part in ["look\ncreated new.txt (+1 -0)\nremoved there.txt", "proposed, not made:\n", "+hello\n", "-old\n"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.shown());
    }
    assert!(!ran.stdout.contains("cannot be undone"), "nothing is done: {}", ran.shown());
    assert!(!place.path().join("new.txt").exists() && place.path().join("there.txt").exists());
    let folder = guest_folder("probe-changes");
    let words = ["plugin", "call", &folder, "propose", arguments, "--grant", grant, "--output", "json"];
    let proposal = &parsed(&place.run(&words))["proposal"];
    let first = json!({"act": "create", "path": "new.txt", "to": null, "added": 1, "removed": 0});
    assert_eq!(proposal["changes"][0], first);
    assert!(proposal["diff"].as_str().unwrap().contains("+hello"), "{proposal}");
    // Without the power, and without a folder that the tool lacks, the option is named.
    let refused = call(&place, "probe-changes", "propose", arguments, &["files: [{path: ., as: .}]"]);
    assert!(refused.code == 1 && refused.stderr.contains("`--grant 'powers: [propose-files]'`"), "{}", refused.shown());
    let lacks = call(&place, "probe-changes", "lack", r#"{"folders": ["/nowhere"]}"#, &[grant]);
    let says = "the folder `/nowhere` is not granted; grant it with `--grant 'files: [{path: \"/nowhere\"}]'`";
    assert!(lacks.code == 1 && lacks.stderr.contains(says), "{}", lacks.shown());
}

#[test]
fn attachments_are_listed_with_type_and_size() {
    let place = Place::new();
    let ran = call(&place, "probe-mcp", "test_multiple_content_types", "{}", &["clock: true"]);
    assert!(ran.code == 0 && ran.stdout.contains("[image/png, "), "{}", ran.shown());
    let folder = guest_folder("probe-mcp");
    let words =
        ["plugin", "call", &folder, "test_multiple_content_types", "--grant", "clock: true", "--output", "json"];
    let content = parsed(&place.run(&words))["result"]["content"].clone();
    let media = content.as_array().unwrap().iter().find_map(|piece| piece.get("media")).unwrap();
    assert!(media["media_type"] == "image/png" && media["bytes"].as_u64() > Some(0), "{content}");
}

#[test]
fn stores_of_a_call_are_in_memory() {
    let place = Place::new();
    for grant in ["kv: run", "kv: plugin"] {
        let put = call(&place, "probe-kv", "kv_put", r#"{"key": "k", "value": "v"}"#, &[grant]);
        assert!(put.code == 0 && put.stderr.contains("imports called: kv "), "{}", put.shown());
        let got = call(&place, "probe-kv", "kv_get", r#"{"key": "k"}"#, &[grant]);
        assert!(got.code != 0 || !got.stdout.contains('v'), "{grant}: {}", got.shown());
    }
    assert!(!place.path().join(".shelly").exists());
}

/// A tool that writes control sequences to its log, and an error that has them too.
fn hostile_place() -> Place {
    let place = Place::new();
    let mut guest = Guest::tool().import(guest::LOG);
    let text = guest.text("forged\x1b[2J\x1b]52;c;aGk=\x07\nerror: not of the host");
    let guest = guest.on("call", &format!("(call $log (i32.const 3) {text})"));
    place.plugin_bytes("hostile", "kinds = [\"tool\"]", &guest.component());
    place
}

#[cfg(unix)]
#[test]
fn hostile_text_does_not_act_on_a_terminal() {
    let place = hostile_place();
    let logged = terminal::run_at(&place, 100, &[], "shelly-host plugin call plugins/hostile t");
    assert_eq!(logged.code, 0, "{:?}", logged.lines);
    let shown = logged.lines.join("\n");
    assert!(shown.contains("log error: forged\\u{1b}[2J\\u{1b}]52;c;aGk=\\u{7}"), "{shown}");
    assert!(!logged.lines.iter().any(|line| line.starts_with("error: not of the host")), "{shown}");
    let echo = format!(
        "shelly-host plugin call '{}' echo '{{\"text\": \"a\\u001b]52;c;aGk=\\u0007b\"}}' --grant '{PROBE}'",
        guest_folder("probe")
    );
    let echoed = terminal::run_at(&place, 100, &[], &echo);
    assert!(echoed.lines.iter().any(|line| line == "a\\u{1b}]52;c;aGk=\\u{7}b"), "{:?}", echoed.lines);
    for bytes in [logged.bytes, echoed.bytes] {
        assert!(!String::from_utf8_lossy(&bytes).contains("\x1b]52"), "the terminal gets no command of a plugin");
    }
}

#[cfg(unix)]
#[test]
fn json_and_differences_are_laid_out_at_a_terminal() {
    let place = Place::new();
    place.file("step.yaml", "messages: [{text: hello}]\n");
    let count = format!("shelly-host plugin call '{}' count_text '{{\"text\": \"a b\"}}'", shipped("count-text"));
    let ran = terminal::run_at(&place, 100, &[], &count);
    assert!(ran.lines.iter().any(|line| line == "  \"words\": 2" || line == "  \"words\": 2,"), "{:?}", ran.lines);
    let step = format!(
        "shelly-host plugin step '{}' --kind effect step.yaml --params '{{effect: note, text: noted}}' --grant 'powers: [note]'",
        guest_folder("probe-hooks")
    );
    let ran = terminal::run_at(&place, 100, &[], &step);
    for line in ["  \"decision\": \"edits\",", "  +  noted", "     hello"] {
        assert!(ran.lines.iter().any(|shown| shown == line), "{line}: {:?}", ran.lines);
    }
    let piped = terminal::run_at(&place, 100, &[], &format!("{step} | cat"));
    assert!(!piped.lines.iter().any(|line| line.contains("+  noted")), "{:?}", piped.lines);
}

#[test]
fn provider_reply_is_streamed_then_described() {
    let place = Place::new();
    let (script, hooks) = (shipped("scripted-model"), guest_folder("probe-hooks"));
    let words = ["plugin", "complete", &script, "--message", "Hi", "--params", "{replies: [Hello there.]}"];
    let ran = place.run(&words);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Hello there.\n"), "{}", ran.shown());
    assert!(ran.stderr.contains("stop: end_turn; model: scripted-model; usage: "), "{}", ran.shown());
    let calls = "{provider: tool-call, tool: greet, arguments: {name: Ada}}";
    let ran = place.run(&["plugin", "complete", &hooks, "--message", "Hi", "--params", calls]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "call greet {\"name\":\"Ada\"}\n"), "{}", ran.shown());
    let says = "stop: tool_calls; model: probe-hooks; usage: 15 tokens in, 5 out";
    assert!(ran.stderr.contains(says) && ran.stderr.contains("1 call: "), "{}", ran.shown());

    let json = parsed(&place.run(&["plugin", "complete", &hooks, "--message", "Hi", "--output", "json"]));
    assert_eq!(json["reply"]["text"], "Hi [1 messages, 0 tools]", "{json}");
    assert_eq!(json["chunks"][0], json!({"kind": "text", "value": "Hi "}), "{json}");
    let whole: String =
        json["chunks"].as_array().unwrap().iter().map(|piece| piece["value"].as_str().unwrap()).collect();
    assert_eq!((whole.as_str(), &json["more_chunks"]), ("Hi [1 messages, 0 tools]", &json!(0)));
    // The final reply counts, and a difference is told.
    let ran = place.run(&["plugin", "complete", &hooks, "--message", "Hi", "--params", "{provider: mismatch}"]);
    assert!(ran.code == 0 && ran.stderr.contains("streamed text"), "{}", ran.shown());
    for (params, code, says) in [
        ("{provider: error-unavailable}", 1, "the provider failed"),
        ("{provider: panic}", 3, "the provider did not end by itself"),
        ("{provider: fail-after-usage}", 1, "asked to fail"),
    ] {
        let ran = place.run(&["plugin", "complete", &hooks, "--message", "Hi", "--params", params]);
        assert!(ran.code == code && ran.stderr.contains(says), "{params}: {}", ran.shown());
        assert!(ran.stderr.contains("1 call: "), "a failed request is not repeated: {}", ran.shown());
    }
    let ran = place.run(&["plugin", "complete", &guest_folder("probe"), "--message", "Hi", "--grant", PROBE]);
    assert!(ran.code == 2 && ran.stderr.contains("is not of kind `provider`"), "{}", ran.shown());
}

#[test]
fn request_of_a_file_reaches_the_provider() {
    let place = Place::new();
    let hooks = guest_folder("probe-hooks");
    let request = "
model: m-1
messages:
  - {role: system, text: Be brief.}
  - {text: Count.}
  - {calls: [{name: count}]}
  - {results: [{text: '3'}]}
  - {text: And now?}
tools: [count, {name: read, description: Reads.}]
";
    place.file("request.yaml", request);
    let ran = place.run(&["plugin", "complete", &hooks, "request.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "And now? [5 messages, 2 tools]\n"), "{}", ran.shown());
    assert!(ran.stderr.contains("model: m-1;"), "{}", ran.shown());
    place.file("wrong.yaml", "messages: [{text: x}]\ntemperatur: 1\n");
    let ran = place.run(&["plugin", "complete", &hooks, "wrong.yaml"]);
    let says = "there is no key `temperatur` (wrong.yaml, line 2, column 1)";
    assert!(ran.code == 2 && ran.stderr.contains(says), "{}", ran.shown());
    place.file("tool.yaml", "tools: ['not a name!']\nmessages: [{text: x}]");
    let ran = place.run(&["plugin", "complete", &hooks, "tool.yaml"]);
    assert!(ran.code == 2 && ran.stderr.contains("invalid tool name `not a name!`"), "{}", ran.shown());
    assert_eq!(place.run(&["plugin", "complete", &hooks]).code, 2, "there must be a request");
}

#[test]
fn entries_of_a_project_are_used_only_with_consent() {
    let place = Place::untrusted();
    let programs = "plugin_dirs: [plugins]\nprograms: {greet: {command: /bin/echo, args: [[hello]]}}\n";
    place.file("shelly.yaml", programs);
    place.plugin_bytes("own", "kinds = [\"tool\"]", &Guest::tool().component());
    let asked = |words: &[&str]| {
        let ran = place.run(&[&["plugin", "call"], words].concat());
        (ran.code, ran.stderr.contains("are not trusted yet"))
    };
    // A plugin of the project by its id.
    assert_eq!(asked(&["own", "t"]), (2, true));
    assert_eq!(asked(&["own", "t", "--trust"]), (0, false));
    // What the person names needs no consent.
    assert_eq!(asked(&["plugins/own", "t"]), (0, false));
    assert_eq!(asked(&["own", "t", "--plugins", "plugins"]), (0, false));
    assert_eq!(asked(&["own", "t", "--config", "shelly.yaml"]), (0, false));
    // A program of the project.
    let run = [r#"{"program": "greet", "args": ["hello"]}"#, "--grant", "programs: [greet]"];
    let process = guest_folder("probe-process");
    let by_path = [&[process.as_str(), "run_program"], &run[..]].concat();
    let by_id = [&["probe-process", "run_program"], &run[..], &["--plugins", GUEST_ROOT]].concat();
    assert_eq!(asked(&by_path), (2, false), "its config is not looked for");
    assert_eq!(asked(&[&by_path[..], &["--config", "shelly.yaml"]].concat()), (0, false));
    assert_eq!(asked(&by_id), (2, true));
    assert_eq!(asked(&[&by_id[..], &["--trust"]].concat()), (0, false));
}

/// An effect and a provider that want a folder which they never read.
fn place_of_readers() -> Place {
    let place = Place::untrusted();
    fs::create_dir_all(place.path().join("data/docs")).unwrap();
    place.file("shelly.yaml", "plugin_dirs: [plugins]\n");
    place.file("step.yaml", "messages: [{text: hello}]\n");
    let wants = "[wants]\nfiles = \"read\"\n";
    let effect = format!("kinds = [\"effect\"]\n{wants}[effect]\nphases = [\"before-model\"]\n");
    place.plugin_bytes("looks", &effect, &Guest::of(&["effect"]).component());
    place.plugin_bytes("says", &format!("kinds = [\"provider\"]\n{wants}"), &Guest::of(&["provider"]).component());
    place
}

#[test]
fn steps_and_requests_find_plugins_and_folders() {
    let place = place_of_readers();
    for command in [&["plugin", "step", "looks", "step.yaml"][..], &["plugin", "complete", "says", "step.yaml"]] {
        let run = |more: &[&str]| place.run(&[command, more].concat());
        let ran = run(&[]);
        assert!(ran.code == 2 && ran.stderr.contains("are not trusted yet"), "{}", ran.shown());
        for found in [&["--trust"][..], &["--plugins", "plugins"], &["--config", "shelly.yaml"]] {
            let ran = run(found);
            assert_eq!(ran.code, 0, "{found:?}: {}", ran.shown());
            assert!(ran.stderr.contains("grant `--grant 'files: ["), "{}", ran.shown());
            let grant = [found, &["--grant", "files: [{path: docs}]"]].concat();
            let ran = run(&grant);
            assert!(ran.code == 3 && ran.stderr.contains("which cannot be opened"), "{}", ran.shown());
            let ran = run(&[&grant[..], &["--dir", "data"]].concat());
            assert!(ran.code == 0 && !ran.stderr.contains("fewer capabilities"), "{}", ran.shown());
        }
    }
}

/// A command that the page shows, with the lines that it is shown to print.
type ShownCommand = (String, Vec<String>);

/// The files and the commands of the page.
fn documented() -> (Vec<(String, String)>, Vec<ShownCommand>) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/trying-plugins.md");
    let page = fs::read_to_string(page).unwrap();
    let (mut files, mut commands) = (Vec::new(), Vec::<ShownCommand>::new());
    for block in page.split("```").skip(1).step_by(2) {
        let (language, text) = block.split_once('\n').unwrap();
        match (language, text.strip_prefix("# ")) {
            ("yaml", Some(named)) => files.push((named.lines().next().unwrap().to_owned(), text.to_owned())),
            ("console", _) => {
                for line in text.lines() {
                    match (line.strip_prefix("$ "), commands.last_mut()) {
                        (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
                        (None, Some((_, lines))) => lines.push(line.to_owned()),
                        (None, None) => panic!("{line}"),
                    }
                }
            }
            _ => {}
        }
    }
    (files, commands)
}

#[cfg(unix)]
#[test]
fn documented_trials_print_what_the_page_shows() {
    let place = crate::examples::repository();
    let (files, commands) = documented();
    assert!(files.len() >= 2 && commands.len() >= 6, "{commands:?}");
    files.iter().for_each(|(name, text)| drop(place.file(name, text)));
    let plain = place.command(&[]);
    let environment: BTreeMap<_, _> = plain.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
    let path = std::env::join_paths([place.path().join("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
    for (command, lines) in commands {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &command]).current_dir(place.path()).env_clear().envs(&environment).env("PATH", &path);
        let ran = place.ran(shell.stdin(std::process::Stdio::null()).output().unwrap());
        let failed = lines.iter().any(|line| line.starts_with("error: "));
        assert_eq!(ran.code != 0, failed, "{command}: {}", ran.shown());
        let printed: Vec<_> = ran.stdout.lines().chain(ran.stderr.lines()).collect();
        // The figures differ each time.
        for line in lines.iter().filter(|line| !line.starts_with("1 call: ")) {
            assert!(printed.contains(&line.as_str()), "{command} does not print `{line}`: {}", ran.shown());
        }
    }
}
