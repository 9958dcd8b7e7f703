//! Every first-party plugin, end to end through the program: a guest without a test does not compile.

use std::path::Path;

use crate::support::{Place, Ran};

mod shipped {
    use super::*;

    macro_rules! assert_test_exists {
        ($name:ident) => {
            #[expect(unused_imports, reason = "that it is there is the check")]
            use self::$name as _;
        };
    }
    foreach_plugin!(assert_test_exists);

    const TEXT: &str = "one two three\na much longer line than the others\n\nfour\nthe last line is long as well\n";

    fn config(plugins: &str) -> String {
        format!(
            "providers: [{{name: offline, kind: plugin, plugin: offline-model}}]\nagents:\n  - name: reader\n    plugins:\n{plugins}"
        )
    }

    fn ask(place: &Place, plugins: &str, task: &str) -> Ran {
        place.file("shelly.yaml", config(plugins));
        place.run(&["run", "--plugins", crate::PLUGIN_ROOT, task])
    }

    const READER: &str = "      read-files: {files: [{path: docs, as: .}]}\n      count-text:\n";

    #[test]
    fn read_files() {
        let place = Place::new();
        place.file("docs/a.txt", TEXT);
        place.file("secret.txt", "not for you");
        let ran = ask(&place, READER, "What does a.txt say?");
        assert!(ran.code == 0 && ran.stdout.contains("one two three"), "{}", ran.shown());
        let ran = ask(&place, READER, "What does ../secret.txt say?");
        assert!(!ran.stdout.contains("not for you"), "{}", ran.shown());
        let ran = ask(&place, READER, "What files are in the folder?");
        assert!(ran.stdout.contains("a.txt") && !ran.stdout.contains("secret"), "{}", ran.shown());
    }

    #[test]
    fn count_text() {
        let place = Place::new();
        place.file("docs/a.txt", TEXT);
        place.file("docs/b.txt", "x\ny z\n");
        let ran = ask(&place, READER, "How many words are in a.txt?");
        assert!(ran.code == 0 && ran.stdout.contains("18"), "{}", ran.shown());
        let ran = ask(&place, READER, "How many lines do a.txt and b.txt have?");
        assert!(ran.stdout.contains('5') && ran.stdout.contains('2'), "{}", ran.shown());
    }

    #[test]
    fn offline_model() {
        let place = Place::new();
        place.file("docs/notes.md", TEXT);
        let task = "How many words are in notes.md, and which are its two longest lines?";
        let ran = ask(&place, READER, task);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        for part in ["18", "a much longer line than the others", "the last line is long as well"] {
            assert!(ran.stdout.contains(part), "{part}: {}", ran.shown());
        }
        assert!(!ran.stdout.contains("one two three"), "only two lines were asked for: {}", ran.shown());
        let ran = ask(&place, READER, "How many words are in missing.md?");
        assert!(ran.code == 0 && ran.stdout.contains("missing.md"), "{}", ran.shown());
    }

    #[test]
    fn redact() {
        let place = Place::new();
        place.file("docs/a.txt", "the key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD and that is all");
        let open = ask(&place, READER, "What does a.txt say?");
        assert!(open.stdout.contains("sk-abcdefghij"), "{}", open.shown());
        let closed = ask(&place, &format!("{READER}      redact:\n"), "What does a.txt say?");
        assert!(closed.code == 0 && closed.stdout.contains("[redacted]"), "{}", closed.shown());
        assert!(!closed.stdout.contains("sk-abcdefghij"), "{}", closed.shown());
    }

    #[test]
    fn redacted_text_is_not_streamed_either() {
        let place = Place::new();
        place.file("docs/a.txt", "the key is sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD and that is all");
        place.file("shelly.yaml", config(&format!("{READER}      redact:\n")));
        let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--output", "events", "What does a.txt say?"]);
        assert!(ran.code == 0 && ran.stdout.contains("[redacted]"), "{}", ran.shown());
        assert!(!ran.stdout.contains("sk-abcdefghij"), "{}", ran.shown());
    }

    #[test]
    fn a_task_is_taken_apart_and_delegated_to_agents_with_sandboxes_of_their_own() {
        let place = Place::new();
        let config = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/02-delegation/shelly.yaml");
        let task = "How many words are in README.md, and how many lines are in Cargo.toml?";
        let arguments = ["run", "--config", config, "--plugins", crate::PLUGIN_ROOT, "--output", "json", task];
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        let answer = result["answer"].as_str().unwrap();
        for part in ["reader says: README.md has ", " words.\n\nreader says: Cargo.toml has ", " lines."] {
            assert!(answer.contains(part), "{answer}");
        }
        let rows = result["agents"].as_array().unwrap();
        let mut names: Vec<_> = rows.iter().map(|row| row["agent"].as_str().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["lead", "reader-lines-2", "reader-words-1"], "{result}");
        // To the token: what the rows say is what the run has spent.
        let sum = |key: &str| {
            result["agents"].as_array().unwrap().iter().map(|row| row["usage"][key].as_u64().unwrap()).sum::<u64>()
        };
        for key in ["input_tokens", "output_tokens"] {
            assert_eq!(result["spent"]["usage"][key], sum(key), "{result}");
        }
        assert_eq!(result["spent"]["tool_calls"], 5, "{result}");
    }

    #[test]
    fn loop_guard() {
        // A model that calls the same tool for ever is only to be had from a test guest.
        let place = Place::new();
        place.file(
            "shelly.yaml",
            "providers: [{name: stuck, kind: plugin, plugin: probe-hooks, params: {provider: tool-call-for-ever, tool: count_text, arguments: {text: a}}}]\n\
             agents:\n  - name: reader\n    plugins:\n      count-text:\n      \
             loop-guard: {powers: [see-messages, see-arguments, note, stop], params: {threshold: 2, stop_after: 4}}\n",
        );
        let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "go"]);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.stderr.contains("loop-guard edits the chat: note"), "{}", ran.shown());
        assert!(ran.stderr.contains("`loop-guard` stopped the run (loop)"), "{}", ran.shown());
    }
}

/// Guests that only tests use: that they do what the tests take them to do.
mod made_for_tests {
    use super::*;

    macro_rules! assert_test_exists {
        ($name:ident) => {
            #[expect(unused_imports, reason = "that it is there is the check")]
            use self::$name as _;
        };
    }
    foreach_guest!(assert_test_exists);

    fn run(config: &str) -> Ran {
        let place = Place::new();
        place.file("shelly.yaml", config);
        place.run(&["run", "--plugins", crate::GUEST_ROOT, "hello"])
    }

    #[test]
    fn probe() {
        let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
             params: {provider: tool-call, tool: echo, arguments: {text: pong}}}]\n\
             agents: [{name: a, plugins: {probe: {files: [{path: .}], clock: true, random: true}}}]\n");
        assert!(ran.code == 0 && ran.stderr.contains("echo done"), "{}", ran.shown());
    }

    #[test]
    fn probe_hooks() {
        let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks}]\n\
             agents: [{name: a, plugins: {probe-hooks: {params: {effect: note, middleware: replace, text: done}, \
             powers: [note]}}}]\n");
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.shown());
        assert!(ran.stderr.contains("probe-hooks edits the chat: note"), "{}", ran.shown());
    }

    #[test]
    fn probe_kv() {
        let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
             params: {provider: tool-call, tool: kv_put, arguments: {key: k, value: v}}}]\n\
             agents: [{name: a, plugins: {probe-kv: {kv: run}}}]\n");
        assert!(ran.code == 0 && ran.stderr.contains("kv_put done"), "{}", ran.shown());
    }
}

#[test]
fn plugin_folders_are_complete() {
    for folder in std::fs::read_dir(Path::new(crate::PLUGIN_ROOT)).unwrap() {
        let folder = folder.unwrap().path();
        let place = Place::new();
        let ran = place.run(&["plugin", "inspect", folder.to_str().unwrap(), "--output", "json"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let about: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(about["id"], folder.file_name().unwrap().to_str().unwrap());
        assert!(about["digest"].as_str().unwrap().starts_with("sha256:"));
    }
}
