//! The commands of the page on serving, and the client among the examples.

use std::{fs, path::Path};

use super::*;
use crate::examples::repository;

#[test]
fn documented_server_counts_words_over_http() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/serving.md")).unwrap();
    let command = page.split("```sh\nshelly-host ").nth(1).unwrap().lines().next().unwrap();
    let words: Vec<_> = command.split_whitespace().chain(["--listen", ":0"]).collect();
    let place = repository();
    let served = HttpServed::of(place.command(&words));
    // The body of the page's own request.
    let body = page.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let run = served.run(&serde_json::from_str(body).unwrap());
    let ended = served.ended(&run);
    assert!(ended["result"]["text"].as_str().unwrap().contains("README.md has"), "{ended}");
    let session = ended["session"].as_str().unwrap();
    let shown = served.get(&format!("/api/v1/sessions/{session}")).json();
    let file = &shown["attachments"][0];
    if let Some(digest) = file["digest"].as_str() {
        let content = served.get(&format!("/api/v1/sessions/{session}/attachments/{digest}"));
        assert_eq!((content.status, content.header("content-disposition")), (200, Some("attachment")), "{content:?}");
    }
    let none = served.get(&format!("/api/v1/sessions/{session}/attachments/{}", "0".repeat(64)));
    assert_eq!(none.status, 404, "{none:?}");
}

#[test]
fn documented_client_of_openai_counts_words() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/openai-api.md")).unwrap();
    let command = page.split("```sh\nshelly-host ").nth(1).unwrap().lines().next().unwrap();
    let words: Vec<_> = command.split_whitespace().chain(["--listen", ":0"]).collect();
    let place = repository();
    let mut served = HttpServed::of(place.command(&words));
    served.token = fs::read_to_string(place.path().join(words.iter().find(|word| word.ends_with(".token")).unwrap()))
        .unwrap()
        .trim()
        .to_owned();
    let body = page.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
    let reply = served.post("/v1/chat/completions", &serde_json::from_str(body).unwrap()).json();
    assert!(reply["choices"][0]["message"]["content"].as_str().unwrap().contains("README.md has"), "{reply}");
}

#[test]
fn example_client_follows_a_run() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("not tested: python3 is not installed");
        return;
    }
    let place = Place::new();
    let asks = json!({"question": "Which colour?", "options": []});
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("ask_user", &asks),
        true => says(if asked.contains("sea green") { "Sea green it is." } else { "What?" }),
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/http/client.py");
    let mut python = Command::new("python3");
    python
        .arg(client)
        .args(["Paint", "it."])
        .env("TOKEN", &served.token)
        .env("SERVER", format!("http://{}", served.address));
    let child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    child.stdin.take().unwrap().write_all(b"sea green\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stdout.ends_with("Sea green it is.\n"), "{stdout}{stderr}");
    assert!(stdout.contains("Which colour?") && stderr.contains("helper calls ask_user"), "{stdout}{stderr}");
}

#[test]
fn example_triggers_are_fired_by_hand() {
    let place = repository();
    let arguments = ["serve", "--listen", ":0", "--config", "examples/triggers/shelly.yaml", "--triggers"];
    let mut command = place.command(&arguments);
    command.env("HOOK_SECRET", "It's a Secret to Everybody");
    let served = HttpServed::of(command);
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/triggers.md")).unwrap();
    assert!(page.contains("--data @examples/triggers/issue.json"), "the page has the request of this test");
    let payload = fs::read_to_string(place.path().join("examples/triggers/issue.json")).unwrap();
    let command = page.split("```sh\nshelly-host trigger ").nth(1).unwrap().lines().next().unwrap();
    let words: Vec<_> = ["trigger"].into_iter().chain(command.split_whitespace()).collect();
    let tried = place.run(&words);
    let task = "Sort the issue \"The lamp flickers\", for which \"ada\" has sent the event \"issues\".\n";
    assert!(tried.code == 0 && tried.stdout.starts_with(task) && tried.stderr.is_empty(), "{}", tried.shown());
    let words: Vec<_> = words.into_iter().filter(|word| *word != "--dry-run").chain(["--no-session"]).collect();
    let ran = place.run(&words);
    assert!(ran.code == 0 && ran.stdout == "bug: The lamp flickers\n", "{}", ran.shown());
    let fire = |name: &str, body: &Value| {
        let fired = served.post(&format!("/api/v1/triggers/{name}/fire"), body);
        assert_eq!((fired.status, &fired.json()["outcome"]), (202, &json!("started")), "{fired:?}");
        let ended = served.ended(fired.json()["run"].as_str().unwrap());
        ended["result"]["text"].as_str().unwrap_or_else(|| panic!("{ended}")).to_owned()
    };
    assert_eq!(fire("issues", &serde_json::from_str(&payload).unwrap()), "bug: The lamp flickers");
    let report = fire("nightly", &json!({}));
    assert!(report.starts_with("Nothing has happened before ") && report.ends_with('.'), "{report}");
    let shown = served.get("/api/v1/triggers").json();
    let missing: Vec<_> = shown["triggers"].as_array().unwrap().iter().map(|one| &one["last"]["missing"]).collect();
    assert!(missing.iter().all(|missing| missing.is_null() || **missing == json!([])), "{shown}");
    let wrong = served.post("/api/v1/triggers/issues/fire", &json!({"body": {}}));
    assert_eq!(wrong.status, 400, "{wrong:?}");
}
