//! Bounds on garbage and unsolicited messages of a server, and the reason why its connection ended.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use shelly_core::limits;

/// The reason why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum DisconnectReason {
    #[error("the server closed the connection")]
    Closed,
    #[error(
        "the server sent more than {} lines in a row that are not messages of the protocol",
        limits::MCP_GARBAGE_LINES
    )]
    Garbage,
    #[error(
        "the server sent too many unrequested messages: more than {} in {:?}",
        limits::MCP_UNASKED_MESSAGES,
        limits::MCP_UNASKED_WINDOW
    )]
    Flood,
    #[error("the server sent a message of more than {} bytes", limits::MCP_SKIPPED_BYTES)]
    Endless,
    #[error("the server read no input for {:?}", limits::MCP_WRITE_TIME)]
    Deaf,
}

/// Counts the garbage and the unsolicited messages of one connection. Only the first reason to end it is kept.
#[derive(Debug, Default)]
pub(super) struct ConnectionMonitor {
    ended: OnceLock<DisconnectReason>,
    lost: CancellationToken,
    count: Mutex<MonitorCounters>,
}

#[derive(Debug, Default)]
struct MonitorCounters {
    garbage: u32,
    unasked: u32,
    since: Option<Instant>,
}

impl ConnectionMonitor {
    /// Ends the connection, for this reason unless it has ended before.
    pub fn give_up(&self, why: DisconnectReason) {
        let _ = self.ended.set(why);
        self.lost.cancel();
    }

    /// Returns the reason why the connection ended; `None` while it holds.
    pub fn ended(&self) -> Option<DisconnectReason> {
        self.ended.get().copied()
    }

    /// Waits for the end of the connection.
    pub fn until_lost(self: &Arc<Self>) -> impl Future<Output = DisconnectReason> + Send + use<> {
        let this = Arc::clone(self);
        async move {
            this.lost.cancelled().await;
            this.ended().unwrap_or(DisconnectReason::Closed)
        }
    }

    /// Counts a line that is no message; it counts as unsolicited too.
    pub fn garbage(&self) {
        let mut count = self.count();
        count.garbage += 1;
        let too_much = count.garbage > limits::MCP_GARBAGE_LINES;
        drop(count);
        if too_much {
            self.give_up(DisconnectReason::Garbage);
        }
        self.unasked();
    }

    /// Ends a row of garbage: a message came.
    pub fn message(&self) {
        self.count().garbage = 0;
    }

    /// Counts a message that answers no request.
    pub fn unasked(&self) {
        let (mut count, now) = (self.count(), Instant::now());
        if count.since.is_none_or(|since| now - since >= limits::MCP_UNASKED_WINDOW) {
            (count.since, count.unasked) = (Some(now), 0);
        }
        count.unasked += 1;
        let too_much = count.unasked > limits::MCP_UNASKED_MESSAGES;
        drop(count);
        if too_much {
            self.give_up(DisconnectReason::Flood);
        }
    }

    fn count(&self) -> std::sync::MutexGuard<'_, MonitorCounters> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn garbage_is_tolerated_and_floods_disconnect() {
        let patience = ConnectionMonitor::default();
        for round in 0..4 * limits::MCP_GARBAGE_LINES {
            patience.garbage();
            if round % 2 == 0 {
                patience.message();
            }
        }
        assert_eq!(patience.ended(), None);
        (0..limits::MCP_GARBAGE_LINES).for_each(|_| patience.garbage());
        assert_eq!(patience.ended(), Some(DisconnectReason::Garbage));

        let patience = Arc::<ConnectionMonitor>::default();
        for _ in 0..3 {
            (0..limits::MCP_UNASKED_MESSAGES).for_each(|_| patience.unasked());
            tokio::time::advance(limits::MCP_UNASKED_WINDOW).await;
        }
        assert_eq!(patience.ended(), None);
        (0..=limits::MCP_UNASKED_MESSAGES).for_each(|_| patience.unasked());
        assert_eq!(patience.ended(), Some(DisconnectReason::Flood));
        patience.give_up(DisconnectReason::Closed);
        let lost = tokio::time::timeout(Duration::ZERO, patience.until_lost()).await;
        assert_eq!(lost, Ok(DisconnectReason::Flood), "the first reason counts");
    }
}
