//! Plugins that cannot be used, and what `plugin list` and `plugin inspect` say of plugins. The messages are in `snapshots`.

use std::fs;

use insta::assert_snapshot;
use serde_json::Value;

use super::{HOLLOW, RUN, Told, clean, error_of, helper};
use crate::{PLUGIN_ROOT, guest, plugin, support::Place};

const TOOL: &str = "kinds = [\"tool\"]\n";

#[test]
fn invalid_plugin_directory_is_reported() {
    let place = Place::new();
    fs::create_dir(place.path().join("empty")).unwrap();
    place.file("file", "");
    place.plugin("one", TOOL, HOLLOW);
    let mut told = Told::default();
    for (case, directory) in [
        ("it is empty", "empty"),
        ("it is a file", "file"),
        ("it does not exist", "missing"),
        ("it is a plugin's folder", "plugins/one"),
    ] {
        told.fails(&place, case, 2, &["run", "hi", "--plugins", directory]);
    }
    place.file("shelly.yaml", "plugin_dirs: [missing]\n");
    told.fails(&place, "the config's does not exist", 2, &["run", "hi"]);
    assert_snapshot!(told.0);
}

/// A component of text, as bytes.
fn component(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

fn importing(import: &str) -> Vec<u8> {
    component(&format!(
        r#"(component (import "{import}" (instance)) (instance $t) (export "shelly:plugin/tool@0.1.0" (instance $t)))"#
    ))
}

/// A tool of the contract, in a component that uses the async ABI.
const ASYNC_TOOL: &str =
    r#"(component (type (future u8)) (instance $i) (export "shelly:plugin/tool@0.1.0" (instance $i)))"#;

#[test]
fn unusable_plugin_is_reported() {
    let exporting = |name: &str| component(&format!(r#"(component (instance $i) (export "{name}" (instance $i)))"#));
    let hollow = component(HOLLOW);
    let mut told = Told::default();
    for (case, manifest, bytes) in [
        ("a core module", TOOL, component("(module)")),
        ("cut off", TOOL, hollow[..hollow.len() - 7].to_vec()),
        ("text", TOOL, b"#!/bin/sh\n".to_vec()),
        ("an empty file", TOOL, Vec::new()),
        ("another contract", TOOL, exporting("shelly:plugin/tool@0.9.0")),
        ("no contract's", TOOL, exporting("some:other/interface@0.2.0")),
        ("the async ABI", TOOL, component(ASYNC_TOOL)),
        ("a feature that the engine lacks", TOOL, component("(component (core module (memory 1 1 shared)))")),
        ("a web page", TOOL, b"<!DOCTYPE html>".to_vec()),
        ("no kind", TOOL, component("(component)")),
        ("another kind than it says", "kinds = [\"effect\"]\n[effect]\nphases = [\"before-model\"]\n", hollow.clone()),
        ("a coordinator, for an agent", "kinds = [\"coordinator\"]\n", exporting("shelly:plugin/coordinator@0.1.0")),
        ("an import of a later version", TOOL, importing("shelly:plugin/process@0.1.0")),
        ("an import that nobody has", TOOL, importing("wasi:sockets/tcp@0.2.0")),
        ("an import that it does not ask for", TOOL, importing("shelly:plugin/clock@0.1.0")),
        ("an import of another kind", TOOL, importing("shelly:plugin/sink@0.1.0")),
        ("nothing behind the name of its kind", TOOL, hollow.clone()),
        ("manifest: not TOML", "kinds = [\"tool\"\n", hollow.clone()),
        ("manifest: unknown key", "kinds = [\"tool\"]\nlicence = \"MIT\"\n", hollow.clone()),
        ("manifest: unknown kind", "kinds = [\"toll\"]\n", hollow.clone()),
        ("manifest: unknown capability", "kinds = [\"tool\"]\n[wants]\nnetwork = true\n", hollow.clone()),
        ("manifest: no kinds", "", hollow.clone()),
    ] {
        let place = Place::new();
        place.plugin_bytes("bad", manifest, &bytes);
        place.file("shelly.yaml", helper("    plugins: {bad: }\n  - name: other\n"));
        told.fails(&place, case, 3, &[&RUN[..], &["--plugins", "plugins"]].concat());
        let other = place.run(&[&RUN[..], &["--plugins", "plugins", "--agent", "other"]].concat());
        assert_eq!(other.code, 0, "who does not need it is not stopped\n{}", other.shown());
    }

    let place = Place::new();
    place.file("shelly.yaml", helper("    plugins: {bad: }\n"));
    let arguments = [&RUN[..], &["--plugins", "plugins"]].concat();
    place.file("plugins/bad/bad.wasm", component(HOLLOW));
    told.fails(&place, "a folder without a manifest", 3, &arguments);
    fs::remove_file(place.path().join("plugins/bad/bad.wasm")).unwrap();
    place.file("plugins/bad/plugin.toml", "id = \"bad\"\ncomponent = \"bad.wasm\"\nkinds = [\"tool\"]\n");
    told.fails(&place, "the component is missing", 3, &arguments);
    fs::create_dir(place.path().join("plugins/bad/bad.wasm")).unwrap();
    told.fails(&place, "the component is a folder", 3, &arguments);
    place.file("plugins/bad/plugin.toml", "# padding\n".repeat(10_000));
    told.fails(&place, "the manifest is too large", 3, &arguments);
    place.file("plugins/bad/plugin.toml", b"id = \"caf\xe9\"\n");
    told.fails(&place, "the manifest is not UTF-8", 3, &arguments);
    assert_snapshot!(told.0);
}

#[test]
fn duplicate_plugin_id_fails_only_agents_that_need_it() {
    let place = Place::new();
    place.file("shelly.yaml", helper("    plugins: {twin: }\n  - name: other\n"));
    let mut told = Told::default();
    for (case, second) in [("in one directory", "plugins/twin-2"), ("in two directories", "more/twin")] {
        place.plugin("twin", TOOL, HOLLOW);
        place.file(&format!("{second}/plugin.toml"), format!("id = \"twin\"\ncomponent = \"c.wasm\"\n{TOOL}"));
        place.file(&format!("{second}/c.wasm"), component(HOLLOW));
        let mut directories = vec!["--plugins", "plugins"];
        if second.starts_with("more") {
            directories.extend(["--plugins", "more"]);
        }
        told.fails(&place, case, 3, &[&RUN[..], &directories].concat());
        let other = place.run(&[&RUN[..], &directories, &["--agent", "other"]].concat());
        assert_eq!(other.code, 0, "{}", other.shown());
        let listed = place.run(&[&["plugin", "list"][..], &directories].concat());
        assert_eq!(listed.code, 3, "{}", listed.shown());
        assert!(listed.stdout.contains("twin    unusable"), "{}", listed.shown());
        assert!(error_of(&listed).contains("two plugins have the id `twin`"), "{}", listed.shown());
        fs::remove_dir_all(place.path().join(second)).unwrap();
    }
    let twice = place.run(&["plugin", "list", "--plugins", "plugins", "--plugins", "./plugins/../plugins"]);
    assert_eq!(twice.code, 0, "one directory, named twice, holds no plugin twice\n{}", twice.shown());
    assert_snapshot!(told.0);
}

#[test]
fn broken_manifest_does_not_affect_other_plugins() {
    let place = Place::new();
    place.file("a/count-text/plugin.toml", "id = ");
    place.file("shelly.yaml", helper("    plugins: {count-text: }\n"));
    let ran = place.run(&[&RUN[..], &["--plugins", "a"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.shown());
}

#[test]
fn missing_grant_error_shows_the_config_line() {
    let place = Place::new();
    place.file("docs/note.txt", "one two three");
    let mut told = Told::default();
    let with = |line: &str| helper(&format!("    plugins:\n      read-files: {{{line}}}\n"));
    let task = ["run", "Show me docs/note.txt", "--plugins", PLUGIN_ROOT];
    place.file("shelly.yaml", with(""));
    told.fails(&place, "not granted", 3, &task);
    place.file("shelly.yaml", with("files: [{path: nowhere, mode: read}]"));
    told.fails(&place, "the granted folder is missing", 3, &task);
    place.file("shelly.yaml", with("files: [{path: docs/note.txt, mode: read}]"));
    told.fails(&place, "the granted folder is a file", 3, &task);
    // The line of the hint, with a folder in it.
    place.file("shelly.yaml", with("files: [{path: docs, mode: read}]"));
    let ran = place.run(&task);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stdout.contains("one two three"), "{}", ran.shown());

    place.plugin_bytes(
        "ticking",
        "kinds = [\"tool\"]\n[wants]\nclock = true\n",
        &importing("shelly:plugin/clock@0.1.0"),
    );
    place.file("shelly.yaml", helper("    plugins: {ticking: }\n"));
    told.fails(&place, "the clock is not granted", 3, &[&RUN[..], &["--plugins", "plugins"]].concat());
    let provider = component(
        r#"(component (import "shelly:plugin/random@0.1.0" (instance)) (instance $p)
            (export "shelly:plugin/provider@0.1.0" (instance $p)))"#,
    );
    place.plugin_bytes("dice", "kinds = [\"provider\"]\n[wants]\nrandom = true\n", &provider);
    place.file("shelly.yaml", "providers: [{name: lucky, kind: plugin, plugin: dice}]\nagents: [{name: a}]\n");
    told.fails(&place, "chance is not granted to a model", 3, &["run", "hi", "--plugins", "plugins"]);
    assert_snapshot!(told.0);
}

#[test]
fn default_agent_leaves_out_unusable_plugins_with_a_warning() {
    let place = Place::new();
    place.plugin_bytes("broken", TOOL, b"no component");
    place.plugin_bytes(
        "ticking",
        "kinds = [\"tool\"]\n[wants]\nclock = true\n",
        &importing("shelly:plugin/clock@0.1.0"),
    );
    let arguments = [&RUN[..], &["--plugins", "plugins", "--model", "offline-model"]].concat();
    let ran = place.run(&arguments);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    // One of our effects stands for all of them.
    let is_shown = |line: &&str| !line.contains("powers: [") || line.contains("`loop-detect`");
    let warnings = ran.stderr.split_inclusive('\n').take_while(|line| !line.contains(" on "));
    assert_snapshot!(clean(&warnings.filter(is_shown).collect::<String>()));

    let ran = place.run(&[&arguments[..], &["--output", "events"]].concat());
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((names[0], names[1]), ("stream_started", "warning"), "{}", ran.shown());
    assert_eq!(names.last(), Some(&"result"), "{}", ran.shown());
}

#[test]
fn plugin_list_includes_broken_plugins() {
    let place = Place::new();
    place.plugin("tools", "kinds = [\"tool\"]\ndescription = \"Has no tools \\u001b[31m yet.\"\n", HOLLOW);
    let wants = "kinds = [\"tool\"]\n[wants]\nclock = true\nfiles = \"read\"\n";
    place.plugin_bytes("wanting", wants, &importing("shelly:plugin/clock@0.1.0"));
    place.plugin_bytes("broken", TOOL, b"no component");
    let ran = place.run(&["plugin", "list", "--plugins", "plugins"]);
    assert_snapshot!(ran.shown());
    let ran = place.run(&["plugin", "list", "--plugins", "plugins", "--output", "json"]);
    assert_eq!(ran.code, 3, "{}", ran.shown());
    let rows: Vec<Value> = serde_json::from_str(&ran.stdout).unwrap();
    let ids: Vec<_> = rows.iter().map(|row| (row["id"].as_str().unwrap(), row["error"].is_object())).collect();
    assert_eq!(ids, [("broken", true), ("tools", false), ("wanting", false)]);
}

#[test]
fn plugin_inspect_output_matches_its_snapshot() {
    let place = Place::new();
    let mut shown = String::new();
    let folder = format!("{PLUGIN_ROOT}/read-files");
    for path in [&*folder, plugin::LOOP_DETECT, guest::PROBE] {
        let ran = place.run(&["plugin", "inspect", path]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        // What changes with every build.
        let stays = |line: &&str| !line.starts_with("size ") && !line.starts_with("digest ");
        shown.extend(ran.stdout.lines().filter(stays).flat_map(|line| [line, "\n"]));
        shown.push('\n');
    }
    assert_snapshot!(shown);
}

#[test]
fn plugin_list_and_inspect_report_missing_plugins() {
    let place = Place::new();
    place.plugin("one", TOOL, HOLLOW);
    let mut told = Told::default();
    told.fails(&place, "no such file", 2, &["plugin", "inspect", "missing"]);
    told.fails(&place, "a directory of plugins", 2, &["plugin", "inspect", "plugins"]);
    told.fails(&place, "not a plugin", 3, &["plugin", "inspect", "plugins/one/plugin.toml"]);
    told.fails(&place, "hollow", 3, &["plugin", "inspect", "plugins/one"]);
    assert_snapshot!(told.0);
}
