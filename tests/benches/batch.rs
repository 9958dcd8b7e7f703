//! `batch` with 10,000 tasks and a model that answers at once: tasks a second and memory at the peak, one task at a time and
//! many at once, with sessions and without.

use std::{
    error::Error,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The time between two looks at the memory of the program.
const LOOK: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` runs this too: there it only has to work.
    let tasks = if std::env::args().any(|argument| argument == "--bench") { 10_000 } else { 20 };
    let url = format!("http://127.0.0.1:{}/v1", serve()?);
    println!("| {tasks} tasks | tasks a second | memory at the peak |\n|---|---|---|");
    for (name, jobs, is_recorded) in [
        ("one at a time, without sessions", "1", false),
        ("8 at once, without sessions", "8", false),
        ("100 at once, without sessions", "100", false),
        ("1,000 at once, without sessions", "1000", false),
        ("one at a time, each in a session", "1", true),
        ("8 at once, each in a session", "8", true),
        ("100 at once, each in a session", "100", true),
    ] {
        let Figures { took, peak } = run(&url, tasks, jobs, is_recorded)?;
        println!("| {name} | {:.0} | {} MiB |", f64::from(tasks) / took.as_secs_f64(), peak >> 20);
    }
    Ok(())
}

struct Figures {
    took: Duration,
    /// Bytes of resident memory.
    peak: u64,
}

fn run(url: &str, tasks: u32, jobs: &str, is_recorded: bool) -> Result<Figures, Box<dyn Error>> {
    let folder = tempfile::Builder::new().prefix("batch").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let model = format!("{{name: local, kind: openai, base_url: \"{url}\", model: m, context_window: 100000}}");
    let config = format!("providers: [{model}]\nagents: [{{name: helper, effects: []}}]\n");
    fs::write(folder.path().join("shelly.yaml"), config)?;
    let lines: String = (0..tasks).map(|at| format!("{{\"task\": \"What is task {at} about?\"}}\n")).collect();
    fs::write(folder.path().join("tasks.jsonl"), lines)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
    command.args(["batch", "--trust", "--tasks", "tasks.jsonl", "--output", "results.jsonl", "--jobs", jobs]);
    if !is_recorded {
        command.arg("--no-session");
    }
    command.current_dir(folder.path()).env_clear().env("XDG_STATE_HOME", folder.path().join("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        peak = peak_of(&child).unwrap_or(peak);
        thread::sleep(LOOK);
    }
    let took = start.elapsed();
    let ended = child.wait_with_output()?;
    let results = fs::read_to_string(folder.path().join("results.jsonl"))?;
    let answered = results.lines().filter(|line| line.contains("\"stop\":\"answered\"")).count();
    if !ended.status.success() || answered != tasks as usize {
        return Err(format!("{answered} answers: {}", String::from_utf8_lossy(&ended.stderr)).into());
    }
    Ok(Figures { took, peak })
}

/// Returns the most memory that a process has held so far, in bytes; `None` if it has ended.
fn peak_of(child: &Child) -> Option<u64> {
    let status = fs::read_to_string(Path::new("/proc").join(child.id().to_string()).join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// Starts a server in the format of OpenAI that answers at once and keeps its connections. Returns its port.
fn serve() -> Result<u16, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The program closes the connection at its end.
            thread::spawn(move || drop(answer(connection)));
        }
    });
    Ok(port)
}

fn answer(mut connection: TcpStream) -> Result<(), Box<dyn Error>> {
    let chunk = serde_json::json!({
        "id": "r", "choices": [{"index": 0, "delta": {"content": "It is about itself."}, "finish_reason": "stop"}],
    });
    let usage = serde_json::json!({"id": "r", "choices": [], "usage": {
        "prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25,
    }});
    let body = format!("data: {chunk}\n\ndata: {usage}\n\ndata: [DONE]\n\n");
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut reader = BufReader::new(connection.try_clone()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length])?;
        connection.write_all(format!("{head}{body}").as_bytes())?;
    }
}
