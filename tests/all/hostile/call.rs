//! Attacks of a tool during a call.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use shelly_host::{
    event::{Event, EventSink, LogLevel},
    limits,
    plugin::Plugin,
};

use super::{
    ATTACK, all, attack, call, call_watched, cx, engine,
    guest::{self, Guest, SCRATCH, ZEROS, times},
    hasty_engine,
    recovery::call_directly,
    tool,
};

/// The way in which the last call ended, as events tell it.
fn outcome(events: &[Event]) -> &'static str {
    let outcome = events.iter().rev().find_map(|event| match event {
        Event::PluginCall { outcome, .. } => Some(outcome.name()),
        _ => None,
    });
    outcome.unwrap()
}

#[tokio::test]
async fn failed_call_is_reported_and_the_next_calls_work() {
    const LOOP: &str = "(loop $for-ever (br $for-ever))";
    const DEEP: &str = "(func $deep (param i32) (result i32) (i32.add (i32.const 1) (call $deep (local.get 0))))";
    let grow = |memory: &str| {
        format!("(loop $more (br_if $more (i32.ge_s (memory.grow {memory} (i32.const 16)) (i32.const 0))))")
    };
    let memories = "(memory $b 0) (memory $c 0) (memory $d 0) (memory $e 0) (memory $f 0) (memory $g 0) (memory $h 0)";
    // Each takes a share that is far below the limit.
    let shares: String = ["b", "c", "d", "e", "f", "g", "h"]
        .map(|name| format!("(if (i32.lt_s (memory.grow ${name} (i32.const 400)) (i32.const 0)) (then unreachable))"))
        .concat();
    let elements = limits::PLUGIN_TABLE_ELEMENTS;
    let mut log = Guest::tool().import(guest::LOG).pages(1_000);
    log = log
        .attack(&format!("(call $log (i32.const 1) (i32.const {ZEROS}) (i32.const {}))", limits::HOSTCALL_BYTES + 1));
    for (guest, how, says) in [
        (Guest::tool().attack("unreachable"), "trap", "plugin `hostile` crashed: wasm trap: wasm `unreachable`"),
        (Guest::tool().attack("(drop (i32.load (i32.const -4)))"), "trap", "out of bounds memory access"),
        (Guest::tool().attack("(drop (i32.div_u (i32.const 1) (i32.const 0)))"), "trap", "integer divide by zero"),
        (Guest::tool().attack(LOOP), "timeout", "plugin `hostile` timed out after 0.2 seconds"),
        (Guest::tool().attack(&format!("{} unreachable", grow(""))), "limit", "needs more than 128 MiB of memory"),
        (Guest::tool().with(memories).attack(&shares), "limit", "needs more than 128 MiB of memory"),
        (
            Guest::tool().with("(table $t 0 funcref)").attack(&format!(
                "(if (i32.lt_s (table.grow $t (ref.null func) (i32.const {})) (i32.const 0)) (then unreachable))",
                elements + 1
            )),
            "limit",
            "needs tables of more than 100000 elements",
        ),
        (
            Guest::tool().with(DEEP).attack("(drop (call $deep (i32.const 0)))"),
            "limit",
            "needs more than 512 KiB of stack",
        ),
        (log, "trap", "plugin `hostile` crashed"),
        (
            Guest::tool().import(guest::RANDOM).attack("(call $random (i32.const -1) (i32.const 16))"),
            "trap",
            "4294967295 random bytes were requested, the maximum is 65536",
        ),
        (Guest::tool().attack("(return (i32.const -8))"), "trap", "plugin `hostile` crashed"),
        (Guest::tool().attack_with(|image| image.words(&[9, 0, 0, 0])), "trap", "plugin `hostile` crashed"),
        (
            Guest::tool().attack_with(|image| image.contents(&[vec![0, 0, u32::MAX]])),
            "trap",
            "plugin `hostile` crashed",
        ),
        (Guest::tool().attack_with(|image| image.contents(&[vec![77]])), "trap", "plugin `hostile` crashed"),
        (Guest::tool().attack_with(|image| image.words(&[0, 0, 8, u32::MAX])), "trap", "plugin `hostile` crashed"),
    ] {
        let started = Instant::now();
        let result = attack(hasty_engine(), &guest).await;
        assert!(result.is_error && result.text().contains(says), "{says}: {}", result.text());
        assert!(result.text().len() <= limits::ERROR_BYTES + 100);
        assert!(started.elapsed() < Duration::from_secs(10), "{says}: {:?}", started.elapsed());

        let plugin = tool(hasty_engine(), &guest).await;
        let (events, stream) = EventSink::channel();
        call_watched(&plugin, "t", ATTACK, events).await;
        assert_eq!(outcome(&all(stream).await), how, "{says}");
    }
}

#[tokio::test]
async fn guest_memory_within_the_limit_is_granted_and_counted() {
    // Up to the limit and not a page more; what the memory itself does not allow is not counted.
    let most = limits::PLUGIN_MEMORY_BYTES as u32 >> 16;
    let guest = Guest::tool()
        .with("(memory $small 0 1)")
        .attack(&times(3_000, "(drop (memory.grow $small (i32.const 2)))"))
        .attack(&format!("(if (i32.lt_s (memory.grow (i32.const {})) (i32.const 0)) (then unreachable))", most - 64))
        .attack("(if (i32.ge_s (memory.grow (i32.const 1)) (i32.const 0)) (then unreachable))");
    let plugin = tool(engine(), &guest).await;
    let (events, stream) = EventSink::channel();
    assert_eq!(call_watched(&plugin, "t", ATTACK, events).await.text(), "ok");
    let memory = all(stream).await.into_iter().find_map(|event| match event {
        Event::PluginCall { memory, .. } => Some(memory),
        _ => None,
    });
    assert_eq!(memory, Some(limits::PLUGIN_MEMORY_BYTES));
}

#[tokio::test]
async fn tool_replies_over_the_bounds_are_refused_or_cut() {
    let pages = 600; // 37 MiB
    let long = |bytes: usize| Guest::tool().pages(pages).attack_with(|image| image.long_reply(bytes as u32));
    let big = |words: Vec<u32>| Guest::tool().pages(pages).attack_with(|image| image.contents(&[words]));
    let zeros = |bytes: usize| [ZEROS, bytes as u32];
    let media = |kind: usize, name: usize, case: u32, bytes: usize| {
        [&[2][..], &zeros(kind), &[1], &zeros(name), &[case], &zeros(bytes)].concat()
    };
    for (guest, says) in [
        (long(limits::RESULT_BYTES + 1), "the result has 16777217 bytes, the maximum is 16777216"),
        (long(limits::HOSTCALL_BYTES + 1), "plugin `hostile` crashed"),
        (big(media(9, 9, 0, limits::MEDIA_BYTES + 1)), "a medium has 8388609 bytes, the maximum is 8388608"),
        (big(media(limits::RESULT_BYTES + 1, 0, 0, 0)), "the result has"),
        (big(media(limits::MEDIA_NAME_BYTES + 1, 0, 0, 0)), "a media type has 2049 bytes"),
        (big(media(9, limits::MEDIA_NAME_BYTES + 1, 0, 0)), "the name of a medium has 2049 bytes"),
        (big(media(9, 9, 2, limits::MEDIA_NAME_BYTES + 1)), "the URL of a medium has 2049 bytes"),
        (big(media(9, 9, 1, 1_000)), "this call has no attachment"),
        (big([&[4][..], &zeros(limits::RESULT_BYTES), &zeros(1)].concat()), "the result has 16777217 bytes"),
        (big(vec![3]), "proposed a file change, which is not granted"),
    ] {
        let result = attack(engine(), &guest).await;
        assert!(
            result.is_error && result.text().contains(says),
            "{says}: {}",
            &result.text()[..200.min(result.text().len())]
        );
    }
    for guest in [
        long(limits::RESULT_BYTES),
        long(limits::TOOL_RESULT_CHARS + 1),
        big([&[1][..], &zeros(1 << 20)].concat()),
        big([&[4][..], &zeros(1), &zeros(1 << 20)].concat()),
    ] {
        let result = attack(engine(), &guest).await;
        let text = result.text();
        assert!(!result.is_error && text.ends_with("more characters were cut]"), "{}", text.len());
        assert_eq!(text.chars().filter(|c| *c == '\0').count(), limits::TOOL_RESULT_CHARS);
    }
}

#[tokio::test]
async fn guest_error_text_is_cut() {
    let guest = Guest::tool().attack_with(|image| image.failure(0, [ZEROS, 1 << 20]));
    let result = attack(engine(), &guest).await;
    assert!(result.is_error && result.text().ends_with('…'));
    assert_eq!(result.text().len(), limits::ERROR_BYTES);
}

#[tokio::test]
async fn oversized_arguments_do_not_reach_the_guest() {
    let plugin = tool(engine(), &Guest::tool().attack("unreachable")).await;
    let result = call(&plugin, "t", &format!("{{\"a\":\"{}\"}}", "x".repeat(limits::ARGUMENT_BYTES))).await;
    assert!(result.is_error && result.text().contains("the maximum is 1048576"), "{}", result.text());
}

/// All events of one attack.
async fn watched(plugin: &Arc<Plugin>) -> Vec<Event> {
    let (events, stream) = EventSink::channel();
    let (_, events) = tokio::join!(call_watched(plugin, "t", ATTACK, events), all(stream));
    events
}

#[tokio::test]
async fn guest_log_flood_is_capped_and_counted() {
    let entry = |bytes: u32| format!("(call $log (i32.const 1) (i32.const {ZEROS}) (i32.const {bytes}))");
    let fit = limits::LOG_BYTES / limits::LOG_ENTRY_BYTES;
    for (bytes, entries, shown) in [(500, limits::LOG_ENTRIES as usize, 500), (5_000, fit, limits::LOG_ENTRY_BYTES)] {
        let guest = Guest::tool().import(guest::LOG).attack(&times(entries as u32 + 234, &entry(bytes)));
        let events = watched(&tool(engine(), &guest).await).await;
        let logged = events.iter().filter_map(|event| match event {
            Event::PluginLog { level, message, .. } => Some((*level, message)),
            _ => None,
        });
        let logged: Vec<_> = logged.collect();
        assert_eq!(logged.len(), entries + 1);
        let (last, told) = logged.split_last().unwrap();
        assert_eq!((last.0, last.1.as_str()), (LogLevel::Warn, "234 more log entries were dropped"));
        assert!(told.iter().all(|(_, message)| message.len() == shown));
    }
}

#[tokio::test]
async fn guest_progress_flood_is_thinned_and_keeps_the_last_report() {
    let report = format!(
        "(call $progress (f64.convert_i32_u (local.get $n)) (i32.const 0) (f64.const 0)
                         (i32.const 1) (i32.const {ZEROS}) (i32.const 5000))"
    );
    let guest = Guest::tool().import(guest::PROGRESS).attack(&times(10_000, &report));
    let plugin = tool(engine(), &guest).await;
    let started = Instant::now();
    let events = watched(&plugin).await;
    let pauses = started.elapsed().as_millis() / limits::PROGRESS_PAUSE.as_millis();
    let reports = events.iter().filter_map(|event| match event {
        Event::ToolProgress { done, message, .. } => Some((*done, message.as_ref().unwrap().len())),
        _ => None,
    });
    let reports: Vec<_> = reports.collect();
    assert!(reports.len() >= 2 && reports.len() <= pauses as usize + 2, "{} in {pauses} pauses", reports.len());
    assert_eq!((reports[0].0, reports.last().unwrap().0), (10_000.0, 1.0), "the first at once, the newest in the end");
    assert!(reports.iter().all(|(_, bytes)| *bytes <= limits::LOG_ENTRY_BYTES));
}

#[tokio::test]
async fn guest_random_bytes_are_bounded() {
    for (bytes, is_error) in [(0, false), (limits::RANDOM_BYTES, false), (limits::RANDOM_BYTES + 1, true)] {
        let body = format!("(call $random (i32.const {bytes}) (i32.const {SCRATCH}))");
        let guest = Guest::tool().import(guest::RANDOM).attack(&body);
        assert_eq!(attack(engine(), &guest).await.is_error, is_error, "{bytes}");
    }
}

#[tokio::test]
async fn clock_and_random_values_are_reported_to_listeners() {
    let readings = limits::GIVEN_CLOCK_READINGS + 1;
    let random = |bytes: u32| format!("(call $random (i32.const {bytes}) (i32.const {SCRATCH}))");
    // What chance gave is not zero, and stands where the guest was told.
    let look = format!("(if (i64.eqz (i64.load (i32.load (i32.const {SCRATCH})))) (then unreachable))");
    for (body, clock, bytes, cut) in [
        (String::new(), 0, 0, false),
        (format!("(drop (call $now)) {} {look} (drop (call $now))", random(8)), 2, 8, false),
        (format!("{} {}", random(3), random(5)), 0, 8, false),
        (times(readings as u32, "(drop (call $now))"), limits::GIVEN_CLOCK_READINGS, 0, true),
        (format!("{} {}", random(limits::RANDOM_BYTES), random(1)), 0, limits::GIVEN_RANDOM_BYTES, true),
    ] {
        let guest = Guest::tool().import(guest::CLOCK).import(guest::RANDOM).attack(&body);
        let plugin = tool(engine(), &guest).await;
        let (events, told) = (EventSink::new(), Arc::new(Mutex::new(Vec::new())));
        let tap = Arc::clone(&told);
        events.tap(Arc::new(move |event| tap.lock().unwrap().push(event.event.clone())));
        let before = since_1970();
        assert_eq!(call_watched(&plugin, "t", ATTACK, events).await.text(), "ok");
        let told = told.lock().unwrap().clone();
        let [Event::PluginCall { given, .. }] = &told[..] else {
            panic!("a tap alone is told of nothing else: {told:?}")
        };
        assert_eq!((given.clock.len(), given.random.len(), given.cut), (clock, bytes, cut), "{body:.80}");
        assert!(given.clock.is_sorted() && given.clock.iter().all(|now| (before..=since_1970()).contains(now)));
        assert!(bytes < 8 || given.random.iter().any(|byte| *byte != 0));
    }
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

#[tokio::test]
async fn slow_event_reader_does_not_cost_guest_time() {
    const LOOP: &str = "(loop $for-ever (br $for-ever))";
    let patience = Duration::from_millis(200);
    for (then, is_error) in [("", false), (LOOP, true)] {
        let mut guest = Guest::tool().import(guest::LOG);
        let text = guest.text("begun");
        let plugin = tool(hasty_engine(), &guest.attack(&format!("(call $log (i32.const 1) {text}) {then}"))).await;
        let (events, mut stream) = EventSink::channel();
        for _ in 0..limits::EVENT_QUEUE {
            events.emit(Event::Warning { message: String::new() }).await;
        }
        let reading = async {
            tokio::time::sleep(4 * patience).await;
            while stream.next().await.is_some() {}
        };
        // Straight to the plugin: a toolbox would tell of the call before it begins.
        let started = Instant::now();
        let (ended, ()) = tokio::join!(call_directly(&plugin, cx(events)), reading);
        assert_eq!(ended, !is_error);
        assert!(started.elapsed() >= 4 * patience, "it waited for the reader");
        assert!(started.elapsed() < limits::TOOL_TIME / 2, "its own time is still counted");
    }
}
