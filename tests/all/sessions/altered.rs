//! Sessions that were written to without the user's key: they are not resumed without consent.

use std::{fs, path::PathBuf};

use crate::{
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
};

fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

fn place(server: &Server) -> Place {
    let place = Place::untrusted();
    place.file("c.yaml", server.config("api_key: x"));
    place
}

fn run(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[arguments, &["--config", "c.yaml"]].concat())
}

fn session(place: &Place, id: &str) -> PathBuf {
    place.path().join(".shelly/local/sessions").join(id)
}

fn lines(place: &Place, id: &str) -> Vec<String> {
    let text = fs::read_to_string(session(place, id).join("journal.jsonl")).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

#[test]
fn altered_session_resumes_only_with_consent() {
    let server = Server::start(|_| answer("200 OK", FOUR));
    let place = place(&server);
    for (id, task) in [("a", "hi"), ("b", "other words")] {
        fine(run(&place, &["run", task, "--session", id]));
    }
    let (own, other) = (lines(&place, "a"), lines(&place, "b"));
    assert!(own.len() > 4 && own.len() == other.len(), "{own:?}");
    let asked = || server.asked.lock().unwrap().len();
    let write = |lines: &[String]| fs::write(session(&place, "a").join("journal.jsonl"), lines.concat()).unwrap();
    // Each line of the other one is whole, has the right number and a right checksum.
    for at in [1, own.len() / 2, own.len() - 1] {
        let altered = [&own[..at], &other[at..=at], &own[at + 1..]].concat();
        write(&altered);
        let before = asked();
        let ran = run(&place, &["session", "resume", "a", "more"]);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        let says = format!("was changed since you wrote it: line {} of its journal is not yours", at + 1);
        assert!(ran.stderr.contains(&says), "{}", ran.shown());
        assert_eq!((asked(), lines(&place, "a")), (before, altered), "nothing is done and it is left as it was");
    }
    let ran = fine(run(&place, &["session", "resume", "a", "more", "--trust"]));
    assert_eq!(ran.stdout, "Four.\n");
    assert_eq!(run(&place, &["session", "resume", "a", "more"]).code, 2, "that was for one run");
    // What is cut off is a state from which it goes on.
    write(&own[..own.len() - 1]);
    fine(run(&place, &["session", "resume", "a", "more"]));
    fine(run(&place, &["session", "resume", "a", "still more"]));
    // One session in the place of another.
    fs::remove_dir_all(session(&place, "b")).unwrap();
    fs::rename(session(&place, "a"), session(&place, "b")).unwrap();
    let ran = run(&place, &["session", "resume", "b", "more"]);
    assert!(ran.code == 2 && ran.stderr.contains("was renamed"), "{}", ran.shown());
}

#[test]
fn session_of_an_earlier_release_resumes_with_consent() {
    let server = Server::start(|_| answer("200 OK", FOUR));
    let place = place(&server);
    fine(run(&place, &["run", "hi", "--session", "a"]));
    // As earlier releases marked it.
    let mark = place.own_key().mark("shelly-host session", lines(&place, "a")[0].as_bytes()).unwrap();
    fs::write(session(&place, "a").join("mark"), format!("{mark}\n")).unwrap();
    let ran = run(&place, &["session", "resume", "a", "more"]);
    assert!(ran.code == 2 && ran.stderr.contains("you created it with an earlier release"), "{}", ran.shown());
    fine(run(&place, &["session", "resume", "a", "more", "--trust"]));
    assert_eq!(run(&place, &["session", "resume", "a", "more"]).code, 2, "--trust is for one run");
}
