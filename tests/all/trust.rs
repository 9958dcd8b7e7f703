//! Trust in projects. A project may be somebody else's: what its own files name is not acted on before the user has approved
//! it, and a change of it is asked about again.

mod sessions;

use std::{fs, path::Path, process::Stdio};

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    hostile::guest::Guest,
    support::{Place, Ran},
};

const TASK: &str = "How many words are in \"one two three\"?";

fn server() -> Server {
    Server::start(|_| answer("200 OK", FOUR))
}

/// The real plugins of these names, as the project's own.
fn own_plugins(place: &Place, ids: &[&str]) {
    for id in ids {
        let folder = Path::new(PLUGIN_ROOT).join(id);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            place.file(&format!("plugins/{id}/{name}"), fs::read(&path).unwrap());
        }
    }
}

/// Everything that a project can name, with plugins of its own.
fn project() -> Place {
    let place = Place::untrusted();
    own_plugins(&place, &["count-text", "offline-model", "read-files", "loop-detect"]);
    place.file("docs/a.txt", "a");
    place.file("shelly.yaml", CONFIG);
    place
}

const CONFIG: &str = "\
plugin_dirs: [plugins]
providers:
  - {name: offline, kind: plugin, plugin: offline-model}
  - {name: far, kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1', api_key: '${KEY}'}
agents:
  - name: a
    plugins:
      count-text: {confirm: true}
      read-files: {files: [{path: docs}]}
      loop-detect: {powers: [note]}
";

fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

/// Asserts that the run is refused, for this reason.
fn refused(ran: &Ran, says: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
    assert!(ran.stderr.contains("error: the files of this project "), "{}", ran.shown());
    assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
}

#[test]
fn untrusted_project_is_refused_without_a_terminal() {
    let place = Place::untrusted();
    let server = server();
    place.file("shelly.yaml", server.config("api_key: '${SOME_KEY}'"));
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("SOME_KEY", "sk-0123456789").stdin(Stdio::null());
        place.ran(command.output().unwrap())
    };
    let ran = run(&["run", "hi"]);
    assert_snapshot!(ran.shown().replace(&server.port.to_string(), "[PORT]"));
    // No other yes is this one.
    for more in [&["--approve", "all"][..], &["--approve", "granted"], &["--model", "local"], &["--no-session"]] {
        refused(
            &run(&[&["run", "hi"], more].concat()),
            "+ the model `local` sends the environment variable `SOME_KEY` to",
        );
    }
    let mut from_stdin = place.command(&["run", "-", "--approve", "all"]);
    from_stdin.stdin(fs::File::open(place.file("task.txt", "hi")).unwrap());
    refused(&place.ran(from_stdin.output().unwrap()), "+ the model `local` is at");
    let json = run(&["run", "hi", "--output", "json"]);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&value["exit_code"], &value["error"]["kind"]), (&2.into(), &"usage".into()), "{}", json.shown());
    assert_eq!(server.asked.lock().unwrap().len(), 0, "nothing left the machine");
    assert!(!place.path().join(".shelly").exists() && !place.trust_store().exists(), "nothing was written");

    let ran = fine(run(&["run", "hi", "--trust"]));
    assert_eq!(ran.stdout, "Four.\n");
    let asked = server.asked.lock().unwrap().len();
    assert!(asked > 0);
    assert!(!place.trust_store().exists(), "that was for one run");
    refused(&run(&["run", "hi"]), "+ the model `local`");
    assert_eq!(server.asked.lock().unwrap().len(), asked);
    // Who names the config has seen it.
    assert_eq!(fine(run(&["run", "hi", "--config", "shelly.yaml"])).stdout, "Four.\n");
}

#[test]
fn own_plugin_is_asked_about_once_for_all_projects() {
    let place = Place::untrusted();
    let own = "home/.local/share/shelly-host/plugins/mine";
    let put = |component: Vec<u8>| {
        place.file(&format!("{own}/plugin.toml"), "id = \"mine\"\ncomponent = \"c.wasm\"\nkinds = [\"tool\"]\n");
        place.file(&format!("{own}/c.wasm"), component);
    };
    put(Guest::tool().component());
    let within = |folder: &str, arguments: &[&str]| {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        let mut command = place.command(arguments);
        place.ran(
            command.env("HOME", place.path().join("home")).current_dir(place.path().join(folder)).output().unwrap(),
        )
    };
    let ask = ["run", "--model", "offline-model", TASK];
    let asked = within("one", &ask);
    assert_eq!(asked.code, 2, "{}", asked.shown());
    for says in [
        "error: plugins in your own folders are not trusted yet",
        "one entry without your consent; your yes holds for all projects",
        "+ the plugin `mine` in `[DIR]/home/.local/share/shelly-host/plugins/mine`: sha256:",
        "review everything with `shelly-host config trust`, which then asks you",
    ] {
        assert!(asked.stderr.contains(says), "{says}: {}", asked.shown());
    }
    assert!(!asked.stderr.contains("config check"), "there is nothing to check: {}", asked.shown());
    let trusted = fine(within("one", &["config", "trust", "--yes"]));
    assert!(trusted.stdout.contains("plugins in your own folders need your consent, once"), "{}", trusted.shown());
    for folder in ["one", "two"] {
        fine(within(folder, &ask));
    }
    put(Guest::tool().pages(9).component());
    assert_eq!(within("two", &ask).code, 2, "it is another plugin");
    // What a project names is asked about beside it.
    place.file(
        "three/shelly.yaml",
        "providers: [{name: far, kind: openai, model: m, base_url: 'http://127.0.0.1:9'}]\n",
    );
    let both = within("three", &["run", TASK]);
    refused(&both, "+ the model `far` is at `http://127.0.0.1:9`");
    for says in [", 1 of them about plugins in your own folders", "with `shelly-host config check`"] {
        assert!(both.stderr.contains(says), "{says}: {}", both.shown());
    }
}

#[test]
fn credential_command_of_an_untrusted_project_does_not_run() {
    let place = Place::untrusted();
    let wants = "kinds = [\"tool\"]\nwants = {http = true, credentials = true}";
    place.plugin_bytes("fetch", wants, &Guest::tool().component());
    let server = server();
    let mark = place.path().join("mark");
    let config = |command: &str| {
        format!(
            "plugin_dirs: [plugins]\n{}agents: [{{name: a, plugins: {{fetch: {{http: ['https://h'], credentials: \
             [held]}}}}}}]\ncredentials: [{{name: held, command: [{command}], for: ['https://h']}}]\n",
            server.config("api_key: x").split("agents:").next().unwrap(),
        )
    };
    place.file("shelly.yaml", config(&format!("/usr/bin/env, touch, '{}'", mark.display())));
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        place.ran(command.output().unwrap())
    };
    let said =
        "+ the credential `held` is the output of the program `/usr/bin/env touch [DIR]/mark`, sent to `https://h`";
    for says in [
        said,
        "+ the agent `a`: the plugin `fetch` may send requests with the credential `held`",
        "+ the agent `a`: the plugin `fetch` may send GET, HEAD requests to `https://h`",
    ] {
        refused(&run(&["run", "hi"]), says);
    }
    let checked = fine(run(&["config", "check"]));
    assert!(checked.stderr.contains("asks for `http: [URL]`, `credentials: [NAME]`"), "{}", checked.shown());
    fine(run(&["plugin", "certify", "fetch", "--trust"]));
    assert!(!mark.exists(), "nobody needs it there");
    let ran = fine(run(&["run", "hi", "--trust"]));
    assert!(mark.exists() && ran.stderr.contains("ignoring the credential `held`"), "{}", ran.shown());
    // What is there is used, and another program is asked about again.
    place.file("shelly.yaml", config("/usr/bin/env, echo, pw-never-shown"));
    fine(run(&["config", "trust", "--yes"]));
    let ran = fine(run(&["run", "hi", "--verbose"]));
    assert!(!ran.stderr.contains("ignoring") && !ran.shown().contains("never-shown"), "{}", ran.shown());
    place.file("shelly.yaml", config("/usr/bin/env, echo, pw-other"));
    refused(&run(&["run", "hi"]), "+ the credential `held` is the output of the program `/usr/bin/env echo pw-other`");
}

#[test]
fn project_trust_holds_until_a_file_changes() {
    let place = project();
    let run = || place.run(&["run", TASK]);
    let trust = || fine(place.run(&["config", "trust", "--yes"]));
    refused(&run(), "the files of this project are not trusted yet");
    assert!(!place.path().join(".shelly").exists(), "nothing ran");
    trust();
    let ran = fine(run());
    assert!(ran.stdout.contains("needs a person's consent"), "the tool ran as far as it may: {}", ran.shown());

    let wasm = |id: &str| {
        let manifest = fs::read_to_string(place.path().join(format!("plugins/{id}/plugin.toml"))).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("component = ")).unwrap().trim_matches('"');
        format!("plugins/{id}/{name}")
    };
    let edit = |path: &str, from: &str, to: &str| {
        let text = fs::read_to_string(place.path().join(path)).unwrap();
        assert!(text.contains(from), "{from}");
        place.file(path, text.replacen(from, to, 1));
    };
    // None of this reaches further than before.
    for (from, to) in [
        ("agents:", "# a comment\nagents:"),
        ("  - name: a\n", "  - name: a\n    instructions: Be brief.\n    budget: {tool_calls: 9}\n"),
        ("{powers: [note]}", "{powers: [note], params: {threshold: 5}}"),
        ("loop-detect: {powers: [note], params: {threshold: 5}}", "loop-detect: "),
    ] {
        edit("shelly.yaml", from, to);
        fine(run());
    }
    for (from, to, says) in [
        ("127.0.0.1:9/v1", "127.0.0.2:9/v1", "+ the model `far` is at `http://127.0.0.2:9/v1`"),
        ("'${KEY}'", "'${OTHER_KEY}'", "+ the model `far` sends the environment variable `OTHER_KEY` to"),
        ("{path: docs}", "{path: .}", "+ the agent `a`: the plugin `read-files` may read `[DIR]`"),
        ("{path: .}", "{path: ., mode: write}", "+ the agent `a`: the plugin `read-files` may read and change `[DIR]`"),
        ("{confirm: true}", "{}", "+ the agent `a`: the plugin `count-text` is used, without asking you"),
        ("count-text: {}", "count-text: {clock: true}", "+ the agent `a`: the plugin `count-text` may read the clock"),
        (
            "loop-detect: ",
            "loop-detect: {powers: [note, stop]}",
            "+ the agent `a`: the plugin `loop-detect` may end the run (power `stop`)",
        ),
    ] {
        edit("shelly.yaml", from, to);
        let ran = run();
        refused(&ran, says);
        assert!(ran.stderr.contains("have changed since you trusted them"), "{}", ran.shown());
        trust();
        fine(run());
    }
    // A section that nobody reads: another component all the same.
    let (path, mut bytes) = (wasm("count-text"), fs::read(place.path().join(wasm("count-text"))).unwrap());
    bytes.extend([0, 2, 1, b'x']);
    place.file(&path, &bytes);
    let ran = run();
    refused(&ran, "+ the plugin `count-text` in `[DIR]/plugins/count-text`: sha256:");
    assert!(
        ran.stderr.contains("cause: - the plugin `count-text` in `[DIR]/plugins/count-text`: sha256:"),
        "{}",
        ran.shown()
    );
    trust();
    fine(run());
    place.file(".shelly/local/permissions.json", r#"{"trusted_tools": ["count-text/count_text"]}"#);
    refused(&run(), "+ permissions: the tool `count-text/count_text` may be called without asking you");
    trust();
    fine(run());
    fs::rename(place.path().join(".shelly/local/permissions.json"), place.path().join(".shelly/permissions.json"))
        .unwrap();
    fine(run());
}

#[test]
fn project_trust_is_bound_to_its_path() {
    let place = Place::untrusted();
    place.file("one/shelly.yaml", "providers: [{name: m, kind: openai, model: m}]\nagents: [{name: a}]\n");
    let trust = |folder: &str, arguments: &[&str]| {
        let mut command = place.command(&[&["config", "trust"], arguments].concat());
        place.ran(command.current_dir(place.path().join(folder)).output().unwrap())
    };
    fine(trust("one", &["--yes"]));
    assert!(fine(trust("one", &[])).stdout.ends_with("\ntrusted\n"));
    fs::rename(place.path().join("one"), place.path().join("two")).unwrap();
    let ran = trust("two", &[]);
    assert!(ran.code == 2 && ran.stderr.contains("are not trusted yet"), "{}", ran.shown());
    fs::create_dir(place.path().join("one")).unwrap();
    fs::copy(place.path().join("two/shelly.yaml"), place.path().join("one/shelly.yaml")).unwrap();
    fine(trust("one", &[]));
}

#[test]
fn plugin_certify_requires_project_trust() {
    let place = project();
    let certify = |more: &[&str]| place.run(&[&["plugin", "certify", "count-text"], more].concat());
    let ran = certify(&[]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(report.to_string().contains("the files of this project are not trusted yet"), "{report}");
    for more in [&["--trust"][..], &["--config", "shelly.yaml"]] {
        let certificate: Value = serde_json::from_str(&fine(certify(more)).stdout).unwrap();
        assert_eq!(certificate["runs"], true);
    }
    assert!(!place.trust_store().exists(), "nothing of it is kept");
    fine(place.run(&["config", "trust", "--yes"]));
    fine(certify(&[]));
    // To list them, and to look at one that is named, needs none.
    fine(place.run(&["plugin", "list"]));
    fine(place.run(&["plugin", "inspect", "plugins/count-text"]));
}

#[test]
fn config_trust_lists_and_forgets_entries() {
    let place = project();
    let mut told = String::new();
    let mut tell = |arguments: &[&str]| {
        let ran = place.run(arguments);
        told.push_str(&format!("## {}\n{}\n", arguments.join(" "), without_digests(&ran.shown())));
        ran
    };
    assert_eq!(tell(&["config", "trust"]).code, 2);
    assert_eq!(tell(&["config", "trust", "--yes"]).code, 0);
    place.file("shelly.yaml", CONFIG.replace("path: docs", "path: plugins"));
    assert_eq!(tell(&["config", "trust"]).code, 2);
    assert_eq!(tell(&["config", "trust", "--forget"]).code, 0);
    assert_eq!(tell(&["config", "trust", "--forget"]).code, 0);
    tell(&["config", "trust", "--help"]);
    refused(&place.run(&["run", TASK]), "are not trusted yet");
    fs::remove_file(place.path().join("shelly.yaml")).unwrap();
    assert_eq!(tell(&["config", "trust"]).code, 0);
    assert_snapshot!(told);
}

fn without_digests(text: &str) -> String {
    let mut parts = text.split("sha256:");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + "sha256:[DIGEST]" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit()))
}

#[test]
fn config_check_reports_trust_and_runs_nothing() {
    let place = project();
    let check = || place.run(&["config", "check", "--output", "json"]);
    let trust = |ran: Ran| serde_json::from_str::<Value>(&ran.stdout).unwrap()["trust"].clone();
    let before = trust(check());
    assert_eq!((&before["trusted"], &before["new"]), (&false.into(), &before["facts"]));
    assert!(before["digest"].as_str().unwrap().starts_with("sha256:"));
    let text = fine(place.run(&["config", "check"]));
    let note = "\nnot trusted yet; a run asks you first:\n    the model `far`\n      + is at `http://127.0.0.1:9/v1`; ";
    assert!(text.stderr.contains(note), "{}", text.shown());
    fine(place.run(&["config", "trust", "--yes"]));
    let after = trust(check());
    assert_eq!(
        (&after["trusted"], &after["new"], &after["gone"]),
        (&true.into(), &serde_json::json!([]), &after["new"])
    );
    assert_eq!(after["digest"], before["digest"]);
    assert!(fine(place.run(&["config", "check"])).stderr.contains("shelly.yaml: trusted\n"));
    // Named, it is the person's.
    let named = trust(place.run(&["config", "check", "--config", "shelly.yaml", "--output", "json"]));
    assert_eq!((&named["trusted"], &named["facts"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn project_created_by_init_is_trusted() {
    for template in ["assistant", "coder", "team", "reviewer", "researcher"] {
        let place = Place::untrusted();
        fine(place.run(&["init", "--template", template]));
        let run = ["run", "What is this project?", "--plugins", PLUGIN_ROOT, "--model", "offline-model"];
        fine(place.run(&run));
        // What others bring along is theirs, whoever wrote the rest.
        place.file(".shelly/local/permissions.json", r#"{"fs_directories": ["/"]}"#);
        refused(&place.run(&run), "+ permissions: `/` may be read and changed");
        fs::remove_file(place.path().join(".shelly/local/permissions.json")).unwrap();
        // It is trusted until it reaches further: a comment and an instruction do not.
        let path = place.path().join(".shelly/config.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("# mine\n{}", text.replace("instructions: |", "instructions: |\n      Be brief.")))
            .unwrap();
        fine(place.run(&run));
        fs::write(&path, format!("{text}\nproviders: [{{name: far, kind: ollama, model: m}}]\n")).unwrap();
        refused(&place.run(&run), "+ the model `far` is at");
    }
}

#[test]
fn project_names_cannot_forge_the_trust_prompt() {
    let place = Place::untrusted();
    let evil = r#""x`: nothing\n+  \e[2Jx\u202e\r""#;
    let config = format!("providers: [{{name: {evil}, kind: openai, model: m}}]\nagents: [{{name: a}}]\n");
    place.file("shelly.yaml", config);
    for arguments in [&["run", "hi"][..], &["config", "check"], &["config", "trust"], &["config", "trust", "--yes"]] {
        let ran = place.run(arguments);
        // As a document, what holds goes to a file or a program as it is.
        let text = if arguments[1] == "check" { ran.stderr.clone() } else { ran.stderr.clone() + &ran.stdout };
        assert!(!text.contains(['\x1b', '\u{202e}', '\r']), "{text:?}");
        assert!(text.contains(r"the model `x\u{60}: nothing\n+  \u{1b}[2Jx\u{202e}\r`"), "{}", ran.shown());
    }
}

#[test]
fn unusable_trust_store_trusts_nothing() {
    let place = project();
    fine(place.run(&["config", "trust", "--yes"]));
    fine(place.run(&["run", TASK]));
    let good = fs::read_to_string(place.trust_store()).unwrap();
    for (text, says) in [
        (good[..good.len() / 2].to_owned(), "the trust store"),
        (good.replace("127.0.0.1", "127.0.0.3"), "does not match its content"),
        (good.replace("\"version\": 1", "\"version\": 7"), "the file has version 7"),
    ] {
        fs::write(place.trust_store(), &text).unwrap();
        for arguments in [&["run", TASK][..], &["config", "check"], &["config", "trust", "--yes"]] {
            let ran = place.run(arguments);
            assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
            assert!(ran.stderr.contains(says) && ran.stderr.contains("hint:  remove the file"), "{}", ran.shown());
        }
        assert_eq!(fs::read_to_string(place.trust_store()).unwrap(), text, "it is left for a person to look at");
    }
    // Where it cannot be kept it is not.
    let mut command = place.command(&["config", "trust", "--yes"]);
    let ran = place.ran(command.env_remove("XDG_STATE_HOME").output().unwrap());
    assert!(ran.code == 2 && ran.stderr.contains("there is no folder for the trust store"), "{}", ran.shown());
}

#[test]
fn tool_trust_is_bound_to_its_digest() {
    let place = Place::untrusted();
    own_plugins(&place, &["count-text", "offline-model"]);
    let config = "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
                  agents: [{name: a, plugins: {count-text: {confirm: true}}}]\n";
    place.file(".shelly/config.yaml", config);
    let permissions = place.file(".shelly/local/permissions.json", r#"{"trusted_tools": ["count-text/count_text"]}"#);
    let component = fs::read_dir(place.path().join("plugins/count-text")).unwrap();
    let component =
        component.map(|entry| entry.unwrap().path()).find(|path| path.extension().unwrap() == "wasm").unwrap();
    // The plugins are the person's; the rest is asked about.
    let run = || place.run(&["run", TASK, "--plugins", "plugins", "--approve", "granted", "--verbose"]);
    refused(&run(), "+ permissions: the tool `count-text/count_text` may be called without asking you");
    let named = ["run", TASK, "--plugins", "plugins", "--config", ".shelly/config.yaml", "--approve", "granted"];
    refused(&place.run(&named), "+ permissions: the tool");
    let once = place.run(&[&named[..], &["--trust", "--verbose"]].concat());
    assert!(once.code == 0 && once.stderr.contains("(trusted)"), "{}", once.shown());
    let trust = ["config", "trust", "--yes", "--config", ".shelly/config.yaml", "--plugins", "plugins"];
    let listed = fine(place.run(&trust));
    let line = "+ permissions: the tool `count-text/count_text` may be called without asking you\n";
    assert_eq!(listed.stdout, format!("{line}trusted from now on\n"));
    let says = |ran: Ran, says: &str| assert!(ran.code == 0 && ran.stderr.contains(says), "{says}: {}", ran.shown());
    let named = [&named[..], &["--verbose"]].concat();
    says(place.run(&named), "(trusted)");
    refused(&run(), "+ the agent `a`: the plugin `count-text` is used\n");
    // Another plugin of the same name is another one, also where nobody is asked about it before it runs.
    let mut bytes = fs::read(&component).unwrap();
    bytes.extend([0, 2, 1, b'x']);
    fs::write(&component, bytes).unwrap();
    says(place.run(&named), "(not asked)");
    // A line that was taken out and comes back is not the person's.
    fs::remove_file(&permissions).unwrap();
    says(place.run(&named), "(not asked)");
}

#[test]
fn long_trust_prompt_is_cut_with_a_count() {
    let place = Place::untrusted();
    let providers: Vec<_> = (0..9).map(|at| format!("{{name: m{at}, kind: ollama, model: m}}")).collect();
    place.file("shelly.yaml", format!("providers: [{}]\nagents: [{{name: a}}]\n", providers.join(", ")));
    let ran = place.run(&["run", "hi"]);
    refused(&ran, "9 entries without your consent");
    assert!(ran.stderr.contains("`m4`") && !ran.stderr.contains("`m5`"), "{}", ran.shown());
    assert!(ran.stderr.contains("cause: and 4 more"), "{}", ran.shown());
}
