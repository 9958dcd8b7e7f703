use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    agent::journal::{JournalPosition, JournalRecord, RunJournal},
    chat::Message,
    limits,
};

/// The running agents, by instance name.
pub(crate) type Roster = Arc<Mutex<HashMap<Arc<str>, RunningAgent>>>;

/// A running agent, as others reach it.
#[derive(Clone)]
pub(crate) struct RunningAgent {
    pub inbox: AgentInbox,
    pub cancel: CancellationToken,
}

/// The reason why a message was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// No agent of this name is running.
    #[error("no agent of this name is running")]
    NotWorking,
    /// The agent has not read the messages that it was sent before.
    #[error("the agent already has {} unread messages; send again after it has read them", limits::INBOX_MESSAGES)]
    Full,
    /// The message is not a user's, has calls or results, or is empty.
    #[error("only a non-empty user message without calls or results can be sent")]
    Unfit,
    /// The session of the run cannot be written. The agent may read the message, but nobody who resumes the run does.
    #[error("the message could not be recorded in the session of the run")]
    Unrecorded,
}

/// The entry of a running agent in the roster, with its inbox and cancel token.
#[derive(Default)]
pub(crate) struct AgentHandle {
    pub inbox: AgentInbox,
    pub cancel: CancellationToken,
    /// The roster, and the agent's instance name there.
    joined: Option<(Roster, Arc<str>)>,
}

impl AgentHandle {
    /// Adds an agent to the roster, where others can send it messages or cancel it until the handle is dropped. `waiting`
    /// is in the journal already; messages sent later are recorded once [`AgentInbox::record`] was called.
    pub fn join(roster: &Roster, instance: &Arc<str>, waiting: Vec<Message>) -> Self {
        let (inbox, cancel) = (AgentInbox::new(waiting), CancellationToken::new());
        let running = RunningAgent { inbox: inbox.clone(), cancel: cancel.clone() };
        roster.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(instance), running);
        Self { inbox, cancel, joined: Some((Arc::clone(roster), Arc::clone(instance))) }
    }
}

impl Drop for AgentHandle {
    fn drop(&mut self) {
        let Some((roster, name)) = self.joined.take() else { return };
        let mut roster = roster.lock().unwrap_or_else(PoisonError::into_inner);
        // Another agent may have taken the name.
        if roster.get(&name).is_some_and(|working| Arc::ptr_eq(&working.inbox.0, &self.inbox.0)) {
            roster.remove(&name);
        }
    }
}

/// The messages that wait for an agent's next turn.
#[derive(Clone, Default)]
pub(crate) struct AgentInbox(Arc<Mutex<InboxQueue>>);

#[derive(Default)]
struct InboxQueue {
    waiting: Vec<Message>,
    closed: bool,
    /// The journal for sent messages; `None` until the beginning of the run is recorded.
    log: Option<RunJournal>,
    /// The number of waiting messages that are in the journal.
    recorded: usize,
    /// The position of the last message in the journal.
    last: JournalPosition,
}

impl AgentInbox {
    fn new(waiting: Vec<Message>) -> Self {
        let recorded = waiting.len();
        Self(Arc::new(Mutex::new(InboxQueue { waiting, recorded, ..InboxQueue::default() })))
    }

    /// Records the messages sent so far and from now on. The beginning of the run must be recorded already.
    pub fn record(&self, log: &RunJournal) {
        let mut queue = self.queue();
        for at in queue.recorded..queue.waiting.len() {
            queue.last = log.write(&JournalRecord::Sent { message: queue.waiting[at].clone() });
        }
        queue.log = Some(log.clone());
    }

    pub fn put(&self, message: Message) -> Result<(), SendError> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(SendError::NotWorking);
        }
        if queue.waiting.len() >= limits::INBOX_MESSAGES {
            return Err(SendError::Full);
        }
        if let Some(log) = &queue.log {
            queue.last = log.write(&JournalRecord::Sent { message: message.clone() });
        }
        queue.waiting.push(message);
        Ok(())
    }

    /// Puts a message, and waits until it would survive a loss of power. One that does not within
    /// [`limits::INBOX_RECORD_TIME`] is taken back, unless the agent has read it.
    pub async fn put_recorded(&self, message: Message) -> Result<(), SendError> {
        self.put(message.clone())?;
        let recorded = timeout(limits::INBOX_RECORD_TIME, self.recorded()).await;
        recorded.unwrap_or(Err(SendError::Unrecorded)).inspect_err(|_| {
            let waiting = &mut self.queue().waiting;
            if let Some(at) = waiting.iter().rposition(|there| *there == message) {
                waiting.remove(at);
            }
        })
    }

    /// Waits until all messages that were put so far would survive a loss of power.
    async fn recorded(&self) -> Result<(), SendError> {
        let begun = || {
            let queue = self.queue();
            queue.log.clone().map(|log| (log, queue.last))
        };
        let (log, last) = loop {
            match begun() {
                Some(begun) => break begun,
                // The beginning of the run is about to be recorded, and the messages with it.
                None => sleep(limits::INBOX_RECORD_PAUSE).await,
            }
        };
        log.journal.recorder().kept(last).await.map_err(|_| SendError::Unrecorded)
    }

    /// Takes all waiting messages.
    pub fn take(&self) -> Vec<Message> {
        std::mem::take(&mut self.queue().waiting)
    }

    /// Returns the waiting messages.
    pub fn waiting(&self) -> Vec<Message> {
        self.queue().waiting.clone()
    }

    /// Removes the first of the waiting messages, which somebody else has read for the agent.
    pub fn remove_first(&self, count: usize) {
        let mut queue = self.queue();
        let count = count.min(queue.waiting.len());
        queue.waiting.drain(..count);
    }

    /// Takes the waiting messages; if there are none, closes the inbox.
    pub fn close_if_empty(&self) -> Vec<Message> {
        let mut queue = self.queue();
        queue.closed = queue.waiting.is_empty();
        std::mem::take(&mut queue.waiting)
    }

    /// Closes the inbox and takes the messages that still wait.
    pub fn close(&self) -> Vec<Message> {
        let mut queue = self.queue();
        queue.closed = true;
        std::mem::take(&mut queue.waiting)
    }

    fn queue(&self) -> MutexGuard<'_, InboxQueue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;
    use crate::agent::{
        journal::{Journal, JournalWriteError, Recorder},
        testing::MemoryRecorder,
    };

    /// A recorder whose disk is lost.
    #[derive(Debug)]
    struct LostRecorder;

    impl Recorder for LostRecorder {
        fn write(&self, _: u64, _: &JournalRecord) -> JournalPosition {
            JournalPosition(1)
        }

        fn kept(&self, _: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>> {
            Box::pin(async { Err(JournalWriteError { reason: "the disk is lost".into() }) })
        }

        fn lost(&self) -> Option<JournalWriteError> {
            None
        }
    }

    fn log(recorder: Arc<dyn Recorder>) -> RunJournal {
        RunJournal::of(&Arc::new(Journal::new(recorder)), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn message_is_accepted_once_it_is_recorded() {
        let inbox = AgentInbox::new(Vec::new());
        let put = |text: &str| {
            let (inbox, message) = (inbox.clone(), Message::user(text));
            async move { inbox.put_recorded(message).await }
        };
        assert_eq!(put("before the beginning").await, Err(SendError::Unrecorded), "the run does not begin");
        assert_eq!(inbox.waiting(), [], "it may be sent again");
        let recorder = Arc::<MemoryRecorder>::default();
        let waiting = tokio::spawn(put("at the beginning"));
        sleep(limits::INBOX_RECORD_PAUSE).await;
        inbox.record(&log(Arc::clone(&recorder) as _));
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!((put("after it").await, recorder.records().len()), (Ok(()), 2));

        let lost = AgentInbox::new(Vec::new());
        lost.record(&log(Arc::new(LostRecorder)));
        assert_eq!(lost.put_recorded(Message::user("hello")).await, Err(SendError::Unrecorded));
        assert_eq!(lost.waiting(), []);
    }
}
