use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::RunSession;
use crate::event::EventSink;

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

/// Makes the events of a run end as in a crash if it is dropped because the program ends: the run goes on when its session
/// is resumed. It must be dropped before the run.
pub struct RunInterrupter {
    /// The sink of the run; `None` if nothing goes on later: the run has no session, or a person has cancelled it.
    pub events: Option<EventSink>,
    /// Cancelled when the program ends.
    pub ends: CancellationToken,
}

impl Drop for RunInterrupter {
    fn drop(&mut self) {
        if self.ends.is_cancelled() {
            self.events.iter().for_each(EventSink::interrupt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_is_interrupted_only_if_the_program_ends() {
        for (goes_on, is_end, expected) in [(true, true, true), (true, false, false), (false, true, false)] {
            let ((sink, _events), ends) = (EventSink::channel(), CancellationToken::new());
            let interrupter = RunInterrupter { events: goes_on.then(|| sink.clone()), ends: ends.clone() };
            if is_end {
                ends.cancel();
            }
            drop(interrupter);
            assert_eq!(sink.is_interrupted(), expected, "{goes_on} {is_end}");
        }
    }
}
