//! Sessions on the command line: they are created, continued, and refused.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::{
    GUEST_ROOT, PLUGIN_ROOT,
    support::{Place, Ran},
};

const COUNT: &str = "How many words are in \"one two three\"?";

/// An agent that may take so many turns, and a model that thinks for ever.
fn config(turns: u32) -> String {
    format!(
        "plugin_dirs: ['{PLUGIN_ROOT}', '{GUEST_ROOT}']\n\
         providers:\n\
         - {{name: offline, kind: plugin, plugin: offline-model}}\n\
         - {{name: endless, kind: plugin, plugin: probe-hooks, params: {{provider: spin}}}}\n\
         agents:\n\
         - {{name: helper, plugins: {{count-text: }}, options: {{max_iterations: {turns}}}}}\n\
         - {{name: other, plugins: {{count-text: }}}}\n"
    )
}

fn place(turns: u32) -> Place {
    let place = Place::new();
    place.file("shelly.yaml", config(turns));
    place
}

/// The journals there are, by name.
fn journals(place: &Place) -> Vec<PathBuf> {
    let sessions = place.path().join(".shelly/local/sessions");
    let mut found: Vec<_> = fs::read_dir(sessions).map_or_else(
        |_| vec![],
        |entries| {
            entries.map(|entry| entry.unwrap().path().join("journal.jsonl")).filter(|path| path.exists()).collect()
        },
    );
    found.sort();
    found
}

fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

#[test]
fn run_is_recorded_unless_disabled() {
    let place = place(9);
    fine(place.run(&["run", COUNT, "--no-session"]));
    assert_eq!(journals(&place), [] as [PathBuf; 0]);
    assert!(!place.path().join(".shelly").exists());
    let ran = fine(place.run(&["run", COUNT]));
    assert!(ran.stderr.contains("\nsession [SESSION]\n"), "{}", ran.shown());
    assert_eq!(journals(&place).len(), 1);
    // What it wrote down is not for git, whoever made the folder.
    assert_eq!(fs::read_to_string(place.path().join(".shelly/local/.gitignore")).unwrap(), "*\n");
    let json = fine(place.run(&["run", COUNT, "--output", "json"]));
    assert!(json.stdout.contains(r#""session":"[SESSION]""#), "{}", json.shown());
}

#[test]
fn named_session_is_created_and_continued() {
    let place = place(9);
    fine(place.run(&["run", COUNT, "--session", "words"]));
    let again = fine(place.run(&["run", "How many words are in \"four five\"?", "--session", "words"]));
    assert_eq!(again.stdout, "\"four five\" has 2 words.\n", "{}", again.shown());
    let journal = fs::read_to_string(&journals(&place)[0]).unwrap();
    assert_eq!(journals(&place).len(), 1);
    assert_eq!(journal.matches(r#""kind":"began""#).count(), 2);
    assert!(journal.contains(r#""continues":1"#), "{journal}");
    let part = place.run(&["run", COUNT, "--session", "wor"]);
    assert_eq!(part.code, 2, "{}", part.shown());
    assert!(part.stderr.contains("`wor` is only the beginning of the name of session `words`"), "{}", part.shown());
    let last = place.run(&["run", COUNT, "--session", "last"]);
    assert!(last.code == 2 && last.stderr.contains("`last` cannot be the name of a session"), "{}", last.shown());
    for bad in ["../words", ".hidden", "a b", ""] {
        let ran = place.run(&["run", COUNT, "--session", bad]);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        assert!(ran.stderr.contains("invalid session name"), "{}", ran.shown());
    }
}

#[test]
fn session_after_another_begins_with_its_answer() {
    let place = place(9);
    fine(place.run(&["run", COUNT, "--session", "first"]));
    fine(place.run(&["run", COUNT, "--after", "first"]));
    let journals = journals(&place);
    let newer = journals.iter().find(|path| !path.to_string_lossy().contains("first")).unwrap();
    let journal = fs::read_to_string(newer).unwrap();
    assert!(journal.contains(r#""follows":"first""#), "{journal}");
    assert!(journal.contains("Answer: ") && journal.contains("has 3 words."), "{journal}");
    let none = place.run(&["run", COUNT, "--after", "nothing"]);
    assert_eq!(none.code, 2, "{}", none.shown());
    assert!(none.stderr.contains("there is no session `nothing`"), "{}", none.shown());
}

#[test]
fn failed_session_resumes_and_reports_config_changes() {
    let place = place(1);
    let failed = place.run(&["run", COUNT, "--session", "s"]);
    assert_eq!(failed.code, 1, "{}", failed.shown());
    assert!(failed.stderr.ends_with("resume with: shelly-host session resume s\n"), "{}", failed.shown());
    place.file("shelly.yaml", config(5));
    let ran = fine(place.run(&["session", "resume", "s", "--verbose", "--approve", "never"]));
    assert_eq!(ran.stdout, "\"one two three\" has 3 words.\n", "{}", ran.shown());
    assert!(ran.stderr.contains("since the session was last used: agent `helper` has changed"), "{}", ran.shown());
    assert!(!ran.stderr.contains("count_text of count-text"), "the call was made before: {}", ran.shown());
    // Once more changes nothing, and says the same.
    let journal = fs::read_to_string(&journals(&place)[0]).unwrap();
    let over = fine(place.run(&["session", "resume", "s"]));
    assert_eq!(over.stdout, ran.stdout, "{}", over.shown());
    assert!(over.stderr.contains("the session is already complete; its last answer:"), "{}", over.shown());
    assert_eq!(fs::read_to_string(&journals(&place)[0]).unwrap(), journal);
    let more = fine(place.run(&["session", "resume", "s", "How many words are in \"four five\"?"]));
    assert_eq!(more.stdout, "\"four five\" has 2 words.\n", "{}", more.shown());
}

/// A run that is killed while its model thinks.
fn killed(place: &Place, session: &str) {
    let arguments = ["run", COUNT, "--session", session, "--model", "endless", "--output", "events"];
    let mut child = place.command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let journal = place.path().join(format!(".shelly/local/sessions/{session}/journal.jsonl"));
    let since = Instant::now();
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains(r#""kind":"turn""#)) {
        assert!(since.elapsed() < Duration::from_secs(60), "it never began");
        thread::sleep(Duration::from_millis(5));
    }
    // While it is at work nobody else may go on with it.
    let second = place.run(&["session", "resume", session]);
    assert_eq!(second.code, 2, "{}", second.shown());
    assert!(second.stderr.contains("is in use"), "{}", second.shown());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_session_resumes_with_another_model_and_agent() {
    let place = place(9);
    killed(&place, "killed");
    let arguments = [
        "session",
        "resume",
        "last",
        "--config",
        "shelly.yaml",
        "--plugins",
        PLUGIN_ROOT,
        "--agent",
        "other",
        "--model",
        "offline",
        "--output",
        "json",
    ];
    let ran = fine(place.run(&arguments));
    assert!(ran.stdout.contains("has 3 words"), "{}", ran.shown());
    assert!(ran.stdout.contains(r#""agent":"other""#), "{}", ran.shown());
    assert!(ran.stderr.contains("session killed: continues where it was interrupted"), "{}", ran.shown());

    killed(&place, "told");
    // What it is told is read before its next turn.
    let task = "How many words are in \"four five\"?";
    let ran = fine(place.run(&["session", "resume", "told", task, "--model", "offline"]));
    assert!(fs::read_to_string(&journals(&place)[1]).unwrap().contains(r#""kind":"sent""#));
    assert!(ran.stdout.contains("words"), "{}", ran.shown());
    let traced = fine(place.run(&["trace", "told"]));
    for words in [" · 1 run · ", "interrupted, continued below", "answered, continued from above"] {
        assert!(traced.stdout.contains(words), "{words}: {}", traced.shown());
    }
}

#[test]
fn damaged_session_resumes_only_with_up_to_damage() {
    let place = place(9);
    fine(place.run(&["run", COUNT, "--session", "s"]));
    let journal = &journals(&place)[0];
    let mut lines: Vec<_> = fs::read_to_string(journal).unwrap().lines().map(str::to_owned).collect();
    let at = lines.iter().position(|line| line.contains(r#""kind":"call_ended""#)).unwrap();
    lines[at] = lines[at].replacen("words", "turds", 1);
    fs::write(journal, lines.join("\n") + "\n").unwrap();
    let ran = place.run(&["session", "resume", "s", COUNT]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stderr.contains(&format!("is damaged at line {}", at + 1)), "{}", ran.shown());
    assert!(ran.stderr.contains("--up-to-damage"), "{}", ran.shown());
    let ran = fine(place.run(&["session", "resume", "s", "--up-to-damage"]));
    assert_eq!(ran.stdout, "\"one two three\" has 3 words.\n", "{}", ran.shown());
    assert!(ran.stderr.contains("is damaged at line"), "{}", ran.shown());
    assert!(ran.stderr.contains("all of it is in [DIR]"), "{}", ran.shown());
    assert!(journal.with_file_name("journal.damaged-1.jsonl").exists());

    // Nothing is left of what was to be done: what was cut is told all the same.
    fine(place.run(&["run", COUNT, "--session", "t"]));
    let early = journal.parent().unwrap().with_file_name("t").join("journal.jsonl");
    let text = fs::read_to_string(&early).unwrap();
    fs::write(&early, text.replacen("offline-model\",\"depth", "offline-modem\",\"depth", 1)).unwrap();
    let ran = place.run(&["session", "resume", "t", "--up-to-damage"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.stderr.contains("all of it is in [DIR]"), "{}", ran.shown());
    assert!(ran.stderr.contains("is already complete"), "{}", ran.shown());

    // A last line that was cut off is no damage.
    let text = fs::read_to_string(journal).unwrap();
    fs::write(journal, &text[..text.len() - 20]).unwrap();
    let ran = fine(place.run(&["session", "resume", "s", COUNT]));
    assert!(ran.stderr.contains("warning: "), "{}", ran.shown());
}

#[test]
fn printed_resume_command_can_be_run() {
    let place = Place::new();
    place.file("else where/shelly.yaml", config(1));
    let failed =
        place.run(&["run", COUNT, "--config", "else where/shelly.yaml", "--plugins", PLUGIN_ROOT, "--session", "s"]);
    let line = failed.stderr.lines().last().unwrap();
    let typed = line.strip_prefix("resume with: shelly-host ").unwrap();
    assert_eq!(typed, format!("session resume s --config 'else where/shelly.yaml' --plugins {PLUGIN_ROOT}"));
    // The config that was named is remembered, of a session that is there.
    let found = place.run(&["session", "resume", "s"]);
    assert!(
        found.stderr.contains("options stored in the session: --config 'else where/shelly.yaml'"),
        "{}",
        found.shown()
    );
    let nowhere = place.run(&["session", "resume", "t"]);
    assert_eq!(nowhere.code, 2, "{}", nowhere.shown());
    assert!(nowhere.stderr.contains("searched in [DIR]/.shelly/local/sessions"), "{}", nowhere.shown());
    place.file("else where/shelly.yaml", config(9));
    fine(place.run(&["session", "resume", "s", "--config", "else where/shelly.yaml", "--plugins", PLUGIN_ROOT]));
    let forgotten = place.run(&["session", "resume", "Write the tests"]);
    assert!(forgotten.stderr.contains("name the session first, then the task"), "{}", forgotten.shown());
}

#[test]
fn session_without_a_run_is_reported() {
    let place = place(9);
    fine(place.run(&["run", COUNT, "--session", "s"]));
    let journal = &journals(&place)[0];
    let text = fs::read_to_string(journal).unwrap();
    fs::write(journal, text.split_inclusive('\n').next().unwrap()).unwrap();
    let ran = place.run(&["session", "resume", "s"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.stderr.contains("the session `s` has no run to resume"), "{}", ran.shown());
    fine(place.run(&["session", "resume", "s", COUNT]));
}

#[test]
fn unwritable_session_folder_is_reported() {
    let place = place(9);
    place.file(".shelly", "a file");
    let ran = place.run(&["run", COUNT]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.stderr.contains(".shelly"), "{}", ran.shown());
}

#[test]
fn session_resume_reads_the_task_from_stdin() {
    let place = place(9);
    fine(place.run(&["run", COUNT, "--session", "s"]));
    let mut command: Command = place.command(&["session", "resume", "s", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"How many words are in \"four five\"?").unwrap();
    let ran = place.ran(child.wait_with_output().unwrap());
    assert_eq!(fine(ran).stdout, "\"four five\" has 2 words.\n");
}

#[test]
fn api_keys_are_not_recorded() {
    let place = place(9);
    for (variable, key) in [("OPENAI_API_KEY", "sk-of-the-environment"), ("MY_KEY", "sk-of-the-config")] {
        let keyed = "- {name: keyed, kind: openai, model: m, api_key: '${MY_KEY}'}\nagents:";
        place.file("shelly.yaml", config(9).replacen("agents:", keyed, 1));
        let task = format!("How many words are in \"{key} and more\"?");
        let mut command = place.command(&["run", &task, "--session", variable]);
        let ran = fine(place.ran(command.env("MY_KEY", "unset-yet").env(variable, key).output().unwrap()));
        assert!(ran.stdout.contains("has 3 words"), "{}", ran.shown());
        let folder = place.path().join(".shelly/local/sessions").join(variable);
        let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        assert!(!journal.contains(key) && journal.contains("[secret "), "{journal}");
    }
}

#[test]
fn prompt_is_unchanged_by_recorded_sessions() {
    let place = place(9);
    let prompt = |session: &str| {
        fine(place.run(&["run", COUNT, "--session", session]));
        let folder = place.path().join(".shelly/local/sessions").join(session);
        let journal = fs::read_to_string(folder.join("journal.jsonl")).unwrap();
        let began = journal.lines().nth(1).unwrap();
        let began: serde_json::Value = serde_json::from_str(began).unwrap();
        (began["prompt"].clone(), began["attached"].clone())
    };
    assert_eq!(prompt("one"), prompt("two"), "what runs wrote down is no project");
}

#[test]
fn sessions_config_controls_recording() {
    let place = place(9);
    let with = |sessions: &str| {
        place.file("shelly.yaml", format!("sessions: {sessions}\n{}", config(9)));
    };
    with("{record: false}");
    fine(place.run(&["run", COUNT]));
    assert_eq!(journals(&place), [] as [PathBuf; 0]);
    fine(place.run(&["run", COUNT, "--session", "said"]));
    assert_eq!(journals(&place).len(), 1, "the command line has the last word");

    with("{max_bytes: 3000}");
    let ran = place.run(&["run", COUNT]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stderr.contains("error: cannot write the journal of the session"), "{}", ran.shown());
    assert!(ran.stderr.contains("the session has reached its maximum of 3000 bytes on disk"), "{}", ran.shown());

    with("{max_total_bytes: 100}");
    let ran = place.run(&["run", COUNT]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(ran.stderr.contains("the maximum is 100"), "{}", ran.shown());
    assert!(ran.stderr.contains("session prune"), "{}", ran.shown());
}
