//! Our own client, over all transports and in all revisions.

use std::collections::BTreeMap;

use tokio::net::TcpListener;

use super::*;
use crate::{McpClient, McpClientFeatures, McpHttpTarget, McpTarget, Pins, ProtocolRevisions, ServerConfig};
use shelly_core::tool::{ToolBox, ToolCx};
use shelly_net::{HttpClient, http_server::AccessPolicy};

struct Ada;

#[async_trait]
impl Elicitor for Ada {
    async fn elicit(&self, _: &ServerRequestOrigin, question: ElicitationRequest) -> Result<ElicitationResult, Fault> {
        assert_eq!(question.message, "name?");
        Ok(ElicitationResult::Accept(BTreeMap::from([("name".to_owned(), json!("Ada"))])))
    }
}

fn toolbox(client: &Arc<McpClient>) -> ToolBox {
    let mut tools = ToolBox::new();
    client.offer(&Pins::of(&client.listing())).tools.into_iter().for_each(|tool| tools.register(tool).unwrap());
    tools
}

async fn call(tools: &ToolBox, run: &RunCx, name: &str) -> ToolResult {
    let cx = ToolCx::new(run.clone());
    let call = ToolCall { id: "c1".into(), name: format!("own__{name}"), arguments: r#"{"a":1}"#.into(), meta: vec![] };
    tools.dispatch(&cx, &call).await.result
}

/// Uses all features of the server with one client.
async fn goes_through(bench: Bench, config: ServerConfig) {
    let asking = McpClientFeatures { elicitor: Some(Arc::new(Ada)), ..McpClientFeatures::default() };
    let client = McpClient::connect(config, asking).await.unwrap();
    let (tools, run) = (toolbox(&client), RunCx::new("bob"));
    assert_eq!(tools.len(), TOOLS.len());
    assert!(tools.iter().all(|tool| tool.spec().hints.read_only));
    let echoed = call(&tools, &run, "echo").await;
    assert_eq!((echoed.text(), echoed.is_error), (r#"{"a":1}"#.to_owned(), false));
    let failed = call(&tools, &run, "fail").await;
    assert_eq!((failed.text(), failed.is_error), ("it went wrong".to_owned(), true));
    let shown = call(&tools, &run, "image").await;
    assert!(
        matches!(&shown.content[1], chat::ToolResultContent::Media(media) if media.media_type == "image/png" && media.bytes() == 4)
    );
    assert_eq!(call(&tools, &run, "ask").await.text(), "\"Ada\"");

    let (sink, mut stream) = EventSink::channel();
    assert_eq!(call(&tools, &run.clone().with_events(sink), "report").await.text(), "done");
    let mut last = None;
    while let Some(event) = stream.next_event().await {
        if let Event::ToolProgress { done, total, .. } = event {
            last = Some((done, total));
        }
    }
    assert_eq!(last, Some((2.0, Some(2.0))));

    {
        let mut hangs = Box::pin(call(&tools, &run, "hang"));
        tokio::select! {
            _ = &mut hangs => panic!("it hangs"),
            () = until(|| bench.hands.now.load(Ordering::SeqCst) == 1) => {}
        }
    }
    until(|| bench.hands.dropped.load(Ordering::SeqCst) == 1).await;

    let mut changes = client.changes();
    changes.mark_unchanged();
    bench.shelf.send_replace(shelf(&["echo", "new"]));
    changes.changed().await.unwrap();
    let tools = toolbox(&client);
    assert!(tools.contains("own__new") && !tools.contains("own__fail"));
    assert_eq!(call(&tools, &run, "new").await.text(), "so");
    client.close().await;
}

#[tokio::test]
async fn our_own_client_is_served_over_pipes() {
    for revisions in [ProtocolRevisions::Any, ProtocolRevisions::Handshake, ProtocolRevisions::Stateless] {
        let bench = Bench::new();
        let (server, stop) = (bench.server.clone(), bench.stop.clone());
        let dial =
            Arc::new(move || -> futures_util::future::BoxFuture<'static, std::io::Result<crate::McpPipePair>> {
                let (here, there) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
                let ((read, write), (server, stop)) = (tokio::io::split(here), (server.clone(), stop.clone()));
                tokio::spawn(async move { server.pipes(read, write, stop).await });
                let (read, write) = tokio::io::split(there);
                Box::pin(async { Ok((Box::new(read) as _, Box::new(write) as _)) })
            });
        let config = ServerConfig { revisions, ..ServerConfig::new("own", McpTarget::Pipes(dial)) };
        goes_through(bench, config).await;
    }
}

#[tokio::test]
async fn our_own_client_is_served_over_http() {
    for revisions in [ProtocolRevisions::Any, ProtocolRevisions::Handshake, ProtocolRevisions::Stateless] {
        let bench = Bench::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
        let (server, stop) = (bench.server.clone(), bench.stop.clone());
        let served = tokio::spawn(async move { server.http(listener, AccessPolicy::default(), stop).await });
        let (client, headers) = (HttpClient::new().unwrap(), Vec::new());
        let target = McpTarget::Http(McpHttpTarget { client, url, auth: None, oauth: None, headers });
        let (stop, config) = (bench.stop.clone(), ServerConfig { revisions, ..ServerConfig::new("own", target) });
        goes_through(bench, config).await;
        stop.cancel();
        served.await.unwrap().unwrap();
    }
}
