//! The least MCP server that the protocol's library makes: one tool, which says its text again. Benchmarks measure by it.
//!
//! `shelly-mcp-echo` speaks over standard input and output; `shelly-mcp-echo http` prints its URL and speaks over Streamable
//! HTTP.

use std::{error::Error, sync::Arc};

use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
        ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use serde_json::{Map, json};
use tokio::net::TcpListener;

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), json!({"text": {"type": "string"}})),
            ("required".to_owned(), json!(["text"])),
        ]);
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Says the text again.", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text")?.as_str());
        let text = text.ok_or_else(|| ErrorData::invalid_params("there is no text", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("http") => http().await,
        _ => {
            let serving = Echo.serve((tokio::io::stdin(), tokio::io::stdout())).await?;
            serving.waiting().await?;
            Ok(())
        }
    }
}

async fn http() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Echo), sessions, StreamableHttpServerConfig::default());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
            // How it ends is its client's own business.
            let _ = connection.await;
        });
    }
}
