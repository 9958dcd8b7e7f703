//! Everything that the editor is sent: answers, notifications, and requests of the host with their answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::{mpsc, oneshot},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::rpc::{RpcError, RpcId};
use crate::limits;

/// The connection to an editor. Clones share it.
#[derive(Clone)]
pub(super) struct EditorConnection(Arc<EditorConnectionState>);

struct EditorConnectionState {
    lines: mpsc::Sender<Vec<u8>>,
    /// The requests of the host that are not answered yet. Each belongs to an open question or to a running tool call, whose
    /// numbers are bounded.
    unanswered: Mutex<UnansweredRequests>,
    /// Cancelled once the editor takes no more lines.
    gone: CancellationToken,
}

#[derive(Default)]
struct UnansweredRequests {
    last: i64,
    answers: HashMap<i64, oneshot::Sender<Result<Value, RpcError>>>,
}

/// A request of the host. Dropping it before the answer withdraws it.
struct EditorRequest {
    connection: EditorConnection,
    id: i64,
}

impl EditorConnection {
    /// Returns a connection, and the task that writes its lines: it ends after the last clone of the connection.
    pub fn new<W: AsyncWrite + Unpin + Send + 'static>(write: W) -> (Self, AbortOnDropHandle<()>) {
        let (lines, unwritten) = mpsc::channel(limits::ACP_UNREAD_LINES);
        let gone = CancellationToken::new();
        let writer = tokio::spawn(write_lines(write, unwritten, gone.clone()));
        let state = EditorConnectionState { lines, unanswered: Mutex::default(), gone };
        (Self(Arc::new(state)), AbortOnDropHandle::new(writer))
    }

    /// Waits until the editor takes no more lines.
    pub async fn lost(&self) {
        self.0.gone.cancelled().await;
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends an update of a conversation.
    pub async fn update(&self, session: &str, update: Value) {
        self.notify("session/update", &json!({"sessionId": session, "update": update})).await;
    }

    /// Answers a request.
    pub async fn respond(&self, id: &RpcId, outcome: Result<Value, RpcError>) {
        let message = match outcome {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        self.send(&message).await;
    }

    /// Sends a request, and waits for its answer. Dropping the future withdraws the request.
    ///
    /// # Errors
    ///
    /// The error with which the editor answers, or one that says that it has gone away.
    pub async fn request(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let (answer, answered) = oneshot::channel();
        let sent = {
            let mut unanswered = self.unanswered();
            unanswered.last += 1;
            let id = unanswered.last;
            unanswered.answers.insert(id, answer);
            EditorRequest { connection: self.clone(), id }
        };
        self.send(&json!({"jsonrpc": "2.0", "id": sent.id, "method": method, "params": params})).await;
        let gone = || RpcError::new(RpcError::CANCELLED, "the editor has gone away");
        tokio::select! {
            biased;
            answer = answered => answer.unwrap_or_else(|_| Err(gone())),
            () = self.lost() => Err(gone()),
        }
    }

    /// Takes the answer to a request of the host. One that was withdrawn, or never sent, is ignored.
    pub fn take_answer(&self, id: &RpcId, outcome: Result<Value, RpcError>) {
        let RpcId::Number(id) = id else { return };
        let waiting = self.unanswered().answers.remove(id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }

    async fn send(&self, message: &impl Serialize) {
        // An error means that the editor takes no more lines.
        let _ = self.0.lines.send(line_of(message)).await;
    }

    fn unanswered(&self) -> MutexGuard<'_, UnansweredRequests> {
        self.0.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EditorRequest {
    fn drop(&mut self) {
        let is_unanswered = self.connection.unanswered().answers.remove(&self.id).is_some();
        if is_unanswered {
            let params = json!({"requestId": self.id});
            let message = json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params});
            // An editor that is far behind learns of it when its answer is ignored.
            let _ = self.connection.0.lines.try_send(line_of(&message));
        }
    }
}

fn line_of(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

async fn write_lines<W: AsyncWrite + Unpin>(mut write: W, mut lines: mpsc::Receiver<Vec<u8>>, gone: CancellationToken) {
    while let Some(line) = lines.recv().await {
        let written = timeout(limits::ACP_WRITE_TIME, async {
            write.write_all(&line).await?;
            write.flush().await
        });
        if !matches!(written.await, Ok(Ok(()))) {
            break;
        }
    }
    gone.cancel();
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::{
        io::{AsyncBufReadExt, BufReader},
        task::unconstrained,
        time::Instant,
    };

    use super::*;

    #[tokio::test]
    async fn dropped_request_is_withdrawn() {
        let (peer, write) = tokio::io::duplex(1 << 16);
        let (connection, writer) = EditorConnection::new(write);
        let mut lines = BufReader::new(peer).lines();
        let params = json!({});
        assert_eq!(connection.request("a", &params).now_or_never(), None);
        let mut next = async || serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(next().await["id"], 1);
        let withdrawn = next().await;
        assert_eq!((&withdrawn["method"], &withdrawn["params"]["requestId"]), (&json!("$/cancel_request"), &json!(1)));
        let (answer, ()) = tokio::join!(connection.request("b", &params), async {
            assert_eq!(next().await["id"], 2);
            connection.take_answer(&RpcId::Number(1), Ok(json!("late")));
            connection.take_answer(&RpcId::Number(2), Ok(json!("yes")));
        });
        assert_eq!(answer, Ok(json!("yes")));
        drop(connection);
        writer.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn editor_that_does_not_read_is_given_up() {
        let (_peer, write) = tokio::io::duplex(16);
        let (connection, _writer) = EditorConnection::new(write);
        let (params, before) = (json!({}), Instant::now());
        for _ in 0..limits::ACP_UNREAD_LINES {
            // A task that does much at once would be made to wait.
            assert!(unconstrained(connection.notify("a", &params)).now_or_never().is_some());
        }
        assert!(connection.notify("b", &params).now_or_never().is_none(), "it waits for room");
        assert_eq!(connection.request("c", &params).await.unwrap_err().code, RpcError::CANCELLED);
        connection.lost().await;
        assert_eq!(before.elapsed(), limits::ACP_WRITE_TIME);
    }
}
