//! Servers that die, hang, flood and send nonsense.

use std::time::Duration;

use serde_json::json;

use super::*;
use shelly_core::limits;

fn lost(tool: &str) -> Value {
    let annotations = json!({"readOnlyHint": tool == "look"});
    json!({"name": tool, "description": "", "inputSchema": {"type": "object"}, "annotations": annotations})
}

#[tokio::test(start_paused = true)]
async fn lost_call_is_repeated_only_if_idempotent_or_read_only() {
    // The first two connections end in the middle of a call.
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[lost("look"), lost("act")]).await;
        let call = peer.next_of("tools/call").await;
        if peer.attempt < 2 {
            return;
        }
        peer.answer(&call, text("done")).await;
        peer.hang().await;
    });
    let client = connect(&servers).await.unwrap();
    let tools = toolbox(&client);
    let (is_error, said_text) = said(&tools, "test__act", &json!({})).await;
    assert!(is_error, "{said_text}");
    let expected = "the connection to the MCP server `test` was lost during the call: the server closed the \
                    connection; it is not known whether the call took effect: check before you repeat it";
    assert_eq!(said_text, expected);
    assert_eq!(said(&tools, "test__look", &json!({})).await, (false, "done".into()));
    assert_eq!(servers.dialled(), 3);
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn dead_server_is_given_up_until_the_next_call() {
    let servers = Servers::new(|mut peer| async move {
        match peer.attempt {
            0 => peer.begin(&[tool("t")]).await,
            attempt if attempt < 2 * limits::MCP_RECONNECTS as usize + 3 => {}
            _ => {
                peer.begin(&[tool("t")]).await;
                let call = peer.next_of("tools/call").await;
                peer.answer(&call, text("back")).await;
                peer.hang().await;
            }
        }
    });
    let client = connect(&servers).await.unwrap();
    let tools = toolbox(&client);
    let given_up = async {
        loop {
            let before = servers.dialled();
            tokio::time::sleep(limits::RETRY_PAUSE * 2).await;
            if servers.dialled() == before {
                return;
            }
        }
    };
    given_up.await;
    // Each attempt tries both lifecycles.
    assert_eq!(servers.dialled(), 1 + 2 * limits::MCP_RECONNECTS as usize);
    let (is_error, why) = said(&tools, "test__t", &json!({})).await;
    assert!(
        is_error && why.starts_with("cannot reach the MCP server `test`: the server closed the connection"),
        "{why}"
    );
    assert_eq!(servers.dialled(), 3 + 2 * limits::MCP_RECONNECTS as usize);
    assert_eq!(said(&tools, "test__t", &json!({})).await, (false, "back".into()));
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn failed_handshake_is_reported() {
    type Says = (&'static [u8], &'static str);
    let says: [Says; 5] = [
        (b"", "the server closed the connection"),
        (b"hang", "no handshake within 60s"),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32020,\"message\":\"go away\"}}\n",
            "the server reports: go away",
        ),
        (b"{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"tools\":[]}}\n", "the answer does not match the request"),
        (b"garbage", "the server sent more than 1000 lines in a row that are not messages of the protocol"),
    ];
    for (bytes, why) in says {
        let servers = Servers::new(move |mut peer| async move {
            match bytes {
                b"" => return,
                b"hang" => {}
                b"garbage" => peer.say_raw(&b"hello\n".repeat(limits::MCP_GARBAGE_LINES as usize + 1)).await,
                bytes => {
                    peer.next().await;
                    peer.say_raw(bytes).await;
                }
            }
            peer.hang().await;
        });
        let error = connect(&servers).await.unwrap_err().to_string();
        assert_eq!(error, format!("cannot reach the MCP server `test`: {why}"));
    }
}

#[tokio::test(start_paused = true)]
async fn constant_answer_falls_back_to_handshake() {
    let servers = Servers::new(|mut peer| async move {
        let first = peer.next().await.unwrap();
        if first["method"] == "server/discover" {
            peer.answer(&first, json!({})).await;
            return peer.hang().await;
        }
        let us = json!({"name": "peer", "version": "1"});
        let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": us});
        peer.answer(&first, result).await;
        let list = peer.next_of("tools/list").await;
        peer.answer(&list, json!({"tools": [tool("t")]})).await;
        peer.hang().await;
    });
    let client = connect(&servers).await.unwrap();
    assert_eq!((client.listing().tools.len(), servers.dialled()), (1, 2));
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn noise_and_unexpected_messages_are_tolerated() {
    let servers = Servers::new(|mut peer| async move {
        peer.say_raw(b"Welcome to my server!\n\n\xff\n{\"level\":\"info\"}\n").await;
        peer.begin(&[tool("t")]).await;
        for method in ["notifications/message", "notifications/odd", "notifications/resources/updated"] {
            peer.notify(method, json!({"level": "info", "data": "\u{1b}[2J", "uri": "a:b"})).await;
        }
        let call = peer.next_of("tools/call").await;
        // An answer to no request, one whose id is a text, and a second one.
        peer.answer(&json!({"id": 4_711}), json!({})).await;
        peer.answer(&json!({"id": call["id"].to_string()}), text("done")).await;
        peer.answer(&call, text("done twice")).await;
        peer.hang().await;
    });
    let client = connect(&servers).await.unwrap();
    assert_eq!(said(&toolbox(&client), "test__t", &json!({})).await, (false, "done".into()));
    assert_eq!(servers.dialled(), 1);
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn flood_ends_only_its_connection() {
    let message = |what: &str| match what {
        "notifications" => {
            json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})
        }
        "requests" => json!({"jsonrpc": "2.0", "id": "x", "method": "ping"}),
        _ => json!({"jsonrpc": "2.0", "id": 9_999, "result": {}}),
    };
    for what in ["notifications", "requests", "answers"] {
        let servers = Servers::new(move |mut peer| async move {
            peer.begin(&[tool("t")]).await;
            if peer.attempt == 0 {
                peer.next_of("tools/call").await;
                let line = format!("{}\n", message(what));
                for _ in 0..2 * limits::MCP_UNASKED_MESSAGES / 100 {
                    peer.say_raw(line.repeat(100).as_bytes()).await;
                }
                return peer.hang().await;
            }
            let call = peer.next_of("tools/call").await;
            peer.answer(&call, text("done")).await;
            peer.hang().await;
        });
        let client = connect(&servers).await.unwrap();
        let tools = toolbox(&client);
        let (is_error, why) = said(&tools, "test__t", &json!({})).await;
        assert!(is_error && why.contains("too many unrequested messages: more than 10000"), "{what}: {why}");
        assert_eq!(said(&tools, "test__t", &json!({})).await, (false, "done".into()), "{what}");
        servers.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_given_up() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("t")]).await;
        std::future::pending().await
    });
    let config = ServerConfig { call_time: Duration::from_secs(100), ..config(&servers) };
    let client = McpClient::connect(config, McpClientFeatures::default()).await.unwrap();
    let large = json!({"text": "x".repeat(2 * limits::MCP_PIPE_BYTES)});
    let (is_error, why) = said(&toolbox(&client), "test__t", &large).await;
    assert!(is_error && why.contains("the server read no input for 30s"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn server_requests_beyond_the_limit_are_not_answered() {
    let (told, mut hears) = tokio::sync::mpsc::channel(1);
    let servers = Servers::new(move |mut peer| {
        let told = told.clone();
        async move {
            peer.begin(&[tool("t")]).await;
            for id in 0..4 {
                peer.say(json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).await;
                assert_eq!(peer.next().await.unwrap(), json!({"jsonrpc": "2.0", "id": id, "result": {}}));
            }
            for (method, code) in [("sampling/createMessage", -32_600), ("roots/list", -32_600), ("odd/one", -32_601)] {
                let params = json!({"messages": [], "maxTokens": 1});
                peer.say(json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})).await;
                let answer = peer.next().await.unwrap();
                assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(method), &json!(code)), "{answer}");
            }
            told.send(()).await.unwrap();
            peer.hang().await;
        }
    });
    let _client = connect(&servers).await.unwrap();
    hears.recv().await.unwrap();
    servers.check().await;
}

#[test]
fn bad_names_and_times_are_refused_before_anything_is_started() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let servers = Servers::new(|_| async {});
    let plain = config(&servers);
    for (config, why) in [
        (ServerConfig { name: "a__b".into(), ..plain.clone() }, "invalid server name `a__b`"),
        (ServerConfig { call_time: Duration::ZERO, ..plain.clone() }, "the time limit of a call is 0ns"),
        (
            ServerConfig { connect_time: limits::PLUGIN_TIME_CEILING * 2, ..plain },
            "the time limit of connecting is 7200s",
        ),
    ] {
        let error = runtime.block_on(McpClient::connect(config, McpClientFeatures::default())).unwrap_err();
        assert!(matches!(error, McpError::Config { .. }) && error.to_string().contains(why), "{error}");
    }
    assert_eq!(servers.dialled(), 0);
}

#[tokio::test(start_paused = true)]
async fn tool_of_deep_schema_is_refused_and_no_other() {
    for (depth, is_taken) in [(8, true), (100, false), (200, false), (2_000, false)] {
        let servers = Servers::new(move |mut peer| async move {
            peer.shake_hands().await;
            let list = peer.next_of("tools/list").await;
            let deep = format!("{}{}", r#"{"items":"#.repeat(depth), "{}".to_owned() + &"}".repeat(depth));
            let schema = format!(r#"{{"type":"object","properties":{{"a":{deep}}}}}"#);
            let tools = format!(r#"[{{"name":"deep","inputSchema":{schema}}},{}]"#, tool("t"));
            let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":{tools}}}}}"#, list["id"]);
            peer.say_raw(format!("{answer}\n").as_bytes()).await;
            peer.hang().await;
        });
        let client = connect(&servers).await.unwrap();
        let listing = client.listing();
        assert!(listing.find("t").is_some(), "{depth}");
        assert_eq!(listing.find("deep").is_some(), is_taken, "{depth}");
        let most = limits::TOOL_SCHEMA_DEPTH;
        for refused in &listing.refused {
            let why = format!("the schema of `test__deep` has more than {most} nested lists and objects");
            assert_eq!((&*refused.name, &refused.why), ("deep", &why), "{depth}");
        }
    }
}
