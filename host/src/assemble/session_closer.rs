use futures_util::FutureExt;

use super::RunSession;

/// Closes a session when it is dropped: a run that is cancelled then records nothing more, and can be resumed as after a crash.
/// It must be dropped before the run.
pub struct SessionCloser(pub Option<RunSession>);

impl Drop for SessionCloser {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            // The close takes effect at once; its pending writes are not awaited here.
            let _ = session.journal.close().now_or_never();
        }
    }
}
