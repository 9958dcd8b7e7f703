//! Random plugins: random code behind the right exports, random components, and plugins with random damage. Each of them is
//! refused with a reason or runs within its limits, and a well-behaved plugin in the same engine works afterwards.
//!
//! The modules of wasm-smith are generated when the tests are built (`tests/smith.rs`), the same each time.
//! `SHELLY_CHANCE_TIMES` multiplies the number of all cases.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::{RunError, Runner},
    chat::{Chat, ChatSnapshot, Message},
    event::RunCx,
    limits,
    model::{ModelInfo, ScriptedCompleter},
    plugin::{
        Anatomy, ComponentError, Limits, Plugin, PluginCoordinator, PluginEffect, PluginEngine, PluginKind,
        PluginModel, PluginModelMiddleware, PluginRunMiddleware, PluginToolMiddleware,
    },
    team::{Member, Team},
};

use super::{
    House, agent, call,
    guest::{BASE, Guest},
    pack, run, told, tool,
};
use crate::{script::tool as tool_of_ours, sessions::chance::Chance, support::Place, vendors::check_transcript};

include!(concat!(env!("OUT_DIR"), "/smith.rs"));

/// Modules that once showed a mistake of ours, by kind and place among the modules: they are tried first.
const ONCE_FAILED: [(&str, usize); 0] = [];

const SHORT: Duration = Duration::from_millis(40);
/// The time that a call of a guest may take beyond its limits on a busy machine before the test calls it a hang.
const SLACK: Duration = Duration::from_secs(20);
const ALL_POWERS: &str = r#"["see-messages", "see-arguments", "see-results", "note", "edit-results", "rewrite", "hide-tools", "ask-model", "stop"]"#;

const TEAM_POWERS: &str = r#"["see-messages", "see-arguments", "see-results", "ask-model"]"#;

const REQUEST_POWERS: &str = r#"["see-messages", "see-arguments", "see-results", "rewrite", "answer"]"#;

/// Each kind alone.
const KINDS: [(&str, &[&str]); 7] = [
    ("tool", &["tool"]),
    ("effect", &["effect"]),
    ("run-middleware", &["run-middleware"]),
    ("model-middleware", &["model-middleware"]),
    ("tool-middleware", &["tool-middleware"]),
    ("provider", &["provider"]),
    ("coordinator", &["coordinator"]),
];

/// So many modules are served by one engine, which keeps the code of all that it compiled.
const PER_ENGINE: usize = 100;

/// Counts of how far the guests got.
#[derive(Default)]
struct Tally(BTreeMap<&'static str, usize>);

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn of(&self, what: &str) -> usize {
        self.0.get(what).copied().unwrap_or(0)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(what, count)| write!(f, "{what} {count} "))
    }
}

/// An engine whose guests have little time, and a polite plugin in it that has as much as usual.
async fn hasty() -> (House, Arc<Plugin>) {
    let limits = Limits {
        probe_time: 4 * SHORT,
        tool_time: SHORT,
        step_time: SHORT,
        completion_time: SHORT,
        memory_bytes: 16 << 20,
        ..Limits::default()
    };
    let house = House::new(limits);
    let polite = House { engine: Arc::<PluginEngine>::clone(&house), limits: Limits::default() };
    let neighbour = tool(&polite, &Guest::tool()).await;
    (house, neighbour)
}

async fn neighbour_works(neighbour: &Arc<Plugin>) {
    let after = call(neighbour, "t", "{}").await;
    assert_eq!((after.is_error, after.text().as_str()), (false, "ok"));
}

/// A plugin of this kind around code by chance: where the code is called, and what becomes of what it returns, is chance
/// as well. The closer to what is right, the deeper it gets.
fn around(kind: &'static str, module: &[u8], chance: &mut Chance) -> Result<Vec<u8>, String> {
    let printed = wasmprinter::print_bytes(module).map_err(|error| format!("{error:#}"))?;
    let function = |name: &str| {
        let export = format!("(export \"{name}\" (func ");
        let (_, rest) = printed.split_once(&export).unwrap_or_else(|| panic!("{name} is not exported:\n{printed}"));
        rest.split(')').next().unwrap().to_owned()
    };
    let (_, kinds) = KINDS.iter().find(|(name, _)| *name == kind).unwrap();
    let mut guest = Guest::of(kinds);
    let within = guest.image_bytes();
    let functions: &[&str] = match kind {
        // To be offered it must describe itself, as most do.
        "tool" if chance.below(4) > 0 => &["call"],
        "tool" => &["specs", "call"],
        "effect" => &["eval"],
        "run-middleware" | "model-middleware" | "tool-middleware" => &["before", "after"],
        "coordinator" => &["next"],
        _ => &["complete"],
    };
    for name in functions {
        let mut argument = || match chance.below(4) {
            0 => 0,
            1 => BASE,
            2 => BASE + chance.below(within as usize) as u32,
            _ => chance.next() as u32,
        };
        let called =
            format!("(local.set $x (call {} (i32.const {}) (i32.const {})))", function("body"), argument(), argument());
        let answer = match chance.below(8) {
            0..4 => String::new(),
            4 => "(return (local.get $x))".into(),
            5 => "(return (i32.and (local.get $x) (i32.const 0x3ffff8)))".into(),
            // Something of what lies there for another purpose.
            6 => format!(
                "(return (i32.add (i32.const {BASE}) (i32.and (i32.rem_u (local.get $x) (i32.const {within})) (i32.const -8))))"
            ),
            // What is polite, with a word of it changed.
            _ => format!(
                "(i32.store (i32.add (i32.const {BASE}) (i32.const {})) (local.get $x))",
                chance.below(within as usize / 4) * 4
            ),
        };
        guest = guest.on(name, &(called + &answer));
    }
    if chance.below(6) == 0 {
        let parameters = (0..4).fold(String::new(), |mut text, n| {
            write!(text, "(local.get {n})").unwrap();
            text
        });
        guest = guest.on_realloc(&format!("(return (call {} {parameters}))", function("realloc")));
    }
    guest.component_around(&printed)
}

fn manifest(kind: &str) -> String {
    match kind {
        "tool" => "wants = { clock = true, random = true, kv = true, chat = true, files = \"write\" }".into(),
        "model-middleware" => {
            format!("wants = {{ clock = true, random = true, kv = true, models = true, powers = {REQUEST_POWERS} }}")
        }
        "effect" => format!(
            "wants = {{ clock = true, random = true, kv = true, powers = {ALL_POWERS} }}\neffect = {{ phases = [\"before-model\", \"after-model\"] }}"
        ),
        "coordinator" => {
            format!("wants = {{ clock = true, random = true, kv = true, models = true, powers = {TEAM_POWERS} }}")
        }
        _ => "wants = { clock = true, random = true, kv = true }".into(),
    }
}

/// Has each module of a kind behave as a plugin of it.
async fn behave(kind: &'static str) -> Tally {
    let (_, modules) = MODULES.iter().find(|(of, _)| *of == kind).unwrap();
    let first = ONCE_FAILED.iter().filter(|(of, _)| *of == kind).map(|(_, at)| *at);
    let all: Vec<_> = first.chain(0..modules.len()).collect();
    let mut tally = Tally::default();
    for some in all.chunks(PER_ENGINE) {
        let (house, neighbour) = hasty().await;
        for &at in some {
            let started = Instant::now();
            let component = match around(kind, modules[at], &mut Chance::new(at as u64)) {
                Ok(component) => component,
                Err(_) => {
                    tally.count("not made");
                    continue;
                }
            };
            tally.count("made");
            match pack(&[kind], &manifest(kind), &component).load(&house).await {
                Ok(plugin) => {
                    tally.count("called");
                    tally.count(one_run(kind, &plugin).await);
                }
                Err(error) => {
                    assert!(is_told(&error), "{kind} {at}: {error:?}");
                    tally.count("refused");
                }
            }
            neighbour_works(&neighbour).await;
            assert!(started.elapsed() < SLACK, "{kind} {at} took {:?}", started.elapsed());
        }
    }
    eprintln!("{kind}: {tally}");
    tally
}

/// Message, cause and hint: each is there, and a person can read them.
fn is_told(error: &str) -> bool {
    error.lines().count() >= 2 && error.len() < 16 << 10
}

/// A run with the plugin in it: how it ended. What is in the conversation is valid, whatever it was.
async fn one_run(kind: &str, plugin: &Arc<Plugin>) -> &'static str {
    if kind == "tool" {
        let tools = plugin.tools();
        assert!(tools.len() <= limits::TOOLS_PER_PLUGIN);
        let Some(tool) = tools.first() else { return "has no tool" };
        let result = call(plugin, &tool.name, r#"{"a":1}"#).await;
        let text = result.text();
        // What is cut says so, in a line more.
        assert!(text.chars().count() <= limits::TOOL_RESULT_CHARS + 200, "{} bytes", text.len());
        return match (result.is_error, text == "ok") {
            (true, _) => "failed",
            (false, true) => "answered",
            (false, false) => "answered by chance",
        };
    }
    let call = (kind == "tool-middleware").then(|| ScriptedCompleter::calls(&[("c", "look", "{}")]));
    let (_, mut helper) = agent(call.into_iter().chain((0..50).map(|_| ScriptedCompleter::text("done"))));
    match kind {
        "effect" => helper.effects.push(Arc::new(PluginEffect::new(plugin).unwrap())),
        "run-middleware" => helper.middleware.push(Arc::new(PluginRunMiddleware::new(plugin).unwrap())),
        "model-middleware" => {
            helper.model_middleware.push(Arc::new(PluginModelMiddleware::new(plugin).unwrap()));
        }
        "tool-middleware" => {
            helper = helper.with_tool(tool_of_ours("look", |_| async { Ok("looked".into()) }));
            helper = helper.with_tool_middleware(PluginToolMiddleware::new(plugin).unwrap());
        }
        "coordinator" => {}
        _ => {
            let info = ModelInfo::named("m");
            helper.completer = Arc::new(PluginModel::new(plugin, info, None, None).unwrap());
        }
    }
    let (answer, chat) = match PluginCoordinator::new(plugin) {
        Some(coordinator) => {
            let model = helper.completer.clone();
            let team = Team::new("desk", coordinator).with_member(Member::new(helper)).with_completer(model);
            let chat = Chat::new();
            (Runner::run(&team, &RunCx::new("desk"), &chat, vec![Message::user("go")]).await, chat)
        }
        None => {
            let (answer, chat, _) = run(&helper).await;
            check(&chat.snapshot());
            (answer, chat)
        }
    };
    assert!(chat.snapshot().check().is_ok());
    if kind == "tool-middleware" {
        // Whatever becomes of the call, the run goes on.
        assert_eq!(answer.unwrap().message.text_content(), "done");
        return around_a_call(&chat.snapshot());
    }
    match answer {
        Ok(answer) if ["ok", "done"].contains(&answer.message.text_content().as_str()) => "answered",
        Ok(answer) => {
            assert!(answer.message.bytes() <= limits::REPLY_BYTES);
            "answered by chance"
        }
        Err(error) => {
            let told = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            assert!(!told.is_empty() && told.len() <= 2 * limits::ERROR_BYTES, "{told}");
            match error {
                RunError::Model(_) => "failed as a model",
                _ => "failed",
            }
        }
    }
}

/// Returns the kind of outcome of the call whose result is in the conversation.
fn around_a_call(chat: &ChatSnapshot) -> &'static str {
    let results: Vec<_> = chat.iter().flat_map(|entry| entry.message.tool_results()).collect();
    let [result] = results[..] else { panic!("{} results", results.len()) };
    let text = result.text();
    assert!(text.chars().count() <= limits::TOOL_RESULT_CHARS + 200, "{} bytes", text.len());
    match (result.is_error, text == "looked") {
        (true, _) => "failed",
        (false, true) => "answered",
        (false, false) => "answered by chance",
    }
}

fn check(chat: &ChatSnapshot) {
    if !chat.is_empty() {
        check_transcript(chat);
    }
}

/// Asserts that enough guests got so far, or nothing was tested. The numbers are half of those at the time of writing.
fn is_telling(tally: &Tally, least: [(&str, usize); 3]) {
    for (what, least) in least {
        assert!(tally.of(what) >= least, "only {} {what}, of: {tally}", tally.of(what));
    }
}

#[tokio::test]
async fn random_tools_stay_within_their_limits() {
    is_telling(&behave("tool").await, [("called", 60), ("failed", 30), ("answered", 25)]);
}

#[tokio::test]
async fn random_effects_stay_within_their_limits() {
    is_telling(&behave("effect").await, [("called", 60), ("failed", 30), ("answered", 25)]);
}

#[tokio::test]
async fn random_run_middleware_stays_within_its_limits() {
    is_telling(&behave("run-middleware").await, [("called", 60), ("failed", 30), ("answered", 25)]);
}

#[tokio::test]
async fn random_model_middleware_stays_within_its_limits() {
    is_telling(&behave("model-middleware").await, [("called", 60), ("failed", 30), ("answered", 25)]);
}

#[tokio::test]
async fn random_tool_middleware_stays_within_its_limits() {
    is_telling(&behave("tool-middleware").await, [("called", 60), ("failed", 30), ("answered", 25)]);
}

#[tokio::test]
async fn random_providers_stay_within_their_limits() {
    is_telling(&behave("provider").await, [("called", 60), ("failed as a model", 30), ("answered", 25)]);
}

#[tokio::test]
async fn random_coordinators_stay_within_their_limits() {
    is_telling(&behave("coordinator").await, [("called", 60), ("failed", 30), ("answered", 25)]);
}

/// A section of a component: its number, and its bytes with their length before them.
pub fn section(number: u8, content: &[u8]) -> Vec<u8> {
    let (mut bytes, mut length) = (vec![number], content.len());
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        bytes.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            break;
        }
    }
    bytes.extend_from_slice(content);
    bytes
}

const CORE_MODULE: u8 = 1;
const COMPONENT: u8 = 4;

/// Returns `true` if a component is no component that the engine would take.
fn is_refused(error: &ComponentError) -> bool {
    matches!(
        error,
        ComponentError::Invalid { .. }
            | ComponentError::CutOff { .. }
            | ComponentError::Feature { .. }
            | ComponentError::Async { .. }
            // What it would make cannot be counted.
            | ComponentError::Parametric
    )
}

#[tokio::test]
async fn random_components_are_no_plugins_and_harmless_when_nested() {
    let (house, neighbour) = hasty().await;
    let polite = Guest::tool().component();
    let anatomy = Anatomy::read(&polite).unwrap();
    let mut tally = Tally::default();
    for (at, component) in COMPONENTS.iter().enumerate() {
        match Anatomy::read(component) {
            Err(ComponentError::NoKind) => tally.count("no plugin"),
            Err(error) if is_refused(&error) => {
                if let ComponentError::Invalid { message, offset } = &error {
                    assert!(!message.is_empty() && *offset <= component.len());
                }
                tally.count("refused");
            }
            other => panic!("component {at} has no exports, and is said to be {other:?}"),
        }
        // In a plugin they are a part of it that nothing uses.
        let with = [polite.clone(), section(COMPONENT, component)].concat();
        match Anatomy::read(&with) {
            Ok(read) => {
                assert_eq!(read, anatomy, "component {at}");
                tally.count("in a plugin");
            }
            Err(error) => assert!(is_refused(&error), "component {at}: {error}"),
        }
        if at.is_multiple_of(10) {
            match pack(&["tool"], "", &with).load(&house).await {
                Ok(plugin) => {
                    neighbour_works(&plugin).await;
                    tally.count("loaded");
                }
                Err(error) => assert!(is_told(&error), "component {at}: {error}"),
            }
            neighbour_works(&neighbour).await;
        }
    }
    for (_, modules) in MODULES {
        for module in modules.iter().step_by(5) {
            assert!(matches!(Anatomy::read(module), Err(ComponentError::CoreModule { .. })));
            if let Ok(read) = Anatomy::read(&[polite.clone(), section(CORE_MODULE, module)].concat()) {
                assert_eq!(read, anatomy);
                tally.count("module in a plugin");
            }
        }
    }
    eprintln!("components: {tally}");
    is_telling(&tally, [("no plugin", 700), ("in a plugin", 700), ("loaded", 20)]);
    assert!(tally.of("module in a plugin") > 100, "{tally}");
}

/// Bytes of which some are changed, cut out, put in or moved.
fn damaged(bytes: &[u8], other: &[u8], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=chance.below(3) {
        let (a, b) = (chance.below(bytes.len()), chance.below(bytes.len()));
        let (from, to) = (a.min(b), a.max(b));
        let few = from..bytes.len().min(from + 1 + chance.below(32));
        match chance.below(8) {
            0..3 => bytes[a] ^= 1 << chance.below(8),
            3 => bytes[a] = chance.next() as u8,
            4 => bytes.truncate(a + 1),
            5 => drop(bytes.drain(few)),
            6 => {
                let start = chance.below(other.len());
                let piece = other[start..other.len().min(start + 1 + chance.below(64))].to_vec();
                drop(bytes.splice(a..a, piece));
            }
            _ => bytes[from..to].rotate_left((to - from) / 2),
        }
    }
    bytes
}

/// The sections of a component, in another order or some of them twice: all of them whole.
fn shuffled(bytes: &[u8], chance: &mut Chance) -> Vec<u8> {
    const PREAMBLE: usize = 8;
    let (mut sections, mut at) = (Vec::new(), PREAMBLE);
    while at < bytes.len() {
        let (mut length, mut size) = (0, 1);
        loop {
            let byte = bytes[at + size];
            length |= usize::from(byte & 0x7f) << (7 * (size - 1));
            size += 1;
            if byte & 0x80 == 0 {
                break;
            }
        }
        sections.push(&bytes[at..at + size + length]);
        at += size + length;
    }
    let (a, b) = (chance.below(sections.len()), chance.below(sections.len()));
    match chance.below(3) {
        0 => sections.swap(a, b),
        1 => drop(sections.remove(a)),
        _ => sections.insert(b, sections[a]),
    }
    [&bytes[..PREAMBLE], &sections.concat()].concat()
}

#[tokio::test]
async fn damaged_plugins_are_refused_or_still_plugins() {
    const OF_EACH: u64 = 1_000;
    let (house, neighbour) = hasty().await;
    let components = KINDS.map(|(_, kinds)| Guest::of(kinds).component());
    let mut tally = Tally::default();
    for ((kind, _), component) in KINDS.iter().zip(&components) {
        for seed in 0..OF_EACH {
            let mut chance = Chance::new(seed);
            let bytes = match seed % 3 {
                0 => shuffled(component, &mut chance),
                _ => damaged(component, &components[chance.below(components.len())], &mut chance),
            };
            let anatomy = match Anatomy::read(&bytes) {
                Ok(anatomy) => anatomy,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    tally.count("misshapen");
                    continue;
                }
            };
            // What it says of itself is what is in it: a kind that its bytes do not name it is not.
            for said in &anatomy.kinds {
                let name = format!("shelly:plugin/{said}@0.");
                assert!(bytes.windows(name.len()).any(|there| there == name.as_bytes()), "{kind} {seed}: {said}");
            }
            tally.count("a plugin");
            if !seed.is_multiple_of(5) && anatomy.kinds == [kind.parse::<PluginKind>().unwrap()] {
                continue;
            }
            match pack(&[kind], &manifest(kind), &bytes).load(&house).await {
                Ok(plugin) => {
                    tally.count("called");
                    tally.count(one_run(kind, &plugin).await);
                }
                Err(error) => {
                    assert!(is_told(&error), "{kind} {seed}: {error:?}");
                    tally.count("refused");
                }
            }
            neighbour_works(&neighbour).await;
        }
    }
    eprintln!("damaged: {tally}");
    is_telling(&tally, [("misshapen", 1_000), ("a plugin", 200), ("called", 40)]);
}

#[test]
fn damaged_file_and_its_bytes_read_the_same() {
    let (place, whole) = (Place::new(), Guest::tool().component());
    for seed in 0..300 {
        let bytes = damaged(&whole, &whole, &mut Chance::new(seed));
        let path = place.file("c.wasm", &bytes);
        match (shelly_host::plugin::PluginPackage::read_file(&path), Anatomy::read(&bytes)) {
            (Ok(package), anatomy) => assert_eq!(Ok(package.anatomy), anatomy),
            (Err(error), _) => assert!(is_told(&told(&error)), "{seed}: {error}"),
        }
    }
}
