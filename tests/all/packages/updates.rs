//! Other versions of installed plugins: found, shown, taken or refused.

use std::fs;

use serde_json::Value;

use super::{FUNCTION, FUNCTIONS, fine, put_dice, refused, registry::Registry};
use crate::support::{Place, Ran};

/// Publishes the plugin `dice` of this version under this tag.
fn publish(registry: &Registry, tag: &str, version: &str, component: &str) {
    let author = Place::new();
    put_dice(&author, version, "", component);
    fine(author.run(&["plugin", "publish", "plugins/dice", &registry.artifact(&format!("me/dice:{tag}"))]));
}

fn lock(place: &Place) -> String {
    fs::read_to_string(place.path().join("shelly.lock")).unwrap()
}

#[test]
fn newest_release_is_taken_unless_it_can_do_more() {
    let (registry, place) = (Registry::start(), Place::new());
    publish(&registry, "1.0.0", "1.0.0", FUNCTION);
    fine(place.run(&["plugin", "install", &registry.artifact("me/dice:1.0.0")]));
    let outdated = fine(place.run(&["plugin", "list", "--outdated"]));
    assert_eq!(outdated.stdout, "every installed plugin is up to date\n");
    let same = fine(place.run(&["plugin", "update"]));
    assert_eq!(same.stdout, "up to date   `dice` 1.0.0\n");

    publish(&registry, "1.9.0", "1.9.0", FUNCTION);
    publish(&registry, "1.10.0", "1.10.0", FUNCTIONS);
    publish(&registry, "2.0.0-rc.1", "2.0.0-rc.1", FUNCTION);
    publish(&registry, "latest", "1.9.0", FUNCTION);
    let outdated = fine(place.run(&["plugin", "list", "--outdated", "--output", "json"]));
    let outdated: Value = serde_json::from_str(&outdated.stdout).unwrap();
    assert_eq!(outdated[0]["newer"], registry.artifact("me/dice:1.10.0"));
    let before = lock(&place);
    let grown = place.run(&["plugin", "update", "dice"]);
    refused(&grown, 3, &["the plugin `dice` 1.10.0 can do more than the installed 1.0.0", "+ tool stop", "--yes"]);
    assert_eq!(lock(&place), before);
    let updated = fine(place.run(&["plugin", "update", "dice", "--yes"]));
    assert_eq!(updated.stdout, "updated      `dice` 1.10.0 (was `dice` 1.0.0)\n");
    assert!(lock(&place).contains(&registry.artifact("me/dice:1.10.0")), "{}", lock(&place));
    refused(&place.run(&["plugin", "update", "cards"]), 2, &["the plugin `cards` is not installed"]);
}

#[test]
fn moved_tag_is_updated_and_rolled_back_only_on_request() {
    let (registry, place) = (Registry::start(), Place::new());
    publish(&registry, "stable", "1.1.0", FUNCTION);
    fine(place.run(&["plugin", "install", &registry.artifact("me/dice:stable")]));
    publish(&registry, "stable", "1.0.0", FUNCTION);
    let older = "the plugin `dice` has version 1.0.0, older than the installed 1.1.0";
    refused(&place.run(&["plugin", "update"]), 3, &[older]);
    let back = fine(place.run(&["plugin", "update", "--allow-downgrade"]));
    assert_eq!(back.stdout, "updated      `dice` 1.0.0 (was `dice` 1.1.0)\n");
    publish(&registry, "stable", "1.2.0", FUNCTION);
    fine(place.run(&["plugin", "update"]));
    assert!(lock(&place).contains("version = \"1.2.0\""), "{}", lock(&place));
}

#[test]
fn plugins_of_paths_are_updated_in_each_place() {
    let place = Place::new();
    let run = |arguments: &[&str]| -> Ran {
        place.ran(place.command(arguments).env("HOME", place.path().join("home")).output().unwrap())
    };
    place.file("sub/c.yaml", "providers: []\n");
    put_dice(&place, "1.0.0", "", FUNCTION);
    for more in [&["--user"][..], &["--config", "sub/c.yaml"]] {
        fine(run(&[&["plugin", "install", "plugins/dice"], more].concat()));
    }
    put_dice(&place, "1.1.0", "", FUNCTION);
    let outdated = fine(run(&["plugin", "list", "--outdated", "--config", "sub/c.yaml"]));
    assert_eq!(outdated.stdout.matches("dice  1.0.0  another version is at").count(), 2, "{}", outdated.shown());
    for more in [&["--user"][..], &["--config", "sub/c.yaml"]] {
        let updated = fine(run(&[&["plugin", "update"], more].concat()));
        assert_eq!(updated.stdout, "updated      `dice` 1.1.0 (was `dice` 1.0.0)\n");
    }
    put_dice(&place, "1.1.0", "", FUNCTION);
    let manifest = fs::read_to_string(place.path().join("plugins/dice/plugin.toml")).unwrap();
    place.file("plugins/dice/plugin.toml", manifest.replace("id = \"dice\"", "id = \"cards\""));
    let other = run(&["plugin", "update", "--user"]);
    refused(&other, 3, &["now has the plugin `cards`, not `dice`", "nothing was changed"]);
}
