//! Every example, run by the command that `examples/README.md` shows for it: its answer, and which agents and tools worked
//! on it. Also every other command that a document shows.

mod commands;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    chat::terminal::ChatTerminal,
    event_stream,
    support::{Place, Ran, copy},
};

macro_rules! assert_test_exists {
    ($name:ident) => {
        #[expect(unused_imports, reason = "that it is there is the check")]
        use self::$name as _;
    };
}
foreach_example!(assert_test_exists);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A repository after `cargo demo`: the examples as they are, the plugins, and the program on the `PATH`. The files in which
/// the first examples count words are the test's own.
pub fn repository() -> Place {
    let place = Place::new();
    copy(&root().join("examples"), &place.path().join("examples"), &["local", "target"]);
    place.file("README.md", "# A house\n\nIt has three rooms and a cat.\nThe cat has a name.\n");
    place.file("Cargo.toml", "[workspace]\nmembers = []\n");
    for folder in ["target", "bin"] {
        fs::create_dir(place.path().join(folder)).unwrap();
    }
    for (there, here) in [
        (crate::PLUGIN_ROOT, "target/plugins"),
        (crate::EXAMPLE_ROOT, "target/example-plugins"),
        (env!("CARGO_BIN_EXE_shelly-host-under-test"), "bin/shelly-host"),
    ] {
        symlink(there, place.path().join(here)).unwrap();
    }
    place
}

fn readme() -> String {
    fs::read_to_string(root().join("examples/README.md")).unwrap()
}

/// The commands in `examples/README.md` that run something below this folder, as words without `shelly-host`.
fn commands(example: &str) -> Vec<Vec<String>> {
    let readme = readme();
    let quoted = readme.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("shelly-host "));
    let commands = quoted.map(words).filter(|words| words.iter().any(|word| word.contains(example)));
    commands.collect()
}

/// The words of a command as a shell reads them: blanks part them, but for those in double quotes.
fn words(command: &str) -> Vec<String> {
    let pieces = command.split('"').enumerate();
    let words = pieces.flat_map(|(at, piece)| match at % 2 {
        0 => piece.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
        _ => vec![piece.to_owned()],
    });
    words.collect()
}

/// Runs it in a repository of its own.
fn run(words: &[String], more: &[&str]) -> Ran {
    let place = repository();
    let arguments: Vec<_> = words.iter().map(String::as_str).collect();
    let mut command = place.command(&[&arguments[..1], more, &arguments[1..]].concat());
    let path = std::env::join_paths([place.path().join("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
    place.ran(command.env("PATH", path).env("HOME", place.path()).output().unwrap())
}

/// Returns the output of each command of an example, and below it the agents that took part, with the tools that they called
/// and the steps that teams took.
fn shown(example: &str) -> String {
    let commands = commands(example);
    assert!(!commands.is_empty(), "examples/README.md shows no command for {example}");
    let one = |words: &Vec<String>| {
        let (ran, watched) = (run(words, &[]), run(words, &["--output", "events"]));
        assert!(ran.code == 0 && !ran.stderr.contains("warning: "), "{words:?}: {}", ran.shown());
        assert_eq!(watched.code, 0, "{words:?}: {}", watched.shown());
        event_stream::checked(&watched.stdout);
        format!("{}\n-- who did what\n{}", ran.stdout, work(&watched.stdout))
    };
    commands.iter().map(one).collect::<Vec<_>>().join("\n")
}

/// Returns the actions of each agent, in order. Calls of one reply are made in parallel: they are sorted by name and listed
/// before the other actions of the reply.
fn work(events: &str) -> String {
    let mut work: BTreeMap<String, Agent> = BTreeMap::new();
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
        let did = match event["event"].as_str().unwrap() {
            "run_started" => match event["parent_agent"].as_str() {
                Some(parent) => format!("works for {parent}"),
                None => "works".into(),
            },
            "tool_started" => format!("calls {} {}", word("tool"), word("arguments")),
            "tool_finished" if event["is_error"] == true => format!("{} fails", word("tool")),
            "middleware_acted" => format!("{}: {}", word("middleware"), word("action")),
            "handed_over" => format!("hands over to {}: {}", word("to"), word("reason")),
            "team_step" => {
                let members = event["members"].as_array().unwrap().iter();
                let names: Vec<_> = members.map(|name| name.as_str().unwrap()).collect();
                let who = if event["done"] == true { "done".into() } else { names.join(" + ") };
                let why = event["reasoning"].as_str().map(|why| format!(", because: {why}"));
                format!("step {}: {who}{}", event["step"], why.unwrap_or_default())
            }
            "model_finished" => {
                work.entry(word("agent")).or_default().replies += 1;
                continue;
            }
            _ => continue,
        };
        let agent = work.entry(word("agent")).or_default();
        let is_call = did.starts_with("calls ");
        let place = (agent.replies, !is_call, if is_call { 0 } else { agent.did.len() });
        agent.did.push((place, did));
    }
    let one = |(name, mut agent): (String, Agent)| {
        agent.did.sort();
        let did: Vec<_> = agent.did.into_iter().map(|(_, did)| did).collect();
        format!("{name}\n  {}\n", did.join("\n  "))
    };
    work.into_iter().map(one).collect()
}

#[derive(Default)]
struct Agent {
    /// Replies of its model so far.
    replies: usize,
    /// After how many replies, whether it is no call, and which of those it is.
    did: Vec<((usize, bool, usize), String)>,
}

/// The folders of the examples, in reading order.
fn folders() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("examples")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect()
}

/// One test for each, so that all run at once.
macro_rules! examples {
    ($($test:ident: $folder:literal,)*) => {
        $(
            #[test]
            fn $test() {
                assert_snapshot!(stringify!($test), shown($folder));
            }
        )*

        /// But for three with tests of their own: the third would ask Ollama where it runs on this machine, a chat needs
        /// a terminal, and a cluster a server.
        #[test]
        fn every_example_is_tested_and_documented() {
            let run = BTreeSet::from(["03-custom-provider", "16-chat", "17-cluster", $($folder,)*].map(str::to_owned));
            assert_eq!(run, folders());
            for folder in folders() {
                assert!(!commands(&folder).is_empty(), "examples/README.md shows no command for {folder}");
            }
        }
    };
}

examples! {
    quick_start: "01-quick-start",
    delegation: "02-delegation",
    own_tool: "04-own-tool",
    pipeline: "05-pipeline",
    model_led_team: "06-model-led-team",
    agent_as_tool: "07-agent-as-tool",
    hand_off: "08-hand-off",
    blackboard: "09-blackboard",
    middleware: "10-middleware",
    parallel_roles: "11-parallel-roles",
    nested_teams: "12-nested-teams",
    mcp: "13-mcp",
    skills: "14-skills",
    coordinator_plugin: "15-coordinator-plugin",
}

/// `--model local`, as the README says, is a model that is none of ours, in every example.
#[test]
fn every_example_accepts_model_local() {
    let readme = readme();
    let model = readme.split("--model ").nth(1).expect("it is told of").split(['`', ' ']).next().unwrap();
    let place = repository();
    for folder in folders() {
        let config = PathBuf::from("examples").join(folder).join("shelly.yaml").display().to_string();
        let check = ["config", "check", "--config", &config, "--plugins", "target/plugins", "--output", "json"];
        let ran = place.run(&check);
        assert_eq!(ran.code, 0, "{config}: {}", ran.shown());
        let checked: Value = serde_json::from_str(&ran.stdout).unwrap();
        // A key of the person's own may be missing.
        let warnings = checked["warnings"].as_array().unwrap().iter().map(|warning| warning.as_str().unwrap());
        let warnings: Vec<_> = warnings.filter(|warning| !warning.contains("OPENAI_API_KEY is not set")).collect();
        assert!(warnings.is_empty(), "{config}: {warnings:?}");
        let providers = checked["config"]["providers"].as_array().unwrap();
        let named = providers.iter().find(|provider| provider["name"] == model);
        let named = named.unwrap_or_else(|| panic!("{config} has no model `{model}`"));
        assert!(named["kind"] == "ollama" || named["plugin"] == "ollama", "{config}: {named}");
    }
}

/// No command is beside the tests, and what is linked to is there.
#[test]
fn examples_readme_names_only_existing_files_and_commands() {
    let run: usize = folders().iter().map(|folder| commands(folder).len()).sum();
    assert_eq!(readme().matches("`shelly-host run ").count() + readme().matches("`shelly-host chat ").count(), run);
    let readme = readme();
    let links: Vec<_> = readme.split("](").skip(1).map(|rest| rest.split(['#', ')']).next().unwrap()).collect();
    assert!(links.len() > folders().len());
    for link in links {
        assert!(root().join("examples").join(link).exists(), "{link}");
    }
}

/// The answer has the result of the tool; for an unknown city nothing is made up.
#[test]
fn weather() {
    let command = commands("04-own-tool").remove(0);
    let ask = |task: &str| run(&[&command[..command.len() - 1], &[task.to_owned()]].concat(), &[]);
    let ran = ask("What is the weather in Tokyo?");
    assert_eq!((ran.code, &*ran.stdout), (0, "In Tokyo it is 81 °F and cloudy.\n"), "{}", ran.shown());
    let ran = ask("What is the weather in Atlantis?");
    assert!(ran.code != 0 && ran.stdout.is_empty(), "{}", ran.shown());
    assert!(ran.stderr.contains("unknown city `Atlantis`; try Paris, London or Tokyo"), "{}", ran.shown());
}

#[test]
fn chat_example_changes_a_file_after_a_yes() {
    let [words] = &commands("16-chat")[..] else { panic!("one command") };
    let place = repository();
    let file = place.path().join("examples/16-chat/till/receipt.py");
    let arguments: Vec<_> = words[1..].iter().map(String::as_str).collect();
    let mut chat = ChatTerminal::open(&place, &arguments);
    chat.say("Why is the discount on a receipt wrong?");
    chat.wait_for("apply the changes?");
    assert!(fs::read_to_string(&file).unwrap().contains("* (1 - discount)"));
    chat.say("y");
    let text = chat.wait_for("whole cents");
    assert!(text.contains("✓ fs_edit till/receipt.py") && !text.contains("✗"), "{text}");
    assert!(fs::read_to_string(&file).unwrap().contains("* (100 - discount) / 100)"));
    chat.wait_for_rest();
    chat.leave();
}

#[test]
fn config_test_of_the_plugins_readme_works() {
    let readme = fs::read_to_string(root().join("plugins/README.md")).unwrap();
    let (_, part) = readme.split_once("**To test a config of your own**").unwrap();
    let blocks: Vec<_> = part.split("```").skip(1).step_by(2).collect();
    let [model, command] = blocks[..] else { panic!("{blocks:?}") };
    let model = model.strip_prefix("yaml\n").unwrap();
    let (command, _) = command.strip_prefix("sh\nshelly-host ").unwrap().split_once(" |").unwrap();
    let place = Place::new();
    place.file("README.md", "# A house\n\nIt has three rooms.\n");
    place.file(
        "shelly.yaml",
        format!(
            "providers:\n  - {{name: real, kind: openai, base_url: 'http://127.0.0.1:9', model: m}}\n{model}\nagents:\n  - \
             {{name: lead, options: {{max_delegation_depth: 1}}}}\n  - {{name: reader, plugins: {{read-files: {{files: \
             [{{path: ., as: .}}]}}}}}}\n"
        ),
    );
    let words = words(command);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let ran = place.run(&[&words[..1], &["--plugins", crate::PLUGIN_ROOT], &words[1..]].concat());
    let result: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
    assert_eq!(result["answer"], "A house", "{}", ran.shown());
}
