//! The command `config check`: the effective config, errors and warnings, without a model and without running a plugin's
//! code.

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    hostile::guest::{Guest, Image, Spec},
    support::Place,
};

const CONFIG: &str = "
providers:
  - {name: gpt, kind: openai, model: gpt-5-mini, api_key: sk-never-shown}
  - {name: far, kind: openai, model: far-1, base_url: '${FAR_URL}/v1', api_key: '${FAR_KEY}', price: {input: 1, output: 2}}
  - {name: offline, kind: plugin, plugin: offline-model, clock: true, params: {token: sk-never-shown}}
credentials:
  - {name: github, env: GITHUB_TOKEN, for: ['https://api.github.com']}
  - {name: shop, command: [pass, show, shop], for: ['https://*.shop.example/v2'], auth: {header: x-key}}
agents:
  - name: lead
    description: leads
    instructions: |
      Lead.
      Well.
    toolboxes: [ask, {name: state, ns: team, tools: [team_state_get]}]
    budget: {usd: 0.5, time: 10m}
    options: {max_iterations: 0, max_delegation_depth: 2, question_timeout: 90s}
  - name: reader
    provider: far
    max_concurrency: 2
    plugins:
      loop-detect: {powers: [note], params: {threshold: 3}}
      read-files: {files: [{path: docs, as: d}], confirm: true, on_failure: skip}
      redact:
teams:
  - name: desk
    members: [reader, {agent: lead, name: boss, role: judge, description: Decides., retries: 2, on_failure: skip}]
    coordinator: {kind: roles, params: {roles: [reader, judge]}}
    middleware: [{kind: timeout, params: {time: 1h}}, redact]
  - name: led
    members: [desk]
    coordinator: {kind: state_machine, params: {states: [{name: only, members: [desk]}]}}
  - name: talks
    provider: far
    members: [reader, desk]
    coordinator: {kind: hand-off, params: {chats: private}}
context: {max_external_file_size: 1000}
";

#[test]
fn config_check_shows_the_effective_config_with_defaults() {
    let place = Place::new();
    place.file("shelly.yaml", CONFIG);
    place.file("docs/a.txt", "a");
    let ran = place.run(&["config", "check", "--plugins", PLUGIN_ROOT]);
    assert_snapshot!("config_check", ran.shown().replace(PLUGIN_ROOT, "[PLUGINS]"));
    let all = place.run(&["config", "show", "--plugins", PLUGIN_ROOT]);
    let shown = all.shown().replace(PLUGIN_ROOT, "[PLUGINS]");
    // What a machine has differs.
    let (before, rest) = shown.split_once("total_memory_bytes: ").unwrap();
    let (total, after) = rest.split_once('\n').unwrap();
    assert!(total.starts_with(|c: char| c.is_ascii_digit()) && total.contains(" # "), "{total}");
    assert_snapshot!("config_show", format!("{before}total_memory_bytes: [TOTAL]\n{after}"));
    let json = place.run(&["config", "check", "--plugins", PLUGIN_ROOT, "--output", "json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&value["ok"], json.code), (&Value::Bool(true), 0), "{}", json.shown());
    assert_eq!(value["config"]["agents"][0]["delegates_to"], serde_json::json!(["reader", "desk", "led", "talks"]));
    assert_eq!(value["warnings"].as_array().unwrap().len(), json.stderr.matches("warning: ").count());
    assert!(!(ran.shown() + &all.shown() + &json.shown()).contains("never-shown"));
}

const HELD: &str = "credentials: [{name: github, env: GITHUB_TOKEN, for: ['https://h']}]\n";

#[test]
fn http_warnings_are_shown_by_config_check_and_run() {
    let place = Place::new();
    let wants = "kinds = [\"tool\"]\nwants = {http = [\"https://*.example.com\"], credentials = true}";
    place.plugin_bytes("fetch", wants, &Guest::tool().component());
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file(
        "shelly.yaml",
        format!(
            "plugin_dirs: [plugins]\n{}agents:\n  - {{name: a, plugins: {{fetch: {{http: ['https://api.example.com', \
             'https://elsewhere.example'], credentials: [github, plain]}}}}}}\n\
             credentials:\n  - {{name: github, env: GITHUB_TOKEN, for: ['https://api.github.com']}}\n  \
             - {{name: plain, env: GITHUB_TOKEN, for: ['http://api.example.com', 'https://api.example.com']}}\n",
            server.config("api_key: x").split("agents:").next().unwrap(),
        ),
    );
    for (arguments, token, is_there) in [
        (&["config", "check"][..], None, false),
        (&["config", "check"], Some("gh-never-shown"), true),
        (&["run", "hi"], None, false),
        (&["run", "hi"], Some("gh-never-shown"), true),
    ] {
        let mut command = place.command(arguments);
        command.envs(token.map(|token| ("GITHUB_TOKEN", token)));
        let ran = place.ran(command.output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let left_out = "agents.a.plugins.fetch: ignoring the credential `github`: the environment variable \
                        `GITHUB_TOKEN` is not set";
        assert_eq!(ran.stderr.contains(left_out), !is_there, "{arguments:?}: {}", ran.shown());
        for says in [
            "agents.a.plugins.fetch grants `http: [https://elsewhere.example]`, which the plugin does not request",
            "credentials.plain: sent to http://api.example.com unencrypted; write https://",
            "agents.a.plugins.fetch: the credential `github` has no effect, because `http` grants no request to \
             https://api.github.com",
        ] {
            assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
        }
        assert!(!ran.shown().contains("never-shown"), "{}", ran.shown());
    }
}

#[test]
fn config_check_load_reports_plugin_load_errors() {
    let place = Place::new();
    let named = |name: &str| Spec { name: name.into(), ..Spec::default() };
    let guest = |specs: Vec<Spec>| Guest::tool().answer("specs", |image: &mut Image| image.specs(&specs)).component();
    place.plugin_bytes("fine", "kinds = [\"tool\"]", &guest(vec![named("look")]));
    place.plugin_bytes("twice", "kinds = [\"tool\"]", &guest(vec![named("t"), named("t")]));
    let providers = "providers: [{name: o, kind: ollama, model: m}]\nplugin_dirs: [plugins]\n";
    let config = |plugins: &str| format!("{providers}agents:\n  - {{name: a, plugins: {{{plugins}}}}}\n");
    let check = ["config", "check"];
    let load = ["config", "check", "--load", "--trust"];
    for (plugins, arguments, code, says) in [
        ("fine: , twice: ", &check[..], 0, "shelly.yaml: ok\n"),
        ("fine: ", &load, 0, "shelly.yaml: ok\n"),
        ("fine: , twice: ", &load, 2, "two of its tools have the name `t`"),
        ("fine: {files: [{path: nowhere}]}", &load, 0, "which the plugin does not request"),
        // What the file says wrongly is told without loading anything.
        ("twice: {colour: red}", &load, 2, "colour"),
    ] {
        place.file("shelly.yaml", config(plugins));
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.stderr.contains(says)), (code, true), "{plugins} {arguments:?}: {}", ran.shown());
        assert_eq!(ran.stdout.is_empty(), code != 0, "{plugins} {arguments:?}: {}", ran.shown());
    }
    // Nobody is there who could be asked.
    place.file("shelly.yaml", config("twice: "));
    let ran = place.run(&["config", "check", "--load"]);
    assert_eq!((ran.code, ran.stderr.contains("two of its tools")), (2, false), "{}", ran.shown());
    assert!(ran.stderr.contains("--trust"), "{}", ran.shown());
}

#[test]
fn config_check_and_run_report_the_same_first_error() {
    let mut told = String::new();
    let base = "providers: [{name: o, kind: ollama, model: m}]\nagents:\n  - name: a\n";
    for (case, config) in [
        ("no YAML", "agents: [".to_owned()),
        ("unknown key", format!("{base}    colour: red\n")),
        (
            "a budget in dollars without a price",
            base.replace("kind: ollama", "kind: openai, base_url: 'http://127.0.0.1:9/v1', context_window: 8192")
                + "    budget: {usd: 1}\n",
        ),
        ("no such skill", format!("{base}    skills: [fly]\n")),
        ("no such tool", format!("{base}    toolboxes: [{{name: notes, tools: [read_notes]}}]\n")),
        ("no such toolbox", format!("{base}    toolboxes: [mail]\n")),
        ("a namespace that is none", format!("{base}    toolboxes: [{{name: state, ns: A-b}}]\n")),
        ("no such plugin", format!("{base}    plugins: {{count-txt: }}\n")),
        ("no such credential", format!("{base}    plugins: {{count-text: {{credentials: [githb]}}}}\n") + HELD),
        ("no URL", format!("{base}    plugins: {{count-text: {{http: [api.example.com]}}}}\n")),
        ("a credential for everybody", base.to_owned() + &HELD.replace("//h", "//*")),
        ("not granted", format!("{base}    plugins: {{read-files: }}\n")),
        ("no such folder", format!("{base}  - name: b\n    plugins: {{read-files: {{files: [{{path: nowhere}}]}}}}\n")),
        ("no provider", "providers: [{name: o, kind: plugin, plugin: count-text}]\nagents: [{name: a}]\n".into()),
        ("no address", base.replace("model: m", "model: m, base_url: localhost")),
        ("a variable without a name", base.replace("model: m", "model: m, api_key: '${}'")),
    ] {
        let place = Place::new();
        place.file("shelly.yaml", config);
        let check = ["config", "check", "--config", "shelly.yaml", "--plugins", PLUGIN_ROOT];
        let ran = place.run(&check);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{case}\n{}", ran.shown());
        told.push_str(&format!("## {case}\n{}", ran.stderr));
        let agent = if case == "no such folder" { "b" } else { "a" };
        let run = ["run", "hi", "--config", "shelly.yaml", "--plugins", PLUGIN_ROOT];
        // As a run tells it, but for the agent that is named: a run needs but one.
        let run =
            if case == "no YAML" { place.run(&run) } else { place.run(&[&run[..], &["--agent", agent]].concat()) };
        // More may be wrong than a run is told of, and the verdict is the last word.
        assert!(ran.stderr.starts_with(&run.stderr), "{case}\n{}\n{}", ran.shown(), run.shown());
        let counted = |word: &str| {
            let count = ran.stderr.matches(&format!("{word}: ")).count();
            (count > 0).then(|| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
        };
        let counts: Vec<_> = ["error", "warning"].into_iter().filter_map(counted).collect();
        let verdict = format!("shelly.yaml: {}\n", counts.join(", "));
        assert!(ran.stderr.ends_with(&verdict), "{case}\n{}", ran.shown());
        let json = place.run(&[&check[..], &["--output", "json"]].concat());
        let value: Value = serde_json::from_str(&json.stdout).unwrap();
        assert_eq!((&value["ok"], &value["exit_code"], json.code), (&Value::Bool(false), &2.into(), 2), "{case}");
    }
    let place = Place::new();
    for (case, file, text) in [
        ("nothing to check", "other", ""),
        ("prices", ".shelly/local/pricing.yaml", "openai: 3\n"),
        ("permissions", ".shelly/local/permissions.json", "{"),
        ("a skill", ".shelly/skills/s/SKILL.md", "---\nname: [\n---\n"),
    ] {
        place.file(file, text);
        let ran = place.run(&["config", "check"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{case}\n{}", ran.shown());
        told.push_str(&format!("## {case}\n{}", ran.stderr));
        std::fs::remove_file(place.path().join(file)).unwrap();
        place.file(".shelly/config.yaml", "agents: [{name: a}]\n");
    }
    assert_snapshot!("config_check_mistakes", told);
    assert_snapshot!("help_config_check", place.run(&["config", "check", "--help"]).stdout);
}

#[test]
fn agent_left_out_by_a_dollar_budget_is_warned_of() {
    let place = Place::new();
    let config = |model: &str| {
        format!(
            "providers:\n  - {{name: far, kind: openai, model: gpt-5-mini, api_key: k}}\n  - {{name: local, {model}}}\nagents:\n  - \
             {{name: lead, provider: far, budget: {{usd: 1}}, options: {{max_delegation_depth: 1}}, delegable: {{agents: [reader]}}}}\n  \
             - {{name: reader, provider: local}}\n  - {{name: other, provider: local}}\n"
        )
    };
    for (model, is_known) in [
        ("kind: ollama, model: q", true),
        ("kind: ollama, model: q, base_url: 'http://gpu.example/v1', price: {input: 0, output: 0}", true),
        ("kind: ollama, model: q, base_url: 'http://gpu.example/v1'", false),
    ] {
        place.file("c.yaml", config(model));
        let ran = place.run(&["config", "check", "--config", "c.yaml"]);
        let says = "agents.lead: cannot start the agent `reader`: the price of the model q is unknown: agents.lead.budget.usd limits \
                    the cost (set the price, in dollars per million tokens: providers: [{…, price: {";
        assert_eq!((ran.code, ran.stderr.contains(says)), (0, !is_known), "{model}: {}", ran.shown());
        assert!(!ran.stderr.contains("cannot start the agent `other`"), "{}", ran.shown());
    }
}

#[test]
fn config_check_reports_all_errors_in_one_pass() {
    let place = Place::new();
    place.file(
        "c.yaml",
        "providers:
  - {name: o, kind: ollama, model: m, base_url: 'http://gpu.example:11434/v1'}
agents:
  - name: a
    provider: p
    colour: red
    skills: [fly]
    plugins:
      count-txt:
      read-files: {files: [{path: nowhere}]}
    options: {max_delegation_depth: 99}
  - name: b
    toolboxes: [mail, {name: notes, tools: [read_notes]}]
    budget: {usd: 1}
    size: large
programs:
  absent: {command: no-such-program}
",
    );
    let check = ["config", "check", "--config", "c.yaml", "--plugins", PLUGIN_ROOT];
    let ran = place.run(&check);
    assert_eq!((ran.code, &*ran.stdout), (2, ""), "{}", ran.shown());
    let errors = [
        "there is no key `colour` (c.yaml, line 6, column 5)",
        "there is no key `size` (c.yaml, line 15, column 5)",
        "there is no model `p`",
        "agents.a.options.max_delegation_depth: must be at most",
        "there is no toolbox or MCP server `mail`",
        "there is no plugin `count-txt`",
        "grants plugin `read-files` the folder",
        "there is no skill `fly`",
        "the price of the model m is unknown",
        "read_notes",
    ];
    for says in errors {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    assert_eq!(ran.stderr.matches("error: ").count(), errors.len(), "each once: {}", ran.shown());
    let missing = "warning: programs.absent: there is no program `no-such-program` in PATH";
    assert!(ran.stderr.contains(missing), "{}", ran.shown());
    assert!(ran.stderr.ends_with("c.yaml: 10 errors, 1 warning\n"), "{}", ran.shown());
    let json = place.run(&[&check[..], &["--output", "json"]].concat());
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["errors"].as_array().unwrap().len(), errors.len(), "{}", json.shown());
    assert_eq!((&value["error"], &value["exit_code"]), (&value["errors"][0], &2.into()));
    assert_eq!(value["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn missing_program_warning_is_shown_by_config_check_and_run() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("empty.sh", "");
    place.file(
        "shelly.yaml",
        server.config("api_key: x")
            + "programs: {ls: {}, absent: {}, other: {command: no-such-program}, plain: {command: ./empty.sh}}\n",
    );
    for arguments in [&["config", "check"][..], &["run", "hi"]] {
        let mut command = place.command(arguments);
        let ran = place.ran(command.env("PATH", "/usr/bin:/bin").output().unwrap());
        assert_eq!(ran.code, 0, "{}", ran.shown());
        for says in [
            "programs.absent: there is no program `absent` in PATH",
            "programs.other: there is no program `no-such-program`",
            "programs.plain: [DIR]/./empty.sh does not exist or is not an executable file",
        ] {
            assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
        }
        assert!(!ran.stderr.contains("programs.ls"), "{}", ran.shown());
    }
}

#[test]
fn tab_indentation_in_config_is_named() {
    let place = Place::new();
    for text in
        ["agents:\n\t- name: a\n", "agents:\n  - name: a\n\toptions: {}\n", "agents:\n  -\tname: a\n\t  plugins:\n"]
    {
        place.file("shelly.yaml", text);
        let ran = place.run(&["config", "check"]);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        assert!(ran.stderr.contains("indent with spaces"), "{text:?}: {}", ran.shown());
    }
}

/// A pipe would keep everybody waiting for somebody who writes, and a link would have any file read.
#[cfg(unix)]
#[test]
fn pricing_file_must_be_a_regular_project_file() {
    let place = Place::new();
    place.file(".shelly/config.yaml", "providers: [{name: o, kind: openai, model: m}]\nagents: [{name: a}]\n");
    let elsewhere = place.file("elsewhere.yaml", "{}");
    let prices = place.path().join(".shelly/local/pricing.yaml");
    std::fs::create_dir(place.path().join(".shelly/local")).unwrap();
    let refused = |says: &str| {
        for command in [&["config", "check"][..], &["run", "hi"]] {
            let ran = place.run(command);
            assert_eq!(ran.code, 2, "{}", ran.shown());
            for says in ["cannot read ", ".shelly/local/pricing.yaml", says, "to use list prices"] {
                assert!(ran.stderr.contains(says), "{says}\n{}", ran.shown());
            }
        }
        std::fs::remove_file(&prices).unwrap();
    };
    assert!(std::process::Command::new("mkfifo").arg(&prices).status().unwrap().success());
    refused("expected a file, found a pipe");
    std::os::unix::fs::symlink(elsewhere, &prices).unwrap();
    refused("the link leads out of ");
    std::fs::write(&prices, " ".repeat(shelly_host::limits::PRICE_LIST_BYTES + 1)).unwrap();
    refused("larger than 1048576 bytes");
    assert_eq!(place.run(&["config", "check"]).code, 0);
}

#[test]
fn config_check_warns_of_ineffective_ceilings() {
    let place = Place::new();
    place.file("docs/a.txt", "a");
    place.file(
        "c.yaml",
        "agents:\n  - name: a\n    use: {files: [{path: docs}, {path: nowhere}]}\n    delegable: {grant: {files: [{path: docs/a.txt}]}}\n  \
         - {name: b, options: {max_delegation_depth: 1}, delegable: {agents: [a]}}\n",
    );
    let ran = place.run(&["config", "check", "--config", "c.yaml"]);
    for says in [
        "agents.a.use.files: the folder nowhere does not exist",
        "agents.a.delegable.grant.files: the folder docs/a.txt does not exist",
        "agents.a.delegable: has no effect, because the agent starts no other agents",
    ] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    assert!(!ran.stderr.contains("agents.b") && !ran.stderr.contains("folder docs\n"), "{}", ran.shown());
}

/// The templates of `init`, each with a tool that its agent or a member of its team has.
const TEMPLATES: [(&str, &str); 6] = [
    ("assistant", "exec_run"),
    ("coder", "fs_edit"),
    ("team", "git_diff"),
    ("reviewer", "git_diff"),
    ("researcher", "http_fetch"),
    ("project-indexer", "fs_write"),
];

#[test]
fn every_init_template_passes_config_check_and_runs() {
    for (template, tool) in TEMPLATES {
        let place = Place::untrusted();
        place.file("docs/bird.txt", "tweet tweet\n");
        assert_eq!(place.run(&["init", "--template", template]).code, 0);
        let ran = place.run(&["config", "check"]);
        let told = "config .shelly/config.yaml\n.shelly/config.yaml: trusted\n.shelly/config.yaml: ok\n";
        assert_eq!((ran.code, ran.stderr.as_str()), (0, told), "{template}: {}", ran.shown());
        // Without a key and without anybody to ask: what it reads needs no consent.
        let run = ["run", "What does docs/bird.txt say?", "--model", "offline-model", "--output", "json"];
        let ran = place.run(&run);
        assert_eq!(ran.code, 0, "{template}: {}", ran.shown());
        assert!(ran.stdout.contains("tweet tweet"), "{template}: {}", ran.shown());
        // Each member of a team is given its part of the task.
        for step in ["1: planner", "2: coder", "3: reviewer", "4: coder", "5: reviewer", "6: planner"] {
            assert!(template != "team" || ran.stderr.contains(&format!("step {step}\n")), "{step}: {}", ran.shown());
        }
        let counted = place.run(&["run", "How many words are in docs/bird.txt?", "--model", "offline-model"]);
        assert!(counted.stdout.contains("docs/bird.txt has 2 words."), "{template}: {}", counted.shown());
        assert!(!ran.stderr.contains("warning"), "{template}: {}", ran.shown());
        let tools = place.run(&["config", "check", "--load", "--output", "json"]);
        assert_eq!(tools.code, 0, "{template}: {}", tools.shown());
        // The stand-in says which tools it has.
        let ran = place.run(&["run", "Hum.", "--model", "offline-model"]);
        assert!(ran.code == 0 && ran.stdout.contains(tool), "{template}, {tool}: {}", ran.shown());
    }
}

/// The lines of a template that a person is told to take the `#` from do what they say.
#[test]
fn commented_lines_of_init_templates_are_valid() {
    for (template, _) in TEMPLATES {
        let place = Place::new();
        assert_eq!(place.run(&["init", "--template", template]).code, 0);
        let path = place.path().join(".shelly/config.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        // Comments within an agent show what to write elsewhere.
        let uncommented = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(rest) if is_yaml(rest) => rest.to_owned(),
            _ => line.to_owned(),
        });
        let text = uncommented.collect::<Vec<_>>().join("\n");
        assert!(text.contains("\nproviders:") && text.contains("\ncontext:") && text.contains("\nsessions:"), "{text}");
        place.file(".shelly/config.yaml", text);
        let ran = place.run(&["config", "check"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let (warnings, names) = ran.stderr.split_once("not trusted yet; a run asks you first:\n").unwrap();
        let is_expected = |line: &str| {
            line.starts_with("warning: the environment variable ANTHROPIC_API_KEY is not set")
                || line.starts_with("warning: the environment variable OPENAI_API_KEY is not set")
        };
        assert!(warnings.lines().skip(1).all(is_expected), "{}", ran.shown());
        assert!(names.contains("  the model `"), "{}", ran.shown());
    }
}

/// Returns `true` if a comment is a part of the config: `key:`, `- name: …`, and the lines below such.
fn is_yaml(comment: &str) -> bool {
    let line = comment.trim_start().trim_start_matches("- ");
    let key = line.split(':').next().unwrap_or_default();
    line.contains(':') && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || b"_-".contains(&byte))
}
