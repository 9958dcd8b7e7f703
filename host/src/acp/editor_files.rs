use std::path::Path;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{editor_connection::EditorConnection, rpc::RpcError};
use crate::{
    change::{EditorBuffers, EditorBuffersError},
    error::{cut, legible},
    limits,
};

/// The files of a conversation as its editor has them. The callers ask only about files that an agent can reach.
pub(super) struct EditorFiles {
    connection: EditorConnection,
    /// The id of the conversation.
    session: String,
    can_write: bool,
}

impl EditorFiles {
    pub fn new(connection: EditorConnection, session: String, can_write: bool) -> Self {
        Self { connection, session, can_write }
    }

    /// Sends a request. Returns what the editor answers.
    async fn ask(&self, method: &str, params: &Value) -> Result<Result<Value, RpcError>, EditorBuffersError> {
        // Dropping the request withdraws it.
        let answer = timeout(limits::EDITOR_TIME, self.connection.request(method, params)).await;
        answer.map_err(|_| EditorBuffersError::Silent)
    }
}

/// Returns `true` for the answer of an editor that has no text of a file: one outside of its projects, or one that it does
/// not open. Whoever fails for another reason may have a text.
fn is_without_text(error: &RpcError) -> bool {
    matches!(error.code, RpcError::RESOURCE_NOT_FOUND | RpcError::METHOD_NOT_FOUND)
}

fn refused(reason: &str) -> EditorBuffersError {
    EditorBuffersError::Refused { reason: cut(&legible(reason), limits::FAILURE_SHOWN_CHARS) }
}

#[async_trait]
impl EditorBuffers for EditorFiles {
    async fn read_text(&self, path: &Path) -> Result<Option<String>, EditorBuffersError> {
        let Some(shown) = path.to_str() else { return Ok(None) };
        let params = json!({"sessionId": self.session, "path": shown});
        match self.ask("fs/read_text_file", &params).await? {
            Ok(mut answer) => match answer.get_mut("content").map(Value::take) {
                Some(Value::String(text)) => Ok(Some(text)),
                _ => Err(refused("the answer has no text")),
            },
            Err(error) if is_without_text(&error) => Ok(None),
            Err(error) => Err(refused(&error.message)),
        }
    }

    async fn write_text(&self, path: &Path, text: &str) -> Result<(), EditorBuffersError> {
        let Some(path) = path.to_str().filter(|_| self.can_write) else { return Err(EditorBuffersError::CannotWrite) };
        let params = json!({"sessionId": self.session, "path": path, "content": text});
        let written = self.ask("fs/write_text_file", &params).await?;
        written.map(drop).map_err(|error| refused(&error.message))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::acp::rpc::RpcId;

    #[tokio::test]
    async fn answers_of_an_editor_are_texts_nothing_or_failures() {
        let refused = |reason: &str| Err(EditorBuffersError::Refused { reason: reason.into() });
        let failed = |code: i64| Err(RpcError::new(code, "busy"));
        for (answer, read) in [
            (Ok(json!({"content": "one\n"})), Ok(Some("one\n".to_owned()))),
            (Ok(json!({"content": 7})), refused("the answer has no text")),
            (Ok(json!(null)), refused("the answer has no text")),
            (failed(RpcError::RESOURCE_NOT_FOUND), Ok(None)),
            (failed(RpcError::METHOD_NOT_FOUND), Ok(None)),
            (failed(RpcError::INTERNAL), refused("busy")),
            (failed(RpcError::INVALID_REQUEST), refused("busy")),
            (failed(RpcError::CANCELLED), refused("busy")),
            (failed(-1), refused("busy")),
        ] {
            let (peer, write) = tokio::io::duplex(1 << 16);
            let (connection, _writer) = EditorConnection::new(write);
            let files = EditorFiles::new(connection.clone(), "s".into(), false);
            let mut lines = BufReader::new(peer).lines();
            let answering = async {
                let asked: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
                assert_eq!(asked["method"], "fs/read_text_file");
                assert_eq!(asked["params"], json!({"sessionId": "s", "path": "/p/a"}));
                connection.take_answer(&RpcId::Number(1), answer);
            };
            assert_eq!(tokio::join!(files.read_text(Path::new("/p/a")), answering).0, read);
            assert_eq!(files.write_text(Path::new("/p/a"), "").await, Err(EditorBuffersError::CannotWrite));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn editor_that_does_not_answer_is_not_waited_for() {
        let (peer, write) = tokio::io::duplex(1 << 16);
        let (connection, _writer) = EditorConnection::new(write);
        let files = EditorFiles::new(connection.clone(), "s".into(), true);
        let before = tokio::time::Instant::now();
        assert_eq!(files.read_text(Path::new("/p/a")).await, Err(EditorBuffersError::Silent));
        assert_eq!(before.elapsed(), limits::EDITOR_TIME);
        let mut lines = BufReader::new(peer).lines();
        for method in ["fs/read_text_file", "$/cancel_request"] {
            assert!(lines.next_line().await.unwrap().unwrap().contains(method));
        }
    }
}
