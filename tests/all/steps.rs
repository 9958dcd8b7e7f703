//! Effects and middleware as a config names them: found, ordered, granted, called.

use serde_json::{Value, json};

use crate::{PLUGIN_ROOT, support::Place};

const OFFLINE: &str = "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n";

/// Returns the output of `config check` for the first agent.
fn checked(place: &Place, config: &str) -> Value {
    place.file("c.yaml", config);
    let ran = place.run(&["config", "check", "--config", "c.yaml", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    serde_json::from_str::<Value>(&ran.stdout).unwrap()["config"]["agents"][0].clone()
}

/// Returns the error of `config check` for a config that must be refused.
fn refused(place: &Place, config: &str) -> String {
    place.file("c.yaml", config);
    let ran = place.run(&["config", "check", "--config", "c.yaml"]);
    assert_ne!(ran.code, 0, "{}", ran.shown());
    ran.stderr
}

#[test]
fn step_kind_is_found_and_granted_what_it_wants() {
    let place = Place::new();
    let agent = checked(&place, &format!("{OFFLINE}agents: [{{name: a, effects: [progress, {{kind: loop_detect}}]}}]"));
    let powers = |at: usize| agent["effects"][at]["powers"].clone();
    assert_eq!((agent["effects"][0]["kind"].clone(), powers(0)), ("progress".into(), json!(["note"])));
    assert_eq!(agent["effects"][1]["kind"], "loop-detect");
    assert_eq!(powers(1), json!(["see-messages", "see-arguments", "note", "stop"]));
    let listed = place.run(&["plugin", "list"]);
    assert!(listed.code == 0 && listed.stdout.contains("\nprogress "), "{}", listed.shown());
    // What is said holds.
    let agent = checked(
        &place,
        &format!(
            "{OFFLINE}agents: [{{name: a, effects: [{{kind: loop-detect, powers: [note]}}, {{kind: progress, powers: []}}]}}]"
        ),
    );
    assert_eq!((&agent["effects"][0]["powers"], &agent["effects"][1]["powers"]), (&json!(["note"]), &json!([])));
    // The same plugin in a folder of the project is somebody else's: it is used only if its directory is named.
    copy(&format!("{PLUGIN_ROOT}/progress"), &place.path().join(".shelly/plugins/progress"));
    for (named, powers) in [("", json!(["note"])), ("plugin_dirs: [.shelly/plugins]\n", json!([]))] {
        let agent = checked(&place, &format!("{named}{OFFLINE}agents: [{{name: a, effects: [progress]}}]"));
        assert_eq!(agent["effects"][0]["powers"], powers, "{named}");
    }
}

fn copy(from: &str, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn config_check_shows_the_step_order() {
    let place = Place::new();
    let agent = checked(
        &place,
        &format!(
            "{OFFLINE}agents:\n  - name: a\n    effects: [progress, reflection]\n    \
             middleware: [logger, redact, {{kind: timeout, params: {{time: 5s}}}}]\n    plugins: {{loop-detect: }}\n"
        ),
    );
    assert_eq!(
        agent["order"],
        json!({"effects": ["progress", "reflection", "loop-detect"], "runs": ["logger", "redact", "timeout"],
               "requests": [], "calls": []})
    );
    assert_eq!(agent["middleware"][2]["params"]["time"], "5s");
}

#[test]
fn plugin_in_two_lists_has_each_role_by_its_own_list() {
    let place = Place::new();
    place.file("notes.txt", "one two three");
    let effects_of = |lists: &str| {
        let tools = "count-text: , read-files: {files: [{path: .}]}";
        place.file("c.yaml", format!("{OFFLINE}agents: [{{name: a, {}}}]", lists.replace("TOOLS", tools)));
        let ran = place.run(&["run", "--config", "c.yaml", "--output", "events", "How many words are in notes.txt?"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let events = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_effects = events.filter(|event| event["event"].as_str().is_some_and(|name| name.starts_with("effect_")));
        (of_effects.map(|event| event["event"].to_string()).collect::<Vec<_>>(), ran.shown())
    };
    let step = "effects: [{kind: progress, params: {interval: 1}}]";
    let (alone, warned) = effects_of(&format!("{step}, plugins: {{TOOLS}}"));
    assert!(!alone.is_empty() && alone.iter().all(|event| event == "\"effect_edited\""), "{alone:?}");
    assert!(!warned.contains("has no effect"), "{warned}");
    let (both, warned) = effects_of(&format!("{step}, plugins: {{progress: , TOOLS}}"));
    assert_eq!(both, alone);
    let says = "agents.a.plugins.progress: has no effect, because the entry under `effects` applies; \
                remove `progress` from `plugins`";
    assert!(warned.contains(says), "{warned}");

    // So it is with what stands around runs, and `config check` says the same.
    let config = format!("{OFFLINE}agents: [{{name: a, middleware: [redact], plugins: {{redact: }}}}]");
    assert_eq!(checked(&place, &config)["order"]["runs"], json!(["redact"]));
    let ran = place.run(&["config", "check", "--config", "c.yaml"]);
    assert!(
        ran.stderr.contains("agents.a.plugins.redact: has no effect, because the entry under `middleware`"),
        "{}",
        ran.shown()
    );
}

#[test]
fn effect_under_plugins_is_warned_of() {
    let place = Place::new();
    place.file("c.yaml", format!("{OFFLINE}agents: [{{name: a, plugins: {{progress: }}}}]"));
    let says = "plugin `progress` is an effect and has fewer powers here than it requests; move it from `plugins` to \
                agents.a.effects, as `{kind: progress, powers: [note]}`";
    for command in [&["config", "check", "--config", "c.yaml"][..], &["run", "--config", "c.yaml", "Hello"]] {
        let ran = place.run(command);
        assert!(ran.code == 0 && ran.stderr.contains(says), "{}", ran.shown());
    }
    // What it is told to write works.
    place.file("c.yaml", format!("{OFFLINE}agents: [{{name: a, effects: [{{kind: progress, powers: [note]}}]}}]"));
    let ran = place.run(&["config", "check", "--config", "c.yaml"]);
    assert!(ran.code == 0 && !ran.stderr.contains("is an effect"), "{}", ran.shown());
}

#[test]
fn invalid_step_is_reported() {
    let place = Place::new();
    let of = |agent: &str| format!("{OFFLINE}agents: [{{name: a, {agent}}}]");
    for (agent, says) in [
        ("effects: [progres]", "there is no plugin `progres`"),
        ("effects: [loop_detector]", "did you mean `loop-detect`?"),
        ("middleware: [timout]", "did you mean `timeout`?"),
        ("effects: [{kind: compact, params: {treshold: 0.5}}]", "there is no param `treshold`"),
        ("effects: [{kind: compact, params: {treshold: 0.5}}]", "did you mean `threshold`?"),
        ("plugins: {count-text: {params: {a: 1}}}", "there are none; remove the name"),
        ("effects: [redact]", "plugin `redact` is not an effect; its kinds are"),
        ("middleware: [progress]", "plugin `progress` is not middleware; its kinds are effect"),
        ("effects: [state_machine]", "plugin `state-machine` is not an effect; its kinds are coordinator"),
        ("middleware: [state_machine]", "plugin `state-machine` is not middleware; its kinds are coordinator"),
        ("plugins: {state-machine: }", "plugin `state-machine` is not a plugin for agents; its kinds are coordinator"),
        ("plugins: {state-machine: }", "members: […], coordinator: state-machine}]"),
        ("effects: [{params: {}}]", "the key `kind` is missing"),
        ("effects: [{kind: progress, threshold: 1}]", "there is no key `threshold`"),
        ("effects: [[progress]]", "is not"),
        ("middleware: [timeout]", "agents.a.middleware.timeout: missing field `time`; write `params: {time: 60s}`"),
        ("middleware: [{kind: timeout, params: {time: 0s}}]", "must be more than 0"),
        (
            "middleware: [{kind: timeout, params: {time: 1s}, powers: [note]}]",
            "a step of the host has only the keys `kind` and `params`",
        ),
        ("middleware: [{kind: logger, params: {level: debug}}]", "agents.a.middleware.logger: has no params"),
        ("middleware: [budget]", "agents.a.middleware.budget: no bound is set"),
        ("middleware: [{kind: budget, params: {tokens: 0}}]", "a budget of 0 allows nothing"),
        ("options: {context_threshold: 1.5}", "must be at least 0 and less than 1, as a share of the model's window"),
        ("effects: [{kind: progress, models: [nobody]}]", "there is no model `nobody`"),
        ("effects: [../../evil]", "there is no plugin `../../evil`"),
    ] {
        let told = refused(&place, &of(agent));
        assert!(told.contains(says), "{agent}: {told}");
    }
    let billed = of("middleware: [{kind: budget, params: {usd: 1}}]")
        .replace("plugin: offline", "http: ['http://h'], plugin: offline");
    let told = refused(&place, &billed);
    assert!(told.contains("agents.a.middleware.budget.usd limits the cost"), "{told}");
}

#[test]
fn effect_waiting_for_an_unknown_window_is_warned_of() {
    let place = Place::new();
    let says = "agents.a.effects: the model's context window is unknown, so `compact` may have no effect";
    for (model, effects, is_told) in
        [("", "[compact, progress]", true), ("", "[progress]", false), (", context_window: 8000", "[compact]", false)]
    {
        let model = format!("{{name: m, kind: plugin, plugin: offline-model{model}}}");
        place.file("c.yaml", format!("providers: [{model}]\nagents: [{{name: a, effects: {effects}}}]"));
        for command in [&["config", "check", "--config", "c.yaml"][..], &["run", "--config", "c.yaml", "Hello"]] {
            let ran = place.run(command);
            assert_eq!(ran.stderr.contains(says), is_told, "{}", ran.shown());
        }
    }
}

#[test]
fn another_model_is_optional_for_compact() {
    let place = Place::new();
    for models in ["", ", models: [offline]"] {
        let agent = format!("{OFFLINE}agents: [{{name: a, effects: [{{kind: compact{models}}}]}}]");
        place.file("c.yaml", agent);
        let ran = place.run(&["config", "check", "--config", "c.yaml"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        for says in ["has fewer capabilities than it requests", "does not request"] {
            assert!(!ran.stderr.contains(says), "{}", ran.shown());
        }
    }
}

#[test]
fn host_middleware_wraps_runs() {
    let place = Place::new();
    let run = |middleware: &str| {
        place.file("c.yaml", format!("{OFFLINE}agents: [{{name: a, middleware: [{middleware}]}}]"));
        place.ran(place.command(&["run", "--config", "c.yaml", "Hello"]).env("SHELLY_LOG", "info").output().unwrap())
    };
    let ran = run("logger, recovery, {kind: timeout, params: {time: 1m}}, {kind: budget, params: {tokens: 100000}}");
    assert!(ran.code == 0 && ran.stderr.contains("begins") && ran.stderr.contains("answers"), "{}", ran.shown());
    let ran = run("{kind: budget, params: {tokens: 1}}");
    assert!(ran.code == 1 && ran.stderr.contains("the budget of 1 tokens"), "{}", ran.shown());
}

#[test]
fn known_window_adds_default_effects() {
    let place = Place::new();
    let model = "providers: [{name: m, kind: openai, model: x, context_window: 8000}]\n";
    let kinds = |agent: &Value| {
        let kinds = agent["effects"].as_array().into_iter().flatten();
        kinds.map(|step| step["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let agent = checked(&place, &format!("{model}agents: [{{name: a, options: {{context_threshold: 0.3}}}}]"));
    assert_eq!(kinds(&agent), ["trim-tool-results", "observation-mask", "compact"]);
    assert_eq!(agent["effects"][1]["params"], json!({"threshold": 0.5}));
    assert_eq!(agent["effects"][2]["params"], json!({"threshold": 0.3}));
    assert_eq!(agent["order"]["effects"], json!(["observation-mask", "compact", "trim-tool-results"]));
    let agent = checked(&place, &format!("{model}agents: [{{name: a}}]"));
    assert_eq!(agent["effects"][2]["params"], json!({"threshold": 0.8}));
    // Who names some has those, and who has something of the kind needs none.
    for agent in ["effects: []", "plugins: {sliding-window: }", "effects: [progress]"] {
        let agent = checked(&place, &format!("{model}agents: [{{name: a, {agent}}}]"));
        assert!(!kinds(&agent).contains(&"compact".to_owned()), "{agent}");
    }
    // How much its model takes a server says, or a refusal; a plugin says nothing of it.
    for (model, has_effects) in [
        ("kind: ollama, model: x", true),
        ("kind: openai, base_url: 'http://127.0.0.1:9', model: x", true),
        ("kind: openai, model: x, context_window: 0", false),
        ("kind: plugin, plugin: offline-model", false),
    ] {
        let agent = checked(&place, &format!("providers: [{{name: m, {model}}}]\nagents: [{{name: a}}]"));
        assert_eq!(!agent["effects"].is_null(), has_effects, "{model}");
    }
}

#[test]
fn default_effects_need_no_consent() {
    let place = Place::untrusted();
    let model =
        "providers: [{name: m, kind: openai, base_url: 'http://127.0.0.1:9', model: x, context_window: 8000}]\n";
    let lines = |agent: &str| {
        place.file("shelly.yaml", format!("{model}agents: [{{name: a, {agent}}}]"));
        place.run(&["config", "check"]).stderr
    };
    let none = lines("description: d");
    assert!(!none.contains("compact") && !none.contains("guarded"), "{none}");
    let named = lines("effects: [compact]");
    for says in [
        "the plugin `compact`, for the agent `a`, as its effect\n",
        "+ may replace or remove messages (power `rewrite`)",
    ] {
        assert!(named.contains(says), "{says}: {named}");
    }
    assert!(!named.contains("sha256"), "it came with the host: {named}");
    let guard =
        |params: &str| lines(&format!("middleware: [{{kind: tool_policy, params: {{{params}}}, on_failure: skip}}]"));
    let (ask, allow) = (guard("default: ask"), guard("default: allow"));
    assert!(ask.contains(r#"+ has the params `{"default":"ask"}`"#) && ask.contains("as its middleware\n"), "{ask}");
    assert!(ask.contains("+ may fail, and the run continues without it") && ask != allow, "{ask}");
}

#[test]
fn default_effects_never_block_an_agent_start() {
    let place = Place::new();
    place.file("a.txt", "one two three");
    let run = |effects: &str| {
        place.file(
            "c.yaml",
            format!(
                "providers: [{{name: offline, kind: plugin, plugin: offline-model, context_window: 100000}}]\n\
                 agents:\n  - {{name: lead, options: {{max_delegation_depth: 1}}, delegable: {{grant: {{files: [{{path: .}}]}}}}}}\n  \
                 - {{name: reader, description: reads files and counts words, {effects} plugins: {{read-files: {{files: [{{path: ., \
                 as: .}}]}}, count-text: }}}}\n"
            ),
        );
        let task = "How many words are in a.txt, and how many lines are in a.txt?";
        place.run(&["run", "--config", "c.yaml", "--plugins", PLUGIN_ROOT, task])
    };
    let ran = run("");
    assert!(ran.code == 0 && ran.stdout.contains('3'), "{}", ran.shown());
    assert!(ran.stderr.contains("agent `reader` runs without `compact`"), "{}", ran.shown());
    let ran = run("effects: [compact],");
    assert!(!ran.stdout.contains('3') && ran.shown().contains("its guard `compact`"), "{}", ran.shown());
}
