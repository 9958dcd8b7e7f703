use std::{
    fmt,
    future::Future,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use tokio::sync::{broadcast, mpsc};

use super::Event;
use crate::limits;

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
}
