//! The HTTP sessions of clients, in memory, and the choice of the one to end when there are too many.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex as SyncMutex, MutexGuard, PoisonError},
};

use futures_util::{Stream, StreamExt};
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::{ServerSseMessage, SessionId},
        streamable_http_server::{
            SessionManager,
            session::local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use shelly_core::limits;

tokio::task_local! {
    /// The peer whose request is handled: `rmcp` does not hand it on.
    pub(super) static PEER: IpAddr;
}

/// HTTP sessions, at most [`limits::MCP_SERVE_HTTP_SESSIONS`]. A further one ends another that has no running request: of
/// the peer with the most sessions, one without a listener if there is one, and of those the least recently used. Its
/// client gets a 404 and begins a new session.
pub(super) struct HttpSessions {
    local: LocalSessionManager,
    /// Sessions are created one at a time, so that they can be counted.
    making: Mutex<()>,
    used: Arc<HttpSessionUses>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum HttpSessionsError {
    #[error("all {} sessions are in use; end one, or retry later", limits::MCP_SERVE_HTTP_SESSIONS)]
    TooMany,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

#[derive(Default)]
struct HttpSessionUses(SyncMutex<HashMap<SessionId, HttpSessionUse>>);

/// The current use of a session.
struct HttpSessionUse {
    peer: Option<IpAddr>,
    last: Instant,
    requests: usize,
    listeners: usize,
}

/// The kind of messages that a stream of a session carries.
#[derive(Clone, Copy)]
enum StreamKind {
    Request,
    Notifications,
}

impl HttpSessions {
    pub fn new() -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(limits::MCP_SERVE_IDLE_TIME);
        local.session_config.sse_retry = Some(limits::MCP_SERVE_RETRY);
        local.session_config.init_timeout = Some(limits::SERVE_REQUEST_TIME);
        local.session_config.completed_cache_ttl = limits::SERVE_REQUEST_TIME;
        Self { local, making: Mutex::new(()), used: Arc::default() }
    }

    /// Ends one session if the maximum is reached.
    async fn make_room(&self) -> Result<(), HttpSessionsError> {
        let there: Vec<_> = self.local.sessions.read().await.keys().cloned().collect();
        self.used.all().retain(|id, _| there.contains(id));
        if there.len() < limits::MCP_SERVE_HTTP_SESSIONS {
            return Ok(());
        }
        let ended = self.used.next_to_end().ok_or(HttpSessionsError::TooMany)?;
        tracing::debug!(session = %ended, "a session without a request is ended for a new one");
        // The session leaves the list at once; its work may take longer to end.
        let _ = timeout(limits::MCP_SERVE_CLOSE_TIME, self.local.close_session(&ended)).await;
        self.used.all().remove(&ended);
        Ok(())
    }

    /// Counts a stream of this session until the returned guard is dropped.
    fn open(&self, id: &SessionId, kind: StreamKind) -> OpenStream {
        OpenStream::new(&self.used, id, kind)
    }
}

impl HttpSessionUses {
    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, HttpSessionUse>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, id: &SessionId, change: impl FnOnce(&mut HttpSessionUse)) {
        if let Some(used) = self.all().get_mut(id) {
            used.last = Instant::now();
            change(used);
        }
    }

    fn next_to_end(&self) -> Option<SessionId> {
        let all = self.all();
        let mut of_peers = HashMap::<Option<IpAddr>, usize>::new();
        all.values().for_each(|used| *of_peers.entry(used.peer).or_default() += 1);
        let idle = all.iter().filter(|(_, used)| used.requests == 0);
        let first = idle.min_by_key(|(_, used)| (Reverse(of_peers[&used.peer]), used.listeners > 0, used.last));
        first.map(|(id, _)| id.clone())
    }
}

struct OpenStream {
    used: Arc<HttpSessionUses>,
    id: SessionId,
    kind: StreamKind,
}

impl OpenStream {
    fn new(used: &Arc<HttpSessionUses>, id: &SessionId, kind: StreamKind) -> Self {
        used.note(id, |used| *used.streams(kind) += 1);
        Self { used: Arc::clone(used), id: id.clone(), kind }
    }

    /// Does nothing, but makes a closure capture the guard.
    fn is_held(&self) {}
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.used.note(&self.id, |used| {
            let count = used.streams(self.kind);
            *count = count.saturating_sub(1);
        });
    }
}

impl HttpSessionUse {
    fn streams(&mut self, kind: StreamKind) -> &mut usize {
        match kind {
            StreamKind::Request => &mut self.requests,
            StreamKind::Notifications => &mut self.listeners,
        }
    }
}

impl SessionManager for HttpSessions {
    type Error = HttpSessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), HttpSessionsError> {
        let _one = self.making.lock().await;
        self.make_room().await?;
        let (id, transport) = self.local.create_session().await?;
        let peer = PEER.try_with(|peer| *peer).ok();
        let used = HttpSessionUse { peer, last: Instant::now(), requests: 0, listeners: 0 };
        self.used.all().insert(id.clone(), used);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, HttpSessionsError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, HttpSessionsError> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), HttpSessionsError> {
        self.used.all().remove(id);
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, HttpSessionsError> {
        // Counted before the request is handed on: from then on it runs.
        let open = self.open(id, StreamKind::Request);
        let stream = self.local.create_stream(id, message).await?;
        Ok(stream.inspect(move |_| open.is_held()))
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), HttpSessionsError> {
        self.used.note(id, |_| {});
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, HttpSessionsError> {
        let stream = self.local.create_standalone_stream(id).await?;
        let open = self.open(id, StreamKind::Notifications);
        Ok(stream.inspect(move |_| open.is_held()))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, HttpSessionsError> {
        let stream = self.local.resume(id, last_event_id).await?;
        let open = self.open(id, StreamKind::Notifications);
        Ok(stream.inspect(move |_| open.is_held()))
    }
}
