//! The requests of an editor that are not answered yet. Each can be cancelled by its id.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use super::rpc::{RpcError, RpcId};
use crate::limits;

/// The requests of an editor that are not answered yet. Clones share them.
#[derive(Clone, Default)]
pub(super) struct OpenRequests(Arc<Mutex<OpenRequestTable>>);

#[derive(Default)]
struct OpenRequestTable {
    last: u64,
    /// At most the requests that are worked on at once, and the prompts of all conversations.
    requests: Vec<OpenEditorRequest>,
}

struct OpenEditorRequest {
    number: u64,
    /// The id that the editor has chosen. No other open request should have it.
    id: RpcId,
    bytes: usize,
    cancel: CancellationToken,
    state: OpenRequestState,
}

/// The state of a request whose handle is not dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenRequestState {
    /// A prompt waits for others.
    Waiting,
    /// The request is worked on.
    AtWork,
    /// A prompt was cancelled while it waited, and answered at once. Its text is in memory until its turn comes, so its
    /// bytes count.
    Answered,
}

/// A request that is open. Dropping it says that it is answered, and its text gone.
pub(super) struct OpenRequestHandle {
    requests: OpenRequests,
    number: u64,
    /// The id with which it is answered.
    pub id: RpcId,
    /// Cancelled when the editor no longer wants the answer.
    pub cancel: CancellationToken,
}

impl OpenRequests {
    /// Adds a request that is worked on at once.
    pub fn begin(&self, id: RpcId) -> OpenRequestHandle {
        self.add(&mut self.table(), id, 0, CancellationToken::new(), OpenRequestState::AtWork)
    }

    /// Adds a prompt of so many bytes that waits. `cancel` is the token of its conversation.
    ///
    /// # Errors
    ///
    /// The error that answers a prompt for which there is no room.
    pub fn begin_prompt(
        &self,
        id: RpcId,
        bytes: usize,
        cancel: &CancellationToken,
    ) -> Result<OpenRequestHandle, RpcError> {
        let mut table = self.table();
        let held: usize = table.requests.iter().map(|request| request.bytes).sum();
        if held + bytes > limits::ACP_PROMPTS_BYTES {
            let most = limits::ACP_PROMPTS_BYTES;
            let message =
                format!("the prompts that are not answered have more than {most} bytes together; wait for an answer");
            return Err(RpcError::new(RpcError::INVALID_REQUEST, message));
        }
        Ok(self.add(&mut table, id, bytes, cancel.child_token(), OpenRequestState::Waiting))
    }

    /// Cancels the requests with this id. Returns the number of prompts among them that nobody works on: they must be
    /// answered now.
    pub fn cancel(&self, id: &RpcId) -> usize {
        let (mut table, mut unanswered) = (self.table(), 0);
        for request in table.requests.iter_mut().filter(|request| request.id == *id) {
            request.cancel.cancel();
            if request.state == OpenRequestState::Waiting {
                request.state = OpenRequestState::Answered;
                unanswered += 1;
            }
        }
        unanswered
    }

    fn add(
        &self,
        table: &mut OpenRequestTable,
        id: RpcId,
        bytes: usize,
        cancel: CancellationToken,
        state: OpenRequestState,
    ) -> OpenRequestHandle {
        table.last += 1;
        let number = table.last;
        table.requests.push(OpenEditorRequest { number, id: id.clone(), bytes, cancel: cancel.clone(), state });
        OpenRequestHandle { requests: self.clone(), number, id, cancel }
    }

    fn table(&self) -> MutexGuard<'_, OpenRequestTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenRequestHandle {
    /// Begins a prompt that has waited. Returns `false` if it was cancelled, and so is answered already.
    pub fn start(&self) -> bool {
        let mut table = self.requests.table();
        match table.requests.iter_mut().find(|request| request.number == self.number) {
            Some(request) if request.state == OpenRequestState::Waiting => {
                request.state = OpenRequestState::AtWork;
                true
            }
            _ => false,
        }
    }
}

impl Drop for OpenRequestHandle {
    fn drop(&mut self) {
        self.requests.table().requests.retain(|request| request.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cancelled_by_their_id() {
        let (requests, conversation) = (OpenRequests::default(), CancellationToken::new());
        let prompt = |id: i64| requests.begin_prompt(RpcId::Number(id), 1, &conversation).unwrap();
        let (running, waiting, other) = (prompt(1), prompt(2), prompt(3));
        let text = requests.begin(RpcId::Text("1".into()));
        assert!(running.start());
        assert_eq!(requests.cancel(&RpcId::Number(1)), 0, "who works on it answers it");
        assert_eq!(requests.cancel(&RpcId::Number(2)), 1);
        assert_eq!((requests.cancel(&RpcId::Number(2)), requests.cancel(&RpcId::Number(9))), (0, 0));
        assert!(!waiting.start(), "it is answered");
        let are_cancelled = [&running, &waiting, &other, &text].map(|request| request.cancel.is_cancelled());
        assert_eq!(are_cancelled, [true, true, false, false]);
        conversation.cancel();
        assert!(other.cancel.is_cancelled() && other.start(), "it is answered by its conversation");
        assert_eq!(requests.cancel(&RpcId::Text("1".into())), 0);
        assert!(text.cancel.is_cancelled());
        // An answered request is no longer there; of two with one id both are meant.
        let (first, second) = (prompt(1), prompt(1));
        drop((running, waiting, other, text, first));
        assert_eq!(requests.cancel(&RpcId::Number(1)), 1);
        drop(second);
        assert!(requests.table().requests.is_empty());
    }

    #[test]
    fn prompts_that_wait_have_bounded_bytes() {
        let (requests, conversation) = (OpenRequests::default(), CancellationToken::new());
        let prompt = |bytes: usize| requests.begin_prompt(RpcId::Number(1), bytes, &conversation);
        let large = prompt(limits::ACP_PROMPTS_BYTES).ok();
        let refused = prompt(1).err().unwrap();
        assert!(refused.message.contains("more than 268435456 bytes together"), "{}", refused.message);
        // A cancelled one is in memory until its turn comes.
        assert_eq!(requests.cancel(&RpcId::Number(1)), 1);
        assert!(prompt(1).is_err());
        drop(large);
        assert!(prompt(1).is_ok());
    }
}
