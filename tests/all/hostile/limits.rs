//! Each limit of a config, and a guest that exceeds it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use shelly_host::{
    agent::RunError,
    app::{App, PreparedRun, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    chat::{Chat, Message, ToolCall, ToolResult},
    config::Config,
    event::{Event, EventSink, RunCx},
    limits,
    model::ScriptedCompleter,
    plugin::Limits,
    tool::{ToolBox, ToolCx},
};

use super::{
    ATTACK, House, all, call, call_watched, cx,
    guest::{self, Guest, SCRATCH, ZEROS, times},
    pack,
    recovery::call_directly,
    tool,
};
use crate::support::Place;

const LOOP: &str = "(loop $for-ever (br $for-ever))";
const CLOCK_LOOP: &str = "(loop $for-ever (drop (call $now)) (br $for-ever))";
/// A model that nobody asks.
const MODEL: &str = "providers: [{name: m, kind: openai, base_url: 'http://127.0.0.1:9/v1', model: m}]";

/// The agent of a config whose plugin `hostile` is this.
async fn agent(manifest: &str, guest: &Guest, config: &str) -> Result<PreparedRun, String> {
    let place = Place::new();
    place.plugin_bytes("hostile", manifest, &guest.component());
    let config = Config::parse(config, place.path()).map_err(|report| report.to_string())?;
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &[place.path().join("plugins")], None, Arc::new(|_| None), broker).unwrap();
    app.agent(None, None, Recording::Off).await.map_err(|report| report.to_string())
}

/// An agent with the tool of a guest, which all plugins' `limits` bound.
async fn with_tool(limits: &str, guest: &Guest) -> Result<ToolBox, String> {
    let config = format!(
        "{MODEL}\nlimits: {limits}\nagents: [{{name: helper, plugins: {{hostile: {{clock: true, random: true}}}}}}]"
    );
    let manifest = "kinds = [\"tool\"]\nwants = { clock = true, random = true }";
    Ok(agent(manifest, guest, &config).await?.entrant.agent().unwrap().tools.clone())
}

async fn dispatch(tools: &ToolBox, arguments: &str) -> (ToolResult, Vec<Event>) {
    let (events, stream) = EventSink::channel();
    let calling = async {
        let run = RunCx::new("helper").with_events(events);
        let cx = ToolCx::new(run);
        let call = ToolCall { id: "c".into(), name: "t".into(), arguments: arguments.into(), meta: vec![] };
        tools.dispatch(&cx, &call).await.result
    };
    tokio::join!(calling, all(stream))
}

/// The resources that one call of a plugin used.
struct Taken {
    outcome: &'static str,
    cpu: Duration,
    host_calls: u64,
    bytes: (usize, usize),
}

fn taken(events: &[Event]) -> Taken {
    let taken = events.iter().rev().find_map(|event| match event {
        Event::PluginCall { outcome, cpu, host_calls, bytes_in, bytes_out, .. } => {
            Some(Taken { outcome: outcome.name(), cpu: *cpu, host_calls: *host_calls, bytes: (*bytes_in, *bytes_out) })
        }
        _ => None,
    });
    taken.unwrap()
}

#[tokio::test]
async fn guest_hits_each_configured_limit() {
    const DEEP: &str = "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))";
    // 4 MiB are there from the beginning; each of these is far below what is left.
    let memories = "(memory $b 0) (memory $c 0) (memory $d 0)";
    let grow =
        |name: &str| format!("(if (i32.lt_s (memory.grow ${name} (i32.const 24)) (i32.const 0)) (then unreachable))");
    let tables = "(table $u 0 funcref) (table $v 0 funcref)";
    let add = |name: &str| {
        format!("(if (i32.lt_s (table.grow ${name} (ref.null func) (i32.const 6)) (i32.const 0)) (then unreachable))")
    };
    let random = |bytes: u32| format!("(call $random (i32.const {bytes}) (i32.const {SCRATCH}))");
    let clock = || Guest::tool().import(guest::CLOCK);
    for (limits, guest, outcome, says) in [
        (
            "{time: 200ms}",
            Guest::tool().attack(LOOP),
            "timeout",
            "plugin `hostile` timed out after 0.2 seconds (limit `time`); raise it with `limits: {time: …}` under \
             agents.helper.plugins.hostile in the config, up to 1h",
        ),
        (
            "{cpu: 60ms}",
            Guest::tool().attack(LOOP),
            "limit",
            "plugin `hostile` used more than 0.06 seconds of processor time (limit `cpu`); raise it with `limits: \
             {cpu: …}` under agents.helper.plugins.hostile in the config, up to 1h",
        ),
        // Time in functions of the host counts.
        ("{cpu: 60ms, host_calls_per_second: 10000000}", clock().attack(CLOCK_LOOP), "limit", "(limit `cpu`)"),
        (
            "{memory_bytes: 8388608}",
            Guest::tool().with(memories).attack(&["b", "c", "d"].map(grow).concat()),
            "limit",
            "plugin `hostile` needs more than 8 MiB of memory (limit `memory_bytes`)",
        ),
        (
            "{table_elements: 10}",
            Guest::tool().with(tables).attack(&["u", "v"].map(add).concat()),
            "limit",
            "needs tables of more than 10 elements (limit `table_elements`)",
        ),
        (
            "{stack_bytes: 65536}",
            Guest::tool().with(DEEP).attack("(drop (call $deep (i32.const 0)))"),
            "limit",
            "needs more than 64 KiB of stack (limit `stack_bytes`); raise it with `limits: {stack_bytes: …}` at the \
             top of the config, up to 8388608",
        ),
        // It went on without the memory that it did not get: that is not what ended it.
        (
            "{stack_bytes: 65536}",
            Guest::tool().with(DEEP).attack("(drop (memory.grow (i32.const 65000))) (drop (call $deep (i32.const 0)))"),
            "limit",
            "needs more than 64 KiB of stack (limit `stack_bytes`)",
        ),
        (
            "{input_bytes: 1000}",
            Guest::tool().import(guest::RANDOM).attack(&times(3, &random(400))),
            "limit",
            "received more than 1000 bytes (limit `input_bytes`)",
        ),
        (
            "{output_bytes: 2048}",
            Guest::tool().attack_with(|image| image.long_reply(2_049)),
            "limit",
            "returned more than 2 KiB (limit `output_bytes`)",
        ),
        (
            "{output_bytes: 2048}",
            Guest::tool()
                .import(guest::LOG)
                .attack(&times(5, &format!("(call $log (i32.const 1) (i32.const {ZEROS}) (i32.const 500))"))),
            "limit",
            "returned more than 2 KiB (limit `output_bytes`)",
        ),
        (
            "{time: 300ms, host_calls_per_second: 50}",
            clock().attack(CLOCK_LOOP),
            "timeout",
            "throttled to 50 calls of imported functions per second (limit `host_calls_per_second`)",
        ),
    ] {
        let tools = with_tool(limits, &guest).await.unwrap_or_else(|error| panic!("{limits}: {error}"));
        let started = Instant::now();
        let (result, events) = dispatch(&tools, ATTACK).await;
        assert!(result.is_error && result.text().contains(says), "{limits}: {}", result.text());
        let taken = taken(&events);
        assert_eq!(taken.outcome, outcome, "{limits}");
        assert!(started.elapsed() < Duration::from_secs(10), "{limits}: {:?}", started.elapsed());
        if limits.contains("second: 50}") {
            // It waits, and keeps no processor busy meanwhile.
            assert!(taken.cpu < Duration::from_millis(150) && taken.host_calls > 50, "{:?}", taken.cpu);
        } else {
            let (after, _) = dispatch(&tools, "{}").await;
            assert_eq!((after.is_error, after.text().as_str()), (false, "ok"), "{limits}");
        }
    }
}

#[tokio::test]
async fn input_over_the_configured_limit_does_not_reach_the_guest() {
    let tools = with_tool("{input_bytes: 1000}", &Guest::tool().attack("unreachable")).await.unwrap();
    let (result, events) = dispatch(&tools, &format!("{{\"a\":\"{}\"}}", "x".repeat(1_000))).await;
    assert!(result.text().contains("received more than 1000 bytes"), "{}", result.text());
    assert_eq!(taken(&events).host_calls, 0);
}

#[tokio::test]
async fn log_entries_over_the_configured_limit_are_dropped() {
    let entry = format!("(call $log (i32.const 1) (i32.const {ZEROS}) (i32.const 10))");
    let guest = Guest::tool().import(guest::LOG).attack(&times(9, &entry));
    for (limits, told) in
        [("{log_entries: 3}", 3), ("{log_entries: 0}", 0), ("{log_bytes: 49}", 4), ("{log_bytes: 0}", 0)]
    {
        let tools = with_tool(limits, &guest).await.unwrap();
        let (result, events) = dispatch(&tools, ATTACK).await;
        assert_eq!(result.text(), "ok");
        let logged = events.iter().filter_map(|event| match event {
            Event::PluginLog { message, .. } => Some(message.as_str()),
            _ => None,
        });
        let logged: Vec<_> = logged.collect();
        let dropped = format!("{} more log entries were dropped", 9 - told);
        assert_eq!((logged.len() - 1, logged.last().copied()), (told, Some(dropped.as_str())), "{limits}");
    }
}

#[tokio::test]
async fn component_over_the_instances_limit_is_not_loaded() {
    // What hands a text to a function that it imports is made of several.
    let guest = || Guest::tool().import(guest::LOG).with("(table funcref (elem $log))");
    for (limits, loads) in [("{instances: 1}", false), ("{instances: 9}", true)] {
        let loaded = with_tool(limits, &guest()).await;
        assert_eq!(loaded.is_ok(), loads, "{limits}");
        if let Err(error) = loaded {
            assert!(error.contains("needs more than 1 core instances (limit `instances`)"), "{error}");
        }
    }
}

#[tokio::test]
async fn plugin_limits_override_global_limits() {
    let state = Guest::of(&["effect"]).answer("eval", |image| image.step_of([ZEROS, 11], [0; 4]));
    let slow = Guest::of(&["effect"]).on("eval", LOOP);
    let manifest = "kinds = [\"effect\"]\neffect = { phases = [\"before-model\"] }";
    for (guest, own, says) in [
        (&state, "{state_bytes: 10}", Some("returned a state of 11 bytes, the maximum is 10 (limit `state_bytes`)")),
        (&state, "{state_bytes: 11}", None),
        (&slow, "{time: 100ms}", Some("timed out after 0.1 seconds")),
    ] {
        let config = format!(
            "{MODEL}\nlimits: {{state_bytes: 5, time: 1h}}\n\
             agents: [{{name: helper, plugins: {{hostile: {{limits: {own}}}}}}}]"
        );
        let mut helper = agent(manifest, guest, &config).await.unwrap().entrant.agent().unwrap().clone();
        helper.completer = Arc::new(ScriptedCompleter::new([ScriptedCompleter::text("done")]));
        let outcome = helper.run(&cx(EventSink::none()), &Chat::new(), vec![Message::user("go")]).await;
        let reason = outcome
            .err()
            .map(|error| std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string));
        match (reason, says) {
            (None, None) => {}
            (Some(reason), Some(says)) => assert!(reason.contains(says), "{own}: {reason}"),
            (reason, _) => panic!("{own}: {reason:?}"),
        }
    }
}

#[tokio::test]
async fn provider_limits_override_global_limits() {
    let guest = Guest::of(&["provider"]).on("complete", LOOP);
    let config = "limits: {time: 1h}\nproviders: [{name: m, kind: plugin, plugin: hostile, limits: {time: 100ms}}]\n\
                  agents: [{name: helper}]";
    let helper = agent("kinds = [\"provider\"]", &guest, config).await.unwrap().entrant;
    let helper = helper.runner();
    let outcome = helper.run(&cx(EventSink::none()), &Chat::new(), vec![Message::user("go")]).await;
    let Err(RunError::Model(fault)) = outcome else { panic!("{outcome:?}") };
    assert!(fault.to_string().contains("timed out after 0.1 seconds"), "{fault}");
}

/// A guest that writes to the log once, and events that nobody reads: it waits.
async fn waiting(house: &House) -> (Arc<shelly_host::plugin::Plugin>, EventSink, shelly_host::event::EventStream) {
    let mut guest = Guest::tool().import(guest::LOG);
    let text = guest.text("begun");
    let plugin = tool(house, &guest.attack(&format!("(call $log (i32.const 1) {text})"))).await;
    let (events, stream) = EventSink::channel();
    for _ in 0..limits::EVENT_QUEUE {
        events.emit(Event::Warning { message: String::new() }).await;
    }
    (plugin, events, stream)
}

#[tokio::test(start_paused = true)]
async fn call_blocked_in_the_host_times_out() {
    let house = House::new(Limits { tool_time: Duration::from_millis(200), ..Limits::default() });
    let (plugin, events, stream) = waiting(&house).await;
    let reading = async {
        tokio::time::sleep(limits::READER_WAIT + Duration::from_secs(1)).await;
        drop(stream);
    };
    // Had it not been ended before, it would have gone on now.
    let (went_on, ()) = tokio::join!(call_directly(&plugin, cx(events)), reading);
    assert!(!went_on);
    assert_eq!(call(&plugin, "t", "{}").await.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn calls_over_plugin_concurrency_wait_within_a_bound() {
    let house = House::new(Limits { concurrency: 1, ..Limits::default() });
    let (plugin, events, stream) = waiting(&house).await;
    let first = tokio::spawn({
        let (plugin, cx) = (Arc::clone(&plugin), cx(events));
        async move { call_directly(&plugin, cx).await }
    });
    tokio::task::yield_now().await;
    let started = tokio::time::Instant::now();
    let (sink, told) = EventSink::channel();
    let (second, events) = tokio::join!(call_watched(&plugin, "t", "{}", sink), all(told));
    assert!(started.elapsed() >= limits::PLUGIN_PERMIT_WAIT);
    let says = "1 calls of plugin `hostile` (limit `concurrency`) are running";
    assert!(second.is_error && second.text().contains(says), "{}", second.text());
    assert!(second.text().contains("retry later; raise it with `limits: {concurrency: …}` under"));
    assert_eq!(taken(&events).outcome, "limit");
    // Others have places of their own, and this one has its again when the first call is over.
    let other = tool(&house, &Guest::tool()).await;
    assert_eq!(call(&other, "t", "{}").await.text(), "ok");
    drop(stream);
    assert!(first.await.unwrap());
    assert_eq!(call(&plugin, "t", "{}").await.text(), "ok");
}

#[tokio::test]
async fn plugin_of_many_agents_leaves_slots_for_others() {
    let house = House::new(Limits::default());
    let mut guest = Guest::tool().import(guest::LOG);
    let text = guest.text("begun");
    let packed = pack(&["tool"], "", &guest.attack(&format!("(call $log (i32.const 1) {text})")).component());
    let (events, stream) = EventSink::channel();
    for _ in 0..limits::EVENT_QUEUE {
        events.emit(Event::Warning { message: String::new() }).await;
    }
    let begun = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&begun);
    events.tap(Arc::new(move |event| {
        count.fetch_add(u32::from(matches!(event.event, Event::PluginLog { .. })), Ordering::Relaxed);
    }));
    // Each of these agents alone is within its own bound; together they want all places and more.
    let mut agents = Vec::new();
    for _ in 0..4 {
        agents.push(packed.load(&house).await.unwrap());
    }
    let calls = agents.iter().cycle().take(4 * limits::PLUGIN_CONCURRENCY as usize).map(|plugin| {
        let (plugin, cx) = (Arc::clone(plugin), cx(events.clone()));
        tokio::spawn(async move { call_directly(&plugin, cx).await })
    });
    let calls: Vec<_> = calls.collect();
    for _ in 0..5_000 {
        tokio::task::yield_now().await;
    }
    let places = limits::PLUGIN_CALLS / 4 * 3;
    assert_eq!(begun.load(Ordering::Relaxed), places / 4 * limits::PLUGIN_QUARTERS_OF_ONE);
    let other = tool(&house, &Guest::tool()).await;
    for _ in 0..3 {
        assert_eq!(call(&other, "t", "{}").await.text(), "ok");
    }
    assert!(calls.iter().all(|call| !call.is_finished()));
    drop((events, stream));
    for call in calls {
        assert!(call.await.unwrap());
    }
}

#[tokio::test]
async fn configured_concurrency_serialises_plugin_calls() {
    // Two calls at once, each a tenth of a second long: one after the other.
    let tools = with_tool("{time: 100ms, concurrency: 1}", &Guest::tool().attack(LOOP)).await.unwrap();
    let started = Instant::now();
    let (first, second) = tokio::join!(dispatch(&tools, ATTACK), dispatch(&tools, ATTACK));
    assert!(first.0.is_error && second.0.is_error);
    assert!(started.elapsed() >= Duration::from_millis(200), "{:?}", started.elapsed());
}

#[tokio::test]
async fn resource_usage_of_a_call_is_reported() {
    let random = format!("(call $random (i32.const 100) (i32.const {SCRATCH}))");
    let mut guest = Guest::tool().import(guest::CLOCK).import(guest::RANDOM).import(guest::LOG);
    let text = guest.text("seven b");
    let log = format!("(call $log (i32.const 1) {text})");
    let busy = times(3_000_000, "");
    let guest = guest.attack(&format!("{random} {log} (drop (call $now)) {busy}"));
    let tools = with_tool("{}", &guest).await.unwrap();
    let (result, events) = dispatch(&tools, ATTACK).await;
    assert_eq!(result.text(), "ok");
    let told = taken(&events);
    assert_eq!((told.outcome, told.host_calls), ("ok", 3));
    // Its id, name and arguments, and 100 random bytes; the entry and "ok".
    assert_eq!(told.bytes, (1 + 1 + ATTACK.len() + 100, 7 + 2));
    assert!(told.cpu > Duration::from_micros(100), "{:?}", told.cpu);
    let (_, events) = dispatch(&tools, "{}").await;
    let quick = taken(&events);
    assert!(quick.host_calls == 0 && quick.cpu < told.cpu, "{:?} {:?}", quick.cpu, told.cpu);
}
