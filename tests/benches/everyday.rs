//! The cost of everyday work on files through the sandbox: reading, editing and finding a file beside
//! `@modelcontextprotocol/server-filesystem` over its pipes, and searching the contents of 10,000 files beside `rg`.
//!
//! Each is called as an agent would: ours through the agent's toolbox, theirs by our client of its protocol. Both are called
//! turn by turn in one process, so that other load of the machine affects both. `MCP_FILESYSTEM` names the server's script
//! (`dist/index.js`), with `node` in the `PATH`; without it that server is left out, and so is `rg` where there is none.

use std::{
    env, fs,
    hint::black_box,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Instant,
};

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use shelly_host::{
    agent::Agent,
    app::{App, Recording},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    chat::ToolCall,
    config::Config,
    event::RunCx,
    session::LaunchOptions,
};

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Files that are searched, folders that they lie in, lines of each.
const FILES: usize = 10_000;
const PER_FOLDER: usize = 100;
const LINES: usize = 120;

struct Size {
    calls: usize,
    files: usize,
    searches: usize,
}

const WHOLE: Size = Size { calls: 1_000, files: FILES, searches: 15 };
/// `cargo test --benches` runs this too: there it only has to work.
const SMOKE: Size = Size { calls: 2, files: 20, searches: 1 };

fn main() -> Result<(), Failed> {
    let size = if env::args().any(|argument| argument == "--bench") { WHOLE } else { SMOKE };
    let place = tempfile::Builder::new().prefix("everyday").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let root = place.path().canonicalize()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let ground = Ground::new(&root, size.files)?;
        single_files(&ground, size.calls).await?;
        search(&ground, &size).await
    })
}

/// A project with a file to read, one for each way to edit, and many to search.
struct Ground {
    root: PathBuf,
    server: Option<String>,
}

impl Ground {
    fn new(root: &Path, files: usize) -> Result<Self, Failed> {
        let text = |at: usize| {
            let line = |n: usize| format!("fn function_{at}_{n}(argument: &str) -> usize {{ argument.len() + {n} }}\n");
            (0..LINES).map(line).collect::<String>()
        };
        for at in 0..files {
            let folder = root.join(format!("many/part{:03}", at / PER_FOLDER));
            fs::create_dir_all(&folder)?;
            let mut text = text(at);
            if at % 500 == 7 {
                text.push_str("// the needle is here\n");
            }
            fs::write(folder.join(format!("file{at:05}.rs")), text)?;
        }
        fs::write(root.join("read.rs"), text(1))?;
        for name in ["ours.rs", "kept.rs", "theirs.rs", "bare.rs"] {
            fs::write(root.join(name), format!("{}// counter 0 here\n", text(2)))?;
        }
        Ok(Self { root: root.into(), server: env::var("MCP_FILESYSTEM").ok() })
    }

    /// An agent with these toolboxes, as its config has them.
    async fn agent(&self, toolboxes: &str, recording: Recording) -> Result<Agent, Failed> {
        let server = self.server.as_deref().map(|script| {
            let root = self.root.display();
            format!(
                "mcp_servers: [{{name: theirs, command: node, args: ['{script}', '{root}'], protocol: handshake}}]\n"
            )
        });
        let config = format!(
            "providers: [{{name: m, kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1'}}]\n{}agents: [{{name: a, \
             toolboxes: {toolboxes}}}]\n",
            server.unwrap_or_default()
        );
        let config = Config::parse(&config, self.root.clone()).map_err(|report| report.to_string())?;
        let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
        let variable = |name: &str| env::var(name).ok();
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let app = App::new(config, &[PLUGIN_ROOT.into()], Some(cache), Arc::new(variable), broker)
            .map_err(|report| report.to_string())?;
        let prepared = app.agent(None, None, recording).await.map_err(|report| report.to_string())?;
        prepared.warnings.iter().for_each(|warning| eprintln!("{warning}"));
        Ok(prepared.entrant.agent().expect("it is an agent").clone())
    }
}

/// A call, which must go well.
async fn call(agent: &Agent, name: &str, arguments: &Value) -> Result<String, Failed> {
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    let result = agent.call(&RunCx::new("a"), &call).await;
    let text = result.text();
    if result.is_error { Err(format!("{name}: {text}").into()) } else { Ok(text) }
}

/// Ways that are no call of a tool by its name.
const IN_SESSION: &str = "in a session";
const BARE: &str = "bare";

/// The minimum of an edit that survives a loss of power.
fn write_bare(root: &Path) -> Result<(), Failed> {
    let (new, path) = (root.join("bare.new"), root.join("bare.rs"));
    let text = fs::read(&path)?;
    let mut file = fs::File::create_new(&new)?;
    file.write_all(&text)?;
    file.sync_all()?;
    Ok(fs::rename(new, path)?)
}

async fn single_files(ground: &Ground, calls: usize) -> Result<(), Failed> {
    let mut toolboxes = "{name: filesystem, changes: apply}, search".to_owned();
    if ground.server.is_some() {
        toolboxes += ", theirs";
    } else {
        println!("server-filesystem is left out: MCP_FILESYSTEM is not set");
    }
    let agent = ground.agent(&format!("[{toolboxes}]"), Recording::Off).await?;
    let title = String::from("everyday");
    let recording = Recording::New { id: None, title, follows: None, options: LaunchOptions::default() };
    let in_session = ground.agent("[{name: filesystem, changes: apply}]", recording).await?;
    let path = |name: &str| ground.root.join(name).display().to_string();
    let edit = |n: usize, by: usize| (format!("// counter {n} here"), format!("// counter {} here", n + by));
    let rows = [
        "read 9 KiB, ours",
        "read 9 KiB, server-filesystem",
        "edit, ours",
        "edit, server-filesystem",
        "edit in a session, ours",
        "write, sync and rename, bare",
        "find a file by its name among 100, ours",
        "find a file by its name among 100, server-filesystem",
    ];
    let mut times = [(); 8].map(|()| Histogram::<u64>::new(3).expect("3 digits are allowed"));
    let warm_up = calls / 10;
    for round in 0..calls + warm_up {
        let ((old, new), (tenth_old, tenth_new)) = (edit(round, 1), edit(round, 10));
        let part = path("many/part000");
        let ways = [
            ("fs_read", json!({ "path": "read.rs" })),
            ("theirs__read_text_file", json!({ "path": path("read.rs") })),
            ("fs_edit", json!({ "path": "ours.rs", "old_text": old, "new_text": new })),
            ("theirs__edit_file", json!({ "path": path("theirs.rs"), "edits": [{ "oldText": old, "newText": new }] })),
            (IN_SESSION, json!({ "path": "kept.rs", "old_text": tenth_old, "new_text": tenth_new })),
            (BARE, json!({})),
            ("search_files", json!({ "pattern": "**/*00011*", "directory": "many/part000" })),
            ("theirs__search_files", json!({ "path": part, "pattern": "**/*00011*" })),
        ];
        for ((name, arguments), times) in ways.iter().zip(&mut times) {
            if name.starts_with("theirs") && ground.server.is_none() {
                continue;
            }
            // What a session keeps makes its later changes slower: it is no everyday one that has a thousand.
            if *name == IN_SESSION && round % 10 != 0 {
                continue;
            }
            let started = Instant::now();
            match *name {
                BARE => write_bare(&ground.root)?,
                IN_SESSION => drop(black_box(call(&in_session, "fs_edit", arguments).await?)),
                name => drop(black_box(call(&agent, name, arguments).await?)),
            }
            if round >= warm_up {
                times.record(nanos(started))?;
            }
        }
    }
    println!("one call at a time, {calls} calls, each way in turn, µs");
    for (name, times) in rows.iter().zip(&times).filter(|(_, times)| !times.is_empty()) {
        let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e3;
        println!("  {name:58} median {:9.1}  p99 {:9.1}", at(0.5), at(0.99));
    }
    Ok(())
}

/// The search patterns: one with some matches, one with none, and one without a literal.
const PATTERNS: [&str; 3] = ["the needle is here", "nowhere to be found", r"function_\d+7_11\d\("];

async fn search(ground: &Ground, size: &Size) -> Result<(), Failed> {
    let agent = ground.agent("[search]", Recording::Off).await?;
    let many = ground.root.join("many");
    let has_rg = Command::new("rg").arg("--version").output().is_ok();
    println!("contents of {} files, {} searches, ms", size.files, size.searches);
    for pattern in PATTERNS {
        let mut times = [(); 3].map(|()| Histogram::<u64>::new(3).expect("3 digits are allowed"));
        for round in 0..=size.searches {
            for (way, times) in times.iter_mut().enumerate() {
                let started = Instant::now();
                match way {
                    0 => {
                        let arguments = json!({ "pattern": pattern, "directory": "many" });
                        black_box(call(&agent, "search_content", &arguments).await?);
                    }
                    way if has_rg => {
                        let threads = if way == 1 { "1" } else { "0" };
                        let arguments =
                            ["--line-number", "--sort", "path", "--max-count", "100", "-j", threads, pattern];
                        // Sorting takes one thread in any case.
                        let arguments = arguments.iter().filter(|word| way == 1 || !["--sort", "path"].contains(word));
                        black_box(Command::new("rg").args(arguments).arg(&many).output()?);
                    }
                    _ => continue,
                }
                if round > 0 {
                    times.record(nanos(started))?;
                }
            }
        }
        println!("  `{pattern}`");
        for (name, times) in
            ["ours", "rg, one thread, sorted", "rg"].iter().zip(&times).filter(|(_, times)| !times.is_empty())
        {
            let at = |quantile| times.value_at_quantile(quantile) as f64 / 1e6;
            println!("    {name:24} median {:8.1}  slowest {:8.1}", at(0.5), at(1.0));
        }
    }
    Ok(())
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
