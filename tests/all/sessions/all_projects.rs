//! The list of the sessions of all projects of a person.

use std::{fs, os::unix::fs::PermissionsExt};

use serde_json::{Value, json};

use crate::{
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
};

/// A person's home folder with projects in it.
struct Home {
    place: Place,
    server: Server,
}

impl Home {
    /// Creates these projects, each with a session.
    fn with(projects: &[&str]) -> Self {
        let home = Self { place: Place::untrusted(), server: Server::start(|_| answer("200 OK", FOUR)) };
        for project in projects {
            home.place.file(&format!("{project}/shelly.yaml"), home.server.config(""));
            let (name, task) = (format!("of-{project}"), format!("Task of {project}"));
            home.fine(project, &["run", "--trust", "--session", &name, &task]);
        }
        home
    }

    fn run(&self, folder: &str, arguments: &[&str]) -> Ran {
        let folder = self.place.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        let mut command = self.place.command(arguments);
        self.place.ran(command.current_dir(folder).env("HOME", self.place.path()).output().unwrap())
    }

    fn fine(&self, folder: &str, arguments: &[&str]) -> Ran {
        let ran = self.run(folder, arguments);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran
    }

    /// Returns the projects of the listed sessions in order.
    fn listed(&self, folder: &str) -> (Vec<String>, Value) {
        let ran = self.fine(folder, &["session", "list", "--all-projects", "--all", "--output", "json"]);
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let project = |session: &Value| session["project"].as_str().unwrap().to_owned();
        (document["sessions"].as_array().unwrap().iter().map(project).collect(), document["left_out"].clone())
    }
}

#[test]
fn sessions_of_all_projects_are_listed_with_their_projects() {
    let home = Home::with(&["one", "two", "three"]);
    let list = home.fine("elsewhere", &["session", "list", "--all-projects"]);
    let lines: Vec<_> = list.stdout.lines().collect();
    assert!(lines.len() == 4 && lines[0].contains("  PROJECT  TITLE"), "{}", list.shown());
    for (line, project) in lines[1..].iter().zip(["three", "two", "one"]) {
        assert!(line.starts_with(&format!("of-{project} ")) && line.contains(&format!("  ~/{project} ")), "{line}");
        assert!(line.ends_with(&format!("  Task of {project}")) && line.contains("  finished  "), "{line}");
    }
    let some = home.fine("one", &["session", "list", "--all-projects", "--limit", "2"]);
    assert!(
        some.stdout.lines().count() == 3 && some.stderr.contains("older sessions are not shown"),
        "{}",
        some.shown()
    );
    let (projects, left_out) = home.listed("one");
    assert_eq!(projects, ["[DIR]/three", "[DIR]/two", "[DIR]/one"]);
    assert_eq!(left_out, json!([]));
    // A project of its own has no column.
    let own = home.fine("one", &["session", "list"]);
    assert!(own.stdout.lines().count() == 2 && !own.stdout.contains("PROJECT"), "{}", own.shown());
    let none = Home::with(&[]).fine("elsewhere", &["session", "list", "--all-projects"]);
    assert!(none.stdout.is_empty() && none.stderr.contains("no project of yours has a session"), "{}", none.shown());
}

#[test]
fn session_of_another_project_is_named_and_not_resumed() {
    let home = Home::with(&["one", "two"]);
    let asked = home.server.asked.lock().unwrap().len();
    for arguments in [
        &["session", "show", "of-one"][..],
        &["session", "show", "of-on"],
        &["session", "export", "of-one"],
        &["session", "resume", "of-one", "--trust", "Go on"],
        &["session", "resume", "of-one", "--trust"],
    ] {
        let ran = home.run("two", arguments);
        let says = "that session belongs to the project ~/one; run the command there";
        assert!(ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains(says), "{}", ran.shown());
    }
    let ran = home.run("two", &["session", "show", "of-nobody"]);
    assert!(ran.code == 2 && !ran.stderr.contains("belongs to"), "{}", ran.shown());
    assert_eq!(home.server.asked.lock().unwrap().len(), asked, "nothing was resumed");
    home.fine("one", &["session", "resume", "of-one", "--trust", "Go on"]);
}

#[test]
fn foreign_unreadable_and_missing_projects_are_left_out() {
    let home = Home::with(&["one", "two", "three", "four"]);
    let path = |name: &str| home.place.path().join(name);
    fs::set_permissions(path("one"), fs::Permissions::from_mode(0o777)).unwrap();
    fs::remove_dir_all(path("two/.shelly/local/sessions")).unwrap();
    fs::write(path("two/.shelly/local/sessions"), "no folder").unwrap();
    fs::rename(path("three"), path("moved")).unwrap();
    let list = home.fine("four", &["session", "list", "--all-projects"]);
    assert!(list.stdout.lines().count() == 2 && list.stdout.contains("of-four"), "{}", list.shown());
    for (project, why) in [("one", "is not yours alone"), ("two", "is not a part of a session")] {
        let says = format!("the sessions of ~/{project} are left out: ");
        let line = list.stderr.lines().find(|line| line.contains(&says));
        assert!(line.is_some_and(|line| line.contains(why)), "{}", list.shown());
    }
    assert!(!list.stderr.contains("three"), "{}", list.shown());
    let (projects, left_out) = home.listed("elsewhere");
    assert_eq!(projects, ["[DIR]/four"]);
    assert_eq!(left_out.as_array().unwrap().len(), 2, "{left_out}");
    let stored = fs::read_to_string(home.place.trust_store().with_file_name("projects.json")).unwrap();
    assert!(stored.contains("/four") && !stored.contains("/three"), "{stored}");
    let show = home.run("four", &["session", "show", "of-one"]);
    assert!(show.code == 2 && !show.stderr.contains("belongs to"), "nobody is sent there: {}", show.shown());
    // Its own person may still list it there.
    let there = home.fine("one", &["session", "list", "--all-projects"]);
    assert!(there.stdout.contains("of-one") && there.stdout.contains("of-four"), "{}", there.shown());
}
