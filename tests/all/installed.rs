//! The folders of the plugins that come with the host, and what plugins are granted there.

use std::{fs, io::Write, path::PathBuf, process::Command};

use flate2::{Compression, write::ZlibEncoder};
use serde_json::json;
use shelly_host::{
    event::RunCx,
    plugin::{
        ComponentCompiler, EmbeddedPlugin, Limits, PluginCatalog, PluginLocation, PluginPackage, SHIPPED_PLUGINS,
        ShippedPlugins,
    },
};

use crate::{
    PLUGIN_ROOT,
    functions::{call, tools_of},
    support::{Place, Ran, copy},
};

const CONFIG: &str = "providers: [{name: m, kind: ollama, model: m, context_window: 8192}]\nagents:\n  - name: a\n";

/// The program with this home, in which its person's own plugins are.
fn run(place: &Place, program: Option<&PathBuf>, arguments: &[&str]) -> Ran {
    let found = place.command(arguments);
    let mut command =
        Command::new(program.map_or_else(|| found.get_program().into(), |path| path.clone().into_os_string()));
    command.args(found.get_args()).current_dir(place.path()).env_clear().env("HOME", place.path().join("home"));
    place.ran(command.output().unwrap())
}

fn check(place: &Place, program: Option<&PathBuf>) -> Ran {
    run(place, program, &["config", "check", "--config", "c.yaml"])
}

fn show(place: &Place, program: Option<&PathBuf>) -> Ran {
    run(place, program, &["config", "show", "--config", "c.yaml"])
}

/// Puts a copy of a plugin into the person's own data.
fn put(place: &Place, id: &str) -> PathBuf {
    let to = place.path().join("home/.local/share/shelly-host/plugins").join(id);
    copy(&PathBuf::from(PLUGIN_ROOT).join(id), &to, &[]);
    to
}

/// The program alone, as `cargo install` puts it: nothing of it lies beside it.
fn installed_program(place: &Place) -> PathBuf {
    let to = place.path().join("cargo/bin/shelly-host");
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_shelly-host-under-test"));
    // A copy of it is large; another name of the same file is none.
    fs::hard_link(&program, &to).or_else(|_| fs::copy(&program, &to).map(drop)).unwrap();
    to
}

#[test]
fn copies_of_shipped_plugins_keep_their_default_grants() {
    let place = Place::new();
    place.file("c.yaml", format!("{CONFIG}    effects: [compact]\n"));
    let shipped = show(&place, None);
    assert_eq!(shipped.code, 0, "{}", shipped.shown());
    assert!(shipped.stdout.contains("ask-model"), "it has the powers that it asks for: {}", shipped.shown());
    let folder = put(&place, "compact");
    let copied = show(&place, None);
    assert_eq!(copied.stdout, shipped.stdout, "{}", copied.shown());
    assert!(check(&place, None).stderr.ends_with("c.yaml: ok\n"), "{}", copied.shown());
    // The person's own plugin of that name is another one: it is not used, and that is said.
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    fs::write(folder.join("plugin.toml"), manifest.replace("description = \"", "description = \"My own. ")).unwrap();
    assert_eq!(show(&place, None).stdout, shipped.stdout);
    let own = check(&place, None);
    let said = "warning: the plugin `compact` in [DIR]/home/.local/share/shelly-host/plugins/compact is not used, since a \
                plugin of this id comes with shelly-host; to use yours, name its directory with --plugins";
    assert!(own.stderr.contains(said), "{}", own.shown());
    // In a directory that is named it is used, and does not get what the shipped one gets.
    let directory = folder.parent().unwrap().to_str().unwrap();
    let named = run(&place, None, &["config", "show", "--config", "c.yaml", "--plugins", directory]);
    assert!(named.code == 0 && !named.stdout.contains("ask-model"), "{}", named.shown());
    let named = run(&place, None, &["config", "check", "--config", "c.yaml", "--plugins", directory]);
    assert!(!named.stderr.contains("is not used"), "{}", named.shown());
    fs::write(folder.join("plugin.toml"), manifest).unwrap();
    let component = folder.join("compact.wasm");
    fs::copy(PathBuf::from(PLUGIN_ROOT).join("progress/progress.wasm"), &component).unwrap();
    assert!(check(&place, None).stderr.contains(said), "other code, the same manifest");
    // Where the shipped one is not installed it takes its place, without the default grants.
    fs::copy(PathBuf::from(PLUGIN_ROOT).join("compact/compact.wasm"), &component).unwrap();
    let program = installed_program(&place);
    let alone = show(&place, Some(&program));
    assert!(alone.code == 0 && !alone.stdout.contains("ask-model"), "{}", alone.shown());
    let alone = check(&place, Some(&program));
    assert!(
        alone.stderr.contains("does not count as the one that comes with shelly-host, so it gets no default grants"),
        "{}",
        alone.shown()
    );
}

#[test]
fn unused_plugin_is_named_once_to_the_default_agent() {
    let place = Place::new();
    let folder = put(&place, "compact");
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    fs::write(folder.join("plugin.toml"), manifest.replace("description = \"", "description = \"My own. ")).unwrap();
    place.file("c.yaml", "providers: [{name: m, kind: plugin, plugin: offline-model}]\n");
    let ran = run(&place, None, &["run", "--config", "c.yaml", "How many words are in \"one two\"?"]);
    let named =
        ran.stderr.matches("the plugin `compact` in [DIR]/home/.local/share/shelly-host/plugins/compact").count();
    assert_eq!((ran.code, named), (0, 1), "{}", ran.shown());
}

#[test]
fn default_agent_takes_toolboxes_from_named_directories() {
    let place = Place::new();
    let program = installed_program(&place);
    // The home folder is below this one, so that the agent gets no toolboxes for files.
    place.file("c.yaml", "providers: [{name: m, kind: ollama, model: m, context_window: 8192}]\n");
    let without = check(&place, Some(&program));
    let told = "the default agent is without these toolboxes, because plugins of them are not found: `http` (needs `fetch`); \
                build them with `cargo plugins`";
    assert!(without.code == 0 && without.stderr.contains(told), "{}", without.shown());
    assert!(!without.stdout.contains("fetch"), "{}", without.shown());
    let with = run(&place, Some(&program), &["config", "show", "--config", "c.yaml", "--plugins", PLUGIN_ROOT]);
    assert!(with.code == 0 && with.stdout.contains("name: http"), "{}", with.shown());
    assert!(!with.stderr.contains("the default agent is without"), "{}", with.shown());
}

#[test]
fn default_toolboxes_grant_nothing_to_unshipped_plugins() {
    let place = Place::new();
    let program = installed_program(&place);
    let ids = ["filesystem", "search", "fetch", "count-text", "offline-model"];
    ids.iter().for_each(|id| drop(put(&place, id)));
    place.file("project/a.txt", "a");
    let ask = |more: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["run", "--trust", "--output", "events", "--model", "offline-model"]).args(more);
        command.arg("How many words are in \"one two three\"?").current_dir(place.path().join("project")).env_clear();
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let ran = command.env("HOME", place.path().join("home")).env("SHELLY_CACHE_DIR", cache).output().unwrap();
        let ran = place.ran(ran);
        assert!(ran.code == 0 && ran.stdout.contains("has 3 words"), "{}", ran.shown());
        ran
    };
    let own = place.path().join("home/.local/share/shelly-host/plugins");
    let ran = ask(&[]);
    assert!(!ran.stdout.contains("propose-files"), "{}", ran.shown());
    for says in [
        "the plugins `count-text`, `fetch`, `filesystem`, `search` in [DIR]/home/.local/share/shelly-host/plugins do not count as those \
         that come with shelly-host, so they get no default grants, only those of the config",
        "without the toolboxes `filesystem`, `search`, `http`, whose grants they would get: to grant these, name the toolboxes \
         in a config or the directory with --plugins",
        "to use what comes with shelly-host, copy its plugins to [DIR]/cargo/lib/shelly-host/plugins",
    ] {
        assert!(ran.stdout.contains(says), "{says}: {}", ran.shown());
    }
    assert_eq!(ran.stdout.matches("no default grants").count(), 1, "once for all: {}", ran.shown());
    // Who names their directory means them.
    let named = ask(&["--plugins", own.to_str().unwrap()]);
    assert!(named.stdout.contains("propose-files") && !named.stdout.contains("no default grants"), "{}", named.shown());
    // With the shipped ones there, copies of them count as those.
    for id in ids {
        copy(&PathBuf::from(PLUGIN_ROOT).join(id), &place.path().join("cargo/lib/shelly-host/plugins").join(id), &[]);
    }
    let shipped = ask(&[]);
    assert!(shipped.stdout.contains("propose-files"), "{}", shipped.shown());
    assert!(!shipped.stdout.contains("no default grants"), "{}", shipped.shown());
}

#[test]
fn plugin_of_a_project_does_not_replace_a_shipped_one() {
    let place = Place::new();
    place.file("c.yaml", format!("{CONFIG}    effects: [compact]\n"));
    let shipped = show(&place, None);
    copy(&PathBuf::from(PLUGIN_ROOT).join("progress"), &place.path().join(".shelly/plugins/compact"), &[]);
    assert_eq!(show(&place, None).stdout, shipped.stdout);
    let with_own = check(&place, None);
    assert!(
        with_own.stderr.contains("the plugin `compact` in [DIR]/.shelly/plugins/compact is not used"),
        "{}",
        with_own.shown()
    );
}

/// A shipped plugin as a release build embeds it.
fn embedded(id: &'static str, size: Option<usize>) -> &'static [EmbeddedPlugin] {
    let folder = PathBuf::from(PLUGIN_ROOT).join(id);
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    let component = fs::read(folder.join(format!("{}.wasm", id.replace('-', "_")))).unwrap();
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&component).unwrap();
    let compressed = encoder.finish().unwrap().leak();
    let size = size.unwrap_or(component.len());
    vec![EmbeddedPlugin { id, manifest: manifest.leak(), compressed, size }].leak()
}

fn catalog_of(embedded: &'static [EmbeddedPlugin], installed: Vec<PathBuf>) -> PluginCatalog {
    let shipped = ShippedPlugins { embedded, ..ShippedPlugins::default() };
    PluginCatalog::new(&ComponentCompiler::in_process()).with_shipped(shipped, installed)
}

#[tokio::test]
async fn embedded_plugin_is_found_by_its_id_and_called() {
    let mut catalog = catalog_of(embedded("count-text", None), Vec::new());
    catalog.add_by_id(&[], ["count-text", "progress"]);
    assert_eq!(catalog.iter().map(|(id, _)| id).collect::<Vec<_>>(), ["count-text"]);
    let entry = catalog.entry("count-text").unwrap();
    assert!(catalog.is_shipped(entry) && entry.location().path().is_none(), "{entry:?}");
    let package = catalog.get("count-text").unwrap().unwrap();
    assert_eq!(package.digest, PluginPackage::read(&PathBuf::from(PLUGIN_ROOT).join("count-text")).unwrap().digest);
    let tools = tools_of((**package).clone(), Limits::default()).await;
    let counted = call(&tools, &RunCx::new("helper"), "count_text", json!({"text": "one two three"})).await;
    assert!(counted.contains('3'), "{counted}");
}

#[test]
fn embedded_plugin_outranks_another_of_its_id() {
    let place = Place::new();
    let directory = vec![place.path().join("own")];
    let own = directory[0].join("count-text");
    copy(&PathBuf::from(PLUGIN_ROOT).join("count-text"), &own, &[]);
    for (is_changed, outranked) in [(false, 0), (true, 1)] {
        if is_changed {
            let manifest = fs::read_to_string(own.join("plugin.toml")).unwrap();
            fs::write(own.join("plugin.toml"), manifest.replace("description = \"", "description = \"My own. "))
                .unwrap();
        }
        let mut by_id = catalog_of(embedded("count-text", None), directory.clone());
        by_id.add_by_id(&directory, ["count-text"]);
        let mut all = catalog_of(embedded("count-text", None), directory.clone());
        all.add_all(&directory);
        for catalog in [by_id, all] {
            assert!(matches!(catalog.entry("count-text").unwrap().location(), PluginLocation::Program(_)));
            assert_eq!(catalog.outranked().len(), outranked);
        }
        // Where its directory is named, it is used. A copy of the shipped plugin counts as that.
        let named = PluginCatalog::scan(&directory, &ComponentCompiler::in_process()).unwrap();
        let mut named = named.with_shipped(
            ShippedPlugins { embedded: embedded("count-text", None), ..ShippedPlugins::default() },
            directory.clone(),
        );
        named.add_by_id(&directory, ["count-text"]);
        let entry = named.entry("count-text").unwrap();
        assert_eq!((entry.location().path(), named.is_shipped(entry)), (Some(&*own), !is_changed));
    }
}

#[test]
fn damaged_embedded_plugin_is_an_error() {
    for size in [0, 10, usize::MAX / 2] {
        let mut catalog = catalog_of(embedded("count-text", Some(size)), Vec::new());
        catalog.add_by_id(&[], ["count-text"]);
        let error = catalog.get("count-text").unwrap().unwrap_err().report();
        let text = format!("{} {:?}", error.message, error.causes);
        assert!(text.contains("count-text of this program") && text.contains("install the program again"), "{text}");
    }
}

#[test]
fn program_without_plugins_explains_how_to_get_them() {
    let place = Place::new();
    let program = installed_program(&place);
    place.file("c.yaml", format!("{CONFIG}    toolboxes: [filesystem]\n    effects: []\n"));
    let how = "build them with `cargo plugins` in a checkout of shelly-host, then name its target/plugins with --plugins, or copy \
               that folder to [DIR]/cargo/lib/shelly-host/plugins";
    let missing = run(&place, Some(&program), &["run", "--config", "c.yaml", "hi"]);
    assert_eq!(missing.code, 3, "{}", missing.shown());
    assert!(missing.stderr.contains("error: the plugin `filesystem` is not installed"), "{}", missing.shown());
    assert!(missing.stderr.contains(how), "{}", missing.shown());
    // Without its own effects an agent is told to have none.
    place.file("c.yaml", CONFIG);
    let none = check(&place, Some(&program));
    assert!(none.code == 0 && none.stderr.ends_with("c.yaml: ok, 1 warning\n"), "{}", none.shown());
    let told = "agents.a: no effect shortens the conversation, because the shipped plugins `trim-tool-results`, \
         `observation-mask`, `compact` are not installed";
    assert!(none.stderr.contains(told) && none.stderr.contains(how), "{}", none.shown());
    place.file("c.yaml", format!("{CONFIG}    effects: []\n"));
    assert!(check(&place, Some(&program)).stderr.ends_with("c.yaml: ok\n"), "it needs none");
    // Where the message says, they are those that come with the host.
    place.file("c.yaml", CONFIG);
    for id in ["trim-tool-results", "observation-mask", "compact"] {
        copy(&PathBuf::from(PLUGIN_ROOT).join(id), &place.path().join("cargo/lib/shelly-host/plugins").join(id), &[]);
    }
    assert!(check(&place, Some(&program)).stderr.ends_with("c.yaml: ok\n"));
    let all = show(&place, Some(&program));
    assert!(all.stdout.contains("kind: compact"), "{}", all.shown());
    assert_eq!(all.stdout, show(&place, None).stdout, "as beside the program that was built here");
}

#[test]
fn shipped_model_that_is_not_installed_is_named() {
    let place = Place::new();
    let program = installed_program(&place);
    let ran = run(&place, Some(&program), &["run", "--model", "offline-model", "hi"]);
    assert_eq!(ran.code, 3, "{}", ran.shown());
    for says in [
        "error: the plugin `offline-model` is not installed",
        "the plugin comes with shelly-host",
        "or copy that folder to [DIR]/cargo/lib/shelly-host/plugins",
    ] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
}

#[test]
fn shipped_plugin_ids_match_the_built_plugins() {
    let mut built: Vec<_> =
        fs::read_dir(PLUGIN_ROOT).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    built.sort();
    assert_eq!(built, SHIPPED_PLUGINS);
}
