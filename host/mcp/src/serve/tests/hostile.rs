//! Clients that send anything, and any amount.

use super::*;

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_client_queue_are_refused() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let (pipe, most) = (&mut client, limits::MCP_SERVE_CALLS_WAITING + 200);
    let all: String = (1..=most)
        .map(|n| {
            let params = json!({"name": "slow", "arguments": {}});
            format!("{}\n", json!({"jsonrpc": "2.0", "id": 10_000 + n, "method": "tools/call", "params": params}))
        })
        .collect();
    let (mut done, mut refused) = (0, 0);
    let Client { lines, write, .. } = pipe;
    let saying = async { write.write_all(all.as_bytes()).await.unwrap() };
    let hearing = async {
        while done + refused < most {
            let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            match &answer["result"]["isError"] {
                Value::Bool(false) => done += 1,
                Value::Bool(true) => {
                    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with("1024 calls wait"));
                    refused += 1;
                }
                _ => panic!("{answer}"),
            }
        }
    };
    tokio::join!(saying, hearing);
    assert!(done >= limits::MCP_SERVE_CALLS_WAITING && refused > 0, "{done} of {most}");
    assert_eq!(bench.hands.most.load(Ordering::SeqCst), limits::MCP_SERVE_CALLS);
    assert_eq!(bench.hands.begun.load(Ordering::SeqCst), done);
}

#[tokio::test]
async fn oversized_arguments_are_refused_without_a_permit() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let refused = client.call("echo", json!({"a": "x".repeat(limits::ARGUMENT_BYTES)})).await;
    let says = refused["content"][0]["text"].as_str().unwrap();
    assert!(refused["isError"] == true && says.contains("the maximum is 1048576"), "{says}");
    assert_eq!(bench.hands.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn clients_share_the_global_call_limit() {
    let bench = Bench::new();
    let mut clients: Vec<_> = (0..6).map(|_| bench.client()).collect();
    for client in &mut clients {
        client.shake_hands(json!({})).await;
        for _ in 0..limits::MCP_SERVE_CALLS {
            client.begin("tools/call", json!({"name": "hang"})).await;
        }
        client.ask("ping", json!({})).await;
    }
    until(|| bench.hands.now.load(Ordering::SeqCst) == limits::MCP_SERVE_CALLS_OF_ALL).await;
    assert_eq!(bench.hands.most.load(Ordering::SeqCst), limits::MCP_SERVE_CALLS_OF_ALL);
    // One client goes, and others get its permits.
    drop(clients.remove(0));
    until(|| bench.hands.begun.load(Ordering::SeqCst) == limits::MCP_SERVE_CALLS_OF_ALL + limits::MCP_SERVE_CALLS)
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_given_up() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    // More than fits into the pipe.
    for _ in 0..limits::MCP_SERVE_UNREAD + 10 {
        client.begin("tools/call", json!({"name": "large"})).await;
    }
    client.begin("tools/call", json!({"name": "hang"})).await;
    let served = client.served.take().unwrap();
    served.await.unwrap();
    let made = bench.hands.begun.load(Ordering::SeqCst);
    assert!(
        made <= limits::MCP_SERVE_UNREAD + limits::MCP_SERVE_CALLS + 2,
        "{made}: it is not heard before it listens"
    );
}

#[tokio::test(start_paused = true)]
async fn invalid_lines_are_answered_up_to_a_limit() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let long = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{}"}}"#, "x".repeat(limits::MCP_MESSAGE_BYTES));
    let deep = format!(r#"{{"jsonrpc":"2.0","id":8,"method":"x","params":{}"#, "[".repeat(100_000));
    let many =
        format!(r#"{{"jsonrpc":"2.0","id":9,"method":"x","params":[{}0]}}"#, "0,".repeat(limits::MCP_MESSAGE_VALUES));
    for (said, code, id) in [
        ("hello", -32700, json!(null)),
        ("\u{0}\u{1}", -32700, json!(null)),
        ("[]", -32600, json!(null)),
        (r#"{"jsonrpc":"1.0","id":5,"method":"ping"}"#, -32600, json!(5)),
        (&long, -32600, json!(7)),
        (&deep, -32700, json!(null)),
        (&many, -32600, json!(9)),
    ] {
        client.say_raw(format!("{said}\n").as_bytes()).await;
        let answer = client.next().await.unwrap();
        let shown = &said[..said.len().min(50)];
        assert_eq!(
            (&answer["error"]["code"], answer.get("id").unwrap_or(&Value::Null)),
            (&json!(code), &id),
            "{shown}"
        );
    }
    client.say_raw(b"\xff\xfe\n").await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32700);
    assert_eq!(client.call("slow", json!({})).await["isError"], false);
    // Answers to no request are ignored.
    client.say(json!({"jsonrpc": "2.0", "id": 99, "result": {}})).await;
    client.say(json!({"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "x"}})).await;
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})).await;
    client.say(json!({"jsonrpc": "2.0", "method": "notifications/unheard-of", "params": {"a": 1}})).await;
    assert_eq!(client.call("slow", json!({})).await["isError"], false);
    assert!(client.told.is_empty(), "{:?}", client.told);

    let id = client.begin("tools/call", json!({"name": "hang"})).await;
    assert!(id > 0);
    until(|| bench.hands.now.load(Ordering::SeqCst) == 1).await;
    for _ in 0..=limits::MCP_GARBAGE_LINES {
        client.say_raw(b"no\n").await;
        // The client reads the error for each line.
        while let Some(told) = futures_util::FutureExt::now_or_never(client.lines.next_line()) {
            if matches!(told, Ok(None) | Err(_)) {
                break;
            }
        }
    }
    client.served.take().unwrap().await.unwrap();
    bench.until_dropped(1).await;
}

#[tokio::test(start_paused = true)]
async fn a_line_without_end_ends_the_connection() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.shake_hands(json!({})).await;
    let served = client.served.take().unwrap();
    let saying = tokio::spawn(async move {
        let piece = vec![b'x'; 1 << 20];
        while client.write.write_all(&piece).await.is_ok() {}
    });
    served.await.unwrap();
    saying.await.unwrap();
}
