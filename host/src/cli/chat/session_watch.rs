//! A session in which another program works: what it appends is shown until it has finished.

use tokio::{sync::mpsc, task::JoinHandle, time::sleep};

use super::chat_session::ChatSession;
use crate::{
    error::{ErrorKind, Report},
    limits,
    session::SessionStore,
};

/// Watches a session.
pub struct SessionWatch {
    progress: mpsc::Receiver<WatchProgress>,
    task: JoinHandle<()>,
}

/// The next thing that a watched session does.
pub enum WatchProgress {
    /// The conversation has changed.
    Changed(Box<ChatSession>),
    /// The other program has finished.
    Free,
    /// The session cannot be read.
    Failed(Report),
}

impl SessionWatch {
    /// Watches a session if another program works in it; `None` if none does. `is_trusted` is passed on to the session.
    pub fn start(store: SessionStore, id: &str, is_trusted: bool) -> Option<Self> {
        if !store.is_in_use(id) {
            return None;
        }
        let (sender, progress) = mpsc::channel(1);
        let id = id.to_owned();
        Some(Self { progress, task: tokio::spawn(async move { watch(store, id, is_trusted, sender).await }) })
    }

    /// Waits for the next progress. Cancel safe.
    pub async fn next(&mut self) -> WatchProgress {
        self.progress.recv().await.unwrap_or_else(|| failed("its watch has ended"))
    }
}

impl Drop for SessionWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(store: SessionStore, id: String, is_trusted: bool, sender: mpsc::Sender<WatchProgress>) {
    let mut size = None;
    loop {
        // In this order, so that everything that it has written before its end is shown.
        let is_in_use = store.is_in_use(&id);
        let now = store.journal_bytes(&id);
        if now != size {
            size = now;
            let (reader, name) = (store.clone(), id.clone());
            let read = tokio::task::spawn_blocking(move || ChatSession::existing(&reader, &name, is_trusted)).await;
            let progress = match read {
                Ok(Ok((session, _))) => WatchProgress::Changed(Box::new(session)),
                Ok(Err(report)) => WatchProgress::Failed(report),
                Err(error) => failed(error),
            };
            let is_over = matches!(progress, WatchProgress::Failed(_));
            if sender.send(progress).await.is_err() || is_over {
                return;
            }
        }
        if !is_in_use {
            let _ = sender.send(WatchProgress::Free).await;
            return;
        }
        sleep(limits::CHAT_WATCH_PAUSE).await;
    }
}

/// Reports that the session could not be watched to the end.
fn failed(cause: impl std::fmt::Display) -> WatchProgress {
    let report = Report::new(ErrorKind::Bug, "this is a bug in shelly-host: the session is not watched any more");
    WatchProgress::Failed(report.cause(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn watch_that_panics_has_failed() {
        let (sender, progress) = mpsc::channel(1);
        drop(sender);
        let mut watch = SessionWatch { progress, task: tokio::spawn(async {}) };
        assert!(matches!(watch.next().await, WatchProgress::Failed(_)));
    }
}
