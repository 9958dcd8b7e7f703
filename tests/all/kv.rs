//! Key-value stores of plugins: real guests, the stores of the host, and the program itself.

use std::{
    collections::VecDeque,
    fs,
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex, OnceLock},
    thread,
};

use serde_json::{Value, json};
use shelly_host::{
    agent::{Agent, AgentGroup, AgentRegistry},
    capability::{Grant, KvScope},
    chat::ToolCall,
    event::{Event, EventSink, RunCx},
    kv::{KvQuota, KvStore, KvStoreOwner as Whose, KvStores},
    limits,
    plugin::{Plugin, PluginEngine, PluginPackage, PluginSettings, PluginTool},
    tool::{ToolBox, ToolCx},
};

use crate::{
    bad_input::{Server, answer},
    cluster::nats_server::{NatsServer, free_port},
    script::{self, Mind, act, text},
    support::{Place, Ran},
};

fn engine() -> &'static Arc<PluginEngine> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ENGINE.get_or_init(|| Arc::new(PluginEngine::new(Some(cache)).unwrap()))
}

/// The tools of the guest, for an agent that grants it this.
async fn tools(agent: &str, scope: KvScope, stores: &KvStores) -> ToolBox {
    let package = PluginPackage::read(&Path::new(crate::GUEST_ROOT).join("probe-kv")).unwrap();
    let settings = PluginSettings {
        grant: Grant { kv: [scope].into(), ..Grant::default() },
        stores: stores.clone(),
        ..PluginSettings::new(agent, format!("agents.{agent}.plugins.probe-kv"))
    };
    let plugin = Arc::new(Plugin::load(engine(), &Arc::new(package), &settings).await.unwrap());
    let mut tools = ToolBox::new();
    PluginTool::all(&plugin).for_each(|tool| tools.register(tool).unwrap());
    tools
}

/// Calls a tool and returns its result.
async fn call(tools: &ToolBox, cx: &RunCx, name: &str, arguments: Value) -> String {
    let cx = ToolCx::new(cx.clone());
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    tools.dispatch(&cx, &call).await.result.text()
}

async fn put(tools: &ToolBox, cx: &RunCx, value: &str) {
    assert_eq!(call(tools, cx, "kv_put", json!({"key": "k", "value": value})).await, "kept");
}

async fn get(tools: &ToolBox, cx: &RunCx) -> String {
    call(tools, cx, "kv_get", json!({"key": "k"})).await
}

/// Stores in a folder of a place.
fn stores(place: &Place) -> KvStores {
    let folder = place.path();
    KvStores::on_disk(move || Ok(folder.clone()))
}

#[tokio::test]
async fn guest_reads_back_its_kv_writes() {
    let (tools, cx) = (tools("ada", KvScope::Run, &KvStores::default()).await, RunCx::new("ada"));
    assert_eq!(get(&tools, &cx).await, "nothing");
    put(&tools, &cx, "ä\u{0}b").await;
    assert_eq!(get(&tools, &cx).await, "ä\u{0}b");
    for (name, arguments, says) in [
        ("kv_swap", json!({"key": "k", "expected": null, "value": "x"}), "false"),
        ("kv_swap", json!({"key": "k", "expected": 7, "value": "x"}), "false"),
        ("kv_swap", json!({"key": "k", "expected": 1, "value": "y"}), "true"),
        ("kv_swap", json!({"key": "k", "expected": 1, "value": null}), "false"),
        ("kv_keys", json!({"prefix": ""}), "k"),
        ("kv_keys", json!({"prefix": "", "after": "k"}), ""),
        ("kv_remove", json!({"key": "k"}), "removed"),
        ("kv_get", json!({"key": "k"}), "nothing"),
    ] {
        assert_eq!(call(&tools, &cx, name, arguments.clone()).await, says, "{name} {arguments}");
    }
    let typed = call(&tools, &cx, "kv_typed", json!({})).await;
    assert!(typed.starts_with("Some((\"pair\", 2)) the value of `text`: "), "{typed}");
}

#[tokio::test]
async fn agents_share_kv_keys_only_with_a_shared_scope() {
    let place = Place::new();
    let stores = stores(&place);
    stores.of_session("s", place.path());
    let cx = RunCx::new("run");
    for (ada, bob, shared) in [
        (KvScope::Run, KvScope::Run, false),
        (KvScope::Session, KvScope::Session, false),
        (KvScope::Agent, KvScope::Agent, false),
        (KvScope::Plugin, KvScope::Agent, false),
        (KvScope::Session, KvScope::Plugin, false),
        (KvScope::Plugin, KvScope::Plugin, true),
    ] {
        let (of_ada, of_bob) = tokio::join!(tools("ada", ada, &stores), tools("bob", bob, &stores));
        let (says_ada, says_bob) = (format!("{ada} of ada"), format!("{bob} of bob"));
        // At once, and to and fro.
        tokio::join!(put(&of_ada, &cx, &says_ada), put(&of_bob, &cx, "old"));
        put(&of_bob, &cx, &says_bob).await;
        let seen = get(&of_ada, &cx).await;
        assert_eq!(seen, if shared { &*says_bob } else { &*says_ada }, "{ada} {bob}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_kv_swaps_count_exactly() {
    let place = Place::new();
    let stores = stores(&place);
    let mut counting = Vec::new();
    for at in 0..8 {
        let tools = tools(&format!("agent-{at}"), KvScope::Plugin, &stores).await;
        counting.push(tokio::spawn(async move {
            call(&tools, &RunCx::new("a"), "kv_count", json!({"key": "n", "times": 50})).await
        }));
    }
    let mut last = Vec::new();
    for counted in counting {
        last.push(counted.await.unwrap().parse::<u32>().unwrap());
    }
    assert_eq!(last.iter().max(), Some(&400), "{last:?}");
}

#[tokio::test]
async fn exhausted_kv_quota_is_named() {
    let quota = KvQuota { bytes: 3 << 20, keys: 4 };
    let place = Place::new();
    let stores = stores(&place).bounded(quota, limits::KV_MEMORY_BYTES);
    for scope in [KvScope::Run, KvScope::Agent] {
        let (tools, cx) = (tools("ada", scope, &stores).await, RunCx::new("ada"));
        let full = call(&tools, &cx, "kv_fill", json!({"values": 5})).await;
        assert!(full.contains("bytes of keys and values, its quota is 3145728"), "{full}");
        assert_eq!(call(&tools, &cx, "kv_remove", json!({"key": "0000"})).await, "removed");
        put(&tools, &cx, "fits").await;
        for key in ["a", "b"] {
            let said = call(&tools, &cx, "kv_put", json!({"key": key, "value": ""})).await;
            assert_eq!(said == "kept", key == "a", "{said}");
            assert!(key == "a" || said.contains("the store has reached its quota of 4 keys"), "{said}");
        }
    }
}

#[tokio::test]
async fn damaged_kv_store_is_reported_once_to_the_operator() {
    let place = Place::new();
    let path = place.file("agents/ada/probe-kv.kv", "not a store");
    let tools = tools("ada", KvScope::Agent, &stores(&place)).await;
    let (events, mut stream) = EventSink::channel();
    let cx = RunCx::new("ada").with_events(events);
    for _ in 0..2 {
        let said = get(&tools, &cx).await;
        assert!(said.contains("its file is damaged; the operator was told its path"), "{said}");
        assert!(!said.contains("probe-kv.kv"), "where it is is not the guest's business: {said}");
    }
    drop(cx);
    let mut warnings = Vec::new();
    while let Some(event) = stream.next_event().await {
        if let Event::Warning { message } = event {
            warnings.push(message);
        }
    }
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let says = format!(
        "plugin `probe-kv`: the key-value store {} is damaged at byte 0: ",
        place.path().join("agents/ada/probe-kv.kv").display()
    );
    assert!(warnings[0].starts_with(&says), "{warnings:?}");
    assert_eq!(fs::read_to_string(path).unwrap(), "not a store");
}

/// Two runs of an agent, and two tasks that it delegates to another one: each counts by itself.
#[tokio::test]
async fn run_scoped_kv_store_is_private_and_ends_with_its_run() {
    let stores = KvStores::default();
    let (ada, bob) = (tools("ada", KvScope::Run, &stores).await, tools("bob", KvScope::Run, &stores).await);
    let count = json!({"key": "n", "times": 3});
    let mind = move |tasks: bool| {
        let count = count.clone();
        Arc::new(Mind::new(move |asked| match asked.turn {
            0 | 1 => act("kv_count", count.clone()),
            2 if tasks => {
                let task = json!({"agent": "bob", "task": "count", "context": "c"});
                act("delegate", json!({"tasks": [task, task]}))
            }
            _ => text(&asked.heard),
        }))
    };
    let registry = AgentRegistry::new();
    let worker = Agent { tools: bob, ..Agent::new("bob", "", mind(false)) };
    registry.register(shelly_host::agent::AgentEntry::new("bob", "counts"), move || worker.clone());
    let lead = Agent { tools: ada, ..Agent::new("ada", "", mind(true)) };
    let lead = lead.with_agent_group(Arc::new(AgentGroup::new(registry)), 1);
    for _ in 0..2 {
        let ran = script::run(&lead, "count").await;
        let results = ran.results();
        assert_eq!(results[..2], ["3", "6"], "{results:?}");
        assert_eq!(results[2].matches(" 6\"").count(), 2, "{results:?}");
    }
}

/// A model that makes these calls in the run and then says what it heard last.
fn scripted(calls: &[(&'static str, Value)]) -> Server {
    let mut calls: VecDeque<_> = calls.iter().cloned().collect();
    let next = Mutex::new(move || calls.pop_front());
    Server::start(move |request| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let heard = serde_json::from_str::<Value>(body).unwrap_or_default();
        let heard = heard["messages"].as_array().and_then(|all| all.last()).map(|last| last["content"].clone());
        let (message, stop) = match (next.lock().unwrap())() {
            Some((name, arguments)) => {
                let function = json!({ "name": name, "arguments": arguments.to_string() });
                let call = json!({ "id": "1", "type": "function", "function": function });
                (json!({ "tool_calls": [call] }), "tool_calls")
            }
            None => (json!({ "content": heard }), "stop"),
        };
        answer("200 OK", &json!({ "choices": [{ "message": message, "finish_reason": stop }] }).to_string())
    })
}

/// The program, with an agent that has the guest, and a model that makes these calls.
fn program(place: &Place, scope: &str, calls: &[(&'static str, Value)], more: &[&str]) -> Ran {
    let server = configure(place, scope, calls);
    let ran = place.run(&[&["run", "--plugins", crate::GUEST_ROOT, "go"], more].concat());
    drop(server);
    ran
}

fn configure(place: &Place, scope: &str, calls: &[(&'static str, Value)]) -> Server {
    let server = scripted(calls);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let providers = format!("providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]");
    place.file("shelly.yaml", format!("{providers}\nagents: [{{name: ada, plugins: {{probe-kv: {{{scope}}}}}}}]\n"));
    server
}

#[test]
fn kv_scope_decides_which_keys_survive_the_process() {
    let write = [("kv_put", json!({"key": "k", "value": "kept before"})), ("kv_get", json!({"key": "k"}))];
    let read = [("kv_get", json!({"key": "k"}))];
    for (scope, session, kept) in [
        ("kv: run", "--session=one", false),
        ("kv: session", "--no-session", false),
        ("kv: session", "--session=one", true),
        ("kv: agent", "--no-session", true),
        ("kv: plugin", "--no-session", true),
    ] {
        let place = Place::new();
        let ran = program(&place, scope, &write, &[session]);
        assert_eq!(ran.stdout, "kept before\n", "{scope}: {}", ran.shown());
        let ran = program(&place, scope, &read, &[session]);
        assert_eq!(ran.stdout, if kept { "kept before\n" } else { "nothing\n" }, "{scope}: {}", ran.shown());
        let local = place.path().join(".shelly/local");
        assert_eq!(local.join("kv").exists(), ["kv: agent", "kv: plugin"].contains(&scope), "{scope}");
        if local.exists() {
            assert_eq!(fs::read_to_string(local.join(".gitignore")).unwrap(), "*\n");
        }
    }
}

#[test]
fn session_kv_store_is_removed_with_its_session() {
    let place = Place::new();
    let write = [("kv_fill", json!({"values": 3}))];
    let ran = program(&place, "kv: session", &write, &["--session", "one"]);
    assert_eq!(ran.stdout, "filled\n", "{}", ran.shown());
    let session = place.path().join(".shelly/local/sessions/one");
    assert!(session.join("kv/agents/ada/probe-kv.kv").is_file());
    let listed: Value = serde_json::from_str(&place.run(&["session", "list", "--output", "json"]).stdout).unwrap();
    assert!(listed["sessions"][0]["bytes"].as_u64().unwrap() > 3 << 20, "its bytes are counted: {listed}");
    let forked = place.run(&["session", "fork", "one", "--output", "json"]);
    assert_eq!(forked.code, 0, "{}", forked.shown());
    let removed = place.run(&["session", "rm", "one"]);
    assert_eq!(removed.code, 0, "{}", removed.shown());
    assert!(!session.exists());
}

/// Two folders stand for two hosts, which have nothing in common but the server.
#[test]
fn two_hosts_of_a_cluster_share_values_and_notes() {
    let (one, other) = (Place::new(), Place::new());
    let port = free_port();
    let Some(_server) = NatsServer::start(&one, port) else { return };
    let on = |place: &Place, calls: &[(&'static str, Value)]| {
        let server = configure(place, "kv: plugin", calls);
        let text = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
        let text = text.replace("{name: ada,", "{name: ada, toolboxes: [notes],");
        place.file("shelly.yaml", format!("{text}cluster: {{nats: 'nats://127.0.0.1:{port}', namespace: team-a}}\n"));
        let ran = place.run(&["run", "--plugins", crate::GUEST_ROOT, "--no-session", "go"]);
        drop(server);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran.stdout
    };
    let note = json!({"name": "plan", "content": "# Plan of the first host"});
    let write = [("write_note", note), ("kv_put", json!({"key": "k", "value": "of the first host"}))];
    assert_eq!(on(&one, &write), "kept\n");
    assert_eq!(on(&other, &[("kv_get", json!({"key": "k"}))]), "of the first host\n");
    assert_eq!(on(&other, &[("read_note", json!({"name": "plan"}))]), "# Plan of the first host\n");
    on(&other, &[("kv_put", json!({"key": "k", "value": "of the second host"}))]);
    assert_eq!(on(&one, &[("kv_get", json!({"key": "k"}))]), "of the second host\n");
    for place in [&one, &other] {
        for folder in ["kv", "notes"] {
            let folder = place.path().join(".shelly/local").join(folder);
            assert!(!folder.exists(), "{}", folder.display());
        }
    }
}

/// A project that has lost its local folder has nothing in common with the host before but the server.
#[test]
fn kv_store_of_a_session_is_in_its_cluster() {
    let place = Place::new();
    let port = free_port();
    let Some(_server) = NatsServer::start(&place, port) else { return };
    let on_new_host = |session: &str, calls: &[(&'static str, Value)]| {
        let _ = fs::remove_dir_all(place.path().join(".shelly/local"));
        let server = configure(&place, "kv: session", calls);
        let text = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
        place.file("shelly.yaml", format!("{text}cluster: {{nats: 'nats://127.0.0.1:{port}', namespace: team-a}}\n"));
        let ran = place.run(&["run", "--plugins", crate::GUEST_ROOT, "--session", session, "go"]);
        drop(server);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran.stdout
    };
    let read = [("kv_get", json!({"key": "k"}))];
    assert_eq!(on_new_host("one", &[("kv_put", json!({"key": "k", "value": "of one"}))]), "kept\n");
    assert_eq!(on_new_host("one", &read), "of one\n");
    assert_eq!(on_new_host("two", &read), "nothing\n");
    let removed = place.run(&["session", "rm", "--trust", "--config", "shelly.yaml", "one"]);
    assert_eq!(removed.code, 0, "{}", removed.shown());
    assert_eq!(on_new_host("one", &read), "nothing\n", "the store is removed with its session");
}

#[test]
fn missing_kv_grant_error_shows_the_config_line() {
    let place = Place::new();
    let ran = program(&place, "", &[], &[]);
    assert_eq!(ran.code, 3, "{}", ran.shown());
    assert!(ran.stderr.contains("imports `shelly:plugin/kv@0.2.0`"), "{}", ran.shown());
    assert!(
        ran.stderr.contains("grant it under agents.ada.plugins.probe-kv in the config: `kv: run`"),
        "{}",
        ran.shown()
    );
    let ran = program(&place, "kv: runs", &[], &[]);
    assert!(ran.code == 2 && ran.stderr.contains("did you mean `run`?"), "{}", ran.shown());
}

/// Reads while the program counts, kills it, and reads again.
#[test]
fn acknowledged_kv_writes_survive_a_kill() {
    let place = Place::new();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = || {
        let folder = place.path().join(".shelly/local/kv");
        let stores = KvStores::on_disk(move || Ok(folder.clone()));
        stores.get(Whose::User { user: "agents.ada".into(), plugin: "probe-kv".into() })
    };
    let counted = |store: &KvStore| {
        let entry = runtime.block_on(store.get("n".into())).unwrap();
        entry.map_or(0, |entry| String::from_utf8(entry.value).unwrap().parse::<u64>().unwrap())
    };
    let mut before = 0;
    for _ in 0..3 {
        let server = configure(&place, "kv: agent", &[("kv_count", json!({"key": "n", "times": 1_000_000}))]);
        let mut command = place.command(&["run", "--plugins", crate::GUEST_ROOT, "--no-session", "go"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let path = place.path().join(".shelly/local/kv/agents/ada/probe-kv.kv");
        while !path.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it counts for long");
            thread::yield_now();
        }
        let shared = store();
        let mut seen = counted(&shared);
        while seen < before + 20 {
            seen = counted(&shared);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        drop(server);
        let after = counted(&store());
        assert!(after >= seen, "{after} {seen}");
        before = after;
    }
}
