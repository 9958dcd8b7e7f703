//! Recovery: after hundreds of faults every slot and all memory is free again.

use std::{
    fs,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shelly_host::{
    chat::{ChatSnapshot, Message, ToolCall},
    event::{Event, EventSink, RunCx},
    limits,
    model::{Completer, CompletionRequest, DeltaSink, DeltaTarget, ReplyDelta},
    plugin::{Limits, Plugin, PluginTool},
    tool::ToolCx,
};
use tokio::{sync::Semaphore, task::yield_now};

use super::{
    ATTACK, House, call, cx,
    guest::{self, Guest, ZEROS, times},
    steps, tool,
};

/// Returns limits that allow one plugin the maximum of concurrent calls.
fn many_at_once() -> Limits {
    Limits { concurrency: limits::PLUGIN_CALLS, ..Limits::default() }
}

/// Turns of the runtime after which everything that can run without an event has run.
const TURNS: usize = 5_000;

/// The calls of these tools that are under way at once: each writes to the log, and nobody reads it.
async fn calls_at_once(house: &House, guests: Vec<Guest>) -> usize {
    let mut plugins = Vec::new();
    for mut guest in guests {
        let text = guest.text("begun");
        plugins.push(tool(house, &guest.attack(&format!("(call $log (i32.const 1) {text})"))).await);
    }
    let (events, stream) = EventSink::channel();
    for _ in 0..limits::EVENT_QUEUE {
        events.emit(Event::Warning { message: String::new() }).await;
    }
    let run: Arc<str> = "counted".into();
    let all = limits::PLUGIN_CALLS as usize + 40;
    let calls = plugins.iter().cycle().take(all).map(|plugin| {
        let (plugin, cx) = (Arc::clone(plugin), RunCx { run: run.clone(), ..cx(events.clone()) });
        tokio::spawn(async move { call_directly(&plugin, cx).await })
    });
    let calls: Vec<_> = calls.collect();
    for _ in 0..TURNS {
        yield_now().await;
    }
    // Each call holds the run's name, and its store holds it once more.
    let stores = Arc::strong_count(&run) - 1 - all;
    drop(stream);
    for call in calls {
        assert!(call.await.unwrap());
    }
    assert_eq!(Arc::strong_count(&run), 1);
    stores
}

/// Straight to the plugin: a toolbox would tell of the call before it begins.
pub async fn call_directly(plugin: &Arc<Plugin>, run: RunCx) -> bool {
    let tool = PluginTool::all(plugin).next().unwrap();
    let cx = ToolCx::new(run);
    let call = ToolCall { id: "c".into(), name: "t".into(), arguments: ATTACK.into(), meta: vec![] };
    tool.call(&cx, &call).await.is_ok()
}

/// A watcher that takes its time.
struct Slow {
    taken: AtomicUsize,
    open: Semaphore,
}

#[async_trait]
impl DeltaTarget for Slow {
    async fn take(&self, _: ReplyDelta) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        let _open = self.open.acquire().await;
    }
}

/// The completions of so many models that are under way at once.
async fn completions_at_once(house: &House, count: usize) -> usize {
    let mut models = Vec::new();
    for at in 0..count {
        let guest = Guest::of(&["provider"]).import(guest::SINK).with(&"(func)".repeat(at));
        models.push(steps::model(house, &guest.on("complete", &steps::emit(1))).await);
    }
    let slow = Arc::new(Slow { taken: AtomicUsize::new(0), open: Semaphore::new(0) });
    let calls: Vec<_> = models
        .iter()
        .cycle()
        .take(limits::PLUGIN_CALLS as usize)
        .map(|(_, model)| {
            let (model, sink) = (Arc::clone(model), DeltaSink::new(slow.clone()));
            tokio::spawn(async move { complete(&*model, &sink).await })
        })
        .collect();
    for _ in 0..TURNS {
        yield_now().await;
    }
    let begun = slow.taken.load(Ordering::Relaxed);
    slow.open.add_permits(Semaphore::MAX_PERMITS);
    for call in calls {
        assert!(call.await.unwrap());
    }
    begun
}

async fn complete(model: &dyn Completer, sink: &DeltaSink) -> bool {
    let chat = ChatSnapshot::from_messages(vec![Message::user("go")]).unwrap();
    model.complete(&cx(EventSink::none()), &CompletionRequest::new(chat, [].into()), sink).await.is_ok()
}

/// Guests that fail in all ways.
fn faults() -> Vec<Guest> {
    const DEEP: &str = "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))";
    let memories = "(memory $b 0) (memory $c 0) (memory $d 0)";
    vec![
        Guest::tool().attack("unreachable"),
        Guest::tool().with(DEEP).attack("(drop (call $deep (i32.const 0)))"),
        // Takes all it can, writes into each page, and more.
        Guest::tool().attack(
            "(loop $more
               (if (i32.lt_s (memory.grow (i32.const 1)) (i32.const 0)) (then unreachable))
               (i32.store (i32.sub (i32.shl (memory.size) (i32.const 16)) (i32.const 4)) (i32.const 1))
               (br $more))",
        ),
        Guest::tool()
            .with(memories)
            .attack("(drop (memory.grow $b (i32.const 900))) (drop (memory.grow $c (i32.const 900))) unreachable"),
        Guest::tool()
            .with("(table $t 0 funcref)")
            .attack("(drop (table.grow $t (ref.null func) (i32.const 99999))) unreachable"),
        Guest::tool().pages(600).attack_with(|image| image.long_reply(limits::RESULT_BYTES as u32 + 1)),
        Guest::tool().attack_with(|image| image.failure(0, [ZEROS, 1 << 20])),
        Guest::tool()
            .import(guest::LOG)
            .attack(&times(2_000, &format!("(call $log (i32.const 1) (i32.const {ZEROS}) (i32.const 9000))"))),
        Guest::tool().import(guest::RANDOM).attack("(call $random (i32.const -1) (i32.const 16))"),
        Guest::tool().attack_with(|image| image.words(&[9])),
    ]
}

fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4_096
}

/// Other tests use memory too: this one has a process of its own.
#[test]
fn slots_and_memory_are_freed_after_hundreds_of_faults() {
    const INSIDE: &str = "SHELLY_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_none() {
        let name = "hostile::recovery::slots_and_memory_are_freed_after_hundreds_of_faults";
        let inside = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(INSIDE, "1")
            .output();
        let inside = inside.unwrap();
        let output = String::from_utf8_lossy(&inside.stdout).into_owned() + &String::from_utf8_lossy(&inside.stderr);
        assert!(inside.status.success() && output.contains("1 passed"), "{output}");
        return;
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(fail_and_recover());
}

async fn fail_and_recover() {
    let house = House::new(Limits { tool_time: Duration::from_secs(1), ..many_at_once() });
    let mut plugins = Vec::new();
    for guest in faults() {
        plugins.push(tool(&house, &guest).await);
    }
    let endless = vec![tool(&house, &Guest::tool().attack("(loop $for-ever (br $for-ever))")).await];

    fail(&plugins, 3).await;
    let before = resident_bytes();
    for _ in 0..10 {
        fail(&plugins, 4).await;
    }
    fail(&endless, 40).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{} MiB more than before", grown >> 20);

    let streams = limits::PLUGIN_CALLS as usize / 4;
    let steps = limits::PLUGIN_CALLS as usize - streams;
    let of_one = |places: usize| places / 4 * limits::PLUGIN_QUARTERS_OF_ONE as usize;
    let guest = |at: usize| Guest::tool().import(guest::LOG).with(&"(func)".repeat(at));
    for (count, steps, streams) in [(1, of_one(steps), of_one(streams)), (2, steps, streams)] {
        assert_eq!(calls_at_once(&house, (0..count).map(guest).collect()).await, steps);
        assert_eq!(completions_at_once(&house, count).await, streams);
    }
}

/// So many times each fault, all at once.
async fn fail(plugins: &[Arc<Plugin>], times: usize) {
    let calls = plugins.iter().cycle().take(plugins.len() * times).map(|plugin| {
        let plugin = Arc::clone(plugin);
        tokio::spawn(async move { call(&plugin, "t", ATTACK).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
}

/// A plugin whose components have many memories takes more than one place, so that it starves nobody.
#[tokio::test]
async fn plugins_with_many_memories_leave_slots_for_others() {
    let house = House::new(many_at_once());
    let many = |field: &str, count: u32| Guest::tool().import(guest::LOG).with(&field.repeat(count as usize));
    for (guest, at_once) in [
        (many("(memory 0)", limits::PLUGIN_MEMORIES - 1), 36),
        (many("(table 0 funcref)", limits::PLUGIN_TABLES - 1), 36),
        (many("(memory 0)", 1), 144),
    ] {
        assert_eq!(calls_at_once(&house, vec![guest]).await, at_once);
    }
}
