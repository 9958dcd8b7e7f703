//! The queue between the emitters of events and one reader that gets all of them.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::StreamEvent;
use crate::limits;

/// The events that one follower has not read. An event is in it as soon as it is emitted, so that the order does not depend
/// on which emitter waits for room first; the emitter waits afterwards.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: Mutex<VecDeque<StreamEvent>>,
    /// `true` once the reader has gone away.
    is_closed: AtomicBool,
    /// `true` once no event will be added.
    has_ended: AtomicBool,
    /// Wakes the reader.
    arrival: Notify,
    /// Wakes the emitters that wait for the reader.
    room: Notify,
}

impl EventQueue {
    /// Returns `true` if the reader has gone away.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns `true` if emitters have to wait for the reader.
    pub fn is_behind(&self) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).len() > limits::EVENT_QUEUE && !self.is_closed()
    }

    /// Adds an event, unless `most` wait already or the reader has gone away.
    pub fn push(&self, event: StreamEvent, most: usize) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < most && !self.is_closed() {
            events.push_back(event);
            drop(events);
            self.arrival.notify_one();
        }
    }

    /// Tells the reader that no event will be added.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.arrival.notify_one();
    }

    fn pop(&self) -> Option<StreamEvent> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let event = events.pop_front();
        let has_caught_up = event.is_some() && events.len() == limits::EVENT_QUEUE;
        drop(events);
        if has_caught_up {
            self.room.notify_waiters();
        }
        event
    }
}

/// The reader of a queue. Dropping it frees the emitters that wait for it.
#[derive(Debug)]
pub(super) struct QueueReader(pub Arc<EventQueue>);

impl QueueReader {
    /// Returns the next event; `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            // Read before the queue: the last event may come in between.
            let has_ended = self.0.has_ended.load(Ordering::Acquire);
            match self.0.pop() {
                Some(event) => return Some(event),
                None if has_ended => return None,
                // It remembers a notification from before this call.
                None => self.0.arrival.notified().await,
            }
        }
    }
}

impl Drop for QueueReader {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.0.room.notify_waiters();
    }
}

/// Waits until none of these readers is behind.
pub(super) async fn wait_for_room(queues: Vec<Arc<EventQueue>>) {
    for queue in queues {
        loop {
            let mut room = pin!(queue.room.notified());
            // From here on a notification is not missed.
            room.as_mut().enable();
            if !queue.is_behind() {
                break;
            }
            room.await;
        }
    }
}
