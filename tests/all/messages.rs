//! Messages without which a user would not know how to go on.

use std::{
    fs,
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    GUEST_ROOT, PLUGIN_ROOT,
    bad_input::{FOUR, HOLLOW, Server, answer},
    support::{Place, Ran},
};

const OFFLINE: &str = "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n";
const TASK: &str = "How many words are in \"one two three\"?";

/// Asserts that the run ended with this exit code and wrote all of these texts to standard error.
fn says(ran: &Ran, code: i32, says: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.shown());
    for says in says {
        assert!(ran.stderr.contains(says), "{says}\n{}", ran.shown());
    }
}

#[test]
fn agent_that_may_start_nobody_is_warned_of() {
    let place = Place::new();
    for (named, is_told) in [("[]", true), ("[a]", true), ("[a, a]", true), ("[a, b]", false), ("[b]", false)] {
        place.file(
            "c.yaml",
            format!(
                "agents:\n  - {{name: a, options: {{max_delegation_depth: 1}}, delegable: {{agents: {named}}}}}\n  \
                 - name: b\n"
            ),
        );
        let ran = place.run(&["config", "check", "--config", "c.yaml"]);
        says(&ran, 0, &[]);
        let says = "agents.a.delegable.agents: names no other agent, so none can be started; name agents";
        assert_eq!(ran.stderr.contains(says), is_told, "{named}: {}", ran.shown());
    }
}

#[test]
fn limit_error_names_its_config_key_and_remedy() {
    let place = Place::new();
    let provider = |limits: &str| {
        format!("providers:\n  - {{name: offline, kind: plugin, plugin: offline-model, limits: {limits}}}\n")
    };
    let agent =
        |limits: &str| format!("{OFFLINE}agents:\n  - {{name: a, plugins: {{count-text: {{limits: {limits}}}}}}}\n");
    let mend = "raise the exceeded limit under `limits` of the model (providers.offline in the config)";
    for (config, code, told) in [
        // As other mistakes, with its line.
        (agent("{time: 2h}"), 2, &["`time` cannot be used (c.yaml, line 3, column ", "must be at most 1h"][..]),
        (provider("{memory_bytes: 0}"), 2, &["`memory_bytes` cannot be used (c.yaml, line 2, ", "must be at least 1"]),
        (
            agent("{state_bytes: -1}"),
            2,
            &["`state_bytes` is not a whole number (c.yaml, line 3, ", "only digits, without a sign"],
        ),
        // When it is reached.
        (
            provider("{input_bytes: 100}"),
            4,
            &[
                "(limit `input_bytes`); raise it with `limits: {input_bytes: …}` under providers.offline in",
                "up to 1073741824",
                mend,
            ],
        ),
        (
            provider("{memory_bytes: 65536}"),
            3,
            &["`limits: {memory_bytes: …}` under providers.offline in the config, up to 1073741824"],
        ),
        (
            agent("{memory_bytes: 65536}"),
            3,
            &["`limits: {memory_bytes: …}` under agents.a.plugins.count-text in the config"],
        ),
    ] {
        place.file("c.yaml", &config);
        let ran = place.run(&["run", "--config", "c.yaml", "--plugins", PLUGIN_ROOT, TASK]);
        says(&ran, code, told);
        assert!(!ran.stderr.contains("vendor") && ran.stderr.contains("hint:"), "{config}{}", ran.shown());
    }
}

#[test]
fn messages_name_the_config_in_use() {
    // A model server of whoever runs the tests would be found.
    if [11434, 8080, 8000, 1234].into_iter().any(|port| TcpStream::connect(("127.0.0.1", port)).is_ok()) {
        return;
    }
    let place = Place::new();
    for (file, arguments) in [
        ("shelly.yaml", &["run", "hi"][..]),
        (".shelly/config.yaml", &["run", "hi"]),
        ("other.yaml", &["run", "hi", "--config", "other.yaml"]),
    ] {
        place.file(file, "agents: [{name: a}]\n");
        says(&place.run(arguments), 2, &[&format!("or name a model under `providers` in {file}\n")]);
    }
}

#[test]
fn init_warns_of_a_shadowed_config() {
    let place = Place::new();
    place.file("shelly.yaml", OFFLINE);
    let warning = "warning: shelly.yaml is not used any more, since .shelly/config.yaml comes first: move what you \
                   need of it there, or name it with --config shelly.yaml\n";
    says(&place.run(&["init"]), 0, &[warning]);
    assert!(!place.run(&["init", "--list-templates"]).stderr.contains("warning"));
    says(&place.run(&["init"]), 2, &["nothing was written"]);
    fs::remove_file(place.path().join("shelly.yaml")).unwrap();
    assert!(!place.run(&["init", "--force"]).stderr.contains("warning"));
}

#[cfg(unix)]
#[test]
fn config_link_leaving_the_folder_is_not_used() {
    let (place, elsewhere) = (Place::untrusted(), Place::untrusted());
    elsewhere.file("secrets.yaml", "token: very-secret\n");
    elsewhere.file("fine.yaml", OFFLINE);
    for (path, target) in [("shelly.yaml", "secrets.yaml"), (".shelly/config.yaml", "fine.yaml")] {
        fs::create_dir_all(place.path().join(".shelly")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path().join(target), place.path().join(path)).unwrap();
        let note = format!("the config {path} is a link out of this folder and was not used: --config {path}\n");
        let ran = place.run(&["config", "check"]);
        says(&ran, 2, &[&note, "no config to check"]);
        assert!(!ran.shown().contains("very-secret") && !ran.shown().contains("token"), "{}", ran.shown());
        says(&place.run(&["plugin", "list", "--plugins", PLUGIN_ROOT]), 0, &[&note]);
        fs::remove_file(place.path().join(path)).unwrap();
    }
    // Within the folder it is one's own to link.
    place.file("other.yaml", OFFLINE);
    std::os::unix::fs::symlink("other.yaml", place.path().join("shelly.yaml")).unwrap();
    assert!(!place.run(&["config", "check"]).stderr.contains("not used"));
}

#[test]
fn config_of_a_parent_folder_is_named_but_not_used() {
    let place = Place::untrusted();
    fs::create_dir_all(place.path().join("a/b")).unwrap();
    let run = |arguments: &[&str]| {
        place.ran(place.command(arguments).current_dir(place.path().join("a/b")).output().unwrap())
    };
    for (file, above) in [("shelly.yaml", "../../shelly.yaml"), (".shelly/config.yaml", "../../.shelly/config.yaml")] {
        place.file(file, OFFLINE);
        let note = format!("the config {above} is not of this folder and was not used: --config {above}\n");
        says(&run(&["config", "check"]), 2, &[&note, "no config to check"]);
        says(&run(&["plugin", "list", "--plugins", PLUGIN_ROOT]), 0, &[&note]);
        let ran = run(&["plugin", "list", "--plugins", PLUGIN_ROOT, "--config", above]);
        assert!(ran.code == 0 && !ran.stderr.contains("not used"), "{}", ran.shown());
    }
}

#[test]
fn explicitly_named_config_needs_no_consent() {
    let place = Place::untrusted();
    place.file("c.yaml", OFFLINE);
    let ran = place.run(&["config", "trust", "--config", "c.yaml", "--plugins", PLUGIN_ROOT]);
    says(&ran, 0, &[]);
    assert!(ran.stdout.starts_with("c.yaml needs no consent because you named it"), "{}", ran.shown());
}

#[test]
fn trust_prompt_omits_unused_grants() {
    let place = Place::untrusted();
    place.file("docs/a.txt", "a");
    let config = |ceiling: &str| {
        format!(
            "{OFFLINE}agents: [{{name: a, {ceiling} plugins: {{read-files: {{files: [{{path: docs, mode: write}}]}}}}}}]\n"
        )
    };
    let check = |ceiling: &str| {
        place.file("shelly.yaml", config(ceiling));
        place.run(&["config", "check", "--plugins", PLUGIN_ROOT])
    };
    says(&check(""), 0, &["    the plugin `read-files`, for the agent `a`\n", "may read and change `[DIR]/docs`"]);
    says(
        &check("use: {files: [{path: .}]},"),
        0,
        &["    the plugin `read-files`, for the agent `a`\n", "may read `[DIR]/docs`"],
    );
}

#[test]
fn fork_hint_keeps_the_named_config() {
    let place = Place::new();
    place.file("c.yaml", format!("{OFFLINE}agents: [{{name: a}}]\n"));
    let run = ["run", "--config", "c.yaml", "--plugins", PLUGIN_ROOT, "--session", "one", TASK];
    says(&place.run(&run), 0, &[]);
    let ran = place.run(&["session", "fork", "one", "--config", "c.yaml"]);
    says(&ran, 0, &[&format!("resume with: shelly-host session resume {} --config c.yaml\n", ran.stdout.trim())]);
}

#[test]
fn unknown_price_is_not_shown_as_free() {
    let place = Place::new();
    let config = |price: &str| OFFLINE.replace("plugin: offline-model", &format!("plugin: offline-model{price}"));
    for (price, is_known) in [("", false), (", price: {input: 1, output: 2}", true)] {
        place.file("c.yaml", config(price));
        let ran = place.run(&[
            "run",
            "--config",
            "c.yaml",
            "--plugins",
            PLUGIN_ROOT,
            "--output",
            "json",
            "--session",
            "one",
            TASK,
        ]);
        says(&ran, 0, &[]);
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        for usd in [&result["spent"]["usd"], &result["agents"][0]["usd"]] {
            assert!(if is_known { usd.as_f64() > Some(0.0) } else { *usd == Value::Null }, "{}", ran.shown());
        }
        let shown = place.run(&["session", "show", "one", "--config", "c.yaml"]);
        assert_eq!(shown.stdout.contains("unknown"), !is_known, "{}", shown.shown());
        let exported = place.run(&["session", "export", "one", "--config", "c.yaml", "--format", "json"]);
        let exported: Value = serde_json::from_str(&exported.stdout).unwrap();
        assert_eq!(exported["runs"][0]["usd"].is_null(), !is_known, "{exported}");
        let rm = place.run(&["session", "rm", "one", "--config", "c.yaml"]);
        says(&rm, 0, &[]);
    }
}

#[test]
fn implied_imports_of_a_kind_are_no_capability() {
    let place = Place::new();
    place.file("c.yaml", "agents: [{name: a, plugins: {loop-detect: {powers: [note]}}}]\n");
    let ran = place.run(&["plugin", "certify", "loop-detect", "--config", "c.yaml", "--plugins", PLUGIN_ROOT]);
    let certificate: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(certificate["grant"]["chat"], false);
    let imports = certificate["imports"].as_array().unwrap();
    let chat = imports.iter().find(|import| import["name"].as_str().unwrap().starts_with("shelly:plugin/chat@"));
    let name = &chat.unwrap()["name"];
    assert_eq!(chat.unwrap(), &json!({"name": name, "state": "satisfied"}), "it has it because it is an effect");
    let help = place.run(&["plugin", "certify", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("`powerless`: gives access to nothing"), "{help}");
}

#[test]
fn invalid_attack_verdict_error_lists_valid_ones() {
    let place = Place::new();
    place.file("suite/x/attack.toml", "tries = \"nothing\"\nkind = \"tool\"\nexpect = \"helt\"\n");
    place.file("suite/x/guest.wat", "");
    let told = [
        "cannot read the attack suite/x",
        "expect: there is no verdict `helt`; available: refused, timed-out, limited, trapped, held",
    ];
    says(&place.run(&["conformance", "--suite", "suite"]), 2, &told);
    let ran = place.run(&["conformance", "--export", "none/suite"]);
    says(&ran, 2, &["cannot write the suite to none/suite", "the parent folder does not exist"]);
}

/// Sends a signal.
fn send(child: &Child, signal: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
    assert!(status.success());
}

/// Waits until that is so; it is given up after a time.
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[cfg(unix)]
fn interrupted_conformance_suite_leaves_no_folders() {
    let place = Place::new();
    let folder = place.path().join("temporary");
    fs::create_dir(&folder).unwrap();
    let count = || fs::read_dir(&folder).unwrap().count();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut command = place.command(&["conformance"]);
        let child = command.env("TMPDIR", &folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // One for the runs as they should be, and some for attacks.
        wait_for("no attack is played", || count() > 2);
        send(&child, signal);
        let ran = place.ran(child.wait_with_output().unwrap());
        says(&ran, code, &["cancelled\n"]);
        assert_eq!((ran.stdout.as_str(), count()), ("", 0), "{}", ran.shown());
    }
}

/// Plugins that take long to read: each as large as a component may be, with a custom section without blocks on the disk.
#[cfg(target_os = "linux")]
fn large_plugins(place: &Place) {
    let component = wat::parse_str(HOLLOW).unwrap();
    // The section's number and its size, which is written in five bytes.
    let padding = u32::try_from(shelly_host::limits::COMPONENT_BYTES).unwrap() - component.len() as u32 - 6;
    let size = [0, 7, 14, 21, 28].map(|shift| (padding >> shift) as u8 & 0x7f | if shift < 28 { 0x80 } else { 0 });
    let start = [&component[..], &[0], &size, &[1, b'x']].concat();
    for n in 0..200 {
        let path = place.file(&format!("large/p{n}.wasm"), &start);
        fs::File::options().write(true).open(path).unwrap().set_len(shelly_host::limits::COMPONENT_BYTES).unwrap();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn signal_during_plugin_scan_ends_the_command() {
    let place = Place::new();
    large_plugins(&place);
    let uses: Vec<_> = (0..200).map(|n| format!("p{n}: ")).collect();
    place.file("c.yaml", format!("{OFFLINE}agents: [{{name: a, plugins: {{{}}}}}]\n", uses.join(", ")));
    for arguments in [
        &["plugin", "list"][..],
        &["config", "check", "--config", "c.yaml"],
        &["run", "--config", "c.yaml", "--output", "json", "hi"],
        &["mcp"],
    ] {
        for (signal, code) in [("INT", 130), ("TERM", 143)] {
            let mut command = place.command(&[arguments, &["--plugins", "large"]].concat());
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = command.spawn().unwrap();
            let read = || {
                let said = fs::read_to_string(format!("/proc/{}/io", child.id())).unwrap_or_default();
                let read = said.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap_or_default();
                read.parse::<u64>().unwrap_or_default()
            };
            wait_for("no plugin is read", || read() > 2 * shelly_host::limits::COMPONENT_BYTES);
            send(&child, signal);
            let ran = place.ran(child.wait_with_output().unwrap());
            says(&ran, code, &["cancelled\n"]);
            if arguments.contains(&"json") {
                let result: Value = serde_json::from_str(&ran.stdout).unwrap();
                assert_eq!((&result["error"]["kind"], &result["exit_code"]), (&json!("cancelled"), &json!(code)));
            } else {
                assert_eq!(ran.stdout, "", "{}", ran.shown());
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn config_that_is_not_a_regular_file_is_refused() {
    let place = Place::new();
    assert!(Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap().success());
    for (config, why) in [("pipe", "expected a file, found a pipe"), ("/dev/zero", "expected a file, found a device")] {
        for command in [&["run", "hi"][..], &["config", "check"], &["mcp"]] {
            let ran = place.run(&[command, &["--config", config]].concat());
            says(&ran, 2, &[&format!("cannot read the config {config}"), why]);
        }
    }
}

/// Returns `true` if this process ignores SIGHUP, as the processes do that it starts.
#[cfg(target_os = "linux")]
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    u64::from_str_radix(ignored.trim(), 16).is_ok_and(|ignored| ignored & 1 == 1)
}

#[test]
#[cfg(target_os = "linux")]
fn signal_that_ends_a_run_prints_the_resume_command() {
    let place = Place::new();
    place.file(
        "c.yaml",
        "providers: [{name: stuck, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call-for-ever, tool: count_text, arguments: {text: a}}}]\n\
         agents: [{name: a, plugins: {count-text: }, options: {max_iterations: 0}}]\n",
    );
    let run = ["run", "--config", "c.yaml", "--plugins", PLUGIN_ROOT, "--plugins", GUEST_ROOT];
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        if signal == "HUP" && ignores_hangups() {
            // Whoever runs the tests under `nohup` has them outlive the terminal, and what they start.
            continue;
        }
        let name = format!("of-{signal}");
        let journal = place.path().join(".shelly/local/sessions").join(&name).join("journal.jsonl");
        let mut command = place.command(&[&run[..], &["--session", &name, "go"]].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = || fs::read_to_string(&journal).map_or(0, |text| text.lines().count());
        wait_for("nothing is done", || lines() > 3);
        send(&child, signal);
        let ran = place.ran(child.wait_with_output().unwrap());
        says(&ran, code, &["cancelled\n", &format!("resume with: shelly-host session resume {name} --config c.yaml")]);
    }
    // Whoever wants it to outlive the terminal is not ended with it.
    let (go_on, wait) = mpsc::channel();
    let server = Server::start(move |_| {
        let _ = wait.recv();
        answer("200 OK", FOUR)
    });
    place.file("slow.yaml", server.config(""));
    let command = place.command(&["run", "--config", "slow.yaml", "--no-session", "hi"]);
    let mut shell = Command::new("sh");
    shell.current_dir(place.path()).env("XDG_STATE_HOME", place.path());
    shell.arg("-c").arg("trap '' HUP; exec \"$0\" \"$@\"").arg(command.get_program()).args(command.get_args());
    let child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("it is not asked", || !server.asked.lock().unwrap().is_empty());
    send(&child, "HUP");
    go_on.send(()).unwrap();
    let ran = place.ran(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Four.\n"), "{}", ran.shown());
}
