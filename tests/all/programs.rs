//! Programs that agents and plugins run, from the config to the text that a model reads.

use std::{collections::BTreeSet, fs, path::Path, process::Command, sync::Arc, time::Duration};

use serde_json::{Value, json};
use shelly_host::{
    capability::Grant,
    chat::ToolCall,
    event::RunCx,
    limits,
    plugin::{Plugin, PluginEngine, PluginPackage, PluginSettings, PluginTool},
    process::{AllowedProgram, AllowedPrograms, ArgsPattern, ExecContext, ProgramFinder},
    tool::{ToolBox, ToolCx},
};

use crate::{
    bad_input::Server,
    support::{Place, Ran},
    wiring::scripted,
};

/// A config with a scripted model.
fn config(place: &Place, model: &Server, rest: &str) {
    let url = format!("http://127.0.0.1:{}/v1", model.port);
    place.file(
        "shelly.yaml",
        format!("providers: [{{name: m, kind: openai, base_url: '{url}', model: m, price: {{input: 1, output: 1}}}}]\n{rest}\n"),
    );
}

fn run(place: &Place, more: &[&str]) -> Ran {
    let plugins = ["--plugins", crate::GUEST_ROOT];
    let mut command = place.command(&[&["run", "go", "--output", "events"], more, &plugins].concat());
    command.env("PATH", "/usr/bin:/bin").env("HOME", place.path()).env("TOKEN", "sk-0123456789").env("GIVEN", "yes");
    let ran = place.ran(command.output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

/// Returns the result of the last call that the model received.
fn result(model: &Server) -> String {
    let asked = model.asked.lock().unwrap();
    let last = asked.last().unwrap().split_once("\r\n\r\n").unwrap().1;
    let request: Value = serde_json::from_str(last).unwrap();
    let messages = request["messages"].as_array().unwrap();
    let result = messages.iter().rev().find(|message| message["role"] == "tool").unwrap_or_else(|| panic!("{request}"));
    result["content"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

/// Returns the result of this call of an agent with these config keys.
fn told(place: &Place, rest: &str, call: (&'static str, &'static str), more: &[&str]) -> String {
    let model = scripted(&[call]);
    config(place, &model, rest);
    run(place, more);
    result(&model).replace(&place.path().display().to_string(), "[DIR]")
}

#[test]
fn exec_runs_configured_programs_as_declared() {
    let place = Place::new();
    fs::create_dir(place.path().join("sub")).unwrap();
    let rest = "programs: {env: {args: [[]], cwd: sub, env: {OWN: 'a b'}, inherit_env: [GIVEN, NOT_SET]},\n\
                \x20 where: {command: pwd, cwd: sub}, slow: {command: sleep, args: [['*']], timeout: 300ms}, other: {command: id}}\n\
                agents: [{name: ada, toolboxes: [{name: exec, programs: [env, where, slow]}]}]";
    for (arguments, says) in [
        (r#"{"command": "env"}"#, "GIVEN=yes\nOWN=a b"),
        (r#"{"command": "where"}"#, "[DIR]/sub"),
        (
            r#"{"command": "env", "args": ["-i"]}"#,
            "Error: `env` is not allowed with the arguments `-i`; allowed arguments: []",
        ),
        (r#"{"command": "slow", "args": ["100"]}"#, "Error: [killed after 0.3 seconds]"),
        (r#"{"command": "slow", "args": ["100"], "timeout": 60}"#, "Error: [killed after 0.3 seconds]"),
        (r#"{"command": "other"}"#, "Error: program `other` is not allowed; allowed programs: env, slow, where"),
        (
            r#"{"command": "where", "cwd": ".."}"#,
            "Error: the folder `..` is outside the working folder; use a folder below it",
        ),
    ] {
        assert_eq!(told(&place, rest, ("exec_run", arguments), &[]), says, "{arguments}");
    }
}

#[test]
fn exec_refuses_options_that_write_or_run() {
    let place = Place::new();
    place.git(&place.path(), &["init", "--quiet"]);
    place.git(&place.path(), &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "--message=x"]);
    let out = place.path().join("out");
    let rest = "programs: {git: {args: [[log, '-*'], [show, '**'], [diff, '--output=own']], inherit_env: [PATH]}}\n\
                agents: [{name: ada, toolboxes: [{name: exec, programs: [git]}]}]";
    let run = |args: &[&str]| {
        let arguments = json!({"command": "git", "args": args}).to_string();
        told(&place, rest, ("exec_run", &*arguments.leak()), &[])
    };
    assert_eq!(run(&["log", "--format=%s"]), "x");
    let outside = format!("--output={}", out.display());
    for args in
        [&["log", &outside][..], &["show", "--output", "out"], &["show", "HEAD", "--ext-diff"], &["show", "--outp=out"]]
    {
        let said = run(args);
        assert!(said.contains("that argument writes a file, runs a program or leads elsewhere"), "{args:?}: {said}");
    }
    assert!(!out.exists());
    run(&["diff", "--output=own"]);
    assert!(place.path().join("own").exists(), "a config entry that spells out it");
}

#[test]
fn exec_runs_any_program_with_consent() {
    let place = Place::new();
    let rest = "agents: [{name: ada, toolboxes: [exec]}]";
    let call = ("exec_run", r#"{"command": "printenv"}"#);
    assert!(told(&place, rest, call, &[]).contains("needs a person's consent, and no person can be asked"));
    let environment = told(&place, rest, call, &["--approve", "all"]);
    let names: BTreeSet<_> = environment.lines().collect();
    assert_eq!(names, BTreeSet::from(["PATH=/usr/bin:/bin", "HOME=[DIR]"]), "no credential of ours");
    // What was trusted here is: by a person who answers at the terminal it is kept so.
    assert!(told(&place, rest, call, &["--approve", "granted"]).contains("needs a person's consent"));
    place.file(".shelly/local/permissions.json", r#"{"trusted_commands": ["printenv"]}"#);
    let again = told(&place, rest, call, &["--approve", "granted"]);
    assert_eq!(again.lines().collect::<BTreeSet<_>>(), names);
    assert!(told(&place, rest, ("exec_run", r#"{"command": "id"}"#), &["--approve", "granted"]).contains("consent"));
}

#[test]
fn git_runs_in_the_configured_folder() {
    let place = Place::new();
    for folder in ["", "sub"] {
        let made = Command::new("git")
            .args(["init", "--quiet", &format!("--initial-branch=of-{folder}")])
            .current_dir(place.path().join(folder))
            .env("HOME", place.path())
            .status();
        assert!(made.expect("this test needs the program git").success());
        fs::create_dir_all(place.path().join("sub")).unwrap();
    }
    for (git, says) in [("git: {}", "of-"), ("git: {work_dir: ''}", "of-"), ("git: {work_dir: sub}", "of-sub")] {
        let rest = format!("{git}\nagents: [{{name: ada, toolboxes: [git]}}]");
        let status = told(&place, &rest, ("git_status", "{}"), &["--approve", "all"]);
        assert!(status.lines().next().unwrap().ends_with(&format!("branch {says}")), "{git}: {status}");
        assert!(told(&place, &rest, ("git_status", "{}"), &[]).contains("needs a person's consent"));
    }
}

/// A tree as real ones are: all that git says of it, as far as a model is shown it at once.
#[test]
fn git_tools_work_in_a_real_tree() {
    let place = Place::new();
    let tree = place.real_tree("sub");
    place.git(&tree, &["config", "user.name", "Ada"]);
    place.git(&tree, &["config", "user.email", "ada@example.com"]);
    place.git(&tree, &["add", "."]);
    let rest = "git: {work_dir: sub}\nagents: [{name: ada, toolboxes: [git]}]";
    let told = |tool, arguments| told(&place, rest, (tool, arguments), &["--approve", "all"]);
    let plain = place.git(&tree, &["-c", "core.quotePath=false", "status", "--short", "--branch"]);
    assert!(plain.chars().count() > limits::TOOL_RESULT_CHARS, "it is more than is shown at once");
    let status = told("git_status", r#"{"short": true}"#);
    let shown: String = plain.chars().take(limits::TOOL_RESULT_CHARS).collect();
    let rest = status.strip_prefix(&*shown).unwrap_or_else(|| panic!("{status:.300}"));
    assert!(rest.contains("more characters: call read_result with"), "{rest}");
    let committed = told("git_commit", r#"{"message": "All of it"}"#);
    assert!(committed.contains("files changed"), "{committed:.300}");
    assert_eq!(place.git(&tree, &["status", "--short"]), "");
    place.file("sub/wit/types.wit", "// é\r\n");
    assert_eq!(told("git_status", r#"{"short": true}"#), "## main\n M wit/types.wit");
    let diff = told("git_diff", r#"{"path": "wit"}"#);
    assert_eq!(diff.trim_end(), place.git(&tree, &["diff", "wit"]).trim_end());
    assert_eq!(told("git_log", "{}").lines().count(), 1);
}

#[test]
fn ceiling_bounds_programs() {
    let place = Place::new();
    let offered =
        |model: &Server, at: usize, name: &str| model.asked.lock().unwrap()[at].contains(&format!("\"{name}\""));
    let toolboxes =
        [("exec", "exec_run", "'*'"), ("git", "git_status", "git"), ("{name: exec, programs: [a]}", "exec_run", "a")];
    for (toolbox, tool, program) in toolboxes {
        for (agent, is_there) in [
            (String::new(), true),
            (format!(", use: {{programs: [{program}]}}"), true),
            (", use: {programs: ['*']}".into(), true),
            (", use: {programs: [b]}".into(), false),
            (", use: {clock: true}".into(), false),
        ] {
            let model = scripted(&[]);
            config(
                &place,
                &model,
                &format!("programs: {{a: {{}}, b: {{}}}}\nagents: [{{name: ada, toolboxes: [{toolbox}]{agent}}}]"),
            );
            let ran = run(&place, &[]);
            assert_eq!(offered(&model, 0, tool), is_there, "{toolbox} {agent}: {}", ran.shown());
            let grant = format!("grant `programs: [{program}]` under agents.ada.use");
            assert_eq!(ran.stdout.contains(&grant), !is_there, "{toolbox} {agent}: {}", ran.shown());
        }
        // So is it for one that another one starts.
        for (grant, is_there) in [
            (format!("{{programs: [{program}]}}"), true),
            ("{clock: true}".into(), false),
            ("{programs: [b]}".into(), false),
        ] {
            let task = r#"{"tasks": [{"agent": "bob", "task": "t", "context": "c"}]}"#;
            let model = scripted(&[("delegate", task)]);
            let rest = format!(
                "programs: {{a: {{}}, b: {{}}}}\nagents: [{{name: ada, options: {{max_delegation_depth: 1}}, delegable: {{grant: {grant}}}}}, \
                 {{name: bob, toolboxes: [{toolbox}]}}]"
            );
            config(&place, &model, &rest);
            let ran = run(&place, &[]);
            assert_eq!(offered(&model, 1, tool), is_there, "{toolbox} {grant}: {}", ran.shown());
        }
    }
    // Of several what is allowed is left.
    let rest = "programs: {a: {command: pwd}, b: {command: pwd}}\n\
                agents: [{name: ada, toolboxes: [{name: exec, programs: [a, b]}], use: {programs: [b]}}]";
    assert_eq!(told(&place, rest, ("exec_run", r#"{"command": "b"}"#), &[]), "[DIR]");
    let refused = told(&place, rest, ("exec_run", r#"{"command": "a"}"#), &[]);
    assert_eq!(refused, "Error: program `a` is not allowed; allowed programs: b");
}

#[test]
fn untrusted_project_runs_no_program() {
    let place = Place::untrusted();
    let model = scripted(&[("exec_run", r#"{"command": "touch"}"#)]);
    config(
        &place,
        &model,
        "programs: {touch: {args: [[]], env: {A: b}}}\nagents: [{name: ada, toolboxes: [{name: exec, programs: [touch]}, git]}]",
    );
    let mut command = place.command(&["run", "go"]);
    let ran = place.ran(command.env("PATH", "/usr/bin:/bin").output().unwrap());
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.stderr.contains("the agent `ada` may run the program `touch` without asking you"), "{}", ran.shown());
    assert!(model.asked.lock().unwrap().is_empty());
}

/// The tools of a guest to which these programs are granted, among those that there are.
async fn guest(granted: &[&str]) -> Result<ToolBox, String> {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let engine = Arc::new(PluginEngine::new(Some(cache)).unwrap());
    let pattern = |words: &[&str]| ArgsPattern::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    let entry = |command: &str, args: &[&str]| AllowedProgram {
        command: command.into(),
        args: vec![pattern(args).unwrap()],
        folder: "/".into(),
        environment: vec![],
        time: Duration::from_secs(30),
    };
    let entries = [
        ("sh".to_owned(), entry("sh", &["-c", "*"])),
        ("env".to_owned(), entry("env", &[])),
        ("other".to_owned(), entry("env", &[])),
    ];
    let ground =
        ExecContext { finder: ProgramFinder::new("/usr/bin:/bin"), root: "/".into(), ..ExecContext::default() };
    let package = PluginPackage::read(&Path::new(crate::GUEST_ROOT).join("probe-process")).unwrap();
    let settings = PluginSettings {
        grant: Grant { programs: granted.iter().map(|name| (*name).to_owned()).collect(), ..Grant::default() },
        programs: AllowedPrograms::new(ground, entries),
        ..PluginSettings::new("ada", "agents.ada.plugins.probe-process")
    };
    let plugin =
        Plugin::load(&engine, &Arc::new(package), &settings).await.map_err(|error| error.report().with_hint())?;
    let mut tools = ToolBox::new();
    PluginTool::all(&Arc::new(plugin)).for_each(|tool| tools.register(tool).unwrap());
    Ok(tools)
}

async fn call(tools: &ToolBox, arguments: Value) -> String {
    let cx = ToolCx::new(RunCx::new("ada"));
    let call = ToolCall { id: "c".into(), name: "run_program".into(), arguments: arguments.to_string(), meta: vec![] };
    tools.dispatch(&cx, &call).await.result.text()
}

#[tokio::test]
async fn guest_runs_only_granted_programs() {
    let tools = guest(&["sh", "env"]).await.unwrap();
    let most = limits::PROCESS_OUTPUT_BYTES;
    let flood = format!("head -c {} /dev/zero; echo x >&2", 2 * most);
    for (arguments, says) in [
        (
            json!({"program": "sh", "args": ["-c", "echo out; echo err >&2; exit 3"]}),
            "status Some(3), cut false\nout\nerr\n",
        ),
        (
            json!({"program": "sh", "args": ["-c", "cat; pwd"], "stdin": "told\n"}),
            "status Some(0), cut false\ntold\n/\n",
        ),
        (json!({"program": "sh", "args": ["-c", "kill -9 $$"]}), "status None, cut false\n"),
        (json!({"program": "sh", "args": ["-c", flood]}), "status Some(0), cut true\n1048576 bytesx\n"),
        (json!({"program": "env"}), "status Some(0), cut false\n"),
        (json!({"program": "sh", "args": ["-c", "sleep 100"], "timeout_ms": 200}), "`sh` took longer than 0.2 seconds"),
        (
            json!({"program": "sh", "args": ["script"]}),
            "`sh` is not allowed with the arguments `script`; allowed arguments: [\"-c\", \"*\"]",
        ),
        (json!({"program": "other"}), "program `other` is not allowed; allowed programs: env, sh"),
        (
            json!({"program": "/bin/sh", "args": ["-c", "x"]}),
            "program `/bin/sh` is not allowed; allowed programs: env, sh",
        ),
    ] {
        assert_eq!(call(&tools, arguments.clone()).await, says, "{arguments}");
    }
    let refused = guest(&[]).await.err().unwrap();
    assert!(refused.contains("`programs: [PROGRAM]`"), "{refused}");
}

#[tokio::test]
async fn cancelled_call_kills_its_program() {
    let tools = guest(&["sh"]).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (began, ended) = (folder.path().join("began"), folder.path().join("ended"));
    let script = format!("touch {}; sleep 0.5; touch {}", began.display(), ended.display());
    let mut calling = Box::pin(call(&tools, json!({"program": "sh", "args": ["-c", script]})));
    while !began.exists() {
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut calling).await.is_err());
    }
    drop(calling);
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert!(!ended.exists());
}

#[test]
fn configured_plugin_runs_only_granted_programs() {
    let place = Place::new();
    let call = ("run_program", r#"{"program": "where"}"#);
    let of = |grant: &str| {
        format!(
            "programs: {{where: {{command: pwd}}, other: {{command: pwd}}}}\nagents: [{{name: ada, plugins: {{probe-process: {{{grant}}}}}}}]"
        )
    };
    assert_eq!(told(&place, &of("programs: [where]"), call, &[]), "status Some(0), cut false\n[DIR]\n");
    assert_eq!(
        told(&place, &of("programs: [other]"), call, &[]),
        "Error: program `where` is not allowed; allowed programs: other"
    );
}
