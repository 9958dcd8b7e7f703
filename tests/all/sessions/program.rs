//! The program itself, killed while plugins in their sandboxes work for it, and resumed.

use std::{
    os::unix::process::ExitStatusExt,
    process::Stdio,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::journal::{JournalRecord, RecordedRunEnd},
    session::{DiskStorage, JournalLineContent, SessionOpenOptions, SessionStatus, SessionStore, SessionStoreOptions},
};

use super::{
    chance::{self, Chance},
    ends::Calls,
};
use crate::support::Place;

const KILLS: usize = 20;

const TASK: &str = "How many words are in a.txt, and how many lines are in b.txt?";

fn place() -> Place {
    let place = Place::new();
    place.file("docs/a.txt", "one two three\nfour\n");
    place.file("docs/b.txt", "x\ny z\n".repeat(1_000));
    place.file(
        "shelly.yaml",
        "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
         agents:\n  - name: lead\n    options: {max_delegation_depth: 1}\n  \
         - name: reader\n    description: reads files and counts words and lines in them\n    \
         plugins: {read-files: {files: [{path: docs, as: .}]}, count-text: , redact: }\n",
    );
    place
}

fn store(place: &Place) -> SessionStore {
    SessionStore::new(
        Arc::new(DiskStorage),
        place.path().join(".shelly/local/sessions"),
        SessionStoreOptions::default(),
    )
}

/// Returns the next command line: it has the task, as long as no run has begun with it.
fn next(place: &Place) -> &'static [&'static str] {
    match store(place).list(1).unwrap().first().map(|newest| newest.content.as_ref().unwrap().1) {
        None => &["run", TASK],
        Some(SessionStatus::Empty) => &["session", "resume", "last", TASK],
        Some(_) => &["session", "resume", "last"],
    }
}

/// Kills it up to so many times and has it end. Its answer, and how often it was killed.
fn disturbed(place: &Place, times: usize, span: Duration, chance: &mut Chance) -> (String, usize) {
    for killed in 0..=times {
        let mut command = place.command(next(place));
        command.args(["--plugins", crate::PLUGIN_ROOT]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        if killed < times {
            thread::sleep(span.mul_f64(chance.below(10_000) as f64 / 10_000.0));
            child.kill().unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if output.status.signal() == Some(9) {
            continue;
        }
        let ran = place.ran(output);
        let answer = match ran.code {
            0 => ran.stdout,
            // It was killed after the end was written down, and before it was told.
            2 if ran.stderr.contains("is already complete") => answer(place) + "\n",
            _ => panic!("{}", ran.shown()),
        };
        return (answer, killed);
    }
    unreachable!("the last one is not killed")
}

/// The records of its only session.
fn records(place: &Place) -> Vec<(u64, JournalRecord)> {
    let store = store(place);
    let newest = store.list(2).unwrap();
    assert_eq!(newest.len(), 1, "there is one session");
    let mut journal = store.read(&newest[0].id).unwrap();
    let lines: Vec<_> =
        journal.by_ref().map(|line| line.unwrap_or_else(|error| panic!("{:?}", error.report()))).collect();
    assert_eq!(journal.warnings(), [] as [&str; 0]);
    let record = |line: shelly_host::session::JournalLine| match line.what {
        JournalLineContent::Record(record) => Some((line.run, record)),
        JournalLineContent::Opened { .. } => None,
    };
    lines.into_iter().filter_map(record).collect()
}

fn answer(place: &Place) -> String {
    let ended = |(run, record): (u64, JournalRecord)| match record {
        JournalRecord::Ended { outcome: RecordedRunEnd::Answered { message }, .. } if run == 1 => {
            Some(message.text_content())
        }
        _ => None,
    };
    records(place).into_iter().find_map(ended).expect("it has an answer")
}

#[test]
fn killed_process_answers_after_a_resume() {
    // The first one may have to compile the plugins.
    let (expected, _) = disturbed(&place(), 0, Duration::ZERO, &mut Chance::new(1));
    let (calm, start) = (place(), Instant::now());
    assert_eq!(disturbed(&calm, 0, Duration::ZERO, &mut Chance::new(1)).0, expected);
    let took = start.elapsed();
    for part in ["a.txt has 4 words", "b.txt has 2000 lines"] {
        assert!(expected.contains(part), "{expected}");
    }
    assert_eq!(Calls::of(&records(&calm), "undisturbed").interrupted, 0);
    let first = chance::first();
    println!("SHELLY_CRASH_CHANCE={first}; undisturbed it takes {took:?}");
    let mut chance = Chance::new(first);
    let mut kills = 0;
    while kills < KILLS {
        let place = place();
        let times = 1 + chance.below(4);
        let (answer, killed) = disturbed(&place, times, took, &mut chance);
        kills += killed;
        let what = format!("SHELLY_CRASH_CHANCE={first}, {kills} kills");
        let calls = Calls::of(&records(&place), &what);
        // All tools of this world can be called twice, so nothing is lost.
        assert_eq!((answer.as_str(), calls.interrupted), (expected.as_str(), 0), "{what}");
    }
}

#[test]
fn session_in_use_is_refused() {
    let place = place();
    let (answer, _) = disturbed(&place, 0, Duration::ZERO, &mut Chance::new(1));
    let store = store(&place);
    let id = store.list(1).unwrap().remove(0).id;
    let opened = store.open(&id, SessionOpenOptions::default()).unwrap();
    let resume = ["session", "resume", "last", "--plugins", crate::PLUGIN_ROOT, TASK];
    let ran = place.run(&resume);
    assert!(ran.code == 2 && ran.stderr.contains("session `[SESSION]` is in use"), "{}", ran.shown());
    assert!(ran.stderr.contains("shelly-host session fork [SESSION]"), "{}", ran.shown());
    drop(opened);
    let ran = place.run(&resume);
    assert_eq!((ran.code, ran.stdout), (0, answer));
}
