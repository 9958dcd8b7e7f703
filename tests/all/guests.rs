//! Every first-party plugin, end to end through the program. A guest without a test does not compile.

use std::path::Path;

use crate::{
    bad_input::{Server, answer},
    support::{Place, Ran},
};

mod made_for_tests;

mod shipped {
    use super::*;
    use crate::files::{fetch, filesystem, search};

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

    #[tokio::test]
    async fn calculator() {
        crate::everyday::calculator().await;
    }

    #[tokio::test]
    async fn date_time() {
        crate::everyday::date_time().await;
    }

    #[tokio::test]
    async fn json_query() {
        crate::everyday::json_query().await;
    }

    #[tokio::test]
    async fn encode() {
        crate::everyday::encode().await;
    }

    #[tokio::test]
    async fn ids() {
        crate::everyday::ids().await;
    }

    #[tokio::test]
    async fn compare() {
        crate::everyday::compare().await;
    }

    #[tokio::test]
    async fn convert() {
        crate::everyday::convert().await;
    }

    #[tokio::test]
    async fn tables() {
        crate::everyday::tables().await;
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
    fn scripted_model() {
        let place = Place::new();
        place.file("docs/a.txt", TEXT);
        let run = |params: &str, task: &str| {
            let model = format!("{{name: script, kind: plugin, plugin: scripted-model, params: {params}}}");
            place.file(
                "shelly.yaml",
                format!("providers: [{model}]\nagents:\n  - name: reader\n    plugins:\n{READER}"),
            );
            place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--output", "json", task])
        };
        // What tools have found goes on to the next one, and into the answer.
        let calls = |tool: &str, arguments: &str| format!("{{calls: [{{tool: {tool}, arguments: {arguments}}}]}}");
        let read = calls("read_file", r"{path: '{{task ~ \w+\.txt}}'}");
        let count = calls("count_text", "{text: '{{result}}'}");
        let says = "{json: {words: '{{result/words}}', file: '{{task ~ [a-z.]+$}}'}}";
        let script = format!("{{replies: [{read}, {count}, {says}]}}");
        let ran = run(&script, "Count a.txt");
        let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["answer"], r#"{"file":"a.txt","words":18}"#, "{}", ran.shown());
        assert_eq!(result["spent"]["tool_calls"], 2, "{result}");
        // A file is measured where it is: nothing of it has to be written again.
        let read = calls("read_file", "{path: a.txt, measure: true}");
        let says =
            "'{{result/words}} {{result/lines}} {{result/longest_lines/0/number}} {{result/longest_lines/0/text}}'";
        let ran = run(&format!("{{replies: [{read}, {says}]}}"), "Measure it");
        let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["answer"], "18 5 2 a much longer line than the others", "{}", ran.shown());
        // A script that is too short, or speaks of what is not there, ends the run and says so.
        for (script, task, why) in [
            (format!("{{replies: [{read}]}}"), "Count a.txt", "the script has ended: it has one reply for this task"),
            (script, "Count it", "the script says `{{task ~ \\w+\\.txt}}`: `\\w+\\.txt` is not found in: Count it"),
            (
                calls("fly", "{}").replacen("{calls", "{replies: [{calls", 1) + "]}",
                "go",
                "the script calls `fly`, which does not exist",
            ),
            ("{cases: [{task: refund, replies: [no]}]}".into(), "go", "the script has no reply for this task"),
            ("{replies: [{fail: {denied: 'no key'}}]}".into(), "go", "no key"),
        ] {
            let ran = run(&script, task);
            assert!(ran.code == 4 && ran.stderr.contains(why), "{script}: {}", ran.shown());
        }
        // What is misspelt is found without a run.
        run("{reply: [hello]}", "go");
        let checked = place.run(&["config", "check", "--plugins", crate::PLUGIN_ROOT]);
        assert!(checked.code == 2 && checked.stderr.contains("`reply`"), "{}", checked.shown());
    }

    #[test]
    fn ollama() {
        let lines = "{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"Fo\"},\"done\":false}\n\
                     {\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"ur.\"},\"done\":false}\n\
                     {\"model\":\"m\",\"done\":true,\"done_reason\":\"stop\",\"prompt_eval_count\":9,\"eval_count\":2}\n";
        let server = Server::start(|_| answer("200 OK", lines));
        let url = format!("http://127.0.0.1:{}", server.port);
        let place = Place::new();
        let run = |granted: &str| {
            let params = format!("{{base_url: \"{url}\", num_ctx: 4096}}");
            let model = format!("{{name: local, kind: plugin, plugin: ollama, model: m, params: {params}, {granted}}}");
            place.file("shelly.yaml", format!("providers: [{model}]\nagents: [{{name: helper}}]\n"));
            place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--output", "json", "What is 2 + 2?"])
        };
        let ran = run(&format!("http: [{{url: \"{url}\", methods: [POST]}}]"));
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let result: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(result["answer"], "Four.", "{result}");
        assert_eq!(result["spent"]["usage"]["input_tokens"], 9, "{result}");
        let asked = server.asked.lock().unwrap().concat();
        for part in ["POST /api/chat ", "What is 2 + 2?", "\"num_ctx\":4096", "\"stream\":true"] {
            assert!(asked.contains(part), "{part}: {asked}");
        }
        // What is not granted is not reached.
        let ran = run("http: [\"https://example.com\"]");
        assert_ne!(ran.code, 0, "{}", ran.shown());
        assert_eq!(server.asked.lock().unwrap().len(), 1);
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
    fn delegation_example_splits_a_task_among_sandboxed_agents() {
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
        // Each reply but the last one of an agent calls one tool.
        let rows = result["agents"].as_array().unwrap();
        let calls: u64 = rows.iter().map(|row| row["completions"].as_u64().unwrap() - 1).sum();
        assert_eq!(result["spent"]["tool_calls"], calls, "{result}");
    }

    #[tokio::test]
    async fn state_machine() {
        crate::teams::state_machine().await;
    }

    /// A model that calls `count_text` for ever, with these arguments: only to be had from a test guest.
    fn stuck(effect: &str, arguments: &str) -> Ran {
        let place = Place::new();
        place.file(
            "shelly.yaml",
            format!(
                "providers: [{{name: stuck, kind: plugin, plugin: probe-hooks, \
                 params: {{provider: tool-call-for-ever, tool: count_text, arguments: {arguments}}}}}]\n\
                 agents:\n  - name: reader\n    options: {{max_iterations: 200}}\n    plugins:\n      count-text:\n      {effect}\n"
            ),
        );
        let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "go"]);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        ran
    }

    #[test]
    fn loop_detect() {
        let ran = stuck(
            "loop-detect: {powers: [see-messages, see-arguments, note, stop], params: {threshold: 2, stop_after: 4}}",
            "{text: a}",
        );
        assert!(ran.stderr.contains("loop-detect edits the chat: note"), "{}", ran.shown());
        assert!(ran.stderr.contains("`loop-detect` stopped the run (loop)"), "{}", ran.shown());
    }

    #[test]
    fn stall_detect() {
        let ran = stuck("stall-detect: {powers: [see-messages, see-results, note, stop]}", "{text: a}");
        assert!(ran.stderr.contains("stall-detect edits the chat: note"), "{}", ran.shown());
        assert!(ran.stderr.contains("`stall-detect` stopped the run (stall)"), "{}", ran.shown());
        // Without its powers it sees nothing, and says nothing of it.
        let blind = stuck("stall-detect: {powers: [see-messages, note, stop]}", "{text: a}");
        assert!(blind.stderr.contains("no answer after 200 turns"), "{}", blind.shown());
        assert!(!blind.stderr.contains("edits the chat"), "{}", blind.shown());
    }

    #[test]
    fn reflection() {
        let ran = stuck("reflection: {powers: [note]}", "{}");
        assert!(ran.stderr.contains("reflection edits the chat: note"), "{}", ran.shown());
        let well = stuck("reflection: {powers: [note]}", "{text: a}");
        assert!(!well.stderr.contains("edits the chat"), "{}", well.shown());
    }

    #[test]
    fn progress() {
        let ran = stuck("progress: {powers: [note], params: {interval: 20}}", "{text: a}");
        assert_eq!(ran.stderr.matches("progress edits the chat: note").count(), 9, "{}", ran.shown());
    }

    #[test]
    fn token_budget() {
        // Each reply uses 20 tokens.
        let ran = stuck("token-budget: {powers: [note, stop], params: {max_tokens: 100}}", "{text: a}");
        assert_eq!(ran.stderr.matches("token-budget edits the chat: note").count(), 1, "{}", ran.shown());
        let why = "`token-budget` stopped the run (token-budget): the run has used 100 tokens, the maximum is 100";
        assert!(ran.stderr.contains(why), "{}", ran.shown());
    }

    #[test]
    fn time_budget() {
        // As little as there can be: how fast the model is does not matter.
        let ran = stuck("time-budget: {powers: [note, stop], params: {max_duration: 1ms}}", "{text: a}");
        assert!(
            ran.stderr.contains("`time-budget` stopped the run (time-budget): the run has waited"),
            "{}",
            ran.shown()
        );
        let place = Place::new();
        place.file("docs/a.txt", TEXT);
        let soon = format!("{READER}      time-budget: {{powers: [note, stop], params: {{max_duration: soon}}}}\n");
        let ran = ask(&place, &soon, "What files are in the folder?");
        assert!(ran.code != 0 && ran.stderr.contains("`max_duration` is `soon`"), "{}", ran.shown());
    }

    #[test]
    fn tool_scope() {
        let place = Place::new();
        place.file("docs/a.txt", TEXT);
        let scope = |params: &str| format!("{READER}      tool-scope: {{powers: [hide-tools], params: {params}}}\n");
        let ran = ask(&place, &scope("{exclude: [nothing_*]}"), "How many words are in a.txt?");
        assert!(ran.code == 0 && ran.stdout.contains("18"), "{}", ran.shown());
        assert!(ran.stderr.contains("no tool of reader matches `nothing_*`"), "{}", ran.shown());
        assert!(ran.stderr.contains("count_text of "), "{}", ran.shown());
        let ran = ask(&place, &scope("{exclude: [count_*]}"), "How many words are in a.txt?");
        assert!(ran.code == 0 && !ran.stderr.contains("count_text of "), "{}", ran.shown());
        assert!(ran.stderr.contains("tool-scope edits the chat: hide-tools"), "{}", ran.shown());
        // Tools of an effect that comes after it as well.
        for (exclude, tools) in [("[pong]", "1 tools"), ("[p*g]", "0 tools")] {
            place.file(
                "shelly.yaml",
                format!(
                    "providers: [{{name: p, kind: plugin, plugin: probe-hooks, params: {{provider: tool-call, tool: ping}}}}]\n\
                     agents:\n  - name: reader\n    plugins:\n      \
                     tool-scope: {{powers: [hide-tools], params: {{exclude: {exclude}}}}}\n      \
                     probe-hooks: {{powers: [provide-tools]}}\n"
                ),
            );
            let ran = place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "go"]);
            assert!(ran.code == 0 && ran.stdout.contains(tools), "{}", ran.shown());
            assert_eq!(ran.stderr.contains("ping done"), tools == "1 tools", "{}", ran.shown());
        }
    }

    /// An agent that reads the same long file again and again, with these effects.
    fn reads_for_ever(place: &Place, effects: &str) -> Ran {
        place.file("docs/a.txt", "all work and no play\n".repeat(100));
        place.file(
            "shelly.yaml",
            format!(
                "providers: [{{name: stuck, kind: plugin, plugin: probe-hooks, context_window: 4000, params: \
                 {{provider: tool-call-for-ever, tool: read_file, arguments: {{path: a.txt}}}}}}]\n\
                 agents:\n  - name: reader\n    options: {{max_iterations: 8}}\n    plugins:\n      \
                 read-files: {{files: [{{path: docs, as: .}}]}}\n{effects}"
            ),
        );
        place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "go"])
    }

    #[test]
    fn trim_tool_results() {
        let powers = "powers: [see-messages, see-results, edit-results]";
        let trim = format!("      trim-tool-results: {{{powers}, params: {{preserve_recent: 1}}}}\n");
        let ran = reads_for_ever(&Place::new(), &trim);
        assert!(ran.stderr.contains("trim-tool-results edits the chat: replace-result"), "{}", ran.shown());
    }

    #[test]
    fn observation_mask() {
        let powers = "powers: [see-messages, see-results, edit-results]";
        let mask = format!("      observation-mask: {{{powers}, params: {{threshold: 0.5, recent_window: 2}}}}\n");
        let ran = reads_for_ever(&Place::new(), &mask);
        assert!(ran.stderr.contains("observation-mask edits the chat: replace-result"), "{}", ran.shown());
    }

    #[test]
    fn offload() {
        let powers = "powers: [see-messages, see-results, edit-results, provide-tools]";
        let params = "params: {threshold: 0.4, recent_window: 2}";
        let ran = reads_for_ever(&Place::new(), &format!("      offload: {{kv: run, {powers}, {params}}}\n"));
        assert!(ran.stderr.contains("offload edits the chat: replace-result"), "{}", ran.shown());
    }

    /// An agent whose model also writes summaries, of a kind.
    fn summarises(effect: &str) -> Ran {
        let place = Place::new();
        place.file("docs/a.txt", "all work and no play\n".repeat(100));
        place.file(
            "shelly.yaml",
            format!(
                "providers: [{{name: offline, kind: plugin, plugin: offline-model, context_window: 3000}}]\n\
                 agents:\n  - name: reader\n    plugins:\n{READER}{effect}"
            ),
        );
        place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "How many words are in a.txt?"])
    }

    #[test]
    fn compact() {
        let powers = "powers: [see-messages, see-arguments, see-results, rewrite, ask-model, stop]";
        let ran = summarises(&format!("      compact: {{{powers}, params: {{threshold: 0.5}}}}\n"));
        assert!(ran.stderr.contains("compact edits the chat: replace"), "{}", ran.shown());
    }

    #[test]
    fn sliding_window() {
        let powers = "powers: [see-messages, see-arguments, see-results, edit-results, rewrite, ask-model]";
        let params = "params: {threshold: 0.5, recent_zone: 1, medium_zone: 0}";
        let ran = summarises(&format!("      sliding-window: {{{powers}, {params}}}\n"));
        assert!(ran.stderr.contains("sliding-window edits the chat: replace"), "{}", ran.shown());
    }

    /// An agent of a model that does as it is told, with these middlewares.
    fn around(place: &Place, model: &str, keys: &str, middleware: &str) -> Ran {
        place.file(
            "shelly.yaml",
            format!(
                "providers: [{{name: p, kind: plugin, plugin: probe-hooks, params: {model}}}, \
                 {{name: spare, kind: plugin, plugin: probe-hooks, params: {{provider: text, text: from the spare}}}}]\n\
                 agents: [{{name: a, provider: p, {keys} middleware: [{middleware}]}}]\n"
            ),
        );
        place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "hello"])
    }

    #[test]
    fn retry() {
        let unavailable = "{provider: error-unavailable}";
        let ran = around(&Place::new(), unavailable, "", "{kind: retry, params: {base_delay: 1ms, attempts: 4}}");
        assert_eq!(ran.code, 4, "{}", ran.shown());
        assert_eq!(ran.stderr.matches("retry: again").count(), 3, "{}", ran.shown());
    }

    #[test]
    fn fallback() {
        let fallback = "{kind: fallback, models: [spare], params: {models: [spare]}}";
        let ran = around(&Place::new(), "{provider: error-denied}", "", fallback);
        assert!(ran.code == 0 && ran.stdout.contains("from the spare"), "{}", ran.shown());
        let ran = around(&Place::new(), "{provider: error-invalid}", "", fallback);
        assert_eq!(ran.code, 4, "{}", ran.shown());
    }

    #[test]
    fn router() {
        let rules = |matches: &str| {
            let params = format!("{{rules: [{{model: spare, matches: '{matches}'}}]}}");
            format!("{{kind: router, models: [spare], powers: [see-messages], params: {params}}}")
        };
        for (matches, is_spare) in [("^hello$", true), ("^bye$", false)] {
            let ran = around(&Place::new(), "{provider: text, text: from its own}", "", &rules(matches));
            assert!(ran.code == 0 && ran.stdout.contains("from the spare") == is_spare, "{}", ran.shown());
        }
    }

    #[test]
    fn cache() {
        let place = Place::new();
        let cache = "{kind: cache, kv: agent, clock: true, powers: [answer]}";
        for is_answered in [false, true] {
            let ran = around(&place, "{provider: text, text: from its own}", "", cache);
            assert!(ran.code == 0 && ran.stdout.contains("from its own"), "{}", ran.shown());
            assert_eq!(ran.stderr.contains("cache: answer"), is_answered, "{}", ran.shown());
        }
    }

    #[test]
    fn redact_requests() {
        let powers = "[see-messages, see-arguments, see-results, rewrite]";
        let redact = |extra: &str| format!("{{kind: redact-requests, powers: {powers}, params: {{extra: [{extra}]}}}}");
        for (extra, says) in [("hello", "[redacted]"), ("bye", "hello")] {
            let ran = around(&Place::new(), "{provider: echo}", "", &redact(extra));
            assert!(ran.code == 0 && ran.stdout.contains(says), "{}", ran.shown());
        }
    }

    #[test]
    fn redact_results() {
        let place = Place::new();
        place.file("docs/a.txt", "write to ann@example.com");
        let ask = |middleware: &str| {
            ask(&place, &format!("{READER}    middleware: [{middleware}]\n"), "What does a.txt say?")
        };
        let open = ask("");
        assert!(open.stdout.contains("ann@example.com"), "{}", open.shown());
        let closed = ask("{kind: redact-results, params: {what: [emails]}}");
        assert!(closed.code == 0 && closed.stdout.contains("[redacted]"), "{}", closed.shown());
        assert!(!(closed.stdout + &closed.stderr).contains("ann@example.com"));
    }

    #[test]
    fn output_guardrail() {
        let guard = "{kind: output-guardrail, params: {json_schema: {type: object}, retries: 1}}";
        let ran = around(&Place::new(), "{provider: text, text: prose}", "", guard);
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.stderr.contains("the answer breaks `json_schema` after 2 attempts"), "{}", ran.shown());
        let ran = around(&Place::new(), "{provider: text, text: '{}'}", "", guard);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "{}\n"), "{}", ran.shown());
    }

    #[test]
    fn input_guardrail() {
        let guard = |deny: &str| format!("{{kind: input-guardrail, params: {{deny: ['{deny}']}}}}");
        let ran = around(&Place::new(), "{provider: text, text: done}", "", &guard("(?i)^HELLO$"));
        assert!(ran.code == 1 && ran.stderr.contains("breaks the rule `deny[0]`"), "{}", ran.shown());
        let ran = around(&Place::new(), "{provider: text, text: done}", "", &guard("bye"));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.shown());
    }

    #[test]
    fn output_format() {
        let format = "{kind: output_format, params: {trim: true, prefix: '> '}}";
        let ran = around(&Place::new(), "{provider: text, text: ' done '}", "", format);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "> done\n"), "{}", ran.shown());
    }

    #[test]
    fn rate_limit() {
        let place = Place::new();
        let limit = "{kind: rate_limit, kv: agent, clock: true, params: {runs: 1, per: 1h}}";
        let ran = around(&place, "{provider: text, text: done}", "", limit);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.shown());
        let ran = around(&place, "{provider: text, text: done}", "", limit);
        assert!(ran.code == 1 && ran.stderr.contains("1 run has begun within 1h"), "{}", ran.shown());
    }

    #[test]
    fn tool_policy() {
        let place = Place::new();
        place.file("docs/a.txt", "one two three");
        let ask = |rules: &str| {
            let policy = format!("{READER}    middleware: [{{kind: tool-policy, params: {{rules: [{rules}]}}}}]\n");
            ask(&place, &policy, "What does a.txt say?")
        };
        let ran = ask("{tools: 'read_*', arguments: {path: '\\.txt$'}, action: deny}");
        assert!(!ran.stdout.contains("one two three"), "{}", ran.shown());
        assert!(ran.stderr.contains("tool-policy: deny"), "{}", ran.shown());
        let ran = ask("{tools: 'read_*', arguments: {path: '^/etc/'}, action: deny}");
        assert!(ran.code == 0 && ran.stdout.contains("one two three"), "{}", ran.shown());
        let ran = ask("{tools: 'read_*', action: ask}");
        assert!(!ran.stdout.contains("one two three"), "the client cannot ask its user: {}", ran.shown());
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
