//! Configs in a folder above the one in which a command is run.

use std::fs;

use super::{fine, server};
use crate::support::{Place, Ran};

/// Runs a command in a folder of the place.
fn within(place: &Place, folder: &str, arguments: &[&str]) -> Ran {
    place.ran(place.command(arguments).current_dir(place.path().join(folder)).output().unwrap())
}

#[test]
fn config_above_is_used_with_the_folder_of_its_project() {
    let (place, server) = (Place::untrusted(), server());
    place.file("p/.git/HEAD", "ref: refs/heads/main\n");
    place.file("p/keys/m", "sk-of-the-file\n");
    place.file("p/shelly.yaml", server.config("api_key_file: keys/m"));
    fs::create_dir_all(place.path().join("p/src/deep")).unwrap();
    let run = |arguments: &[&str]| within(&place, "p/src/deep", arguments);
    let note = "config [DIR]/p/shelly.yaml, found above this folder: its project is the folder that it lies in\n";
    let ran = run(&["run", "hi"]);
    assert!(ran.code == 2 && ran.stderr.starts_with(note), "it is asked about as ever: {}", ran.shown());
    fine(run(&["config", "trust", "--yes"]));
    let ran = fine(run(&["run", "hi", "--session", "one"]));
    assert!(ran.stderr.starts_with(note) && ran.stderr.matches(note).count() == 1, "{}", ran.shown());
    assert!(server.asked.lock().unwrap()[0].contains("Bearer sk-of-the-file"));
    assert!(place.path().join("p/.shelly/local/sessions/one").is_dir());
    assert!(!place.path().join("p/src/deep/.shelly").exists());
    // The sessions of the project are found from everywhere in it.
    for folder in ["p", "p/src", "p/src/deep"] {
        assert!(fine(within(&place, folder, &["session", "list"])).stdout.contains("one"), "{folder}");
        let ran = fine(within(&place, folder, &["session", "resume", "last", "more"]));
        assert_eq!(ran.stdout, "Four.\n", "{folder}: {}", ran.shown());
        fine(within(&place, folder, &["run", "hi", "--session", "one"]));
        assert!(fine(within(&place, folder, &["session", "show", "one"])).stdout.contains("more"), "{folder}");
    }
    assert_eq!(fs::read_dir(place.path().join("p/.shelly/local/sessions")).unwrap().count(), 1);
    fine(run(&["config", "trust", "--forget"]));
    assert_eq!(run(&["run", "hi"]).code, 2);
}

#[test]
fn config_beyond_the_repository_or_of_home_is_not_used() {
    let (place, server) = (Place::untrusted(), server());
    let config = server.config("");
    place.file("shelly.yaml", &config);
    place.file("p/repo/.git/HEAD", "");
    fs::create_dir_all(place.path().join("p/repo/sub")).unwrap();
    let note = |up: &str| format!("the config {up}/shelly.yaml is not of this folder and was not used: --config {up}");
    let ran = within(&place, "p/repo/sub", &["config", "check"]);
    assert!(ran.code == 2 && ran.stderr.contains(&note("../../..")), "{}", ran.shown());
    // Without a repository the home folder is the last one.
    let at_home = |home: &str, folder: &str| {
        let mut command = place.command(&["config", "check"]);
        let command = command.current_dir(place.path().join(folder)).env("HOME", place.path().join(home));
        place.ran(command.output().unwrap())
    };
    place.file("home/p/shelly.yaml", &config);
    fs::create_dir_all(place.path().join("home/p/sub")).unwrap();
    assert_eq!(fine(at_home("home", "home/p/sub")).stderr.matches("found above this folder").count(), 1);
    // Its config is for that folder alone: below it, agents could read everything that the person has.
    let ran = at_home(".", "p");
    let of_home = "the config [DIR]/shelly.yaml was not used, because it lies in your home folder, and is used in that folder alone: \
                   --config [DIR]/shelly.yaml";
    assert!(ran.code == 2 && ran.stderr.contains(of_home), "{}", ran.shown());
    // There it is used.
    fine(at_home(".", "."));
    let ran = at_home("p", "p");
    assert!(ran.code == 2 && ran.stderr.contains(&note("..")), "{}", ran.shown());
    assert!(at_home("elsewhere", "p").stderr.contains(&note("..")));
}

#[cfg(unix)]
#[test]
fn link_above_that_leads_out_is_not_used() {
    let (place, server) = (Place::untrusted(), server());
    place.file("p/.git/HEAD", "");
    fs::create_dir_all(place.path().join("p/sub")).unwrap();
    let target = place.file("elsewhere.yaml", server.config(""));
    std::os::unix::fs::symlink(&target, place.path().join("p/shelly.yaml")).unwrap();
    let ran = within(&place, "p/sub", &["config", "check"]);
    let note = "the config [DIR]/p/shelly.yaml was not used, because it is a link out of its folder: --config";
    assert!(ran.code == 2 && ran.stderr.contains(note), "{}", ran.shown());
    fs::remove_file(place.path().join("p/shelly.yaml")).unwrap();
    // A folder that everybody can write to may hold anybody's config.
    place.file("p/shelly.yaml", server.config(""));
    let mode = |mode| fs::set_permissions(place.path().join("p"), std::os::unix::fs::PermissionsExt::from_mode(mode));
    mode(0o777).unwrap();
    assert_eq!(within(&place, "p/sub", &["config", "check"]).code, 2);
    let listed = fine(within(&place, "p/sub", &["config", "path"]));
    assert!(listed.stdout.contains("no folder above is searched: [DIR]/p is not a folder of yours alone"));
    mode(0o755).unwrap();
    fine(within(&place, "p/sub", &["config", "check"]));
}
