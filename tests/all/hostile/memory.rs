//! The memory budget of all plugins together: guests that want more than there is, and guests that only want some.

use std::{
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use shelly_host::{
    app::{App, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    chat::ToolCall,
    config::Config,
    event::{Event, EventSink, EventStream, PluginCallOutcome, RunCx},
    limits,
    plugin::{Limits, Plugin, PluginEngine, PluginSettings},
    tool::ToolCx,
};
use tokio::task::JoinHandle;

use super::{
    ATTACK, House, Packed, all, call, call_watched, cx,
    guest::{self, Guest},
    pack,
    recovery::call_directly,
};
use crate::support::Place;

const MIB: usize = 1 << 20;
/// Bytes of the memory that a guest of these tests begins with.
const BEGINS_WITH: usize = 4 * MIB;

/// An engine whose guests may hold so many bytes together.
fn house(total: usize, limits: Limits) -> House {
    House { engine: Arc::new(PluginEngine::new(None).unwrap().with_guest_memory(total)), limits }
}

fn held(house: &House) -> usize {
    house.engine.guest_memory().held
}

/// Grows by so many bytes, a mebibyte at a time, and writes into each page.
fn grows(mebibytes: usize) -> String {
    let step = |n: usize| {
        let at = BEGINS_WITH + n * MIB;
        format!(
            "(if (i32.lt_s (memory.grow (i32.const 16)) (i32.const 0)) (then unreachable))
             (memory.fill (i32.const {at}) (i32.const 1) (i32.const {MIB}))"
        )
    };
    (0..mebibytes).map(step).collect()
}

/// A guest that does this where it attacks, and whose component is that of no other word.
fn guest(word: &str, attack: &str) -> Packed {
    let mut guest = Guest::tool();
    guest.text(word);
    pack(&["tool"], "", &guest.attack(attack).component())
}

/// Returns a guest that attacks in this way and then writes to the log.
fn guest_that_logs(word: &str, attack: &str) -> Packed {
    let mut guest = Guest::tool().import(guest::LOG);
    let text = guest.text(word);
    pack(&["tool"], "", &guest.attack(&format!("{attack} (call $log (i32.const 1) {text})")).component())
}

/// Loads a plugin for an agent of this name.
async fn load(house: &House, agent: &str, packed: &Packed) -> Arc<Plugin> {
    let settings = PluginSettings {
        limits: house.limits,
        ..PluginSettings::new(agent, format!("agents.{agent}.plugins.hostile"))
    };
    Arc::new(Plugin::load(&house.engine, packed.package.as_ref().unwrap(), &settings).await.unwrap())
}

/// Events that nobody reads: who writes to the log waits until the stream goes.
async fn full_events() -> (EventSink, EventStream) {
    let (events, stream) = EventSink::channel();
    for _ in 0..limits::EVENT_QUEUE {
        events.emit(Event::Warning { message: String::new() }).await;
    }
    (events, stream)
}

/// A call that holds what it has grown to until the stream of events goes.
async fn holding(house: &House, plugin: &Arc<Plugin>, bytes: usize) -> (JoinHandle<bool>, EventStream) {
    let (events, stream) = full_events().await;
    let before = held(house);
    let plugin = Arc::clone(plugin);
    let calling = tokio::spawn(async move { call_directly(&plugin, cx(events)).await });
    while held(house) < before + bytes {
        assert!(!calling.is_finished());
        tokio::task::yield_now().await;
    }
    (calling, stream)
}

/// Makes so many calls that grow. Returns how many succeed, and what the others say.
async fn many_calls(house: &House, calls: usize, mebibytes: usize) -> (usize, Vec<String>) {
    let plugin = load(house, "helper", &guest("many", &grows(mebibytes))).await;
    let calls = (0..calls).map(|_| {
        let plugin = Arc::clone(&plugin);
        tokio::spawn(async move { call(&plugin, "t", ATTACK).await })
    });
    let mut calls: Vec<_> = calls.collect();
    let (mut done, mut refused) = (0, Vec::new());
    for call in calls.drain(..) {
        let result = call.await.unwrap();
        match result.is_error {
            true => refused.push(result.text()),
            false => done += 1,
        }
        let memory = house.engine.guest_memory();
        assert!(memory.held <= memory.total, "{memory:?}");
    }
    assert_eq!(held(house), 0, "all is given back");
    assert_eq!(call(&plugin, "t", "{}").await.text(), "ok");
    (done, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_calls_stay_within_the_memory_budget() {
    let house = house(64 * MIB, Limits::default());
    let started = Instant::now();
    let (done, refused) = many_calls(&house, 96, 12).await;
    assert!(done > 0 && done + refused.len() == 96, "{done}");
    for text in &refused {
        // One of those that wait for each other is ended at once.
        assert!(text.contains("was stopped, because all calls that hold memory wait for more"), "{text}");
        assert!(text.contains("one plugin can use 48 MiB of the 64 MiB of all plugins (limit `total_memory_bytes`)"));
        assert!(text.contains("write a larger `limits: {total_memory_bytes: …}` at the top of the config"), "{text}");
    }
    // Whoever waits for who waits is refused at once.
    assert!(started.elapsed() < limits::PLUGIN_PERMIT_WAIT, "{:?}", started.elapsed());
}

/// Variable that tells the test below that it is the measured process: bytes of the budget, and calls.
const MEASURED: &str = "SHELLY_TEST_PEAK_MEMORY";

/// Bytes of memory that this process had at most.
#[cfg(target_os = "linux")]
fn peak_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<usize>().unwrap() << 10
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn peak_memory_of_many_calls_stays_near_the_budget() {
    const BUDGET: usize = 256 * MIB;
    if let Ok(measured) = std::env::var(MEASURED) {
        let (budget, calls) = measured.split_once(',').unwrap();
        let house = house(budget.parse().unwrap(), Limits::default());
        let before = peak_memory();
        let (done, _) = many_calls(&house, calls.parse().unwrap(), 100).await;
        println!("done {done}, peak {}", peak_memory() - before);
        return;
    }
    let own = std::env::current_exe().unwrap();
    let test = "hostile::memory::peak_memory_of_many_calls_stays_near_the_budget";
    let ran = Command::new(own)
        .args([test, "--exact", "--nocapture"])
        .env(MEASURED, format!("{BUDGET},96"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    let peak: usize = told.split("peak ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap();
    // Without a budget 64 calls at once hold 104 MiB each. Beside the guests there are the compiler, stacks and what the
    // pool keeps.
    assert!(ran.status.success() && peak < BUDGET + 256 * MIB, "{told}");
    assert!(peak > BUDGET / 4, "they were real: {told}");
}

#[tokio::test(start_paused = true)]
async fn call_waits_for_memory_until_another_one_ends() {
    let house = house(64 * MIB, Limits::default());
    let first = load(&house, "one", &guest_that_logs("first", &grows(36))).await;
    let second = load(&house, "two", &guest("second", &grows(20))).await;
    let (holder, stream) = holding(&house, &first, 40 * MIB).await;
    let (events, told) = EventSink::channel();
    let waiting = tokio::spawn(async move { tokio::join!(call_watched(&second, "t", ATTACK, events), all(told)) });
    while held(&house) + MIB <= 64 * MIB {
        assert!(!waiting.is_finished());
        tokio::task::yield_now().await;
    }
    // It has come as far as it can.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    drop(stream);
    assert!(holder.await.unwrap());
    let (result, events) = waiting.await.unwrap();
    assert_eq!((result.is_error, result.text().as_str()), (false, "ok"));
    let waits: Vec<_> = events.iter().filter(|event| matches!(event, Event::PluginWaits { .. })).collect();
    let [Event::PluginWaits { agent, plugin, held: at, total }] = waits[..] else { panic!("once a call: {waits:?}") };
    assert_eq!((&**agent, &**plugin, *total), ("helper", "hostile", 64 * MIB));
    assert!(*at > 63 * MIB && *at <= 64 * MIB, "{at}");
    assert_eq!(held(&house), 0);
}

#[tokio::test(start_paused = true)]
async fn call_waiting_for_memory_times_out() {
    let house = house(64 * MIB, Limits::default());
    let first = load(&house, "one", &guest_that_logs("first", &grows(36))).await;
    let second = load(&house, "two", &guest("second", &grows(30))).await;
    let (holder, stream) = holding(&house, &first, 40 * MIB).await;
    let started = tokio::time::Instant::now();
    let (events, told) = EventSink::channel();
    let (result, events) = tokio::join!(call_watched(&second, "t", ATTACK, events), all(told));
    assert!(started.elapsed() >= limits::GUEST_MEMORY_WAIT);
    let says = "plugin `hostile` waited too long for 1 MiB more memory: all plugins together can use 64 MiB (limit \
                `total_memory_bytes`); retry later, or write a larger `limits: {total_memory_bytes: …}` at the top";
    assert!(result.is_error && result.text().contains(says), "{}", result.text());
    let outcome = |event: &Event| matches!(event, Event::PluginCall { outcome: PluginCallOutcome::Limit, .. });
    assert!(events.iter().any(outcome), "{events:?}");
    // What it held came back, and another call finds it.
    assert_eq!(call(&second, "t", "{}").await.text(), "ok");
    drop(stream);
    assert!(holder.await.unwrap());
    assert_eq!(call(&second, "t", ATTACK).await.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn plugins_of_one_agent_leave_memory_for_another() {
    let house = house(64 * MIB, Limits::default());
    let first = load(&house, "one", &guest_that_logs("first", &grows(36))).await;
    let second = guest("second", &grows(12));
    let (of_same, of_other) = (load(&house, "one", &second).await, load(&house, "two", &second).await);
    let (holder, stream) = holding(&house, &first, 40 * MIB).await;
    let refused = call(&of_same, "t", ATTACK).await;
    let says = "the plugins of one agent can use 48 MiB of the 64 MiB of all plugins";
    assert!(refused.is_error && refused.text().contains(says), "{}", refused.text());
    assert_eq!(call(&of_other, "t", ATTACK).await.text(), "ok");
    drop(stream);
    assert!(holder.await.unwrap());
    assert_eq!(call(&of_same, "t", ATTACK).await.text(), "ok");
}

#[tokio::test(start_paused = true)]
async fn call_over_its_memory_share_is_refused_at_once() {
    let house = house(64 * MIB, Limits::default());
    let plugin = load(&house, "one", &guest("large", &grows(60))).await;
    let started = tokio::time::Instant::now();
    let result = call(&plugin, "t", ATTACK).await;
    let says = "plugin `hostile` needs 1 MiB more memory, but one plugin can use 48 MiB of the 64 MiB of all plugins";
    assert!(result.is_error && result.text().contains(says), "{}", result.text());
    assert!(started.elapsed() < limits::GUEST_MEMORY_WAIT, "there is nothing to wait for");
    assert_eq!((call(&plugin, "t", "{}").await.text().as_str(), held(&house)), ("ok", 0));
}

#[tokio::test(start_paused = true)]
async fn new_call_waits_for_its_initial_memory() {
    let house = house(64 * MIB, Limits::default());
    let first = load(&house, "one", &guest_that_logs("first", &grows(36))).await;
    let second = load(&house, "two", &guest_that_logs("second", &grows(12))).await;
    let third = load(&house, "three", &guest("third", "")).await;
    let (one, stream) = holding(&house, &first, 40 * MIB).await;
    let (two, other_stream) = holding(&house, &second, 16 * MIB).await;
    let started = tokio::time::Instant::now();
    let refused = call(&third, "t", "{}").await;
    assert!(refused.is_error && refused.text().contains("waited too long for"), "{}", refused.text());
    assert!(started.elapsed() >= limits::PLUGIN_PERMIT_WAIT);
    let ending = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(other_stream);
    };
    let (result, ()) = tokio::join!(call(&third, "t", "{}"), ending);
    assert_eq!(result.text(), "ok");
    drop(stream);
    for call in [one, two] {
        assert!(call.await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn guest_tables_count_as_memory() {
    let elements = limits::PLUGIN_TABLE_ELEMENTS_CEILING / 2;
    let house = house(64 * MIB, Limits { table_elements: 2 * elements, ..Limits::default() });
    let mut guest = Guest::tool().import(guest::LOG).with("(table $more 0 funcref)");
    let text = guest.text("begun");
    let grow =
        format!("(drop (table.grow $more (ref.null func) (i32.const {elements}))) (call $log (i32.const 1) {text})");
    let packed = pack(&["tool"], "", &guest.attack(&grow).component());
    let plugin = load(&house, "one", &packed).await;
    let (holder, stream) = holding(&house, &plugin, BEGINS_WITH + elements * limits::TABLE_ELEMENT_BYTES).await;
    drop(stream);
    assert_eq!((holder.await.unwrap(), held(&house)), (true, 0));
}

#[tokio::test]
async fn config_bounds_the_total_plugin_memory() {
    let place = Place::new();
    let packed = Guest::tool().attack(&grows(30)).component();
    place.plugin_bytes("hostile", "kinds = [\"tool\"]", &packed);
    for (limits, is_refused) in [("{total_memory_bytes: 33554432}", true), ("{total_memory_bytes: 67108864}", false)] {
        let text = format!(
            "providers: [{{name: m, kind: openai, base_url: 'http://127.0.0.1:9/v1', model: m}}]\nlimits: {limits}\n\
             agents: [{{name: helper, plugins: {{hostile: }}}}]"
        );
        let config = Config::parse(&text, place.path()).unwrap();
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = App::new(config, &[place.path().join("plugins")], None, Arc::new(|_| None), broker).unwrap();
        let agent = app.agent(None, None, Recording::Off).await.unwrap();
        let tools = agent.entrant.agent().unwrap().tools.clone();
        let run = RunCx::new("helper");
        let cx = ToolCx::new(run);
        let call = ToolCall { id: "c".into(), name: "t".into(), arguments: ATTACK.into(), meta: vec![] };
        let result = tools.dispatch(&cx, &call).await.result;
        assert_eq!(result.is_error, is_refused, "{limits}: {}", result.text());
        let says = "one plugin can use 24 MiB of the 32 MiB of all plugins (limit `total_memory_bytes`)";
        assert!(!is_refused || result.text().contains(says), "{}", result.text());
    }
}
