//! Agents of somebody else: installed with their plugins and skills, asked about, updated and removed.

use std::fs;

use serde_json::{Value, json};
use shelly_host::digest::Sha256Digest;
use shelly_test_support::MinisignKey;

use super::{FUNCTION, FUNCTIONS, fine, put_dice, refused, registry::Registry, rule, sources::WebServer};
use crate::{
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
    terminal::typing_at,
};

/// The agents of a package.
const AGENTS: &str =
    "agents: [{name: critic, description: Finds mistakes, instructions: Be strict, plugins: {dice: }}]\n";
/// The same, told something else.
const OTHER_AGENTS: &str =
    "agents: [{name: critic, description: Finds mistakes, instructions: Obey me, plugins: {dice: }}]\n";

const INSTALL: [&str; 3] = ["agent", "install", "./reviewer"];

/// Writes the package `reviewer` of this version, with the plugin `dice` and one skill.
fn put_reviewer(place: &Place, version: &str, agents: &str, component: &str) {
    let manifest = format!(
        "id = \"reviewer\"\nversion = \"{version}\"\ndescription = \"Reviews changes\"\nmodel = \"some-model\"\n\
         files = [\"agents.yaml\", \"skills/look/SKILL.md\", \"plugins/dice/plugin.toml\", \"plugins/dice/c.wasm\"]\n"
    );
    place.file("reviewer/agent.toml", manifest);
    place.file("reviewer/agents.yaml", agents);
    place.file("reviewer/skills/look/SKILL.md", "Look twice.\n");
    let plugin = "id = \"dice\"\ncomponent = \"c.wasm\"\nversion = \"1.0.0\"\nkinds = [\"functions\"]\n[wants]\n";
    place.file("reviewer/plugins/dice/plugin.toml", plugin);
    place.file("reviewer/plugins/dice/c.wasm", wat::parse_str(component).unwrap());
}

/// Returns a place with the package and a config whose model answers.
fn place_with_model() -> (Place, Server) {
    let (place, server) = (Place::new(), Server::start(|_| answer("200 OK", FOUR)));
    place.file("shelly.yaml", server.config(""));
    put_reviewer(&place, "1.0.0", AGENTS, FUNCTION);
    (place, server)
}

fn run_critic(place: &Place) -> Ran {
    place.run(&["run", "hi", "--agent", "critic"])
}

fn last_request(server: &Server) -> String {
    server.asked.lock().unwrap().last().cloned().unwrap()
}

fn lock(place: &Place) -> String {
    fs::read_to_string(place.path().join("shelly.lock")).unwrap()
}

#[test]
fn installed_agent_runs_with_its_plugin_and_skill() {
    let (place, server) = place_with_model();
    let unasked = place.run(&INSTALL);
    let brings = ["critic: Finds mistakes", "`dice` 1.0.0", "skills/look/SKILL.md", "some-model", "--yes accepts it"];
    refused(&unasked, 3, &["the agent package `reviewer` 1.0.0 is installed only with your consent"]);
    refused(&unasked, 3, &brings);
    assert!(!place.path().join("shelly.lock").exists(), "nothing was installed");
    let installed = fine(place.run(&[&INSTALL[..], &["--yes"]].concat()));
    for says in [
        "installed    `reviewer` 1.0.0 ([DIR]/shelly.lock names it; nothing of it has run)",
        "\nsource       reviewer\n",
        "\nsigned by    nobody\n",
        "\nagents       critic: Finds mistakes\n",
        "\nskills       look\n",
        "\nuses         your default model",
        "\n  tools        go\n",
    ] {
        assert!(installed.stdout.contains(says), "{says}: {}", installed.shown());
    }
    fs::rename(place.path().join("reviewer"), place.path().join("away")).unwrap();
    assert_eq!(fine(run_critic(&place)).stdout, "Four.\n");
    let asked = last_request(&server);
    assert!(["Be strict", "Look twice.", "\"go\""].iter().all(|part| asked.contains(part)), "{asked}");
    assert_eq!(fine(place.run(&["run", "hi"])).stdout, "Four.\n");
    let asked = last_request(&server);
    assert!(!asked.contains("Be strict") && !asked.contains("Look twice."), "the own agent is as before: {asked}");

    // Only what the lock file names is used, and it comes from where it came from.
    let lock: Vec<_> = lock(&place).lines().map(str::to_owned).collect();
    let digest =
        lock.iter().skip_while(|line| *line != "[[agent]]").find_map(|line| line.strip_prefix("digest = \"sha256:"));
    let folder = place.path().join(".shelly/plugin-store/sha256").join(digest.unwrap().trim_end_matches('"'));
    fs::write(folder.join("skills/look/SKILL.md"), "Obey.\n").unwrap();
    refused(&run_critic(&place), 3, &["SKILL.md is sha256:", "but the lock file names sha256:", "agent install`"]);
    fs::rename(place.path().join("away"), place.path().join("reviewer")).unwrap();
    let restored = fine(place.run(&["agent", "install"]));
    assert!(restored.stdout.starts_with("installed    the agent package `reviewer` 1.0.0"), "{}", restored.shown());
    fine(run_critic(&place));
    fs::remove_dir_all(place.path().join(".shelly/plugin-store")).unwrap();
    refused(
        &run_critic(&place),
        2,
        &["the agent package `reviewer` is in [DIR]/shelly.lock, but not in", "agent install"],
    );
    fine(place.run(&["plugin", "install"]));
    fine(run_critic(&place));
    put_reviewer(&place, "1.0.0", OTHER_AGENTS, FUNCTION);
    fs::remove_dir_all(place.path().join(".shelly/plugin-store")).unwrap();
    refused(&place.run(&["agent", "install"]), 3, &["reviewer has another agent than [DIR]/shelly.lock names"]);
}

#[test]
fn installed_agent_is_used_only_with_trust_in_the_project() {
    let (place, server) = (Place::untrusted(), Server::start(|_| answer("200 OK", FOUR)));
    place.file("shelly.yaml", server.config(""));
    put_reviewer(&place, "1.0.0", AGENTS, FUNCTION);
    fine(place.run(&[&INSTALL[..], &["--yes"]].concat()));
    refused(&run_critic(&place), 2, &["the files of this project are not trusted yet", "the plugin `dice`"]);
    // A refusal lists the first entries, this all of them.
    let listed = place.run(&["config", "check"]);
    for says in ["+ the agent package `reviewer` 1.0.0: sha256:", "brings `critic`"] {
        assert!(listed.stderr.contains(says), "{says}: {}", listed.shown());
    }
    assert!(server.asked.lock().unwrap().is_empty(), "nothing acted");
    fine(place.run(&["config", "trust", "--yes"]));
    fine(run_critic(&place));
    // Other prompts are other bytes, although they reach nothing more.
    put_reviewer(&place, "1.1.0", OTHER_AGENTS, FUNCTION);
    fine(place.run(&[&INSTALL[..], &["--yes"]].concat()));
    refused(&run_critic(&place), 2, &["+ the agent package `reviewer` 1.1.0: sha256:"]);
}

#[test]
fn installed_agent_uses_the_chosen_model() {
    let (place, server) = place_with_model();
    let config = server.config("");
    let other = config.replace("[{name: local,", "[{name: other,").replace("model: m,", "model: n,");
    let other = other.lines().next().unwrap().strip_prefix("providers: [").unwrap().to_owned();
    place.file("shelly.yaml", config.replacen("}]\n", &format!("}}, {other}\n"), 1));
    let install = [&INSTALL[..], &["--yes"]].concat();
    refused(&place.run(&[&install[..], &["--model", "none"]].concat()), 2, &["there is no model `none`", "`reviewer`"]);
    fine(place.run(&install));
    fine(run_critic(&place));
    assert!(last_request(&server).contains("\"model\":\"m\""), "{}", last_request(&server));
    fine(place.run(&[&install[..], &["--model", "other"]].concat()));
    fine(run_critic(&place));
    assert!(last_request(&server).contains("\"model\":\"n\""), "{}", last_request(&server));
    fine(place.run(&install));
    fine(run_critic(&place));
    assert!(last_request(&server).contains("\"model\":\"n\""), "a choice holds until another one");
}

#[test]
fn taken_name_of_an_agent_or_plugin_is_reported() {
    let (place, _server) = place_with_model();
    let install = [&INSTALL[..], &["--yes"]].concat();
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file("shelly.yaml", config.replace("name: helper", "name: critic"));
    let twice =
        ["the name `critic` is used twice: as agents.critic of", "in the agent package `reviewer`", "rename yours"];
    refused(&place.run(&install), 2, &twice);
    place.file("shelly.yaml", &config);
    put_dice(&place, "1.0.0", "", FUNCTIONS);
    fine(place.run(&["plugin", "install", "plugins/dice"]));
    let other = ["the agent package `reviewer` 1.0.0 brings another plugin `dice` than [DIR]/shelly.lock names"];
    refused(&place.run(&install), 3, &other);
    refused(&place.run(&install), 3, &["shelly-host plugin remove dice"]);
    fine(place.run(&["plugin", "remove", "dice"]));
    fine(place.run(&install));
    // The plugin stays what the package has.
    for command in
        [&["plugin", "remove", "dice"][..], &["plugin", "update", "dice"], &["plugin", "install", "plugins/dice"]]
    {
        refused(&place.run(command), 2, &["the plugin `dice` comes with the agent package `reviewer`", "agent update"]);
    }
    place.file("shelly.yaml", config.replace("name: helper", "name: critic"));
    refused(&run_critic(&place), 2, &["the name `critic` is used twice: as agents.critic"]);
    refused(&place.run(&["agent", "remove", "critic"]), 2, &["the agent comes with the package `reviewer`"]);
    fine(place.run(&["agent", "remove", "reviewer"]));
    fine(run_critic(&place));
    assert!(!lock(&place).contains("dice"), "{}", lock(&place));
}

#[test]
fn grown_or_older_agent_package_is_refused() {
    let (place, _server) = place_with_model();
    fine(place.run(&[&INSTALL[..], &["--yes"]].concat()));
    let before = lock(&place);
    put_reviewer(&place, "1.1.0", OTHER_AGENTS, FUNCTIONS);
    let grown = ["reaches more, or tells its agents something else, than 1.0.0", "~ text agents.yaml", "+ tool stop"];
    refused(&place.run(&INSTALL), 3, &grown);
    assert_eq!(lock(&place), before);
    fine(place.run(&[&INSTALL[..], &["--yes"]].concat()));
    put_reviewer(&place, "1.1.1", OTHER_AGENTS, FUNCTIONS);
    fine(place.run(&INSTALL));
    put_reviewer(&place, "1.0.9", OTHER_AGENTS, FUNCTIONS);
    let older = "the agent package `reviewer` has version 1.0.9, older than the installed 1.1.1";
    refused(&place.run(&[&INSTALL[..], &["--yes"]].concat()), 3, &[older, "--allow-downgrade accepts it"]);
    fine(place.run(&[&INSTALL[..], &["--allow-downgrade"]].concat()));
    assert!(lock(&place).contains("version = \"1.0.9\""), "{}", lock(&place));
    for (agents, says) in [
        ("providers: []\n", "an agent package cannot have the key `providers`"),
        ("agents: [{name: critic, provider: local}]\n", "agents.critic: an agent package cannot choose a model"),
        ("agents: [{name: critic, toolboxes: [{name: exec, programs: [make]}]}]\n", "there is no program `make`"),
    ] {
        put_reviewer(&place, "2.0.0", agents, FUNCTION);
        let ran = place.run(&[&INSTALL[..], &["--yes"]].concat());
        assert_ne!(ran.code, 0, "{}", ran.shown());
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
}

#[test]
fn agent_package_is_asked_about_at_a_terminal() {
    let place = Place::new();
    put_reviewer(&place, "1.0.0", AGENTS, FUNCTION);
    let ask =
        |typed| typing_at(&place, 200, &[], "shelly-host agent install ./reviewer", Some(("(Enter: 1): ", typed)));
    for (typed, code) in [("\n", 1), ("2\n", 0)] {
        let ran = ask(typed);
        let text = ran.lines.join("\n");
        assert_eq!(ran.code, code, "{text}");
        assert!(text.contains("critic: Finds mistakes") && text.contains("install it? 1 no, 2 yes"), "{text}");
        assert_eq!(place.path().join("shelly.lock").exists(), code == 0, "{text}");
    }
    // Of another version what changes is shown, line by line.
    put_reviewer(&place, "1.1.0", OTHER_AGENTS, FUNCTION);
    let ran = ask("yes\n");
    let text = ran.lines.join("\n");
    for says in ["`reviewer`: 1.0.0 → 1.1.0", "~ text agents.yaml", "-agents: [", "Be strict", "+agents: [", "Obey me"]
    {
        assert!(text.contains(says), "{says}: {text}");
    }
    assert_eq!(ran.code, 0, "{text}");
    assert!(lock(&place).contains("version = \"1.1.0\""), "{}", lock(&place));
}

#[test]
fn published_agent_package_is_updated() {
    let (registry, author) = (Registry::start(), Place::new());
    let (place, server) = place_with_model();
    let publish = |tag: &str, version: &str, agents: &str, component: &str| {
        put_reviewer(&author, version, agents, component);
        let artifact = registry.artifact(&format!("me/reviewer:{tag}"));
        let published = fine(author.run(&["agent", "publish", "reviewer", &artifact]));
        assert!(published.stdout.contains("\nartifact     sha256:"), "{}", published.shown());
        artifact
    };
    let first = publish("1.0.0", "1.0.0", AGENTS, FUNCTION);
    assert_eq!(registry.manifest("me/reviewer:1.0.0")["layers"].as_array().unwrap().len(), 5);
    refused(&place.run(&["plugin", "install", &first]), 3, &["it is an agent package", "shelly-host agent install"]);
    fine(place.run(&["agent", "install", &first, "--yes"]));
    assert!(lock(&place).contains("\nartifact = \"sha256:"), "{}", lock(&place));
    assert_eq!(fine(place.run(&["agent", "update"])).stdout, "up to date   `reviewer` 1.0.0\n");
    publish("1.1.0", "1.1.0", OTHER_AGENTS, FUNCTIONS);
    let before = lock(&place);
    let grown = ["the agent package `reviewer` 1.1.0 reaches more", "~ text agents.yaml", "plugin `dice`: + tool stop"];
    refused(&place.run(&["agent", "update", "reviewer"]), 3, &grown);
    assert_eq!(lock(&place), before);
    let updated = fine(place.run(&["agent", "update", "reviewer", "--yes"]));
    assert_eq!(updated.stdout, "updated      `reviewer` 1.1.0 (was `reviewer` 1.0.0)\n");
    fine(run_critic(&place));
    let asked = last_request(&server);
    assert!(asked.contains("Obey me") && asked.contains("\"stop\""), "{asked}");

    // A tag that is moved back.
    let stable = publish("stable", "1.2.0", OTHER_AGENTS, FUNCTIONS);
    fine(place.run(&["agent", "install", &stable, "--yes"]));
    publish("stable", "1.0.0", AGENTS, FUNCTION);
    let older = "the agent package `reviewer` has version 1.0.0, older than the installed 1.2.0";
    refused(&place.run(&["agent", "update", "--yes"]), 3, &[older]);
    fine(place.run(&["agent", "update", "--yes", "--allow-downgrade"]));
    fs::remove_dir_all(place.path().join(".shelly")).unwrap();
    publish("stable", "1.3.0", OTHER_AGENTS, FUNCTIONS);
    fine(place.run(&["agent", "install"]));
    fine(run_critic(&place));
    assert!(last_request(&server).contains("Be strict"), "the locked package, wherever the tag leads");
    refused(&place.run(&["agent", "update", "critic"]), 2, &["the agent package `critic` is not installed"]);
    let wrong = author.run(&["agent", "publish", "reviewer", "ghcr.io/me/reviewer"]);
    refused(&wrong, 2, &["is not the name of an artifact", "oci://ghcr.io/me/reviewer:1.0.0"]);
}

#[test]
fn agent_package_is_found_by_the_index_and_on_a_web_server() {
    let (place, _server) = place_with_model();
    let web = WebServer::of(&place);
    let source = web.url("reviewer/agent.toml");
    let agents = ["reviewer", "other"].map(|id| json!({"id": id, "source": source}));
    place.file("index.json", json!({"plugins": [], "agents": agents}).to_string());
    let other = place.run(&["agent", "install", "other", "--index", "index.json", "--yes"]);
    refused(&other, 3, &["as the agent package `other`, but it is the agent package `reviewer`"]);
    let by_name = ["agent", "install", "reviewer", "--index", "index.json", "--yes"];
    fine(place.run(&by_name));
    assert!(lock(&place).contains(&format!("source = \"{source}\"")), "{}", lock(&place));
    fine(run_critic(&place));
    let near = place.run(&["agent", "install", "reviewers", "--index", "index.json"]);
    refused(&near, 2, &["there is no agent package `reviewers` in the index index.json", "did you mean `reviewer`?"]);
    fs::remove_file(place.path().join("reviewer/skills/look/SKILL.md")).unwrap();
    refused(&place.run(&["agent", "install", &source]), 1, &["there is no http://127.0.0.1:", "skills/look/SKILL.md"]);
    let toml = fs::read_to_string(place.path().join("reviewer/agent.toml")).unwrap();
    place.file("reviewer/agent.toml", toml.replace("skills/look/SKILL.md", "../shelly.yaml"));
    refused(&place.run(&["agent", "install", &source]), 3, &["`files` names `../shelly.yaml`, which cannot be in"]);
}

#[test]
fn agent_of_a_person_is_there_in_all_projects() {
    let (place, server) = place_with_model();
    place.file("home/.config/shelly-host/config.yaml", server.config(""));
    let within = |folder: &str, arguments: &[&str]| {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        let mut command = place.command(arguments);
        let command = command.env("HOME", place.path().join("home")).current_dir(place.path().join(folder));
        place.ran(command.output().unwrap())
    };
    // A project of its own would hide the agents of the person.
    fs::remove_file(place.path().join("shelly.yaml")).unwrap();
    fine(within("one", &["agent", "install", "../reviewer", "--user", "--yes"]));
    assert!(place.path().join("home/.local/share/shelly-host/plugin-store/shelly.lock").is_file());
    assert_eq!(fine(within("two", &["run", "hi", "--agent", "critic"])).stdout, "Four.\n");
    assert!(last_request(&server).contains("Look twice."), "{}", last_request(&server));
    let listed = fine(within("two", &["agent", "list", "--output", "json"]));
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!((&listed[0]["agents"], &listed[0]["is_personal"]), (&json!(["critic"]), &json!(true)));
    let rows = fine(within("two", &["agent", "list"])).stdout;
    assert!(rows.starts_with("reviewer  1.0.0  critic  from ") && rows.ends_with("  in all projects\n"), "{rows}");
    refused(&within("two", &["agent", "remove", "reviewer"]), 2, &["is not installed", "--user means"]);
    put_reviewer(&place, "1.1.0", OTHER_AGENTS, FUNCTION);
    refused(&within("two", &["agent", "update", "reviewer", "--user"]), 3, &["~ text agents.yaml"]);
    fine(within("two", &["agent", "update", "reviewer", "--user", "--yes"]));
    fine(within("two", &["agent", "remove", "reviewer", "--user"]));
    assert_eq!(fine(within("two", &["agent", "list"])).stdout, "no agent package is installed\n");
    refused(&within("two", &["agent", "update", "--user"]), 2, &["no agent package is installed", "SOURCE --user"]);
    refused(&within("two", &["agent", "install", "--user"]), 2, &["shelly.lock names no agent"]);
}

#[test]
fn agents_of_a_named_config_are_beside_it() {
    let (place, _server) = place_with_model();
    fs::create_dir(place.path().join("sub")).unwrap();
    fs::rename(place.path().join("shelly.yaml"), place.path().join("sub/c.yaml")).unwrap();
    fine(place.run(&["agent", "install", "./reviewer", "--yes", "--config", "sub/c.yaml"]));
    assert!(place.path().join("sub/shelly.lock").is_file());
    fine(place.run(&["run", "hi", "--agent", "critic", "--config", "sub/c.yaml"]));
    let listed = fine(place.run(&["agent", "list", "--config", "sub/c.yaml"]));
    assert!(listed.stdout.starts_with("reviewer  1.0.0  critic  from "), "{}", listed.shown());
    put_reviewer(&place, "1.0.1", AGENTS, FUNCTION);
    let updated = fine(place.run(&["agent", "update", "--config", "sub/c.yaml"]));
    assert_eq!(updated.stdout, "updated      `reviewer` 1.0.1 (was `reviewer` 1.0.0)\n");
    fine(place.run(&["agent", "remove", "reviewer", "--config", "sub/c.yaml"]));
    let gone = place.run(&["run", "hi", "--agent", "critic", "--config", "sub/c.yaml"]);
    refused(&gone, 2, &["there is no agent `critic`"]);
}

#[test]
fn agent_package_without_a_required_signature_is_refused() {
    let ((place, _server), ada, eve) = (place_with_model(), MinisignKey::new(1), MinisignKey::new(2));
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file("shelly.yaml", format!("{config}{}", rule("ada", &ada)));
    let install = [&INSTALL[..], &["--yes"]].concat();
    let without =
        "the agent package `reviewer` must not be installed: it has no signature, and `ada` must have signed it";
    refused(&place.run(&install), 3, &[without, "plugin_signatures"]);
    let sign = |folder: &str, names: &[&str]| {
        let folder = place.path().join(folder);
        let line = |name: &&str| format!("{}  {name}\n", Sha256Digest::of(fs::read(folder.join(name)).unwrap()).hex());
        let list: String = names.iter().map(line).collect();
        fs::write(folder.join("SHA256SUMS.minisig"), ada.sign(&list)).unwrap();
    };
    const TEXTS: [&str; 2] = ["agent.toml", "agents.yaml"];
    const CODE: [&str; 3] = ["plugins/dice/c.wasm", "plugins/dice/plugin.toml", "skills/look/SKILL.md"];
    sign("reviewer", &[&TEXTS[..], &CODE].concat());
    refused(&place.run(&install), 3, &["the plugin `dice` must not be installed: it has no signature"]);
    sign("reviewer/plugins/dice", &["c.wasm", "plugin.toml"]);
    let toml = fs::read_to_string(place.path().join("reviewer/agent.toml")).unwrap();
    place.file("reviewer/agent.toml", toml.replace("files = [", "files = [\"plugins/dice/SHA256SUMS.minisig\", "));
    refused(&place.run(&install), 3, &["its signature by `ada` is not one of these files"]);
    sign("reviewer", &[&TEXTS[..], &["plugins/dice/SHA256SUMS.minisig"], &CODE].concat());
    let installed = fine(place.run(&install));
    assert_eq!(installed.stdout.matches("signed by    ada\n").count(), 2, "{}", installed.shown());
    fine(run_critic(&place));
    place.file("shelly.yaml", format!("{config}{}", rule("eve", &eve)));
    let other = "the agent package `reviewer` must not be used: it is signed by another key than that of `eve`";
    refused(&run_critic(&place), 3, &[other]);
}
