//! `shelly-host batch`: many tasks in one process, killed and resumed, with a server that plays the model.

pub mod model_server;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::{Command, Stdio},
    sync::{Condvar, Mutex, atomic::Ordering},
};

use serde_json::{Value, json};

use self::model_server::{ModelServer, Says, task_of, text_of};
use crate::support::{Place, Ran};

/// Answers every task with its own text.
fn echo() -> ModelServer {
    ModelServer::start(|task, _| Says::Text(format!("I did: {task}")))
}

const BATCH: [&str; 5] = ["batch", "--tasks", "t.jsonl", "--output", "out.jsonl"];

fn batch(place: &Place, more: &[&str]) -> Ran {
    place.run(&[&BATCH[..], more].concat())
}

/// Writes tasks whose texts are their ids.
fn tasks(place: &Place, ids: &[&str]) {
    let line = |id: &&str| format!("{}\n", json!({"id": id, "task": id}));
    place.file("t.jsonl", ids.iter().map(line).collect::<String>());
}

/// The results, in the order in which they were written.
fn results(place: &Place) -> Vec<Value> {
    let text = fs::read_to_string(place.path().join("out.jsonl")).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// The last result of each id.
fn by_id(place: &Place) -> BTreeMap<String, Value> {
    results(place).into_iter().map(|result| (result["id"].as_str().unwrap().to_owned(), result)).collect()
}

fn sessions(place: &Place) -> BTreeSet<String> {
    let entries = fs::read_dir(place.path().join(".shelly/local/sessions")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn batch_answers_each_task_once() {
    let server = echo();
    let place = server.place();
    place.file(
        "t.jsonl",
        "{\"id\": \"first\", \"task\": \"one\"}\n\n{\"task\": \"two\", \"agent\": \"other\"}\n{\"id\": \"É\", \"task\": \"three\"}\n",
    );
    let ran = batch(&place, &["--jobs", "2"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.shown());
    assert!(ran.stderr.contains("running 3 of 3 tasks, at most 2 at once\n"), "{}", ran.shown());
    assert!(ran.stderr.lines().last().unwrap().starts_with("3 of 3, "), "{}", ran.shown());
    assert!(ran.stderr.trim_end().ends_with(", $3.00"), "{}", ran.shown());
    let results = by_id(&place);
    assert_eq!(results.keys().collect::<Vec<_>>(), ["3", "first", "É"]);
    let second = &results["3"];
    let fields = ["answer", "stop", "error", "agent", "model", "turns", "cost_usd"];
    let expected = json!(["I did: two", "answered", null, "other", "m", 1, 1.0]);
    assert_eq!(json!(fields.map(|field| &second[field])), expected);
    assert_eq!(second["usage"]["output_tokens"], 100_000);
    assert!(second["duration_ms"].as_f64().unwrap() > 0.0);
    let recorded: BTreeSet<_> = results.values().map(|result| result["session"].as_str().unwrap().to_owned()).collect();
    assert_eq!((recorded.len(), &recorded), (3, &sessions(&place)));
    // The session is one like any other.
    let shown = place.run(&["session", "show", results["first"]["session"].as_str().unwrap()]);
    assert!(shown.code == 0 && shown.stdout.contains("I did: one"), "{}", shown.shown());

    let again = batch(&place, &[]);
    assert!(again.code == 0 && again.stderr.contains("no task is left to run"), "{}", again.shown());
    assert_eq!(server.count(), 3);
}

#[test]
fn killed_batch_repeats_no_answered_task() {
    let server = ModelServer::start(|task, before| match (task, before) {
        ("slow", 0) => Says::Silence,
        _ => Says::Text(format!("I did: {task}")),
    });
    let place = server.place();
    tasks(&place, &["a", "b", "slow", "c"]);
    let mut command = place.command(&[&BATCH[..], &["--jobs", "1"]].concat());
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    server.silent.recv().unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    let ran = batch(&place, &["--jobs", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let results = results(&place);
    let mut ids: Vec<_> = results.iter().map(|result| result["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "b", "c", "slow"], "each once: {}", ran.shown());
    assert!(results.iter().all(|result| result["error"].is_null()), "{results:?}");
    let counts = ["a", "b", "slow", "c"].map(|task| server.asked(task).len());
    assert_eq!(counts, [1, 1, 2, 1]);
    assert_eq!(sessions(&place).len(), 4, "the one that was interrupted went on");
}

#[test]
fn answer_of_a_finished_session_is_not_asked_for_again() {
    let server = ModelServer::start(|task, _| match task {
        "bad" => Says::Status("400 Bad Request"),
        _ => Says::Text("Four.".into()),
    });
    let place = server.place();
    tasks(&place, &["good", "bad"]);
    assert_eq!(batch(&place, &[]).code, 1);
    let before = by_id(&place);
    // It was killed after the session was written, and before the result was.
    place.file("out.jsonl", format!("{}\n{{\"id\":\"good\",\"answ", before["bad"]));
    let ran = batch(&place, &[]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stderr.contains("the last result was incomplete"), "{}", ran.shown());
    let after = by_id(&place);
    for field in ["answer", "session", "cost_usd", "model", "agent", "usage"] {
        assert_eq!(after["good"][field], before["good"][field], "{field}");
    }
    assert_eq!(server.count(), 2);
    // Another results file is another batch.
    fs::remove_file(place.path().join("out.jsonl")).unwrap();
    assert_eq!(batch(&place, &[]).code, 1);
    assert_eq!((server.count(), sessions(&place).len()), (4, 4));
}

#[test]
fn failed_task_is_repeated_only_on_request() {
    let server = ModelServer::start(|task, before| match (task, before) {
        ("bad", 0) => Says::Status("400 Bad Request"),
        _ => Says::Text("Four.".into()),
    });
    let place = server.place();
    tasks(&place, &["a", "bad", "c"]);
    let ran = batch(&place, &[]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stderr.contains("3 of 3, 1 failed") && ran.stderr.contains("--retry-failed"), "{}", ran.shown());
    let told = "1 task failed: the request to the model `local` failed: ";
    assert!(ran.stderr.contains(told) && ran.stderr.contains("no luck"), "{}", ran.shown());
    let failed = &by_id(&place)["bad"];
    assert_eq!((&failed["answer"], &failed["stop"]), (&Value::Null, &json!("model_failed")));
    assert_eq!(failed["error"]["kind"], "provider");
    assert_eq!(failed["error"]["message"], "the request to the model `local` failed");
    assert!(failed["error"]["causes"][0].as_str().unwrap().contains("no luck"), "{failed}");
    assert!(failed["error"]["hint"].as_str().unwrap().contains("providers.local"), "{failed}");

    let again = batch(&place, &[]);
    assert!(again.code == 1 && again.stderr.contains("2 answered, 1 failed"), "{}", again.shown());
    assert_eq!(server.count(), 3);
    let retried = batch(&place, &["--retry-failed"]);
    assert_eq!(retried.code, 0, "{}", retried.shown());
    assert_eq!((results(&place).len(), server.count()), (4, 4));
    let mended = &by_id(&place)["bad"];
    assert_eq!(mended["answer"], "Four.");
    assert_ne!(mended["session"], failed["session"], "it began anew");
}

#[test]
fn mistakes_in_the_tasks_are_found_before_anything_runs() {
    let server = echo();
    let place = server.place();
    place.file("no.bin", b"\xff\0");
    for (lines, says, mend) in [
        (
            "{\"id\": \"a\", \"task\": \"x\"}\n{\"id\": \"a\", \"task\": \"y\"}",
            "t.jsonl, line 2: the id `a` is already used",
            "choose another id",
        ),
        ("{\"task\": \"x\"}\n{\"tsk\": \"y\"}", "t.jsonl, line 2: invalid task", "did you mean `task`?"),
        ("{\"task\": \"x\"}\nWhat is 2 + 2?", "t.jsonl, line 2: invalid task", "write one object per line"),
        ("{\"task\": \"x\"}\n{\"task\": \" \"}", "t.jsonl, line 2: invalid task", "write what to do"),
        ("{\"task\": \"x\", \"attachments\": [\"none.txt\"]}", "line 1: cannot attach none.txt", "correct the path"),
        ("{\"task\": \"x\", \"schema\": \"none.json\"}", "line 1: cannot read the schema none.json", "name a file"),
        ("{\"task\": \"x\"}\n{\"task\": \"y\", \"agent\": \"othr\"}", "there is no agent `othr`", "`other`"),
        ("{\"task\": \"x\", \"model\": \"none\"}", "there is no model `none`", "local"),
    ] {
        place.file("t.jsonl", lines);
        let ran = batch(&place, &[]);
        assert!(ran.code == 2 && ran.stderr.contains(says) && ran.stderr.contains(mend), "{lines}\n{}", ran.shown());
        assert!(fs::read_to_string(place.path().join("out.jsonl")).unwrap_or_default().is_empty());
    }
    for (lines, says) in [
        ("no\n{\"task\": \"x\"}\n{\"tsk\": \"y\"}\n", ["has 2 lines that are no valid tasks", "line 1: ", "line 3: "]),
        (
            "{\"task\": \"x\", \"agent\": \"othr\"}\n{\"task\": \"y\", \"model\": \"none\"}",
            ["has 2 agents or models that cannot be used", "`othr`", "`none`"],
        ),
        ("[\n{\"task\": \"x\"}\n]\n", ["line 1: invalid task", "a JSON list", "one object per line, not a list"]),
    ] {
        place.file("t.jsonl", lines);
        let ran = batch(&place, &[]);
        assert!(ran.code == 2 && says.iter().all(|said| ran.stderr.contains(said)), "{lines}\n{}", ran.shown());
    }
    place.file("t.jsonl", b"{\"task\": \"\xff\"}\n");
    let ran = batch(&place, &[]);
    assert!(ran.code == 2 && ran.stderr.contains("line 1: invalid task"), "{}", ran.shown());
    // A file that is something else is not written to.
    tasks(&place, &["a"]);
    let ran = place.run(&["batch", "--tasks", "t.jsonl", "--output", "./t.jsonl"]);
    assert!(ran.code == 2 && ran.stderr.contains("names the tasks file"), "{}", ran.shown());
    place.file("out.jsonl", "My diary\n");
    let ran = batch(&place, &[]);
    assert!(ran.code == 2 && ran.stderr.contains("out.jsonl, line 1: not a result"), "{}", ran.shown());
    assert_eq!((server.count(), sessions(&place).len()), (0, 0));
}

#[test]
fn answer_that_does_not_follow_its_schema_is_corrected() {
    let server = ModelServer::start(|task, before| {
        let answers = match task.starts_with("never") {
            true => ["no", "no", "no", "too late"],
            false => {
                ["Paris, I think.", "```json\n{\"city\": 7}\n```", "```json\n{\"city\": \"Paris\"}\n```", "too late"]
            }
        };
        Says::Text(answers[before.min(3)].into())
    });
    let place = server.place();
    place.file(
        "city.json",
        "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}",
    );
    place.file(
        "t.jsonl",
        "{\"id\": \"a\", \"task\": \"Where?\", \"schema\": \"city.json\"}\n\
         {\"id\": \"b\", \"task\": \"never\", \"schema\": {\"type\": \"boolean\"}}\n",
    );
    let ran = batch(&place, &[]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    let results = by_id(&place);
    assert_eq!((&results["a"]["value"], &results["a"]["turns"]), (&json!({"city": "Paris"}), &json!(3)));
    let asked = server.asked("Where?");
    assert!(task_of(&asked[0]).contains("must follow this JSON Schema:\n{"), "{}", asked[0]);
    assert_eq!(asked[0]["response_format"]["type"], "json_schema");
    let newest = |body: &Value| text_of(&body["messages"].as_array().unwrap().last().unwrap()["content"]);
    assert!(newest(&asked[1]).contains("the answer is not JSON"), "{}", newest(&asked[1]));
    assert!(newest(&asked[2]).contains("`city`: got a number, expected a string"), "{}", newest(&asked[2]));
    let failed = &results["b"];
    assert_eq!((&failed["stop"], &failed["error"]["kind"]), (&json!("rejected"), &json!("run")));
    assert!(failed["error"].to_string().contains("the answer is not JSON"), "{failed}");
    assert_eq!(server.count(), 6);
}

#[test]
fn server_without_schemas_is_asked_without_one() {
    let place = Place::new();
    let listener = echo_without_schemas();
    listener.configure(&place, "", "");
    let line = |n: usize| format!("{{\"task\": \"{n}\", \"schema\": {{\"type\": \"number\"}}}}\n");
    place.file("t.jsonl", (0..3).map(line).collect::<String>());
    let ran = batch(&place, &["--jobs", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let sent: Vec<_> = listener.asked.lock().unwrap().iter().map(|body| body["response_format"].is_object()).collect();
    assert_eq!(sent, [true, false, false, false], "it is remembered");
}

/// A server that refuses every first request, as one that does not know `response_format` refuses those with a schema.
fn echo_without_schemas() -> ModelServer {
    ModelServer::start(|task, before| match (task.starts_with('0'), before) {
        (true, 0) => Says::Status("400 Bad Request"),
        _ => Says::Text("7".into()),
    })
}

#[test]
fn attached_files_go_to_the_model() {
    let server = echo();
    let place = server.place();
    place.file("data/letter.txt", "Dear all");
    place.file("data/pixel.png", b"\x89PNG\r\n\x1a\npixel");
    place.file("data/t.jsonl", "{\"task\": \"Sum up.\", \"attachments\": [\"letter.txt\", \"pixel.png\"]}\n");
    let ran = place.run(&["batch", "--tasks", "data/t.jsonl", "--output", "out.jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let asked = server.asked("Sum up.");
    assert!(task_of(&asked[0]).contains("<attached_file>\nDear all\n</attached_file>"), "{}", asked[0]);
    let parts = asked[0]["messages"].as_array().unwrap().last().unwrap()["content"].as_array().unwrap().clone();
    let image = parts.iter().find(|part| part["type"] == "image_url").unwrap();
    assert!(image["image_url"]["url"].as_str().unwrap().starts_with("data:image/png;base64,iVBORw0KGgp"), "{image}");
}

/// Lets threads through in groups, and never more than one group at once.
struct Wave {
    size: usize,
    there: Mutex<usize>,
    changed: Condvar,
}

impl Wave {
    fn pass(&self) {
        let mut there = self.there.lock().unwrap();
        *there += 1;
        let until = there.div_ceil(self.size) * self.size;
        self.changed.notify_all();
        drop(self.changed.wait_while(there, |there| *there < until).unwrap());
    }
}

#[test]
fn as_many_tasks_work_at_once_as_jobs_allow() {
    let wave = Wave { size: 3, there: Mutex::new(0), changed: Condvar::new() };
    let server = ModelServer::start(move |task, _| {
        wave.pass();
        Says::Text(task.into())
    });
    let place = server.place();
    let ids: Vec<_> = (0..12).map(|n| format!("t{n}")).collect();
    tasks(&place, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    let ran = batch(&place, &["--jobs", "3", "--no-session"]);
    assert_eq!((ran.code, results(&place).len()), (0, 12), "{}", ran.shown());
    assert_eq!(server.most.load(Ordering::SeqCst), 3);
    assert!(sessions(&place).is_empty() && results(&place).iter().all(|result| result["session"].is_null()));
}

/// A request that exceeds the rate limit of the provider is not sent, whichever task wants it.
#[test]
fn all_tasks_share_the_rate_limit_of_their_model() {
    let server = echo();
    let place = Place::new();
    server.configure(&place, "rate_limit: {rpm: 2}", "budget: {time: 3s}");
    tasks(&place, &["a", "b", "c", "d"]);
    let ran = batch(&place, &["--jobs", "4"]);
    assert_eq!((ran.code, server.count()), (1, 2), "{}", ran.shown());
    let stops: Vec<_> = results(&place).iter().map(|result| result["stop"].clone()).collect();
    assert_eq!(stops.iter().filter(|stop| **stop == "budget").count(), 2, "{stops:?}");
}

#[test]
fn no_task_begins_once_the_cost_is_reached() {
    let server = echo();
    let place = server.place();
    tasks(&place, &["a", "b", "c", "d"]);
    let ran = batch(&place, &["--jobs", "1", "--max-cost", "1.5"]);
    assert_eq!((ran.code, server.count()), (1, 2), "{}", ran.shown());
    assert!(ran.stderr.contains("2 tasks were not started because the batch has cost $2.00"), "{}", ran.shown());
    // What it has cost before counts.
    let ran = batch(&place, &["--max-cost", "2"]);
    assert_eq!((ran.code, server.count()), (1, 2), "{}", ran.shown());
    let ran = batch(&place, &["--max-cost", "10"]);
    assert_eq!((ran.code, server.count()), (0, 4), "{}", ran.shown());
    server.configure(&place, "", "");
    fs::remove_file(place.path().join("out.jsonl")).unwrap();
    let ran = batch(&place, &["--max-cost", "10"]);
    assert!(ran.code == 2 && ran.stderr.contains("the price of the model m is unknown"), "{}", ran.shown());
}

#[test]
fn dry_run_estimates_and_sends_nothing() {
    let server = echo();
    let place = server.place();
    tasks(&place, &["a", "b", "c"]);
    let dry = |more: &[&str]| place.run(&[&["batch", "--tasks", "t.jsonl", "--dry-run"], more].concat());
    let ran = dry(&[]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stdout.starts_with("3 tasks, 3 of them pending\nlocal: 3 tasks, "), "{}", ran.shown());
    let tokens = |ran: &Ran| ran.stdout.split(" tokens in").next().unwrap().rsplit(' ').next().unwrap().parse::<u64>();
    assert!((300..5_000).contains(&tokens(&ran).unwrap()), "the system prompt counts: {}", ran.shown());
    assert!(ran.stdout.contains(", 1500 out, about $0.00"), "{}", ran.shown());
    assert!(!place.path().join("out.jsonl").exists() && sessions(&place).is_empty() && server.count() == 0);

    assert_eq!(batch(&place, &["--max-cost", "0.5", "--jobs", "1"]).code, 1);
    let ran = dry(&["--output", "out.jsonl"]);
    assert!(ran.stdout.starts_with("3 tasks, 2 of them pending\n"), "{}", ran.shown());
    assert!(
        ran.stdout.contains("200000 out") && ran.stdout.contains("100000 tokens per reply, the mean"),
        "{}",
        ran.shown()
    );
    assert_eq!(server.count(), 1);
}

#[test]
fn cheap_batch_uses_the_batch_api_of_the_vendor() {
    let server = ModelServer::start(|task, _| Says::Text(task.into()));
    let place = server.place();
    tasks(&place, &["a", "b"]);
    let ran = batch(&place, &["--cheap"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let paths: Vec<_> =
        server.asked.lock().unwrap().iter().map(|body| body["path"].as_str().unwrap().to_owned()).collect();
    // This server has no batches, so each request is sent directly in the end.
    assert_eq!(paths.iter().filter(|path| *path == "/v1/files").count(), 1, "both are in one batch: {paths:?}");
    assert_eq!(paths.iter().filter(|path| *path == "/v1/chat/completions").count(), 2, "{paths:?}");
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file("shelly.yaml", config.replace("kind: openai", "kind: ollama"));
    let ran = place.run(&["batch", "--tasks", "t.jsonl", "--output", "other.jsonl", "--cheap"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    for says in ["the model `local` does not support batches", "openai, anthropic, gemini", "omit --cheap"] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
}

#[test]
fn interrupted_batch_says_how_to_go_on() {
    let server = ModelServer::start(|task, before| match (task, before) {
        ("slow", 0) => Says::Silence,
        _ => Says::Text("Four.".into()),
    });
    let place = server.place();
    tasks(&place, &["a", "slow", "c"]);
    let mut command = place.command(&[&BATCH[..], &["--jobs", "1"]].concat());
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    server.silent.recv().unwrap();
    assert!(Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap().success());
    let ran = place.ran(running.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.shown());
    assert!(ran.stderr.contains("stopped: 1 of 3"), "{}", ran.shown());
    assert!(ran.stderr.contains("run the same command again to continue"), "{}", ran.shown());
    assert_eq!(results(&place).len(), 1);
    let ran = batch(&place, &[]);
    assert_eq!((ran.code, results(&place).len(), sessions(&place).len()), (0, 3, 3), "{}", ran.shown());
    assert_eq!(server.asked("a").len() + server.asked("c").len(), 2);
}

#[test]
fn consent_is_needed_once_before_the_batch() {
    let server = echo();
    let place = Place::untrusted();
    server.configure(&place, "", "");
    tasks(&place, &["a", "b"]);
    let ran = batch(&place, &[]);
    assert!(ran.code == 2 && ran.stderr.contains("the files of this project are not trusted yet"), "{}", ran.shown());
    assert_eq!(server.count(), 0);
    let ran = batch(&place, &["--trust"]);
    assert_eq!((ran.code, server.count()), (0, 2), "{}", ran.shown());
}

#[test]
fn options_of_the_batch_apply_to_all_tasks() {
    let server = echo();
    let place = server.place();
    fs::rename(place.path().join("shelly.yaml"), place.path().join("other.yaml")).unwrap();
    tasks(&place, &["a", "b"]);
    let options = ["--config", "other.yaml", "--agent", "other", "--model", "local", "--approve", "never"];
    let ran = batch(&place, &options);
    assert_eq!((ran.code, server.count()), (0, 2), "{}", ran.shown());
    assert!(results(&place).iter().all(|result| result["agent"] == "other"), "{}", ran.shown());
    tasks(&place, &["c"]);
    let ran = batch(&place, &["--config", "other.yaml", "--model", "lokal"]);
    assert!(ran.code == 2 && ran.stderr.contains("did you mean `local`"), "{}", ran.shown());
}

#[test]
fn batch_without_room_for_sessions_stops_with_the_mend() {
    let server = echo();
    let place = server.place();
    tasks(&place, &["a", "b", "c"]);
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file("shelly.yaml", format!("{config}sessions: {{max_total_bytes: 1}}\n"));
    // The first session fits, since nothing is there; after it the limit is reached.
    let ran = batch(&place, &["--jobs", "1"]);
    assert_eq!((ran.code, server.count(), results(&place).len()), (1, 1, 1), "{}", ran.shown());
    assert!(ran.stderr.contains("no further task can be recorded"), "{}", ran.shown());
    assert!(
        ran.stderr.contains("session prune") && ran.stderr.contains("run the same command again"),
        "{}",
        ran.shown()
    );
    // The next start says so before anything runs.
    let ran = batch(&place, &["--jobs", "1"]);
    assert_eq!((ran.code, server.count(), results(&place).len()), (2, 1, 1), "{}", ran.shown());
    assert!(ran.stderr.contains("the project has no room for 2 new sessions of this batch"), "{}", ran.shown());
    let ran = batch(&place, &["--no-session"]);
    assert_eq!((ran.code, server.count(), results(&place).len()), (0, 3, 3), "{}", ran.shown());
}

#[test]
fn results_file_is_used_by_one_batch_at_a_time() {
    let server = ModelServer::start(|_, before| match before {
        0 => Says::Silence,
        _ => Says::Text("Four.".into()),
    });
    let place = server.place();
    tasks(&place, &["a"]);
    let mut running = place.command(&BATCH).stderr(Stdio::null()).spawn().unwrap();
    server.silent.recv().unwrap();
    let ran = batch(&place, &[]);
    assert!(ran.code == 2 && ran.stderr.contains("out.jsonl is in use"), "{}", ran.shown());
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(batch(&place, &[]).code, 0);
}

#[test]
fn tasks_run_with_plugins_and_a_plugin_model() {
    let place = Place::new();
    place.file(
        "shelly.yaml",
        "providers: [{name: offline, kind: plugin, plugin: offline-model}]\nagents: [{name: reader, plugins: {read-files: \
         {files: [{path: docs, as: .}]}, count-text: }}]\n",
    );
    let ids: Vec<_> = (0..20).map(|n| format!("{n}.txt")).collect();
    for (n, id) in ids.iter().enumerate() {
        place.file(&format!("docs/{id}"), "word ".repeat(n + 1));
    }
    let line = |id: &String| format!("{}\n", json!({"id": id, "task": format!("How many words are in {id}?")}));
    place.file("t.jsonl", ids.iter().map(line).collect::<String>());
    let ran = batch(&place, &["--plugins", crate::PLUGIN_ROOT, "--jobs", "5"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let results = by_id(&place);
    for (n, id) in ids.iter().enumerate() {
        let expected = format!("{id} has {} word", n + 1);
        assert!(results[id]["answer"].as_str().unwrap().contains(&expected), "{}", results[id]);
    }
}

/// The command of `docs/batch.md`, on the files that it names.
#[test]
fn example_of_a_batch_is_answered() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(root.join("docs/batch.md")).unwrap();
    let command = page.lines().find_map(|line| line.strip_prefix("shelly-host batch ")).unwrap();
    let place = Place::new();
    crate::support::copy(&root.join("examples/batch"), &place.path().join("examples/batch"), &[]);
    fs::create_dir(place.path().join("target")).unwrap();
    std::os::unix::fs::symlink(crate::PLUGIN_ROOT, place.path().join("target/plugins")).unwrap();
    let words: Vec<_> = ["batch"].into_iter().chain(command.split_whitespace()).collect();
    let ran = place.run(&words);
    assert!(ran.code == 0 && !ran.stderr.contains("warning"), "{}", ran.shown());
    let text = fs::read_to_string(place.path().join("results.jsonl")).unwrap();
    let mut values: Vec<_> = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    values.sort_by_key(|value| value["id"].as_str().unwrap().to_owned());
    let values: Vec<_> = values.into_iter().map(|result| (result["value"].clone(), result["turns"].clone())).collect();
    let expected = [
        (json!({"item": "chairs", "count": 12}), json!(1)),
        (json!({"item": "lamps", "count": 5}), json!(2)),
        (json!({"item": "tables", "count": 2}), json!(1)),
    ];
    assert_eq!(values, expected);
}
