//! The events of a run, as they happen: one closed enum and one bounded stream.

mod run_caller;

use std::{
    any::Any,
    fmt,
    future::Future,
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use serde::{Deserialize, Serialize, Serializer};
use tokio::sync::{broadcast, mpsc};

use crate::{
    chat::{Message, ReplyDelta, Role, StopReason, Usage, as_base64},
    limits,
};

pub use run_caller::RunCaller;

/// The origin of a tool that the agent does not have.
pub const NO_ORIGIN: &str = "none";

/// The identity of a run and its event sink. It is passed through everything that a run does.
#[derive(Debug, Clone)]
pub struct RunCx {
    /// The name of the run.
    pub run: Arc<str>,
    /// The instance name of the agent.
    pub agent: Arc<str>,
    /// The delegation depth; 0 for an agent that a person started.
    pub depth: u32,
    /// The sink for the events of this run.
    pub events: EventSink,
    /// The agent that works in the run, for tools that act in its name.
    pub caller: RunCaller,
    /// Values that live as long as this run.
    pub kept: RunExtensions,
}

impl RunCx {
    /// Creates the context of a run of `agent` without event readers.
    pub fn new(agent: impl Into<Arc<str>>) -> Self {
        Self {
            run: "run".into(),
            agent: agent.into(),
            depth: 0,
            events: EventSink::none(),
            caller: RunCaller::default(),
            kept: RunExtensions::default(),
        }
    }

    /// Returns this context under another run name.
    pub fn with_run(self, run: impl Into<Arc<str>>) -> Self {
        Self { run: run.into(), ..self }
    }

    /// Returns this context with `events` as its sink.
    pub fn with_events(self, events: EventSink) -> Self {
        Self { events, ..self }
    }

    /// Returns this context for another run, without a caller and with empty extensions.
    pub fn anew(&self) -> Self {
        Self { caller: RunCaller::default(), kept: RunExtensions::default(), ..self.clone() }
    }
}

/// Values that crates above the agent attach to one run, one value per type: open component instances, stores of one run.
/// They are dropped with the last clone.
#[derive(Clone, Default)]
pub struct RunExtensions(Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>);

impl RunExtensions {
    /// Returns the value of this type; the first call creates it.
    pub fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = kept.iter().find_map(|there| Arc::clone(there).downcast().ok()) {
            return there;
        }
        let new = Arc::<T>::default();
        kept.push(Arc::clone(&new) as _);
        new
    }
}

impl fmt::Debug for RunExtensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kept")
    }
}

/// One event. Its JSON is one object with the name of the case in `event`; durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Event {
    /// A run has begun. `parent` is the agent that delegated it, `prefix` is shown before its name, `task` is the newest
    /// message that it was given, cut for display.
    RunStarted {
        run: Arc<str>,
        agent: Arc<str>,
        parent: Option<Arc<str>>,
        depth: u32,
        prefix: Arc<str>,
        model: String,
        task: String,
    },
    /// A message was added to the agent's conversation. `message` is `None` for an agent with middleware: a text that the
    /// middleware may still replace must not be seen earlier.
    MessageAdded { agent: Arc<str>, role: Role, message: Option<Arc<Message>> },
    /// The deltas of an agent's replies and its messages are withheld: the middleware named in `by` runs around its runs or
    /// its requests and may still replace the text. Emitted once for each agent; its answer comes as a whole.
    RepliesWithheld { agent: Arc<str>, by: Vec<String> },
    /// A request goes to the model.
    ModelStarted { agent: Arc<str>, iteration: u32, tokens: u64 },
    /// A piece of the reply has arrived.
    ModelDelta { agent: Arc<str>, delta: ReplyDelta },
    /// A request to a model failed; the pieces of its reply that have arrived are void. `again`: the request is sent once
    /// more.
    ModelFailed { agent: Arc<str>, model: String, reason: String, again: bool },
    /// A request does not go to the model at once; `detail` says more, for people.
    ModelWaits { agent: Arc<str>, model: String, wait: ModelWait, detail: String },
    /// The reply is complete.
    ModelFinished {
        agent: Arc<str>,
        iteration: u32,
        model: String,
        stop: StopReason,
        calls: usize,
        usage: Usage,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A tool call begins. Arguments are cut for display.
    ToolStarted { agent: Arc<str>, call: String, tool: String, origin: String, arguments: String },
    /// A tool reports its progress.
    ToolProgress { agent: Arc<str>, call: String, done: f64, total: Option<f64>, message: Option<String> },
    /// A tool call has its result.
    ToolFinished {
        agent: Arc<str>,
        call: String,
        tool: String,
        is_error: bool,
        /// The reason for the failure, in the text that the model is shown, cut for display.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Bytes of the result as the model is shown it.
        bytes: usize,
        /// Time that the tool took, without the middleware around its calls.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A file or folder was changed as a tool had proposed.
    FileChange {
        agent: Arc<str>,
        call: String,
        tool: String,
        /// `create`, `edit`, `remove`, `move`, `copy` or `make-folder`.
        act: &'static str,
        /// The path as the tool names it.
        path: String,
        /// The destination of a move or copy.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// Lines that were added, for a text file.
        #[serde(skip_serializing_if = "Option::is_none")]
        added: Option<usize>,
        /// Lines that were removed, for a text file.
        #[serde(skip_serializing_if = "Option::is_none")]
        removed: Option<usize>,
        /// The party that allowed the change; `None` if the config did.
        by: Option<AnsweredBy>,
    },
    /// An effect has changed the chat or the run.
    EffectEdited { agent: Arc<str>, effect: String, edit: &'static str },
    /// A change that an effect requested was refused.
    EffectRefused { agent: Arc<str>, effect: String, edit: &'static str, reason: String },
    /// An effect failed. `skipped`: the config lets the run continue without it.
    EffectFailed { agent: Arc<str>, effect: String, reason: String, skipped: bool },
    /// A middleware did something other than let a run, a request to a model or a tool call pass. `tool` is the tool of the
    /// call, if the event is about one. `reason` says why the call was denied; for `retry` it names the delay before the
    /// attempt and, if that is shorter than the middleware asked for, the requested delay.
    MiddlewareActed {
        agent: Arc<str>,
        middleware: String,
        action: &'static str,
        tool: Option<String>,
        reason: Option<String>,
    },
    /// A middleware failed. `skipped`: the config lets the run continue without it.
    MiddlewareFailed { agent: Arc<str>, middleware: String, reason: String, skipped: bool },
    /// One call of one exported function of a plugin.
    PluginCall {
        agent: Arc<str>,
        plugin: Arc<str>,
        function: &'static str,
        /// `ok`, or the kind of failure.
        outcome: &'static str,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
        /// CPU time of the call.
        #[serde(rename = "cpu_ms", serialize_with = "millis")]
        cpu: Duration,
        /// Largest linear memory during the call, in bytes.
        memory: usize,
        /// Calls of imported functions; each entry of a folder that the plugin lists counts as one.
        host_calls: u64,
        /// Bytes of strings and lists that the call received; data read from files and the network is not included.
        bytes_in: usize,
        /// Bytes of strings and lists that the call returned; data written to files and the network is not included.
        bytes_out: usize,
        #[serde(skip_serializing_if = "NondeterministicInputs::is_empty")]
        given: NondeterministicInputs,
    },
    /// A call of a plugin waits for memory: `held` of the `total` bytes of all plugins together are in use. Emitted once per
    /// call.
    PluginWaits { agent: Arc<str>, plugin: Arc<str>, held: usize, total: usize },
    /// A plugin has sent, or tried to send, an HTTP request. Emitted when the response head has arrived, or when it is known
    /// why it will not.
    PluginRequest {
        agent: Arc<str>,
        plugin: Arc<str>,
        method: String,
        /// The URL without query, user and password; after redirects, the last one.
        url: String,
        /// `answered`; `refused` by the host; `failed`.
        outcome: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// The reason for which there is no response.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The name of the credential that was sent with the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
        /// Redirects that were followed.
        hops: u32,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A capability that a plugin of an agent wants was granted or denied. Emitted once for each agent, before its first
    /// turn, and whenever a tool turns out to lack a capability during a run, whether it is then granted or not. A plugin's
    /// own claims appear in its other events and never in this one.
    CapabilityDecided {
        agent: Arc<str>,
        plugin: Arc<str>,
        /// The config entry that grants it: `files: [{path: docs, mode: read}]`.
        capability: String,
        allowed: bool,
        /// The config path that grants it, or would have to; for a grant in the middle of a run, who allowed it.
        rule: Arc<str>,
    },
    /// A plugin has written to the log.
    PluginLog { agent: Arc<str>, plugin: Arc<str>, level: LogLevel, message: String },
    /// A team has decided who works next, or that it has finished. `step` counts from 0.
    TeamStep {
        agent: Arc<str>,
        step: u32,
        members: Vec<Arc<str>>,
        done: bool,
        /// The coordinator's reasons, in its own words.
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
    },
    /// A member of a team has replied. `text` is cut for display. It is `None` for a team with middleware: a text that the
    /// middleware may still replace must not be seen earlier.
    MemberReplied { agent: Arc<str>, text: Option<String> },
    /// An agent has handed its task over to another agent, which continues in its place.
    HandedOver { agent: Arc<str>, to: Arc<str>, reason: String },
    /// A vendor has counted more usage than was left of an agent's budget.
    Overspent { agent: Arc<str>, message: String },
    /// An agent waits for a person, or for the policy that answers in a person's place. A question that is never answered
    /// was withdrawn, or is asked again.
    QuestionAsked { agent: Arc<str>, id: u64, question: String },
    /// An agent's question was decided: `yes`, `trust`, `no`, `answered`, `declined` or `nobody`.
    QuestionAnswered { agent: Arc<str>, id: u64, question: String, outcome: &'static str, by: AnsweredBy },
    /// A condition that needs attention; the run continues.
    Warning { message: String },
    /// This reader was too slow: `count` events were dropped before the next one.
    Missed { count: u64 },
    /// A run has ended.
    RunFinished {
        run: Arc<str>,
        agent: Arc<str>,
        /// The error; `None` if the run ended with an answer.
        error: Option<String>,
        iterations: u32,
        usage: Usage,
        /// Usage of the agents that this one delegated to, and of their descendants.
        of_children: Usage,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
}

/// The nondeterministic inputs of a plugin call: the clock readings and random bytes that another call would not get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NondeterministicInputs {
    /// Clock readings in order: milliseconds since 1970, or nanoseconds since the call began for the monotonic clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<u64>,
    /// Random bytes in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub random: Vec<u8>,
    /// `true` if the call got more than [`limits::GIVEN_CLOCK_READINGS`] or [`limits::GIVEN_RANDOM_BYTES`]; the rest is left
    /// out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
}

impl NondeterministicInputs {
    /// Returns `true` if the call got no such input.
    pub fn is_empty(&self) -> bool {
        self.clock.is_empty() && self.random.is_empty() && !self.cut
    }

    /// Adds a reading of the clock in nanoseconds, unless the call got too many.
    pub fn clock(&mut self, reading: u64) {
        if self.clock.len() < limits::GIVEN_CLOCK_READINGS {
            self.clock.push(reading);
        } else {
            self.cut = true;
        }
    }

    /// Adds random bytes, up to what a call may get.
    pub fn random(&mut self, bytes: &[u8]) {
        let room = limits::GIVEN_RANDOM_BYTES - self.random.len();
        self.random.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.cut |= bytes.len() > room;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The reason for which a request does not go to the model at once, and its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelWait {
    /// The request waits until the rate limit of its provider has room.
    RateLimit,
    /// The request was submitted in a batch.
    BatchSubmitted,
    /// The vendor is processing the batch.
    BatchPolling,
    /// The request was answered in a batch.
    BatchCompleted,
    /// The batch failed: the request goes to the model directly.
    BatchFallback,
    /// An attempt failed with a transient error: the request is sent again after a pause.
    Retry,
}

/// The party that decided a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// A person at a front end.
    Person,
    /// The policy for runs without a person.
    Policy,
    /// An earlier answer of a person that trusts the subject from then on.
    Trust,
}

/// The severity of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// Detail for the author of the plugin.
    Debug,
    /// Information about normal operation.
    Info,
    /// A condition that needs attention.
    Warn,
    /// A failure.
    Error,
}

/// Serializes a duration as milliseconds with a fraction: a sandboxed call takes microseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

/// A handle to which events are emitted. Clones share one hub.
#[derive(Debug, Clone, Default)]
pub struct EventSink(Option<Arc<EventHub>>);

#[derive(Default)]
struct EventHub {
    /// Callbacks that are called first, synchronously; created for the first tap.
    taps: OnceLock<RwLock<Arc<[EventTap]>>>,
    /// Readers for which the run waits.
    followers: RwLock<Arc<[mpsc::Sender<Event>]>>,
    /// Readers for which the run does not wait; created for the first observer.
    observers: OnceLock<broadcast::Sender<Event>>,
}

/// A callback that is called for each event where it is emitted.
type EventTap = Arc<dyn Fn(&Event) + Send + Sync>;

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observers = self.observers.get().map_or(0, broadcast::Sender::receiver_count);
        let (followers, is_tapped) = (self.followers().len(), self.taps.get().is_some());
        write!(f, "Hub {{ followers: {followers}, observers: {observers}, is_tapped: {is_tapped} }}")
    }
}

impl EventSink {
    /// Returns a sink that discards every event.
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates a sink without readers: see [`EventSink::follow`] and [`EventSink::observe`].
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Creates a sink with one follower.
    pub fn channel() -> (Self, EventStream) {
        let sink = Self::new();
        let stream = sink.follow();
        (sink, stream)
    }

    /// Adds a reader that loses no event: while it is more than [`limits::EVENT_QUEUE`] events behind, the run waits for it.
    /// The reader gets the events emitted from now on.
    pub fn follow(&self) -> EventStream {
        let (sender, receiver) = mpsc::channel(limits::EVENT_QUEUE);
        if let Some(hub) = &self.0 {
            let mut followers = hub.followers.write().unwrap_or_else(PoisonError::into_inner);
            *followers = followers.iter().filter(|there| !there.is_closed()).cloned().chain([sender]).collect();
        }
        EventStream(EventReader::Follower(receiver))
    }

    /// Adds a reader that never delays the run: when it is more than [`limits::EVENT_QUEUE`] events behind, the oldest are
    /// dropped, and [`Event::Missed`] reports how many. The reader gets the events emitted from now on.
    pub fn observe(&self) -> EventStream {
        let receiver = match &self.0 {
            Some(hub) => hub.observers.get_or_init(|| broadcast::channel(limits::EVENT_QUEUE).0).subscribe(),
            None => broadcast::channel(1).1,
        };
        EventStream(EventReader::Observer(receiver))
    }

    /// Registers a callback for each event from now on. The task that emits an event calls `tap` synchronously, before any
    /// reader gets the event, so `tap` must not block. A tap alone causes only those events to be created that do not depend
    /// on readers: see [`is_heard`](Self::is_heard). A sink from [`EventSink::none`] never calls it.
    pub fn tap(&self, tap: Arc<dyn Fn(&Event) + Send + Sync>) {
        let Some(hub) = &self.0 else { return };
        let mut taps = hub.taps.get_or_init(RwLock::default).write().unwrap_or_else(PoisonError::into_inner);
        *taps = taps.iter().cloned().chain([tap]).collect();
    }

    /// Emits an event. The future waits while a follower is behind; followers that have gone away are skipped.
    pub fn emit(&self, event: Event) -> impl Future<Output = ()> + Send + use<> {
        // Neither `async` nor holding the event: the emitter's future would reserve space for it twice, and few runs have a
        // follower.
        let waiting = self.0.as_ref().and_then(|hub| {
            hub.tell_taps(&event);
            if let Some(observers) = hub.observers.get() {
                // An error means that no observer is left.
                let _ = observers.send(event.clone());
            }
            let followers = hub.followers();
            (!followers.is_empty()).then(|| Box::pin(tell(followers, event)))
        });
        async {
            if let Some(waiting) = waiting {
                waiting.await;
            }
        }
    }

    /// Emits an event without waiting: a reader that is [`limits::EVENT_QUEUE`] events behind misses it. Use it where
    /// waiting is impossible, such as when a run is dropped.
    pub fn emit_now(&self, event: Event) {
        let Some(hub) = &self.0 else { return };
        hub.tell_taps(&event);
        if let Some(observers) = hub.observers.get() {
            // An error means that no observer is left.
            let _ = observers.send(event.clone());
        }
        for follower in &*hub.followers() {
            let _ = follower.try_send(event.clone());
        }
    }

    /// Returns `true` if there may be a reader or a tap. [`Event::PluginCall`] is created for either, questions and warnings
    /// always, all other events only for [readers](Self::is_watched).
    pub fn is_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|hub| hub.taps.get().is_some()) || self.is_watched()
    }

    /// Returns `true` if there may be a reader. Lets a caller skip creating an event that no reader would get.
    pub fn is_watched(&self) -> bool {
        self.0.as_ref().is_some_and(|hub| {
            hub.observers.get().is_some_and(|observers| observers.receiver_count() > 0)
                || hub.followers().iter().any(|follower| !follower.is_closed())
        })
    }
}

impl EventHub {
    fn tell_taps(&self, event: &Event) {
        let Some(taps) = self.taps.get() else { return };
        let taps = Arc::clone(&taps.read().unwrap_or_else(PoisonError::into_inner));
        taps.iter().for_each(|tap| tap(event));
    }

    fn followers(&self) -> Arc<[mpsc::Sender<Event>]> {
        Arc::clone(&self.followers.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sends an event to each follower as soon as it has room.
async fn tell(followers: Arc<[mpsc::Sender<Event>]>, event: Event) {
    let Some((last, others)) = followers.split_last() else { return };
    for follower in others {
        let _ = follower.send(event.clone()).await;
    }
    let _ = last.send(event).await;
}

/// The events of a run, in order. The stream ends when every sink is dropped.
#[derive(Debug)]
pub struct EventStream(EventReader);

#[derive(Debug)]
enum EventReader {
    Follower(mpsc::Receiver<Event>),
    Observer(broadcast::Receiver<Event>),
}

impl EventStream {
    /// Returns the next event; `None` when the stream has ended.
    pub async fn next(&mut self) -> Option<Event> {
        match &mut self.0 {
            EventReader::Follower(events) => events.recv().await,
            EventReader::Observer(events) => match events.recv().await {
                Ok(event) => Some(event),
                Err(broadcast::error::RecvError::Lagged(count)) => Some(Event::Missed { count }),
                Err(broadcast::error::RecvError::Closed) => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(n: usize) -> Event {
        Event::Warning { message: n.to_string() }
    }

    #[tokio::test]
    async fn slow_observer_gets_a_missed_count() {
        let (sink, mut first) = EventSink::channel();
        let (mut second, mut slow) = (sink.follow(), sink.observe());
        let telling = tokio::spawn(async move {
            for n in 0..limits::EVENT_QUEUE * 2 {
                sink.emit(event(n)).await;
            }
        });
        for n in 0..limits::EVENT_QUEUE * 2 {
            assert_eq!((first.next().await, second.next().await), (Some(event(n)), Some(event(n))));
        }
        telling.await.unwrap();
        assert_eq!(slow.next().await, Some(Event::Missed { count: limits::EVENT_QUEUE as u64 }));
        assert_eq!(slow.next().await, Some(event(limits::EVENT_QUEUE)));
        let mut left = 0;
        while slow.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, limits::EVENT_QUEUE - 1);
        assert_eq!(first.next().await, None, "the sink is gone");
    }

    #[tokio::test]
    async fn emit_now_skips_full_followers() {
        let (sink, mut full) = EventSink::channel();
        for n in 0..limits::EVENT_QUEUE {
            sink.emit_now(event(n));
        }
        let (mut follower, mut observer) = (sink.follow(), sink.observe());
        sink.emit_now(event(limits::EVENT_QUEUE));
        drop(sink);
        let mut told = 0;
        while full.next().await.is_some() {
            told += 1;
        }
        assert_eq!(told, limits::EVENT_QUEUE, "it misses the last one");
        assert_eq!(follower.next().await, Some(event(limits::EVENT_QUEUE)));
        assert_eq!(observer.next().await, Some(event(limits::EVENT_QUEUE)));
        EventSink::none().emit_now(event(0));
    }

    #[tokio::test]
    async fn dropped_event_reader_blocks_no_emit() {
        let (sink, first) = EventSink::channel();
        let observer = sink.observe();
        assert!(sink.is_watched());
        drop((first, observer));
        assert!(!sink.is_watched());
        for n in 0..limits::EVENT_QUEUE + 1 {
            sink.emit(event(n)).await;
        }
        assert!(!EventSink::none().is_watched() && EventSink::none().observe().next().await.is_none());
        assert!(EventSink::none().follow().next().await.is_none());
    }

    #[tokio::test]
    async fn event_tap_is_called_before_readers() {
        let told = Arc::new(RwLock::new(Vec::new()));
        let tap = |name: &'static str| -> EventTap {
            let told = Arc::clone(&told);
            Arc::new(move |event: &Event| {
                let Event::Warning { message } = event else { panic!("{event:?}") };
                told.write().unwrap().push(format!("{name}{message}"));
            })
        };
        let (sink, mut reader) = EventSink::channel();
        sink.emit_now(event(0));
        sink.clone().tap(tap("a"));
        let waiting = sink.emit(event(1));
        assert_eq!(*told.read().unwrap(), ["a1"], "nobody need wait for it");
        waiting.await;
        sink.tap(tap("b"));
        sink.emit_now(event(2));
        drop(reader.next().await);
        drop(reader);
        sink.emit(event(3)).await;
        assert_eq!(*told.read().unwrap(), ["a1", "a2", "b2", "a3", "b3"]);
        assert!(sink.is_heard() && !sink.is_watched(), "a tap is no reader");
        let (none, unheard, watched) = (EventSink::none(), EventSink::new(), EventSink::channel());
        none.tap(tap("c"));
        assert!(!none.is_heard() && !unheard.is_heard() && watched.0.is_heard());
        assert!(format!("{sink:?}").contains("is_tapped: true"));
    }

    #[test]
    fn run_extensions_are_dropped_with_the_run() {
        let cx = RunCx::new("ada");
        let (of_run, of_clone) = (cx.kept.get::<Mutex<u32>>(), cx.clone().kept.get::<Mutex<u32>>());
        *of_run.lock().unwrap() = 7;
        assert_eq!(*of_clone.lock().unwrap(), 7);
        assert_eq!(*cx.anew().kept.get::<Mutex<u32>>().lock().unwrap(), 0, "of another run");
        assert_eq!(*cx.kept.get::<Mutex<u8>>().lock().unwrap(), 0, "of another type");
        let weak = Arc::downgrade(&of_run);
        drop((cx, of_run, of_clone));
        assert!(weak.upgrade().is_none());
    }

    #[test]
    fn nondeterministic_inputs_are_cut_at_their_limits() {
        let mut given = NondeterministicInputs::default();
        assert_eq!(serde_json::to_value(&given).unwrap(), serde_json::json!({}));
        given.clock(7);
        given.random(&[0, 255]);
        given.random(&[]);
        let json = serde_json::to_value(&given).unwrap();
        assert_eq!(json, serde_json::json!({"clock": [7], "random": "AP8="}));
        assert_eq!(serde_json::from_value::<NondeterministicInputs>(json).unwrap(), given);
        for (readings, bytes, cut) in [
            (limits::GIVEN_CLOCK_READINGS, limits::GIVEN_RANDOM_BYTES, false),
            (limits::GIVEN_CLOCK_READINGS + 1, 0, true),
            (0, limits::GIVEN_RANDOM_BYTES + 1, true),
        ] {
            let mut given = NondeterministicInputs::default();
            (0..readings).for_each(|reading| given.clock(reading as u64));
            (0..bytes).for_each(|_| given.random(&[1]));
            assert_eq!(given.cut, cut, "{readings} {bytes}");
            assert_eq!(given.clock.len(), readings.min(limits::GIVEN_CLOCK_READINGS));
            assert_eq!(given.random.len(), bytes.min(limits::GIVEN_RANDOM_BYTES));
            given.random(&vec![2; limits::GIVEN_RANDOM_BYTES + 1]);
            assert_eq!((given.random.len(), given.cut), (limits::GIVEN_RANDOM_BYTES, true), "what fits is kept");
        }
    }
}
