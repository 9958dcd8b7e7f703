//! Rules for the sources: which module may name which, and texts that no file may hold.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All files of these folders with one of these endings, by their path below the root.
pub fn files(folders: &[&str], endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let below = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((below, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "there is nothing to look at");
    found
}

pub fn host() -> Vec<(String, String)> {
    // Build scripts and examples are programs of their own.
    let is_own_program = |path: &str| path.ends_with("/build.rs") || path.contains("/examples/");
    files(&["host"], &[".rs"]).into_iter().filter(|(path, _)| !is_own_program(path)).collect()
}

/// The crates below `host/` of which each is one module, by the names that other crates call them.
const CRATES: [(&str, &str); 14] = [
    ("shelly_a2a", "a2a"),
    ("shelly_author", "author"),
    ("shelly_cluster", "cluster"),
    ("shelly_mcp", "mcp"),
    ("shelly_net", "net"),
    ("shelly_openapi", "openapi"),
    ("shelly_packages", "packages"),
    ("shelly_plugin_host", "plugin"),
    ("shelly_provider", "provider"),
    ("shelly_session", "session"),
    ("shelly_shipped", "shipped"),
    ("shelly_telemetry", "telemetry"),
    ("shelly_terminal", "terminal"),
    ("shelly_trace", "trace"),
];

/// The module of a source file: `agent` for `host/core/src/agent/agent_loop.rs`, `net` for `host/net/src/client.rs`.
pub fn module(path: &str) -> &str {
    let (krate, below) = path.strip_prefix("host/").unwrap().split_once("src/").unwrap();
    let krate = krate.trim_end_matches('/');
    if CRATES.iter().any(|(_, module)| *module == krate) {
        return krate;
    }
    below.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The code without comments and without what only tests see.
pub fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// The modules that each module may name, as the list in `docs/architecture.md` says. Every module may name these six.
const EVERYONE: [&str; 6] = ["chat", "digest", "event", "hex", "limits", "error"];
const MAY_NAME: [(&str, &[&str]); 53] = [
    ("chat", &[]),
    ("error", &[]),
    ("limits", &[]),
    ("event", &[]),
    ("approval", &[]),
    ("a2a", &["agent", "approval", "capability", "json_values", "model", "net"]),
    ("author", &["files", "process"]),
    ("capability", &[]),
    ("change", &["files", "trust"]),
    ("digest", &[]),
    ("hex", &[]),
    ("encodings", &[]),
    ("files", &[]),
    ("json_schema", &[]),
    ("json_values", &[]),
    ("bucket", &[]),
    ("kv", &["bucket", "files"]),
    ("line_reader", &[]),
    ("process", &[]),
    ("terminal", &[]),
    ("mcp", &["capability", "files", "json_values", "line_reader", "net", "process", "tool"]),
    ("net", &["capability", "encodings", "files", "process"]),
    ("packages", &["files", "net", "process"]),
    ("openapi", &["capability", "json_schema", "net", "tool"]),
    ("telemetry", &["capability", "net"]),
    ("tool", &["change", "json_schema"]),
    ("trust", &["files"]),
    ("trigger", &[]),
    ("model", &["bucket", "capability"]),
    ("provider", &["json_schema", "model", "net"]),
    ("project", &["files", "trust"]),
    ("skill", &["files", "tool"]),
    ("state", &["bucket", "files", "tool"]),
    ("builtin", &["tool", "approval", "capability", "change", "files", "plugin", "process", "trust"]),
    ("agent", &["model", "tool", "skill", "state", "capability"]),
    ("team", &["agent", "model", "tool", "capability"]),
    ("plugin", &["agent", "team", "change", "files", "tool", "model", "capability", "kv", "net", "process"]),
    ("conformance", &["agent", "approval", "builtin", "plugin", "process", "team", "tool", "model", "capability"]),
    ("session", &["agent", "encodings", "files", "model", "trust"]),
    ("cluster", &["agent", "approval", "bucket", "capability", "files", "model", "session"]),
    (
        "cluster_runs",
        &[
            "agent",
            "app",
            "approval",
            "capability",
            "cluster",
            "config",
            "files",
            "model",
            "net",
            "packages",
            "plugin",
            "serve",
            "session",
            "task",
            "trust",
        ],
    ),
    ("shipped", &["plugin"]),
    ("trace", &["agent", "files", "model", "session"]),
    (
        "config",
        &[
            "agent",
            "capability",
            "files",
            "mcp",
            "model",
            "net",
            "openapi",
            "packages",
            "process",
            "provider",
            "team",
            "trigger",
            "trust",
        ],
    ),
    (
        "assemble",
        &[
            "a2a",
            "agent",
            "approval",
            "bucket",
            "builtin",
            "capability",
            "change",
            "cluster",
            "config",
            "files",
            "kv",
            "mcp",
            "model",
            "net",
            "openapi",
            "packages",
            "plugin",
            "process",
            "project",
            "provider",
            "session",
            "skill",
            "state",
            "team",
            "telemetry",
            "tool",
            "trust",
        ],
    ),
    (
        "app",
        &[
            "approval",
            "assemble",
            "capability",
            "change",
            "config",
            "kv",
            "mcp",
            "model",
            "net",
            "plugin",
            "project",
            "provider",
            "tool",
            "trust",
        ],
    ),
    (
        "serve",
        &[
            "a2a",
            "agent",
            "app",
            "approval",
            "assemble",
            "capability",
            "cluster",
            "config",
            "files",
            "json_values",
            "mcp",
            "model",
            "net",
            "plugin",
            "project",
            "session",
            "skill",
            "task",
            "tool",
            "trace",
            "trigger",
        ],
    ),
    (
        "acp",
        &[
            "agent",
            "app",
            "approval",
            "change",
            "config",
            "files",
            "json_values",
            "line_reader",
            "session",
            "state",
            "task",
        ],
    ),
    (
        "cli",
        &[
            "a2a",
            "acp",
            "agent",
            "app",
            "approval",
            "author",
            "capability",
            "change",
            "cluster",
            "cluster_runs",
            "config",
            "conformance",
            "files",
            "mcp",
            "model",
            "net",
            "openapi",
            "packages",
            "plugin",
            "project",
            "serve",
            "session",
            "shipped",
            "terminal",
            "task",
            "tool",
            "trace",
            "trial",
            "trust",
        ],
    ),
    ("task", &["agent", "app", "files", "model", "tool"]),
    ("trial", &["agent", "app", "capability", "change", "config", "kv", "model", "net", "plugin", "team", "tool"]),
    ("fuzz", &["capability", "model", "net", "plugin", "provider", "session"]),
    ("main", &["cli"]),
];

#[test]
fn modules_depend_only_on_lower_modules() {
    let modules: Vec<_> = MAY_NAME.iter().map(|(name, _)| *name).collect();
    // The top of a crate declares its modules and names all of them.
    for (path, text) in host().into_iter().filter(|(path, _)| module(path) != "lib") {
        let from = module(&path);
        let allowed = MAY_NAME.iter().find(|(name, _)| *name == from);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{path}: the module `{from}` is not in the map"));
        for named in named_modules(&path, &code(&text)) {
            let fine = named == from || EVERYONE.contains(&named.as_str()) || allowed.contains(&named.as_str());
            assert!(fine || !modules.contains(&named.as_str()), "{path} may not name `{named}`");
        }
    }
    // Of the six that everyone may name, only these name each other.
    for (path, text) in host() {
        let from = module(&path);
        let below: &[&str] = match from {
            "limits" | "error" | "hex" => &[],
            "digest" => &["hex"],
            "chat" => &["digest", "error", "limits"],
            "event" => &["chat", "hex", "limits"],
            _ => continue,
        };
        for named in named_modules(&path, &code(&text)) {
            assert!(named == from || below.contains(&named.as_str()), "{path} may not name `{named}`");
        }
    }
}

/// Modules that a file names: `crate::agent::…`, `shelly_core::agent::…`, `shelly_net::…`, and the first words inside
/// `use shelly_core::{…}`.
fn named_modules(path: &str, code: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (krate, module) in CRATES {
        if code.contains(&format!("{krate}::")) || code.contains(&format!("use {krate} as")) {
            named.push(module.to_owned());
        }
    }
    named.extend(first_words_after(code, "shelly_core::"));
    // In a crate that is one module, what is in the crate is in the module.
    if path.starts_with("host/core/") || path.starts_with("host/src/") {
        named.extend(first_words_after(code, "crate::"));
    }
    named
}

fn first_words_after(code: &str, root: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut named = Vec::new();
    for (at, _) in code.match_indices(root) {
        let rest = &code[at + root.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            named.push(word(rest));
            continue;
        };
        let (mut depth, mut start) = (1, true);
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => start = true,
                c if depth == 1 && start && c.is_alphabetic() => {
                    named.push(word(&list[at..]));
                    start = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    named
}

/// The page on the architecture, which people read before the code.
const ARCHITECTURE: &str = "docs/architecture.md";

#[test]
fn architecture_page_has_the_module_map() {
    let page = fs::read_to_string(root().join(ARCHITECTURE)).unwrap();
    for (from, to) in MAY_NAME.iter().filter(|(_, to)| !to.is_empty()) {
        let line = format!("{from:8} → {}", to.join(", "));
        assert!(page.lines().any(|found| found == line), "{ARCHITECTURE} lacks the line `{line}`");
    }
    let modules: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
    for (module, _) in MAY_NAME.iter().filter(|(module, _)| *module != "main") {
        let named = format!("`{module}`");
        assert!(modules.iter().any(|line| line.contains(&named)), "{ARCHITECTURE} does not say what {named} is for");
    }
}

#[test]
fn architecture_page_names_existing_files() {
    let page = fs::read_to_string(root().join(ARCHITECTURE)).unwrap();
    let files: Vec<_> =
        page.split('`').skip(1).step_by(2).filter(|code| code.starts_with("host/") && code.ends_with(".rs")).collect();
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        assert!(root().join(file).is_file(), "{ARCHITECTURE} names `{file}`, which is not there");
    }
}

#[test]
fn readme_is_short_and_has_no_placeholders() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= 150, "a front door has at most 150 lines");
    let placeholder =
        |word: &str| word.len() > 5 && word.contains('_') && word.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    let known = [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "OPENAI_BASE_URL",
        "XAI_API_KEY",
        "OPENROUTER_API_KEY",
        "SHELLY_LOG",
        "SHELLY_CACHE_DIR",
        "SHELLY_WASM_ROUTE",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
        "SSL_CERT_FILE",
    ];
    for word in readme.split(|c: char| !c.is_alphanumeric() && c != '_') {
        assert!(!placeholder(word) || known.contains(&word), "README.md: `{word}` is not filled in");
    }
}

#[test]
fn each_library_is_used_in_one_module() {
    for (library, rooms) in [
        ("wasmtime", &["host/plugin/src/"][..]),
        ("wasmtime_environ", &["host/plugin/src/runtime/"]),
        ("wasmtime_wasi", &["host/plugin/src/"]),
        ("wasmparser", &["host/plugin/src/"]),
        ("landlock", &["host/plugin/src/compile/"]),
        ("seccompiler", &["host/plugin/src/compile/"]),
        ("libc", &["host/plugin/src/compile/"]),
        ("reqwest", &["host/net/src/"]),
        ("rustls", &["host/net/src/"]),
        ("async_nats", &["host/cluster/src/"]),
        ("rmcp", &["host/mcp/src/"]),
        ("sse_stream", &["host/mcp/src/"]),
        ("cronexpr", &["host/src/trigger/"]),
        ("jiff", &["host/src/trigger/"]),
        ("hyper", &["host/mcp/src/", "host/net/src/"]),
        ("hyper_util", &["host/mcp/src/", "host/net/src/"]),
        ("hyper_rustls", &["host/net/src/"]),
        ("tower_http", &["host/net/src/"]),
        ("clap", &["host/src/cli/"]),
        ("clap_complete", &["host/src/cli/completions/"]),
        ("clap_mangen", &["host/src/cli/man.rs"]),
        ("anstream", &["host/src/cli/"]),
        ("crossterm", &["host/src/cli/chat/"]),
        (
            "serde_saphyr",
            &[
                "host/src/config/",
                "host/core/src/model/pricing.rs",
                "host/core/src/skill/",
                "host/openapi/src/document.rs",
            ],
        ),
        ("ignore", &["host/src/project/"]),
        ("minisign_verify", &["host/packages/src/"]),
        ("semver", &["host/packages/src/"]),
        ("toml", &["host/packages/src/", "host/plugin/src/package/manifest.rs", "host/src/conformance/attack.rs"]),
        ("wat", &["host/src/conformance/", "host/plugin/src/component/complexity/tests.rs"]),
        ("wit_component", &["host/author/src/", "host/src/conformance/"]),
        ("wit_parser", &["host/author/src/", "host/src/conformance/", "host/plugin/src/functions/docs.rs"]),
        ("opentelemetry_proto", &["host/telemetry/src/"]),
        ("prost", &["host/telemetry/src/"]),
        ("quick_xml", &["host/src/cli/"]),
        ("ratatui_core", &["host/terminal/src/"]),
        ("pulldown_cmark", &["host/terminal/src/markdown/"]),
        ("syntect", &["host/terminal/src/markdown/"]),
        ("two_face", &["host/terminal/src/markdown/"]),
        ("terminal_colorsaurus", &["host/terminal/src/theme/"]),
    ] {
        for (path, text) in host() {
            let code = code(&text);
            let named = code.contains(&format!("{library}::")) || code.contains(&format!("use {library}"));
            // `::toml` as a module's name, or a path that ends like the library, is something else.
            let named = named
                && code
                    .match_indices(&format!("{library}::"))
                    .any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':'));
            assert!(!named || rooms.iter().any(|room| path.starts_with(room)), "{path} may not name `{library}`");
        }
    }
}

#[test]
fn only_the_command_line_touches_the_process() {
    for (path, text) in host() {
        if path.starts_with("host/src/cli/") || path == "host/src/main.rs" {
            continue;
        }
        let code = code(&text);
        for touch in [
            "println!",
            "eprintln!",
            "print!(",
            "dbg!",
            "process::exit",
            "env::var",
            "env::current_dir",
            "env::args",
            "std::io::stdout",
            "std::io::stderr",
            "io::stdin",
            "home_dir",
        ] {
            assert!(!code.contains(touch), "{path} has `{touch}`: the library does not print, exit or read variables");
        }
    }
}

#[test]
fn sources_have_no_unfinished_or_skipped_code() {
    for (path, text) in files(&["host", "sdk", "plugins", "tests", "examples"], &[".rs"]) {
        if path == "tests/all/tidy.rs" {
            continue;
        }
        for word in ["todo!(", "unimplemented!(", "#[ignore", "unbounded_channel", "FIXME", "XXX"] {
            assert!(!text.contains(word), "{path} has `{word}`");
        }
    }
}

#[test]
fn plugin_manifests_list_their_params() {
    let mut checked = 0;
    let text_of = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    for (path, manifest) in files(&["plugins"], &["plugin.toml"]) {
        let mut source = text_of(&path.replace("plugin.toml", "src/lib.rs"));
        if source.contains("Net::of_params()") {
            source = text_of("plugins/kit/src/secrets.rs");
        }
        let fields = source.split_once("struct Params {").map_or("", |(_, rest)| rest.split_once("\n}").unwrap().0);
        let read = fields.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(": "));
        let read: Vec<_> = read.map(|(name, _)| name).filter(|name| !name.contains(['/', '#', ' '])).collect();
        let Some(named) = manifest.lines().find_map(|line| line.strip_prefix("params = ")) else {
            assert!(read.is_empty(), "{path} names no params, and its source reads {read:?}");
            continue;
        };
        let quoted: Vec<_> = read.iter().map(|name| format!("\"{name}\"")).collect();
        assert_eq!(named, format!("[{}]", quoted.join(", ")), "{path}");
        checked += 1;
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn sources_have_no_merge_markers() {
    let folders = ["docs", "host", "sdk", "plugins", "tests", "wit", "examples"];
    for (path, text) in files(&folders, &[".rs", ".md", ".toml", ".wit", ".yaml"]) {
        for mark in ["<".repeat(7), ">".repeat(7)] {
            assert!(!text.lines().any(|line| line.starts_with(&mark)), "{path}: `{mark}` is a mark of a merge");
        }
    }
}

#[test]
fn limits_are_defined_in_one_module() {
    for (path, text) in host() {
        let code = code(&text);
        let is_test = path.ends_with("tests.rs") || path.contains("/tests/");
        if path.starts_with("host/core/src/limits/") || is_test {
            continue;
        }
        for time in ["Duration::from_secs(", "Duration::from_millis("] {
            for (at, _) in code.match_indices(time) {
                let argument = &code[at + time.len()..];
                assert!(
                    !argument.starts_with(|c: char| c.is_ascii_digit()),
                    "{path} has a bound of its own: {time}{}",
                    &argument[..10]
                );
            }
        }
    }
}

#[test]
fn agent_loop_functions_are_short() {
    let (_, text) = host().into_iter().find(|(path, _)| path == "host/core/src/agent/agent_loop.rs").unwrap();
    let start = text.find("async fn attempt(").unwrap();
    let lines = text[start..].split("\n    }\n").next().unwrap().lines().count();
    assert!(lines < 150, "the loop has {lines} lines");
    let (_, main) = host().into_iter().find(|(path, _)| path == "host/src/main.rs").unwrap();
    assert!(main.lines().count() < 60);
}

#[test]
fn wit_contract_is_documented() {
    for (path, text) in files(&["wit"], &[".wit"]) {
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let declares = ["interface ", "record ", "variant ", "enum ", "flags ", "resource ", "world "]
                .iter()
                .any(|word| line.starts_with(word))
                || line.contains(": func(");
            let documented = at > 0 && lines[at - 1].starts_with("///");
            assert!(!declares || documented, "{path}:{}: `{line}` has no documentation", at + 1);
        }
    }
}
