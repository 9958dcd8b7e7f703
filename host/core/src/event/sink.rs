use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::SystemTime,
};

use tokio::sync::broadcast;

use super::{
    Event, PropagatedSpan, RunSpans, StepSpan, StreamEvent,
    event_queue::{EventQueue, QueueReader, wait_for_room},
};
use crate::limits;

/// A handle to which events are emitted. Clones share one hub, as do the sinks of [runs](EventSink::of_run).
#[derive(Debug, Clone, Default)]
pub struct EventSink(Option<Arc<SinkScope>>);

/// A hub, and the run that all events are about that are emitted in this scope.
#[derive(Debug)]
struct SinkScope {
    hub: Arc<EventHub>,
    run: Option<Arc<str>>,
    parent: Option<Arc<str>>,
    /// The tool call that the scope belongs to. It is set only for runs that have spans.
    call: Option<Arc<str>>,
}

#[derive(Default)]
struct EventHub {
    /// The number of events so far. It is locked while an event is handed to taps and readers, so that each of them gets all
    /// events in the order of their numbers; where nobody listens it is not locked.
    sequence: Mutex<u64>,
    /// The number of runs that have begun.
    runs: AtomicU64,
    /// Callbacks that are called first, synchronously; created for the first tap.
    taps: OnceLock<RwLock<Arc<[EventTap]>>>,
    /// Set once a tap wants the events that are otherwise created for readers.
    is_recorded: AtomicBool,
    /// Set once the host ends in the middle of the runs.
    is_interrupted: AtomicBool,
    /// Readers for which the run waits.
    followers: RwLock<Arc<[Arc<EventQueue>]>>,
    /// Readers for which the run does not wait; created for the first observer.
    observers: OnceLock<broadcast::Sender<StreamEvent>>,
    /// The open spans of the runs, if telemetry exports them.
    spans: OnceLock<Arc<dyn RunSpans>>,
    /// The span of another host to which the runs belong.
    outer_span: OnceLock<PropagatedSpan>,
}

/// A callback that is called for each event where it is emitted.
type EventTap = Arc<dyn Fn(&StreamEvent) + Send + Sync>;

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let observers = self.observers.get().map_or(0, broadcast::Sender::receiver_count);
        let (followers, is_tapped) = (self.followers().len(), self.taps.get().is_some());
        write!(f, "EventHub {{ followers: {followers}, observers: {observers}, is_tapped: {is_tapped} }}")
    }
}

impl EventSink {
    /// Returns a sink that discards every event.
    pub fn none() -> Self {
        Self(None)
    }

    /// Creates a sink without readers: see [`EventSink::follow`] and [`EventSink::observe`].
    pub fn new() -> Self {
        Self(Some(Arc::new(SinkScope { hub: Arc::default(), run: None, parent: None, call: None })))
    }

    /// Creates a sink with one follower.
    pub fn channel() -> (Self, EventStream) {
        let sink = Self::new();
        let stream = sink.follow();
        (sink, stream)
    }

    /// Returns a sink with the same taps and readers whose events are about the run with the id `run`, which works for the
    /// run with the id `parent`.
    pub fn of_run(&self, run: Arc<str>, parent: Option<Arc<str>>) -> Self {
        let scope =
            |scope: &Arc<SinkScope>| SinkScope { hub: Arc::clone(&scope.hub), run: Some(run), parent, call: None };
        Self(self.0.as_ref().map(scope).map(Arc::new))
    }

    /// Makes this the sink of a tool call of its run, so that requests to other hosts name the span of the call. Does
    /// nothing for a run that has no spans.
    pub(crate) fn enter_call(&mut self, call: &Arc<str>) {
        let Some(scope) = self.0.as_ref().filter(|scope| scope.hub.spans.get().is_some()) else { return };
        let SinkScope { hub, run, parent, .. } = &**scope;
        let (hub, call) = (Arc::clone(hub), Some(Arc::clone(call)));
        self.0 = Some(Arc::new(SinkScope { hub, run: run.clone(), parent: parent.clone(), call }));
    }

    /// Sets the open spans of the runs of this sink. Only the first call has an effect.
    pub fn set_spans(&self, spans: Arc<dyn RunSpans>) {
        if let Some(scope) = &self.0 {
            // An error means that there are some: a run has one identity.
            let _ = scope.hub.spans.set(spans);
        }
    }

    /// Returns the step that this sink is for; `None` if its run has no spans.
    pub fn step_span(&self) -> Option<StepSpan> {
        let scope = self.0.as_ref()?;
        let (spans, run) = (Arc::clone(scope.hub.spans.get()?), scope.run.clone()?);
        Some(StepSpan { spans, run, call: scope.call.clone() })
    }

    /// Sets the span of another host to which the runs of this sink belong. It has an effect before telemetry observes the
    /// sink, and only the first call has one.
    pub fn set_outer_span(&self, span: PropagatedSpan) {
        if let Some(scope) = &self.0 {
            // An error means that there is one.
            let _ = scope.hub.outer_span.set(span);
        }
    }

    /// Returns the span of another host to which the runs of this sink belong.
    pub fn outer_span(&self) -> Option<&PropagatedSpan> {
        self.0.as_ref()?.hub.outer_span.get()
    }

    /// Returns the sink of a new run that works for the run of this sink. The first run has this name as its id, each
    /// further one the name and its number.
    pub(super) fn of_new_run(&self, name: &Arc<str>) -> Self {
        let Some(scope) = &self.0 else { return Self(None) };
        let run = match scope.hub.runs.fetch_add(1, Ordering::Relaxed) {
            0 => Arc::clone(name),
            number => format!("{name}.{number}").into(),
        };
        self.of_run(run, scope.run.clone())
    }

    /// Returns the id of the run that the events of this sink are about.
    pub fn run(&self) -> Option<&Arc<str>> {
        self.0.as_ref()?.run.as_ref()
    }

    /// Adds a reader that loses no event: while it is more than [`limits::EVENT_QUEUE`] events behind, the run waits for it.
    /// The reader gets the events emitted from now on.
    pub fn follow(&self) -> EventStream {
        let queue = Arc::<EventQueue>::default();
        match &self.0 {
            Some(scope) => {
                let mut followers = scope.hub.followers.write().unwrap_or_else(PoisonError::into_inner);
                let open = followers.iter().filter(|there| !there.is_closed()).cloned();
                *followers = open.chain([Arc::clone(&queue)]).collect();
            }
            None => queue.end(),
        }
        EventStream(EventReader::Follower(QueueReader(queue)))
    }

    /// Adds a reader that never delays the run: when it is more than [`limits::EVENT_QUEUE`] events behind, the oldest are
    /// dropped, and [`Event::Missed`] reports how many. The reader gets the events emitted from now on.
    pub fn observe(&self) -> EventStream {
        let (events, newest) = match &self.0 {
            Some(scope) => {
                let sequence = scope.hub.sequence.lock().unwrap_or_else(PoisonError::into_inner);
                let observers = scope.hub.observers.get_or_init(|| broadcast::channel(limits::EVENT_QUEUE).0);
                (observers.subscribe(), *sequence)
            }
            None => (broadcast::channel(1).1, 0),
        };
        EventStream(EventReader::Observer { events, newest })
    }

    /// Registers a callback for each event from now on. The task that emits an event calls `tap` synchronously, before any
    /// reader gets the event and one event at a time, so `tap` must not block, and must not emit an event to the same sink.
    /// A tap alone causes only those events to be created that do not depend on readers: see
    /// [`is_heard`](Self::is_heard). A sink from [`EventSink::none`] never calls it.
    pub fn tap(&self, tap: Arc<dyn Fn(&StreamEvent) + Send + Sync>) {
        let Some(scope) = &self.0 else { return };
        let mut taps = scope.hub.taps.get_or_init(RwLock::default).write().unwrap_or_else(PoisonError::into_inner);
        *taps = taps.iter().cloned().chain([tap]).collect();
    }

    /// Registers a callback like [`tap`](Self::tap), for which all events are created as for a reader, except the pieces of
    /// replies.
    pub fn record(&self, tap: Arc<dyn Fn(&StreamEvent) + Send + Sync>) {
        if let Some(scope) = &self.0 {
            self.tap(tap);
            scope.hub.is_recorded.store(true, Ordering::Relaxed);
        }
    }

    /// Makes the runs of this sink end as in a crash: those that are dropped from now on have no [`Event::RunFinished`].
    pub fn interrupt(&self) {
        self.0.iter().for_each(|scope| scope.hub.is_interrupted.store(true, Ordering::Relaxed));
    }

    /// Returns `true` once the runs of this sink [are interrupted](Self::interrupt).
    pub fn is_interrupted(&self) -> bool {
        self.0.as_ref().is_some_and(|scope| scope.hub.is_interrupted.load(Ordering::Relaxed))
    }

    /// Emits an event. It reaches every tap and reader before this function returns; the future waits while a follower is
    /// behind. Followers that have gone away are skipped.
    pub fn emit(&self, event: Event) -> impl Future<Output = ()> + Send + use<> {
        // Neither `async` nor holding the event: the emitter's future would reserve space for it twice, and few runs have a
        // follower that is behind.
        let behind = self.publish(event, limits::EVENT_BACKLOG);
        let waiting = (!behind.is_empty()).then(|| Box::pin(wait_for_room(behind)));
        async {
            if let Some(waiting) = waiting {
                waiting.await;
            }
        }
    }

    /// Emits an event without waiting: a reader that is [`limits::EVENT_QUEUE`] events behind misses it. Use it where
    /// waiting is impossible, such as when a run is dropped.
    pub fn emit_now(&self, event: Event) {
        self.publish(event, limits::EVENT_QUEUE);
    }

    /// Emits an event of another sink without waiting, like [`EventSink::emit_now`]. It is about the same run as there, and
    /// gets the time and the next number of this sink.
    pub fn emit_again_now(&self, StreamEvent { run, parent, event, .. }: StreamEvent) {
        if let Some(scope) = &self.0 {
            scope.hub.publish(run, parent, event, limits::EVENT_QUEUE);
        }
    }

    /// Hands an event to all taps and readers. Returns the followers that are too far behind.
    fn publish(&self, event: Event, most: usize) -> Vec<Arc<EventQueue>> {
        let Some(scope) = &self.0 else { return Vec::new() };
        if !scope.hub.is_heard() {
            return Vec::new();
        }
        scope.hub.publish(scope.run.clone(), scope.parent.clone(), event, most)
    }

    /// Returns `true` if there may be a reader or a tap. [`Event::PluginCall`] is created for either, questions and warnings
    /// always, all other events only for [readers and recorders](Self::is_watched).
    pub fn is_heard(&self) -> bool {
        self.0.as_ref().is_some_and(|scope| scope.hub.is_heard())
    }

    /// Returns `true` if there may be a reader or a [recorder](Self::record). Lets a caller skip creating an event that
    /// nobody would get.
    pub fn is_watched(&self) -> bool {
        self.0.as_ref().is_some_and(|scope| scope.hub.is_watched())
    }

    /// Returns `true` if there may be a reader, which also gets the pieces of replies.
    pub fn has_readers(&self) -> bool {
        self.0.as_ref().is_some_and(|scope| scope.hub.has_readers())
    }
}

impl EventHub {
    fn is_heard(&self) -> bool {
        self.taps.get().is_some() || self.is_watched()
    }

    fn is_watched(&self) -> bool {
        self.is_recorded.load(Ordering::Relaxed) || self.has_readers()
    }

    fn has_readers(&self) -> bool {
        self.observers.get().is_some_and(|observers| observers.receiver_count() > 0)
            || self.followers.read().unwrap_or_else(PoisonError::into_inner).iter().any(|queue| !queue.is_closed())
    }

    /// Gives an event its time and number, and hands it to all taps and readers. A follower that has `most` events left to
    /// read misses it. Returns the followers that are too far behind.
    fn publish(
        &self,
        run: Option<Arc<str>>,
        parent: Option<Arc<str>>,
        event: Event,
        most: usize,
    ) -> Vec<Arc<EventQueue>> {
        let mut newest = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        *newest += 1;
        let event = StreamEvent { sequence: *newest, time: SystemTime::now(), run, parent, event };
        if let Some(taps) = self.taps.get() {
            let taps = Arc::clone(&taps.read().unwrap_or_else(PoisonError::into_inner));
            taps.iter().for_each(|tap| tap(&event));
        }
        if let Some(observers) = self.observers.get() {
            // An error means that no observer is left.
            let _ = observers.send(event.clone());
        }
        let followers = self.followers();
        if let Some((last, others)) = followers.split_last() {
            others.iter().for_each(|queue| queue.push(event.clone(), most));
            last.push(event, most);
        }
        drop(newest);
        followers.iter().filter(|queue| queue.is_behind()).cloned().collect()
    }

    fn followers(&self) -> Arc<[Arc<EventQueue>]> {
        Arc::clone(&self.followers.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for EventHub {
    fn drop(&mut self) {
        self.followers().iter().for_each(|queue| queue.end());
    }
}

/// The events of a run, in order. The stream ends when every sink is dropped.
#[derive(Debug)]
pub struct EventStream(EventReader);

#[derive(Debug)]
enum EventReader {
    Follower(QueueReader),
    Observer {
        events: broadcast::Receiver<StreamEvent>,
        /// The number of the newest event that was read or missed.
        newest: u64,
    },
}

impl EventStream {
    /// Returns the next event with its place in the stream; `None` when the stream has ended. Cancel safe.
    ///
    /// [`Event::Missed`] bears the number of the last event that was missed.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        match &mut self.0 {
            EventReader::Follower(queue) => queue.next().await,
            EventReader::Observer { events, newest } => match events.recv().await {
                Ok(event) => {
                    *newest = event.sequence;
                    Some(event)
                }
                Err(broadcast::error::RecvError::Lagged(count)) => {
                    *newest += count;
                    let (sequence, time) = (*newest, SystemTime::now());
                    Some(StreamEvent { sequence, time, run: None, parent: None, event: Event::Missed { count } })
                }
                Err(broadcast::error::RecvError::Closed) => None,
            },
        }
    }

    /// Returns the next event without its place in the stream; `None` when the stream has ended. Cancel safe.
    pub async fn next_event(&mut self) -> Option<Event> {
        self.next().await.map(|next| next.event)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;
    use crate::event::SpanDestination;

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
            assert_eq!((first.next_event().await, second.next_event().await), (Some(event(n)), Some(event(n))));
        }
        telling.await.unwrap();
        let missed = slow.next().await.unwrap();
        assert_eq!(
            (missed.sequence, missed.event),
            (limits::EVENT_QUEUE as u64, Event::Missed { count: limits::EVENT_QUEUE as u64 })
        );
        assert_eq!(slow.next_event().await, Some(event(limits::EVENT_QUEUE)));
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
        assert_eq!(follower.next_event().await, Some(event(limits::EVENT_QUEUE)));
        assert_eq!(observer.next_event().await, Some(event(limits::EVENT_QUEUE)));
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
            Arc::new(move |event: &StreamEvent| {
                let Event::Warning { message } = &event.event else { panic!("{event:?}") };
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
        sink.record(tap("d"));
        assert!(sink.is_watched() && !sink.has_readers(), "a recorder is no reader, but wants its events");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn concurrent_emitters_keep_numbers_in_order() {
        let (sink, mut first) = EventSink::channel();
        let (mut second, mut observer) = (sink.follow(), sink.observe());
        let tapped = Arc::<Mutex<Vec<u64>>>::default();
        sink.tap({
            let tapped = Arc::clone(&tapped);
            Arc::new(move |event| tapped.lock().unwrap().push(event.sequence))
        });
        let (emitters, each) = (8, limits::EVENT_QUEUE);
        for emitter in 0..emitters {
            let sink = sink.of_run(emitter.to_string().into(), None);
            tokio::spawn(async move {
                for n in 0..each {
                    sink.emit(event(n)).await;
                }
            });
        }
        drop(sink);
        let mut of_emitters = vec![0; emitters];
        let observing = tokio::spawn(async move {
            let mut last = 0;
            while let Some(next) = observer.next().await {
                let missed = if let Event::Missed { count } = next.event { count - 1 } else { 0 };
                assert_eq!(next.sequence, last + 1 + missed);
                last = next.sequence;
            }
            last
        });
        for sequence in 1..=(emitters * each) as u64 {
            let (one, other) = (first.next().await.unwrap(), second.next().await.unwrap());
            assert_eq!((one.sequence, &one), (sequence, &other));
            let of_emitter = &mut of_emitters[one.run.unwrap().parse::<usize>().unwrap()];
            assert_eq!(one.event, event(*of_emitter), "the events of one run stay in order");
            *of_emitter += 1;
        }
        assert_eq!((first.next().await, second.next().await), (None, None));
        assert_eq!(observing.await.unwrap(), (emitters * each) as u64);
        assert!(tapped.lock().unwrap().iter().copied().eq(1..=(emitters * each) as u64));
    }

    #[tokio::test]
    async fn emitters_wait_until_their_reader_reads_or_leaves() {
        let (sink, mut stream) = EventSink::channel();
        for n in 0..limits::EVENT_QUEUE {
            sink.emit(event(n)).await;
        }
        let (mut one, mut other) = (Box::pin(sink.emit(event(1))), Box::pin(sink.emit(event(2))));
        assert!(poll!(&mut one).is_pending() && poll!(&mut other).is_pending());
        drop((stream.next().await, stream.next().await));
        one.await;
        other.await;
        let mut last = Box::pin(sink.emit(event(3)));
        assert!(poll!(&mut last).is_pending());
        drop(stream);
        last.await;
        assert!(!sink.is_watched());
    }

    #[tokio::test]
    async fn backlog_of_many_emitters_is_bounded() {
        let (sink, mut stream) = EventSink::channel();
        // Each of these has emitted its event, and waits.
        let waiting: Vec<_> = (0..limits::EVENT_BACKLOG + 3).map(|n| sink.emit(event(n))).collect();
        drop(sink);
        let mut read = Vec::new();
        while let Some(next) = stream.next().await {
            read.push(next.sequence);
        }
        assert!(read.into_iter().eq(1..=limits::EVENT_BACKLOG as u64), "the gap comes last");
        for waiting in waiting {
            waiting.await;
        }
    }

    #[tokio::test]
    async fn runs_of_one_sink_have_ids_of_their_own() {
        let (sink, mut stream) = EventSink::channel();
        let name = Arc::<str>::from("r");
        let first = sink.of_new_run(&name);
        let child = first.of_new_run(&name);
        let (second, elsewhere) = (child.of_new_run(&name), sink.of_new_run(&name));
        for (n, sink) in [&sink, &first, &child, &second, &elsewhere].into_iter().enumerate() {
            sink.emit(event(n)).await;
        }
        for (run, parent) in
            [(None, None), (Some("r"), None), (Some("r.1"), Some("r")), (Some("r.2"), Some("r.1")), (Some("r.3"), None)]
        {
            let next = stream.next().await.unwrap();
            assert_eq!((next.run.as_deref(), next.parent.as_deref()), (run, parent), "{next:?}");
        }
        let (other, mut copies) = EventSink::channel();
        child.emit_now(event(7));
        other.emit_again_now(stream.next().await.unwrap());
        let copy = copies.next().await.unwrap();
        assert_eq!((copy.sequence, copy.run.as_deref(), copy.parent.as_deref()), (1, Some("r.1"), Some("r")));
        assert_eq!(copy.event, event(7));
        assert!(EventSink::none().of_new_run(&name).run().is_none());
    }

    /// Tells every destination the id of a run and a call as the state of a span.
    #[derive(Debug)]
    struct NamedSteps;

    impl RunSpans for NamedSteps {
        fn span_for(&self, run: &str, call: Option<&str>, _: SpanDestination<'_>) -> Option<PropagatedSpan> {
            let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
            PropagatedSpan::parse(Some(parent), Some(&format!("{run}/{}", call.unwrap_or_default())))
        }
    }

    #[test]
    fn calls_are_steps_of_runs_that_have_spans() {
        let step = |sink: &EventSink| {
            let span = sink.step_span()?.span_for(SpanDestination::McpProgram("files"))?;
            Some(span.state.unwrap().to_string())
        };
        let (sink, call) = (EventSink::new(), Arc::<str>::from("c"));
        let mut run = sink.of_run("r".into(), None);
        run.enter_call(&call);
        assert_eq!(step(&run), None, "it has no spans");
        sink.set_spans(Arc::new(NamedSteps));
        assert_eq!((step(&sink), step(&run)), (None, Some("r/".into())));
        run.enter_call(&call);
        assert_eq!(step(&run), Some("r/c".into()));
        assert_eq!(step(&run.of_new_run(&"r".into())), Some("r/".into()), "the first run has the name as its id");
        let mut none = EventSink::none();
        none.enter_call(&call);
        assert_eq!(step(&none), None);
    }

    #[test]
    fn first_outer_span_counts() {
        let span = |parent: &str| PropagatedSpan::parse(Some(parent), None).unwrap();
        let first = span("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        let sink = EventSink::new();
        assert_eq!(sink.outer_span(), None);
        sink.set_outer_span(first.clone());
        sink.set_outer_span(span("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"));
        assert_eq!(sink.of_run("r".into(), None).outer_span(), Some(&first));
    }
}
