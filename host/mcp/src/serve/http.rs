//! Streamable HTTP at one path, with sessions for the revisions that have them and without for the others.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request, StatusCode};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    handler::McpServerHandler,
    server::McpServer,
    sessions::{HttpSessions, PEER},
};
use crate::transport_role::read_request;
use shelly_core::limits;
use shelly_net::http_server::{
    AccessPolicy, CrossOriginRules, HttpServer, HttpService, RouteAccess, ServedRequest, ServedResponse, json_response,
    text_response,
};

/// The path of the endpoint.
pub const PATH: &str = "/mcp";

/// The endpoint for MCP clients, as a service of an HTTP server.
pub struct McpHttpService(StreamableHttpService<McpServerHandler, HttpSessions>);

impl McpServer {
    /// Serves clients that connect, until `stop` is cancelled. Then their calls are cancelled.
    ///
    /// # Errors
    ///
    /// A message if the [`AccessPolicy`] is not safe or not valid for the listener's address.
    pub async fn http(
        &self,
        listener: TcpListener,
        policy: AccessPolicy,
        stop: CancellationToken,
    ) -> Result<(), String> {
        let service = Arc::new(self.http_service(&stop));
        HttpServer::new(policy, service).serve(listener, stop, Duration::ZERO).await
    }

    /// Returns the endpoint for an HTTP server. Its calls are cancelled when `stop` is.
    pub fn http_service(&self, stop: &CancellationToken) -> McpHttpService {
        let mut config = StreamableHttpServerConfig::default();
        // The policy checks both, before anything is read.
        config.allowed_hosts.clear();
        config.allowed_origins.clear();
        config.sse_keep_alive = Some(limits::SERVE_KEEP_ALIVE);
        config.sse_retry = Some(limits::MCP_SERVE_RETRY);
        config.max_request_body_bytes = limits::MCP_SERVE_BODY_BYTES;
        config.cancellation_token = stop.child_token();
        let (server, gone) = (Arc::clone(&self.0), stop.clone());
        let handler = move || Ok(McpServerHandler::new(Arc::clone(&server), gone.child_token()));
        McpHttpService(StreamableHttpService::new(handler, Arc::new(HttpSessions::new()), config))
    }
}

impl McpHttpService {
    async fn answer(&self, mut request: ServedRequest) -> ServedResponse {
        if request.path() != PATH {
            return text_response(StatusCode::NOT_FOUND, format!("not found; use the path {PATH}"));
        }
        let method = request.method().clone();
        let body = match method {
            Method::POST => {
                // The whole body is read first, so that it can be checked.
                let body = match request.read_body(limits::MCP_SERVE_BODY_BYTES).await {
                    Ok(body) => body,
                    Err(error) => return text_response(error.status(), error.to_string()),
                };
                if let Err(answer) = read_request(&body) {
                    let json = serde_json::to_string(&answer).unwrap_or_default();
                    return json_response(StatusCode::BAD_REQUEST, json);
                }
                body
            }
            Method::GET => {
                request.listen();
                Bytes::new()
            }
            _ => Bytes::new(),
        };
        let peer = request.peer();
        let request = Request::from_parts(request.into_parts(), Full::new(body));
        PEER.scope(peer, self.0.handle(request)).await.map(BodyExt::boxed_unsync)
    }
}

impl HttpService for McpHttpService {
    fn access(&self, _: &Method, path: &str) -> RouteAccess {
        if path == PATH { RouteAccess::Token } else { RouteAccess::Public }
    }

    fn handle(&self, request: ServedRequest) -> BoxFuture<'_, ServedResponse> {
        self.answer(request).boxed()
    }

    fn cross_origin(&self) -> CrossOriginRules {
        CrossOriginRules {
            methods: "GET, POST, DELETE",
            request_headers: "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, \
                              mcp-method, mcp-name",
            exposed_headers: "mcp-session-id, www-authenticate",
        }
    }
}
