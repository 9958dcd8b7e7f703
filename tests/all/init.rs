//! The command `init`: the files that it writes, the files that it never replaces, and its messages.

use std::{collections::BTreeMap, fs, path::Path};

use insta::assert_snapshot;

use crate::support::Place;

/// Every file of the place with its text.
fn files(place: &Place) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![place.path()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let below = path.strip_prefix(place.path()).unwrap().display().to_string();
                found.insert(below, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

#[test]
fn init_creates_a_project() {
    let place = Place::new();
    let ran = place.run(&["init"]);
    assert_snapshot!("init", ran.shown());
    let files = files(&place);
    assert_eq!(files[".shelly/.gitignore"], "local/\n");
    assert!(files[".shelly/config.yaml"].contains("entry_agent: assistant\n"));
    assert!(place.path().join(".shelly/knowledge").is_dir());

    let place = Place::new();
    fs::create_dir(place.path().join("team")).unwrap();
    let ran = place.run(&["init", "--template", "team", "--dir", "team"]);
    assert_snapshot!("init_team", ran.shown());
    assert!(place.path().join("team/.shelly/skills/planning/SKILL.md").is_file());
}

#[test]
fn init_replaces_files_only_with_force() {
    let place = Place::new();
    place.file(".shelly/.gitignore", "mine\n");
    place.file(".shelly/other.md", "mine\n");
    place.file(".shelly/context.md", "mine\n");
    let before = files(&place);
    let ran = place.run(&["init"]);
    assert_snapshot!("init_in_the_way", ran.shown());
    assert_eq!(files(&place), before, "nothing was written");

    let ran = place.run(&["init", "--force"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stdout.contains("\nreplaced  .shelly/context.md\n"), "{}", ran.shown());
    let after = files(&place);
    assert!(after[".shelly/context.md"].starts_with("<!--"));
    assert_eq!((&*after[".shelly/.gitignore"], &*after[".shelly/other.md"]), ("mine\n", "mine\n"));

    fs::remove_file(place.path().join(".shelly/config.yaml")).unwrap();
    let ran = place.run(&["init", "--template", "team"]);
    assert_eq!(ran.code, 2, "another template is in the way as well: {}", ran.shown());
    assert!(!place.path().join(".shelly/config.yaml").exists());
}

#[test]
fn init_in_the_home_folder_needs_force() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("home/project")).unwrap();
    let init = |folder: &str, more: &[&str]| {
        let mut command = place.command(&[&["init"], more].concat());
        command.env("HOME", place.path().join("home")).current_dir(place.path().join(folder));
        place.ran(command.output().unwrap())
    };
    for (folder, more, named) in
        [("home", &[][..], "[DIR]/home"), (".", &[], "[DIR]"), ("home/project", &["--dir", ".."], "[DIR]/home")]
    {
        let ran = init(folder, more);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        for says in [
            &*format!("error: {named} is or contains your home folder; nothing was written"),
            "the agents of a config there can read all of your files",
            "your own config in [DIR]/home/.config/shelly-host/config.yaml; --force writes it nevertheless",
        ] {
            assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
        }
    }
    assert!(files(&place).is_empty(), "nothing was written");
    assert_eq!(init("home/project", &[]).code, 0);
    assert_eq!(init("home", &["--force"]).code, 0);
    assert!(place.path().join("home/.shelly/config.yaml").is_file());
}

#[cfg(unix)]
#[test]
fn files_of_init_follow_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mode = |name: &str| fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(place.run(&["init"]).code, 0);
    place.file("usual", "");
    for name in [".shelly/config.yaml", ".shelly/context.md", ".shelly/.gitignore"] {
        assert_eq!(mode(name), mode("usual"), "{name}");
    }
    assert_eq!(mode(".shelly/local/permissions.json"), 0o600, "what belongs to this person alone is private");
    fs::set_permissions(place.path().join(".shelly/config.yaml"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(place.run(&["init", "--force"]).code, 0);
    assert_eq!(mode(".shelly/config.yaml"), 0o640, "a replaced file keeps its mode");
}

#[test]
fn init_answers_without_a_terminal_with_the_default() {
    let place = Place::new();
    // Nobody is there to be asked, whatever comes in.
    let mut command = place.command(&["init"]);
    command.stdin(fs::File::open(place.file("typed", "3\n")).unwrap());
    let ran = place.ran(command.output().unwrap());
    assert!(ran.code == 0 && !ran.stderr.contains("which template?"), "{}", ran.shown());
    assert!(files(&place)[".shelly/config.yaml"].contains("entry_agent: assistant\n"));
}

#[test]
fn init_errors_are_reported() {
    let place = Place::new();
    place.file("file", "");
    let mut told = String::new();
    for arguments in [
        &["init", "--list-templates"][..],
        &["init", "--template", "taem"],
        &["init", "--template", "x"],
        &["init", "--dir", "none"],
        &["init", "--dir", "file"],
    ] {
        told.push_str(&format!("## {}\n{}\n", arguments.join(" "), place.run(arguments).shown()));
    }
    assert_snapshot!("init_told", told);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing was written");
    assert!(!Path::new(&place.path()).join(".shelly").exists());
    assert_snapshot!("help_init", place.run(&["init", "--help"]).stdout);
}
