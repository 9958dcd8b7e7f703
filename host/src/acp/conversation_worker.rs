//! Answers the prompts of a conversation, one after the other. Each is a run in the same session.

use std::{panic::AssertUnwindSafe, pin::pin, sync::Arc};

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    calls_in_progress::CallsInProgress,
    conversation_controls::{ConversationControls, QueuedPrompt},
    editor_connection::EditorConnection,
    options::{AcpOptions, CommandSource, EditorCommand},
    prompt_content::task_of,
    protocol::ContentBlock,
    rpc::RpcError,
    run_updates::{RunUpdates, UpdateOptions},
    session_update::{agent_text, chunk, media_block, notice},
    update_stream::UpdateStream,
};
use crate::{
    agent::{RunAnswer, RunError},
    app::{App, PreparedRun, Recording, RunInterrupter, RunSession, SessionCloser},
    chat::{Chat, Message, Part},
    error::{Report, cut},
    event::{EventSink, RunCx},
    limits,
    session::LaunchOptions,
    task::TaskInput,
};

/// The reason of a prompt that the person has cancelled.
pub(super) const CANCELLED: &str = "cancelled";

/// The place in which a conversation is recorded.
pub(super) enum ConversationRecord {
    /// Nowhere: the conversation is here.
    Nowhere(Chat),
    /// In a session that the first prompt creates.
    New,
    /// In an existing session.
    Existing {
        /// `true` if the operator has consented to a session that somebody else may have made.
        is_trusted: bool,
    },
}

/// Answers the prompts of one conversation.
pub(super) struct ConversationWorker {
    /// The id of the conversation, which is the name of its session.
    pub id: String,
    pub app: Arc<App>,
    pub options: Arc<AcpOptions>,
    pub connection: EditorConnection,
    pub has_notices: bool,
    pub state: Arc<ConversationControls>,
    pub in_progress: CallsInProgress,
    pub commands: Arc<dyn CommandSource>,
    pub launch: LaunchOptions,
    pub record: ConversationRecord,
    /// Sentences that the person is shown before the first answer.
    pub notes: Vec<String>,
    /// The warnings of the last run: those of a project come with each run, and are shown once.
    pub told: Vec<String>,
    /// The commands that the editor knows.
    pub told_commands: Vec<EditorCommand>,
}

impl ConversationWorker {
    /// Answers prompts until nobody can send one any more.
    pub async fn run(mut self, mut prompts: mpsc::Receiver<QueuedPrompt>) {
        self.state.announced().await;
        self.tell_commands().await;
        for note in std::mem::take(&mut self.notes) {
            self.warn(&note).await;
        }
        while let Some(QueuedPrompt { request, blocks }) = prompts.recv().await {
            // A prompt that was cancelled by its id while it waited is answered already.
            if !request.start() {
                continue;
            }
            let cancel = request.cancel.clone();
            let stop = match cancel.is_cancelled() {
                true => Ok(CANCELLED),
                // A prompt without an answer would keep the editor waiting, and those behind it.
                false => AssertUnwindSafe(self.answer(blocks, &cancel))
                    .catch_unwind()
                    .await
                    .unwrap_or_else(|_| Err(RpcError::bug())),
            };
            // Whatever a cancelled prompt came to, the editor waits for this reason.
            let stop = if cancel.is_cancelled() { Ok(CANCELLED) } else { stop };
            self.connection.respond(&request.id, stop.map(stopped)).await;
            drop(request);
            // A person who has cancelled is not kept waiting by servers: the next prompt learns from them.
            if !cancel.is_cancelled() {
                self.commands.learn(&self.app).await;
                self.tell_commands().await;
            }
        }
    }

    async fn answer(
        &mut self,
        blocks: Vec<ContentBlock>,
        cancel: &CancellationToken,
    ) -> Result<&'static str, RpcError> {
        let input = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(CANCELLED),
            input = self.task(blocks) => input?,
        };
        let title = cut(input.text.trim().lines().next().unwrap_or_default(), limits::SESSION_TITLE_CHARS);
        self.perform(input.into_message(), title, cancel).await
    }

    /// Returns the task of a prompt, in which a command stands for its message.
    async fn task(&self, blocks: Vec<ContentBlock>) -> Result<TaskInput, RpcError> {
        let input = task_of(blocks)?;
        let Some(typed) = input.text.strip_prefix('/') else { return Ok(input) };
        let (name, arguments) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        let task = self.commands.task(&self.app, name, arguments.trim()).await;
        match task {
            Some(Ok(mut task)) => {
                task.attachments.extend(input.attachments);
                Ok(task)
            }
            Some(Err(report)) => Err(self.failure(&report)),
            None => Ok(input),
        }
    }

    /// Gives the agent a message, and shows the run. Returns the reason for which it has ended.
    async fn perform(
        &mut self,
        message: Message,
        title: String,
        cancel: &CancellationToken,
    ) -> Result<&'static str, RpcError> {
        let (agent, recording) = (self.state.agent(), self.recording(&title));
        let preparing = self.app.agent(agent.as_deref(), self.options.model.as_deref(), recording);
        let mut prepared = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(CANCELLED),
            prepared = preparing => prepared.map_err(|report| self.failure(&report))?,
        };
        let session = prepared.session.take();
        self.tell_beginning(&prepared, session.as_ref(), &title).await;
        let (sink, events) = EventSink::channel();
        self.app.observe(&sink, &prepared, session.as_ref());
        let updates = self.updates(&prepared);
        let stream = UpdateStream {
            connection: self.connection.clone(),
            session: self.id.clone(),
            board: prepared.agent_group.board.clone(),
            mirror: self.options.events.clone(),
        };
        let shown = AbortOnDropHandle::new(tokio::spawn(stream.send(updates, events)));
        let chat = match (&session, &self.record) {
            (Some(session), _) => session.chat.clone(),
            (None, ConversationRecord::Nowhere(chat)) => chat.clone(),
            (None, _) => Chat::new(),
        };
        let outcome = self.run_to_end(&prepared, session, (&chat, message), sink, cancel).await;
        let ended = match outcome {
            None => Ok(None),
            Some(Ok(answer)) => Ok(Some(answer)),
            Some(Err(error)) => Err((stop_reason(&error), (self.options.explain)(&prepared, &error))),
        };
        drop(prepared);
        // The stream ends with the last sink of the run.
        let shown = timeout(limits::CANCEL_GRACE, shown).await.ok().and_then(Result::ok);
        self.in_progress.clear();
        match ended {
            Ok(None) => Ok(CANCELLED),
            Ok(Some(answer)) => {
                self.tell_answer(&answer.message, shown.as_ref().and_then(RunUpdates::last_reply)).await;
                Ok("end_turn")
            }
            Err((Some(reason), report)) => {
                if reason != CANCELLED {
                    self.warn(&report.with_hint()).await;
                }
                Ok(reason)
            }
            Err((None, report)) => Err(self.failure(&report)),
        }
    }

    /// Drives a run to its end; `None` if it was cancelled before it could end by itself: its session then continues
    /// where it was.
    async fn run_to_end(
        &self,
        prepared: &PreparedRun,
        session: Option<RunSession>,
        (chat, message): (&Chat, Message),
        sink: EventSink,
        cancel: &CancellationToken,
    ) -> Option<Result<RunAnswer, RunError>> {
        let runner = prepared.entrant.runner();
        let cx = RunCx::new(Arc::clone(runner.name())).with_run((self.options.run_id)()).with_events(sink);
        let is_unfinished = session.as_ref().is_some_and(|session| session.is_unfinished);
        let work = async {
            if is_unfinished && let Some(outcome) = runner.resume(&cx, chat, vec![message.clone()]).await {
                return outcome;
            }
            runner.run(&cx, chat, vec![message]).await
        };
        let mut working = pin!(work);
        // Declared after the run so that it is dropped first: a run that is dropped records nothing more.
        let events = session.as_ref().map(|_| cx.events.clone());
        let closing = SessionCloser(session);
        let mut interrupter = RunInterrupter { events, ends: self.state.ends() };
        let outcome = tokio::select! {
            biased;
            outcome = working.as_mut() => Some(outcome),
            () = cancel.cancelled() => {
                interrupter.events = None;
                match prepared.agent_group.cancel(&cx.agent) {
                    true => timeout(limits::CANCEL_GRACE, working.as_mut()).await.ok(),
                    false => None,
                }
            }
        };
        if let (Some(session), Some(_)) = (&closing.0, &outcome) {
            // A failed write has ended the run already.
            let _ = session.journal.close().await;
        }
        outcome
    }

    /// Returns where the next run is recorded.
    fn recording(&self, title: &str) -> Recording {
        match &self.record {
            ConversationRecord::Nowhere(_) => Recording::Off,
            ConversationRecord::New => Recording::New {
                id: Some(self.id.clone()),
                title: title.to_owned(),
                follows: None,
                options: self.launch.clone(),
            },
            ConversationRecord::Existing { is_trusted } => {
                Recording::Existing { id: self.id.clone(), up_to_damage: false, is_trusted: *is_trusted }
            }
        }
    }

    /// Tells the person what is remarkable about a run before it begins.
    async fn tell_beginning(&mut self, prepared: &PreparedRun, session: Option<&RunSession>, title: &str) {
        if session.is_some() && matches!(self.record, ConversationRecord::New) {
            self.record = ConversationRecord::Existing { is_trusted: false };
            let title = self.app.secrets().clean_text(title);
            let update = json!({"sessionUpdate": "session_info_update", "title": title});
            self.connection.update(&self.id, update).await;
        }
        let of_session = session.into_iter().flat_map(|session| &session.warnings);
        let changed = session.into_iter().flat_map(|session| &session.changed);
        let changed = changed.map(|what| format!("since the session was last used: {what}"));
        let warnings: Vec<_> = prepared.warnings.iter().chain(of_session).cloned().chain(changed).collect();
        for warning in warnings.iter().filter(|warning| !self.told.contains(warning)) {
            self.warn(warning).await;
        }
        self.told = warnings;
    }

    fn updates(&self, prepared: &PreparedRun) -> RunUpdates {
        let options = UpdateOptions {
            root: self.app.config.root.clone(),
            secrets: self.app.secrets(),
            has_notices: self.has_notices,
            is_team: prepared.entrant.agent().is_none(),
            window: prepared.model.context_window.tokens(),
        };
        RunUpdates::new(options, self.in_progress.clone())
    }

    /// Shows the answer of a run, unless its text was shown as it came.
    async fn tell_answer(&self, answer: &Message, last_reply: Option<&str>) {
        let text = answer.text_content();
        if last_reply != Some(text.as_str()) && !text.trim().is_empty() {
            self.connection.update(&self.id, agent_text(&self.app.secrets().clean_text(&text))).await;
        }
        let media = answer.parts.iter().filter_map(|part| match part {
            Part::Media(media) => Some(chunk("agent_message_chunk", media_block(media))),
            _ => None,
        });
        for update in media.collect::<Vec<Value>>() {
            self.connection.update(&self.id, update).await;
        }
    }

    /// Tells the editor of the commands, if they have changed.
    async fn tell_commands(&mut self) {
        let mut commands = self.commands.commands();
        commands.truncate(limits::ACP_COMMANDS);
        if commands == self.told_commands {
            return;
        }
        let command = |EditorCommand { name, description, hint }: &EditorCommand| match hint.is_empty() {
            true => json!({"name": name, "description": description}),
            false => json!({"name": name, "description": description, "input": {"hint": hint}}),
        };
        let available: Vec<_> = commands.iter().map(command).collect();
        let update = json!({"sessionUpdate": "available_commands_update", "availableCommands": available});
        self.connection.update(&self.id, update).await;
        self.told_commands = commands;
    }

    async fn warn(&self, text: &str) {
        let text = self.app.secrets().clean_text(text);
        self.connection.update(&self.id, notice(&text, self.has_notices)).await;
    }

    /// Returns the error that answers a prompt for this reason.
    fn failure(&self, report: &Report) -> RpcError {
        let RpcError { code, message, data } = RpcError::of_report(report);
        RpcError { code, message: self.app.secrets().clean_text(&message), data }
    }
}

/// Returns the answer to a prompt that has ended for a reason of the protocol.
pub(super) fn stopped(reason: &str) -> Value {
    json!({"stopReason": reason})
}

/// Returns the reason of the protocol for a run without an answer; `None` if it is a failure.
fn stop_reason(error: &RunError) -> Option<&'static str> {
    match error {
        RunError::Cut => Some("max_tokens"),
        RunError::MaxIterations(_) => Some("max_turn_requests"),
        RunError::Refused(_) => Some("refusal"),
        RunError::Cancelled => Some(CANCELLED),
        _ => None,
    }
}
