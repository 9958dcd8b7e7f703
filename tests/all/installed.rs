//! The folders of the plugins that come with the host, and what plugins are granted there.

use std::{fs, path::PathBuf, process::Command};

use shelly_host::plugin::SHIPPED_PLUGINS;

use crate::{
    PLUGIN_ROOT,
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
    let shipped = check(&place, None);
    assert_eq!(shipped.code, 0, "{}", shipped.shown());
    assert!(shipped.stdout.contains("ask-model"), "it has the powers that it asks for: {}", shipped.shown());
    let folder = put(&place, "compact");
    let copied = check(&place, None);
    assert_eq!(copied.stdout, shipped.stdout, "{}", copied.shown());
    assert!(copied.stderr.ends_with("c.yaml: ok\n"), "{}", copied.shown());
    // The person's own plugin of that name is another one, and that is said.
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap();
    fs::write(folder.join("plugin.toml"), manifest.replace("description = \"", "description = \"My own. ")).unwrap();
    let own = check(&place, None);
    assert_eq!(own.code, 0, "{}", own.shown());
    assert!(!own.stdout.contains("ask-model"), "{}", own.shown());
    let said = "warning: the plugin `compact` in [DIR]/home/.local/share/shelly-host/plugins/compact is not the one \
                that comes with shelly-host";
    assert!(
        own.stderr.contains(said) && own.stderr.contains("remove this folder to use the shipped one"),
        "{}",
        own.shown()
    );
    fs::write(folder.join("plugin.toml"), manifest).unwrap();
    let component = folder.join("compact.wasm");
    fs::copy(PathBuf::from(PLUGIN_ROOT).join("progress/progress.wasm"), &component).unwrap();
    assert!(check(&place, None).stderr.contains(said), "other code, the same manifest");
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
    let all = check(&place, Some(&program));
    assert!(all.stderr.ends_with("c.yaml: ok\n") && all.stdout.contains("kind: compact"), "{}", all.shown());
    assert_eq!(all.stdout, check(&place, None).stdout, "as beside the program that was built here");
}

#[test]
fn shipped_plugin_ids_match_the_built_plugins() {
    let mut built: Vec<_> =
        fs::read_dir(PLUGIN_ROOT).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    built.sort();
    assert_eq!(built, SHIPPED_PLUGINS);
}
