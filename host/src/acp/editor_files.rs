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

    async fn ask(&self, method: &str, params: &Value) -> Result<Value, EditorBuffersError> {
        // Dropping the request withdraws it.
        let answer = timeout(limits::EDITOR_TIME, self.connection.request(method, params)).await;
        let refused = |RpcError { message, .. }| {
            let reason = cut(&legible(&message), limits::FAILURE_SHOWN_CHARS);
            EditorBuffersError::Refused { reason }
        };
        answer.map_err(|_| EditorBuffersError::Silent)?.map_err(refused)
    }
}

#[async_trait]
impl EditorBuffers for EditorFiles {
    async fn read_text(&self, path: &Path) -> Result<Option<String>, EditorBuffersError> {
        let Some(shown) = path.to_str() else { return Ok(None) };
        match self.ask("fs/read_text_file", &json!({"sessionId": self.session, "path": shown})).await {
            Ok(mut answer) => match answer.get_mut("content").map(Value::take) {
                Some(Value::String(text)) => Ok(Some(text)),
                _ => Err(EditorBuffersError::Refused { reason: "the answer has no text".into() }),
            },
            // A file outside of its projects, or one that it does not open.
            Err(EditorBuffersError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write_text(&self, path: &Path, text: &str) -> Result<(), EditorBuffersError> {
        let Some(path) = path.to_str().filter(|_| self.can_write) else { return Err(EditorBuffersError::CannotWrite) };
        let params = json!({"sessionId": self.session, "path": path, "content": text});
        self.ask("fs/write_text_file", &params).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::acp::rpc::RpcId;

    #[tokio::test]
    async fn answers_of_an_editor_are_texts_or_nothing() {
        let refused = |reason: &str| Err(EditorBuffersError::Refused { reason: reason.into() });
        for (answer, read) in [
            (Ok(json!({"content": "one\n"})), Ok(Some("one\n".to_owned()))),
            (Ok(json!({"content": 7})), refused("the answer has no text")),
            (Ok(json!(null)), refused("the answer has no text")),
            (Err(RpcError::new(-1, "not open")), Ok(None)),
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
