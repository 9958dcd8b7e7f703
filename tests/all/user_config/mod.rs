//! The user-wide config: what it gives to every project, and what no project gains from it.

mod above;
mod shown;

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
};

const TASK: &str = "How many words are in \"one two three\"?";

/// A person with a user-wide config, in whose folder commands are run.
struct Person {
    place: Place,
}

impl Person {
    fn new(config: &str) -> Self {
        let person = Self { place: Place::untrusted() };
        person.write(config);
        person
    }

    /// Writes the user-wide config. Nobody else may change it, whatever files are made like here.
    fn write(&self, config: &str) -> PathBuf {
        let path = self.place.file("settings/shelly-host/config.yaml", config);
        #[cfg(unix)]
        for (made, mode) in [(path.as_path(), 0o600), (path.parent().unwrap(), 0o700)] {
            self.mode(made, mode);
        }
        #[cfg(unix)]
        self.mode(&self.place.path().join("settings"), 0o700);
        path
    }

    #[cfg(unix)]
    fn mode(&self, path: &std::path::Path, mode: u32) {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(arguments);
        let project = self.place.path().join("project");
        fs::create_dir_all(&project).unwrap();
        command.env("XDG_CONFIG_HOME", self.place.path().join("settings")).current_dir(project);
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.place.ran(self.command(arguments).output().unwrap())
    }

    /// Writes the config of the project.
    fn project(&self, config: &str) {
        self.place.file("project/shelly.yaml", config);
    }
}

fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

/// Asserts that the project must be trusted first, for each of these reasons.
fn refused(ran: &Ran, reasons: &[&str]) {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
    for reason in reasons {
        assert!(ran.stderr.contains(&format!("+ {reason}")), "{reason}: {}", ran.shown());
    }
}

fn server() -> Server {
    Server::start(|_| answer("200 OK", FOUR))
}

fn asked(server: &Server) -> usize {
    server.asked.lock().unwrap().len()
}

/// A model on this server, whose key is in the environment.
fn model(name: &str, server: &Server) -> String {
    format!("{{name: {name}, kind: openai, model: {name}, base_url: 'http://127.0.0.1:{}/v1'", server.port)
}

#[test]
fn user_wide_model_needs_no_project_and_no_consent() {
    let server = server();
    let providers = format!("providers: [{}, api_key: '${{OWN_KEY}}'}}]\n", model("mine", &server));
    let person = Person::new(&providers);
    let run = |arguments: &[&str]| {
        person.place.ran(person.command(arguments).env("OWN_KEY", "sk-own-1234").output().unwrap())
    };
    assert_eq!(fine(run(&["run", "hi"])).stdout, "Four.\n");
    // A project that says nothing of models.
    person.project("agents: [{name: a, instructions: Be brief.}]\n");
    let ran = fine(run(&["run", "hi"]));
    assert!(ran.stdout == "Four.\n" && ran.stderr.contains("config shelly.yaml\n"), "{}", ran.shown());
    assert!(server.asked.lock().unwrap().iter().all(|request| request.contains("Bearer sk-own-1234")));
    // A named config is read over it too.
    person.place.file("project/other.yaml", "agents: [{name: b, provider: mine}]\n");
    fine(run(&["run", "hi", "--config", "other.yaml"]));
    let checked = fine(run(&["config", "check", "--output", "json"]));
    let value: Value = serde_json::from_str(&checked.stdout).unwrap();
    assert_eq!((&value["config"]["default_provider"], &value["trust"]["trusted"]), (&"mine".into(), &true.into()));
    assert!(!checked.shown().contains("sk-own-1234"));
    // Alone it is a config to check.
    fs::remove_file(person.place.path().join("project/shelly.yaml")).unwrap();
    let checked = fine(run(&["config", "check"]));
    assert!(checked.stderr.contains("\n[DIR]/settings/shelly-host/config.yaml: ok"), "{}", checked.shown());
}

#[test]
fn project_cannot_redirect_a_user_wide_model() {
    let (own, far) = (server(), server());
    let person = Person::new(&format!("providers: [{}, api_key: sk-own-1234}}]\n", model("main", &own)));
    person.project(&format!("providers: [{}}}]\nagents: [{{name: a}}]\n", model("main", &far)));
    let takes = "the model `main` takes the place of the one in your user-wide config";
    let at = format!("the model `main` is at `http://127.0.0.1:{}/v1`; conversations are sent there", far.port);
    for arguments in [&["run", "hi"][..], &["run", "hi", "--approve", "all"], &["config", "trust"]] {
        let ran = person.run(arguments);
        assert!(ran.code == 2 && ran.shown().contains("takes the place of"), "{arguments:?}: {}", ran.shown());
    }
    refused(&person.run(&["run", "hi"]), &[takes, &at]);
    let checked = fine(person.run(&["config", "check"]));
    assert!(checked.stderr.contains("+ takes the place of the one in your user-wide config"), "{}", checked.shown());
    assert_eq!((asked(&own), asked(&far)), (0, 0), "nothing left the machine");
    // Even with consent the person's key is not sent there.
    fine(person.run(&["run", "hi", "--trust"]));
    assert_eq!((asked(&own), asked(&far)), (0, 1));
    let request = far.asked.lock().unwrap().remove(0);
    assert!(!request.contains("sk-own-1234") && !request.to_lowercase().contains("authorization"), "{request}");
    // Consent to the project's own model is none to its taking the place of the person's.
    person.write("");
    fine(person.run(&["config", "trust", "--yes"]));
    fine(person.run(&["run", "hi"]));
    person.write(&format!("providers: [{}, api_key: sk-own-1234}}]\n", model("main", &own)));
    refused(&person.run(&["run", "hi"]), &[takes]);
}

#[test]
fn named_use_of_a_user_wide_entry_is_asked_about() {
    let server = server();
    let of_user = |server: &Server| format!("providers: [{}, api_key: sk-own-1234}}]\n", model("main", server));
    let person = Person::new(&of_user(&server));
    person.project("agents: [{name: a, provider: main}]\n");
    refused(&person.run(&["run", "hi"]), &["the model `main` is that of your user-wide config"]);
    assert_eq!(asked(&server), 0);
    fine(person.run(&["config", "trust", "--yes"]));
    fine(person.run(&["run", "hi"]));
    // The entry is the person's, who may change it without a question.
    let other = self::server();
    person.write(&of_user(&other));
    fine(person.run(&["run", "hi"]));
    assert_eq!((asked(&server), asked(&other)), (1, 1));
    // What the project has trusted with its own model it has not with the person's.
    let own = format!("providers: [{}}}]\nagents: [{{name: a, provider: own}}]\n", model("own", &server));
    person.project(&own);
    fine(person.run(&["config", "trust", "--yes"]));
    person.project("agents: [{name: a, provider: main}]\n");
    refused(&person.run(&["run", "hi"]), &["the model `main` is that of your user-wide config"]);
}

#[test]
fn user_wide_plugin_is_never_taken_from_the_project() {
    let person = Person::new("providers: [{name: mine, kind: plugin, plugin: offline-model}]\n");
    // What the project has under this id would fail.
    person.place.plugin("offline-model", "kinds = [\"provider\"]", "(component)");
    let brought = person.place.path().join("plugins/offline-model");
    let run = ["run", TASK, "--trust"];
    for (folder, config) in [
        (".shelly/plugins", "agents: [{name: a, plugins: {count-text: }}]\n"),
        ("plugins", "plugin_dirs: [plugins]\nagents: [{name: a, plugins: {count-text: }}]\n"),
    ] {
        let place = person.place.path().join("project").join(folder);
        fs::create_dir_all(&place).unwrap();
        fs::rename(&brought, place.join("offline-model")).unwrap();
        person.project(config);
        let ran = fine(person.run(&run));
        assert!(ran.stdout.contains("3 words"), "{}", ran.shown());
        let warning = "the plugin `offline-model` in plugins/offline-model is not used: your user-wide config names";
        let warning = warning.replace("in plugins", "in [DIR]/project/plugins");
        assert_eq!(ran.stderr.contains(&warning), folder == "plugins", "{}", ran.shown());
        fs::rename(place.join("offline-model"), &brought).unwrap();
    }
    // One that the person has not installed is none, whatever the project brings.
    person.write("providers: [{name: mine, kind: plugin, plugin: stranger, http: ['https://h']}]\n");
    person.place.plugin("stranger", "kinds = [\"provider\"]\nwants = {http = true}", "(component)");
    let place = person.place.path().join("project/.shelly/plugins/stranger");
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(person.place.path().join("plugins/stranger"), &place).unwrap();
    person.project("agents: [{name: a}]\n");
    let ran = person.run(&run);
    assert!(ran.code == 3 && ran.stderr.contains("there is no plugin `stranger`"), "{}", ran.shown());
    // A directory of the person's own is enough.
    let own = person.place.path().join("settings/shelly-host/own");
    fs::create_dir_all(&own).unwrap();
    crate::support::copy(&PathBuf::from(PLUGIN_ROOT).join("offline-model"), &own.join("offline-model"), &[]);
    person.write("plugin_dirs: [own]\nproviders: [{name: mine, kind: plugin, plugin: offline-model}]\n");
    let ran = fine(person.run(&["run", TASK]));
    assert!(ran.stdout.contains("words"), "{}", ran.shown());
}

#[test]
fn user_wide_toolboxes_give_the_default_agent_hands() {
    let server = Server::start(|_| answer("200 OK", FOUR));
    let config = format!("providers: [{}}}]\ntoolboxes: [filesystem, search, exec]\n", model("m", &server));
    let person = Person::new(&config);
    let offered = || {
        let requests = server.asked.lock().unwrap();
        let body: Value = serde_json::from_str(requests.last().unwrap().split_once("\r\n\r\n").unwrap().1).unwrap();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    fine(person.run(&["run", "hi"]));
    let tools = offered();
    for tool in ["fs_read", "search_files", "exec_run", "count_text"] {
        assert!(tools.iter().any(|offered| offered == tool), "{tool}: {tools:?}");
    }
    // The agents of a project have what the project says.
    person.project("agents: [{name: a, toolboxes: [notes]}]\n");
    fine(person.run(&["run", "hi"]));
    let tools = offered();
    assert!(!tools.iter().any(|tool| tool.starts_with("fs_") || tool == "exec_run"), "{tools:?}");
    // A project without agents may say what the one that runs has, and is asked about that alone.
    person.project("toolboxes: [{name: search, files: [{path: /}]}]\n");
    let ran = person.run(&["run", "hi"]);
    refused(
        &ran,
        &["the agent `assistant`: the plugin `search` may read `/`", "the toolbox `search` takes the place of the one"],
    );
    assert!(!ran.stderr.contains("run programs"), "{}", ran.shown());
    // Beside agents the project's toolboxes are nobody's.
    person.project("toolboxes: [notes]\nagents: [{name: a}]\n");
    let ran = fine(person.run(&["config", "check"]));
    assert!(ran.stderr.contains("toolboxes: has no effect beside `agents`"), "{}", ran.shown());
}

#[test]
fn user_wide_agents_run_where_the_project_has_none() {
    let server = server();
    let config = format!(
        "providers: [{}}}]\nagents: [{{name: helper}}, {{name: shell, toolboxes: [exec]}}]\nentry_agent: shell\n",
        model("m", &server)
    );
    let person = Person::new(&config);
    let agent = |ran: Ran| serde_json::from_str::<Value>(&fine(ran).stdout).unwrap()["agent"].clone();
    assert_eq!(agent(person.run(&["run", "hi", "--output", "json"])), "shell");
    person.project("sessions: {record: false}\n");
    assert_eq!(agent(person.run(&["run", "hi", "--output", "json", "--agent", "helper"])), "helper");
    // An agent of a project starts none of the person's.
    person.project("agents: [{name: lead, options: {max_delegation_depth: 1}}]\n");
    assert_eq!(agent(person.run(&["run", "hi", "--output", "json"])), "lead");
    let checked = fine(person.run(&["config", "check", "--output", "json"]));
    let config = serde_json::from_str::<Value>(&checked.stdout).unwrap()["config"].clone();
    assert_eq!((&config["agents"][0]["delegates_to"], &config["agents"][1]), (&serde_json::json!([]), &Value::Null));
    let ran = person.run(&["run", "hi", "--agent", "shell"]);
    assert!(ran.code == 2 && ran.stderr.contains("there is no agent `shell`"), "{}", ran.shown());
}

#[cfg(unix)]
#[test]
fn user_wide_config_that_others_can_change_is_refused() {
    let server = server();
    let config = format!("providers: [{}}}]\n", model("m", &server));
    let person = Person::new(&config);
    let path = person.write(&config);
    let folder = path.parent().unwrap();
    let refused = |says: &str| {
        let ran = person.run(&["run", "hi"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
        assert!(ran.stderr.contains(says) && ran.stderr.contains("  hint:  "), "{says}: {}", ran.shown());
    };
    for (exposed, mode, mended) in [(path.as_path(), 0o666, 0o600), (folder, 0o777, 0o700)] {
        person.mode(exposed, mode);
        refused("can be changed by others");
        let hint =
            format!("chmod go-w {}", exposed.display()).replace(&person.place.path().display().to_string(), "[DIR]");
        assert!(person.run(&["config", "path"]).stdout.contains(&hint));
        person.mode(exposed, mended);
    }
    fine(person.run(&["run", "hi"]));
    // A link is followed, to a file of which the same must hold.
    fs::rename(&path, person.place.path().join("real.yaml")).unwrap();
    std::os::unix::fs::symlink(person.place.path().join("real.yaml"), &path).unwrap();
    fine(person.run(&["run", "hi"]));
    person.mode(&person.place.path().join("real.yaml"), 0o622);
    refused("can be changed by others (mode 622)");
    fs::remove_file(person.place.path().join("real.yaml")).unwrap();
    refused("no such file or folder");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused("expected a file, found a folder");
    fs::remove_dir(&path).unwrap();
    person.write(&"#".repeat(2 << 20));
    refused("exceeds 1048576 bytes");
    person.write("agnets: []\n");
    refused("there is no key `agnets` ([DIR]/settings/shelly-host/config.yaml, line 1, column 1)");
    assert_eq!(asked(&server), 2);
}
