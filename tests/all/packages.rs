//! Plugins and agents that are handed to others: installed, locked, updated and removed by the program.

mod agents;
mod registries;
mod registry;
mod sources;
mod updates;

use std::fs;

use shelly_host::digest::Sha256Digest;
use shelly_test_support::MinisignKey;

use crate::support::{Place, Ran};

/// A component with one function, which returns nothing.
pub const FUNCTION: &str = "(component (core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
                            (func (export \"go\") (canon lift (core func $i \"f\"))))";

/// Another one, with a second function.
pub const FUNCTIONS: &str = "(component (core module $m (func (export \"f\"))) (core instance $i (instantiate $m)) \
                             (func (export \"go\") (canon lift (core func $i \"f\"))) \
                             (func (export \"stop\") (canon lift (core func $i \"f\"))))";

/// A config whose agent has the plugin `dice`.
pub const CONFIG: &str = "providers: [{name: m, kind: ollama, model: m, context_window: 8192}]\n\
                      agents: [{name: a, plugins: {dice: }}]\n";

/// Writes the plugin `dice` of this version, with these wants.
pub fn put_dice(place: &Place, version: &str, wants: &str, component: &str) {
    let manifest = format!("version = \"{version}\"\nkinds = [\"functions\"]\n[wants]\n{wants}\n");
    place.plugin("dice", &manifest, component);
}

/// Loads the plugins of the config.
pub fn check(place: &Place) -> Ran {
    place.run(&["config", "check", "--load", "--trust"])
}

pub fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

/// Asserts that a command is refused with this exit code, and says all of this on standard error.
pub fn refused(ran: &Ran, code: i32, says: &[&str]) {
    assert_eq!(ran.code, code, "{}", ran.shown());
    for said in says {
        assert!(ran.stderr.contains(said), "{said}: {}", ran.shown());
    }
}

#[test]
fn installed_plugin_runs_until_it_is_altered() {
    let place = Place::new();
    place.file("shelly.yaml", CONFIG);
    put_dice(&place, "1.0.0", "", FUNCTION);
    let installed = fine(place.run(&["plugin", "install", "plugins/dice"]));
    for says in
        ["installed    `dice` 1.0.0 ([DIR]/shelly.lock names it", "\nsource       plugins/dice\n", "\ntools        go"]
    {
        assert!(installed.stdout.contains(says), "{says}: {}", installed.shown());
    }
    fs::rename(place.path().join("plugins"), place.path().join("away")).unwrap();
    fine(check(&place));
    let store = place.path().join(".shelly/plugin-store/sha256");
    let folder = fs::read_dir(&store).unwrap().next().unwrap().unwrap().path();
    place.file("other.wasm", wat::parse_str(FUNCTIONS).unwrap());
    fs::copy(place.path().join("other.wasm"), folder.join("c.wasm")).unwrap();
    let altered = ["c.wasm is sha256:", ", but [DIR]/shelly.lock names sha256:", "plugin install` without a name gets"];
    refused(&check(&place), 2, &altered);
    // It comes from where it came from before, and only as it was.
    refused(&place.run(&["plugin", "install"]), 2, &["cannot read [DIR]/plugins/dice", "cause: no such file"]);
    fs::rename(place.path().join("away"), place.path().join("plugins")).unwrap();
    let restored = fine(place.run(&["plugin", "install"]));
    assert!(restored.stdout.starts_with("installed    `dice` 1.0.0"), "{}", restored.shown());
    fine(check(&place));
    let there = fine(place.run(&["plugin", "install"]));
    assert!(there.stdout.starts_with("in store     `dice` 1.0.0"), "{}", there.shown());
    fs::remove_dir_all(&store).unwrap();
    refused(
        &check(&place),
        2,
        &["plugin `dice` is in [DIR]/shelly.lock, but not in", "plugin install` without a name"],
    );
    put_dice(&place, "1.0.0", "", FUNCTIONS);
    let other = ["plugins/dice has another plugin than [DIR]/shelly.lock names", "have the digest sha256:"];
    refused(&place.run(&["plugin", "install"]), 3, &other);
}

#[test]
fn plugin_of_a_person_is_there_in_all_projects() {
    let place = Place::new();
    let run = |folder: &str, arguments: &[&str]| {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        let mut command = place.command(arguments);
        let command = command.env("HOME", place.path().join("home")).current_dir(place.path().join(folder));
        place.ran(command.output().unwrap())
    };
    place.file("one/dice.wasm", wat::parse_str(FUNCTION).unwrap());
    fine(run("one", &["plugin", "install", "dice.wasm", "--user"]));
    assert!(place.path().join("home/.local/share/shelly-host/plugin-store/shelly.lock").is_file());
    let listed = fine(run("two", &["plugin", "list"]));
    assert!(listed.stdout.contains("\ndice "), "{}", listed.shown());
    let wrong = run("two", &["plugin", "remove", "dices", "--user"]);
    refused(&wrong, 2, &["the plugin `dices` is not installed", "did you mean `dice`?"]);
    refused(&run("two", &["plugin", "remove", "dice"]), 2, &["the plugin `dice` is not installed", "--user means"]);
    fine(run("two", &["plugin", "remove", "dice", "--user"]));
    let listed = run("two", &["plugin", "list"]);
    assert!(!listed.stdout.contains("\ndice "), "{}", listed.shown());
    let none = run("two", &["plugin", "install", "--user"]);
    refused(&none, 2, &["shelly.lock names no plugin", "plugin install SOURCE --user"]);
}

#[test]
fn plugin_that_a_person_names_is_not_of_a_project() {
    let place = Place::new();
    put_dice(&place, "1.0.0", "", FUNCTION);
    fine(place.run(&["plugin", "install", "plugins/dice"]));
    place.file("home/.config/shelly-host/config.yaml", CONFIG);
    let run = |arguments: &[&str]| {
        place.ran(place.command(arguments).env("HOME", place.path().join("home")).output().unwrap())
    };
    // What the person grants to a plugin is not for whatever a project has under its id.
    let check = ["config", "check", "--load", "--trust"];
    refused(&run(&check), 2, &["there is no plugin `dice`"]);
    fine(run(&["plugin", "install", "plugins/dice", "--user"]));
    fine(run(&check));
}

#[test]
fn lock_file_lies_beside_the_named_config() {
    let place = Place::new();
    place.file("sub/c.yaml", CONFIG);
    put_dice(&place, "1.0.0", "", FUNCTION);
    fine(place.run(&["plugin", "install", "plugins/dice", "--config", "sub/c.yaml"]));
    let lock = fs::read_to_string(place.path().join("sub/shelly.lock")).unwrap();
    assert!(lock.contains("id = \"dice\"") && lock.contains("version = \"1.0.0\""), "{lock}");
    fine(place.run(&["config", "check", "--load", "--trust", "--config", "sub/c.yaml"]));
    fine(place.run(&["plugin", "remove", "dice", "--config", "sub/c.yaml"]));
    let lock = fs::read_to_string(place.path().join("sub/shelly.lock")).unwrap();
    assert!(!lock.contains("dice"), "{lock}");
    let stored = fs::read_dir(place.path().join("sub/.shelly/plugin-store/sha256")).unwrap();
    assert_eq!(stored.count(), 0, "what no lock file names is removed");
}

#[test]
fn grown_or_older_plugin_is_refused() {
    let place = Place::new();
    let lock = || fs::read_to_string(place.path().join("shelly.lock")).unwrap();
    put_dice(&place, "1.0.0", "", FUNCTION);
    let install = ["plugin", "install", "plugins/dice"];
    fine(place.run(&install));
    let before = lock();
    put_dice(&place, "1.1.0", "clock = true", FUNCTIONS);
    let grown = place.run(&install);
    refused(
        &grown,
        3,
        &["the plugin `dice` 1.1.0 can do more than the installed 1.0.0", "+ want clock", "+ tool stop", "--yes"],
    );
    assert_eq!(lock(), before);
    fine(place.run(&[&install[..], &["--yes"]].concat()));
    assert!(lock().contains("version = \"1.1.0\""), "{}", lock());
    put_dice(&place, "1.0.9", "", FUNCTION);
    let older = "the plugin `dice` has version 1.0.9, older than the installed 1.1.0";
    refused(&place.run(&[&install[..], &["--yes"]].concat()), 3, &[older, "--allow-downgrade accepts it"]);
    fine(place.run(&[&install[..], &["--allow-downgrade"]].concat()));
    assert!(lock().contains("version = \"1.0.9\""), "{}", lock());
}

/// Returns the rule that the owner of a key must have signed what is installed.
pub fn rule(name: &str, key: &MinisignKey) -> String {
    format!("plugin_signatures: {{require: [{{name: {name}, key: '{}'}}]}}\n", key.public())
}

/// Signs the plugin `dice` as its author would: the list of its files, as `sha256sum` prints it.
fn sign_dice(place: &Place, key: &MinisignKey) {
    let folder = place.path().join("plugins/dice");
    let line = |name| format!("{}  {name}\n", Sha256Digest::of(fs::read(folder.join(name)).unwrap()).hex());
    let list: String = ["c.wasm", "plugin.toml"].into_iter().map(line).collect();
    fs::write(folder.join("SHA256SUMS.minisig"), key.sign(&list)).unwrap();
}

#[test]
fn plugin_without_a_required_signature_is_refused() {
    let (place, ada, eve) = (Place::new(), MinisignKey::new(1), MinisignKey::new(2));
    let install = ["plugin", "install", "plugins/dice"];
    put_dice(&place, "1.0.0", "", FUNCTION);
    place.file("shelly.yaml", format!("{CONFIG}{}", rule("ada", &ada)));
    let without = "the plugin `dice` must not be installed: it has no signature, and `ada` must have signed it";
    refused(&place.run(&install), 3, &[without, "plugin_signatures"]);
    sign_dice(&place, &eve);
    refused(&place.run(&install), 3, &["it is signed by another key than that of `ada`"]);
    sign_dice(&place, &ada);
    let installed = fine(place.run(&install));
    assert!(installed.stdout.contains("\nsigned by    ada\n"), "{}", installed.shown());
    fine(check(&place));

    // The rule holds before each run, and that of the person too.
    place.file("shelly.yaml", format!("{CONFIG}{}", rule("eve", &eve)));
    let other = "plugin `dice` must not be used: it is signed by another key than that of `eve`";
    refused(&check(&place), 2, &[other]);
    place.file("shelly.yaml", CONFIG);
    fine(check(&place));
    place.file("home/.config/shelly-host/config.yaml", rule("eve", &eve));
    let words = ["config", "check", "--load", "--trust"];
    let home = place.path().join("home");
    refused(&place.ran(place.command(&words).env("HOME", &home).output().unwrap()), 2, &[other]);

    // A signature goes with the plugin through a registry.
    let registry = registry::Registry::start();
    let artifact = registry.artifact("dice:1");
    fine(place.run(&["plugin", "publish", "plugins/dice", &artifact]));
    let elsewhere = Place::new();
    elsewhere.file("shelly.yaml", format!("{CONFIG}{}", rule("ada", &ada)));
    fine(elsewhere.run(&["plugin", "install", &artifact]));
    fine(check(&elsewhere));
    elsewhere.file("shelly.yaml", format!("{CONFIG}plugin_signatures: {{require: [{{name: ada, key: x}}]}}\n"));
    refused(&check(&elsewhere), 2, &["plugin_signatures.require.ada: the key cannot be used", "minisign"]);
}

#[test]
fn plugin_that_cannot_be_installed_is_reported() {
    let place = Place::new();
    place.plugin("compact", "kinds = [\"functions\"]\n", FUNCTION);
    place.file("project/plugin.toml", "id = \"dice\"\ncomponent = \"dice.wasm\"\nkinds = [\"tool\"]\n");
    place.file("text.wasm", "no component");
    for (source, code, says) in [
        ("plugins/compact", 3, "a plugin of this id comes with shelly-host"),
        ("./project", 2, "there is no component dice.wasm in ./project"),
        ("project", 2, "there is no index of plugins"),
        ("text.wasm", 3, "is not a plugin component"),
        ("nowhere.wasm", 2, "cannot read ./nowhere.wasm"),
        ("", 2, "cause: it is empty"),
    ] {
        refused(&place.run(&["plugin", "install", source]), code, &[says]);
    }
    for command in [&["plugin", "install"][..], &["plugin", "update"], &["plugin", "remove", "dice"]] {
        let elsewhere = Place::new();
        assert_eq!(elsewhere.run(command).code, 2, "{command:?}");
        assert!(!elsewhere.path().join(".shelly").exists(), "{command:?} leaves nothing where nothing is installed");
    }
    place.file("shelly.lock", "version = 7\n");
    for command in [&["plugin", "list"][..], &["plugin", "install"]] {
        refused(&place.run(command), 2, &["cannot use the lock file [DIR]/shelly.lock", "it has version 7"]);
    }
    let store = place.path().join(".shelly/plugin-store/sha256");
    assert_eq!(fs::read_dir(store).unwrap().count(), 0, "nothing is left of what was refused");
}
