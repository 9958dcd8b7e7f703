use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::timeout};

/// The tool calls that the editor shows as under way, for the questions about them. Clones share them.
#[derive(Clone)]
pub(super) struct CallsInProgress {
    calls: Arc<Mutex<Vec<CallInProgress>>>,
    /// The newest question before which all events were sent.
    questions: watch::Sender<u64>,
}

/// A tool call under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CallInProgress {
    /// Its id in the protocol.
    pub id: String,
    /// The instance name of the agent.
    pub agent: Arc<str>,
    pub tool: String,
}

impl Default for CallsInProgress {
    fn default() -> Self {
        Self { calls: Arc::default(), questions: watch::Sender::new(0) }
    }
}

impl CallsInProgress {
    pub fn begin(&self, call: CallInProgress) {
        self.calls().push(call);
    }

    pub fn end(&self, id: &str) {
        self.calls().retain(|call| call.id != id);
    }

    /// Forgets all calls: their run has ended.
    pub fn clear(&self) {
        self.calls().clear();
    }

    /// Takes note that all events before this question were sent.
    pub fn note_question(&self, id: u64) {
        self.questions.send_if_modified(|newest| {
            let is_newer = *newest < id;
            *newest = id.max(*newest);
            is_newer
        });
    }

    /// Waits until all events before a question were sent, but not longer than `time`.
    pub async fn wait_for_question(&self, id: u64, time: Duration) {
        let mut questions = self.questions.subscribe();
        // The sender is in `self`, so the only error is the end of the time.
        let _ = timeout(time, questions.wait_for(|newest| *newest >= id)).await;
    }

    /// Returns the newest call of an agent; of this tool, if one is named.
    pub fn find(&self, agent: &str, tool: Option<&str>) -> Option<CallInProgress> {
        let calls = self.calls();
        let is_meant = |call: &&CallInProgress| &*call.agent == agent && tool.is_none_or(|tool| call.tool == tool);
        calls.iter().rev().find(is_meant).cloned()
    }

    fn calls(&self) -> MutexGuard<'_, Vec<CallInProgress>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[tokio::test(start_paused = true)]
    async fn question_waits_for_the_events_before_it() {
        let calls = CallsInProgress::default();
        let call = |id: &str, tool: &str| CallInProgress { id: id.into(), agent: "ada".into(), tool: tool.into() };
        let noting = async {
            tokio::task::yield_now().await;
            calls.begin(call("1", "read"));
            calls.begin(call("2", "write"));
            calls.begin(call("3", "read"));
            calls.note_question(7);
        };
        let asking = async {
            calls.wait_for_question(7, limits::ACP_QUESTION_ORDER_TIME).await;
            calls.find("ada", Some("read"))
        };
        assert_eq!(tokio::join!(noting, asking).1, Some(call("3", "read")));
        calls.end("3");
        assert_eq!(calls.find("ada", Some("read")), Some(call("1", "read")));
        assert_eq!((calls.find("bob", None), calls.find("ada", None)), (None, Some(call("2", "write"))));
        // A question whose event does not come is asked all the same.
        let before = tokio::time::Instant::now();
        calls.wait_for_question(8, limits::ACP_QUESTION_ORDER_TIME).await;
        assert_eq!(before.elapsed(), limits::ACP_QUESTION_ORDER_TIME);
        calls.clear();
        assert_eq!(calls.find("ada", None), None);
    }
}
