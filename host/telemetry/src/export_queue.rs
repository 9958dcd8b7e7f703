//! Spans or log records that wait to be exported.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prost::Message;
use shelly_core::limits;

/// A bounded queue. It never waits: what does not fit is dropped and counted.
pub(crate) struct ExportQueue<T>(Mutex<QueuedItems<T>>);

struct QueuedItems<T> {
    /// The items, each with its bytes.
    items: VecDeque<(T, usize)>,
    bytes: usize,
    dropped: u64,
    /// Items that were taken to be exported and of which it is not known that they were.
    unsent: u64,
}

impl<T: Message> ExportQueue<T> {
    pub fn new() -> Self {
        Self(Mutex::new(QueuedItems { items: VecDeque::new(), bytes: 0, dropped: 0, unsent: 0 }))
    }

    /// Adds items. Returns `true` if there are enough for a request.
    pub fn add(&self, items: impl IntoIterator<Item = T>) -> bool {
        let mut queued = self.queued();
        for item in items {
            let bytes = item.encoded_len();
            if queued.items.len() >= limits::TELEMETRY_QUEUE || queued.bytes + bytes > limits::TELEMETRY_QUEUE_BYTES {
                queued.dropped += 1;
                continue;
            }
            queued.bytes += bytes;
            queued.items.push_back((item, bytes));
        }
        queued.items.len() >= limits::TELEMETRY_BATCH || queued.bytes >= limits::TELEMETRY_BATCH_BYTES
    }

    /// Takes the items of the next request, the oldest first; none if there are none.
    pub fn take_batch(&self) -> Vec<T> {
        let mut queued = self.queued();
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        while batch.len() < limits::TELEMETRY_BATCH
            && batch_bytes < limits::TELEMETRY_BATCH_BYTES
            && let Some((item, bytes)) = queued.items.pop_front()
        {
            batch_bytes += bytes;
            queued.bytes -= bytes;
            batch.push(item);
        }
        queued.unsent += batch.len() as u64;
        batch
    }

    /// Notes that items were exported.
    pub fn note_sent(&self, count: u64) {
        let mut queued = self.queued();
        queued.unsent = queued.unsent.saturating_sub(count);
    }

    /// Counts items that were dropped before they came here.
    pub fn note_dropped(&self, count: u64) {
        self.queued().dropped += count;
    }

    /// Returns the number of items that were dropped, or whose export failed.
    pub fn lost(&self) -> u64 {
        let queued = self.queued();
        queued.dropped + queued.unsent
    }

    /// Returns the number of items that were not exported, those that still wait included.
    pub fn not_exported(&self) -> u64 {
        let waiting = self.queued().items.len() as u64;
        self.lost() + waiting
    }

    fn queued(&self) -> MutexGuard<'_, QueuedItems<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;

    fn span(bytes: usize) -> Span {
        Span { name: "x".repeat(bytes), ..Span::default() }
    }

    #[test]
    fn full_queue_drops_and_counts() {
        let queue = ExportQueue::new();
        assert!(!queue.add([span(1)]));
        assert!(queue.add((1..limits::TELEMETRY_QUEUE).map(|_| span(1))));
        assert_eq!(queue.not_exported(), limits::TELEMETRY_QUEUE as u64);
        queue.add([span(1), span(1)]);
        assert_eq!(queue.lost(), 2);
        let batch = queue.take_batch();
        assert_eq!(batch.len(), limits::TELEMETRY_BATCH);
        assert_eq!(queue.lost(), 2 + limits::TELEMETRY_BATCH as u64, "it is not known that they arrived");
        queue.note_sent(batch.len() as u64);
        queue.note_dropped(1);
        assert_eq!(queue.lost(), 3);
        queue.add([span(1)]);
        assert_eq!(queue.lost(), 3, "there is room again");
    }

    #[test]
    fn queue_is_bounded_in_bytes() {
        let queue = ExportQueue::new();
        let large = limits::TELEMETRY_BATCH_BYTES;
        assert!(queue.add([span(large)]), "enough for a request");
        queue.add((0..4).map(|_| span(large)));
        assert_eq!(queue.lost(), 2, "four and their tags are more than fit");
        assert_eq!([1, 1, 1, 0], [(); 4].map(|()| queue.take_batch().len()));
    }
}
