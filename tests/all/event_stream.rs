//! The stream that `--output events` prints: each line follows the published schema, and each event has its place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value, json};
use shelly_host::{cli::event_stream_schema, tool::InputSchema};

use crate::support::Place;

/// One kind of line, as the schema has it.
struct LineKind {
    schema: InputSchema,
    keys: BTreeSet<String>,
}

/// The kinds of lines by the name in `event`, as `docs/events.schema.json` has them. There are two results.
fn published_kinds() -> HashMap<String, Vec<LineKind>> {
    let root = event_stream_schema();
    let definitions = root["$defs"].as_object().unwrap();
    let mut kinds = HashMap::<String, Vec<LineKind>>::new();
    for line in root["oneOf"].as_array().unwrap() {
        let properties = line["properties"].as_object().unwrap();
        let name = properties["event"]["const"].as_str().unwrap().to_owned();
        let schema = InputSchema::new(&inlined(line, definitions)).unwrap_or_else(|why| panic!("{name}: {why}"));
        kinds.entry(name).or_default().push(LineKind { schema, keys: properties.keys().cloned().collect() });
    }
    kinds
}

/// Replaces references by what they refer to, for the host's own checker. It has no `prefixItems`: the length of a tuple
/// is checked.
fn inlined(schema: &Value, definitions: &Map<String, Value>) -> Value {
    match schema {
        Value::Array(list) => list.iter().map(|one| inlined(one, definitions)).collect(),
        Value::Object(map) => {
            let mut all = Map::new();
            if let Some(Value::String(target)) = map.get("$ref") {
                let name = target.strip_prefix("#/$defs/").unwrap();
                all.extend(inlined(&definitions[name], definitions).as_object().unwrap().clone());
            }
            let rest = map.iter().filter(|(key, _)| !["$ref", "prefixItems"].contains(&key.as_str()));
            all.extend(rest.map(|(key, value)| (key.clone(), inlined(value, definitions))));
            Value::Object(all)
        }
        other => other.clone(),
    }
}

/// Checks a whole stream: each line against its schema, the order of its events, and the runs that they are about. Returns
/// the lines.
pub fn checked(stdout: &str) -> Vec<Value> {
    let kinds = published_kinds();
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let name = line["event"].as_str().unwrap_or_else(|| panic!("{line}"));
        let kinds = kinds.get(name).unwrap_or_else(|| panic!("the schema has no line `{name}`"));
        let fitting: Vec<_> = kinds.iter().filter(|kind| kind.schema.check(line).is_ok()).collect();
        let why = || kinds.iter().filter_map(|kind| kind.schema.check(line).err()).collect::<Vec<_>>().join("; ");
        let [kind] = fitting[..] else { panic!("{}\n{line}", why()) };
        let unknown = line.as_object().unwrap().keys().find(|key| !kind.keys.contains(*key));
        assert_eq!(unknown, None, "the schema does not name this key: {line}");
    }
    let (first, rest) = lines.split_first().unwrap();
    let (last, events) = rest.split_last().unwrap();
    assert_eq!((&first["event"], &first["version"]), (&json!("stream_started"), &json!(1)));
    assert_eq!((&last["event"], &last["session"]), (&json!("result"), &first["session"]));
    // The agent of each run, and whether it is at work.
    let mut runs = BTreeMap::<&str, (&str, bool)>::new();
    let mut time = "";
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["sequence"], at + 1, "{event}");
        assert_eq!(event["session"], first["session"], "{event}");
        let now = event["time"].as_str().unwrap();
        assert!(time <= now && now.len() == "2026-01-02T03:04:05.678Z".len(), "{time}: {event}");
        time = now;
        let (run, parent) = (event["run"].as_str(), event["parent"].as_str());
        match (event["event"].as_str().unwrap(), run) {
            ("run_started", Some(run)) => {
                let before = runs.insert(run, (event["agent"].as_str().unwrap(), true));
                assert_eq!(before, None, "two runs have one id: {event}");
                assert_eq!(parent.is_some(), runs.len() > 1, "one run is the person's: {event}");
                assert!(parent.is_none_or(|parent| runs[parent].1), "the parent is not at work: {event}");
            }
            ("run_finished", Some(run)) => {
                let there = runs.get_mut(run).unwrap();
                assert_eq!(*there, (event["agent"].as_str().unwrap(), true), "{event}");
                there.1 = false;
            }
            (_, Some(run)) => assert!(runs.contains_key(run), "{event}"),
            (_, None) => assert!(event.get("agent").is_none(), "the event of an agent names no run: {event}"),
        }
    }
    assert!(runs.values().all(|(_, is_at_work)| !is_at_work), "{runs:?}");
    lines
}

const CONFIG: &str = "
providers:
  - name: lead-script
    kind: plugin
    plugin: scripted-model
    price: {input: 1, output: 2}
    params:
      replies:
        - calls:
            - tool: delegate
              arguments: {tasks: [{agent: helper, task: Count., context: c}, {agent: helper, task: Again., context: c}]}
        - calls: [{tool: count_text, arguments: {text: one two}}, {tool: count_text, arguments: {text: b}}]
        - Done.
  - name: helper-script
    kind: plugin
    plugin: scripted-model
    params: {replies: [{calls: [{tool: count_text, arguments: {text: a}}]}, Counted.]}
agents:
  - name: lead
    provider: lead-script
    plugins: {count-text: {confirm: true}}
    effects: [{kind: progress, params: {interval: 1}, powers: [note]}]
    options: {max_delegation_depth: 1}
  - name: helper
    provider: helper-script
    plugins: {count-text: }
teams:
  - name: both
    members: [{agent: lead}, {agent: helper}]
    coordinator: {kind: sequence}
";

#[test]
fn events_of_a_run_follow_the_published_schema() {
    let place = Place::new();
    place.file("shelly.yaml", CONFIG);
    let run = |more: &[&str]| {
        let arguments = ["run", "--plugins", crate::PLUGIN_ROOT, "--approve", "all", "--output", "events"];
        let ran = place.run(&[&arguments[..], more, &["go"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.shown());
        checked(&ran.stdout)
    };
    let lines = run(&["--agent", "lead", "--session", "s", "--verbose"]);
    assert!(lines.iter().all(|line| line["session"] == "s"), "{lines:#?}");
    let named = |name: &str| lines.iter().filter(|line| line["event"] == name).collect::<Vec<_>>();
    let started = named("run_started");
    let [lead, one, other] = started[..] else { panic!("{started:#?}") };
    let delegates = |line: &&&Value| line["run"] == lead["run"] && line["tool"] == "delegate";
    let delegation = named("tool_started");
    let delegation = &delegation.iter().find(delegates).unwrap()["call"];
    assert!(delegation.is_string() && lead.get("parent_call").is_none(), "{lead}");
    for helper in [one, other] {
        assert_eq!((&helper["parent"], &helper["parent_agent"]), (&lead["run"], &json!("lead")));
        assert_eq!(&helper["parent_call"], delegation, "{helper}");
        for name in ["model_started", "tool_started", "plugin_call", "model_finished", "run_finished"] {
            let mut agents = named(name).into_iter().filter(|line| line["run"] == helper["run"]).peekable();
            assert!(
                agents.peek().is_some() && agents.all(|line| line["agent"] == helper["agent"]),
                "{name}: {lines:#?}"
            );
        }
    }
    assert_eq!(named("question_answered")[0]["outcome"], "yes");
    assert_eq!(named("question_answered")[0]["run"], lead["run"]);
    let calls = named("plugin_call");
    assert!(calls.iter().all(|call| call["outcome"] == "ok"), "{calls:#?}");
    for function in ["provider.complete", "tool.call", "effect.eval"] {
        assert!(calls.iter().any(|call| call["function"] == function), "{function}: {calls:#?}");
    }
    for asked in named("model_started") {
        let parts = asked["parts"].as_object().unwrap();
        let sum: u64 = parts.values().map(|part| part.as_u64().unwrap()).sum();
        assert_eq!(asked["tokens"], sum, "{asked}");
        assert!(asked["parts"]["system"].as_u64() > Some(0) && asked["parts"]["tools"].as_u64() > Some(0), "{asked}");
    }
    for edited in named("effect_edited") {
        let counts = (edited["messages_before"].as_u64().unwrap(), edited["messages_after"].as_u64().unwrap());
        assert_eq!((&edited["edit"], counts.0 + 1), (&json!("note"), counts.1), "{edited}");
        assert!(edited["before"].is_null() && edited["after"].is_string(), "{edited}");
    }
    assert!(!named("effect_edited").is_empty(), "{lines:#?}");
    let result = &lines[lines.len() - 1];
    let agents = result["agents"].as_array().unwrap();
    let total = |key: &str| agents.iter().map(|agent| agent["usage"][key].as_u64().unwrap()).sum::<u64>();
    for key in ["input_tokens", "output_tokens"] {
        assert_eq!(result["spent"]["usage"][key], total(key), "{result}");
    }
    assert_eq!(agents.len(), 3, "{result}");
    // A team, and a run that goes on with the session: their runs have ids of their own.
    let ids = |lines: &[Value]| {
        let started = lines.iter().filter(|line| line["event"] == "run_started");
        started.map(|line| line["run"].as_str().unwrap().to_owned()).collect::<BTreeSet<_>>()
    };
    let team = run(&["--agent", "both", "--no-session"]);
    assert!(team.iter().any(|line| line["event"] == "team_step") && ids(&team).len() >= 3, "{team:#?}");
    let started = team.iter().filter(|line| line["event"] == "run_started" && line["parent_agent"] == "both");
    assert!(started.clone().count() == 2 && started.clone().all(|line| line.get("parent_call").is_none()), "{team:#?}");
    let again = run(&["--agent", "lead", "--session", "s"]);
    assert!(ids(&again).is_disjoint(&ids(&lines)) && ids(&again).is_disjoint(&ids(&team)), "{again:#?}");
}

#[test]
fn failures_follow_the_published_schema() {
    let place = Place::new();
    let failing = CONFIG.replace("price: {input: 1, output: 2}", "").replace("        - Done.\n", "");
    place.file("shelly.yaml", &failing);
    let run = |arguments: &[&str]| {
        let ran = place.run(&[&["run", "--plugins", crate::PLUGIN_ROOT, "--output", "events"], arguments].concat());
        assert_ne!(ran.code, 0, "{}", ran.shown());
        let lines = checked(&ran.stdout);
        let result = lines[lines.len() - 1].clone();
        assert_eq!((&result["ok"], &result["exit_code"]), (&json!(false), &json!(ran.code)), "{}", ran.shown());
        (lines, result)
    };
    // Its script ends early, and nobody is there to be asked.
    let (lines, result) = run(&["--agent", "lead", "go"]);
    assert!(lines.iter().any(|line| line["event"] == "question_answered" && line["outcome"] == "no"), "{lines:#?}");
    assert!(lines.iter().any(|line| line["event"] == "run_finished" && line["error"].is_string()), "{lines:#?}");
    assert!(result["spent"]["usage"].is_object() && result["error"]["message"].is_string(), "{result}");
    // These never begin.
    for arguments in [&["--agent", "nobody", "go"][..], &["--schema", "missing.json", "go"]] {
        let (lines, result) = run(arguments);
        assert_eq!(lines.len(), 2, "{lines:#?}");
        assert!(result.get("spent").is_none(), "{result}");
    }
}
