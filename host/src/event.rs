//! What happens in a run, as it happens: one closed enum, one bounded stream.

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

/// The origin of a tool that the agent does not have.
pub const NO_ORIGIN: &str = "none";

/// In whose name something is done, and who is told. Threaded through everything that a run does.
#[derive(Debug, Clone)]
pub struct RunCx {
    /// Names the run.
    pub run: Arc<str>,
    /// The instance name of the agent.
    pub agent: Arc<str>,
    /// 0 for an agent that a person started.
    pub depth: u32,
    /// Who is told.
    pub events: EventSink,
    /// What is kept as long as this run goes on.
    pub kept: RunExtensions,
}

impl RunCx {
    /// A run of `agent` that nobody watches.
    pub fn new(agent: impl Into<Arc<str>>) -> Self {
        Self {
            run: "run".into(),
            agent: agent.into(),
            depth: 0,
            events: EventSink::none(),
            kept: RunExtensions::default(),
        }
    }

    /// The same under another name.
    pub fn with_run(self, run: impl Into<Arc<str>>) -> Self {
        Self { run: run.into(), ..self }
    }

    /// The same, told to `events`.
    pub fn with_events(self, events: EventSink) -> Self {
        Self { events, ..self }
    }

    /// The same for another run, of which nothing is kept yet.
    pub fn anew(&self) -> Self {
        Self { kept: RunExtensions::default(), ..self.clone() }
    }
}

/// What parts of the host keep of one run of an agent, and no longer: it goes with the last clone of this. One value of a
/// type.
#[derive(Clone, Default)]
pub struct RunExtensions(Arc<Mutex<Vec<Arc<dyn Any + Send + Sync>>>>);

impl RunExtensions {
    /// The value of this type, made when it is asked for first.
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

/// Something that happened. Its JSON is one object with the name of the case in `event`; durations are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Event {
    /// A run has begun. `parent` is the agent that delegated it, `prefix` what to show before its name, `task` the
    /// newest message that it was given, cut for display.
    RunStarted {
        run: Arc<str>,
        agent: Arc<str>,
        parent: Option<Arc<str>>,
        depth: u32,
        prefix: Arc<str>,
        model: String,
        task: String,
    },
    /// A message has come into the agent's conversation. `message` is none for an agent with middleware: what that may
    /// still replace must not be seen before it did.
    MessageAdded { agent: Arc<str>, role: Role, message: Option<Arc<Message>> },
    /// Pieces of an agent's replies are not shown, nor its messages: what is named in `by` stands around its runs or its
    /// requests and may still put other words in their place. Told once for each agent; its answer comes as a whole.
    RepliesWithheld { agent: Arc<str>, by: Vec<String> },
    /// A request goes to the model.
    ModelStarted { agent: Arc<str>, iteration: u32, tokens: u64 },
    /// A piece of the reply has come.
    ModelDelta { agent: Arc<str>, delta: ReplyDelta },
    /// A request to a model failed: pieces of its reply that have come count for nothing. `again`: it is sent once more.
    ModelFailed { agent: Arc<str>, model: String, reason: String, again: bool },
    /// A request does not go to the model at once; `detail` says more, for people.
    ModelWaits { agent: Arc<str>, model: String, wait: ModelWait, detail: String },
    /// The reply is whole.
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
    /// A tool says how far it is.
    ToolProgress { agent: Arc<str>, call: String, done: f64, total: Option<f64>, message: Option<String> },
    /// A tool call has its result.
    ToolFinished {
        agent: Arc<str>,
        call: String,
        tool: String,
        is_error: bool,
        /// Why it failed, in the words that the model is shown, cut for display.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Of the result as the model is shown it.
        bytes: usize,
        /// Time that the tool took, without what stands around its calls.
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A file or folder was changed, as a tool had proposed.
    FileChange {
        agent: Arc<str>,
        call: String,
        tool: String,
        /// `create`, `edit`, `remove`, `move`, `copy` or `make-folder`.
        act: &'static str,
        /// As the tool names it.
        path: String,
        /// Where it went.
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<String>,
        /// Lines that came, where there are lines.
        #[serde(skip_serializing_if = "Option::is_none")]
        added: Option<usize>,
        /// Lines that went.
        #[serde(skip_serializing_if = "Option::is_none")]
        removed: Option<usize>,
        /// Who allowed it; none: the config.
        by: Option<AnsweredBy>,
    },
    /// An effect has changed the chat or the run.
    EffectEdited { agent: Arc<str>, effect: String, edit: &'static str },
    /// A change that an effect asked for was not made.
    EffectRefused { agent: Arc<str>, effect: String, edit: &'static str, reason: String },
    /// An effect failed. `skipped`: the config lets the run go on without it.
    EffectFailed { agent: Arc<str>, effect: String, reason: String, skipped: bool },
    /// A middleware did something other than let a run, a request to a model or a tool call pass. `tool` is that of the
    /// call, if it is about one; `reason` is why that was denied, and for `retry` how long the attempt is waited for and, if
    /// that is less, what the middleware asked for.
    MiddlewareActed {
        agent: Arc<str>,
        middleware: String,
        action: &'static str,
        tool: Option<String>,
        reason: Option<String>,
    },
    /// A middleware failed. `skipped`: the config lets the run go on without it.
    MiddlewareFailed { agent: Arc<str>, middleware: String, reason: String, skipped: bool },
    /// One call of one exported function of a plugin.
    PluginCall {
        agent: Arc<str>,
        plugin: Arc<str>,
        function: &'static str,
        /// `ok`, or the way in which it failed.
        outcome: &'static str,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
        /// Its time on the processor.
        #[serde(rename = "cpu_ms", serialize_with = "millis")]
        cpu: Duration,
        /// Largest linear memory during the call, in bytes.
        memory: usize,
        /// Calls of functions that it imports; each entry of a folder that it lists counts as one.
        host_calls: u64,
        /// Bytes of texts and lists that it was handed; what it read of files and of the network is not in it.
        bytes_in: usize,
        /// Bytes of texts and lists that it handed over; what it wrote to files and to the network is not in it.
        bytes_out: usize,
        #[serde(skip_serializing_if = "NondeterministicInputs::is_empty")]
        given: NondeterministicInputs,
    },
    /// A call of a plugin waits for memory: `held` of the `total` bytes of all plugins together are held. Told once a call.
    PluginWaits { agent: Arc<str>, plugin: Arc<str>, held: usize, total: usize },
    /// A plugin has sent a request over HTTP, or wanted to: told when the head of the answer is there, or why it is not.
    PluginRequest {
        agent: Arc<str>,
        plugin: Arc<str>,
        method: String,
        /// Without query, user and password; after redirects the last one.
        url: String,
        /// `answered`; `refused` by the host; `failed`.
        outcome: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Why there is no answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The name of the credential that went with it.
        #[serde(skip_serializing_if = "Option::is_none")]
        credential: Option<String>,
        /// Redirects that were followed.
        hops: u32,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
    /// A plugin of an agent has a capability that it wants, or has not: told once for each agent, before its first turn, and
    /// when a tool turns out to lack something and that is opened to it, or not.
    /// What a plugin says comes with its other events and never with this one.
    CapabilityDecided {
        agent: Arc<str>,
        plugin: Arc<str>,
        /// What the config would say to give it: `files: [{path: docs, mode: read}]`.
        capability: String,
        allowed: bool,
        /// The place of the config that gives it, or would have to; of what is opened in the middle of a run who says so.
        rule: Arc<str>,
    },
    /// A plugin has written to the log.
    PluginLog { agent: Arc<str>, plugin: Arc<str>, level: LogLevel, message: String },
    /// A team has decided who works next, or that it is done. `step` counts from 0.
    TeamStep {
        agent: Arc<str>,
        step: u32,
        members: Vec<Arc<str>>,
        done: bool,
        /// Why, in the words of whoever decided.
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
    },
    /// A member of a team has replied. `text` is cut for display, and none for a team with middleware: what that may still
    /// replace must not be seen before it did.
    MemberReplied { agent: Arc<str>, text: Option<String> },
    /// An agent has handed its task to another one, which goes on in its place.
    HandedOver { agent: Arc<str>, to: Arc<str>, reason: String },
    /// A vendor has counted more than was left of an agent's budget.
    Overspent { agent: Arc<str>, message: String },
    /// An agent waits for a person, or for the policy in a person's place. One that is never answered was withdrawn, or
    /// is asked again.
    QuestionAsked { agent: Arc<str>, id: u64, question: String },
    /// What an agent asked is decided: `yes`, `trust`, `no`, `answered`, `declined` or `nobody`.
    QuestionAnswered { agent: Arc<str>, id: u64, question: String, outcome: &'static str, by: AnsweredBy },
    /// Something is not as it should be, and the run goes on.
    Warning { message: String },
    /// This reader was too slow: so many events went by before the next one.
    Missed { count: u64 },
    /// A run has ended.
    RunFinished {
        run: Arc<str>,
        agent: Arc<str>,
        /// None: with an answer.
        error: Option<String>,
        iterations: u32,
        usage: Usage,
        /// Of the agents that this one delegated to, and those below them.
        of_children: Usage,
        #[serde(rename = "duration_ms", serialize_with = "millis")]
        duration: Duration,
    },
}

/// What a call of a plugin was given that another call would not be given: its time and its luck.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NondeterministicInputs {
    /// What clocks said, in the order in which they were asked: milliseconds since 1970, or nanoseconds since the call
    /// began where that was the question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<u64>,
    /// Random bytes, one after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    pub random: Vec<u8>,
    /// There was more than [`limits::GIVEN_CLOCK_READINGS`] and [`limits::GIVEN_RANDOM_BYTES`]: the rest is left out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
}

impl NondeterministicInputs {
    /// Whether it was given nothing of that.
    pub fn is_empty(&self) -> bool {
        self.clock.is_empty() && self.random.is_empty() && !self.cut
    }

    pub(crate) fn clock(&mut self, reading: u64) {
        if self.clock.len() < limits::GIVEN_CLOCK_READINGS {
            self.clock.push(reading);
        } else {
            self.cut = true;
        }
    }

    pub(crate) fn random(&mut self, bytes: &[u8]) {
        let room = limits::GIVEN_RANDOM_BYTES - self.random.len();
        self.random.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.cut |= bytes.len() > room;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Why a request does not go to the model at once, and how far that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelWait {
    /// Until the rate limit of its provider has room.
    RateLimit,
    /// It was handed over with others.
    BatchSubmitted,
    /// The vendor works on its batch.
    BatchPolling,
    /// It was answered in a batch.
    BatchCompleted,
    /// Its batch came to nothing: it goes to the model after all.
    BatchFallback,
    /// An attempt failed for a reason that may pass: it is sent again after a pause.
    Retry,
}

/// Who decided a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    /// Somebody at a front end.
    Person,
    /// The policy for when nobody is there.
    Policy,
    /// It was trusted before.
    Trust,
}

/// How much a log entry matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For the author of the plugin.
    Debug,
    /// Good to know.
    Info,
    /// Not as it should be.
    Warn,
    /// Something failed.
    Error,
}

/// Milliseconds with a fraction: a sandboxed call takes microseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

/// Where events go. Clones go to the same place.
#[derive(Debug, Clone, Default)]
pub struct EventSink(Option<Arc<EventHub>>);

#[derive(Default)]
struct EventHub {
    /// Told first, at once; made for the first of them.
    taps: OnceLock<RwLock<Arc<[EventTap]>>>,
    /// Readers that the run waits for.
    followers: RwLock<Arc<[mpsc::Sender<Event>]>>,
    /// Readers that it does not wait for; made for the first of them.
    observers: OnceLock<broadcast::Sender<Event>>,
}

/// Is told of each event where it happens.
type EventTap = Arc<dyn Fn(&Event) + Send + Sync>;

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observers = self.observers.get().map_or(0, broadcast::Sender::receiver_count);
        let (followers, is_tapped) = (self.followers().len(), self.taps.get().is_some());
        write!(f, "Hub {{ followers: {followers}, observers: {observers}, is_tapped: {is_tapped} }}")
    }
}

impl EventSink {
    /// Nobody is told.
    pub fn none() -> Self {
        Self(None)
    }

    /// A sink that nobody reads yet: see [`EventSink::follow`] and [`EventSink::observe`].
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// A sink and one follower of it.
    pub fn channel() -> (Self, EventStream) {
        let sink = Self::new();
        let stream = sink.follow();
        (sink, stream)
    }

    /// A reader that loses nothing: while it is more than [`limits::EVENT_QUEUE`] events behind, the run waits for it.
    /// It is told what happens from now on.
    pub fn follow(&self) -> EventStream {
        let (sender, receiver) = mpsc::channel(limits::EVENT_QUEUE);
        if let Some(hub) = &self.0 {
            let mut followers = hub.followers.write().unwrap_or_else(PoisonError::into_inner);
            *followers = followers.iter().filter(|there| !there.is_closed()).cloned().chain([sender]).collect();
        }
        EventStream(EventReader::Follower(receiver))
    }

    /// A reader that never holds the run up: if it is more than [`limits::EVENT_QUEUE`] events behind, the oldest go,
    /// and [`Event::Missed`] tells it how many. It is told what happens from now on.
    pub fn observe(&self) -> EventStream {
        let receiver = match &self.0 {
            Some(hub) => hub.observers.get_or_init(|| broadcast::channel(limits::EVENT_QUEUE).0).subscribe(),
            None => broadcast::channel(1).1,
        };
        EventStream(EventReader::Observer(receiver))
    }

    /// Has `tap` told of each event from now on, by whoever it happens to, before any reader and before anything else
    /// happens there: it must not wait. For its sake alone only those events are made that nobody need watch a run for:
    /// see [`is_heard`](Self::is_heard). A sink of [`EventSink::none`] tells it nothing.
    pub fn tap(&self, tap: Arc<dyn Fn(&Event) + Send + Sync>) {
        let Some(hub) = &self.0 else { return };
        let mut taps = hub.taps.get_or_init(RwLock::default).write().unwrap_or_else(PoisonError::into_inner);
        *taps = taps.iter().cloned().chain([tap]).collect();
    }

    /// Tells of an event. The future waits while a follower is behind; who is gone is forgotten.
    pub fn emit(&self, event: Event) -> impl Future<Output = ()> + Send + use<> {
        // Neither `async` nor with the event in it: the future of whoever tells would have room for it twice, and few
        // runs have a follower.
        let waiting = self.0.as_ref().and_then(|hub| {
            hub.tell_taps(&event);
            if let Some(observers) = hub.observers.get() {
                // An error means that nobody listens any more.
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

    /// Tells of an event without waiting: who is [`limits::EVENT_QUEUE`] events behind misses it. For where nothing can be
    /// waited for, such as when a run is dropped.
    pub fn emit_now(&self, event: Event) {
        let Some(hub) = &self.0 else { return };
        hub.tell_taps(&event);
        if let Some(observers) = hub.observers.get() {
            // An error means that nobody listens any more.
            let _ = observers.send(event.clone());
        }
        for follower in &*hub.followers() {
            let _ = follower.try_send(event.clone());
        }
    }

    /// Whether anybody may still listen, or a tap is told: [`Event::PluginCall`] is made for either, questions and warnings
    /// always, all others only for those who [watch](Self::is_watched).
    pub fn is_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|hub| hub.taps.get().is_some()) || self.is_watched()
    }

    /// Whether anybody may still listen: lets a caller skip making an event that nobody would see.
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

/// Hands an event to each of them, once it has room.
async fn tell(followers: Arc<[mpsc::Sender<Event>]>, event: Event) {
    let Some((last, others)) = followers.split_last() else { return };
    for follower in others {
        let _ = follower.send(event.clone()).await;
    }
    let _ = last.send(event).await;
}

/// The events of a run, in order. Ends when every sink is gone.
#[derive(Debug)]
pub struct EventStream(EventReader);

#[derive(Debug)]
enum EventReader {
    Follower(mpsc::Receiver<Event>),
    Observer(broadcast::Receiver<Event>),
}

impl EventStream {
    /// The next event; none when there will be no more.
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
    async fn every_reader_is_told_and_a_slow_one_is_told_what_it_missed() {
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
    async fn what_cannot_wait_is_told_to_whoever_has_room() {
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
    async fn a_reader_that_is_gone_holds_nobody_up() {
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
    async fn a_tap_is_told_at_once_and_before_readers() {
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
    fn what_is_kept_of_a_run_goes_with_it() {
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
    fn what_a_call_was_given_is_kept_up_to_the_bounds() {
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
