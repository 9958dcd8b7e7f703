//! JSON messages, one per line, over two pipes, from a peer that may send anything.

use std::{io, marker::PhantomData, sync::Arc};

use rmcp::{
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::{Mutex, watch},
    time::timeout,
};

use super::{
    connection_monitor::{ConnectionMonitor, DisconnectReason},
    transport_role::{InvalidLineAction, TransportRole},
};
use shelly_core::{
    limits,
    line_reader::{LineBounds, LineReadResult, LineReader},
};

/// A connection over two pipes, in the transport role `S`.
pub(super) struct LineTransport<S, R, W> {
    /// Keeps what has been read of a line, because `receive` may be cancelled at any await and goes on later.
    lines: LineReader<R>,
    write: Arc<Mutex<Option<W>>>,
    /// Messages that the peer has not read yet.
    unread: watch::Sender<usize>,
    patience: Arc<ConnectionMonitor>,
    side: PhantomData<fn() -> S>,
}

/// The bounds of the lines of a peer.
const LINES: LineBounds = LineBounds {
    line_bytes: limits::MCP_MESSAGE_BYTES,
    skipped_bytes: limits::MCP_SKIPPED_BYTES,
    beginning_bytes: limits::MCP_ID_BYTES,
    end_bytes: limits::MCP_ID_BYTES,
};

impl<S, R: AsyncRead + Unpin, W> LineTransport<S, R, W> {
    pub fn new(read: R, write: W, patience: Arc<ConnectionMonitor>) -> Self {
        let (lines, write) = (LineReader::new(read, LINES), Arc::new(Mutex::new(Some(write))));
        Self { lines, write, unread: watch::Sender::new(0), patience, side: PhantomData }
    }
}

/// Counts a message as unread by the peer until it is dropped.
struct UnreadMessageGuard(watch::Sender<usize>);

impl UnreadMessageGuard {
    fn new(unread: &watch::Sender<usize>) -> Self {
        unread.send_modify(|unread| *unread += 1);
        Self(unread.clone())
    }
}

impl Drop for UnreadMessageGuard {
    fn drop(&mut self) {
        self.0.send_modify(|unread| *unread -= 1);
    }
}

impl<S, R, W> Transport<S> for LineTransport<S, R, W>
where
    S: TransportRole,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: TxJsonRpcMessage<S>) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (write, patience) = (Arc::clone(&self.write), Arc::clone(&self.patience));
        let untaken = UnreadMessageGuard::new(&self.unread);
        async move {
            let _untaken = untaken;
            let mut line = serde_json::to_vec(&message)?;
            drop(message);
            line.push(b'\n');
            let mut write = write.lock().await;
            let Some(write) = write.as_mut().filter(|_| patience.ended().is_none()) else {
                return Err(io::ErrorKind::NotConnected.into());
            };
            let written = async {
                write.write_all(&line).await?;
                write.flush().await
            };
            let written = timeout(limits::MCP_WRITE_TIME, written).await;
            let why = if written.is_err() { DisconnectReason::Deaf } else { DisconnectReason::Closed };
            let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            written.inspect_err(|_| patience.give_up(why))
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<S>> {
        loop {
            // Applies backpressure: nothing is read from a peer that does not read. `self` owns the sender, so the wait
            // cannot fail.
            let _ = self.unread.subscribe().wait_for(|unread| *unread < S::UNREAD).await;
            let message = match self.lines.next().await {
                LineReadResult::Whole(line) if trimmed(&line).is_empty() => continue,
                LineReadResult::Whole(line) => S::read(trimmed(&line)),
                LineReadResult::TooLong { beginning, end } => Err(S::too_long(&beginning, &end)),
                LineReadResult::Endless => {
                    self.patience.give_up(DisconnectReason::Endless);
                    return None;
                }
                LineReadResult::End => return None,
            };
            match message {
                Ok(message) => {
                    self.patience.message();
                    return Some(message);
                }
                Err(unread) => {
                    self.patience.garbage();
                    if self.patience.ended().is_some() {
                        return None;
                    }
                    match unread {
                        InvalidLineAction::Nothing => {}
                        InvalidLineAction::Heard(message) => return Some(*message),
                        // In a task: `receive` may be cancelled, and half an answer would be worse than none.
                        InvalidLineAction::Answer(answer) => drop(tokio::spawn(Transport::<S>::send(self, *answer))),
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// Returns the line without the byte order mark and white space that some servers add.
fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii()
}

#[cfg(test)]
mod tests {
    use rmcp::{RoleClient, model::ClientJsonRpcMessage};
    use tokio::io::DuplexStream;

    use super::*;

    /// Returns the messages received from a peer that sends `said` and hangs up: ids with methods of requests, or with
    /// errors of answers.
    async fn heard(said: Vec<u8>) -> (Vec<String>, Option<DisconnectReason>) {
        let (mut peer, here) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
        let patience = Arc::<ConnectionMonitor>::default();
        let (read, write) = tokio::io::split(here);
        let mut lines = LineTransport::<RoleClient, _, _>::new(read, write, Arc::clone(&patience));
        let saying = tokio::spawn(async move { peer.write_all(&said).await });
        let mut heard = Vec::new();
        while let Some(message) = lines.receive().await {
            let json = serde_json::to_value(&message).unwrap();
            let (id, what) = (json.get("id").cloned().unwrap_or_default(), &json["method"]);
            heard.push(format!("{id} {}", what.as_str().or(json["error"]["message"].as_str()).unwrap_or("result")));
        }
        drop(lines);
        let _ = saying.await.unwrap();
        (heard, patience.ended())
    }

    #[tokio::test]
    async fn lines_become_messages_or_are_skipped() {
        for (said, expected) in [
            (&b""[..], &[][..]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n", &["1 result"]),
            (b"\xef\xbb\xbf {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"result\":{}} \r\n\n\r\n", &["\"a\" result"]),
            (b"Server listening\n\xff\xfe\n{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":7}\n", &["7 ping"]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", &[]),
            (b"{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":\"oops\"}\n", &["3 the answer is not valid in the protocol"]),
            (b"{\"id\":3}\n{\n[]\n{}\n", &["3 the answer is not valid in the protocol"]),
            (b"{\"jsonrpc\":\"2.0\",\"method\":\"x/y\"}\n", &["null x/y"]),
        ] {
            let shown = String::from_utf8_lossy(said).into_owned();
            assert_eq!(
                heard(said.to_vec()).await,
                (expected.iter().map(ToString::to_string).collect(), None),
                "{shown}"
            );
        }
        let deep = "[".repeat(100_000);
        assert_eq!(heard(format!("{{\"id\":1,\"result\":{deep}\n").into_bytes()).await, (vec![], None));
    }

    #[tokio::test]
    async fn deep_answer_is_refused_at_once() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let answer = |result: String| format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}\n");
        let refused = format!("1 the answer has more than {} nested lists and objects", limits::MCP_MESSAGE_DEPTH);
        let schema = format!("{{\"type\":\"object\",\"default\":{}}}", nested(200));
        for (said, expected) in [
            (answer(format!("{{\"structuredContent\":{}}}", nested(200))), &*refused),
            // The list of tools is read; the tool with the schema is refused by itself.
            (answer(format!("{{\"tools\":[{{\"name\":\"a\",\"inputSchema\":{schema}}}]}}")), "1 result"),
        ] {
            assert_eq!(heard(said.into_bytes()).await, (vec![expected.to_owned()], None));
        }
        // A request that is too deep is dropped: no caller awaits it.
        let asked = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{}}}\n", nested(200));
        assert_eq!(heard(asked.into_bytes()).await, (vec![], None));
    }

    #[tokio::test]
    async fn blank_lines_are_no_messages_and_are_bounded() {
        let message = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n";
        let blank = b"\n \r\n".repeat(limits::MCP_SKIPPED_BYTES / 8);
        // A message between them begins the count again.
        let said = [&blank[..], message, &blank[..], message].concat();
        assert_eq!(heard(said).await, (vec!["1 result".to_owned(); 2], None));
        let endless = vec![b'\n'; limits::MCP_SKIPPED_BYTES + 1];
        assert_eq!(heard(endless).await, (vec![], Some(DisconnectReason::Endless)));
    }

    #[tokio::test]
    async fn oversized_answer_is_refused_and_the_next_one_read() {
        let text = "x".repeat(limits::MCP_MESSAGE_BYTES);
        let many = "0,".repeat(limits::MCP_MESSAGE_VALUES);
        let next = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
        let bytes = format!("1 the answer has more than {} bytes", limits::MCP_MESSAGE_BYTES);
        let values = format!("1 the answer has more than {} values", limits::MCP_MESSAGE_VALUES);
        for (large, expected) in [
            (format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{text}"}}"#), Some(&bytes)),
            (format!(r#"{{"result":"{text}","jsonrpc":"2.0","id": 1}}"#), Some(&bytes)),
            (format!(r#"{{"result":"{text}"}}"#), None),
            (format!(r#"{{"jsonrpc":"2.0","id":1,"result":[{many}0]}}"#), Some(&values)),
            (format!(r#"{{"result":[{many}0],"id":1}}"#), Some(&values)),
        ] {
            let expected = expected.cloned().into_iter().chain(["2 result".to_owned()]).collect();
            assert_eq!(heard(format!("{large}\n{next}\n").into_bytes()).await, (expected, None), "{}", &large[..30]);
        }
        let whole = format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, &text[..text.len() - 40]);
        assert_eq!(heard(format!("{whole}\n").into_bytes()).await.0, ["1 result"]);
    }

    #[tokio::test]
    async fn endless_or_garbage_peer_is_disconnected() {
        let endless = vec![b'x'; limits::MCP_SKIPPED_BYTES + 1];
        assert_eq!(heard(endless).await, (vec![], Some(DisconnectReason::Endless)));
        let garbage = b"no\n".repeat(limits::MCP_GARBAGE_LINES as usize + 1);
        assert_eq!(heard(garbage).await, (vec![], Some(DisconnectReason::Garbage)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_given_up() {
        let (_peer, here): (DuplexStream, _) = tokio::io::duplex(16);
        let patience = Arc::<ConnectionMonitor>::default();
        let (read, write) = tokio::io::split(here);
        let mut lines = LineTransport::<RoleClient, _, _>::new(read, write, Arc::clone(&patience));
        let message: ClientJsonRpcMessage =
            serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).unwrap();
        let (one, two) = (lines.send(message.clone()), lines.send(message));
        assert_eq!(one.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(patience.ended(), Some(DisconnectReason::Deaf));
        assert_eq!(two.await.unwrap_err().kind(), io::ErrorKind::NotConnected);
    }
}
