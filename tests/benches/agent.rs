//! The cost of the agent's own loop, with models and tools in this process, so that nothing else is measured: an iteration
//! (one model request and one tool call) of short and long runs and of long conversations, and many agents that one agent
//! delegates to. Telemetry is measured with a collector in this process.
//!
//! Iterations are measured in processor time (user and system) of all threads, on which other load of the machine has less
//! influence. Agents are built anew for each run, by a registry.

use std::{
    error::Error,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use criterion::{BenchmarkId, Criterion};
use shelly_host::{
    agent::{Agent, AgentEntry, AgentGroup, AgentRegistry},
    chat::{Chat, Message, Part, Role, ToolCall, ToolResult},
    event::{Event, EventSink, RunCx},
    net::HttpClient,
    telemetry::{ModelDirectory, ObservedRun, OtlpProtocol, OtlpTarget, SpanPropagation, Telemetry, TelemetrySettings},
};
use tokio::runtime::Runtime;

mod delegation;
mod stage;

/// Iterations of the run that is measured on a long conversation.
const CALLS_ON_A_LONG_CHAT: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().any(|argument| argument == delegation::MEMORY) {
        return delegation::memory();
    }
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let mut criterion = Criterion::default()
        .output_directory(std::path::Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/criterion")))
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runs(&mut criterion, &runtime);
    long_chats(&mut criterion, &runtime);
    exported_runs(&mut criterion, &runtime);
    criterion.final_summary();
    // Whoever names one of the others does not want this.
    match std::env::args()
        .any(|argument| ["run/", "chat/", "telemetry/"].iter().any(|group| argument.starts_with(group)))
    {
        true => Ok(()),
        false => delegation::measure(smoke),
    }
}

/// Runs of some calls and an answer, from making the agent to the answer; the time is that of one iteration.
fn runs(criterion: &mut Criterion, runtime: &Runtime) {
    let mut group = criterion.benchmark_group("run");
    for calls in [1, 10, 100, 1_000] {
        for (way, effects, watched) in [("plain", false, false), ("watched", false, true), ("5 effects", true, false)] {
            let worker = worker(calls, effects);
            group.bench_function(BenchmarkId::new(way, calls), |bencher| {
                bencher.iter_custom(|iterations| {
                    let runs = iterations.div_ceil(calls as u64);
                    let before = stage::cpu();
                    for _ in 0..runs {
                        runtime.block_on(run(&worker, &Chat::new(), watched));
                    }
                    of(stage::cpu() - before, iterations, runs * calls as u64)
                });
            });
        }
    }
    group.finish();
}

/// One iteration of a run on a conversation that is there already.
fn long_chats(criterion: &mut Criterion, runtime: &Runtime) {
    let mut group = criterion.benchmark_group("chat");
    for messages in [100, 1_000, 10_000] {
        for (way, effects) in [("plain", false), ("5 effects", true)] {
            let worker = worker(CALLS_ON_A_LONG_CHAT, effects);
            group.bench_function(BenchmarkId::new(way, messages), |bencher| {
                bencher.iter_custom(|iterations| {
                    let runs = iterations.div_ceil(CALLS_ON_A_LONG_CHAT as u64);
                    let mut spent = Duration::ZERO;
                    for _ in 0..runs {
                        let chat = chat_of(messages);
                        let before = stage::cpu();
                        runtime.block_on(run(&worker, &chat, false));
                        spent += stage::cpu() - before;
                    }
                    of(spent, iterations, runs * CALLS_ON_A_LONG_CHAT as u64)
                });
            });
        }
    }
    group.finish();
}

/// Calls of the runs that are exported: all of their events fit into the queue of a reader.
const EXPORTED_CALLS: usize = 100;

/// Runs whose telemetry is exported to a collector in this process, and the same without; the time is that of one iteration, with
/// the last export and the work of the collector.
fn exported_runs(criterion: &mut Criterion, runtime: &Runtime) {
    let (worker, url) = (worker(EXPORTED_CALLS, false), collector());
    let mut group = criterion.benchmark_group("telemetry");
    let told = TelemetrySettings { propagation: SpanPropagation::All, ..settings(&url, false) };
    for (way, settings) in [
        ("off", TelemetrySettings::default()),
        ("on", settings(&url, false)),
        ("on, with spans that are told", told),
        ("with content", settings(&url, true)),
    ] {
        let client = HttpClient::new().expect("TLS can be set up");
        group.bench_function(BenchmarkId::new(way, EXPORTED_CALLS), |bencher| {
            bencher.iter_custom(|iterations| {
                let runs = iterations.div_ceil(EXPORTED_CALLS as u64);
                let before = stage::cpu();
                for _ in 0..runs {
                    let telemetry = Telemetry::new(settings.clone(), client.clone());
                    runtime.block_on(exported_run(&worker, &telemetry));
                }
                of(stage::cpu() - before, iterations, runs * EXPORTED_CALLS as u64)
            });
        });
    }
    group.finish();
}

async fn exported_run(agent: &Agent, telemetry: &Telemetry) {
    let (agent, events) = (agent.clone(), EventSink::new());
    let models = Arc::new(ModelDirectory::default());
    let redact = Arc::new(|text: &str| text.to_owned());
    telemetry.observe(&events, ObservedRun { conversation: None, models, redact });
    let cx = RunCx::new("worker").with_events(events);
    agent.run(&cx, &Chat::new(), stage::task()).await.expect("the model answers");
    drop((cx, agent));
    let losses = telemetry.finish().await;
    assert_eq!(losses.warning(), None);
}

fn settings(url: &str, content: bool) -> TelemetrySettings {
    let target = |path: &str| {
        Some(OtlpTarget {
            url: format!("{url}/v1/{path}").parse().expect("it is a URL"),
            protocol: OtlpProtocol::HttpProtobuf,
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
        })
    };
    let (traces, metrics, logs) = (target("traces"), target("metrics"), target("logs"));
    TelemetrySettings { traces, metrics, logs, content, ..TelemetrySettings::default() }
}

/// Starts a collector that reads everything and keeps nothing. Returns its address.
fn collector() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || swallow(connection));
        }
    });
    url
}

/// Answers one request.
fn swallow(mut connection: TcpStream) {
    let (mut bytes, mut chunk) = (Vec::<u8>::new(), vec![0_u8; 64 << 10]);
    while let Ok(read @ 1..) = connection.read(&mut chunk) {
        bytes.extend(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if bytes.len() - end - 4 >= length.unwrap_or(0) {
            let answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            let _ = connection.write_all(answer);
            return;
        }
    }
}

/// The share of `wanted` iterations, if `done` took so long.
fn of(time: Duration, wanted: u64, done: u64) -> Duration {
    time.mul_f64(wanted as f64 / done as f64)
}

/// An agent as a registry builds one for a group: its model calls a tool `calls` times and then answers.
fn worker(calls: usize, effects: bool) -> Agent {
    let asked = AtomicUsize::new(0);
    let model =
        stage::Model::completer(Duration::ZERO, move |_| match asked.fetch_add(1, Ordering::Relaxed) % (calls + 1) {
            last if last == calls => stage::Says::Answer("It stands there four times."),
            _ => stage::say_hello(),
        });
    let worker = match effects {
        false => stage::agent("worker", &model),
        true => stage::with_effects(stage::agent("worker", &model)),
    };
    let (registry, registered) = (AgentRegistry::new(), worker.clone());
    registry.register(AgentEntry::new("worker", "Looks things up"), move || registered.clone());
    worker.with_agent_group(Arc::new(AgentGroup::new(registry)), 1)
}

async fn run(agent: &Agent, chat: &Chat, watched: bool) {
    // Each run has one of its own.
    let agent = agent.clone();
    let (events, mut stream) = match watched {
        false => (EventSink::none(), None),
        true => {
            let events = EventSink::new();
            let stream = events.observe();
            (events, Some(stream))
        }
    };
    let cx = RunCx::new("worker").with_events(events);
    let answer = agent.run(&cx, chat, stage::task()).await.expect("the model answers");
    assert!(answer.iterations > 1);
    if let Some(stream) = &mut stream {
        while !matches!(stream.next_event().await, Some(Event::RunFinished { .. }) | None) {}
    }
}

/// A conversation of so many messages: system prompt and task of another run, then calls and their results.
fn chat_of(messages: usize) -> Chat {
    let chat = Chat::new();
    chat.set_system_prompt("worker", "You are worker.".into());
    chat.append(Message::user("Begin.")).expect("it has no calls");
    for n in 0..messages / 2 - 2 {
        let call = ToolCall { id: format!("old_{n}"), name: "echo".into(), arguments: "{}".into(), meta: vec![] };
        let (sender, meta) = ("worker".into(), vec![]);
        let message = Message { sender, role: Role::Assistant, parts: vec![Part::ToolCall(call)], meta };
        let open = chat.reply(message);
        let result =
            ToolResult { is_error: false, ..ToolResult::error(format!("old_{n}"), "hello, how are you today?") };
        open.answer(vec![result]);
    }
    chat.append(Message::text(Role::Assistant, "worker", "That was it.")).expect("it has no calls");
    chat
}
