//! One conversation of an editor: its prompts wait in a queue, and a task answers one after the other.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    calls_in_progress::CallsInProgress,
    conversation_controls::{ConversationControls, QueuedPrompt},
    conversation_worker::{ConversationRecord, ConversationWorker},
    editor_connection::EditorConnection,
    editor_files::EditorFiles,
    open_requests::OpenRequestHandle,
    options::{AcpOptions, OpenedProject},
    protocol::ContentBlock,
    questions::EditorQuestions,
    rpc::RpcError,
};
use crate::{app::App, change::EditorBuffers, limits};

/// An open conversation. Dropping it ends its runs as a crash would: its session can be resumed.
pub(super) struct Conversation {
    pub app: Arc<App>,
    /// `None` once the conversation takes no further prompt.
    prompts: Mutex<Option<mpsc::Sender<QueuedPrompt>>>,
    state: Arc<ConversationControls>,
    worker: Mutex<Option<AbortOnDropHandle<()>>>,
    _questions: Option<AbortOnDropHandle<()>>,
}

/// The abilities of an editor that decide how a conversation is shown, and where its files are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EditorFeatures {
    pub has_notices: bool,
    pub has_forms: bool,
    pub reads_files: bool,
    pub writes_files: bool,
}

/// Everything that a conversation begins with.
pub(super) struct ConversationSetup {
    /// The id of the conversation, which is the name of its session.
    pub id: String,
    pub opened: OpenedProject,
    /// Sentences that the person is shown first.
    pub notes: Vec<String>,
    pub agent: Option<String>,
    pub record: ConversationRecord,
    pub options: Arc<AcpOptions>,
    pub connection: EditorConnection,
    pub features: EditorFeatures,
}

impl Conversation {
    /// Starts the tasks of a conversation.
    pub fn start(setup: ConversationSetup) -> Self {
        let ConversationSetup { id, opened, notes, agent, record, options, connection, features } = setup;
        let OpenedProject { app, inbox, commands, launch, warnings } = opened;
        let files = features.reads_files.then(|| {
            let files = EditorFiles::new(connection.clone(), id.clone(), features.writes_files);
            Arc::new(files) as Arc<dyn EditorBuffers>
        });
        let (app, in_progress) = (Arc::new(app.with_editor(files)), CallsInProgress::default());
        let state = Arc::new(ConversationControls::new(agent));
        let questions = inbox.map(|inbox| {
            let (connection, in_progress) = (connection.clone(), in_progress.clone());
            let (session, app, has_forms) = (id.clone(), Arc::clone(&app), features.has_forms);
            let secrets = Box::new(move || app.secrets());
            let questions = EditorQuestions { connection, session, in_progress, secrets, has_forms };
            AbortOnDropHandle::new(tokio::spawn(questions.attend(inbox)))
        });
        let worker = ConversationWorker {
            id,
            app: Arc::clone(&app),
            options,
            connection,
            has_notices: features.has_notices,
            state: Arc::clone(&state),
            in_progress,
            commands,
            launch,
            record,
            notes: notes.into_iter().chain(warnings).collect(),
            told: Vec::new(),
            told_commands: Vec::new(),
        };
        let (prompts, waiting) = mpsc::channel(limits::ACP_PROMPTS_WAITING);
        let worker = AbortOnDropHandle::new(tokio::spawn(worker.run(waiting)));
        Self { app, prompts: Mutex::new(Some(prompts)), state, worker: Mutex::new(Some(worker)), _questions: questions }
    }

    /// Lets the worker begin: the editor knows of the conversation.
    pub fn announce(&self) {
        self.state.announce();
    }

    /// Puts a prompt into the queue. Its request is answered when the prompt is.
    ///
    /// # Errors
    ///
    /// The error that answers a prompt for which there is no room.
    pub fn prompt(&self, request: OpenRequestHandle, blocks: Vec<ContentBlock>) -> Result<(), RpcError> {
        let prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let closed = || RpcError::new(RpcError::CANCELLED, "the conversation is closed; open the session again");
        let prompts = prompts.ok_or_else(closed)?;
        prompts.try_send(QueuedPrompt { request, blocks }).map_err(|error| match error {
            TrySendError::Full(_) => {
                let most = limits::ACP_PROMPTS_WAITING;
                RpcError::new(RpcError::INVALID_REQUEST, format!("{most} prompts wait already; wait for an answer"))
            }
            TrySendError::Closed(_) => closed(),
        })
    }

    /// Returns the token of a new prompt.
    pub fn token(&self) -> CancellationToken {
        self.state.token()
    }

    /// Cancels the prompt that is answered, and those that wait.
    pub fn cancel(&self) {
        self.state.cancel();
    }

    /// Takes note that the host ends: a run that is dropped from now on goes on when its session is resumed.
    pub fn note_end(&self) {
        self.state.note_end();
    }

    /// Chooses the agent or team of the next prompt.
    pub fn set_agent(&self, name: &str) {
        self.state.set_agent(name);
    }

    /// Returns the agents and teams as modes, with the one that is used; null if there is only one.
    pub fn modes(&self) -> Value {
        let config = &self.app.config;
        let mode = |name: &str, description: &str| match description.is_empty() {
            true => json!({"id": name, "name": name}),
            false => json!({"id": name, "name": name, "description": description}),
        };
        let modes: Vec<_> = config.everyone().map(|own| mode(&own.name, &own.description)).collect();
        let entry = || config.entry().ok().map(|entry| entry.name().to_owned());
        match self.state.agent().or_else(entry) {
            Some(current) if !modes.is_empty() => json!({"currentModeId": current, "availableModes": modes}),
            _ => Value::Null,
        }
    }

    /// Waits until the worker has answered everything. Afterwards it takes no further prompt.
    pub async fn finish(&self) {
        // The worker ends once nobody can send it a prompt.
        drop(self.prompts.lock().unwrap_or_else(PoisonError::into_inner).take());
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            let _ = worker.await;
        }
    }
}
