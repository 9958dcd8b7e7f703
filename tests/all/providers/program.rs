//! The whole program with a model behind a plugin that asks a server: the effect of its config keys, and the messages that a
//! user gets when something goes wrong.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};

use super::server::{Answer, Server as Silent};
use crate::{
    PLUGIN_ROOT,
    bad_input::{Server, answer},
    support::{Place, Ran},
};

pub fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A port on which nobody listens.
pub fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn asked(server: &Server) -> Vec<String> {
    server.asked.lock().unwrap().clone()
}

/// A reply in lines, with 1,000 tokens in and 100 out.
pub fn says(message: &Value) -> String {
    let end = json!({
        "model": "m-1", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 1_000, "eval_count": 100,
    });
    answer("200 OK", &format!("{}\n{end}\n", json!({"model": "m-1", "message": message, "done": false})))
}

fn four() -> String {
    says(&json!({"role": "assistant", "content": "Four."}))
}

/// A place whose one model is the plugin's, at `url`, with these keys; its agent has these.
fn place(url: &str, model: &str, agent: &str) -> Place {
    let place = Place::new();
    let model =
        format!("{{name: local, kind: plugin, plugin: ollama, model: m, params: {{base_url: \"{url}\"}}, {model}}}");
    place.file("shelly.yaml", format!("providers: [{model}]\nagents: [{{name: helper, {agent}}}]\n"));
    place
}

fn run(place: &Place, output: &str) -> Ran {
    let mut command = place.command(&["run", "--plugins", PLUGIN_ROOT, "--output", output, "What is 2 + 2?"]);
    place.ran(command.env("OLLAMA_KEY", "sk-only-the-host-knows").output().unwrap())
}

fn check(place: &Place) -> Ran {
    place.run(&["provider", "check", "--plugins", PLUGIN_ROOT, "--trust", "local"])
}

/// The config keys that grant the credential `key`.
const KEY: &str = "credentials: [key]";

/// Changes the config so that the host holds the credential `key`.
fn with_key(place: Place, url: &str) -> Place {
    let config = std::fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file("shelly.yaml", format!("{config}credentials: [{{name: key, env: OLLAMA_KEY, for: [\"{url}\"]}}]\n"));
    place
}

#[test]
fn plugin_provider_accepts_all_model_keys() {
    let server = Server::start({
        let times = AtomicUsize::new(0);
        move |_| match times.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => answer("503 Service Unavailable\r\nretry-after: 0", "{\"error\":\"loading\"}"),
            _ => four(),
        }
    });
    let url = url(server.port);
    let place_of = |more: &str| {
        let shown = "max_tokens: 99, temperature: 0.5, price: {input: 1, output: 10}";
        with_key(place(&url, &format!("http: [{{url: \"{url}\", methods: [POST]}}], {KEY}, {shown}, {more}"), ""), &url)
    };

    let once = run(&place_of("retries: 0"), "text");
    assert_eq!((once.code, asked(&server).len()), (4, 1), "{}", once.shown());
    assert!(once.stderr.contains("answered 503: loading"), "{}", once.shown());

    // The next request is answered.
    let ran = run(&place_of("retries: 1"), "json");
    assert_eq!(ran.code, 0, "{}", ran.shown());
    // Why it took longer is told, and what it has cost.
    let pause = ran.stderr.lines().find(|line| line.contains("; attempt 2 in "));
    assert!(pause.is_some_and(|line| line.contains("answered 503: loading")), "{}", ran.shown());
    let paid = run(&place_of("retries: 1"), "text");
    assert!(
        paid.stderr.ends_with("cost: $0.002 for 1100 tokens\n") && !paid.stderr.contains("attempt"),
        "{}",
        paid.shown()
    );
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&result["answer"], &result["spent"]["usd"]), (&json!("Four."), &json!(0.002)), "{result}");
    assert_eq!(result["spent"]["usage"]["input_tokens"], 1_000, "{result}");
    let last = asked(&server).pop().unwrap();
    for part in ["authorization: Bearer sk-only-the-host-knows\r\n", "\"num_predict\":99", "\"temperature\":0.5"] {
        assert!(last.contains(part), "{part}: {last}");
    }
    assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("sk-only"), "{}", ran.shown());
}

#[test]
fn plugin_provider_requests_are_reported_without_the_key() {
    let server = Server::start(|_| four());
    let url = url(server.port);
    let ran =
        run(&with_key(place(&url, &format!("http: [{{url: \"{url}\", methods: [POST]}}], {KEY}"), ""), &url), "events");
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let events = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told: Vec<_> = events.filter(|event| event["event"] == "plugin_request").collect();
    let [told] = told.as_slice() else { panic!("{told:?}") };
    let fields = ["agent", "plugin", "method", "url", "outcome", "status", "credential", "hops"];
    let to = format!("{url}/api/chat");
    let expected = json!(["helper", "ollama", "POST", to, "answered", 200, "key", 0]);
    assert_eq!(json!(fields.map(|field| &told[field])), expected);
    assert!(!ran.shown().contains("sk-only"), "{}", ran.shown());
}

#[test]
fn what_may_pass_is_tried_as_often_as_is_said() {
    for (retries, tries) in [(0, 1), (2, 3)] {
        let server = Server::start(|_| answer("503 Service Unavailable\r\nretry-after: 0", "no luck"));
        let url = url(server.port);
        let ran =
            run(&place(&url, &format!("http: [{{url: \"{url}\", methods: [POST]}}], retries: {retries}"), ""), "text");
        assert_eq!((ran.code, asked(&server).len()), (4, tries), "{}", ran.shown());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plugin_provider_idle_timeout_is_honoured() {
    let begun = "{\"message\":{\"role\":\"assistant\",\"content\":\"A long story.\"}}\n";
    let server = Silent::start(move |_, _| Answer::stream(begun).and_silence()).await;
    let ran = run(
        &place(&server.url, &format!("http: [{{url: \"{}\", methods: [POST]}}], idle_timeout: 200ms", server.url), ""),
        "text",
    );
    assert_eq!(ran.code, 4, "{}", ran.shown());
    assert!(ran.stderr.contains("sent nothing for 200ms in the middle of its response"), "{}", ran.shown());
}

/// A request that exceeds the rate limit is not sent: the time of the run is used up before.
#[test]
fn what_may_be_asked_in_a_minute_is_not_exceeded() {
    let call = json!({"function": {"name": "list_notes", "arguments": {}}});
    let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let server = Server::start(move |_| says(&message));
    let url = url(server.port);
    let place = place(
        &url,
        &format!("http: [{{url: \"{url}\", methods: [POST]}}], rate_limit: {{rpm: 1}}"),
        "toolboxes: [notes], budget: {time: 3s}",
    );
    let ran = run(&place, "text");
    assert_eq!((ran.code, asked(&server).len()), (1, 1), "{}", ran.shown());
    assert!(ran.stderr.contains("the time budget of 3s is used up"), "{}", ran.shown());
}

/// A run that has used up its budget sends no more requests.
#[test]
fn plugin_provider_usage_is_charged() {
    let call = json!({"function": {"name": "list_notes", "arguments": {}}});
    let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    let server = Server::start(move |_| says(&message));
    let url = url(server.port);
    for budget in ["tokens: 6000", "usd: 0.006"] {
        let before = asked(&server).len();
        let model = format!("http: [{{url: \"{url}\", methods: [POST]}}], price: {{input: 1, output: 1}}");
        let ran = run(&place(&url, &model, &format!("toolboxes: [notes], budget: {{{budget}}}")), "json");
        assert_eq!(ran.code, 1, "{budget}\n{}", ran.shown());
        let result: Value = serde_json::from_str(&ran.stdout).unwrap();
        let times = asked(&server).len() - before;
        // It is asked while there is room for what the request itself takes.
        assert!((2..=6).contains(&times), "{budget}: {times}\n{}", ran.shown());
        assert_eq!(result["spent"]["usage"]["input_tokens"], 1_000 * times, "{result}");
        assert_eq!(result["spent"]["usage"]["output_tokens"], 100 * times, "{result}");
    }
}

/// A reply that came to nothing has cost what its plugin reported until then.
#[test]
fn plugin_provider_usage_of_a_failed_reply_is_charged() {
    let place = Place::new();
    let model = "{name: local, kind: plugin, plugin: probe-hooks, params: {provider: fail-after-usage}, \
                 price: {input: 1000, output: 1000, cache_read: 1000, cache_write: 1000}}";
    place.file("shelly.yaml", format!("providers: [{model}]\nagents: [{{name: helper}}]\n"));
    let ran = place.run(&["run", "--plugins", crate::GUEST_ROOT, "--output", "json", "hi"]);
    assert_eq!(ran.code, 4, "{}", ran.shown());
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(result["spent"]["usage"]["output_tokens"], 5, "{result}");
    assert_eq!(result["spent"]["usd"], 0.02, "{result}");
}

#[test]
fn plugin_provider_errors_state_the_remedy() {
    let failing = |status: &'static str, body: &'static str| Server::start(move |_| answer(status, body));
    let missing = failing("404 Not Found", "{\"error\":\"model 'm' not found\"}");
    let locked = failing("401 Unauthorized", "{\"error\":\"who are you?\"}");
    let page = failing("200 OK", "<html><title>A router</title></html>");
    let nobody = closed();
    let granted = |port: u16| format!("http: [{{url: \"{}\", methods: [POST]}}]", url(port));
    let not_granted = |port: u16| {
        let url = url(port);
        format!("POST {url}/api/chat is not granted; to grant it write `http: [{{url: \"{url}\", methods: [POST]}}]`")
    };
    for (port, keys, code, says, hint) in [
        (
            nobody,
            granted(nobody),
            4,
            format!("cannot connect to 127.0.0.1:{nobody}"),
            "check that the server runs".to_owned(),
        ),
        (
            missing.port,
            granted(missing.port),
            4,
            "answered 404: model 'm' not found".into(),
            "check the model's name and address (providers.local in the config)".into(),
        ),
        (
            locked.port,
            granted(locked.port),
            4,
            "answered 401: who are you?".into(),
            "check the plugin's grants `http` and `credentials`, and its key (providers.local in the config)".into(),
        ),
        (page.port, granted(page.port), 4, "sent a web page; check `base_url`".into(), "check the settings".into()),
        // Another path than the one that is granted.
        (
            missing.port,
            format!("http: [{{url: \"{}/v1\", methods: [POST]}}]", url(missing.port)),
            4,
            not_granted(missing.port),
            "`http`".into(),
        ),
        // A URL alone is for reading.
        (missing.port, format!("http: [\"{}\"]", url(missing.port)), 4, not_granted(missing.port), "`http`".into()),
        // Nothing at all: it does not even start.
        (missing.port, "clock: false".into(), 3, "ollama".into(), "http: ".into()),
    ] {
        let place = place(&url(port), &keys, "");
        let (run, check) = (run(&place, "text"), check(&place));
        assert_eq!((run.code, check.code), (code, code), "{says}\n{}{}", run.shown(), check.shown());
        for ran in [run.stderr, check.stdout] {
            assert!(ran.contains(&says) && ran.contains(&hint), "{says} {hint}\n{ran}");
        }
    }
    assert_eq!(asked(&missing).len(), 2, "what is not granted is not asked");
}

#[test]
fn provider_check_covers_a_configured_plugin_provider() {
    let server = Server::start(|_| four());
    let url = url(server.port);
    let ran = check(&place(
        &url,
        &format!("http: [{{url: \"{url}/api\", methods: [POST]}}], price: {{input: 1, output: 10}}"),
        "",
    ));
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(ran.stdout.starts_with("ok      local: m-1 answered in "), "{}", ran.shown());
    assert!(ran.stdout.ends_with("; answer: Four. (1000 tokens in, 100 out, $0.002)\n"), "{}", ran.shown());
}
