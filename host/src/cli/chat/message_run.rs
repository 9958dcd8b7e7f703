//! One message as a run of its own, in a task beside the loop that reads keys and draws.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    compaction::{compact_with_answer, forget_request},
    runner_facts::RunnerFacts,
};
use crate::{
    agent::{AgentGroup, RunError, SendError},
    app::{App, PendingWork, PreparedRun, Recording, RunInterrupter, RunSession, SessionCloser, explain},
    chat::{Chat, Message},
    cli::{run_id::run_id, secrets},
    error::{ErrorKind, Report},
    event::{Event, EventSink, EventStream, RunCx},
    model::Ledger,
};

/// A message and the agent that gets it.
pub struct MessageRequest {
    pub agent: Option<String>,
    pub model: Option<String>,
    pub recording: Recording,
    /// `None`: the interrupted or failed run of the session goes on.
    pub message: Option<Message>,
    /// The conversation, if it is not recorded.
    pub chat: Chat,
    /// `true` if the answer takes the place of the conversation before it.
    pub compacts: bool,
    /// `true` if the person has just chosen the agent or the model.
    pub has_chosen: bool,
}

/// A run that answers a message.
pub struct MessageRun {
    events: EventStream,
    task: JoinHandle<Result<FinishedMessage, Report>>,
    started: watch::Receiver<Option<Arc<StartedMessage>>>,
    /// Set once the run has begun, and the message is part of the conversation.
    has_begun: Arc<AtomicBool>,
    /// `true` once its start was returned.
    is_announced: bool,
    is_cancelled: bool,
    /// Cancelled when the chat ends.
    ends: CancellationToken,
}

/// The facts of a run that is about to begin.
pub struct StartedMessage {
    pub facts: RunnerFacts,
    pub group: Arc<AgentGroup>,
    /// The name of the session.
    pub session: Option<String>,
    /// Warnings about the session.
    pub warnings: Vec<String>,
}

/// The end of a run.
pub struct FinishedMessage {
    pub outcome: MessageOutcome,
    pub chat: Chat,
    /// The usage of each agent in the session so far.
    pub ledger: Ledger,
}

/// The outcome of a run.
pub enum MessageOutcome {
    Answered,
    /// The person has interrupted it. The conversation is valid, and the next message continues it.
    Interrupted,
    Failed(Report),
}

/// The next thing that a run reports.
pub enum MessageProgress {
    Started(Arc<StartedMessage>),
    Event(Box<Event>),
    /// The run has ended; an error means that it has not begun.
    Ended(Result<FinishedMessage, Report>),
    /// The run was dropped in the middle of a step, as in a crash.
    Dropped,
}

impl MessageRun {
    /// Starts a run.
    pub fn start(app: Arc<App>, request: MessageRequest) -> Self {
        let (sink, events) = EventSink::channel();
        let (announce, started) = watch::channel(None);
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = Arc::clone(&has_begun);
        // The event follows the record of the beginning.
        sink.tap(Arc::new(move |event| {
            if matches!(event.event, Event::RunStarted { .. }) {
                begun.store(true, Ordering::SeqCst);
            }
        }));
        let ends = CancellationToken::new();
        let chat_ends = ends.clone();
        let task = tokio::spawn(async move { answer(&app, request, sink, (announce, chat_ends)).await });
        Self { events, task, started, has_begun, is_announced: false, is_cancelled: false, ends }
    }

    /// Waits for the next progress. Cancel safe.
    pub async fn progress(&mut self) -> MessageProgress {
        if !self.is_announced
            && let Ok(started) = self.started.wait_for(Option::is_some).await
            && let Some(started) = started.clone()
        {
            self.is_announced = true;
            return MessageProgress::Started(started);
        }
        self.is_announced = true;
        match self.events.next_event().await {
            Some(event) => MessageProgress::Event(Box::new(event)),
            None => match (&mut self.task).await {
                Ok(ended) => MessageProgress::Ended(ended),
                Err(error) if error.is_cancelled() => MessageProgress::Dropped,
                Err(error) => {
                    let report = Report::new(ErrorKind::Bug, "this is a bug in shelly-host").cause(error);
                    MessageProgress::Ended(Err(report))
                }
            },
        }
    }

    /// Interrupts the run: its running step ends, and the conversation stays valid. The second call, and a call before the run
    /// has begun, drop it as a crash would; the session then continues where it was.
    pub fn interrupt(&mut self) {
        let started = self.started.borrow().clone();
        let is_first = !std::mem::replace(&mut self.is_cancelled, true);
        if is_first && started.is_some_and(|started| started.group.cancel(&started.facts.agent)) {
            return;
        }
        self.task.abort();
    }

    /// Drops the run as a crash would, and waits until it is gone: its session continues where it was.
    pub async fn stop(&mut self) {
        self.end();
        let _ = (&mut self.task).await;
    }

    /// Drops the run since the chat ends. One that the person has cancelled before stays cancelled.
    fn end(&self) {
        if !self.is_cancelled {
            self.ends.cancel();
        }
        self.task.abort();
    }

    /// Returns `true` if the run has begun: the message is part of the conversation, and of the session if there is one.
    pub fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::SeqCst)
    }

    /// Returns the usage of each agent in the session so far; `None` before the session is open.
    pub fn ledger(&self) -> Option<Ledger> {
        self.started.borrow().as_ref().map(|started| started.group.ledger())
    }

    /// Gives an agent of the run a message that it reads before its next turn.
    ///
    /// # Errors
    ///
    /// A [`SendError`] if the agent does not work, or does not take the message.
    pub fn send(&self, agent: &str, text: &str) -> Result<(), SendError> {
        let started = self.started.borrow().clone().ok_or(SendError::NotWorking)?;
        started.group.send(agent, Message::user(text))
    }

    /// Cancels one agent of the run, with those that work for it. Returns `false` if it does not work.
    pub fn cancel(&self, agent: &str) -> bool {
        let started = self.started.borrow().clone();
        started.is_some_and(|started| started.group.cancel(agent))
    }

    /// Returns the names of the agents at work, sorted.
    pub fn working(&self) -> Vec<Arc<str>> {
        self.started.borrow().as_ref().map(|started| started.group.working()).unwrap_or_default()
    }
}

impl Drop for MessageRun {
    fn drop(&mut self) {
        self.end();
    }
}

/// Prepares a run and performs it.
async fn answer(
    app: &App,
    request: MessageRequest,
    events: EventSink,
    (announce, ends): (watch::Sender<Option<Arc<StartedMessage>>>, CancellationToken),
) -> Result<FinishedMessage, Report> {
    let MessageRequest { agent, model, recording, message, chat, compacts, has_chosen } = request;
    let mut prepared = app.agent(agent.as_deref(), model.as_deref(), recording).await?;
    secrets::hide(app.secrets());
    let session = prepared.session.take();
    app.observe(&events, &prepared, session.as_ref());
    let work = PendingWork::of(session.as_ref(), message)?;
    let chat = session.as_ref().map_or(chat, |session| session.chat.clone());
    if session.as_ref().is_none_or(|session| !session.is_unfinished) {
        // That of an interrupted run, which had no occasion to do it.
        forget_request(&chat);
    }
    if compacts {
        compact_with_answer(&mut prepared, &chat)?;
    }
    announce.send_replace(Some(Arc::new(started(app, &prepared, session.as_ref(), has_chosen))));
    let outcome = {
        let cx = RunCx::new(Arc::clone(prepared.entrant.runner().name())).with_run(run_id()).with_events(events);
        let mut working = pin!(work.run(&prepared, &cx, &chat));
        // Declared after the run so that it is dropped first: a run that is dropped records nothing more.
        let events = session.as_ref().map(|_| cx.events.clone());
        let closing = SessionCloser(session);
        let _interrupter = RunInterrupter { events, ends };
        let outcome = working.as_mut().await;
        if let Some(session) = &closing.0 {
            // A failed write has ended the run already.
            let _ = session.journal.close().await;
        }
        outcome
    };
    if compacts && outcome.is_err() {
        forget_request(&chat);
    }
    let outcome = match outcome {
        Ok(_) => MessageOutcome::Answered,
        Err(RunError::Cancelled) => MessageOutcome::Interrupted,
        Err(error) => MessageOutcome::Failed(explain(&prepared, &error)),
    };
    Ok(FinishedMessage { outcome, chat, ledger: prepared.agent_group.ledger() })
}

fn started(app: &App, prepared: &PreparedRun, session: Option<&RunSession>, has_chosen: bool) -> StartedMessage {
    let changed = session.iter().flat_map(|session| &session.changed).filter(|what| !has_chosen || !is_exchange(what));
    let changed = changed.map(|what| format!("since the session was last used: {what}"));
    let left_out = session.iter().flat_map(|session| session.warnings.iter().cloned());
    StartedMessage {
        facts: RunnerFacts::of(app, prepared),
        group: Arc::clone(&prepared.agent_group),
        session: session.map(|session| session.journal.id().to_owned()),
        warnings: left_out.chain(changed).collect(),
    }
}

/// Returns `true` for a change of a session's parts that follows from the choice of another agent or model: a part has come or
/// gone. A part that is another one under the same name was changed by somebody.
fn is_exchange(what: &str) -> bool {
    what.ends_with(" is new") || what.ends_with(" was removed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_parts_are_told_apart_from_changed_ones() {
        for (what, expected) in [
            ("model `local` is new", true),
            ("model `large` was removed", true),
            ("model `local` has changed", false),
            ("plugin `read-files` has changed", false),
        ] {
            assert_eq!(is_exchange(what), expected, "{what}");
        }
    }
}
