//! Serves one editor: reads its messages, and keeps its conversations.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, future::join_all};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    conversation::{Conversation, EditorFeatures},
    conversation_worker::{CANCELLED, stopped},
    editor_connection::EditorConnection,
    open_requests::OpenRequests,
    options::AcpOptions,
    protocol::{
        ContentBlock, InitializeParams, ListSessionsParams, LoadSessionParams, NewSessionParams, PROTOCOL_VERSION,
        PromptParams, SessionIdParams, SetModeParams, params,
    },
    rpc::{IncomingMessage, RpcError, RpcId},
    session_list::session_list,
};
use crate::{
    app::App,
    config::unknown,
    error::{ErrorKind, Report, cut},
    event::{Event, EventSink},
    limits,
    line_reader::{LineBounds, LineReadResult, LineReader},
};

/// Serves editors that speak the Agent Client Protocol.
pub struct AcpServer {
    options: Arc<AcpOptions>,
}

/// The bounds of the lines of an editor.
const LINES: LineBounds = LineBounds {
    line_bytes: limits::ACP_LINE_BYTES,
    skipped_bytes: limits::ACP_SKIPPED_BYTES,
    beginning_bytes: limits::ACP_ID_BYTES,
    end_bytes: 0,
};

/// The state of the connection to one editor.
pub(super) struct EditorState {
    pub options: Arc<AcpOptions>,
    pub connection: EditorConnection,
    /// `None` before the handshake.
    features: Mutex<Option<EditorFeatures>>,
    conversations: Mutex<HashMap<String, Arc<Conversation>>>,
    requests: OpenRequests,
    /// Held by work that reads files: that of a cancelled request goes on.
    reading: Arc<Semaphore>,
}

/// The reason for which nothing more is read from an editor.
enum ConnectionEnd {
    /// The editor has hung up in an orderly way.
    HungUp,
    /// The host was told to stop, or the editor takes no more lines.
    Stopped,
    /// The editor sends what none should.
    GivenUp(Report),
}

/// The answer to a request.
pub(super) struct MethodResult {
    pub value: Value,
    /// The conversation that begins with this answer.
    pub opened: Option<Arc<Conversation>>,
}

impl From<Value> for MethodResult {
    fn from(value: Value) -> Self {
        Self { value, opened: None }
    }
}

impl AcpServer {
    /// Returns a server with these options.
    pub fn new(options: AcpOptions) -> Self {
        Self { options: Arc::new(options) }
    }

    /// Serves the editor behind two pipes until it hangs up, or `stop` is cancelled. Its runs then end within
    /// [`limits::ACP_CLOSE_TIME`]; those that do not are dropped, and their sessions can be resumed.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the editor was given up, since it sent a line without an end or nothing but garbage.
    pub async fn serve<R, W>(&self, read: R, write: W, stop: CancellationToken) -> Result<(), Report>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (connection, writer) = EditorConnection::new(write);
        let state = Arc::new(EditorState {
            options: Arc::clone(&self.options),
            connection,
            features: Mutex::default(),
            conversations: Mutex::default(),
            requests: OpenRequests::default(),
            reading: Arc::new(Semaphore::new(limits::ACP_REQUESTS)),
        });
        let mut work = JoinSet::new();
        let end = listen(&state, LineReader::new(read, LINES), &stop, &mut work).await;
        // Who has hung up may still read the answers; who was told to stop is not waited for.
        let time = if matches!(end, ConnectionEnd::HungUp) { limits::ACP_CLOSE_TIME } else { Duration::ZERO };
        let conversations: Vec<_> = state.conversations().drain().map(|(_, conversation)| conversation).collect();
        let mut finished = Box::pin(async {
            while work.join_next().await.is_some() {}
            join_all(conversations.iter().map(|conversation| conversation.finish())).await;
        });
        if timeout(time, finished.as_mut()).await.is_err() {
            conversations.iter().for_each(|conversation| conversation.note_end());
        }
        // What still runs is dropped here, as in a crash.
        drop(finished);
        work.shutdown().await;
        let apps: Vec<_> = conversations.iter().map(|conversation| Arc::clone(&conversation.app)).collect();
        drop(conversations);
        join_all(apps.iter().map(|app| close_app(app, &self.options.events))).await;
        // The writer ends after the last line, once nobody has the connection: an app has it for the files of the editor.
        drop((state, apps));
        let _ = timeout(limits::CANCEL_GRACE, writer).await;
        match end {
            ConnectionEnd::HungUp | ConnectionEnd::Stopped => Ok(()),
            ConnectionEnd::GivenUp(report) => Err(report),
        }
    }
}

/// Reads messages until there are no more.
async fn listen<R: AsyncRead + Unpin>(
    state: &Arc<EditorState>,
    mut lines: LineReader<R>,
    stop: &CancellationToken,
    work: &mut JoinSet<()>,
) -> ConnectionEnd {
    let mut garbage = 0;
    loop {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => return ConnectionEnd::Stopped,
            () = state.connection.lost() => return ConnectionEnd::Stopped,
            Some(_) = work.join_next(), if !work.is_empty() => continue,
            line = lines.next() => line,
        };
        let message = match line {
            LineReadResult::Whole(line) => IncomingMessage::parse(&line),
            LineReadResult::TooLong { beginning, .. } => {
                let message = format!("the line has more than {} bytes", limits::ACP_LINE_BYTES);
                let refused = RpcError::new(RpcError::INVALID_REQUEST, message);
                IncomingMessage::of_beginning(&beginning, refused).map_err(|(id, error)| match id {
                    RpcId::Unknown => (id, RpcError { code: RpcError::PARSE, ..error }),
                    known => (known, error),
                })
            }
            LineReadResult::Endless => {
                let message =
                    format!("the editor sent more than {} bytes without a message", limits::ACP_SKIPPED_BYTES);
                let error = RpcError::new(RpcError::PARSE, message.clone());
                state.connection.respond(&RpcId::Unknown, Err(error)).await;
                return ConnectionEnd::GivenUp(given_up(message));
            }
            LineReadResult::End => return ConnectionEnd::HungUp,
        };
        match message {
            Ok(message) => {
                garbage = 0;
                handle(state, message, work).await;
            }
            Err((id, error)) => {
                state.connection.respond(&id, Err(error)).await;
                garbage += 1;
                if garbage > limits::ACP_GARBAGE_LINES {
                    return ConnectionEnd::GivenUp(given_up(format!(
                        "the editor sent {garbage} lines that are no messages"
                    )));
                }
            }
        }
    }
}

async fn handle(state: &Arc<EditorState>, message: IncomingMessage, work: &mut JoinSet<()>) {
    match message {
        IncomingMessage::Response { id, outcome } => state.connection.take_answer(&id, outcome),
        // A notification has no answer, not even an error.
        IncomingMessage::Notification { method, params: given } => match &*method {
            "session/cancel" => {
                if let Ok(SessionIdParams { session_id }) = params(given)
                    && let Ok(conversation) = state.conversation(&session_id)
                {
                    conversation.cancel();
                }
            }
            "$/cancel_request" => {
                let Some(id) = given.get("requestId").and_then(RpcId::read) else { return };
                for _ in 0..state.requests.cancel(&id) {
                    state.connection.respond(&id, Ok(stopped(CANCELLED))).await;
                }
            }
            _ => {}
        },
        IncomingMessage::Request { id, method, params: given } if method == "session/prompt" => {
            // The prompts of a conversation keep their order, and are answered by its worker.
            let queued = state.check_greeted().and_then(|()| {
                let PromptParams { session_id, prompt } = params(given)?;
                let conversation = state.conversation(&session_id)?;
                let bytes: usize = prompt.iter().map(ContentBlock::bytes).sum();
                let request = state.requests.begin_prompt(id.clone(), bytes, &conversation.token())?;
                conversation.prompt(request, prompt)
            });
            if let Err(error) = queued {
                state.connection.respond(&id, Err(error)).await;
            }
        }
        IncomingMessage::Request { id, method, params: given } => {
            if work.len() >= limits::ACP_REQUESTS {
                let message = format!("{} requests are worked on already", limits::ACP_REQUESTS);
                let error = RpcError::new(RpcError::INVALID_REQUEST, message);
                return state.connection.respond(&id, Err(error)).await;
            }
            let (state, request) = (Arc::clone(state), state.requests.begin(id));
            work.spawn(async move {
                let answered = tokio::select! {
                    biased;
                    // A request without an answer would keep the editor waiting.
                    answered = AssertUnwindSafe(state.answer(&method, given)).catch_unwind() => {
                        answered.unwrap_or_else(|_| Err(RpcError::bug()))
                    }
                    () = request.cancel.cancelled(), if is_cancellable(&method) => Err(RpcError::cancelled()),
                };
                let (outcome, opened) = match answered {
                    Ok(MethodResult { value, opened }) => (Ok(value), opened),
                    Err(error) => (Err(error), None),
                };
                state.connection.respond(&request.id, outcome).await;
                opened.iter().for_each(|conversation| conversation.announce());
            });
        }
    }
}

/// Returns `true` for a request that leaves nothing half done if it is given up on its way.
fn is_cancellable(method: &str) -> bool {
    matches!(method, "session/new" | "session/load" | "session/resume" | "session/list")
}

/// Returns the failure of a connection whose editor sends what no editor should.
fn given_up(message: String) -> Report {
    let hint = "start shelly-host acp from an editor that speaks the Agent Client Protocol, one message a line";
    Report::new(ErrorKind::Run, message).hint(hint)
}

impl EditorState {
    async fn answer(&self, method: &str, given: Value) -> Result<MethodResult, RpcError> {
        match method {
            "initialize" => return Ok(self.initialize(&params(given)?).into()),
            "authenticate" => {
                let what = "there is nothing to log in to: the models of the config have keys of their own";
                return Err(RpcError::new(RpcError::INVALID_REQUEST, what));
            }
            _ => {}
        }
        let features = self.check_greeted().map(|()| self.features());
        match method {
            "session/new" => {
                let features = features?;
                let NewSessionParams { cwd, mcp_servers } = params(given)?;
                self.begin(features, cwd, mcp_servers).await
            }
            "session/load" | "session/resume" => {
                let features = features?;
                let LoadSessionParams { session_id, cwd, mcp_servers } = params(given)?;
                self.load(features, session_id, (cwd, mcp_servers), method == "session/load").await
            }
            "session/list" => {
                features?;
                self.list(params(given)?).await.map(MethodResult::from)
            }
            "session/close" => {
                features?;
                let SessionIdParams { session_id } = params(given)?;
                self.close(&session_id).await.map(MethodResult::from)
            }
            "session/set_mode" => {
                features?;
                let SetModeParams { session_id, mode_id } = params(given)?;
                self.set_mode(&session_id, &mode_id).await.map(MethodResult::from)
            }
            _ => {
                let method = cut(method, limits::NAME_SHOWN_CHARS);
                Err(RpcError::new(RpcError::METHOD_NOT_FOUND, format!("there is no method `{method}`")))
            }
        }
    }

    fn initialize(&self, given: &InitializeParams) -> Value {
        let capabilities = &given.client_capabilities;
        let features = EditorFeatures {
            has_notices: capabilities.has_notices(),
            has_forms: capabilities.has_forms(),
            reads_files: capabilities.reads_files(),
            writes_files: capabilities.writes_files(),
        };
        *self.features.lock().unwrap_or_else(PoisonError::into_inner) = Some(features);
        let servers = !self.options.allowed_servers.is_empty();
        let sessions = json!({"list": {}, "resume": {}, "close": {}});
        json!({
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "shelly-host", "title": "shelly-host", "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "audio": false, "embeddedContext": true},
                "mcpCapabilities": {"http": servers, "sse": false},
                "sessionCapabilities": sessions,
            },
        })
    }

    async fn list(&self, given: ListSessionsParams) -> Result<Value, RpcError> {
        let folder = match given.cwd {
            Some(cwd) => absolute(&cwd)?.to_owned(),
            None => self.options.folder.clone(),
        };
        let options = Arc::clone(&self.options);
        self.blocking(move || {
            let store = (options.sessions)(&folder).map_err(|report| RpcError::of_report(&report))?;
            session_list(&store, &folder, given.cursor.as_deref())
        })
        .await
    }

    async fn close(&self, session: &str) -> Result<Value, RpcError> {
        let conversation = self.conversation(session)?;
        conversation.cancel();
        // Its prompts are answered before it is gone: the running one once its run and the events of that have had their
        // time, the others at once.
        let _ = timeout(limits::CANCEL_GRACE * 3, conversation.finish()).await;
        self.conversations().remove(session);
        close_app(&conversation.app, &self.options.events).await;
        Ok(json!({}))
    }

    async fn set_mode(&self, session: &str, mode: &str) -> Result<Value, RpcError> {
        let conversation = self.conversation(session)?;
        let names = || conversation.app.config.runners().map(|runner| runner.name());
        if !names().any(|name| name == mode) {
            let mode = cut(mode, limits::NAME_SHOWN_CHARS);
            return Err(RpcError::invalid_params(unknown("agent", &mode, names()).with_hint()));
        }
        conversation.set_agent(mode);
        let update = json!({"sessionUpdate": "current_mode_update", "currentModeId": mode});
        self.connection.update(session, update).await;
        Ok(json!({}))
    }

    /// Adds a conversation.
    ///
    /// # Errors
    ///
    /// Those of [`Self::check_room_for`].
    pub(super) fn add(&self, id: &str, start: impl FnOnce() -> Conversation) -> Result<Arc<Conversation>, RpcError> {
        let mut conversations = self.conversations();
        check_room(&conversations, id)?;
        let conversation = Arc::new(start());
        conversations.insert(id.to_owned(), Arc::clone(&conversation));
        Ok(conversation)
    }

    /// Checks that there can be one more conversation, with this id.
    ///
    /// # Errors
    ///
    /// The error that answers a request for one more than there can be, or for one that is open.
    pub(super) fn check_room_for(&self, id: &str) -> Result<(), RpcError> {
        check_room(&self.conversations(), id)
    }

    /// Does work that reads files.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let permit = Arc::clone(&self.reading).acquire_owned().await.map_err(|_| RpcError::bug())?;
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| Err(RpcError::bug()))
    }

    /// Returns an open conversation.
    ///
    /// # Errors
    ///
    /// The error that answers a request about another one.
    fn conversation(&self, session: &str) -> Result<Arc<Conversation>, RpcError> {
        self.conversations().get(session).cloned().ok_or_else(|| {
            let session = cut(session, limits::NAME_SHOWN_CHARS);
            let what = format!("the session `{session}` is not open; open it with session/new or session/load");
            RpcError::new(RpcError::RESOURCE_NOT_FOUND, what)
        })
    }

    fn conversations(&self) -> MutexGuard<'_, HashMap<String, Arc<Conversation>>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn features(&self) -> EditorFeatures {
        self.features.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_default()
    }

    fn check_greeted(&self) -> Result<(), RpcError> {
        let is_greeted = self.features.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        match is_greeted {
            true => Ok(()),
            false => Err(RpcError::new(RpcError::INVALID_REQUEST, "the first request must be `initialize`")),
        }
    }
}

/// Ends what an app has begun outside of this process, before the app is gone.
async fn close_app(app: &App, events: &EventSink) {
    let flush = app.telemetry_flush();
    let ((), (), warning) = tokio::join!(app.settled(), app.close_servers(), flush.finish());
    if let Some(message) = warning {
        events.emit(Event::Warning { message }).await;
    }
}

fn check_room(conversations: &HashMap<String, Arc<Conversation>>, id: &str) -> Result<(), RpcError> {
    let refuse = |what: String| Err(RpcError::new(RpcError::INVALID_REQUEST, what));
    if conversations.contains_key(id) {
        return refuse(format!("the session `{id}` is open already"));
    }
    match conversations.len() < limits::ACP_SESSIONS {
        true => Ok(()),
        false => refuse(format!("{} sessions are open; close one of them first", limits::ACP_SESSIONS)),
    }
}

/// Checks that an editor names a folder as the protocol asks.
///
/// # Errors
///
/// The error that answers a request with another path.
pub(super) fn absolute(folder: &Path) -> Result<&Path, RpcError> {
    match folder.is_absolute() {
        true => Ok(folder),
        false => Err(RpcError::invalid_params("`cwd` is not an absolute path")),
    }
}

#[cfg(test)]
mod tests;
