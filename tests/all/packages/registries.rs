//! Plugins in registries: published by one machine, installed by another.

use std::fs;

use super::{CONFIG, FUNCTION, FUNCTIONS, check, fine, put_dice, refused, registry::Registry};
use crate::support::{Place, Ran};

/// Runs a command with the login of the registry, as docker keeps it.
fn with_login(place: &Place, registry: &Registry, arguments: &[&str]) -> Ran {
    place.file("docker/config.json", registry.login_file());
    place.ran(place.command(arguments).env("DOCKER_CONFIG", place.path().join("docker")).output().unwrap())
}

#[test]
fn published_plugin_is_installed_on_another_machine() {
    let registry = Registry::with_login();
    let artifact = registry.artifact("me/dice:1");
    let author = Place::new();
    put_dice(&author, "1.0.0", "", FUNCTION);
    let publish = ["plugin", "publish", "plugins/dice", &artifact];
    let denied = author.run(&publish);
    refused(&denied, 1, &["cannot publish oci://", "log in with `docker login 127.0.0.1:"]);
    let published = fine(with_login(&author, &registry, &publish));
    assert!(published.stdout.contains("\nartifact     sha256:"), "{}", published.shown());
    let manifest = registry.manifest("me/dice:1");
    assert_eq!(manifest["layers"].as_array().unwrap().len(), 1, "other tools pull the component too: {manifest}");

    let place = Place::new();
    place.file("shelly.yaml", CONFIG);
    place.file("auth.json", registry.login_file());
    let install = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        place.ran(command.env("REGISTRY_AUTH_FILE", place.path().join("auth.json")).output().unwrap())
    };
    let installed = fine(install(&["plugin", "install", &artifact]));
    assert!(installed.stdout.contains(&format!("\nsource       {artifact}\n")), "{}", installed.shown());
    assert!(installed.stdout.contains("\ntools        go"), "{}", installed.shown());
    fine(check(&place));
    let lock = fs::read_to_string(place.path().join("shelly.lock")).unwrap();
    assert!(lock.contains("\nartifact = \"sha256:"), "{lock}");

    // The tag is given to another plugin: the lock file still names the first.
    put_dice(&author, "2.0.0", "", FUNCTIONS);
    fine(with_login(&author, &registry, &publish));
    fs::remove_dir_all(place.path().join(".shelly")).unwrap();
    let restored = fine(install(&["plugin", "install"]));
    assert!(restored.stdout.starts_with("installed    `dice` 1.0.0"), "{}", restored.shown());
    fine(check(&place));
    assert_eq!(fs::read_to_string(place.path().join("shelly.lock")).unwrap(), lock);
}

#[cfg(unix)]
#[test]
fn credential_helper_is_asked_for_the_login() {
    use std::os::unix::fs::PermissionsExt;
    let (registry, place) = (Registry::with_login(), Place::new());
    put_dice(&place, "1.0.0", "", FUNCTION);
    let script = "#!/bin/sh\nread server\ncase \"$1 $server\" in\n\
                  \"get 127.0.0.1:\"*) echo '{\"Username\": \"me\", \"Secret\": \"open sesame\"}' ;;\n\
                  *) echo 'credentials not found'; exit 1 ;;\nesac\n";
    let helper = place.file("bin/docker-credential-test", script);
    fs::set_permissions(helper, fs::Permissions::from_mode(0o755)).unwrap();
    let publish = |logins: &str| {
        place.file("docker/config.json", logins);
        let artifact = registry.artifact("dice:1");
        let mut command = place.command(&["plugin", "publish", "plugins/dice", &artifact]);
        let path = format!("{}:/usr/bin:/bin", place.path().join("bin").display());
        place.ran(command.env("PATH", path).env("DOCKER_CONFIG", place.path().join("docker")).output().unwrap())
    };
    let other = r#"{"credHelpers": {"ghcr.io": "test"}}"#;
    refused(&publish(other), 1, &["log in with `docker login 127.0.0.1:"]);
    fine(publish(r#"{"credsStore": "test"}"#));
    refused(&publish(r#"{"credsStore": "none"}"#), 2, &["cannot get a login from docker-credential-none"]);
}

#[test]
fn altered_blob_is_refused() {
    let registry = Registry::start();
    let artifact = registry.artifact("dice:1");
    let place = Place::new();
    put_dice(&place, "1.0.0", "", FUNCTION);
    fine(place.run(&["plugin", "publish", "plugins/dice", &artifact]));
    registry.alter_components();
    let ran = place.run(&["plugin", "install", &artifact]);
    refused(&ran, 3, &["was altered: its registry gives sha256:", " in place of sha256:", "nothing was installed"]);
    assert!(!place.path().join("shelly.lock").exists());
}

#[test]
fn component_of_another_tool_is_installed_by_its_name() {
    let registry = Registry::start();
    registry.put_component("tools/the_dice:1", &wat::parse_str(FUNCTION).unwrap());
    let place = Place::new();
    let installed = fine(place.run(&["plugin", "install", &registry.artifact("tools/the_dice:1")]));
    assert!(installed.stdout.starts_with("installed    `the-dice` ("), "{}", installed.shown());
    let listed = fine(place.run(&["plugin", "list"]));
    assert!(listed.stdout.contains("\nthe-dice "), "{}", listed.shown());
    let missing = place.run(&["plugin", "install", &registry.artifact("tools/the_dice:2")]);
    refused(&missing, 1, &["cannot get oci://", "404 Not Found: manifest unknown", "check the name and the tag"]);
    let wrong = place.run(&["plugin", "publish", "plugins/dice", "ghcr.io/me/dice"]);
    refused(&wrong, 2, &["`ghcr.io/me/dice` is not the name of an artifact", "it does not begin with oci://"]);
}
