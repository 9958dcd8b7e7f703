//! The command `provider check`: it asks each model one question and reports the outcome.

use serde_json::Value;

use crate::{
    GUEST_ROOT, PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
};

fn model(name: &str, server: &Server, keys: &str) -> String {
    format!(
        "  - {{name: {name}, kind: openai, model: {name}-1, base_url: 'http://127.0.0.1:{}/v1', {keys}}}\n",
        server.port
    )
}

fn served(status: &'static str, body: &'static str) -> Server {
    Server::start(move |_| answer(status, body))
}

fn asked(server: &Server) -> usize {
    server.asked.lock().unwrap().len()
}

fn rows(ran: &Ran) -> Vec<Value> {
    let row = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    ran.stdout.lines().map(row).collect()
}

#[test]
fn provider_check_reports_each_answer() {
    let good = served(
        "200 OK",
        r#"{"model":"good-1-2026","choices":[{"message":{"content":"Ready!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":100}}"#,
    );
    let bad = served("401 Unauthorized", r#"{"error":{"message":"who are you?"}}"#);
    let place = Place::new();
    let models = model("good", &good, "price: {input: 1, output: 10}") + &model("bad", &bad, "api_key: sk-1");
    place.file("other.yaml", format!("providers:\n{models}"));
    let check = ["provider", "check", "--config", "other.yaml"];

    let all = place.run(&check);
    assert_eq!(all.code, 4, "{}", all.shown());
    let lines: Vec<_> = all.stdout.lines().collect();
    assert!(lines[0].starts_with("ok      good: good-1-2026 answered in "), "{}", all.shown());
    assert!(lines[0].ends_with("; answer: Ready! (1000 tokens in, 100 out, $0.002)"), "{}", all.shown());
    assert!(lines[1].starts_with("failed  bad: 127.0.0.1:") && lines[1].ends_with("who are you?"), "{}", all.shown());
    let hint =
        "        hint: check the key of the model (providers.bad in the config), or use another model with --model";
    assert_eq!(lines[2..], [hint], "{}", all.shown());
    let question = "This is a test of the connection.";
    assert!(good.asked.lock().unwrap()[0].contains(question), "{:?}", good.asked);

    let one = place.run(&[&check[..], &["good"]].concat());
    assert_eq!((one.code, one.stdout.lines().count()), (0, 1), "{}", one.shown());
    assert_eq!((asked(&good), asked(&bad)), (2, 1), "who is not named is not asked");

    let json = place.run(&[&check[..], &["--output", "json"]].concat());
    let rows = rows(&json);
    assert_eq!((json.code, rows.len()), (4, 2), "{}", json.shown());
    let of = |row: &Value, keys: &[&str]| keys.iter().map(|key| row[*key].to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(
        of(&rows[0], &["name", "ok", "model", "answered", "stop", "cost_usd"]),
        r#""good" true "good-1" "good-1-2026" "end_turn" 0.002"#,
        "{}",
        json.shown()
    );
    assert_eq!(rows[0]["usage"]["input_tokens"], 1_000);
    assert!(rows[0]["duration_ms"].is_u64());
    assert_eq!(of(&rows[1], &["name", "ok"]), r#""bad" false"#);
    assert!(rows[1]["error"].as_str().unwrap().ends_with("who are you?"), "{}", json.shown());
    assert!(rows[1]["hint"].as_str().unwrap().starts_with("check the key"), "{}", json.shown());
}

#[test]
fn provider_check_accepts_any_reply() {
    for (body, says) in [
        (FOUR, "; answer: Four. ("),
        (
            r#"{"choices":[{"message":{"content":"","reasoning_content":"Hm, what"},"finish_reason":"length"}]}"#,
            "; no text before the token limit (",
        ),
        (r#"{"choices":[{"message":{"content":"","reasoning_content":"Hm."},"finish_reason":"stop"}]}"#, "; no text ("),
    ] {
        let server = served("200 OK", body);
        let place = Place::new();
        // Through a limit too, which one request fits into.
        place.file("c.yaml", format!("providers:\n{}", model("m", &server, "rate_limit: {rpm: 1, output_tpm: 1}")));
        let ran = place.run(&["provider", "check", "--config", "c.yaml"]);
        assert_eq!((ran.code, asked(&server)), (0, 1), "{}", ran.shown());
        assert!(ran.stdout.contains(says), "{says}: {}", ran.shown());
    }
}

#[test]
fn provider_check_reports_unusable_models_beside_others() {
    let server = served("200 OK", FOUR);
    let place = Place::new();
    let models = model("small", &server, "") + &model("locked", &server, "api_key: '${NO_SUCH_KEY}'");
    place.file("c.yaml", format!("providers:\n{models}"));
    let check = ["provider", "check", "--config", "c.yaml"];
    for (name, says, hint) in [
        ("smal", "failed  smal: there is no model `smal`", "did you mean `small`?"),
        ("locked", "failed  locked: the environment variable NO_SUCH_KEY is not set", "set NO_SUCH_KEY"),
    ] {
        let ran = place.run(&[&check[..], &[name, "small"]].concat());
        assert_eq!(ran.code, 2, "{}", ran.shown());
        let lines: Vec<_> = ran.stdout.lines().collect();
        assert!(lines[0].starts_with(says) && lines[1].contains(hint), "{}", ran.shown());
        assert!(lines[2].starts_with("ok      small: "), "{}", ran.shown());
    }
    let ran = place.run(&[&check[..], &["--output", "json", "smal"]].concat());
    assert_eq!((ran.code, &rows(&ran)[0]["name"]), (2, &"smal".into()), "{}", ran.shown());
    let ran = place.run(&["provider", "check", "--config", "nowhere.yaml", "--output", "json"]);
    assert_eq!((ran.code, &rows(&ran)[0]["exit_code"]), (2, &2.into()), "{}", ran.shown());
}

#[test]
fn provider_check_covers_plugins() {
    let place = Place::new();
    let ran = place.run(&["provider", "check", "--plugins", PLUGIN_ROOT, "offline-model"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stdout.starts_with("ok      offline-model: offline-model answered in "), "{}", ran.shown());
    let failing = "providers: [{name: p, kind: plugin, plugin: probe-hooks, params: {provider: error-denied}}]\n";
    place.file("c.yaml", failing);
    let ran = place.run(&["provider", "check", "--plugins", GUEST_ROOT, "--config", "c.yaml"]);
    assert_eq!(ran.code, 4, "{}", ran.shown());
    assert!(ran.stdout.starts_with("failed  p: ") && ran.stdout.contains("asked to fail"), "{}", ran.shown());
    let ran = place.run(&["provider", "check", "--config", "c.yaml"]);
    assert_eq!(ran.code, 3, "its plugin is not there\n{}", ran.shown());
}

#[test]
fn untrusted_project_sends_no_provider_request() {
    let server = served("200 OK", FOUR);
    let place = Place::untrusted();
    let left = place.path().join("it-ran");
    let command = format!("api_key_command: [touch, '{}']", left.display());
    let both = format!("providers:\n{}{}", model("m", &server, ""), model("n", &server, &command));
    place.file("shelly.yaml", both);
    let ran = place.run(&["provider", "check"]);
    assert_eq!((ran.code, ran.stdout.as_str(), asked(&server)), (2, "", 0), "{}", ran.shown());
    assert!(ran.stderr.contains("the model `m` is at `http://127.0.0.1:"), "{}", ran.shown());
    assert!(ran.stderr.contains("the model `n` runs `touch ") && !left.exists(), "{}", ran.shown());
    place.file("shelly.yaml", format!("providers:\n{}", model("m", &server, "")));
    let ran = place.run(&["provider", "check", "--trust"]);
    assert_eq!((ran.code, asked(&server)), (0, 1), "{}", ran.shown());
    assert!(ran.stdout.contains("answer: Four."), "{}", ran.shown());
}

#[test]
fn api_key_over_plain_http_is_warned_of() {
    let place = Place::new();
    let config = |url: &str| {
        format!(
            "providers: [{{name: m, kind: openai, base_url: '{url}', api_key: k-12345678, model: m, retries: 0}}]\n"
        )
    };
    for (url, is_warned) in [("http://nowhere.invalid/v1", true), ("https://nowhere.invalid/v1", false)] {
        place.file("shelly.yaml", config(url));
        let ran = place.run(&["provider", "check", "--trust"]);
        assert_eq!((ran.code, ran.stderr.contains("unencrypted; write https://")), (4, is_warned), "{}", ran.shown());
    }
}
