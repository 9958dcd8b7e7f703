//! The commands `config path` and `config show`.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};

use super::{Person, fine};
use crate::support::Ran;

fn value(ran: Ran) -> Value {
    serde_json::from_str(&fine(ran).stdout).unwrap()
}

#[test]
fn config_path_lists_each_file_and_why_it_is_not_used() {
    let person = Person::new("sessions: {record: false}\n");
    person.place.file("project/.git/HEAD", "");
    person.project("agents: [{name: a}]\n");
    let mut told = String::new();
    let mut tell = |what: &str, ran: Ran| told.push_str(&format!("## {what}\n{}\n", ran.shown()));
    tell("one beside the files", person.run(&["config", "path"]));
    person.place.file("project/.shelly/config.yaml", "agents: [{name: b}]\n");
    tell("one in .shelly too", person.run(&["config", "path"]));
    fs::create_dir_all(person.place.path().join("project/sub")).unwrap();
    let mut below = person.command(&["config", "path"]);
    tell("below it", person.place.ran(below.current_dir(person.place.path().join("project/sub")).output().unwrap()));
    tell("another is named", person.run(&["config", "path", "--config", "shelly.yaml"]));
    tell("none that is there is named", person.run(&["config", "path", "--config", "none.yaml"]));
    fs::remove_file(person.write("")).unwrap();
    let mut nowhere = person.command(&["config", "path"]);
    tell("no user-wide config", person.run(&["config", "path"]));
    tell("no place for one", person.place.ran(nowhere.env_remove("XDG_CONFIG_HOME").output().unwrap()));
    assert_snapshot!("config_path", told);
    person.write("");
    let listed = value(person.run(&["config", "path", "--output", "json"]));
    let root = "[DIR]/settings/shelly-host/config.yaml";
    assert_eq!(
        listed["files"][0],
        json!({"role": "user", "path": root, "exists": true, "used": true, "reason": null}),
        "{listed}"
    );
    assert_eq!(listed["files"][2]["reason"], ".shelly/config.yaml comes first", "{listed}");
}

#[test]
fn config_show_origin_names_file_and_line_of_each_setting() {
    let person = Person::new(
        "providers:\n  - name: main\n    kind: openai\n    model: m\n    api_key: sk-never-shown\nlimits: {time: 9s}\n",
    );
    person.project("agents:\n  - name: a\n    toolboxes: [notes]\n    options: {max_iterations: 7}\n");
    let ran = fine(person.run(&["config", "show", "--origin"]));
    let (user, project) = ("[DIR]/settings/shelly-host/config.yaml", "shelly.yaml");
    for line in [
        format!("providers.main.model: \"m\"  # {user}:4"),
        format!("providers.main.api_key: \"***\"  # {user}:5"),
        "providers.main.base_url: \"https://api.openai.com/v1\"  # default".into(),
        "providers.main.auth: {\"header\":\"authorization\",\"scheme\":\"Bearer\"}  # default: the default of the vendor"
            .into(),
        "default_provider: \"main\"  # default: the first provider".into(),
        format!("agents.a.toolboxes.notes.name: \"notes\"  # {project}:3"),
        format!("agents.a.options.max_iterations: 7  # {project}:4"),
        "agents.a.options.max_handoffs: 0  # default: no hand-over of its own task".into(),
        format!("limits.time: \"9s\"  # {user}:6"),
        "entry_agent: \"a\"  # default: the first agent".into(),
    ] {
        assert!(ran.stdout.lines().any(|found| found == line), "{line}\n{}", ran.stdout);
    }
    assert!(ran.stdout.lines().all(|line| line.contains("  # ")), "{}", ran.stdout);
    let settings = value(person.run(&["config", "show", "--origin", "--output", "json"]));
    let find = |key: &str| settings["settings"].as_array().unwrap().iter().find(|one| one["key"] == key).unwrap();
    assert_eq!(find("limits.time")["origin"], json!({"file": user, "line": 6}));
    assert_eq!(
        find("limits.cpu"),
        &json!({"key": "limits.cpu", "value": "30s", "origin": "default", "note": "default"})
    );
    // Without origins it is the config that a check has as JSON; as text that shows only what the files set.
    let (shown, checked) = (fine(person.run(&["config", "show"])), fine(person.run(&["config", "check"])));
    assert!(shown.stdout.contains("cpu: 30s # default") && !checked.stdout.contains("cpu:"), "{}", checked.stdout);
    assert!(checked.stdout.contains("settings/shelly-host/config.yaml; shelly-host config show prints"));
    let config = value(person.run(&["config", "show", "--output", "json"]))["config"].clone();
    assert_eq!(config, value(person.run(&["config", "check", "--output", "json"]))["config"]);
    for arguments in [&["config", "show"][..], &["config", "show", "--origin"], &["config", "show", "--output", "json"]]
    {
        assert!(!person.run(arguments).shown().contains("never-shown"));
    }
    // Another config, and plugins of a directory.
    person.place.file("project/c.yaml", "agents: [{name: c, plugins: {count-text: }}]\n");
    let named = ["config", "show", "--origin", "--config", "c.yaml", "--plugins", crate::PLUGIN_ROOT];
    assert!(fine(person.run(&named)).stdout.contains("agents.c.name: \"c\"  # c.yaml:1\n"));
    person.project("agents: [{name: a, colour: red}]\n");
    let ran = person.run(&["config", "show", "--origin"]);
    assert!(
        ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains("there is no key `colour`"),
        "{}",
        ran.shown()
    );
}

#[test]
fn theme_is_shown_with_its_origin_and_refused_in_a_project() {
    let person = Person::new("# mine\ntheme: light\n");
    let ran = fine(person.run(&["config", "show", "--origin"]));
    let line = "theme: \"light\"  # [DIR]/settings/shelly-host/config.yaml:2";
    assert!(ran.stdout.lines().any(|found| found == line), "{}", ran.shown());
    person.project("agents: [{name: a}]\ntheme: dark\n");
    let ran = person.run(&["config", "check"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    for says in ["`theme` is a setting of a person, not of a project (shelly.yaml, line 2)", "user-wide config"] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    person.write("theme: blue\n");
    person.project("");
    let ran = person.run(&["config", "show"]);
    assert!(ran.code == 2 && ran.stderr.contains("`theme` cannot be `blue`"), "{}", ran.shown());
}
