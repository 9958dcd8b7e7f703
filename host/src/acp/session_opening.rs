//! New conversations, and those that go on in an existing session.

use std::{path::PathBuf, sync::Arc};

use serde_json::{Map, Value, json};

use super::{
    client_servers::{AdmittedServers, admit_servers},
    conversation::{Conversation, ConversationSetup, EditorFeatures},
    conversation_worker::ConversationRecord,
    history::history_updates,
    options::{OpenedProject, ProjectRequest},
    protocol::EditorMcpServer,
    rpc::RpcError,
    server::{EditorState, MethodResult, absolute},
};
use crate::{
    agent::journal::JournalState,
    chat::Chat,
    error::Report,
    session::{JournalLineContent, SessionError, SessionStore},
};

/// An existing session.
struct LoadedSession {
    chat: Chat,
    /// The agent or team with which it was begun.
    agent: String,
    /// `true` if the operator has consented to it although somebody else may have made it.
    is_trusted: bool,
}

impl EditorState {
    /// Begins a conversation. Nothing is written before its first prompt.
    pub(super) async fn begin(
        &self,
        features: EditorFeatures,
        cwd: PathBuf,
        servers: Vec<EditorMcpServer>,
    ) -> Result<MethodResult, RpcError> {
        self.check_room_for("")?;
        let (opened, notes) = self.open(cwd, servers).await?;
        let id = opened.app.sessions().new_name().map_err(|error| RpcError::of_report(&error.report()))?;
        let record = match self.options.record && opened.app.config.sessions.is_recording() {
            true => ConversationRecord::New,
            false => ConversationRecord::Nowhere(Chat::new()),
        };
        let agent = self.options.agent.clone();
        let conversation = self.start(id.clone(), opened, notes, (agent, record, features))?;
        let value = with_modes(&conversation, json!({"sessionId": id}));
        Ok(MethodResult { value, opened: Some(conversation) })
    }

    /// Goes on with a conversation. With `replays` its messages are shown again before the answer.
    pub(super) async fn load(
        &self,
        features: EditorFeatures,
        id: String,
        (cwd, servers): (PathBuf, Vec<EditorMcpServer>),
        replays: bool,
    ) -> Result<MethodResult, RpcError> {
        self.check_room_for(&id)?;
        let (opened, notes) = self.open(cwd, servers).await?;
        let (store, given, trusts) = (opened.app.sessions(), id.clone(), self.options.trusts_sessions);
        let loaded = self.blocking(move || read_session(&store, &given, trusts)).await?;
        let LoadedSession { chat, agent, is_trusted } = loaded;
        let is_known = opened.app.config.runners().any(|runner| runner.name() == agent);
        let agent = self.options.agent.clone().or(is_known.then_some(agent));
        if replays {
            for update in history_updates(&chat, &opened.app.secrets()) {
                self.connection.update(&id, update).await;
            }
        }
        let record = ConversationRecord::Existing { is_trusted };
        let conversation = self.start(id, opened, notes, (agent, record, features))?;
        let value = with_modes(&conversation, json!({}));
        Ok(MethodResult { value, opened: Some(conversation) })
    }

    /// Opens the project of a folder.
    async fn open(
        &self,
        cwd: PathBuf,
        servers: Vec<EditorMcpServer>,
    ) -> Result<(OpenedProject, Vec<String>), RpcError> {
        absolute(&cwd)?;
        let AdmittedServers { servers, refused } = admit_servers(servers, &self.options.allowed_servers);
        let options = Arc::clone(&self.options);
        let opened = self.blocking(move || {
            let request = ProjectRequest { folder: cwd, servers };
            (options.open)(request).map_err(|report| RpcError::of_report(&report))
        });
        let opened = opened.await?;
        // The operator has chosen one agent for the projects of all conversations.
        if let Some(agent) = &self.options.agent {
            opened.app.config.check_runner(agent).map_err(|report| RpcError::of_report(&report))?;
        }
        Ok((opened, refused))
    }

    fn start(
        &self,
        id: String,
        opened: OpenedProject,
        notes: Vec<String>,
        (agent, record, features): (Option<String>, ConversationRecord, EditorFeatures),
    ) -> Result<Arc<Conversation>, RpcError> {
        let (options, connection) = (Arc::clone(&self.options), self.connection.clone());
        let name = id.clone();
        self.add(&name, move || {
            Conversation::start(ConversationSetup { id, opened, notes, agent, record, options, connection, features })
        })
    }
}

/// Returns an answer with the modes of a conversation, if it has any.
fn with_modes(conversation: &Conversation, answer: Value) -> Value {
    let modes = conversation.modes();
    let mut members = match answer {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    if !modes.is_null() {
        members.insert("modes".into(), modes);
    }
    Value::Object(members)
}

/// Reads a session by its whole name.
fn read_session(store: &SessionStore, id: &str, trusts_sessions: bool) -> Result<LoadedSession, RpcError> {
    let refuse = |report: &Report| RpcError { code: RpcError::RESOURCE_NOT_FOUND, ..RpcError::of_report(report) };
    let unusable = |error: SessionError| refuse(&error.report());
    let found = store.resolve(id).map_err(unusable)?;
    if found != id {
        return Err(unusable(SessionError::NotFound { given: id.to_owned() }));
    }
    let authorship = store.review(id).map_err(unusable)?.authorship();
    if !authorship.is_own() && !trusts_sessions {
        let report = SessionError::NotOwn { id: id.to_owned(), has_key: store.has_key(), authorship }.report();
        return Err(RpcError::of_report(&report));
    }
    let journal = store.read(id).map_err(unusable)?;
    let agent = journal.header().agent.clone();
    let mut records = Vec::new();
    for line in journal {
        let line = line.map_err(unusable)?;
        if let JournalLineContent::Record(record) = line.what {
            records.push((line.run, record));
        }
    }
    let damaged =
        |why: String| RpcError::new(RpcError::INTERNAL, format!("the session `{id}` cannot be resumed: {why}"));
    let past = JournalState::of(records).map_err(|error| damaged(error.to_string()))?;
    let chat = past.chat().map_err(|error| damaged(error.to_string()))?;
    Ok(LoadedSession { chat, agent, is_trusted: !authorship.is_own() })
}
