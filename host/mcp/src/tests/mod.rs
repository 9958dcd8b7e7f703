//! MCP clients against servers: a well-behaved one from `rmcp`, and hand-written ones that send anything.

mod asks;
mod calls;
mod hostile;
mod oauth;
mod oauth_wrong;
mod peer;
mod program;
mod prompts;
mod spans;
mod tools;
mod web;

use std::sync::Arc;

use peer::{Peer, Servers};
use rmcp::{ServerHandler, ServiceExt};
use serde_json::{Value, json};

use super::{
    McpClient, McpClientFeatures, McpError, McpPipeConnector, McpTarget, Pins, ProtocolRevisions, ServerConfig,
};
use shelly_core::{
    chat::{ToolCall, ToolResult},
    event::RunCx,
    limits,
    tool::{ToolBox, ToolCx},
};

/// Connects to servers of which each connection gets a new one.
async fn connect(servers: &Servers) -> Result<Arc<McpClient>, McpError> {
    McpClient::connect(config(servers), McpClientFeatures::default()).await
}

fn config(servers: &Servers) -> ServerConfig {
    ServerConfig::new("test", McpTarget::Pipes(servers.dial()))
}

/// Returns the config of a server built with `rmcp`, named `lib`.
fn library(server: impl ServerHandler + Clone, revisions: ProtocolRevisions) -> ServerConfig {
    let dial: McpPipeConnector = Arc::new(move || {
        let server = server.clone();
        Box::pin(async move {
            let (here, there) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
            tokio::spawn(async move {
                let _ = server.serve(there).await.unwrap().waiting().await;
            });
            let (read, write) = tokio::io::split(here);
            Ok((Box::new(read) as _, Box::new(write) as _))
        })
    });
    ServerConfig { revisions, ..ServerConfig::new("lib", McpTarget::Pipes(dial)) }
}

/// Returns a tool without arguments.
fn tool(name: &str) -> Value {
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": {"type": "object"}})
}

/// Returns all tools of the server, approved as they are.
fn toolbox(client: &Arc<McpClient>) -> ToolBox {
    let offer = client.offer(&Pins::of(&client.listing()));
    assert!(offer.blocked.is_empty());
    let mut tools = ToolBox::new();
    offer.tools.into_iter().for_each(|tool| tools.register(tool).unwrap());
    tools
}

/// Calls a tool as an agent does.
async fn call(tools: &ToolBox, cx: &RunCx, name: &str, arguments: &Value) -> ToolResult {
    let cx = ToolCx::new(cx.clone());
    let call = ToolCall { id: "c1".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    tools.dispatch(&cx, &call).await.result
}

/// Calls a tool. Returns `true` if it failed, and the text of the result.
async fn said(tools: &ToolBox, name: &str, arguments: &Value) -> (bool, String) {
    let result = call(tools, &RunCx::new("ada"), name, arguments).await;
    (result.is_error, result.text())
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Serves these tools; each call is answered with its arguments.
async fn echo(mut peer: Peer, tools: Vec<Value>) {
    peer.shake_hands().await;
    while let Some(request) = peer.next().await {
        match request["method"].as_str() {
            Some("tools/list") => peer.answer(&request, json!({"tools": tools})).await,
            Some("tools/call") => peer.answer(&request, text(&request["params"]["arguments"].to_string())).await,
            _ => {}
        }
    }
}
