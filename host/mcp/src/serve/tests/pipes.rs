//! The server over pipes, message by message.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_client_is_told_what_there_is() {
    let bench = Bench::new();
    let mut client = bench.client();
    let greeting = client.shake_hands(json!({})).await;
    assert_eq!((&greeting["serverInfo"]["name"], &greeting["instructions"]), (&json!("test"), &json!("Be kind.")));
    let changing = json!({"listChanged": true});
    let capabilities =
        json!({"logging": {}, "completions": {}, "tools": changing, "prompts": changing, "resources": {}});
    assert_eq!((&greeting["protocolVersion"], &greeting["capabilities"]), (&json!("2025-11-25"), &capabilities));
    let list = client.ask("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect::<Vec<_>>(), TOOLS);
    let hints = json!({"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true});
    let echo = json!({"name": "echo", "description": "The tool echo.", "inputSchema": {"type": "object"}, "annotations": hints});
    assert_eq!(tools[0], echo);

    let prompts = client.ask("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"][0]["name"], "flight");
    assert_eq!(prompts["result"]["prompts"][0]["arguments"][0]["name"], "task");
    for (arguments, texts) in [
        (json!({}), &["Flap."][..]),
        (json!({"task": "Fly south."}), &["Flap.", "Fly south."]),
        (json!({"task": " "}), &["Flap."]),
    ] {
        let got = client.ask("prompts/get", json!({"name": "flight", "arguments": arguments})).await;
        let messages = got["result"]["messages"].as_array().unwrap();
        let said: Vec<_> = messages.iter().map(|message| message["content"]["text"].as_str().unwrap()).collect();
        assert_eq!((said, &got["result"]["description"]), (texts.to_vec(), &json!("When to fly.")));
    }

    let first = client.ask("resources/list", json!({})).await["result"].clone();
    let listed = json!({"uri": "test://1", "name": "text 1", "description": "a text", "size": 3});
    assert_eq!((&first["resources"][0], &first["nextCursor"]), (&listed, &json!("test://1")));
    let second = client.ask("resources/list", json!({"cursor": "test://1"})).await["result"].clone();
    assert_eq!((&second["resources"][0]["uri"], second.get("nextCursor")), (&json!("test://2"), None));
    let template = client.ask("resources/templates/list", json!({})).await;
    assert_eq!(template["result"]["resourceTemplates"][0]["uriTemplate"], "test://{n}");
    for (uri, contents) in [
        ("test://1", json!({"uri": "test://1", "mimeType": "text/plain", "text": "one"})),
        ("test://2", json!({"uri": "test://2", "mimeType": "image/png", "blob": "iVBORw=="})),
    ] {
        let read = client.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["result"]["contents"], json!([contents]));
    }
    for (of, name, begins, values) in [
        (json!({"type": "ref/prompt", "name": "flight"}), "task", "", json!([])),
        (json!({"type": "ref/resource", "uri": "test://{n}"}), "n", "", json!(["1"])),
        (json!({"type": "ref/resource", "uri": "test://{n}"}), "n", "2", json!([])),
    ] {
        let params = json!({"ref": of, "argument": {"name": name, "value": begins}});
        assert_eq!(client.ask("completion/complete", params).await["result"]["completion"]["values"], values);
    }
    assert_eq!(client.ask("ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn newest_revision_rejects_removed_methods() {
    let bench = Bench::new();
    let mut client = bench.client();
    for (method, params) in [
        ("initialize", json!({})),
        ("logging/setLevel", json!({"level": "info"})),
        ("logging/setLevel", json!({})),
        ("resources/subscribe", json!({})),
        ("ping", json!({})),
    ] {
        let answer = client.ask_stateless(method, params, &json!({})).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}: {answer}");
    }
    let missing = client.ask_stateless("resources/read", json!({"uri": "test://3"}), &json!({})).await;
    assert_eq!(missing["error"]["data"], json!({"uri": "test://3"}));
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_get_error_messages() {
    let bench = Bench::new();
    let mut client = bench.client();
    // Before the handshake.
    assert_eq!(client.ask("tools/list", json!({})).await["error"]["code"], -32602);
    client.shake_hands(json!({})).await;
    let long = "x".repeat(limits::MCP_SERVE_NAME_BYTES + 1);
    for (method, params, code, why) in [
        ("tools/call", json!({"name": "no such tool"}), -32602, "unknown tool: no such tool"),
        ("tools/call", json!({"name": long}), -32602, "unknown tool: xxxx"),
        ("tools/call", json!({"nom": "echo"}), -32602, "invalid params of `tools/call`"),
        ("tools/call", json!({"name": "echo", "arguments": [1]}), -32602, "invalid params of `tools/call`"),
        (
            "tools/call",
            json!({"name": "echo", "requestState": "x"}),
            -32602,
            "`requestState` belongs to no waiting call",
        ),
        ("tools/list", json!({"cursor": "2"}), -32602, "invalid cursor"),
        ("prompts/get", json!({"name": "fall"}), -32602, "unknown prompt: fall"),
        ("prompts/get", json!({"name": long}), -32602, "the name has more than 1024 bytes"),
        (
            "prompts/get",
            json!({"name": "flight", "arguments": {"task": 7}}),
            -32602,
            "the argument `task` must be a text",
        ),
        ("resources/read", json!({"uri": "test://3"}), -32002, "there is no resource test://3"),
        ("resources/read", json!({"uri": long}), -32602, "the URI has more than 1024 bytes"),
        ("resources/read", json!({"uri": "test://broken"}), -32603, "the disk is gone"),
        ("resources/list", json!({"cursor": "9"}), -32602, "invalid cursor"),
        ("logging/setLevel", json!({"level": "loud"}), -32602, "invalid params of `logging/setLevel`"),
        ("no/such", json!({}), -32601, "unknown method `no/such`"),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}),
            -32602,
            "unknown prompt: x",
        ),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "x:y"}, "argument": {"name": "a", "value": ""}}),
            -32602,
            "unknown template: x:y",
        ),
    ] {
        let error = client.ask(method, params.clone()).await["error"].clone();
        let said = error["message"].as_str().unwrap();
        assert!(error["code"] == code && said.starts_with(why) && said.len() < 300, "{method} {params}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn results_keep_content_kinds_and_failures_are_results() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let text = |text: &str| json!({"type": "text", "text": text});
    for (name, arguments, content, is_error) in [
        ("echo", json!({"a": [1, "ü"]}), json!([text(r#"{"a":[1,"ü"]}"#)]), false),
        ("fail", json!({}), json!([text("it went wrong")]), true),
        (
            "image",
            json!({}),
            json!([text("look:"), {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}]),
            false,
        ),
        ("ask", json!({}), json!([text("nobody is there")]), false),
    ] {
        let result = client.call(name, arguments).await;
        assert_eq!((&result["content"], &result["isError"]), (&content, &json!(is_error)), "{name}");
    }
    let answer = client.ask("tools/call", json!({"name": "echo"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "{}", "a call without arguments");
}

#[tokio::test(start_paused = true)]
async fn progress_and_log_are_sent_only_on_request() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    client.call("report", json!({})).await;
    assert_eq!(client.told, [] as [Value; 0], "nobody asked for anything");
    let mut untold = Vec::new();
    for _ in 0..5 {
        untold.push(bench.untold.next_event().await.unwrap());
    }
    assert!(matches!(&untold[4], Event::PluginLog { message, .. } if message == "high"), "{untold:?}");

    assert_eq!(client.ask("logging/setLevel", json!({"level": "notice"})).await["result"], json!({}));
    let params = json!({"name": "report", "arguments": {}, "_meta": {"progressToken": "mark"}});
    client.ask("tools/call", params).await;
    let told: Vec<_> = client.told.iter().map(|told| (told["method"].as_str().unwrap(), &told["params"])).collect();
    let progress = |n: f64| json!({"progressToken": "mark", "progress": n, "total": 2.0, "message": format!("at {n}")});
    let log = json!({"level": "warning", "logger": "p", "data": "high"});
    let progresses = [0.0, 1.0, 2.0].map(progress);
    let expected = progresses.iter().map(|progress| ("notifications/progress", progress));
    assert_eq!(told, expected.chain([("notifications/message", &log)]).collect::<Vec<_>>());
    // Log entries that were sent to the client are not emitted again.
    for event in ["at 0", "at 1", "at 2"] {
        let next = bench.untold.next_event().await.unwrap();
        assert!(matches!(&next, Event::ToolProgress { message: Some(message), .. } if message == event), "{next:?}");
    }
    let next = bench.untold.next_event().await.unwrap();
    assert!(matches!(&next, Event::PluginLog { message, .. } if message == "low"), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_taken_back_ends() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let id = client.begin("tools/call", json!({"name": "hang"})).await;
    until(|| bench.hands.now.load(Ordering::SeqCst) == 1).await;
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})).await;
    bench.until_dropped(1).await;
    // Other calls go on, and nothing is sent about the cancelled one.
    assert_eq!(client.call("slow", json!({})).await["isError"], false);
    assert!(client.told.is_empty());
}

#[tokio::test(start_paused = true)]
async fn pipe_disconnect_cancels_the_calls() {
    // A client closes its input: calls that end soon are still answered.
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let (hangs, ends) = (
        client.begin("tools/call", json!({"name": "hang"})).await,
        client.begin("tools/call", json!({"name": "slow"})).await,
    );
    client.write.shutdown().await.unwrap();
    assert_eq!(client.answer(ends).await["result"]["isError"], false);
    bench.until_dropped(1).await;
    while let Some(message) = client.next().await {
        assert_eq!(message["id"], hangs);
        assert!(message.get("error").is_some());
    }
    client.served.take().unwrap().await.unwrap();
    // The server is stopped.
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    client.begin("tools/call", json!({"name": "hang"})).await;
    until(|| bench.hands.now.load(Ordering::SeqCst) == 1).await;
    bench.stop.cancel();
    bench.until_dropped(2).await;
    client.served.take().unwrap().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn catalog_changes_are_notified() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    client.ask("ping", json!({})).await;
    bench.shelf.send_replace(shelf(&["echo", "new"]));
    client.told_of("notifications/tools/list_changed").await;
    let list = client.ask("tools/list", json!({})).await;
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2);
    assert_eq!(client.call("new", json!({})).await["isError"], false);
    assert_eq!(client.ask("tools/call", json!({"name": "fail"})).await["error"]["code"], -32602, "it is gone");
    // The same catalog again is no change.
    bench.shelf.send_replace(shelf(&["echo", "new"]));
    bench.shelf.send_replace(Arc::new(McpCatalog { prompts: [].into(), ..(*shelf(&["echo", "new"])).clone() }));
    client.told_of("notifications/prompts/list_changed").await;
    assert!(client.told.is_empty(), "{:?}", client.told);
}

#[tokio::test(start_paused = true)]
async fn client_elicits_its_person_during_a_call() {
    let bench = Bench::new();
    for capabilities in [json!({"elicitation": {}}), json!({"elicitation": {"form": {}}})] {
        for (answer, said) in [
            (json!({"action": "accept", "content": {"name": "Ada"}}), "\"Ada\""),
            (json!({"action": "accept"}), "nothing"),
            (json!({"action": "decline"}), "Decline"),
            (json!({"action": "cancel"}), "Cancel"),
        ] {
            let mut client = bench.client();
            client.shake_hands(capabilities.clone()).await;
            let id = client.begin("tools/call", json!({"name": "ask"})).await;
            let asked = client.told_of("elicitation/create").await;
            assert_eq!(asked["params"]["message"], "name?");
            assert_eq!(asked["params"]["requestedSchema"]["properties"]["name"]["type"], "string");
            client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer})).await;
            assert_eq!(client.answer(id).await["result"]["content"][0]["text"], said);
        }
    }
    // A client that supports only URLs has no forms.
    let mut client = bench.client();
    client.shake_hands(json!({"elicitation": {"url": {}}})).await;
    assert_eq!(client.call("ask", json!({})).await["content"][0]["text"], "nobody is there");
    // A client that cancels the call is not asked any more.
    let mut client = bench.client();
    client.shake_hands(json!({"elicitation": {}})).await;
    let id = client.begin("tools/call", json!({"name": "ask"})).await;
    client.told_of("elicitation/create").await;
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})).await;
    bench.until_dropped(1).await;
}

#[tokio::test(start_paused = true)]
async fn newest_revision_elicits_between_two_requests() {
    let bench = Bench::new();
    let (mut client, can) = (bench.client(), json!({"elicitation": {"form": {}}}));
    let call = |more: Value| {
        let mut params = json!({"name": "ask", "arguments": {"a": 1}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let waits = client.ask_stateless("tools/call", call(json!({})), &can).await["result"].clone();
    assert_eq!(
        (&waits["resultType"], &waits["inputRequests"]["question"]["method"]),
        (&json!("input_required"), &json!("elicitation/create"))
    );
    let state = &waits["requestState"];
    let answer = json!({"question": {"action": "accept", "content": {"name": "Ada"}}});
    // Another call cannot use the answer, and a missing answer is refused.
    let other = json!({"name": "ask", "arguments": {"a": 2}, "requestState": state, "inputResponses": answer});
    assert_eq!(client.ask_stateless("tools/call", other, &can).await["error"]["code"], -32602);
    let none = call(json!({"requestState": state}));
    assert_eq!(client.ask_stateless("tools/call", none, &can).await["error"]["code"], -32602);
    let whole = call(json!({"requestState": state, "inputResponses": answer}));
    let done = client.ask_stateless("tools/call", whole.clone(), &can).await;
    assert_eq!(done["result"]["content"][0]["text"], "\"Ada\"");
    assert_eq!(client.ask_stateless("tools/call", whole, &can).await["error"]["code"], -32602, "it is over");
    assert_eq!(bench.hands.begun.load(Ordering::SeqCst), 1, "it was one call");
    let nobody = client.ask_stateless("tools/call", json!({"name": "ask"}), &json!({})).await;
    assert_eq!(nobody["result"]["content"][0]["text"], "nobody is there");

    // Only so many calls are parked, and only for so long.
    for _ in 0..limits::MCP_SERVE_PARKED {
        assert_eq!(
            client.ask_stateless("tools/call", call(json!({})), &can).await["result"]["resultType"],
            "input_required"
        );
    }
    let refused = client.ask_stateless("tools/call", call(json!({})), &can).await["result"].clone();
    assert_eq!(
        (&refused["isError"], &refused["content"][0]["text"]),
        (&json!(true), &json!("16 calls wait for an answer already"))
    );
    bench.until_dropped(1).await;
    tokio::time::sleep(limits::MCP_SERVE_PARK_TIME * 2).await;
    bench.until_dropped(1 + limits::MCP_SERVE_PARKED).await;
}

#[tokio::test(start_paused = true)]
async fn newest_revision_subscribes_to_catalog_changes() {
    let bench = Bench::new();
    let mut client = bench.client();
    let wants = json!({"notifications": {"promptsListChanged": true, "resourcesListChanged": true}});
    client.begin("subscriptions/listen", stateless(wants, &json!({}))).await;
    let told = client.told_of("notifications/subscriptions/acknowledged").await;
    assert_eq!(told["params"]["notifications"], json!({"promptsListChanged": true}), "what there is of it");
    bench.shelf.send_replace(Arc::new(McpCatalog { prompts: [].into(), ..(*shelf(&["echo"])).clone() }));
    client.told_of("notifications/prompts/list_changed").await;
    assert!(client.told.is_empty(), "nobody wants to know of the tools: {:?}", client.told);
}
