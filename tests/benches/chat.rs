//! A chat at a pseudo terminal: the time from a key to the screen while an answer of 50 pieces a second arrives below 5,000
//! items that were shown before, the time and the memory of an answer of 10 MB, and the time until the chat takes keys.

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use criterion::{Criterion, Throughput};
use hdrhistogram::Histogram;
use portable_pty::{Child, CommandBuilder, PtySize, native_pty_system};

/// The items that are shown before keys are measured.
const ITEMS: usize = 5_000;
/// The time between two pieces of the answer that arrives meanwhile.
const PIECE: Duration = Duration::from_millis(20);
/// The bytes of the large answer.
const LARGE: usize = 10 << 20;
/// The time in which the screen must show what is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let smoke = !std::env::args().any(|argument| argument == "--bench");
    let mut criterion = Criterion::default()
        .output_directory(Path::new(concat!(env!("CARGO_TARGET_TMPDIR"), "/criterion")))
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(10))
        .sample_size(20)
        .configure_from_args();
    start(&mut criterion)?;
    keys(&mut criterion)?;
    large_answer(&mut criterion, if smoke { LARGE / 64 } else { LARGE })?;
    criterion.final_summary();
    Ok(())
}

/// The time from the start of the program until it takes keys, with what it reads at its start in the page cache.
fn start(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    let mut failed = None;
    criterion.benchmark_group("chat").bench_function("start", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut took = Duration::ZERO;
            for _ in 0..iterations {
                let start = Instant::now();
                match PacedChat::start(LARGE) {
                    Ok(_chat) => took += start.elapsed(),
                    Err(error) => failed = Some(error),
                }
            }
            took
        });
    });
    failed.map_or(Ok(()), Err)
}

fn keys(criterion: &mut Criterion) -> Result<(), Box<dyn Error>> {
    let mut chat = PacedChat::start(LARGE)?;
    chat.press("items\r");
    chat.wait_for(&format!("item {ITEMS}"));
    chat.press("endless\r");
    chat.wait_for("piece 3");
    let mut typed = String::new();
    let mut times = Histogram::<u64>::new_with_bounds(1, PATIENCE.as_micros() as u64, 3)?;
    criterion.benchmark_group("chat").bench_function("key to screen at 50 pieces a second", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut took = Duration::ZERO;
            for _ in 0..iterations {
                if typed.len() == 26 {
                    chat.press("\x15");
                    chat.wait_for("›  ");
                    typed.clear();
                }
                let letter = char::from(b'a' + typed.len() as u8);
                typed.push(letter);
                let start = Instant::now();
                chat.press(&letter.to_string());
                chat.wait_for(&format!("› {typed}"));
                let key = start.elapsed();
                times.saturating_record(key.as_micros() as u64);
                took += key;
            }
            took
        });
    });
    let milliseconds = |micros: u64| micros as f64 / 1_000.0;
    println!(
        "{} keys: median {:.1} ms, p99 {:.1} ms, slowest {:.1} ms",
        times.len(),
        milliseconds(times.value_at_quantile(0.5)),
        milliseconds(times.value_at_quantile(0.99)),
        milliseconds(times.max())
    );
    Ok(())
}

fn large_answer(criterion: &mut Criterion, bytes: usize) -> Result<(), Box<dyn Error>> {
    let mut group = criterion.benchmark_group("chat");
    group.throughput(Throughput::Bytes(bytes as u64)).sample_size(10);
    let mut chat = PacedChat::start(bytes)?;
    let before = chat.resident()?;
    let mut answers = 0;
    group.bench_function("answer of 10 MB", |bencher| {
        bencher.iter_custom(|iterations| {
            let mut took = Duration::ZERO;
            for _ in 0..iterations {
                let start = Instant::now();
                chat.press("large\r");
                chat.wait_for("the end of it");
                took += start.elapsed();
                answers += 1;
                // Otherwise the next request has this answer in it.
                chat.press("/clear\r");
                chat.wait_for("a new session begins with your next message");
            }
            took
        });
    });
    group.finish();
    let grown = chat.resident()?.saturating_sub(before);
    let mib = |bytes: u64| bytes / (1 << 20);
    println!("{answers} answers of {} MiB: {} MiB more memory", mib(bytes as u64), mib(grown));
    Ok(())
}

/// A chat with a model that answers `items`, `endless` and `large`.
struct PacedChat {
    child: Box<dyn Child + Send + Sync>,
    keys: Box<dyn Write + Send>,
    written: Arc<(Mutex<Vec<u8>>, Condvar)>,
    _folder: tempfile::TempDir,
}

impl PacedChat {
    fn start(large: usize) -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::Builder::new().prefix("chat").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let url = format!("http://127.0.0.1:{}/v1", serve(large)?);
        let model = format!("{{name: local, kind: openai, base_url: \"{url}\", model: m, context_window: 100000000}}");
        let config =
            format!("providers: [{model}]\nagents: [{{name: helper, effects: []}}]\nsessions: {{record: false}}\n");
        fs::write(folder.path().join("shelly.yaml"), config)?;
        let pty = native_pty_system().openpty(PtySize { rows: 40, cols: 100, pixel_width: 0, pixel_height: 0 })?;
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
        command.args(["chat", "--trust"]);
        command.cwd(folder.path());
        command.env_clear();
        command.env("XDG_STATE_HOME", folder.path().join("state"));
        command.env("TERM", "xterm-256color");
        command.env("NO_COLOR", "1");
        let child = pty.slave.spawn_command(command)?;
        drop(pty.slave);
        let (mut reader, keys) = (pty.master.try_clone_reader()?, pty.master.take_writer()?);
        let written = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let sink = Arc::clone(&written);
        thread::spawn(move || {
            let _open = pty.master;
            let mut piece = [0; 64 << 10];
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                sink.0.lock().unwrap_or_else(PoisonError::into_inner).extend(&piece[..read]);
                sink.1.notify_all();
            }
        });
        let chat = Self { child, keys, written, _folder: folder };
        chat.wait_for("/help shows keys and commands");
        chat.wait_for("› ");
        Ok(chat)
    }

    fn press(&mut self, keys: &str) {
        self.written.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.keys.write_all(keys.as_bytes()).expect("the chat reads keys");
    }

    /// Waits until a text was written since the last key.
    fn wait_for(&self, text: &str) {
        let (written, changed) = &*self.written;
        let guard = written.lock().unwrap_or_else(PoisonError::into_inner);
        let mut searched = 0;
        let is_missing = |written: &mut Vec<u8>| {
            let from = searched;
            searched = written.len().saturating_sub(text.len());
            !written[from..].windows(text.len()).any(|window| window == text.as_bytes())
        };
        let waited = changed.wait_timeout_while(guard, PATIENCE, is_missing).unwrap_or_else(PoisonError::into_inner);
        assert!(!waited.1.timed_out(), "`{text}` is not on the screen: {}", String::from_utf8_lossy(&waited.0));
    }

    /// Returns the bytes of memory that the program holds.
    fn resident(&self) -> Result<u64, Box<dyn Error>> {
        let id = self.child.process_id().ok_or("the program has ended")?;
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
    }
}

impl Drop for PacedChat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server in the format of OpenAI that streams its answers. Returns its port.
fn serve(large: usize) -> Result<u16, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The chat closes the connection when it is left.
            thread::spawn(move || drop(answer(connection, large)));
        }
    });
    Ok(port)
}

fn answer(mut connection: TcpStream, large: usize) -> Result<(), Box<dyn Error>> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body: serde_json::Value = serde_json::from_slice(&body)?;
    let said = body["messages"].as_array().and_then(|messages| messages.last()).map(|last| last["content"].to_string());
    let said = said.unwrap_or_default();
    write!(connection, "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")?;
    let mut send = |text: &str| -> Result<(), Box<dyn Error>> {
        let chunk = serde_json::json!({"choices": [{"delta": {"content": text}}]});
        Ok(write!(connection, "data: {chunk}\n\n")?)
    };
    if said.contains("items") {
        for at in 1..=ITEMS {
            send(&format!("- item {at}\n"))?;
        }
    } else if said.contains("endless") {
        for at in 1.. {
            send(&format!("piece {at} of the answer, which goes on. "))?;
            if at % 8 == 0 {
                send("\n\n")?;
            }
            thread::sleep(PIECE);
        }
    } else {
        let line = format!("{}\n\n", "A line of the large answer, with some **strong** words in it. ".repeat(16));
        for _ in 0..large / line.len() {
            send(&line)?;
        }
        send("the end of it\n")?;
    }
    let end = serde_json::json!({"choices": [{"delta": {}, "finish_reason": "stop"}]});
    Ok(write!(connection, "data: {end}\n\ndata: [DONE]\n\n")?)
}
