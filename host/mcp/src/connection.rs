//! One connection to a server, from the handshake to its end.

use std::{process::ExitStatus, sync::Arc};

use futures_util::future::BoxFuture;
use rmcp::{
    Peer, RoleClient,
    model::ProtocolVersion,
    service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService},
    transport::Transport,
};
use tokio::{sync::watch, time::timeout};

use super::{
    McpError, McpRoot, McpTarget, ProtocolRevisions, ServerConfig,
    connection_monitor::DisconnectReason,
    error_text::shown,
    filtered_transport::{ConnectionTraffic, FilteredTransport},
    http,
    line_transport::LineTransport,
    request_broker::{McpClientHandler, ServerRequestBroker},
    server_process::ServerProcess,
};
use shelly_core::limits;

/// An established connection.
pub(super) struct McpConnection {
    server: Arc<str>,
    service: RunningService<RoleClient, McpClientHandler>,
    child: Option<ServerProcess>,
    pub traffic: Arc<ConnectionTraffic>,
    /// The roots; seen as unchanged since the server could first ask for them.
    pub roots: Option<watch::Receiver<Arc<[McpRoot]>>>,
}

impl McpConnection {
    /// Starts the server's program, if it has one, and shakes hands.
    pub async fn open(config: &ServerConfig, broker: &Arc<ServerRequestBroker>) -> Result<Self, McpError> {
        let first = match config.revisions {
            ProtocolRevisions::Any => {
                ClientLifecycleMode::Auto { preferred_versions: stateless(), legacy_version: None }
            }
            ProtocolRevisions::Handshake => ClientLifecycleMode::Initialize,
            ProtocolRevisions::Stateless => ClientLifecycleMode::Discover { preferred_versions: stateless() },
        };
        let (failed, may_be_older) = match Self::attempt(config, broker, first).await {
            Ok(link) => return Ok(link),
            Err(failed) => failed,
        };
        if config.revisions == ProtocolRevisions::Any && may_be_older && failed.is_transient() {
            return Self::attempt(config, broker, ClientLifecycleMode::Initialize).await.map_err(|(error, _)| error);
        }
        Err(failed)
    }

    /// Tries one lifecycle mode. On failure also returns `true` if the cause may be that the server does not know the
    /// discovery request of the newest revision.
    async fn attempt(
        config: &ServerConfig,
        broker: &Arc<ServerRequestBroker>,
        mode: ClientLifecycleMode,
    ) -> Result<Self, (McpError, bool)> {
        let traffic = ConnectionTraffic::new(Arc::clone(&config.name));
        let whole = |error| (error, false);
        match &config.target {
            McpTarget::Program(program) => {
                let (read, write, child) = ServerProcess::start(&config.name, program).map_err(whole)?;
                let lines = LineTransport::new(read, write, Arc::clone(&traffic.patience));
                Self::shake_hands(config, broker, mode, lines, traffic, Some(child)).await
            }
            McpTarget::Http(http) => {
                let transport = http::transport(&config.name, http);
                Self::shake_hands(config, broker, mode, transport, traffic, None).await
            }
            McpTarget::Pipes(dial) => {
                let (server, stderr) = (Arc::clone(&config.name), Vec::new());
                let dialled = dial().await;
                let (read, write) =
                    dialled.map_err(|error| whole(McpError::Connect { server, why: error.to_string(), stderr }))?;
                let lines = LineTransport::new(read, write, Arc::clone(&traffic.patience));
                Self::shake_hands(config, broker, mode, lines, traffic, None).await
            }
        }
    }

    async fn shake_hands(
        config: &ServerConfig,
        broker: &Arc<ServerRequestBroker>,
        mode: ClientLifecycleMode,
        transport: impl Transport<RoleClient> + 'static,
        traffic: Arc<ConnectionTraffic>,
        child: Option<ServerProcess>,
    ) -> Result<Self, (McpError, bool)> {
        let mut roots = broker.asking().roots.clone();
        roots.iter_mut().for_each(watch::Receiver::mark_unchanged);
        let handler = McpClientHandler { broker: Arc::clone(broker), traffic: Arc::clone(&traffic) };
        // Boxed, so that the compiler sees that the future is `Send`.
        let served: BoxFuture<'static, _> =
            Box::pin(handler.serve_with_lifecycle(FilteredTransport::new(transport, Arc::clone(&traffic)), mode));
        let (why, is_odd) = match timeout(config.connect_time, served).await {
            Ok(Ok(service)) => {
                traffic.begin();
                return Ok(Self { server: Arc::clone(&config.name), service, child, traffic, roots });
            }
            Ok(Err(error)) if error.is_authorization_required() => {
                let (server, why) = (Arc::clone(&config.name), error.auth_challenge().unwrap_or_default().to_owned());
                return Err((McpError::Denied { server, why }, false));
            }
            Ok(Err(error)) => {
                let why = traffic.patience.ended().map_or_else(|| why_not(&error), |ended| ended.to_string());
                (why, matches!(error, ClientInitializeError::ExpectedInitResult(_)))
            }
            Err(_) => (format!("no handshake within {:?}", config.connect_time), false),
        };
        // Some servers of earlier revisions end on an unknown request; others give the same answer to every request.
        let may_be_older = is_odd || traffic.patience.ended() == Some(DisconnectReason::Closed);
        traffic.patience.give_up(DisconnectReason::Closed);
        let (status, stderr) = match child {
            Some(child) => child.stop().await,
            None => (None, Vec::new()),
        };
        let (server, why) = (Arc::clone(&config.name), with_status(&why, status));
        Err((McpError::Connect { server, why, stderr }, may_be_older))
    }

    pub fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Returns `true` if the server sends tool list changes only to subscribers.
    pub fn must_listen(&self) -> bool {
        let info = self.service.peer_info();
        info.is_some_and(|info| {
            !info.protocol_version.has_initialize()
                && info.capabilities.tools.as_ref().is_some_and(|tools| tools.list_changed == Some(true))
        })
    }

    /// Releases a connection that has ended; returns the reason as an error.
    pub async fn finish(self, ended: DisconnectReason) -> McpError {
        drop(self.service);
        let (status, stderr) = match self.child {
            Some(child) => child.stop().await,
            None => (None, Vec::new()),
        };
        McpError::Connect { server: self.server, why: with_status(&ended.to_string(), status), stderr }
    }

    /// Closes the connection gracefully.
    pub async fn close(mut self) {
        // `rmcp` waits for requests in progress, and then closes the pipe.
        let _ = self.service.close_with_timeout(limits::MCP_CLOSE_TIME).await;
        if let Some(mut child) = self.child {
            child.wind_down().await;
        }
    }
}

fn stateless() -> Vec<ProtocolVersion> {
    vec![ProtocolVersion::V_2026_07_28]
}

fn with_status(why: &str, status: Option<ExitStatus>) -> String {
    status.map_or_else(|| why.to_owned(), |status| format!("its program exited ({status})"))
}

fn why_not(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => format!("the server reports: {}", shown(&error.message)),
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => why_not(fallback),
        ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. } => {
            let known: Vec<_> = server_supported.iter().take(limits::META_PAIRS).map(ProtocolVersion::as_str).collect();
            format!("the server supports no known revision of the protocol, only: {}", shown(&known.join(", ")))
        }
        ClientInitializeError::TransportError { error, .. } => shown(&error.error.to_string()),
        ClientInitializeError::ExpectedInitResponse(_) | ClientInitializeError::ExpectedInitResult(_) => {
            "the answer does not match the request".into()
        }
        other => shown(&other.to_string()),
    }
}
