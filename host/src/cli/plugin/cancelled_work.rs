//! Builds on a thread of their own, which are cancelled when the command ends.

use shelly_author::BuildCancellation;

/// A guard that cancels the build when it is dropped, for whatever reason the command ends.
struct CancelledOnDrop(BuildCancellation);

impl Drop for CancelledOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs `work`, which builds a project, on a thread of its own. If the future is dropped, the programs that the build has
/// started are killed, and it starts no others.
pub async fn cancelled_with<T: Send + 'static>(work: impl FnOnce(&BuildCancellation) -> T + Send + 'static) -> T {
    let guard = CancelledOnDrop(BuildCancellation::default());
    let cancellation = guard.0.clone();
    match tokio::task::spawn_blocking(move || work(&cancellation)).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_work_is_cancelled_and_finished_work_returned() {
        assert_eq!(cancelled_with(|_| 7).await, 7);
        let (tell_begun, begun) = tokio::sync::oneshot::channel();
        let (tell_seen, seen) = tokio::sync::oneshot::channel();
        let (let_go, go) = std::sync::mpsc::channel::<()>();
        let work = cancelled_with(move |cancellation| {
            let _ = tell_begun.send(());
            // The other end goes when the future was dropped.
            let _ = go.recv();
            let _ = tell_seen.send(cancellation.is_cancelled());
        });
        tokio::select! {
            biased;
            () = work => panic!("it waits"),
            _ = begun => {}
        }
        drop(let_go);
        assert_eq!(seen.await, Ok(true));
    }
}
