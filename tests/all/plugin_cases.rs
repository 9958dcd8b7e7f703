//! `plugin test`: the cases of the plugins of this repository, and cases with plugins of tests.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    GUEST_ROOT, PLUGIN_ROOT,
    hostile::guest::{self, Guest},
    support::{Place, Ran},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn shipped(id: &str) -> String {
    format!("{PLUGIN_ROOT}/{id}")
}

fn guest_folder(id: &str) -> String {
    format!("{GUEST_ROOT}/{id}")
}

/// Runs the cases in `cases.yaml`.
fn test(place: &Place, plugin: &str, more: &[&str]) -> Ran {
    place.run(&[&["plugin", "test", plugin, "--cases", "cases.yaml"], more].concat())
}

/// Returns the JSON value on standard output.
fn parsed(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.shown()))
}

/// Runs cases that must pass.
fn passes(place: &Place, plugin: &str, cases: &str) {
    place.file("cases.yaml", cases);
    let ran = test(place, plugin, &[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
}

/// Runs a case that must fail. Returns its mismatches.
fn mismatches(place: &Place, plugin: &str, case: &str) -> Vec<Value> {
    place.file("cases.yaml", case);
    let ran = test(place, plugin, &["--output", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    parsed(&ran)["cases"][0]["mismatches"].as_array().unwrap().clone()
}

/// Returns the folders `cases` of the plugins of this repository, with the ids of the plugins.
fn shipped_cases() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root().join("plugins")).unwrap().map(|entry| entry.unwrap().path());
    let with_cases = folders.filter_map(|folder| {
        let cases = folder.join("cases");
        cases.is_dir().then(|| (folder.file_name().unwrap().to_string_lossy().into_owned(), cases))
    });
    with_cases.collect()
}

#[test]
fn cases_of_shipped_plugins_pass() {
    let place = Place::new();
    let all = shipped_cases();
    assert!(all.len() >= 8, "{all:?}");
    for (id, cases) in all {
        let ran = place.run(&["plugin", "test", &shipped(&id), "--cases", cases.to_str().unwrap()]);
        assert!(ran.code == 0 && ran.stdout.contains(" passed, "), "{id}: {}", ran.shown());
        assert!(!ran.stdout.contains("FAILED"), "{id}: {}", ran.shown());
    }
}

/// Two cases of the calculator, of which the second fails.
const SUMS: &str = "
- name: right sum
  call: {tool: calculate, arguments: {expression: 1 + 1}}
  expect: {result: '2', log: []}
- name: wrong sum
  call: {tool: calculate, arguments: {expression: 1 + 1}}
  expect: {result: '3'}
";

#[test]
fn failed_case_is_shown_with_what_differs() {
    let place = Place::new();
    place.file("cases.yaml", SUMS);
    let ran = test(&place, &shipped("calculator"), &[]);
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(lines[0].starts_with("ok       right sum  "), "{}", ran.shown());
    assert!(lines[1].starts_with("FAILED   wrong sum  cases.yaml, "), "{}", ran.shown());
    assert_eq!(lines[2..7], ["  --- expect.result", "  +++ expect.result", "  @@ -1 +1 @@", "  -3", "  +2"]);
    assert!(lines[7].starts_with("2 cases: 1 passed, 1 failed, ") && lines.len() == 8, "{}", ran.shown());
    let filtered = test(&place, &shipped("calculator"), &["--filter", "right"]);
    assert!(filtered.code == 0 && filtered.stdout.contains("1 case: 1 passed, "), "{}", filtered.shown());
    let none = test(&place, &shipped("calculator"), &["--filter", "left sum"]);
    assert!(none.code == 2 && none.stderr.contains("no case has `left sum` in its name"), "{}", none.shown());

    let json = parsed(&test(&place, &shipped("calculator"), &["--output", "json"]));
    assert_eq!((&json["ok"], &json["exit_code"], &json["plugin"]), (&json!(false), &json!(1), &json!("calculator")));
    let wrong = &json["cases"][1];
    assert_eq!(
        (&wrong["name"], &wrong["ok"], &wrong["file"]),
        (&json!("wrong sum"), &json!(false), &json!("cases.yaml"))
    );
    let mismatch = &wrong["mismatches"][0];
    assert_eq!(
        (&mismatch["key"], &mismatch["expected"], &mismatch["actual"]),
        (&json!("result"), &json!("3"), &json!("2"))
    );
}

#[test]
fn junit_report_has_each_case() {
    let place = Place::new();
    place.file("cases.yaml", SUMS);
    let ran = test(&place, &shipped("calculator"), &["--output", "junit"]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    for part in [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"calculator\" tests=\"2\" failures=\"1\" time=\"",
        "<testcase classname=\"cases.yaml\" name=\"right sum\" time=\"",
        "<failure message=\"`expect.result` differs\">--- expect.result\n",
        "</testsuite>\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.shown());
    }
}

#[test]
fn update_writes_what_came_out_and_keeps_the_rest() {
    let place = Place::new();
    let cases = "\
# The sums.
- name: right sum
  call: {tool: calculate, arguments: {expression: 1 + 1}}
  expect: {result: '2'}   # stays

- name: wrong sum   # so far
  call: {tool: calculate, arguments: {expression: 1 + 1}}
  expect:
    result: '3'

- name: new sum
  call: {tool: calculate, arguments: {expression: 1 + 2}}

- name: no sum
  call: {tool: calculate, arguments: {expression: ''}}
  expect:
    result: '3'
";
    place.file("cases.yaml", cases);
    let ran = test(&place, &shipped("calculator"), &["--update"]);
    assert!(ran.code == 0 && ran.stdout.contains("4 cases: 1 passed, 3 updated, "), "{}", ran.shown());
    let written = fs::read_to_string(place.path().join("cases.yaml")).unwrap();
    let (kept, last) = written.split_once("- name: no sum\n").unwrap();
    let expected = cases.split_once("- name: no sum\n").unwrap().0.replace("result: '3'", "result: \"2\"");
    let expected = expected.replace("expression: 1 + 2}}\n", "expression: 1 + 2}}\n  expect:\n    result: \"3\"\n");
    assert_eq!(kept, expected);
    assert!(last.contains("    error:\n      kind: invalid\n      message: "), "{last}");
    let again = test(&place, &shipped("calculator"), &[]);
    assert!(again.code == 0 && again.stdout.contains("4 cases: 4 passed, "), "{}", again.shown());
    // A file that cannot be edited in place is left as it is.
    let flow = "[{name: wrong, call: {tool: calculate, arguments: {expression: 1 + 1}}, expect: {result: '3'}}]\n";
    place.file("cases.yaml", flow);
    let ran = test(&place, &shipped("calculator"), &["--update"]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot write `expect` of `wrong` (cases.yaml)"), "{}", ran.shown());
    assert_eq!(fs::read_to_string(place.path().join("cases.yaml")).unwrap(), flow);
}

#[test]
fn mistakes_in_cases_are_named_with_their_place() {
    let place = Place::new();
    let one = "- {name: one, call: {tool: calculate}}";
    for (cases, says) in [
        (
            "- {name: one, cal: {tool: calculate}}",
            &["there is no key `cal` (cases.yaml, line 1", "did you mean `call`?"][..],
        ),
        (
            "- {name: one, call: {tool: calc}}",
            &["there is no tool `calc` (cases.yaml, case `one`)", "available: calculate"],
        ),
        ("- {name: one, call: {tool: calculate}, params: {x: 1}}", &["`params` of the case", "case `one`"]),
        ("- {name: one, call: {tool: calculate}, grants: {confirm: true}}", &["`confirm` has no effect outside"]),
        ("- {name: one, step: {}}", &["plugin `calculator` has no steps"]),
        ("- {name: one, complete: {messages: [{text: x}]}}", &["is not of kind `provider` (cases.yaml, case `one`)"]),
        (format!("{one}\n{one}").as_str(), &["two cases have the name `one` (cases.yaml)"]),
        ("[]", &["there are no cases in the files"]),
        ("- {name: one, call: {tool: calculate}, host: {kv: {'': x}}}", &["host.kv: `` cannot be stored"]),
    ] {
        place.file("cases.yaml", cases);
        let ran = test(&place, &shipped("calculator"), &[]);
        assert_eq!(ran.code, 2, "{cases}: {}", ran.shown());
        for says in says {
            assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
        }
    }
    let ran = place.run(&["plugin", "test", &shipped("calculator"), "--cases", "nowhere"]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot read the cases in nowhere"), "{}", ran.shown());
}

#[test]
fn time_and_random_numbers_of_a_case_are_fixed() {
    let place = Place::new();
    let grants = "grants: {clock: true, random: true, files: [{path: ., as: .}]}";
    let cases = format!(
        "
- name: clock of the contract
  call: {{tool: clock}}
  {grants}
  expect: {{json: {{now: 1735689600002, before: 0, after: 1000000}}}}
- name: clock of the case
  call: {{tool: clock}}
  {grants}
  host: {{clock: 1970-01-01T00:00:01Z}}
  expect: {{json: {{now: 1002, before: 0, after: 1000000}}}}
- name: random bytes
  call: {{tool: random, arguments: {{len: 16}}}}
  {grants}
  expect: {{result: afcd1d7b39a820e2f465b9a16a9e786e}}
- name: random bytes of another seed
  call: {{tool: random, arguments: {{len: 16}}}}
  {grants}
  host: {{random: 1}}
  expect: {{result: c15c0289ec2d0a9167ec8e65a18debbe}}
"
    );
    passes(&place, &guest_folder("probe"), &cases);
    // What WASI gives is the same in each run, too.
    place.file("cases.yaml", format!("- name: world\n  call: {{tool: see}}\n  {grants}\n"));
    let written = test(&place, &guest_folder("probe-wasi"), &["--update"]);
    assert!(written.code == 0 && written.stdout.contains("1 updated"), "{}", written.shown());
    let text = fs::read_to_string(place.path().join("cases.yaml")).unwrap();
    assert!(text.contains("1735689600"), "{text}");
    let again = test(&place, &guest_folder("probe-wasi"), &[]);
    assert_eq!(again.code, 0, "{}", again.shown());
}

#[test]
fn request_without_an_answer_fails_the_case() {
    let place = Place::new();
    let case = "
- name: page
  call: {tool: fetch, arguments: {url: 'https://example.com/a'}}
  grants: {http: [https://example.com]}
  host: {http: [{url: 'https://example.com/b'}]}
  expect: {http: [{url: 'https://example.com/a'}]}
";
    let says = "no entry of `host.http` answers GET https://example.com/a; add one with this method and URL";
    for guest in ["probe-http", "probe-wasi-http"] {
        let found = mismatches(&place, &guest_folder(guest), case);
        assert_eq!(found[0]["failure"], says, "{guest}: {found:?}");
        let answered = case.replace("https://example.com/b'", "https://example.com/a', reply: {body: here}");
        let answered = answered.replace("expect: {", "expect: {contains: ['\"status\":200', '\"body\":\"here\"'], ");
        passes(&place, &guest_folder(guest), &answered);
        // The grant is checked before the answers of the case.
        let denied = answered.replace("grants: {http: [https://example.com]}", "grants: {http: [https://example.org]}");
        let denied = denied.replace("contains: ['\"status\":200', '\"body\":\"here\"'], ", "denied: is not granted, ");
        let denied = denied.replace("http: [{url: 'https://example.com/a'}]}\n", "http: []}\n");
        passes(&place, &guest_folder(guest), &denied);
    }
}

#[test]
fn models_of_a_case_answer_in_order() {
    let place = Place::new();
    let case = "
- name: model chooses
  step: {members: [{name: ada}, {name: bob}], messages: [{text: go}]}
  grants: {powers: [ask-model]}
  params: {does: ask}
  host: {models: [{reply: {text: bob}}]}
  expect: {decision: {decision: run, assignments: [{member: bob}]}}
- name: without a model the question is the decision
  step: {members: [{name: ada}], messages: [{text: go}]}
  grants: {powers: [ask-model]}
  params: {does: ask}
  expect: {decision: ask-model}
";
    passes(&place, &guest_folder("probe-team"), case);
    let endless = "
- name: asks for ever
  step: {members: [{name: ada}], messages: [{text: go}]}
  grants: {powers: [ask-model]}
  params: {does: ask-for-ever}
  host: {models: [{reply: {text: again}}]}
  expect: {error: {}}
";
    let found = mismatches(&place, &guest_folder("probe-team"), endless);
    let says = "the plugin asked a model more often than `host.models` has answers; add one";
    assert!(found.iter().any(|mismatch| mismatch["failure"] == says), "{found:?}");
}

#[test]
fn stored_values_and_changes_are_compared() {
    let place = Place::new();
    let kv = "
- name: value is kept
  call: {tool: kv_put, arguments: {key: new, value: v}}
  grants: {kv: run}
  host: {kv: {old: w, bytes: {base64: /w==}}}
  expect: {kv: {new: v, old: w, none: null, bytes: {base64: /w==}}}
- name: value of the case is read
  call: {tool: kv_get, arguments: {key: old}}
  grants: {kv: plugin}
  host: {kv: {old: w}}
  expect: {result: w}
";
    passes(&place, &guest_folder("probe-kv"), kv);
    let found = mismatches(&place, &guest_folder("probe-kv"), &kv.replace("{new: v, ", "{new: other, "));
    assert_eq!((&found[0]["key"], &found[0]["actual"]["new"]), (&json!("kv"), &json!("v")), "{found:?}");
    let changes = "
- name: changes are proposed
  call:
    tool: propose
    arguments: {says: look, changes: [{path: new.txt, write: \"hello\\n\"}, {path: there.txt}]}
  grants: {files: [{path: ., as: .}], powers: [propose-files]}
  host: {files: {there.txt: \"old\\n\"}}
  expect:
    contains: created new.txt
    changes: [{act: create, path: new.txt, added: 1}, {path: there.txt}]
    files: {new.txt: null, there.txt: \"old\\n\"}
- name: power is missing
  call: {tool: propose, arguments: {changes: [{path: new.txt, write: x}]}}
  grants: {files: [{path: ., as: .}]}
  expect: {denied: propose-files, error: {kind: denied, message: '`powers: [propose-files]` under `grants` of the case'}}
- name: folder is missing
  call: {tool: lack, arguments: {folders: [/nowhere]}}
  grants: {files: [{path: ., as: .}], powers: [propose-files]}
  expect: {denied: the folder `/nowhere` is not granted}
";
    passes(&place, &guest_folder("probe-changes"), changes);
}

#[test]
fn crash_and_limit_of_a_case_are_failures() {
    let place = Place::new();
    let all = "grants: {clock: true, random: true, files: [{path: ., as: .}]}";
    let found = mismatches(&place, &guest_folder("probe"), &format!("- name: a\n  call: {{tool: panic}}\n  {all}\n"));
    assert!(found[0]["failure"].as_str().unwrap().starts_with("the call failed (other): plugin `probe` crashed"));
    let limited = format!(
        "
- name: time is up
  call: {{tool: spin}}
  {all}
  limits: {{cpu: 200ms}}
  expect: {{error: {{kind: exhausted, message: 'limit `cpu`'}}}}
- name: failure is expected
  call: {{tool: fail, arguments: {{case: not-found}}}}
  {all}
  expect: {{error: {{kind: not_found, message: asked to fail}}, log: []}}
- name: log is compared
  call: {{tool: log, arguments: {{lines: 1, bytes: 2}}}}
  {all}
  expect: {{log: [{{level: info, message: 0 xx}}]}}
"
    );
    passes(&place, &guest_folder("probe"), &limited);
}

#[test]
fn project_is_tested_where_it_has_been_built() {
    let place = Place::new();
    let manifest = fs::read_to_string(Path::new(&shipped("calculator")).join("plugin.toml")).unwrap();
    place.file("plugin.toml", &manifest);
    place.file("cases/a.yaml", SUMS);
    place.file("cases/b.json", r#"[{"name": "b", "call": {"tool": "calculate", "arguments": {"expression": "3"}}}]"#);
    place.file("cases/notes.txt", "no cases");
    let ran = place.run(&["plugin", "test"]);
    assert!(ran.code == 2 && ran.stderr.contains("plugin `calculator` is not built"), "{}", ran.shown());
    assert!(ran.stderr.contains("shelly-host plugin build, or name"), "{}", ran.shown());
    for entry in fs::read_dir(shipped("calculator")).unwrap() {
        let file = entry.unwrap();
        let name = file.file_name().into_string().unwrap();
        place.file(&format!("build/calculator/{name}"), fs::read(file.path()).unwrap());
    }
    for words in [&["plugin", "test"][..], &["plugin", "test", "build/calculator"]] {
        let ran = place.run(words);
        assert!(ran.code == 1 && ran.stdout.contains("3 cases: 2 passed, 1 failed"), "{}", ran.shown());
    }
    let without = place.run(&["plugin", "test", &guest_folder("probe")]);
    assert!(
        without.code == 2 && without.stderr.contains("plugin `probe` has no folder `cases`"),
        "{}",
        without.shown()
    );
}

#[test]
fn cases_beside_a_plugin_are_found_by_its_id() {
    let place = Place::untrusted();
    place.file("shelly.yaml", "plugin_dirs: [plugins]\n");
    place.plugin_bytes("own", "kinds = [\"tool\"]", &Guest::tool().component());
    place.file("plugins/own/cases/a.yaml", "- {name: it answers, call: {tool: t}}\n");
    let run = |more: &[&str]| place.run(&[&["plugin", "test", "own"], more].concat());
    let ran = run(&[]);
    assert!(ran.code == 2 && ran.stderr.contains("are not trusted yet"), "{}", ran.shown());
    for found in [&["--trust"][..], &["--plugins", "plugins"], &["--config", "shelly.yaml"]] {
        let ran = run(found);
        assert!(ran.code == 0 && ran.stdout.contains("1 case: 1 passed, "), "{found:?}: {}", ran.shown());
    }
}

#[test]
fn case_grants_entries_of_a_named_config_alone() {
    let place = Place::new();
    let own = "programs: {build: {command: touch, args: [[done]]}}\n\
               credentials: [{name: hub, env: HUB_KEY, for: ['https://hub.example']}]\n";
    place.file("home/.config/shelly-host/config.yaml", own);
    place.file("own.yaml", own);
    let home = place.path().join("home");
    for grant in ["programs: [build]", "http: ['https://hub.example'], credentials: [hub]"] {
        let call = "call: {tool: calculate, arguments: {expression: 1 + 1}}";
        place.file("cases.yaml", format!("- {{name: sum, {call}, grants: {{{grant}}}, expect: {{result: '2'}}}}\n"));
        let run = |more: &[&str]| {
            let plugin = shipped("calculator");
            let arguments = [&["plugin", "test", plugin.as_str(), "--cases", "cases.yaml"], more].concat();
            place.ran(place.command(&arguments).env("HOME", &home).env("HUB_KEY", "key-of-the-hub").output().unwrap())
        };
        let unnamed = run(&[]);
        assert!(
            unnamed.code == 2 && unnamed.stderr.contains("the case `sum` grants programs or credentials"),
            "{}",
            unnamed.shown()
        );
        let named = run(&["--config", "own.yaml"]);
        assert_eq!(named.code, 0, "{}", named.shown());
    }
}

#[test]
fn hostile_text_of_a_case_is_escaped() {
    let place = Place::new();
    let mut hostile = Guest::tool().import(guest::LOG);
    let text = hostile.text("forged\x1b[2J\nok       another case");
    let hostile = hostile.on("call", &format!("(call $log (i32.const 3) {text})"));
    place.plugin_bytes("hostile", "kinds = [\"tool\"]", &hostile.component());
    place.file("cases.yaml", "- {name: \"a\\u001b[2Jb\", call: {tool: t}, expect: {log: []}}\n");
    for output in ["text", "json", "junit"] {
        let ran = test(&place, "plugins/hostile", &["--output", output]);
        assert!(ran.code == 1 && !ran.stdout.contains('\x1b'), "{}", ran.shown());
        assert!(!ran.stdout.lines().any(|line| line.starts_with("ok ")), "{}", ran.shown());
    }
}
