//! The commands that the documents show. Each is run on the files that it names, or this module says why not and what is run
//! instead.

use std::{collections::BTreeSet, fs, process::Command};

use super::{repository, root, words};
use crate::{
    providers::program::closed,
    support::{Place, Ran},
    tidy::files,
};

/// Commands that need a model of the reader.
const NEEDS_A_MODEL: How = How::Needs("a key or a local server");

/// The documents, and how the commands in each of them are tested.
const DOCUMENTS: &[(&str, &[(&str, How)])] = &[
    (
        "README.md",
        &[
            ("run --config examples/01-quick-start/shelly.yaml", How::OnRealFiles),
            ("chat", How::By("all/chat.rs")),
            ("run \"What is a monad, in one sentence?\"", NEEDS_A_MODEL),
            ("provider check", NEEDS_A_MODEL),
            ("doctor", How::By("all/doctor.rs")),
            (
                "run --config examples/01-quick-start/shelly.yaml --plugins target/plugins --model local",
                How::Needs("Ollama"),
            ),
        ],
    ),
    (
        "examples/README.md",
        &[
            ("run --config examples/01-quick-start/shelly.yaml", How::OnRealFiles),
            ("run --config examples/02-delegation/shelly.yaml", How::OnRealFiles),
            ("run --config examples/03-custom-provider/shelly.yaml", How::OnRealFiles),
            ("run --config examples/", How::By("all/examples.rs")),
            ("chat --config examples/16-chat/shelly.yaml", How::By("all/examples.rs")),
            ("run --config examples/17-cluster/shelly.yaml", How::By("all/cluster/delegation.rs")),
        ],
    ),
    (
        "examples/17-cluster/README.md",
        &[
            ("worker --config examples/17-cluster/shelly.yaml", How::By("all/cluster/delegation.rs")),
            ("run --config examples/17-cluster/shelly.yaml", How::By("all/cluster/delegation.rs")),
        ],
    ),
    ("plugins/README.md", &[("run --no-session --model script --output json", How::By("all/examples.rs"))]),
    (
        "docs/any-component.md",
        &[
            ("plugin inspect plugins/adder.wasm", How::By("all/functions.rs")),
            ("plugin inspect plugins/calc.wasm", How::By("all/functions/inspected.rs")),
            ("run --plugins plugins \"What is 2 and 40?\"", NEEDS_A_MODEL),
        ],
    ),
    (
        "docs/authoring.md",
        &[
            ("plugin new dice", How::By("all/authors.rs")),
            ("plugin build", How::By("all/authors.rs")),
            ("plugin call build/dice", How::By("all/authors.rs")),
            ("plugin dev", How::By("all/plugin_dev.rs")),
            ("chat --dev dice", How::By("all/chat/development.rs")),
            ("plugin test", How::By("all/authors.rs")),
            ("run --plugins build", NEEDS_A_MODEL),
        ],
    ),
    (
        "docs/cluster.md",
        &[
            ("config trust", How::By("all/trust.rs")),
            ("run \"Look for typos", NEEDS_A_MODEL),
            ("session list", How::By("all/sessions/copied.rs")),
            ("session resume last", NEEDS_A_MODEL),
            ("session copy last --to", How::By("all/sessions/copied.rs")),
            ("worker --jobs 4", How::By("all/cluster/walk.rs")),
            ("submit", How::By("all/cluster/walk.rs")),
            ("cluster status", How::By("all/cluster/walk.rs")),
            ("cluster key", How::By("all/cluster/housekeeping.rs")),
            ("cluster prune", How::By("all/cluster/housekeeping.rs")),
            ("attach typos-1", How::By("all/cluster/walk.rs")),
        ],
    ),
    (
        "docs/installing-plugins.md",
        &[
            ("plugin install", How::By("all/packages.rs")),
            ("plugin publish build/dice", How::By("all/packages/registries.rs")),
            ("plugin list --outdated", How::By("all/packages/updates.rs")),
            ("plugin update dice", How::By("all/packages/updates.rs")),
            ("plugin search dice", How::By("all/packages/sources.rs")),
            ("plugin vendor", How::By("all/packages/sources.rs")),
            ("plugin remove dice", How::By("all/packages.rs")),
            ("plugin inspect", How::By("all/packages.rs")),
        ],
    ),
    (
        "docs/installing-agents.md",
        &[
            ("agent install", How::By("all/packages/agents.rs")),
            ("run --agent critic", NEEDS_A_MODEL),
            ("agent list", How::By("all/packages/agents.rs")),
            ("agent update reviewer", How::By("all/packages/agents.rs")),
            ("agent remove reviewer", How::By("all/packages/agents.rs")),
            ("agent publish reviewer", How::By("all/packages/agents.rs")),
        ],
    ),
    ("docs/batch.md", &[("batch ", How::By("all/batch.rs"))]),
    ("docs/chat.md", &[("chat", How::By("all/chat.rs")), ("chat --dev dice", How::By("all/chat/development.rs"))]),
    ("docs/cli.md", &[("", How::By("book/src/tests/reference.rs"))]),
    ("docs/checking-plugins.md", &[("plugin check", How::By("all/plugin_check.rs"))]),
    ("docs/comparison.md", &[]),
    ("docs/conformance.md", &[("conformance", How::By("all/conformance.rs"))]),
    ("docs/contract.md", &[("plugin wit --out", How::By("all/authors.rs"))]),
    ("docs/delegation.md", &[("run --config examples/02-delegation/shelly.yaml", How::OnRealFiles)]),
    (
        "docs/getting-started.md",
        &[
            ("run \"What is a monad, in one sentence?\"", NEEDS_A_MODEL),
            ("provider check", NEEDS_A_MODEL),
            ("run \"Where is the build described", NEEDS_A_MODEL),
            ("run \"Review this change\"", NEEDS_A_MODEL),
        ],
    ),
    (
        "docs/mcp-servers.md",
        &[
            ("mcp list", How::By("all/mcp.rs")),
            ("mcp approve", How::By("all/mcp.rs")),
            ("mcp log", How::By("all/mcp_login.rs")),
        ],
    ),
    (
        "docs/openapi.md",
        &[
            ("openapi list", How::By("all/openapi.rs")),
            ("openapi approve", How::By("all/openapi.rs")),
            ("config check", How::By("all/openapi.rs")),
            ("run --agent helper", NEEDS_A_MODEL),
        ],
    ),
    (
        "docs/mcp.md",
        &[
            ("mcp --plugins target/plugins", How::Needs("the program npx; tests/all/serving.rs serves the same")),
            ("mcp --config shelly.yaml --http", How::By("all/serving.rs")),
        ],
    ),
    (
        "docs/serving.md",
        &[
            ("serve --config examples/01-quick-start/shelly.yaml", How::By("all/serve/examples.rs")),
            ("serve --listen 0.0.0.0:8322 --tls-cert cert.pem", How::By("all/serve/tls.rs")),
        ],
    ),
    ("docs/openai-api.md", &[("serve --config examples/01-quick-start/shelly.yaml", How::By("all/serve/examples.rs"))]),
    (
        "docs/plugins.md",
        &[
            ("plugin inspect", How::By("all/wiring.rs")),
            ("config check --load", How::By("all/config_check.rs")),
            ("plugin certify", How::By("all/ceilings.rs")),
        ],
    ),
    ("docs/other-languages.md", &[("plugin new slug --lang javascript --engine quickjs", How::By("all/authors.rs"))]),
    (
        "docs/providers.md",
        &[
            ("provider check", NEEDS_A_MODEL),
            ("run --config examples/03-custom-provider/shelly.yaml", How::OnRealFiles),
        ],
    ),
    ("docs/security.md", &[("conformance", How::By("all/conformance.rs"))]),
    (
        "docs/sessions.md",
        &[
            ("session ", How::InASession),
            ("run --session release", How::InASession),
            ("run --after release", How::InASession),
            ("trace last", How::InASession),
        ],
    ),
    ("docs/skills.md", &[("skill list", How::By("all/skills.rs")), ("skill check", How::By("all/skills.rs"))]),
    (
        "docs/trust.md",
        &[("run \"What is this project?\"", How::Needs("a project of somebody else; tests/all/trust.rs has one"))],
    ),
    ("docs/trace.md", &[("trace last", How::By("all/trace.rs"))]),
    ("docs/testing-plugins.md", &[("plugin test", How::By("all/plugin_cases.rs"))]),
    ("docs/trying-plugins.md", &[("plugin call", How::By("all/plugin_commands.rs"))]),
    (
        "docs/triggers.md",
        &[
            ("serve --triggers", How::By("all/serve/triggers.rs")),
            ("trigger fire issues --config examples/triggers/shelly.yaml", How::By("all/serve/examples.rs")),
            ("serve --config examples/triggers/shelly.yaml", How::By("all/serve/examples.rs")),
        ],
    ),
    (
        "docs/troubleshooting.md",
        &[
            ("doctor", How::By("all/doctor.rs")),
            ("completions", How::By("all/completions.rs")),
            ("man", How::By("all/manual.rs")),
        ],
    ),
    ("docs/telemetry.md", &[("run \"What is a monad, in one sentence?\"", NEEDS_A_MODEL)]),
    (
        "docs/user-config.md",
        &[("config path", How::By("all/user_config/shown.rs")), ("config show", How::By("all/user_config/shown.rs"))],
    ),
    ("sdk/rust/README.md", &[("plugin inspect .shelly/plugins/dice", How::By("all/wiring.rs"))]),
];

/// A project in which sessions can be made.
const SESSION_CONFIG: &str = "plugin_dirs: [target/plugins]\nproviders: [{name: offline, kind: plugin, plugin: offline-model}]\n\
    agents: [{name: lead, plugins: {read-files: {files: [{path: ., as: .}]}, count-text: }}]\n";

/// The way in which a command is tested. The first entry applies whose words the command begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    /// Here, in a repository with the very files that it names.
    OnRealFiles,
    /// Here, in the order of the document, in a project with a session.
    InASession,
    /// By the tests in this file.
    By(&'static str),
    /// Not here: it needs this.
    Needs(&'static str),
}

/// Returns the commands that a document shows in its blocks, and those with arguments in its lines, without `shelly-host`.
/// Text with placeholders, such as `[--config FILE]`, is no command.
fn shown(document: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let mut commands = Vec::new();
    for (at, part) in text.split("```").enumerate() {
        match at % 2 {
            1 => {
                let (language, block) = part.split_once('\n').unwrap();
                let block = block.replace("\\\n", " ");
                let lines = block.lines().filter(|_| language != "text");
                commands.extend(lines.filter_map(|line| Some(line.split_once("shelly-host ")?.1.to_owned())));
            }
            _ => {
                let quoted = part.split('`').skip(1).step_by(2).filter_map(|code| code.strip_prefix("shelly-host "));
                commands.extend(quoted.filter(|command| command.contains('/')).map(str::to_owned));
            }
        }
    }
    let plain = |command: String| {
        // What follows is said to the reader, or done by the shell.
        let end = [" # ", " > ", " | "].iter().filter_map(|mark| command.find(mark)).min();
        command[..end.unwrap_or(command.len())].split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let commands = commands.into_iter().map(plain);
    commands.filter(|command| !command.contains(['[', '…']) || command.contains("--model local")).collect()
}

fn how(document: &str, command: &str) -> How {
    let (_, table) = DOCUMENTS.iter().find(|(name, _)| *name == document).unwrap();
    // The longest that fits: `--model local` is another command than the one before it.
    let fits = table.iter().filter(|(begins, _)| command.starts_with(begins));
    let fits = fits.max_by_key(|(begins, _)| begins.len());
    fits.unwrap_or_else(|| panic!("{document} shows `{command}`: say in DOCUMENTS how it is tested")).1
}

/// The commands of all documents that are tested so, each once, in their order.
fn all(wanted: How) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let of = |(document, _): &(&str, _)| {
        let commands = shown(document).into_iter();
        commands.filter(|command| how(document, command) == wanted).collect::<Vec<_>>()
    };
    DOCUMENTS.iter().flat_map(of).filter(|command| seen.insert(command.clone())).collect()
}

#[test]
fn every_document_with_commands_is_listed() {
    let mut found = BTreeSet::from(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(str::to_owned));
    let folders = ["docs", "examples", "plugins", "sdk", "tests/benches", "tests/fuzz"];
    found.extend(files(&folders, &[".md"]).into_iter().map(|(path, _)| path));
    let known: Vec<_> = DOCUMENTS.iter().map(|(document, _)| *document).collect();
    for document in found {
        let commands = if known.contains(&&*document) { Vec::new() } else { shown(&document) };
        assert!(commands.is_empty(), "{document} is not in DOCUMENTS, and shows {commands:?}");
    }
    for &(document, table) in DOCUMENTS {
        let commands = shown(document);
        for command in &commands {
            let _known = how(document, command);
        }
        for (begins, how) in table {
            assert!(commands.iter().any(|command| command.starts_with(begins)), "{document} does not show `{begins}`");
            if let How::By(file) = how {
                assert!(root().join("tests").join(file).is_file(), "{file}");
            }
        }
    }
}

/// A repository with the files that commands name as they are, in which nobody listens where Ollama would.
fn real_repository() -> Place {
    let place = repository();
    for file in ["README.md", "Cargo.toml"] {
        fs::copy(root().join(file), place.path().join(file)).unwrap();
    }
    let config = "examples/03-custom-provider/shelly.yaml";
    let text = fs::read_to_string(place.path().join(config)).unwrap();
    let elsewhere = format!("http://localhost:{}", closed());
    let params = format!("params: {{base_url: '{elsewhere}', num_ctx");
    let text = text.replace("http://localhost:11434", &elsewhere).replace("params: {num_ctx", &params);
    place.file(config, text);
    place
}

fn run(place: &Place, command: &str) -> Ran {
    let words = words(command);
    place.ran(
        place
            .command(&words.iter().map(String::as_str).collect::<Vec<_>>())
            .env("HOME", place.path())
            .output()
            .unwrap(),
    )
}

/// Returns the parts that the answer must have, counted anew.
fn expected(command: &str) -> Vec<String> {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let (readme, cargo) = (read("README.md"), read("Cargo.toml"));
    let mut expected = Vec::new();
    if command.contains("words are in README.md") {
        expected.push(format!("README.md has {} words", readme.split_whitespace().count()));
    }
    if command.contains("lines are in Cargo.toml") {
        expected.push(format!("Cargo.toml has {} lines", cargo.lines().count()));
    }
    if command.contains("five longest lines") {
        let mut lengths: Vec<_> = readme.lines().map(|line| line.chars().count()).collect();
        lengths.sort_by_key(|length| std::cmp::Reverse(*length));
        expected.extend(lengths[..5].iter().map(|length| format!("{length} characters")));
    }
    assert!(!expected.is_empty(), "what must `{command}` answer?");
    expected
}

#[test]
fn documented_commands_answer_on_the_named_files() {
    let commands = all(How::OnRealFiles);
    assert!(commands.len() >= 3, "{commands:?}");
    for command in commands {
        let ran = run(&real_repository(), &command);
        assert!(ran.code == 0 && !ran.stderr.contains("warning: "), "{command}: {}", ran.shown());
        for part in expected(&command) {
            assert!(ran.stdout.contains(&part), "{command}: `{part}` is not in it: {}", ran.shown());
        }
    }
}

/// The front page grows: it may be longer than a result, and than a quarter of the window.
#[test]
fn documented_commands_answer_on_longer_files() {
    let place = real_repository();
    let readme = fs::read_to_string(place.path().join("README.md")).unwrap();
    let longer = format!("{readme}\n{readme}");
    let words = longer.split_whitespace().count();
    place.file("README.md", longer);
    for example in ["01-quick-start", "02-delegation"] {
        let config = format!("examples/{example}/shelly.yaml");
        let ran =
            place.run(&["run", "--config", &config, "--plugins", "target/plugins", "How many words are in README.md?"]);
        assert!(ran.code == 0 && ran.stdout.contains(&format!("has {words} words")), "{example}: {}", ran.shown());
    }
}

#[test]
fn documented_session_commands_run_in_order() {
    let place = repository();
    place.file("shelly.yaml", SESSION_CONFIG);
    let begun =
        run(&place, "run --session 20261121-090210-0c77de \"How many words are in README.md, and how many lines?\"");
    assert_eq!(begun.code, 0, "{}", begun.shown());
    let commands = all(How::InASession);
    assert!(commands.len() >= 12, "{commands:?}");
    for command in commands {
        // How many lines a journal has depends on the session.
        let ran = run(&place, &command.replace("--at 12", "--at 3"));
        assert_eq!(ran.code, 0, "{command}: {}", ran.shown());
    }
}

/// The page names the session, in whose folder its queries run.
#[test]
fn session_format_queries_read_a_journal() {
    if Command::new("jq").arg("--version").output().is_err() {
        eprintln!("not tested: jq is not installed");
        return;
    }
    let page = fs::read_to_string(root().join("docs/session-format.md")).unwrap();
    let (_, part) = page.split_once("## Reading it with jq\n\n```sh\ncd ").unwrap();
    let (folder, queries) = part.split_once("```").unwrap().0.split_once('\n').unwrap();
    let place = repository();
    place.file("shelly.yaml", SESSION_CONFIG);
    let (_, session) = folder.rsplit_once('/').unwrap();
    let begun = run(&place, &format!("run --session {session} \"How many words are in README.md?\""));
    assert_eq!(begun.code, 0, "{}", begun.shown());
    let mut count = 0;
    for query in queries.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut shell = Command::new("sh");
        let output = shell.args(["-ec", query]).current_dir(place.path().join(folder)).output().unwrap();
        let (found, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && errors.is_empty(), "{query}: {errors}");
        // No call failed, and no line is so long that its strings have files of their own.
        let finds_nothing = query.contains("is_error") || query.contains(".attached");
        assert_eq!(found.is_empty(), finds_nothing, "{query}: {found}");
        count += 1;
    }
    assert!(count >= 6, "{count}");
}
