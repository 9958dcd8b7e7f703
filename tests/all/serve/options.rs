//! The options of the command.

use std::fs;

use super::*;

#[test]
fn options_select_config_agent_and_model() {
    let place = Place::new();
    let model = ModelServer::start(|_| says("Four."));
    let config = model.config("").replace(
        "providers: [",
        "providers: [{name: cheap, kind: openai, base_url: \"URL\", model: n, context_window: 32768}, ",
    );
    let config = config.replace("URL", &format!("http://127.0.0.1:{}/v1", model.port));
    place.file("other.yaml", config.replace("agents: [", "agents: [{name: lead, provider: local}, "));
    place.plugin("hollow", "kinds = [\"tool\"]\nversion = \"1.2.3\"\n", crate::bad_input::HOLLOW);
    let options =
        ["--config", "other.yaml", "--agent", "helper", "--model", "cheap", "--no-session", "--plugins", "plugins"];
    let served = HttpServed::of(place.command(&[&["serve", "--listen", ":0"], &options[..]].concat()));
    let run = served.run(&json!({"task": "hi"}));
    let ended = served.ended(&run);
    assert_eq!(
        (&ended["agent"], &ended["model"], &ended["session"]),
        (&json!("helper"), &json!("n"), &Value::Null),
        "{ended}"
    );
    let agents = served.get("/api/v1/agents").json();
    let entries: Vec<_> =
        agents["agents"].as_array().unwrap().iter().map(|agent| (&agent["name"], &agent["entry"])).collect();
    assert_eq!(entries, [(&json!("lead"), &json!(false)), (&json!("helper"), &json!(true))]);
    let plugins = served.get("/api/v1/plugins").json();
    let hollow = json!({"id": "hollow", "version": "1.2.3", "kinds": ["tool"]});
    assert!(plugins["plugins"].as_array().unwrap().contains(&hollow), "{plugins}");
    assert_eq!(served.post("/api/v1/runs", &json!({"task": "hi", "session": "s"})).status, 422, "nothing is recorded");
    assert_eq!(served.get("/api/v1/sessions").json(), json!({"sessions": []}));
    let lead = served.run(&json!({"task": "hi", "agent": "lead", "model": "local"}));
    assert_eq!((&served.ended(&lead)["agent"], &served.ended(&lead)["model"]), (&json!("lead"), &json!("m")));
    for (path, option) in [("/mcp", "--mcp"), ("/a2a/lead", "--a2a")] {
        let off = served.get(path);
        assert!(off.status == 404 && off.json()["mend"].as_str().unwrap().ends_with(option), "{off:?}");
    }
    let misspelt = place.run(&["serve", "--listen", ":0", "--config", "other.yaml", "--agent", "helpr"]);
    assert!(misspelt.code == 2 && misspelt.stderr.contains("did you mean `helper`?"), "{}", misspelt.shown());
    for (name, says) in [
        ("cheep", "did you mean `cheap`?"),
        ("zzz", "there is no model `zzz`"),
        ("hollow", "there is no model `hollow`"),
    ] {
        let options = ["serve", "--listen", ":0", "--config", "other.yaml", "--plugins", "plugins", "--model", name];
        let wrong = place.run(&options);
        assert!(wrong.code == 2 && wrong.stderr.contains(says), "{}", wrong.shown());
    }
}

#[test]
fn project_is_served_once_it_is_trusted() {
    let place = Place::untrusted();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let refused = place.run(&["serve", "--listen", ":0"]);
    assert!(refused.code == 2 && refused.stderr.contains("without your consent"), "{}", refused.shown());
    let served = HttpServed::of(place.command(&["serve", "--listen", ":0", "--trust"]));
    let run = served.run(&json!({"task": "hi"}));
    assert_eq!(served.ended(&run)["state"], "completed");
    let wrong = place.run(&["serve", "--listen", "localhost"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("127.0.0.1:8322"), "{}", wrong.shown());
    let taken = place.run(&["serve", "--listen", &served.address, "--trust"]);
    assert!(taken.code == 2 && taken.stderr.contains("choose another address or port"), "{}", taken.shown());
}

#[test]
fn policy_answers_questions_where_nobody_is_asked() {
    let place = Place::new();
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("exec_run", &json!({"command": "pwd"})),
        true => says("Done."),
    });
    place.file("shelly.yaml", model.config("toolboxes: [exec]"));
    for (approve, outcome) in [("all", "yes"), ("never", "no")] {
        let served = HttpServed::start(&place, &["--approve", approve]);
        let run = served.run(&json!({"task": "Where are we?"}));
        assert_eq!(served.ended(&run)["state"], "completed");
        let events = served.watch(&format!("/api/v1/runs/{run}/events"), "").rest();
        let answered = events.iter().find(|event| is_run_event(event, "question_answered")).unwrap();
        assert_eq!((&answered.data["outcome"], &answered.data["by"]), (&json!(outcome), &json!("policy")));
        assert_eq!(served.post("/api/v1/questions/1", &json!({"verdict": "yes"})).status, 409);
    }
}

#[test]
fn runs_questions_and_costs_are_bounded() {
    let place = Place::new();
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("exec_run", &json!({"command": "pwd"})),
        true => says("Done."),
    });
    place.file("shelly.yaml", model.config("toolboxes: [exec]"));
    let served = HttpServed::start(&place, &["--max-runs", "1", "--question-time", "2s"]);
    let run = served.run(&json!({"task": "Where are we?"}));
    let busy = served.post("/api/v1/runs", &json!({"task": "hi"}));
    assert_eq!((busy.status, &busy.json()["code"]), (429, &json!("too_many")), "{busy:?}");
    assert_eq!(busy.header("retry-after"), Some("5"));
    // Nobody answers the question.
    let ended = served.ended(&run);
    assert_eq!(ended["result"]["text"], "Done.", "{ended}");
    let events = served.watch(&format!("/api/v1/runs/{run}/events"), "").rest();
    let answered = events.iter().find(|event| is_run_event(event, "question_answered")).unwrap();
    assert_eq!(answered.data["outcome"], "declined", "{answered:?}");
    let spent = served.post("/api/v1/runs", &json!({"task": "hi", "budget": {"tool_calls": 1, "time": "1h"}}));
    assert_eq!(spent.status, 201, "{spent:?}");
    drop(served);
    let served = HttpServed::start(&place, &["--max-cost", "0.01"]);
    let unpriced = served.post("/api/v1/runs", &json!({"task": "hi"}));
    // The limit is the server's, not the request's.
    assert!(unpriced.status == 500 && unpriced.body.contains("price"), "{unpriced:?}");
    for (option, value) in [("--max-runs", "0"), ("--question-time", "0s"), ("--max-cost", "0")] {
        let refused = place.run(&["serve", "--config", "shelly.yaml", option, value]);
        assert_eq!(refused.code, 2, "{option}: {}", refused.shown());
    }
}

#[test]
fn access_is_as_the_command_line_says() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let start = ["serve", "--config", "shelly.yaml"];
    let run = |more: &[&str]| place.run(&[&start[..], more].concat());
    let open = run(&["--listen", "0.0.0.0:0"]);
    assert!(open.code == 2 && open.stderr.contains("--insecure-http"), "{}", open.shown());
    let open = run(&["--listen", "0.0.0.0:0", "--insecure-http", "--no-token"]);
    assert!(open.code == 2 && open.stderr.contains("no token is set"), "{}", open.shown());
    for wrong in [["--no-token", "--token-file", "t"], ["--allow-host", "a/b", "--no-token"]] {
        assert_eq!(run(&wrong).code, 2, "{wrong:?}");
    }
    let unset = run(&["--token-env", "THE_TOKEN"]);
    assert!(unset.code == 2 && unset.stderr.contains("THE_TOKEN"), "{}", unset.shown());

    let token = "0123456789abcdef";
    let more =
        ["--listen", "0.0.0.0:0", "--insecure-http", "--token-env", "THE_TOKEN", "--allow-host", "tools.example"];
    let more = [&start[..], &more, &["--allow-origin", "https://app.example"]].concat();
    let mut command = place.command(&more);
    command.env("THE_TOKEN", token);
    let mut served = HttpServed::of(command);
    assert_eq!(served.token, "", "it is not shown");
    let port = served.address.strip_prefix("0.0.0.0:").unwrap().split(' ').next().unwrap().to_owned();
    served.address = format!("127.0.0.1:{port}");
    let known = format!("authorization: Bearer {token}\r\n");
    for (headers, status) in [
        (format!("host: tools.example\r\n{known}"), 200),
        (format!("host: tools.example\r\norigin: https://app.example\r\n{known}"), 200),
        (format!("host: tools.example\r\norigin: https://other.example\r\n{known}"), 403),
        (format!("host: other.example\r\n{known}"), 403),
        ("host: tools.example\r\n".into(), 401),
    ] {
        assert_eq!(served.send("GET", "/api/v1/runs", &headers, "").status, status, "{headers}");
    }
    drop(served);

    let free = HttpServed::start(&place, &["--no-token"]);
    assert_eq!(free.send("GET", "/api/v1/runs", "host: localhost\r\n", "").status, 200);
    assert_eq!(free.send("GET", "/api/v1/runs", "host: evil.example\r\n", "").status, 403, "pages are not let in");
    drop(free);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut served = HttpServed::start(&place, &["--token-file", "token"]);
        served.token = fs::read_to_string(place.path().join("token")).unwrap().trim().to_owned();
        assert_eq!(served.get("/api/v1/runs").status, 200);
        assert_eq!(served.send("GET", "/api/v1/runs", "host: localhost\r\n", "").status, 401);
        tokens.push(served.token.clone());
    }
    assert_eq!(tokens[0], tokens[1]);
}

#[test]
fn mcp_server_takes_its_token_from_a_file() {
    let place = Place::new();
    place.file("shelly.yaml", "agents: [{name: helper}]\n");
    let options = ["mcp", "--config", "shelly.yaml", "--http", "127.0.0.1:0", "--token-file", "token"];
    let mut served = HttpServed::of(place.command(&options));
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let accept = "accept: application/json, text/event-stream\r\n";
    assert_eq!(served.post_with("/mcp", accept, &hello).status, 401);
    served.token = fs::read_to_string(place.path().join("token")).unwrap().trim().to_owned();
    assert_eq!(served.post_with("/mcp", accept, &hello).status, 200);
}
