//! Calls: many at once, slow ones, cancelled ones.

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig as Served, Tool,
    },
    service::RequestContext,
};
use serde_json::json;

use super::*;
use shelly_core::{
    event::{Event, EventSink},
    limits,
};

/// A server built with `rmcp`.
#[derive(Clone)]
struct Library;

impl ServerHandler for Library {
    fn get_info(&self) -> Served {
        Served::new(ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(json!({"type": "object"}).as_object().unwrap().clone());
        Ok(ListToolsResult::with_all_items(vec![
            Tool::new("echo", "Says it again.", Arc::clone(&schema)),
            Tool::new("fail", "Fails.", schema),
        ]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "echo" => {
                Ok(CallToolResult::success(vec![ContentBlock::text(json!(request.arguments).to_string())]).into())
            }
            "fail" => Err(ErrorData::invalid_params("it always does", None)),
            other => Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        }
    }
}

#[tokio::test]
async fn client_speaks_both_lifecycles_with_an_rmcp_server() {
    for revisions in [ProtocolRevisions::Any, ProtocolRevisions::Handshake, ProtocolRevisions::Stateless] {
        let config = library(Library, revisions);
        let client = McpClient::connect(config, McpClientFeatures::default()).await.unwrap();
        let tools = toolbox(&client);
        assert_eq!(tools.names().collect::<Vec<_>>(), ["lib__echo", "lib__fail"]);
        assert_eq!(
            said(&tools, "lib__echo", &json!({"a": "é"})).await,
            (false, r#"{"a":"é"}"#.into()),
            "{revisions:?}"
        );
        assert_eq!(said(&tools, "lib__fail", &json!({})).await, (true, "it always does".into()));
        client.close().await;
        let (is_error, text) = said(&tools, "lib__echo", &json!({})).await;
        assert!(is_error && text == "the connection to the MCP server `lib` is closed", "{text}");
    }
}

#[tokio::test]
async fn concurrent_calls_get_their_own_answers() {
    const CALLS: usize = 1_000;
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("echo")]).await;
        let mut calls = Vec::new();
        while calls.len() < CALLS {
            calls.push(peer.next_of("tools/call").await);
        }
        // Answers the last one first.
        for call in calls.iter().rev() {
            peer.answer(call, text(&call["params"]["arguments"]["at"].to_string())).await;
        }
        peer.hang().await;
    });
    let client = connect(&servers).await.unwrap();
    let tools = toolbox(&client);
    let calls = (0..CALLS).map(|at| {
        let tools = tools.clone();
        tokio::spawn(async move { (at, said(&tools, "test__echo", &json!({"at": at})).await) })
    });
    for call in calls.collect::<Vec<_>>() {
        let (at, said) = call.await.unwrap();
        assert_eq!(said, (false, at.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_server_limit_wait() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("slow")]).await;
        let mut calls = Vec::new();
        while calls.len() < limits::MCP_CALLS {
            calls.push(peer.next_of("tools/call").await);
        }
        let further = tokio::time::timeout(Duration::from_secs(5), peer.next()).await;
        assert!(further.is_err(), "{further:?}");
        for call in &calls {
            peer.answer(call, text("done")).await;
        }
        let last = peer.next_of("tools/call").await;
        peer.answer(&last, text("done")).await;
        peer.hang().await;
    });
    let client = connect(&servers).await.unwrap();
    let tools = toolbox(&client);
    let calls = (0..=limits::MCP_CALLS).map(|_| {
        let tools = tools.clone();
        tokio::spawn(async move { said(&tools, "test__slow", &json!({})).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), (false, "done".into()));
    }
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn dropped_call_is_cancelled_at_the_server() {
    let (told, mut hears) = tokio::sync::mpsc::channel(2);
    let servers = Servers::new(move |mut peer| {
        let told = told.clone();
        async move {
            peer.begin(&[tool("slow")]).await;
            loop {
                let call = peer.next_of("tools/call").await;
                let cancelled = peer.next_of("notifications/cancelled").await;
                assert_eq!(cancelled["params"]["requestId"], call["id"]);
                // Too late, which does no harm.
                peer.answer(&call, text("done")).await;
                told.send(()).await.unwrap();
            }
        }
    });
    let config = ServerConfig { call_time: Duration::from_secs(3), ..config(&servers) };
    let client = McpClient::connect(config, McpClientFeatures::default()).await.unwrap();
    let tools = toolbox(&client);
    assert_eq!(said(&tools, "test__slow", &json!({})).await, (true, "`test__slow` took longer than 3 seconds".into()));
    hears.recv().await.unwrap();
    let dropped = tokio::time::timeout(Duration::from_secs(1), said(&tools, "test__slow", &json!({}))).await;
    assert!(dropped.is_err());
    hears.recv().await.unwrap();
    assert_eq!(servers.dialled(), 1);
    servers.check().await;
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_but_not_too_often() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("slow")]).await;
        let call = peer.next_of("tools/call").await;
        let mark = call["params"]["_meta"]["progressToken"].clone();
        for done in 1..=20 {
            peer.notify("notifications/progress", json!({"progressToken": mark, "progress": done, "total": 20})).await;
            tokio::time::sleep(limits::PROGRESS_PAUSE / 4).await;
        }
        peer.notify("notifications/progress", json!({"progressToken": "else", "progress": 99})).await;
        peer.notify("notifications/progress", json!({"progressToken": mark, "progress": 21, "message": "last"})).await;
        peer.answer(&call, text("done")).await;
        peer.hang().await;
    });
    let client = connect(&servers).await.unwrap();
    let (events, mut stream) = EventSink::channel();
    let cx = RunCx::new("ada").with_events(events);
    assert!(!call(&toolbox(&client), &cx, "test__slow", &json!({})).await.is_error);
    drop(cx);
    let mut told = Vec::new();
    while let Some(event) = stream.next_event().await {
        if let Event::ToolProgress { done, total, message, call, .. } = event {
            assert_eq!(call, "c1");
            told.push((done, total, message));
        }
    }
    assert_eq!(told.last(), Some(&(21.0, None, Some("last".into()))));
    assert!((5..=8).contains(&told.len()) && told[0] == (1.0, Some(20.0), None), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn results_are_cut_at_the_servers_own_bound() {
    let servers = Servers::new(|mut peer| async move {
        peer.begin(&[tool("long")]).await;
        while let Some(call) = peer.next().await {
            peer.answer(&call, text(&"x".repeat(100))).await;
        }
    });
    let config = ServerConfig { output_chars: 10, ..config(&servers) };
    let client = McpClient::connect(config, McpClientFeatures::default()).await.unwrap();
    let (_, text) = said(&toolbox(&client), "test__long", &json!({})).await;
    assert_eq!(text, "xxxxxxxxxx\n[90 more characters were cut]");
}
