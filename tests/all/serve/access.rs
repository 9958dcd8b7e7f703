//! Those who may not, and those who send too much or too little.

use super::*;

fn place() -> Place {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    place
}

#[test]
fn only_a_known_client_of_this_server_is_answered() {
    let place = place();
    let served = HttpServed::start(&place, &[]);
    let random = served.token.strip_prefix("shelly_").unwrap_or_default();
    assert_eq!(random.len(), 64, "{}", served.token);
    let token = served.token.clone();
    let known = format!("authorization: Bearer {token}\r\n");
    let path = "/api/v1/runs";
    for (headers, status, code) in [
        (format!("host: localhost\r\n{known}"), 200, ""),
        (format!("host: {}\r\n{known}", served.address), 200, ""),
        (format!("host: localhost\r\norigin: http://localhost:5173\r\n{known}"), 200, ""),
        ("host: localhost\r\n".into(), 401, "token"),
        (format!("host: localhost\r\nauthorization: Bearer {token}0\r\n"), 401, "token"),
        (format!("host: localhost\r\nauthorization: Bearer {}\r\n", &token[..63]), 401, "token"),
        (format!("host: localhost\r\nauthorization: Basic {token}\r\n"), 401, "token"),
        (format!("host: localhost\r\ncookie: token={token}\r\n"), 401, "token"),
        (format!("host: rebound.example\r\n{known}"), 403, "forbidden"),
        (known.clone(), 403, "forbidden"),
        (format!("host: localhost\r\norigin: https://evil.example\r\n{known}"), 403, "forbidden"),
        (format!("host: localhost\r\norigin: null\r\n{known}"), 403, "forbidden"),
    ] {
        let answered = served.send("GET", path, &headers, "");
        assert_eq!(answered.status, status, "{headers}{answered:?}");
        if status != 200 {
            let problem = answered.json();
            assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{problem}");
            assert!(!answered.body.contains(&token), "{answered:?}");
        }
        assert_eq!(answered.header("www-authenticate").is_some(), status == 401, "{answered:?}");
    }
    // A token in the address is none: addresses are logged.
    assert_eq!(served.send("GET", &format!("{path}?token={token}"), "host: localhost\r\n", "").status, 401);
    let preflight = served.send("OPTIONS", path, "host: localhost\r\norigin: http://localhost:5173\r\n", "");
    assert!(preflight.status == 204 && preflight.head.contains("idempotency-key"), "{preflight:?}");
    let foreign = served.send("OPTIONS", path, "host: localhost\r\norigin: https://evil.example\r\n", "");
    assert_eq!(foreign.status, 403);
    for public in ["/", "/healthz", "/openapi.json"] {
        assert_eq!(served.send("GET", public, "host: localhost\r\n", "").status, 200, "{public}");
        assert_eq!(served.send("GET", public, "host: rebound.example\r\n", "").status, 403, "{public}");
        assert_eq!(served.send("DELETE", public, "host: localhost\r\n", "").status, 405, "{public}");
    }
    assert_eq!(served.send("GET", "/metrics", "host: localhost\r\n", "").status, 401);
    let page = served.send("GET", "/", "host: localhost\r\n", "");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; ") && policy.ends_with("frame-ancestors 'none'"), "{policy}");
    assert_eq!(
        (page.header("cache-control"), page.header("x-content-type-options")),
        (Some("no-store"), Some("nosniff"))
    );
    assert!(!page.body.contains(&token) && !page.head.contains(&token));
    let (_, said) = served.terminate();
    assert!(!said.contains(&token), "the token was said once, at the start: {said}");
}

#[test]
fn path_tricks_reach_nothing() {
    let place = place();
    let served = HttpServed::start(&place, &[]);
    place.file("secret.txt", "never shown");
    for path in [
        "/..",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/secret.txt",
        "//api/v1/runs",
        "/api/v1/runs/",
        "/api/v1/../v1/runs",
        "/api/v1/sessions/..",
        "/api/v1/sessions/%2e%2e",
        "/api/v1/sessions/..%2f..%2fsecret.txt",
        "/api/v1/sessions/%2fetc%2fpasswd",
        "/api/v1/sessions/../attachments/7f",
        "/api/v1/sessions/s/attachments/..%2f..%2fjournal.jsonl",
        "/api/v1/runs/run-0%00",
        "/API/V1/RUNS",
    ] {
        let answered = served.get(path);
        assert_eq!(answered.status, 404, "{path}: {answered:?}");
        assert!(!answered.body.contains("never shown") && !answered.body.contains("root:"), "{answered:?}");
    }
    for (method, path, allowed) in [
        ("DELETE", "/api/v1/runs", "POST, GET"),
        ("PUT", "/api/v1/runs/run-0", "GET"),
        ("GET", "/api/v1/runs/run-0/cancel", "POST"),
        ("HEAD", "/", "GET"),
    ] {
        let answered = served.send(method, path, &served.known(), "");
        assert_eq!((answered.status, answered.header("allow")), (405, Some(allowed)), "{method} {path}");
    }
    assert_eq!(served.say("nonsense\r\n\r\n").status, 400);
    assert_eq!(served.get("/healthz").status, 200, "the server is well");
}

#[test]
fn oversized_and_undeclared_bodies_are_refused() {
    let place = place();
    let served = HttpServed::start(&place, &[]);
    let json = format!("{}content-type: application/json\r\n", served.known());
    let large = 300 << 10;
    let body = format!("{{\"text\": \"{}\"}}", "x".repeat(large));
    let refused = served.send("POST", "/api/v1/questions/1", &json, &body);
    assert_eq!((refused.status, &refused.json()["code"]), (413, &json!("too_large")), "{refused:?}");
    // A body that declares to be too large is not awaited, and one without a length is cut off.
    let head = format!("POST /api/v1/questions/1 HTTP/1.1\r\nconnection: close\r\n{json}");
    assert_eq!(served.say(&format!("{head}content-length: {large}\r\n\r\n")).status, 413);
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    assert_eq!(served.say(&format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}")).status, 413);
    // As large as a run may be, the server does not wait for it either.
    let head = format!("POST /api/v1/runs HTTP/1.1\r\nconnection: close\r\n{json}");
    assert_eq!(served.say(&format!("{head}content-length: 99000000\r\n\r\n")).status, 413);
    // Without a token the length does not matter.
    let unknown =
        "POST /api/v1/runs HTTP/1.1\r\nconnection: close\r\nhost: localhost\r\ncontent-length: 99000000\r\n\r\n";
    assert_eq!(served.say(unknown).status, 401);
    let long = format!("x-long: {}\r\n", "x".repeat(200 << 10));
    assert_eq!(served.send("GET", "/healthz", &format!("{}{long}", served.known()), "").status, 431);
    for (kind, body, status) in [
        ("content-type: text/plain\r\n", "{\"task\": \"hi\"}", 415),
        ("", "{\"task\": \"hi\"}", 415),
        ("content-type: application/json\r\n", "{\"task\": ", 400),
        ("content-type: application/json\r\n", "[]", 400),
        ("content-type: application/json; charset=utf-8\r\n", "{\"task\": \"hi\"}", 201),
    ] {
        let answered = served.send("POST", "/api/v1/runs", &format!("{}{kind}", served.known()), body);
        assert_eq!(answered.status, status, "{kind}{body}: {answered:?}");
    }
}

#[test]
fn body_of_too_many_values_is_refused() {
    let place = place();
    let served = HttpServed::start(&place, &["--a2a", "--mcp"]);
    // Two bytes each, and a hundred in memory once they are parsed.
    let many = format!("[{}1]", "1,".repeat(250_000));
    let kind = "content-type: application/json\r\naccept: application/json, text/event-stream\r\na2a-version: 1.0\r\n";
    for (path, body, status) in [
        ("/api/v1/runs", format!(r#"{{"task": "hi", "schema": {{"enum": {many}}}}}"#), 413),
        ("/v1/chat/completions", format!(r#"{{"messages": [{{"role": "user", "content": "hi"}}], "x": {many}}}"#), 413),
        ("/v1/responses", format!(r#"{{"input": "hi", "metadata": {many}}}"#), 413),
        ("/ag-ui/helper", format!(r#"{{"threadId": "t", "runId": "r", "messages": [], "state": {many}}}"#), 413),
        ("/a2a/helper", format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {many}}}"#), 413),
        ("/a2a/helper/message:send", format!(r#"{{"message": {many}}}"#), 413),
        ("/mcp", format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {many}}}"#), 400),
    ] {
        let refused = served.send("POST", path, &format!("{}{kind}", served.known()), &body);
        assert_eq!(refused.status, status, "{path}: {refused:?}");
        assert!(refused.body.contains("more than 250000 values"), "{path}: {refused:?}");
    }
    // A long text is one value.
    let long = json!({"task": "hi", "files": [{"name": "a.csv", "text": "1,".repeat(250_000)}]});
    assert_eq!(served.post("/api/v1/runs", &long).status, 201);
}

#[test]
fn client_is_served_beside_slow_ones() {
    let place = place();
    let served = HttpServed::start(&place, &[]);
    let mut slow = Vec::new();
    // Nothing, half a head, and a head whose body does not come.
    let head = format!(
        "POST /api/v1/runs HTTP/1.1\r\n{}content-type: application/json\r\ncontent-length: 20\r\n\r\n",
        served.known()
    );
    for half in ["", &head[..30], &head].into_iter().cycle().take(300) {
        let mut stream = served.connect();
        let _ = stream.write_all(half.as_bytes());
        slow.push(stream);
    }
    assert_eq!(served.get("/healthz").status, 200);
    let run = served.run(&json!({"task": "hi"}));
    assert_eq!(served.ended(&run)["state"], "completed");
}

#[test]
fn description_fits_the_server() {
    let place = place();
    let served = HttpServed::start(&place, &["--mcp"]);
    let document = served.send("GET", "/openapi.json", "host: localhost\r\n", "").json();
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let names = [("{run}", "run-0"), ("{question}", "99"), ("{session}", "none"), ("{trigger}", "none")];
        let real = names.iter().fold(path.clone(), |real, (brace, name)| real.replace(brace, name));
        let real = real.replace("{digest}", &"0".repeat(64));
        for (method, operation) in methods.as_object().unwrap() {
            count += 1;
            let method = method.to_uppercase();
            let answered = match operation.get("requestBody") {
                Some(_) => served.post(&real, &json!({})),
                None => served.send(&method, &real, &served.known(), ""),
            };
            assert_ne!(answered.status, 405, "{method} {path}");
            if answered.status == 404 {
                assert_ne!(answered.json()["title"], "there is no such path", "{method} {path}");
            }
            let is_public = operation["security"] == json!([]);
            let unknown = served.send(&method, &real, "host: localhost\r\n", "");
            assert_eq!(unknown.status == 401, !is_public, "{method} {path}: {unknown:?}");
        }
    }
    assert!(count >= 17, "{count}");
    // The same server has MCP clients, by the same rules.
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
    });
    let accept = "accept: application/json, text/event-stream\r\n";
    let greeted = served.post_with("/mcp", accept, &hello);
    assert!(greeted.status == 200 && greeted.body.contains("shelly-host"), "{greeted:?}");
    let unknown = format!("host: localhost\r\ncontent-type: application/json\r\n{accept}");
    assert_eq!(served.send("POST", "/mcp", &unknown, &hello.to_string()).status, 401);
    drop(served);
    let served = HttpServed::start(&place, &[]);
    assert_eq!(served.post_with("/mcp", accept, &hello).status, 404, "only if it is asked for");
}
