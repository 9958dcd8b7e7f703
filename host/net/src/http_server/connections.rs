//! The open HTTP connections: the use of each, and the choice of the one to close when there are too many.

use std::{
    cmp::Reverse,
    collections::HashMap,
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use hyper::body::{Body, Frame, SizeHint};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use shelly_core::limits;

/// Open connections. Clones share them.
#[derive(Clone)]
pub(super) struct Connections(Arc<SharedConnections>);

struct SharedConnections {
    /// The maximum number of open ones.
    most: usize,
    table: Mutex<ConnectionTable>,
    /// Notified when a connection ends or changes its use.
    changed: Notify,
}

#[derive(Default)]
struct ConnectionTable {
    last: u64,
    open: HashMap<u64, OpenConnection>,
}

struct OpenConnection {
    peer: IpAddr,
    used_for: ConnectionUse,
    since: Instant,
    closed: CancellationToken,
}

/// The use of a connection. The first kinds of this list are closed first, and the last one never.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionUse {
    /// No whole request has come.
    HalfOpen,
    /// The last request is answered, and no other one has come as a whole.
    Kept,
    /// A stream of notifications, which the client can resume.
    Listening,
    /// A request is in progress.
    Busy,
}

/// One connection, until it is dropped.
pub(super) struct ClientConnection {
    all: Connections,
    id: u64,
    pub peer: IpAddr,
    /// Cancelled when another connection takes its place.
    pub closed: CancellationToken,
}

impl Default for Connections {
    fn default() -> Self {
        Self::at_most(limits::SERVE_CONNECTIONS)
    }
}

impl Connections {
    /// Returns a set that never has more connections than `most`.
    pub fn at_most(most: usize) -> Self {
        Self(Arc::new(SharedConnections { most, table: Mutex::default(), changed: Notify::new() }))
    }

    /// Adds a connection. If there are too many, closes another one that is not busy: of the use that comes first in
    /// [`ConnectionUse`], of the peer with the most connections, the oldest. Waits while all are busy.
    pub async fn add(&self, peer: IpAddr) -> ClientConnection {
        if self.is_full() {
            // Lets connections read requests that have already arrived.
            tokio::task::yield_now().await;
        }
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(connection) = self.try_add(peer) {
                return connection;
            }
            changed.await;
        }
    }

    fn try_add(&self, peer: IpAddr) -> Option<ClientConnection> {
        let mut table = self.table();
        if table.open.len() >= self.0.most {
            let closed = table.next_to_close()?;
            table.open.remove(&closed)?.closed.cancel();
        }
        table.last += 1;
        let (id, closed) = (table.last, CancellationToken::new());
        let open =
            OpenConnection { peer, used_for: ConnectionUse::HalfOpen, since: Instant::now(), closed: closed.clone() };
        table.open.insert(id, open);
        Some(ClientConnection { all: self.clone(), id, peer, closed })
    }

    /// Returns `true` if there are too many connections to keep one open for another request.
    pub fn are_many(&self) -> bool {
        self.table().open.len() >= self.0.most * limits::SERVE_CONNECTIONS_KEPT / limits::SERVE_CONNECTIONS
    }

    /// Returns the number of open connections.
    pub fn count(&self) -> usize {
        self.table().open.len()
    }

    fn is_full(&self) -> bool {
        self.table().open.len() >= self.0.most
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    fn next_to_close(&self) -> Option<u64> {
        let mut of_peers = HashMap::<IpAddr, usize>::new();
        self.open.values().for_each(|open| *of_peers.entry(open.peer).or_default() += 1);
        let idle = self.open.iter().filter(|(_, open)| open.used_for != ConnectionUse::Busy);
        let first = idle.min_by_key(|(_, open)| (open.used_for, Reverse(of_peers[&open.peer]), open.since));
        first.map(|(id, _)| *id)
    }
}

impl ClientConnection {
    /// Returns `true` if no whole request has come yet.
    pub fn is_half_open(&self) -> bool {
        self.all.table().open.get(&self.id).is_some_and(|open| open.used_for == ConnectionUse::HalfOpen)
    }

    /// Records the use of the connection from now on.
    pub fn use_for(&self, used_for: ConnectionUse) {
        if let Some(open) = self.all.table().open.get_mut(&self.id) {
            (open.used_for, open.since) = (used_for, Instant::now());
        }
        self.all.0.changed.notify_waiters();
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        self.all.table().open.remove(&self.id);
        self.all.0.changed.notify_waiters();
    }
}

/// The body of a reply. The request ends when it is dropped.
pub(super) struct ReplyBody<B> {
    pub body: B,
    pub connection: Arc<ClientConnection>,
}

impl<B: Body + Unpin> Body for ReplyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for ReplyBody<B> {
    fn drop(&mut self) {
        self.connection.use_for(ConnectionUse::Kept);
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    #[tokio::test(start_paused = true)]
    async fn new_connection_closes_an_idle_one_never_a_busy_one() {
        let all = Connections::default();
        let mut open = Vec::new();
        for n in 0..limits::SERVE_CONNECTIONS {
            tokio::time::advance(Duration::from_millis(1)).await;
            let connection = all.add(if n == 0 { B } else { A }).await;
            connection.use_for(match n {
                0..4 => ConnectionUse::HalfOpen,
                4 => ConnectionUse::Kept,
                5 => ConnectionUse::Listening,
                _ => ConnectionUse::Busy,
            });
            open.push(connection);
        }
        let mut newcomers = Vec::new();
        // The peer with the most connections loses first; then kept ones, then listening ones.
        for (n, expected) in [1, 2, 3, 0, 4, 5].into_iter().enumerate() {
            let newcomer = all.add(B).await;
            newcomer.use_for(ConnectionUse::Busy);
            newcomers.push(newcomer);
            let closed: Vec<_> = (0..open.len()).filter(|at| open[*at].closed.is_cancelled()).collect();
            assert!(closed.contains(&expected) && closed.len() == n + 1, "{closed:?}");
        }
        // All are busy: the next one waits until one ends.
        let waits = all.add(B);
        tokio::pin!(waits);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut waits).await.is_err());
        newcomers.pop();
        waits.await;
    }

    #[tokio::test(start_paused = true)]
    async fn server_may_have_another_number_of_connections() {
        let all = Connections::at_most(4);
        let mut open = Vec::new();
        for count in 1..=4 {
            tokio::time::advance(Duration::from_millis(1)).await;
            let connection = all.add(A).await;
            connection.use_for(ConnectionUse::Listening);
            open.push(connection);
            assert_eq!((all.count(), all.are_many()), (count, count >= 3));
        }
        open.push(all.add(A).await);
        assert!(open[0].closed.is_cancelled() && all.count() == 4, "the oldest one makes room");
    }
}
