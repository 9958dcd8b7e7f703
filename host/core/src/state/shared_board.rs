use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::Notify,
    task::{JoinError, spawn_blocking},
};
use tokio_util::task::AbortOnDropHandle;

use super::watched_value::WatchedValue;
use crate::{
    bucket::{BucketError, BucketWatch, StateBucket},
    limits,
    tool::ToolCallId,
};

/// The state of a board that can be a document in a bucket.
pub(super) trait BoardState: Default + fmt::Debug + Send + 'static {
    /// Copies the content, without the callback for changes.
    fn copy(&self) -> Self;

    /// Returns the content as a document.
    fn to_document(&self) -> Vec<u8>;

    /// Reads a document, which may be anything; an error is the reason for which it is none.
    fn of_document(document: &[u8]) -> Result<Self, String>;

    /// Takes over what differs in a newer state, and tells the callback each difference, made by `author`.
    fn adopt(&mut self, newer: Self, author: Option<Arc<ToolCallId>>);
}

/// The place in a bucket where several hosts have one board: each change replaces the whole document, if no other host was
/// faster. The board of this host is a copy that follows.
pub(super) struct BoardDocument<S> {
    bucket: Arc<dyn StateBucket>,
    key: String,
    board: Arc<WatchedValue<S>>,
    /// The revision of the copy. Held while a change is made, so that this host makes one at a time.
    revision: Mutex<Option<u64>>,
}

/// A board that follows its document until this is dropped.
pub(super) struct SharedBoard<S> {
    pub document: Arc<BoardDocument<S>>,
    _watch: Box<dyn BucketWatch>,
    _following: AbortOnDropHandle<()>,
}

impl<S> fmt::Debug for SharedBoard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBoard({})", self.document.key)
    }
}

impl<S: BoardState> SharedBoard<S> {
    /// Takes over the changes of other hosts. The request is made by a thread that may wait.
    pub async fn refresh(&self) -> Result<(), BucketError> {
        let document = Arc::clone(&self.document);
        let stopped = |error: JoinError| BucketError::Unavailable { reason: error.to_string() };
        spawn_blocking(move || document.follow()).await.map_err(stopped)?
    }

    /// Shares a board: its content is written if there is no document, and replaced by the document if there is one. Blocks;
    /// must be called on a thread of a tokio runtime.
    pub fn begin(board: &Arc<WatchedValue<S>>, bucket: Arc<dyn StateBucket>, key: String) -> Result<Self, BucketError> {
        let notify = Arc::new(Notify::new());
        let changed = Arc::clone(&notify);
        let watch = bucket.watch(&key, Arc::new(move || changed.notify_one()))?;
        let document = Arc::new(BoardDocument { bucket, key, board: Arc::clone(board), revision: Mutex::default() });
        document.publish()?;
        let followed = Arc::clone(&document);
        let following = tokio::spawn(async move {
            loop {
                notify.notified().await;
                let followed = Arc::clone(&followed);
                // A failure is told by the next change, or ends with the next one of another host.
                let _ = spawn_blocking(move || followed.follow()).await;
            }
        });
        Ok(Self { document, _watch: watch, _following: AbortOnDropHandle::new(following) })
    }
}

impl<S: BoardState> BoardDocument<S> {
    /// Takes over the changes of other hosts.
    pub fn follow(&self) -> Result<(), BucketError> {
        self.read(&mut self.revision())
    }

    /// Makes a change in the whole cluster, in the name of `author`. An error leaves everything unchanged, unless the server
    /// did not answer.
    pub fn change<R, E: From<BucketError>>(
        &self,
        author: Option<&Arc<ToolCallId>>,
        change: impl Fn(&mut S) -> Result<R, E>,
    ) -> Result<R, E> {
        let mut revision = self.revision();
        for _ in 0..limits::BUCKET_ATTEMPTS {
            // What an agent is told of the board is true now, not some time ago.
            self.read(&mut revision)?;
            let mut copy = self.board.read(S::copy);
            let before = copy.to_document();
            let result = change(&mut copy)?;
            let after = copy.to_document();
            if after == before {
                return Ok(result);
            }
            if let Some(written) = self.bucket.write(&self.key, *revision, Some(&after))? {
                *revision = Some(written);
                self.board.set(|board| board.adopt(copy, author.cloned()));
                return Ok(result);
            }
        }
        Err(BucketError::Busy { key: self.key.clone() }.into())
    }

    /// Writes the content if there is no document.
    fn publish(&self) -> Result<(), BucketError> {
        let mut revision = self.revision();
        let document = self.board.read(S::to_document);
        if self.bucket.get(&self.key)?.is_none() {
            *revision = self.bucket.write(&self.key, None, Some(&document))?;
        }
        self.read(&mut revision)
    }

    fn read(&self, revision: &mut Option<u64>) -> Result<(), BucketError> {
        let Some(entry) = self.bucket.get(&self.key)? else {
            // The document was removed: the next change writes what this host has.
            *revision = None;
            return Ok(());
        };
        if *revision != Some(entry.revision) {
            let key = self.key.clone();
            let damaged = |reason| BucketError::Damaged { key, revision: entry.revision, reason };
            let newer = S::of_document(&entry.value).map_err(damaged)?;
            self.board.set(|board| board.adopt(newer, None));
            *revision = Some(entry.revision);
        }
        Ok(())
    }

    fn revision(&self) -> MutexGuard<'_, Option<u64>> {
        self.revision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of an agent on a board that several sessions share: names of agents are unique within a session.
pub(super) fn member_name(agent: &str, session: Option<&str>) -> String {
    session.map_or_else(|| agent.to_owned(), |session| format!("{agent}@{session}"))
}
