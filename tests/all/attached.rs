//! `run --attach` and `run --schema`: files and the schema of the answer belong to the task.

use serde_json::{Value, json};

use crate::batch::model_server::{ModelServer, Says, task_of};

const CITY: &str = r#"{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}"#;

/// Answers with JSON in a fence at the second attempt.
fn forgetful() -> ModelServer {
    ModelServer::start(|_, before| match before {
        0 => Says::Text("Paris, I think.".into()),
        _ => Says::Text("```json\n{\"city\": \"Paris\"}\n```".into()),
    })
}

#[test]
fn attached_files_and_schema_belong_to_the_task() {
    let server = forgetful();
    let place = server.place();
    place.file("city.json", CITY);
    place.file("letter.txt", "Dear all");
    place.file("pixel.png", b"\x89PNG\r\n\x1a\npixel");
    let flags = ["run", "--attach", "letter.txt", "--attach", "pixel.png", "--schema", "city.json"];
    let ran = place.run(&[&flags[..], &["Where was it written?"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\n  \"city\": \"Paris\"\n}\n"), "{}", ran.shown());
    let asked = server.asked("Where was it written?");
    assert_eq!(asked.len(), 2, "an answer that does not follow is asked for again: {}", ran.shown());
    let task = task_of(&asked[0]);
    assert!(task.contains("<attached_file>\nDear all\n</attached_file>") && task.contains("JSON Schema"), "{task}");
    assert!(asked[0].to_string().contains("data:image/png;base64,iVBORw0KGgp"), "{}", asked[0]);
    assert_eq!(asked[0]["response_format"]["type"], "json_schema");

    let ran = place.run(&["run", "--output", "json", "--schema", "city.json", "Again?"]);
    let line: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
    assert_eq!((&line["ok"], &line["value"]), (&json!(true), &json!({"city": "Paris"})), "{line}");
    assert!(line["answer"].as_str().unwrap().starts_with("```json"), "as the agent gave it: {line}");
}

#[test]
fn session_resumes_with_files_and_a_schema() {
    let server = forgetful();
    let place = server.place();
    place.file("city.json", CITY);
    place.file("letter.txt", "Dear all");
    assert_eq!(place.run(&["run", "--session", "trip", "Hello"]).code, 0);
    let resume = ["session", "resume", "trip", "--attach", "letter.txt", "--schema", "city.json"];
    let ran = place.run(&[&resume[..], &["Where?"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "{\n  \"city\": \"Paris\"\n}\n"), "{}", ran.shown());
    let asked = server.asked.lock().unwrap().last().unwrap().to_string();
    assert!(asked.contains("Dear all") && asked.contains("Where?"), "{asked}");
    let shown = place.run(&["session", "show", "trip", "--full"]);
    assert!(shown.stdout.contains("Dear all"), "the session has what the model was shown: {}", shown.shown());
}

#[test]
fn unusable_files_and_schemas_are_refused_before_the_run() {
    let server = forgetful();
    let place = server.place();
    place.file("city.json", CITY);
    place.file("broken.json", "{");
    place.file("binary", b"\0\xff");
    for (flags, says, hint) in [
        (&["run", "--attach", "none.txt", "Sum up."][..], "cannot attach none.txt", "correct the path"),
        (&["run", "--attach", "binary", "Sum up."], "cannot attach binary", "convert the file"),
        (&["run", "--schema", "none.json", "Sum up."], "cannot read the schema none.json", "contains a JSON Schema"),
        (&["run", "--schema", "broken.json", "Sum up."], "the file is not JSON", "contains a JSON Schema"),
        (&["session", "resume", "last", "--attach", "city.json"], "session", ""),
    ] {
        let ran = place.run(flags);
        assert!(ran.code == 2 && ran.stdout.is_empty(), "{}", ran.shown());
        assert!(ran.stderr.contains(says) && ran.stderr.contains(hint), "{}", ran.shown());
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn answer_that_never_follows_is_a_failure() {
    let server = ModelServer::start(|_, _| Says::Text("Paris!".into()));
    let place = server.place();
    place.file("city.json", CITY);
    let ran = place.run(&["run", "--schema", "city.json", "Where?"]);
    assert!(ran.code == 1 && ran.stdout.is_empty(), "{}", ran.shown());
    assert!(ran.stderr.contains("the answer is not JSON"), "{}", ran.shown());
    assert!(ran.stderr.contains("--schema city.json"), "the command to resume has the schema: {}", ran.shown());
}

#[test]
fn answer_with_a_schema_is_printed_without_secrets_and_controls() {
    let answer = json!({"city": "\u{9b}2J\u{7f}\u{202e} sk-city-0123456789"});
    let text = answer.to_string();
    let server = ModelServer::start(move |_, _| Says::Text(text.clone()));
    let place = server.place();
    server.configure(&place, "api_key: sk-city-0123456789", "");
    place.file("city.json", CITY);
    let ran = place.run(&["run", "--schema", "city.json", "Where?"]);
    let printed = "{\n  \"city\": \"\\u009b2J\\u007f\\u202e [secret ";
    assert!(ran.code == 0 && ran.stdout.starts_with(printed), "{}", ran.shown());
    assert!(!ran.stdout.contains("sk-city") && serde_json::from_str::<Value>(&ran.stdout).is_ok(), "{}", ran.shown());
}
