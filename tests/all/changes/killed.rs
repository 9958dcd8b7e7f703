//! The program is killed while it changes files, and is resumed: every change is made once, and none in part.

use std::{
    os::unix::process::ExitStatusExt,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{configure, digest, docs};
use crate::{bad_input::Server, sessions::chance, support::Place};

/// Results that change two files each and make a third, with another one removed.
const ROUNDS: usize = 25;
const KILLS: usize = 12;

fn text(round: usize) -> String {
    format!("round {round}\n")
}

fn calls() -> Vec<Value> {
    let call = |round: usize| {
        let edit = |path: &str| json!({ "path": path, "expected": digest(&text(round)), "write": text(round + 1) });
        json!([edit("a.txt"), { "path": format!("of-{round}") }, { "path": format!("of-{}", round + 1), "write": "x" }, edit("b.txt")])
    };
    (0..ROUNDS).map(call).collect()
}

fn world() -> (Place, Server) {
    let place = Place::new();
    for path in ["docs/a.txt", "docs/b.txt"] {
        place.file(path, text(0));
    }
    place.file("docs/of-0", "x");
    let server = configure(&place, "powers: [propose-files], changes: apply", &calls());
    (place, server)
}

/// Runs it, and kills it after this time; whether it was killed.
fn run(place: &Place, arguments: &[&str], after: Option<Duration>) -> bool {
    let mut command = place.command(arguments);
    command.args(["--plugins", crate::GUEST_ROOT]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if let Some(after) = after {
        thread::sleep(after);
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    if output.status.signal() == Some(9) {
        return true;
    }
    let ran = place.ran(output);
    let told_before = ran.code == 2 && ran.stderr.contains("is already complete");
    assert!(ran.code == 0 || told_before, "{}", ran.shown());
    false
}

#[test]
fn killed_change_is_applied_once_and_never_in_part() {
    let (calm, _server) = world();
    run(&calm, &["run", "go"], None);
    let start = Instant::now();
    let (calm, _server) = world();
    run(&calm, &["run", "go"], None);
    let (took, end) = (start.elapsed(), docs(&calm));
    assert_eq!(end.get("a.txt"), Some(&text(ROUNDS)), "{end:?}");
    let first = chance::first();
    println!("SHELLY_CRASH_CHANCE={first}; undisturbed it takes {took:?}");
    let mut chance = chance::Chance::new(first);
    let mut kills = 0;
    while kills < KILLS {
        let (place, server) = world();
        let mut arguments = &["run", "go"][..];
        for _ in 0..3 {
            let after = took.mul_f64(chance.below(10_000) as f64 / 10_000.0);
            if !run(&place, arguments, Some(after)) {
                break;
            }
            kills += 1;
            let sessions = place.run(&["session", "list", "--output", "json"]).stdout;
            let sessions: Value = serde_json::from_str(&sessions).unwrap();
            let status = sessions["sessions"][0]["status"].as_str().unwrap_or("none").to_owned();
            arguments = match status.as_str() {
                "none" => &["run", "go"],
                "empty" => &["session", "resume", "last", "go"],
                _ => &["session", "resume", "last"],
            };
            // The next start, whatever it is of, takes back what was interrupted.
            if status != "none" {
                let _ = place.run(&["session", "undo", "last"]);
            }
            let now = docs(&place);
            assert_eq!(now.get("a.txt"), now.get("b.txt"), "SHELLY_CRASH_CHANCE={first}, {kills} kills: {now:?}");
            assert_eq!(now.len(), 3, "nothing stands aside: {now:?}");
        }
        if arguments[0] == "session" {
            run(&place, arguments, None);
        } else {
            run(&place, &["run", "go"], None);
        }
        assert_eq!(docs(&place), end, "SHELLY_CRASH_CHANCE={first}, {kills} kills");
        drop(server);
    }
}
