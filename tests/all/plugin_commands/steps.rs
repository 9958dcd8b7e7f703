//! `plugin step` with effects, middleware and coordinators.

use serde_json::{Value, json};

use super::{guest_folder, parsed, shipped};
use crate::{PLUGIN_ROOT, support::Place};

/// Calls a plugin for a step with this input. Returns the JSON value that is printed.
fn step(place: &Place, folder: &str, input: &str, more: &[&str]) -> (i32, Value) {
    place.file("step.yaml", input);
    let ran = place.run(&[&["plugin", "step", folder], more, &["step.yaml", "--output", "json"]].concat());
    (ran.code, parsed(&ran))
}

#[test]
fn effect_edits_are_applied_within_its_powers() {
    let place = Place::new();
    place.file("step.yaml", "messages: [{text: hello}]\n");
    let hooks = guest_folder("probe-hooks");
    let words = ["plugin", "step", &hooks, "--kind", "effect", "--params", "{effect: note, text: noted}", "step.yaml"];
    let ran = place.run(&[&words[..], &["--grant", "powers: [note]"]].concat());
    let decision = parsed(&ran);
    let note = json!({"role": "user", "sender": "probe-hooks", "text": "noted", "meta": {"shelly.note": "true"}});
    let expected = json!({
        "decision": "edits",
        "edits": [{"edit": "note", "text": "noted"}],
        "messages": [{"role": "user", "text": "hello"}, note],
        "state": "",
        "wake": null,
    });
    assert_eq!((ran.code, decision), (0, expected), "{}", ran.shown());
    // The powers that it wants and lacks are named, in the form in which they can be granted.
    assert!(
        ran.stderr.contains("has fewer capabilities than it requests; grant `--grant 'powers: ["),
        "{}",
        ran.shown()
    );
    let json = parsed(&place.run(&[&words[..], &["--output", "json"]].concat()));
    let edit = &json["decision"]["edits"][0];
    assert!(edit["refused"].as_str().unwrap().contains("power `note` is not granted"), "{json}");
    assert!(json["difference"].is_null() && json["decision"]["messages"].is_null(), "{json}");
    assert_eq!((&json["kind"], &json["figures"]["outcome"]), (&json!("effect"), &json!("ok")));
}

#[test]
fn effect_sees_the_conversation_of_its_input() {
    let place = Place::new();
    let input = "
phase: after-model
tools: [echo, {name: read, description: Reads.}]
messages:
  - {role: system, text: Be brief.}
  - {text: hello, sender: ada}
  - {text: I call., calls: [{name: echo, arguments: {a: 1}}]}
";
    let grant = "powers: [see-messages, see-arguments, see-results, note]";
    let see = ["--kind", "effect", "--params", "{effect: see}", "--grant", grant];
    let (code, json) = step(&place, &guest_folder("probe-hooks"), input, &see);
    let text = json["decision"]["edits"][0]["text"].as_str().unwrap();
    assert_eq!(code, 0, "{json}");
    for part in ["tools echo,read", "text Be brief.", "text hello", "call echo {\"a\":1}"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Without its powers the texts are blank, as in a run.
    let blank = ["--kind", "effect", "--params", "{effect: see}", "--grant", "powers: [note]"];
    let (_, json) = step(&place, &guest_folder("probe-hooks"), input, &blank);
    assert!(!json["decision"]["edits"][0]["text"].as_str().unwrap().contains("hello"), "{json}");
    // The state goes from one step to the next.
    let count = |state: &str| {
        let input = format!("messages: [{{text: x}}]\n{state}");
        let words = ["--kind", "effect", "--params", "{effect: count}", "--grant", "powers: [note]"];
        step(&place, &guest_folder("probe-hooks"), &input, &words).1["decision"].clone()
    };
    let first = count("");
    let second = count(&format!("state: {}", first["state"]));
    assert!(second["edits"][0]["text"].as_str().unwrap().starts_with("count 2 in iteration 0"), "{second}");
    let replaced = "messages: [{text: x}, {calls: [{name: a}]}, {results: [{text: long}]}]";
    let words = ["--kind", "effect", "--params", "{effect: replace-result, text: short}", "--grant"];
    let words = [&words[..], &["powers: [see-messages, see-results, edit-results]"]].concat();
    let (_, json) = step(&place, &guest_folder("probe-hooks"), replaced, &words);
    assert_eq!(json["decision"]["messages"][2]["results"][0], json!({"call": "call-1", "text": "short"}), "{json}");
    assert!(json["difference"].as_str().unwrap().contains("-    long\n+    short\n"), "{json}");
}

#[test]
fn kind_of_a_step_is_named_only_among_several() {
    let place = Place::new();
    place.file("step.yaml", "messages: [{text: hello}]\n");
    let hooks = guest_folder("probe-hooks");
    let ran = place.run(&["plugin", "step", &hooks, "step.yaml"]);
    let says = "plugin `probe-hooks` has several kinds with steps: effect, run-middleware";
    assert!(ran.code == 2 && ran.stderr.contains(says) && ran.stderr.contains("--kind effect"), "{}", ran.shown());
    let ran = place.run(&[
        "plugin",
        "step",
        &hooks,
        "step.yaml",
        "--kind",
        "run-middleware",
        "--params",
        "{middleware: answer}",
    ]);
    assert_eq!(
        parsed(&ran)["before"],
        json!({"decision": "answer", "reply": {"role": "assistant", "text": "answered"}})
    );
    let ran = place.run(&["plugin", "step", &hooks, "step.yaml", "--kind", "coordinator"]);
    assert!(ran.code == 2 && ran.stderr.contains("is not of kind `coordinator`"), "{}", ran.shown());
    for (id, command) in [("probe", "plugin call"), ("probe-http", "plugin call")] {
        let ran = place.run(&["plugin", "step", &guest_folder(id), "step.yaml"]);
        assert!(
            ran.code == 2 && ran.stderr.contains("has no steps") && ran.stderr.contains(command),
            "{}",
            ran.shown()
        );
    }
    let ran = place.run(&["plugin", "step", &shipped("scripted-model"), "step.yaml"]);
    assert!(ran.code == 2 && ran.stderr.contains("plugin complete"), "{}", ran.shown());
    place.file("wrong.yaml", "messages: [{txt: hello}]\n");
    let ran = place.run(&["plugin", "step", &hooks, "wrong.yaml", "--kind", "effect"]);
    let says = "there is no key `txt` (wrong.yaml, line 1";
    assert!(ran.code == 2 && ran.stderr.contains(says) && ran.stderr.contains("`text`"), "{}", ran.shown());
    place.file("open.yaml", "messages: [{text: hello}, {calls: [{name: a}]}]\n");
    let ran = place.run(&["plugin", "step", &hooks, "open.yaml", "--kind", "effect"]);
    assert!(ran.code == 2 && ran.stderr.contains("call `call-1` has no result (open.yaml)"), "{}", ran.shown());
    let ran = place.run(&["plugin", "step", &hooks, "nowhere.yaml", "--kind", "effect"]);
    assert!(ran.code == 2 && ran.stderr.contains("cannot read the input from nowhere.yaml"), "{}", ran.shown());
    place.file("late.yaml", "phase: after-model\n");
    let trim = ["plugin", "step", &shipped("sliding-window"), "late.yaml"];
    let ran = place.run(&trim);
    assert!(ran.code == 2 && ran.stderr.contains("the phases before-model"), "{}", ran.shown());
}

#[test]
fn run_middleware_is_called_before_and_after() {
    let place = Place::new();
    let hooks = guest_folder("probe-hooks");
    let state = ["--kind", "run-middleware", "--params", "{middleware: state}"];
    let both = "messages: [{text: task}]\noutcome: {reply: {text: done}, usage: {output_tokens: 3}}\nrun: {agent: ada, depth: 2}";
    let (code, json) = step(&place, &hooks, both, &state);
    let decision = json!({
        "before": {"decision": "proceed", "state": "ada 2 1"},
        "after": {"decision": "replace", "reply": {"role": "assistant", "text": "ada 2 1"}},
    });
    assert_eq!((code, &json["decision"]), (0, &decision), "{json}");
    assert!(json["difference"].as_str().unwrap().contains("-  done\n+  ada 2 1\n"), "{json}");
    let (_, json) = step(&place, &hooks, "outcome: {reply: {text: done}}\nstate: kept", &state);
    assert_eq!(json["decision"].as_object().unwrap().len(), 1, "with a state, `after` alone: {json}");
    assert_eq!(json["decision"]["after"]["reply"]["text"], "kept");
    let (_, json) = step(
        &place,
        &hooks,
        "messages: [{text: task}]",
        &["--kind", "run-middleware", "--params", "{middleware: change-input}"],
    );
    assert_eq!(json["decision"]["before"]["messages"], json!([{"role": "user", "text": "changed"}]), "{json}");
    let guard = ["--params", "{deny: [secret], retries: 1}"];
    let (_, json) = step(&place, &shipped("output-guardrail"), "outcome: {reply: {text: a secret}}", &guard);
    assert_eq!(
        (&json["decision"]["after"]["decision"], &json["figures"]["calls"]),
        (&json!("retry"), &json!(2)),
        "{json}"
    );
    let last = "outcome: {reply: {text: a secret}, attempt: 1}";
    let (code, json) = step(&place, &shipped("output-guardrail"), last, &guard);
    assert_eq!(
        (code, &json["decision"]["after"]["decision"]),
        (0, &json!("reject")),
        "a decision is no failure: {json}"
    );
    for (input, says) in [
        ("state: x", "`state` is for `after`"),
        ("outcome: {}", "outcome: there is no outcome"),
        ("outcome: {reply: {text: a}, error: {message: b}}", "`reply` and `error` are both set"),
        ("messages: [{calls: [{name: a}]}]", "neither calls nor results"),
    ] {
        let (code, json) = step(&place, &hooks, input, &state);
        assert!(code == 2 && json["error"]["message"].as_str().unwrap().contains(says), "{input}: {json}");
    }
    let failing = ["--kind", "run-middleware", "--params", "{middleware: panic}"];
    let (code, json) = step(&place, &hooks, "outcome: {error: {kind: timeout, message: late}}", &failing);
    assert_eq!((code, &json["decision"]["before"]["decision"]), (3, &json!("proceed")), "{json}");
    assert!(json["error"]["message"].as_str().unwrap().contains("crashed"), "{json}");
}

#[test]
fn model_middleware_rewrites_what_it_may_see() {
    let place = Place::new();
    let key = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD";
    let input = format!("request: {{messages: [{{text: 'the key is {key}'}}], tools: [echo]}}");
    let grant = ["--grant", "powers: [see-messages, see-arguments, see-results, rewrite]"];
    let (code, json) = step(&place, &shipped("redact-requests"), &input, &grant);
    let request = &json["decision"]["before"]["request"];
    assert_eq!(code, 0, "{json}");
    assert_eq!(request["messages"][0]["text"], "the key is [redacted]", "{json}");
    assert_eq!((&request["tools"][0]["name"], &json["figures"]["imports"]["outgoing"]), (&json!("echo"), &json!(1)));
    assert!(json["difference"].as_str().unwrap().contains("+  the key is [redacted]\n"), "{json}");
    let (_, json) = step(&place, &shipped("redact-requests"), &format!("{input}\nreply: {{text: Yes.}}"), &grant);
    assert_eq!(json["decision"]["after"], json!({"decision": "accept"}), "{json}");
    let (code, json) = step(&place, &shipped("redact-requests"), &input, &[]);
    assert!(code == 1 && json["error"]["kind"] == "denied", "{json}");
    // A route to a model that was not granted is refused as in a run.
    let retry = "request: {model: own, messages: [{text: x}]}\nerror: {kind: unavailable, message: gone, after_ms: 10}";
    let (code, json) = step(&place, &shipped("retry"), retry, &[]);
    assert_eq!((code, &json["decision"]["after"]["decision"]), (0, &json!("retry")), "{json}");
}

#[test]
fn tool_middleware_decides_on_a_call_and_its_result() {
    let place = Place::new();
    let rules = ["--params", "{rules: [{tools: 'rm_*', action: deny, reason: too much}], default: allow}"];
    let (code, json) = step(&place, &shipped("tool-policy"), "call: {name: rm_all, arguments: {path: /}}", &rules);
    let before = &json["decision"]["before"];
    assert_eq!((code, &before["decision"]), (0, &json!("deny")), "{json}");
    assert!(before["reason"].as_str().unwrap().contains("too much"), "{json}");
    let outcome = "call: {name: ls}\noutcome: {text: 'the key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD'}";
    let (_, json) = step(&place, &shipped("redact-results"), outcome, &[]);
    assert_eq!(json["decision"]["before"]["decision"], "allow", "{json}");
    let content = json!({"decision": "replace", "content": [{"text": "the key is [redacted]"}]});
    assert_eq!(json["decision"]["after"], content, "{json}");
    // A call that is denied has no result to look at.
    let (_, json) = step(&place, &shipped("tool-policy"), "call: {name: rm_all}\noutcome: {text: x}", &rules);
    assert!(json["decision"]["after"].is_null(), "{json}");
}

#[test]
fn coordinator_says_who_works_next() {
    let place = Place::new();
    let states =
        ["--params", "{states: [{name: draft, members: [writer], task: Write.}]}", "--grant", "powers: [see-messages]"];
    let input = "members: [{name: writer, role: author}, {name: critic}]\nmessages: [{text: A poem.}]";
    let (code, json) = step(&place, &shipped("state-machine"), input, &states);
    let decision = &json["decision"];
    assert_eq!((code, &decision["decision"]), (0, &json!("run")), "{json}");
    assert_eq!(decision["assignments"], json!([{"member": "writer", "task": "Write."}]));
    let next = format!("{input}\nstep: 1\nreports: [{{member: writer}}]\nstate: {}", decision["state"]);
    let with_reply =
        next.replace("[{text: A poem.}]", "[{text: A poem.}, {role: assistant, sender: writer, text: Roses.}]");
    let (_, json) = step(&place, &shipped("state-machine"), &with_reply, &states);
    assert_eq!(json["decision"]["decision"], "done", "{json}");
    let who = ["--params", "{does: who}"];
    let (_, json) = step(&place, &guest_folder("probe-team"), "members: [{name: a, role: b, description: c}]", &who);
    assert_eq!(json["decision"]["answer"], json!([{"text": "a (b): c"}]), "{json}");
    let (code, json) = step(&place, &guest_folder("probe-team"), "", &["--params", "{does: error, text: enough}"]);
    assert_eq!((code, &json["error"]), (1, &json!({"kind": "exhausted", "message": "enough"})), "{json}");
}

#[test]
fn named_model_answers_the_question_of_a_step() {
    let place = Place::new();
    let script = "{name: script, kind: plugin, plugin: scripted-model, params: {replies: [ada], at_end: repeat}}";
    let config = format!("plugin_dirs: ['{PLUGIN_ROOT}']\nproviders: [{script}]\n");
    place.file("models.yaml", config);
    let team = guest_folder("probe-team");
    let input = "members: [{name: ada}]\nmessages: [{text: go}]";
    let asks = ["--params", "{does: ask}", "--grant", "powers: [ask-model]"];
    let (code, json) = step(&place, &team, input, &asks);
    assert_eq!((code, &json["decision"]["decision"]), (0, &json!("ask-model")), "{json}");
    assert_eq!(json["decision"]["request"]["messages"][0]["text"], "who after 0 steps?");
    let own = [&asks[..], &["--model", "script", "--config", "models.yaml"]].concat();
    let (code, json) = step(&place, &team, input, &own);
    assert_eq!((code, &json["decision"]["assignments"][0]["member"]), (0, &json!("ada")), "{json}");
    assert_eq!(json["asked"][0]["outcome"]["reply"]["text"], "ada", "{json}");
    assert_eq!(json["figures"]["calls"], 3, "two of the coordinator, one of the model: {json}");
    // An answer can also be written down.
    let (_, json) = step(&place, &team, &format!("{input}\nstate: '?'\nreply: {{text: ada}}"), &asks);
    assert_eq!(json["decision"]["assignments"][0]["member"], "ada", "{json}");
    // Powers and models that were not granted are missing as in a run.
    let powerless = ["--params", "{does: ask}", "--model", "script", "--config", "models.yaml"];
    let (code, json) = step(&place, &team, input, &powerless);
    assert!(code == 1 && json["error"]["message"].as_str().unwrap().contains("`ask-model` is not granted"), "{json}");
    let other = [&own[..2], &["--grant", "powers: [ask-model]"], &own[4..]].concat();
    let other: Vec<_> =
        other.iter().map(|word| if *word == "{does: ask}" { "{does: ask, model: other}" } else { word }).collect();
    let (code, json) = step(&place, &team, input, &other);
    assert!(code == 1 && json["error"]["message"].as_str().unwrap().contains("--grant 'models: [other]'"), "{json}");
    let (code, json) =
        step(&place, &team, input, &[&asks[..], &["--model", "nobody", "--config", "models.yaml"]].concat());
    assert!(code == 2 && json["error"]["message"].as_str().unwrap().contains("there is no model `nobody`"), "{json}");
    let endless = [
        "--params",
        "{does: ask-for-ever}",
        "--grant",
        "powers: [ask-model]",
        "--model",
        "script",
        "--config",
        "models.yaml",
    ];
    let (code, json) = step(&place, &team, input, &endless);
    assert!(code == 1 && json["error"]["kind"] == "exhausted", "{json}");
}
