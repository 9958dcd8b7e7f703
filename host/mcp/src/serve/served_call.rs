//! A tool call in progress for a client.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use rmcp::model::{InputRequest, InputRequiredResult, InputResponses};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::{
    McpServerState, McpToolCaller, ServedCallContext,
    call_notifier::CallNotifier,
    client_elicitor::{ClientElicitor, PendingElicitation, answered, ask, request},
};
use crate::{ElicitationResult, Elicitor};
use shelly_core::{
    chat::{ToolCall, ToolResult},
    error::Fault,
    event::{EventSink, EventStream},
    hex, limits,
};

/// Limits the calls of one client.
pub(super) struct ClientCallSlots {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A permit of the client's own limit and one of the limit of all clients.
pub(super) struct ClientCallPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl ClientCallSlots {
    pub fn new() -> Self {
        Self { places: Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS)), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if too many calls wait already.
    pub async fn take(&self, all: &Arc<Semaphore>) -> Result<ClientCallPermit, Fault> {
        let _waiting = QueuedCallGuard::new(&self.waiting).ok_or_else(|| {
            let most = limits::MCP_SERVE_CALLS_WAITING;
            Fault::RateLimited { message: format!("{most} calls wait already: make fewer at once"), after: None }
        })?;
        // The semaphores are never closed.
        let closed = |_| Fault::other("there are no places any more");
        let own = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        let all = Arc::clone(all).acquire_owned().await.map_err(closed)?;
        Ok(ClientCallPermit { _own: own, _all: all })
    }
}

/// Counts a call as waiting until it is dropped.
struct QueuedCallGuard<'a>(&'a AtomicUsize);

impl<'a> QueuedCallGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let this = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < limits::MCP_SERVE_CALLS_WAITING).then_some(this)
    }
}

impl Drop for QueuedCallGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call with its events and its questions to a person.
pub(super) struct ServedCall {
    id: String,
    making: BoxFuture<'static, ToolResult>,
    events: EventStream,
    questions: mpsc::Receiver<PendingElicitation>,
    /// `None` while the call is parked until its client comes back.
    place: Option<ClientCallPermit>,
}

/// The state in which [`ServedCall::drive`] leaves a call.
pub(super) enum ServedCallOutcome {
    Done(ToolResult),
    /// The call waits for a person, whom the client asks between two requests.
    Asks(PendingElicitation),
}

/// The way in which a client asks a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitationMode {
    Never,
    /// While the call runs.
    Meanwhile,
    /// Between two requests.
    Between,
}

impl ServedCall {
    /// Creates a call. Nothing runs before it is [driven](Self::drive).
    pub fn begin(
        house: &McpServerState,
        name: String,
        arguments: String,
        asks: ElicitationMode,
        place: ClientCallPermit,
    ) -> Self {
        let (run, (person, questions)) = (house.next(), ClientElicitor::new());
        let person = (asks != ElicitationMode::Never).then(|| Arc::new(person) as Arc<dyn Elicitor>);
        let (sink, events) = EventSink::channel();
        let id = run.to_string();
        let call = ToolCall { id: id.clone(), name, arguments, meta: Vec::new() };
        let (caller, making) = (Arc::clone(&house.served.caller), ServedCallContext { run, events: sink, person });
        let making = async move { McpToolCaller::call(&*caller, making, call).await }.boxed();
        Self { id, making, events, questions, place: Some(place) }
    }

    /// Gives a parked call a new permit.
    pub fn go_on(&mut self, place: ClientCallPermit) {
        self.place = Some(place);
    }

    /// Runs the call until it ends or asks a question, and notifies the client of its progress.
    pub async fn drive(&mut self, notes: &mut CallNotifier, asks: ElicitationMode) -> ServedCallOutcome {
        let mut asking = FuturesUnordered::new();
        let (mut told, mut may_ask) = (true, true);
        let result = loop {
            tokio::select! {
                biased;
                event = self.events.next(), if told => match event {
                    Some(event) => notes.tell(&self.id, event).await,
                    None => told = false,
                },
                question = self.questions.recv(), if may_ask => match (question, asks) {
                    (Some(question), ElicitationMode::Between) => return ServedCallOutcome::Asks(question),
                    (Some(question), _) => asking.push(ask(notes.peer.clone(), question)),
                    (None, _) => may_ask = false,
                },
                Some(()) = asking.next() => {}
                result = &mut self.making => break result,
            }
        };
        // Sends the events from right before the end.
        for _ in 0..limits::EVENT_QUEUE {
            let Some(Some(event)) = self.events.next().now_or_never() else { break };
            notes.tell(&self.id, event).await;
        }
        ServedCallOutcome::Done(result)
    }
}

/// Parked calls, which wait for an answer that the client brings with its next request, by their `requestState`.
#[derive(Default)]
pub(super) struct ParkedCalls(Mutex<HashMap<String, ParkedCall>>);

struct ParkedCall {
    call: ServedCall,
    answer: oneshot::Sender<ElicitationResult>,
    /// The name and the arguments of the call: the client must repeat them.
    made: (String, String),
    /// Drops the call when it has waited too long.
    _end: AbortOnDropHandle<()>,
}

/// The key of the only question of a parked call.
const QUESTION: &str = "question";

impl ParkedCalls {
    /// Parks a call. Returns the response for the client.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the call cannot be parked: it is dropped.
    pub fn park(
        house: &Arc<McpServerState>,
        mut call: ServedCall,
        question: PendingElicitation,
        made: (String, String),
    ) -> Result<InputRequiredResult, Fault> {
        let mut chance = [0; 16];
        getrandom::fill(&mut chance).map_err(|error| Fault::other(format!("there is no chance to be had: {error}")))?;
        let state = hex::encode(chance);
        let requests = BTreeMap::from([(QUESTION.to_owned(), InputRequest::Elicitation(request(&question.form)?))]);
        let mut parked = house.parked.all();
        if parked.len() >= limits::MCP_SERVE_PARKED {
            let message = format!("{} calls wait for an answer already", limits::MCP_SERVE_PARKED);
            return Err(Fault::RateLimited { message, after: None });
        }
        let (weak, of) = (Arc::downgrade(house), state.clone());
        let end = AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(limits::MCP_SERVE_PARK_TIME).await;
            let gone = weak.upgrade().and_then(|house| house.parked.all().remove(&of));
            drop(gone);
        }));
        call.place = None;
        parked.insert(state.clone(), ParkedCall { call, answer: question.answer, made, _end: end });
        drop(parked);
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }

    /// Resumes a parked call with the client's answer.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if no call has this state, if the name or the arguments differ, or if there is no valid answer.
    pub fn resume(
        &self,
        state: &str,
        made: &(String, String),
        answers: Option<InputResponses>,
    ) -> Result<ServedCall, Fault> {
        let mut parked = self.all();
        match parked.get(state) {
            Some(waits) if waits.made == *made => {}
            Some(_) => return Err(Fault::invalid("`requestState` is of a call with another name or other arguments")),
            None => {
                let minutes = limits::MCP_SERVE_PARK_TIME.as_secs() / 60;
                let message = format!("`requestState` is of no call that waits; they wait {minutes} minutes");
                return Err(Fault::NotFound { message });
            }
        }
        let answer = answers.and_then(|mut answers| answers.remove(QUESTION)).and_then(answered);
        let answer =
            answer.ok_or_else(|| Fault::invalid(format!("`inputResponses.{QUESTION}` is missing or no answer")))?;
        let Some(ParkedCall { call, answer: waiting, .. }) = parked.remove(state) else {
            return Err(Fault::other("it is gone"));
        };
        let _ = waiting.send(answer);
        Ok(call)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, ParkedCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn calls_take_turns_and_too_many_are_refused() {
        let (turns, all) = (ClientCallSlots::new(), Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS_OF_ALL)));
        let mut places = Vec::new();
        for _ in 0..limits::MCP_SERVE_CALLS {
            places.push(turns.take(&all).await.ok().unwrap());
        }
        let mut waiting: Vec<_> = (0..limits::MCP_SERVE_CALLS_WAITING).map(|_| Box::pin(turns.take(&all))).collect();
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        assert!(matches!(turns.take(&all).await.err(), Some(Fault::RateLimited { .. })));
        places.pop();
        assert!(poll!(&mut waiting[0]).is_ready());
        drop(waiting);
        places.clear();
        assert!(turns.take(&all).await.is_ok(), "whoever gave up waits no more");
        let _all: Vec<_> =
            (0..limits::MCP_SERVE_CALLS_OF_ALL).map(|_| Arc::clone(&all).try_acquire_owned().unwrap()).collect();
        assert!(poll!(Box::pin(ClientCallSlots::new().take(&all))).is_pending(), "others have all places");
    }
}
