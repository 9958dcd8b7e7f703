//! Functions of ordinary components as tools, from the binary to the model.

mod chance;
mod concurrent;
mod inspected;
mod resumed;
mod streamed;
mod values;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};
use shelly_host::{
    chat::{Chat, Message, ToolCall, ToolResult},
    event::{Event, EventSink, RunCx},
    limits,
    plugin::{
        ComponentCompiler, Limits, Plugin, PluginCatalog, PluginEngine, PluginError, PluginPackage, PluginSettings,
        PluginTool, ShippedPlugins,
    },
    tool::{ToolBox, ToolCx},
};

use crate::{
    script::{Mind, act, acts, text},
    support::Place,
};

fn engine() -> &'static Arc<PluginEngine> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ENGINE.get_or_init(|| Arc::new(PluginEngine::new(Some(cache)).unwrap()))
}

fn guest(id: &str) -> PluginPackage {
    PluginPackage::read(&Path::new(crate::GUEST_ROOT).join(id)).unwrap()
}

pub async fn tools_of(package: PluginPackage, limits: Limits) -> ToolBox {
    tools_on(engine(), package, limits).await
}

async fn tools_on(engine: &Arc<PluginEngine>, package: PluginPackage, limits: Limits) -> ToolBox {
    let settings = PluginSettings { limits, ..PluginSettings::new("helper", "agents.helper.plugins.plain") };
    let plugin = Arc::new(Plugin::load(engine, &Arc::new(package), &settings).await.unwrap());
    let mut tools = ToolBox::new();
    PluginTool::all(&plugin).for_each(|tool| tools.register(tool).unwrap());
    tools
}

async fn tools(id: &str) -> ToolBox {
    tools_of(guest(id), Limits::default()).await
}

async fn dispatched(tools: &ToolBox, run: &RunCx, name: &str, arguments: &Value) -> ToolResult {
    let cx = ToolCx::new(run.clone());
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    tools.dispatch(&cx, &call).await.result
}

/// Returns the result of a call that must succeed.
pub async fn call(tools: &ToolBox, run: &RunCx, name: &str, arguments: Value) -> String {
    let result = dispatched(tools, run, name, &arguments).await;
    assert!(!result.is_error, "{name} {arguments}: {}", result.text());
    result.text()
}

/// Returns the result of a call that must fail.
async fn fails(tools: &ToolBox, run: &RunCx, name: &str, arguments: Value) -> String {
    let result = dispatched(tools, run, name, &arguments).await;
    assert!(result.is_error, "{name} {arguments}: {}", result.text());
    result.text()
}

fn everything() -> Value {
    json!({
        "truth": true, "tiny": 255, "small": -128, "short": 65535, "shorter": -32768, "middle": 4_294_967_295_u32,
        "signed": i32::MIN, "large": "18446744073709551615", "larger": "-9223372036854775808", "single": 0.1,
        "double": "NaN", "letter": "é", "text": "a\"b\n\u{1}", "bytes": "AQID", "lines": ["a", ""], "pair": [1, "b"],
        "figure": {"polygon": [{"x": 1, "y": -1, "label": null}]}, "color": "green", "marks": ["bold", "wide"],
        "maybe": {"x": 0, "y": 0, "label": "here"}, "perhaps": {"some": null}, "outcome": {"error": "no"},
        "bare": {"ok": null},
    })
}

#[tokio::test]
async fn function_values_of_every_type_round_trip() {
    let (tools, run) = (tools("plain-types").await, RunCx::new("helper"));
    let back = call(&tools, &run, "echo", json!({ "it": everything() })).await;
    assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), everything());
    // What may be left out, and what is written otherwise.
    let mut other = everything();
    other.as_object_mut().unwrap().retain(|key, _| key != "maybe" && key != "perhaps");
    other["bytes"] = json!([1, 2, 3]);
    other["large"] = json!(7);
    other["figure"] = json!("nothing");
    let back: Value = serde_json::from_str(&call(&tools, &run, "echo", json!({ "it": other })).await).unwrap();
    assert_eq!((&back["bytes"], &back["large"], &back["figure"]), (&json!("AQID"), &json!(7), &json!("nothing")));
    assert_eq!((&back["maybe"], &back["perhaps"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn function_result_is_returned_to_the_model() {
    let (tools, run) = (tools("plain-types").await, RunCx::new("helper"));
    for (name, arguments, says) in [
        ("greet", json!({"name": "Ada"}), "Hello, Ada!"),
        ("shapes_area", json!({"of": {"circle": 2}}), "12.0"),
        ("other_area", json!({"side": 3}), "9"),
        ("check", json!({"fine": true}), "done"),
        ("nested", json!({}), "null"),
        ("nested", json!({"it": {"some": null}}), r#"{"some":null}"#),
        ("nested", json!({"it": {"some": 7}}), r#"{"some":7}"#),
        ("fill", json!({"bytes": 3}), r#""BwcH""#),
    ] {
        assert_eq!(call(&tools, &run, name, arguments).await, says, "{name}");
    }
    for (name, arguments, says) in [
        ("shapes_area", json!({"of": {"circle": -1}}), "a radius of -1 is less than nothing"),
        ("check", json!({"fine": false}), "the function returned an error without details"),
        ("corners", json!({"of": "nothing"}), r#"{"x":0,"y":0,"label":"it has none"}"#),
        ("shapes_area", json!({"of": {"polygon": [{"x": 1, "y": "2"}]}}), "of.polygon[0].y: expected a whole number"),
        ("shapes_area", json!({"figure": "nothing"}), "unknown argument `figure`; expected one of `of`"),
        ("greet", json!({}), "missing argument `name` of type string"),
        ("crash", json!({}), "plugin `plain-types` crashed: wasm trap: wasm `unreachable` instruction executed"),
    ] {
        let said = fails(&tools, &run, name, arguments).await;
        assert!(said.starts_with(says), "{name}: {said}");
    }
    assert_eq!(call(&tools, &run, "greet", json!({"name": "you"})).await, "Hello, you!", "a crash is one call's");
}

#[tokio::test]
async fn function_tools_show_names_types_and_manifest_docs() {
    let tools = tools("plain-types").await;
    let names: Vec<_> = tools.names().collect();
    let expected =
        ["calls", "check", "corners", "crash", "echo", "fill", "greet", "nested", "other_area", "shapes_area"];
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, expected, "`spin` is left out");
    let spec = |name: &str| tools.iter().find(|tool| tool.spec().name == name).unwrap().spec().clone();
    let greet = spec("greet");
    assert_eq!(greet.description, "Says hello.\n\nWIT:\ngreet: func(name: string) -> string");
    assert!(greet.hints.read_only && greet.hints.idempotent && greet.hints.closed_world);
    let schema: Value = serde_json::from_str(greet.input_schema.get()).unwrap();
    assert_eq!(schema["properties"]["name"], json!({"type": "string", "description": "whom to greet"}));
    let area = spec("shapes_area");
    assert!(!area.hints.read_only, "nothing is known of what it does");
    assert_eq!(
        area.description,
        "WIT, interface plain:types/shapes@1.2.0:\narea: func(of: figure) -> result<f64, string>\n\
         variant figure { nothing, circle(f64), polygon(list<point>) }\n\
         record point { x: s32, y: s32, label: option<string> }"
    );
    let schema: Value = serde_json::from_str(area.input_schema.get()).unwrap();
    let point = &schema["properties"]["of"]["anyOf"][2]["properties"]["polygon"]["items"];
    assert_eq!((&point["required"], &point["additionalProperties"]), (&json!(["x", "y"]), &json!(false)));
}

#[tokio::test]
async fn function_handles_live_for_one_run_and_are_not_shared() {
    let (tools, run) = (tools("plain-counters").await, RunCx::new("helper"));
    let new = async |run: &RunCx, start: u64| -> String {
        serde_json::from_str(&call(&tools, run, "counter_new", json!({ "start": start })).await).unwrap()
    };
    let (one, two) = (new(&run, 1).await, new(&run, 20).await);
    assert!(one.starts_with("counter#1-") && two.starts_with("counter#2-"), "{one} {two}");
    assert_eq!(call(&tools, &run, "counter_increment", json!({"self": one, "by": 4})).await, "5");
    assert_eq!(call(&tools, &run, "sum", json!({"one": one, "other": two})).await, "25");
    assert_eq!(call(&tools, &run, "sum", json!({"one": one, "other": one})).await, "10", "lent twice at once");
    let said = fails(&tools, &run, "counter_increment", json!({"self": one, "by": "18446744073709551615"})).await;
    assert_eq!(said, "18446744073709551615 more is too much", "an error of its own loses nothing");

    // Another run has an instance and handles of its own.
    let other = RunCx::new("helper");
    let said = fails(&tools, &other, "counter_increment", json!({"self": one, "by": 1})).await;
    assert!(said.contains("is not a handle of this run"), "{said}");
    let first = new(&other, 100).await;
    assert!(first.starts_with("counter#1-") && first != one, "{first}");
    assert_eq!(call(&tools, &other, "alive", json!({})).await, "1");

    // What is given away is gone, and what is let go of.
    let merged = call(&tools, &run, "counter_merge", json!({"one": one, "other": two})).await;
    let merged: String = serde_json::from_str(&merged).unwrap();
    assert_eq!(call(&tools, &run, "alive", json!({})).await, "1", "both were dropped by the component");
    let said = fails(&tools, &run, "counter_increment", json!({"self": one, "by": 1})).await;
    assert_eq!(said, format!("self: `{one}` no longer exists: it was passed on or released"));
    assert_eq!(call(&tools, &run, "counter_drop", json!({"self": merged})).await, "done");
    assert_eq!(call(&tools, &run, "alive", json!({})).await, "0");
    for (name, arguments, says) in [
        ("counter_drop", json!({"self": merged}), "no longer exists: it was passed on or released"),
        ("counter_drop", json!({"self": "counter"}), "self: expected a handle of `counter`"),
        (
            "counter_drop",
            json!({"self": merged.replace("counter", "file")}),
            "self: expected a handle of `counter`, got `file#",
        ),
        ("counter_drop", json!({"self": merged.replace("#3", "#9")}), "self: there is no handle `counter#9-"),
        ("counter_drop", json!({"self": 3}), "self: expected a handle of `counter`, as a string, got 3"),
    ] {
        let said = fails(&tools, &run, name, arguments).await;
        assert!(said.contains(says), "{said}");
    }
    let three = new(&run, 3).await;
    let said = fails(&tools, &run, "counter_merge", json!({"one": three, "other": three})).await;
    assert_eq!(said, format!("other: `{three}` is both used and passed on in one call"));
    assert_eq!(call(&tools, &run, "sum", json!({"one": three, "other": three})).await, "6", "it was not taken");
}

#[tokio::test]
async fn function_calls_of_one_run_are_serialised() {
    let (tools, run) = (tools("plain-counters").await, RunCx::new("helper"));
    let one: String = serde_json::from_str(&call(&tools, &run, "counter_new", json!({"start": 0})).await).unwrap();
    let calls = (0..20).map(|_| call(&tools, &run, "counter_increment", json!({"self": one, "by": 1})));
    let mut counts: Vec<u32> =
        futures_util::future::join_all(calls).await.iter().map(|count| count.parse().unwrap()).collect();
    counts.sort();
    assert_eq!(counts, (1..=20).collect::<Vec<_>>());
}

#[tokio::test]
async fn lost_function_handles_error_names_the_cause() {
    let limits = Limits { tool_time: Duration::from_millis(300), ..Limits::default() };
    let (tools, run) = (tools_of(guest("plain-counters"), limits).await, RunCx::new("helper"));
    for (ends, why) in [("crash", "its plugin crashed"), ("spin", "its plugin timed out")] {
        let one = call(&tools, &run, "counter_new", json!({"start": 1})).await;
        let one: String = serde_json::from_str(&one).unwrap();
        fails(&tools, &run, ends, json!({})).await;
        let said = fails(&tools, &run, "counter_increment", json!({"self": one, "by": 1})).await;
        assert_eq!(said, format!("self: `{one}` was lost when {why}; create a new one"));
        assert_eq!(call(&tools, &run, "alive", json!({})).await, "0", "it is a new instance");
    }
    // So it is when a call is cancelled in the middle.
    let one: String = serde_json::from_str(&call(&tools, &run, "counter_new", json!({"start": 1})).await).unwrap();
    let cancelled = tokio::time::timeout(Duration::from_millis(50), fails(&tools, &run, "spin", json!({}))).await;
    assert!(cancelled.is_err());
    let said = fails(&tools, &run, "counter_increment", json!({"self": one, "by": 1})).await;
    assert_eq!(said, format!("self: `{one}` was lost when a call of its plugin was cancelled; create a new one"));
}

#[tokio::test]
async fn kept_instance_memory_is_freed_when_its_run_ends() {
    let engine = Arc::new(PluginEngine::new(None).unwrap());
    let (tools, run) = (tools_on(&engine, guest("plain-counters"), Limits::default()).await, RunCx::new("helper"));
    assert_eq!(engine.guest_memory().held, 0);
    for count in ["1", "2"] {
        call(&tools, &run, "counter_new", json!({"start": 1})).await;
        assert_eq!(call(&tools, &run, "alive", json!({})).await, count);
    }
    let of_one = engine.guest_memory().held;
    let other = RunCx::new("helper");
    call(&tools, &other, "counter_new", json!({"start": 1})).await;
    assert_eq!((of_one > 0, engine.guest_memory().held), (true, 2 * of_one));
    drop((run, other));
    assert_eq!(engine.guest_memory().held, 0);
}

#[tokio::test]
async fn function_handles_of_one_run_are_bounded() {
    let (tools, run) = (tools("plain-counters").await, RunCx::new("helper"));
    let many = call(&tools, &run, "many", json!({"count": limits::FUNCTION_HANDLES})).await;
    let many: Vec<String> = serde_json::from_str(&many).unwrap();
    assert_eq!(many.len(), limits::FUNCTION_HANDLES);
    let said = fails(&tools, &run, "counter_new", json!({"start": 1})).await;
    assert!(said.contains("more than 256 handles in one run"), "{said}");
    let said = fails(&tools, &run, "counter_increment", json!({"self": many[0], "by": 1})).await;
    assert!(said.contains("was lost when a call returned more than could be reported"), "{said}");
    assert_eq!(call(&tools, &run, "alive", json!({})).await, "0");
}

#[tokio::test]
async fn function_instance_is_per_call_unless_kept_by_the_manifest() {
    let (fresh, run) = (tools("plain-types").await, RunCx::new("helper"));
    for _ in 0..2 {
        assert_eq!(call(&fresh, &run, "calls", json!({})).await, "1");
    }
    let place = Place::new();
    let component = std::fs::read(Path::new(crate::GUEST_ROOT).join("plain-types/plain_types.wasm")).unwrap();
    place.plugin_bytes("kept", "kinds = [\"functions\"]\ninstance = \"run\"\nonly = [\"calls\"]", &component);
    let package = PluginPackage::read(&place.path().join("plugins/kept")).unwrap();
    let kept = tools_of(package, Limits::default()).await;
    assert_eq!(kept.names().collect::<Vec<_>>(), ["calls"]);
    for count in ["1", "2", "3"] {
        assert_eq!(call(&kept, &run, "calls", json!({})).await, count);
    }
    assert_eq!(call(&kept, &RunCx::new("helper"), "calls", json!({})).await, "1", "another run has its own");
}

#[tokio::test(start_paused = true)]
async fn idle_function_instance_is_dropped() {
    let (tools, run) = (tools("plain-counters").await, RunCx::new("helper"));
    let one: String = serde_json::from_str(&call(&tools, &run, "counter_new", json!({"start": 1})).await).unwrap();
    tokio::time::sleep(limits::KEPT_IDLE - Duration::from_secs(1)).await;
    assert_eq!(call(&tools, &run, "counter_increment", json!({"self": one, "by": 1})).await, "2");
    tokio::time::sleep(limits::KEPT_IDLE - Duration::from_secs(1)).await;
    assert_eq!(call(&tools, &run, "counter_increment", json!({"self": one, "by": 1})).await, "3", "it was called");
    tokio::time::sleep(limits::KEPT_IDLE + Duration::from_secs(1)).await;
    let said = fails(&tools, &run, "counter_increment", json!({"self": one, "by": 1})).await;
    assert!(said.contains("was lost when its plugin had not been called for 10 minutes"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn kept_instances_have_own_slots_that_runs_release() {
    let engine = Arc::new(PluginEngine::new(None).unwrap());
    let settings = PluginSettings::new("helper", "agents.helper.plugins.plain-counters");
    let load = async || Arc::new(Plugin::load(&engine, &Arc::new(guest("plain-counters")), &settings).await.unwrap());
    let mut tools = ToolBox::new();
    PluginTool::all(&load().await).for_each(|tool| tools.register(tool).unwrap());
    let most = limits::KEPT_INSTANCES / 4 * limits::PLUGIN_QUARTERS_OF_ONE;
    let mut runs = Vec::new();
    for _ in 0..most {
        let run = RunCx::new("helper");
        call(&tools, &run, "alive", json!({})).await;
        runs.push(run);
    }
    // One more waits, and is told in the end.
    let said = fails(&tools, &RunCx::new("helper"), "alive", json!({})).await;
    assert!(
        said.contains("the instances kept for runs of plugin `plain-counters` by all agents take 3 quarters"),
        "{said}"
    );
    // They take no place from calls that need none of these.
    let other = tools_of(guest("plain-types"), Limits::default()).await;
    assert_eq!(call(&other, &RunCx::new("helper"), "greet", json!({"name": "you"})).await, "Hello, you!");
    runs.pop();
    assert_eq!(
        call(&tools, &RunCx::new("helper"), "alive", json!({})).await,
        "0",
        "a run that ended gave its place back"
    );
}

#[tokio::test]
async fn model_calls_functions_and_corrects_invalid_arguments() {
    let (types, counters) = (tools("plain-types").await, tools("plain-counters").await);
    let mind = Arc::new(Mind::new(|asked| match asked.turn {
        0 => act("shapes_area", json!({"of": {"circel": 2}})),
        1 => {
            let says = "of: unknown case `circel`; did you mean `circle`?";
            assert!(asked.heard.ends_with(says), "{}", asked.heard);
            acts(&[("shapes_area", json!({"of": {"circle": 2}})), ("counter_new", json!({"start": 40}))])
        }
        2 => {
            let handle = asked.heard.split('"').find(|part| part.starts_with("counter#")).expect("a handle");
            act("counter_increment", json!({"self": handle, "by": 2}))
        }
        _ => text(&asked.heard),
    }));
    let mut agent = shelly_host::agent::Agent::new("helper", "", mind);
    agent.tools = types;
    assert!(agent.tools.extend(counters).iter().all(|clash| ["crash", "spin"].contains(&clash.name.as_str())));
    let (sink, mut stream) = EventSink::channel();
    let run = async {
        let cx = RunCx::new("helper").with_events(sink);
        agent.run(&cx, &Chat::new(), vec![Message::user("go")]).await
    };
    let events = async {
        let mut functions = Vec::new();
        while let Some(event) = stream.next_event().await {
            if let Event::PluginCall { function, outcome, plugin, .. } = event {
                functions.push((plugin.to_string(), function, outcome));
            }
        }
        functions
    };
    let (answer, functions) = tokio::join!(run, events);
    let answer = answer.unwrap().message.text_content();
    assert!(answer.ends_with("42"), "{answer}");
    let told = functions.iter().map(|(plugin, function, outcome)| format!("{plugin} {function} {outcome}"));
    let mut told: Vec<_> = told.collect();
    told.sort();
    let (counters, types) = ("plain-counters functions.call ok", "plain-types functions.call ok");
    assert_eq!(told, [counters, counters, types], "what was refused before it was called is no call");
}

/// A component of these exports; its core functions do nothing, and take what they are given.
fn component(exports: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 16))
                (func (export "none"))
                (func (export "one") (param i32))
                (func (export "two") (param i32 i32))
                (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
            )
            (core instance $i (instantiate $m))
            {exports}
        )"#
    );
    wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

const ADD: &str =
    r#"(func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $i "add")))"#;

fn packed(manifest: &str, component: &[u8]) -> (Place, Result<PluginPackage, PluginError>) {
    let place = Place::new();
    place.plugin_bytes("plain", &format!("kinds = [\"functions\"]\n{manifest}"), component);
    let package = PluginPackage::read(&place.path().join("plugins/plain"));
    (place, package)
}

fn told(error: &PluginError) -> String {
    let report = error.report();
    [std::slice::from_ref(&report.message), &report.causes, report.hint.as_slice()].concat().join("\n")
}

#[test]
fn unsupported_functions_are_left_out_with_the_reason() {
    let lifted = |name: &str, param: &str| {
        format!(
            "(func (export \"{name}\") (param \"it\" {param}) (canon lift (core func $i \"{}\") (memory (core memory $i \"memory\")) \
             (realloc (core func $i \"realloc\"))))\n",
            if param.starts_with("(list") { "two" } else { "one" }
        )
    };
    let deep = "(list ".repeat(limits::VALUE_DEPTH) + "u8" + &")".repeat(limits::VALUE_DEPTH);
    let mut types = "(type $dictionary (map f32 u8))\n(type $t0 (tuple u8 u8))\n".to_owned();
    for at in 1..10 {
        types += &format!("(type $t{at} (tuple $t{} $t{}))\n", at - 1, at - 1);
    }
    let exports = [
        types.as_str(),
        ADD,
        &lifted("deep", &deep),
        &lifted("wide", "$t9"),
        &lifted("mapped", "(list (tuple string $dictionary))"),
    ]
    .concat();
    let (_place, package) = packed("", &component(&exports));
    let offer = package.unwrap().offer;
    let names: Vec<_> = offer.tools.iter().map(|tool| tool.spec.name.as_str()).collect();
    assert_eq!(names, ["add"]);
    let left_out: Vec<_> = offer.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    assert_eq!(
        left_out,
        [
            "deep: its types are nested more than 16 deep",
            "wide: the function has more than 1000 types",
            "mapped: the keys of a `map` are neither integers nor `bool`, `char` or `string`",
        ]
    );
    let mapped = "(type $dictionary (map f32 u8))\n".to_owned() + &lifted("mapped", "(list $dictionary)");
    let (_place, package) = packed("", &component(&mapped));
    let said = told(&package.unwrap_err());
    assert!(
        said.starts_with("plugin `plain` has no function that can be a tool\n`mapped`: the keys of a `map` are"),
        "{said}"
    );
}

#[test]
fn manifest_keys_of_unknown_functions_are_refused() {
    let two = ADD.to_owned() + &ADD.replace("\"add\") (param \"a\"", "\"sub\") (param \"a\"");
    for (manifest, says) in [
        ("only = [\"plus\"]", "only: the component has no function `plus` that can be a tool; use one of `add`, `sub`"),
        ("leave_out = [\"plus\"]", "leave_out: the component has no function `plus`"),
        ("[functions.plus]", "functions: the component has no function `plus`"),
        ("functions.add.params = {c = \"\"}", "functions.add.params: the function has no parameter `c`"),
        ("functions.add.tool = \"sub\"", "functions: the tool names `sub` and `sub` are equal or look alike"),
        ("functions.add.tool = \"5ub\"", "functions: the tool names `sub` and `5ub` are equal or look alike"),
        ("only = []", "its plugin.toml leaves out all functions"),
        ("functions.add.tool = \"a b\"\nonly = [\"add\"]", "invalid tool name `a b`"),
    ] {
        let (_place, package) = packed(manifest, &component(&two));
        let said = told(&package.unwrap_err());
        assert!(said.contains(says), "{manifest}: {said}");
    }
    let many = |count: usize| -> String {
        (0..count).map(|at| ADD.replace("\"add\") (param \"a\"", &format!("\"f{at}x\") (param \"a\""))).collect()
    };
    let (_place, package) = packed("", &component(&many(limits::TOOLS_PER_PLUGIN + 1)));
    assert!(
        told(&package.unwrap_err())
            .contains("the component has 129 tools, the maximum is 128; select functions with `only`")
    );
    let (_place, package) = packed("only = [\"f7x\"]", &component(&many(limits::TOOLS_PER_PLUGIN + 1)));
    assert_eq!(package.unwrap().offer.tools.len(), 1);
    let (_place, package) = packed("", &component(&many(limits::EXPORTED_FUNCTIONS + 1)));
    assert!(told(&package.unwrap_err()).contains("the component exports 1025 functions, the maximum is 1024"));
}

/// Appends the custom section in which a binary says what its functions do.
fn append_docs(component: &mut Vec<u8>, json: &str) {
    let content = [&[12][..], b"package-docs", &[1], json.as_bytes()].concat();
    component.push(0);
    // Its length, seven bits a byte.
    let mut left = content.len();
    while left >= 128 {
        component.push((left % 128) as u8 | 128);
        left /= 128;
    }
    component.push(left as u8);
    component.extend(content);
}

#[test]
fn package_docs_describe_functions_to_the_model() {
    let section = |json: &str| {
        let mut bytes = component(ADD);
        append_docs(&mut bytes, json);
        bytes
    };
    let description = |json: &str, manifest: &str| {
        let (_place, package) = packed(manifest, &section(json));
        package.unwrap().offer.tools[0].spec.description.clone()
    };
    let docs = |text: &str| json!({"worlds": {"root": {"func_exports": {"add": {"docs": text}}}}}).to_string();
    const WIT: &str = "WIT:\nadd: func(a: u32, b: u32) -> u32";
    assert_eq!(description(&docs("Adds two numbers."), ""), format!("Adds two numbers.\n\n{WIT}"));
    assert_eq!(description(&docs("Adds."), "functions.add.description = \"Plus.\""), format!("Plus.\n\n{WIT}"));
    assert_eq!(description("{", ""), WIT, "what is no JSON says nothing");
    assert_eq!(description(&docs(&"x".repeat(limits::PACKAGE_DOCS_BYTES)), ""), WIT, "what is too long is not read");
    // A text that hides something is no description.
    let (_place, package) = packed("", &section(&docs("Adds.\u{202e}")));
    let said = told(&package.unwrap_err());
    assert!(said.contains("`add`: the description of `add` has the invisible character U+202E"), "{said}");
}

#[tokio::test]
async fn component_file_without_a_folder_is_a_plugin() {
    let place = Place::new();
    place.file("plugins/My_Adder.wasm", component(ADD));
    place.file("plugins/broken.wasm", "no component");
    place.file("plugins/notes.txt", "nothing");
    let directory = place.path().join("plugins");
    let catalog = PluginCatalog::scan(std::slice::from_ref(&directory), &ComponentCompiler::in_process()).unwrap();
    let ids: Vec<_> = catalog.iter().map(|(id, plugin)| (id, plugin.package().is_ok())).collect();
    assert_eq!(ids, [("my-adder", true), ("broken", false)]);
    let package = catalog.get("my-adder").unwrap().unwrap();
    assert_eq!(package.location.path(), Some(&*directory.join("My_Adder.wasm")));
    let tools = tools_of((**package).clone(), Limits::default()).await;
    assert_eq!(call(&tools, &RunCx::new("helper"), "add", json!({"a": 2, "b": 40})).await, "42");
    // By its id too, where nobody names it.
    place.file("other/the_adder.wasm", component(ADD));
    let mut catalog = PluginCatalog::new(&ComponentCompiler::in_process());
    let other = [place.path().join("other")];
    catalog.add_by_id(&other, ["the-adder", "../plugins/broken", "none"]);
    assert_eq!(catalog.iter().map(|(id, _)| id).collect::<Vec<_>>(), ["the-adder"]);
    assert_eq!(PluginCatalog::ids_in(&other), ["the-adder"]);
    // It is what it is, and not the folder around it, that comes with the host or does not.
    let shipped =
        |directories: &[PathBuf]| ShippedPlugins { directories: directories.to_vec(), ..ShippedPlugins::default() };
    let catalog = catalog.with_shipped(shipped(&[place.path()]), Vec::new());
    assert!(!catalog.is_shipped(catalog.entry("the-adder").unwrap()));
    let catalog = catalog.with_shipped(shipped(&other), Vec::new());
    assert!(catalog.is_shipped(catalog.entry("the-adder").unwrap()));
}

#[test]
fn cli_shows_function_tools() {
    let place = Place::new();
    place.file("plugins/adder.wasm", component(ADD));
    let ran = place.run(&["plugin", "list", "--plugins", "plugins"]);
    assert!(ran.code == 0 && ran.stdout.contains("adder   functions  "), "{}", ran.shown());
    let ran = place.run(&["plugin", "inspect", "plugins/adder.wasm"]);
    for part in ["kinds        functions", "tool         add: WIT:", "a (integer)"] {
        assert!(ran.code == 0 && ran.stdout.contains(part), "{}", ran.shown());
    }
    let guests = ["--plugins", crate::GUEST_ROOT];
    let ran = place.run(&["plugin", "inspect", "plain-counters", guests[0], guests[1]]);
    for part in [
        "instance     kept for one run of an agent; calls run one at a time",
        "tool         counter_new:",
        "tool         counter_drop:",
    ] {
        assert!(ran.code == 0 && ran.stdout.contains(part), "{}", ran.shown());
    }
    place.file("shelly.yaml", "providers: [{name: m, kind: plugin, plugin: offline-model}]\nagents: [{name: a, plugins: {adder: }}]\nplugin_dirs: [plugins]\n");
    let ran = place.run(&["plugin", "certify", "adder"]);
    let certificate: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
    assert_eq!(
        (&certificate["kinds"], &certificate["runs"], &certificate["imports"]),
        (&json!(["functions"]), &json!(true), &json!([]))
    );
    let function = json!({"tool": "add", "function": "add", "is_kept": false});
    assert_eq!(certificate["functions"], json!([function]));
}
