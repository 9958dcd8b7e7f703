//! Components that are made to exhaust a validator or a compiler, and the child process that compiles in place of this one.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use shelly_host::plugin::{
    CompileConfig, CompileFailure, CompileLimits, CompileProfile, CompileSite, ComponentCompiler, Limits, Plugin,
    PluginCatalog, PluginEngine, PluginError,
};
use tempfile::TempDir;

use super::{call, guest::Guest, settings, told};
use crate::support::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_shelly-host-under-test");

/// Compiles in children that may take little.
fn strict(program: &Path, cache: Option<PathBuf>) -> CompileConfig {
    let limits = CompileLimits {
        memory_bytes: 512 << 20,
        cpu: Duration::from_secs(2),
        wall: Duration::from_secs(60),
        code_bytes: 64 << 20,
    };
    CompileConfig { cache, site: CompileSite::Program { path: program.into() }, limits, ..CompileConfig::default() }
}

/// A component that can be a plugin, with one more core module of these functions, which take and give nothing.
fn with_functions(bodies: &[Vec<u8>]) -> Vec<u8> {
    with_module(&module(bodies))
}

fn with_module(module: &[u8]) -> Vec<u8> {
    const CORE_MODULE: u8 = 1;
    [Guest::tool().component(), section(CORE_MODULE, module)].concat()
}

fn module(bodies: &[Vec<u8>]) -> Vec<u8> {
    let count = leb(bodies.len());
    let types = section(1, &[1, 0x60, 0, 0]);
    let functions = section(3, &[count.clone(), vec![0; bodies.len()]].concat());
    let bodies = bodies.iter().flat_map(|body| [leb(body.len()), body.clone()].concat());
    let code = section(10, &[count, bodies.collect()].concat());
    [b"\0asm\x01\0\0\0".to_vec(), types, functions, code].concat()
}

fn section(id: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![id], leb(bytes.len()), bytes.to_vec()].concat()
}

fn leb(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A body without locals.
fn body(code: &[u8]) -> Vec<u8> {
    [&[0], code, &[0x0b]].concat()
}

const BLOCK: [u8; 2] = [0x02, 0x40];
const LOOP: [u8; 2] = [0x03, 0x40];
const END: u8 = 0x0b;

fn nested(open: [u8; 2], depth: usize) -> Vec<u8> {
    body(&[open.repeat(depth), vec![END; depth]].concat())
}

/// A branch with so many targets, to as many blocks as there are depths.
fn table(depth: usize, targets: usize) -> Vec<u8> {
    let labels = (0..=targets).flat_map(|at| leb(at % depth)).collect();
    let jump = [vec![0x41, 0, 0x0e], leb(targets), labels].concat();
    body(&[BLOCK.repeat(depth), jump, vec![END; depth]].concat())
}

/// A body with the most locals that a function may have, each set in each of so many loops.
fn locals(blocks: usize) -> Vec<u8> {
    const COUNT: usize = shelly_host::limits::FUNCTION_LOCALS;
    let declared = [vec![1], leb(COUNT), vec![0x7f]].concat();
    let set = (0..COUNT / 100).flat_map(|at| [vec![0x41, 1, 0x21], leb(100 * at)].concat());
    let block = [LOOP.to_vec(), set.collect(), vec![0x41, 0, 0x0d, 0, END]].concat();
    [declared, block.repeat(blocks), vec![END]].concat()
}

/// So many bytes of code without a branch.
fn straight(bytes: usize) -> Vec<u8> {
    // 1 + 1, dropped.
    body(&[0x41, 1, 0x41, 1, 0x6a, 0x1a].repeat(bytes / 6))
}

/// A component with the most code without a branch that is allowed: many seconds of work for a compiler.
fn long_functions() -> Vec<u8> {
    with_functions(&vec![straight(shelly_host::limits::FUNCTION_BYTES - 9); 60])
}

/// Shapes of components that pass the counts, some of which take a compiler gigabytes or minutes.
fn shapes() -> Vec<(&'static str, Vec<u8>)> {
    use shelly_host::limits::{FUNCTION_BLOCK_DEPTH, FUNCTION_LOCALS, FUNCTION_LOOP_DEPTH, FUNCTION_LOOP_LOCALS};
    vec![
        ("deep blocks", with_functions(&vec![nested(BLOCK, FUNCTION_BLOCK_DEPTH - 1); 200])),
        ("deep loops", with_functions(&vec![nested(LOOP, FUNCTION_LOOP_DEPTH - 1); 200])),
        // The compiler takes no table with more targets.
        ("a wide table", with_functions(&vec![table(1, 65_000); 100])),
        ("a table to many blocks", with_functions(&vec![table(FUNCTION_BLOCK_DEPTH - 1, 65_000); 8])),
        ("many locals", with_functions(&vec![locals(FUNCTION_LOOP_LOCALS / FUNCTION_LOCALS - 1); 100])),
        ("long functions", long_functions()),
        ("many functions", with_functions(&vec![body(&[]); shelly_host::limits::COMPONENT_FUNCTIONS - 99])),
    ]
}

/// A directory of plugins with one tool in it, beside which others are put.
fn place_with_tool() -> Place {
    let place = Place::new();
    place.plugin_bytes("good", "kinds = [\"tool\"]", &Guest::tool().component());
    place
}

fn put(place: &Place, id: &str, component: &[u8]) {
    place.plugin_bytes(id, "kinds = [\"tool\"]", component);
}

/// Loads a plugin of a place as a run does.
async fn load(place: &Place, id: &str, compiler: &Arc<ComponentCompiler>) -> Result<Arc<Plugin>, String> {
    let catalog = PluginCatalog::scan(&[place.path().join("plugins")], compiler).unwrap();
    catalog.open([id], shelly_host::plugin::CompileStep::Compile).await;
    let package = catalog.get(id).unwrap().map_err(told)?;
    let stack = shelly_host::limits::PLUGIN_STACK_BYTES;
    let engine = Arc::new(PluginEngine::with_stack(Arc::clone(compiler), stack).unwrap());
    let settings = shelly_host::plugin::PluginSettings { limits: Limits::default(), ..settings(Default::default()) };
    Plugin::load(&engine, package, &settings).await.map(Arc::new).map_err(|error| told(&error))
}

fn compiler(config: CompileConfig) -> Arc<ComponentCompiler> {
    Arc::new(config.into())
}

/// Returns the reason why the plugin of this id was not opened.
async fn failure(place: &Place, id: &str, config: CompileConfig) -> Option<CompileFailure> {
    let catalog = PluginCatalog::scan(&[place.path().join("plugins")], &compiler(config)).unwrap();
    catalog.open([id], shelly_host::plugin::CompileStep::Compile).await;
    match catalog.get(id).unwrap() {
        Ok(_) => None,
        Err(PluginError::NotCompiled { id: named, failure }) => {
            assert_eq!(named, id);
            Some(failure.clone())
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn compile_bombs_fail_by_name_and_other_plugins_load() {
    let place = place_with_tool();
    let config = || strict(Path::new(PROGRAM), None);
    let mut ended = Vec::new();
    for (shape, component) in shapes() {
        put(&place, "bomb", &component);
        match failure(&place, "bomb", config()).await {
            None => {}
            Some(CompileFailure::Memory(_) | CompileFailure::Cpu(_) | CompileFailure::Wall(_)) => ended.push(shape),
            Some(other) => panic!("{shape}: {other}"),
        }
    }
    assert!(ended.len() >= 2, "the shapes are no bombs any more: {ended:?}");
    let said = load(&place, "bomb", &compiler(config())).await;
    assert!(said.is_ok() || said.is_err_and(|said| said.starts_with("plugin `bomb` cannot be compiled")));
    let good = load(&place, "good", &compiler(config())).await.unwrap();
    assert_eq!(call(&good, "t", "{}").await.text(), "ok");
}

#[tokio::test]
async fn compile_memory_and_time_are_bounded() {
    let place = place_with_tool();
    let with = |limits: CompileLimits| CompileConfig { limits, ..strict(Path::new(PROGRAM), None) };
    let usual = strict(Path::new(PROGRAM), None).limits;
    put(&place, "bomb", &with_functions(&vec![body(&[]); shelly_host::limits::COMPONENT_FUNCTIONS - 99]));
    let little = CompileLimits { memory_bytes: 128 << 20, cpu: Duration::from_secs(60), ..usual };
    assert_eq!(failure(&place, "bomb", with(little)).await, Some(CompileFailure::Memory(128 << 20)));
    let second = Duration::from_secs(1);
    put(&place, "bomb", &long_functions());
    let short = CompileLimits { memory_bytes: 4 << 30, cpu: second, ..usual };
    assert_eq!(failure(&place, "bomb", with(short)).await, Some(CompileFailure::Cpu(second)));
    let wall = CompileLimits { memory_bytes: 4 << 30, wall: second / 10, cpu: 60 * second, ..usual };
    assert_eq!(failure(&place, "bomb", with(wall)).await, Some(CompileFailure::Wall(second / 10)));
    let code = CompileLimits { code_bytes: 1_000, ..usual };
    assert_eq!(failure(&place, "good", with(code)).await, Some(CompileFailure::Code(1_000)));
}

#[tokio::test]
async fn concurrent_compile_children_are_bounded() {
    const PLUGINS: usize = 3 * shelly_host::limits::COMPILE_CHILDREN;
    let (place, folder) = (Place::new(), TempDir::new().unwrap());
    let ids: Vec<_> = (0..PLUGINS).map(|at| format!("p{at}")).collect();
    for id in &ids {
        put(&place, id, &Guest::tool().component());
    }
    let log = folder.path().join("log");
    // Each is at it for a while, and says when.
    let busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let text = format!("cat >/dev/null; echo + >>{log}; {busy}; echo - >>{log}", log = log.display());
    let compiler = compiler(strict(&script(&folder, &text), None));
    let catalog = PluginCatalog::scan(&[place.path().join("plugins")], &compiler).unwrap();
    catalog.open(ids.iter().map(String::as_str), shelly_host::plugin::CompileStep::Validate).await;
    let (mut running, mut most, mut began) = (0_usize, 0, 0);
    for line in fs::read_to_string(&log).unwrap().lines() {
        match line {
            "+" => (running, began) = (running + 1, began + 1),
            _ => running -= 1,
        }
        most = most.max(running);
    }
    assert_eq!(began, PLUGINS, "each has its own");
    assert!((1..=shelly_host::limits::COMPILE_CHILDREN).contains(&most), "{most}");
}

#[tokio::test]
async fn blocking_compile_does_not_wait_for_async_slots() {
    const WAITING: usize = shelly_host::limits::COMPILE_CHILDREN;
    let (place, folder) = (place_with_tool(), TempDir::new().unwrap());
    let ids: Vec<_> = (0..WAITING).map(|at| format!("p{at}")).collect();
    for id in &ids {
        put(&place, id, &Guest::tool().component());
    }
    // Those that wait have all places, and end when this thread goes on.
    let (log, pipe) = (folder.path().join("log"), folder.path().join("go"));
    let text =
        format!("cat >/dev/null; echo + >>{}; while [ ! -e {} ]; do sleep 0.01; done", log.display(), pipe.display());
    let waits = compiler(strict(&script(&folder, &text), None));
    let catalog = PluginCatalog::scan(&[place.path().join("plugins")], &waits).unwrap();
    let opening = catalog.open(ids.iter().map(String::as_str), shelly_host::plugin::CompileStep::Validate);
    let blocking = async {
        while fs::read_to_string(&log).unwrap_or_default().lines().count() < WAITING {
            tokio::task::yield_now().await;
        }
        let answers = compiler(strict(PROGRAM.as_ref(), None));
        let other = PluginCatalog::scan(&[place.path().join("plugins")], &answers).unwrap();
        let found = other.get("good").unwrap().map(|_| ()).map_err(told);
        fs::write(&pipe, "").unwrap();
        found.unwrap();
    };
    tokio::join!(opening, blocking);
}

#[tokio::test]
async fn invalid_component_is_refused_the_same_by_the_child() {
    let place = place_with_tool();
    let mut invalid = Guest::tool().component();
    // A function that gives nothing though its type says that it does.
    let wrong = wat::parse_str("(module (func (result i32)))").unwrap();
    invalid.extend(section(1, &wrong));
    put(&place, "bad", &invalid);
    let said = |compiler: Arc<ComponentCompiler>| {
        let place = &place;
        async move { load(place, "bad", &compiler).await.map(drop).unwrap_err() }
    };
    let here = said(ComponentCompiler::in_process()).await;
    assert!(here.contains("is not a plugin component") && here.contains("type mismatch"), "{here}");
    assert_eq!(said(compiler(strict(Path::new(PROGRAM), None))).await, here);
}

/// A program in place of ours.
fn script(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("program");
    // Written by a program of its own: a process that another test starts meanwhile would hold the file open, and what
    // somebody may write to is not run.
    let write = r#"printf '#!/bin/sh\n%s\n' "$2" > "$1" && chmod 700 "$1""#;
    let written = Command::new("/bin/sh").args(["-c", write, "sh"]).arg(&path).arg(text).status().unwrap();
    assert!(written.success());
    path
}

#[tokio::test]
async fn compile_child_without_an_answer_is_one_error() {
    let (place, folder) = (place_with_tool(), TempDir::new().unwrap());
    let answer = "cat >/dev/null; ";
    for (text, expected) in [
        ("exit 0", CompileFailure::Answer),
        ("echo compile1 is what we do", CompileFailure::Answer),
        ("cat; exit 0", CompileFailure::Answer),
        ("exit 7", CompileFailure::Ended("exit status 7".into())),
        ("kill -9 $$", CompileFailure::Ended("signal 9".into())),
        ("kill -SEGV $$", CompileFailure::Ended("signal 11".into())),
        ("kill -XCPU $$", CompileFailure::Cpu(Duration::from_secs(2))),
        ("echo 'memory allocation of 9 bytes failed' >&2; kill -ABRT $$", CompileFailure::Memory(512 << 20)),
        // Its complaints are not kept without end.
        ("head -c 9000000 /dev/zero >&2; exit 3", CompileFailure::Ended("exit status 3".into())),
    ] {
        let program = script(&folder, &format!("{answer}{text}"));
        assert_eq!(failure(&place, "good", strict(&program, None)).await, Some(expected), "{text}");
    }
    let mut config = strict(&script(&folder, "exec sleep 60"), None);
    config.limits.wall = Duration::from_millis(100);
    let wall = config.limits.wall;
    assert_eq!(failure(&place, "good", config).await, Some(CompileFailure::Wall(wall)));
    let nowhere = strict(&folder.path().join("nowhere"), None);
    assert!(matches!(failure(&place, "good", nowhere).await, Some(CompileFailure::Start(_))));
}

#[tokio::test]
async fn compile_child_has_an_empty_environment() {
    let (place, folder) = (place_with_tool(), TempDir::new().unwrap());
    let heard = folder.path().join("heard");
    let heard_in = heard.display();
    let text = format!("cat >/dev/null; {{ cat /proc/$$/environ; echo; pwd; tty; }} >{heard_in}");
    failure(&place, "good", strict(&script(&folder, &text), None)).await.unwrap();
    let heard = fs::read_to_string(&heard).unwrap();
    let mut lines = heard.lines();
    let environment = lines.next().unwrap().trim_end_matches('\0');
    let threads = environment.strip_prefix("RAYON_NUM_THREADS=").unwrap_or_else(|| panic!("{heard}"));
    let threads: usize = threads.parse().unwrap_or_else(|_| panic!("{heard}"));
    assert!((1..=shelly_host::limits::COMPILE_THREADS).contains(&threads), "{heard}");
    assert_eq!(lines.next(), Some("/"), "{heard}");
    assert_eq!(lines.next(), Some("not a tty"), "{heard}");
}

#[tokio::test]
async fn cached_component_needs_no_compile_child() {
    let (place, home) = (place_with_tool(), TempDir::new().unwrap());
    let cache = home.path().join("cache");
    let nobody = Path::new("/nonexistent/program");
    let said = load(&place, "good", &compiler(strict(nobody, Some(cache.clone())))).await.map(drop).unwrap_err();
    assert!(said.starts_with("plugin `good` cannot be compiled\n"), "{said}");
    load(&place, "good", &compiler(strict(Path::new(PROGRAM), Some(cache.clone())))).await.unwrap();
    let good = load(&place, "good", &compiler(strict(nobody, Some(cache.clone())))).await.unwrap();
    assert_eq!(call(&good, "t", "{}").await.text(), "ok");
    // Where others can write nothing is believed.
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o770)).unwrap();
    assert!(load(&place, "good", &compiler(strict(nobody, Some(cache)))).await.is_err());
}

#[tokio::test]
async fn development_compile_keeps_functions_of_its_project() {
    let (place, home) = (place_with_tool(), TempDir::new().unwrap());
    let cache = home.path().join("cache");
    let of_project = |name: &str| {
        let profile = CompileProfile::Development { project: home.path().join(name) };
        compiler(CompileConfig { profile, ..strict(Path::new(PROGRAM), Some(cache.clone())) })
    };
    let kept = || {
        let paths = fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "functions")).collect::<Vec<_>>()
    };
    let good = load(&place, "good", &of_project("a")).await.unwrap();
    assert_eq!(call(&good, "t", "{}").await.text(), "ok");
    let first = kept();
    let [functions] = &first[..] else { panic!("{first:?}") };
    let before = fs::read(functions).unwrap();

    // The next build has one more function. What is in it is read back through a child.
    put(&place, "good", &with_functions(&[straight(600)]));
    let good = load(&place, "good", &of_project("a")).await.unwrap();
    assert_eq!(call(&good, "t", "{}").await.text(), "ok");
    assert!(fs::read(functions).unwrap().len() > before.len());

    // Functions that were altered are compiled again.
    fs::write(functions, "altered").unwrap();
    put(&place, "good", &with_functions(&[straight(1_200)]));
    let good = load(&place, "good", &of_project("a")).await.unwrap();
    assert_eq!(call(&good, "t", "{}").await.text(), "ok");
    assert!(fs::read(functions).unwrap().len() > before.len());

    // Another project and optimised code have nothing of them.
    load(&place, "good", &of_project("b")).await.unwrap();
    assert_eq!(kept().len(), 2);
    load(&place, "good", &compiler(strict(Path::new(PROGRAM), Some(cache.clone())))).await.unwrap();
    assert_eq!(kept().len(), 2);
}

#[tokio::test]
async fn component_is_not_parsed_before_the_compile_child() {
    let place = place_with_tool();
    let compiler = compiler(strict(Path::new("/nonexistent/program"), None));
    let catalog = PluginCatalog::scan(&[place.path().join("plugins")], &compiler).unwrap();
    // Also where the caller cannot wait.
    let error = catalog.get("good").unwrap().unwrap_err();
    assert!(matches!(error, PluginError::NotCompiled { id, failure: CompileFailure::Start(_) } if id == "good"));
}

/// The children of a process that compile.
fn workers(parent: u32) -> Vec<i32> {
    let is_worker = |pid: &i32| {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let stat = read("stat");
        let fields: Vec<_> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        fields.get(1) == Some(&&*parent.to_string()) && read("cmdline").contains("compile-worker")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_worker).collect()
}

/// Starts the program on a plugin that is long in compiling, and waits until it is at it.
fn compiling(place: &Place, arguments: &[&str]) -> (std::process::Child, i32) {
    put(place, "bomb", &long_functions());
    let mut command = place.command(arguments);
    command.env("SHELLY_CACHE_DIR", place.path().join("cache")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    loop {
        if let [worker] = workers(child.id())[..] {
            return (child, worker);
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it compiled anything");
        std::thread::yield_now();
    }
}

#[test]
fn killed_compile_child_is_reported_with_the_plugin() {
    let place = Place::new();
    let (child, worker) = compiling(&place, &["plugin", "inspect", "plugins/bomb"]);
    kill_process(Pid::from_raw(worker).unwrap(), Signal::KILL).unwrap();
    let ran = place.ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("plugin `bomb` cannot be compiled"), "{}", ran.stderr);
    assert!(ran.stderr.contains("signal 9") && !ran.stderr.contains("panic"), "{}", ran.stderr);
}

#[test]
fn signal_ends_the_compile_child_and_the_program() {
    const CONFIG: &str = "plugin_dirs: [plugins]\nproviders: [{name: m, kind: plugin, plugin: bomb}]\n\
                          agents: [{name: a, provider: m, effects: []}]\n";
    for arguments in [&["plugin", "inspect", "plugins/bomb"][..], &["run", "go"]] {
        let place = Place::new();
        place.file("shelly.yaml", CONFIG);
        let (child, worker) = compiling(&place, arguments);
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let ran = place.ran(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 130, "{arguments:?}: {}", ran.stderr);
        assert!(!Path::new(&format!("/proc/{worker}")).exists(), "the child is left");
    }
}

#[test]
fn compile_child_ends_when_its_parent_is_killed() {
    let place = Place::new();
    let (mut child, worker) = compiling(&place, &["plugin", "inspect", "plugins/bomb"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let is_alive = || {
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    // It notices by itself: the test would not come to its end.
    while is_alive() {
        std::thread::yield_now();
    }
}

/// Runs the program that tries to get past the wall. Returns what it said of each attempt.
fn tried(part: &str) -> Vec<(String, String)> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shelly-wall")).arg(part).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let said = lines.map(|line| line.unwrap().split_once(": ").map(|(a, b)| (a.into(), b.into())).unwrap()).collect();
    assert!(child.wait().unwrap().success());
    said
}

#[test]
fn compile_sandbox_refuses_files_network_and_programs() {
    const EPERM: &str = "1";
    const ENOMEM: &str = "12";
    const EACCES: &str = "13";
    const EMFILE: &str = "24";
    let result = |tried: &[(String, String)], name: &str| {
        tried.iter().find(|(attempt, _)| attempt == name).unwrap_or_else(|| panic!("{name}: {tried:?}")).1.clone()
    };
    let free = tried("none");
    for attempt in ["read", "write", "list", "socket", "connect", "exec", "kill", "raise", "memory"] {
        assert_eq!(result(&free, attempt), "ok", "{attempt} without a wall");
    }
    for (part, refused) in [
        (
            "limits",
            &[("read", EMFILE), ("write", EMFILE), ("socket", EMFILE), ("memory", ENOMEM), ("raise", EPERM)][..],
        ),
        ("files", &[("read", EACCES), ("write", EACCES), ("list", EACCES), ("exec", EACCES)]),
        (
            "calls",
            &[
                ("read", EPERM),
                ("write", EPERM),
                ("list", EPERM),
                ("socket", EPERM),
                ("connect", EPERM),
                ("exec", EPERM),
                ("kill", EPERM),
                ("raise", EPERM),
            ],
        ),
        ("all", &[("read", EPERM), ("socket", EPERM), ("exec", EPERM), ("kill", EPERM), ("memory", ENOMEM)]),
    ] {
        let tried = tried(part);
        // A kernel without this part says so, and nothing is claimed.
        if result(&tried, "up") == "true" {
            for (attempt, expected) in refused {
                assert_eq!(result(&tried, attempt), *expected, "{part}: {attempt}");
            }
        } else {
            assert_ne!(part, "limits", "each Linux has these");
        }
        assert_eq!(result(&tried, "thread"), "ok", "{part}: a compiler could not work");
    }
}
