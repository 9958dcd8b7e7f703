//! The events of a session as lines of JSON: those that were recorded, and those that follow from its journal. They are
//! read piece by piece, on threads that may block, as the client reads them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

use super::{
    problem::{ApiResult, Problem},
    session_routes::{blocking, whole_name},
};
use crate::{
    error::cut,
    limits,
    net::http_server::stream_response,
    serve::hosted_runs::RunHost,
    session::{Secrets, SessionError},
    trace::TraceLines,
};

/// The media type of JSON objects, one a line.
const NDJSON: &str = "application/x-ndjson";

/// A client that reads the events of a session.
struct SessionEventReader {
    lines: TraceLines,
    /// The number of the last line that was read.
    sequence: u64,
    /// The number of the last line that the client has.
    after: u64,
    secrets: Secrets,
    /// `true` once the last line was read.
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

/// Returns the events of a session after a number; without one, all of them.
pub(super) async fn read(host: &RunHost, streams: &Arc<Semaphore>, id: &str, after: Option<String>) -> ApiResult {
    let after = after.map_or(Ok(0), |after| after.parse::<u64>());
    let after = after.map_err(|_| {
        Problem::bad_request("the number to go on after is not a whole number")
            .mend("send the `sequence` of the last line as ?after=N, or leave it out")
    })?;
    let permit = Arc::clone(streams).try_acquire_owned().map_err(|_| {
        let most = limits::SERVE_SESSION_STREAMS;
        Problem::too_many(format!("the events of {most} sessions are read, which is the maximum"))
            .mend("try again when one of them is read")
    })?;
    let (store, id) = (host.app().sessions(), id.to_owned());
    let lines = blocking(move || TraceLines::open(&store, &whole_name(&store, &id)?)).await?;
    let secrets = host.secrets();
    let reader = SessionEventReader { lines, sequence: 0, after, secrets, is_over: false, _permit: permit };
    Ok(stream_response(NDJSON, stream::unfold(reader, SessionEventReader::next).boxed()))
}

impl SessionEventReader {
    /// Returns the next piece for the client; `None` after the last one.
    async fn next(self) -> Option<(Bytes, Self)> {
        let mut reader = self;
        while !reader.is_over {
            let read = spawn_blocking(move || {
                let piece = reader.read_piece();
                (piece, reader)
            });
            let piece;
            (piece, reader) = read.await.ok()?;
            if !piece.is_empty() {
                return Some((piece, reader));
            }
        }
        None
    }

    /// Reads some lines, and returns those that the client does not have.
    fn read_piece(&mut self) -> Bytes {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        while bytes < limits::SERVE_STREAM_CHUNK_BYTES && !self.is_over {
            let Some(line) = self.lines.next() else {
                self.is_over = true;
                break;
            };
            self.sequence += 1;
            let line = line.unwrap_or_else(|error| self.last_line(&error));
            bytes += line.len();
            if self.sequence > self.after {
                let is_json = |json: &[u8]| serde_json::from_slice::<IgnoredAny>(json).is_ok();
                piece.extend_from_slice(&self.secrets.clean_json(line.into_bytes(), is_json));
                piece.push(b'\n');
            }
        }
        piece.into()
    }

    /// Returns the line that says why none follows.
    fn last_line(&mut self, error: &SessionError) -> String {
        self.is_over = true;
        let why = cut(&error.report().to_string(), limits::ERROR_BYTES);
        let message = format!("the session cannot be read any further: {why}");
        let session = &self.lines.header().id;
        json!({ "session": session, "sequence": self.sequence, "event": "warning", "message": message }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;
    use crate::{
        agent::journal::{JournalRecord, Recorder},
        chat::Message,
        net::http_server::ServedResponse,
        serve::hosted_runs::testing::SilentHost,
        session::NewSession,
    };

    /// Makes a session whose events follow from its journal.
    async fn make_session(host: &RunHost, id: &str) {
        std::fs::create_dir_all(host.app().config.root.join(".shelly/local")).unwrap();
        let new = NewSession { id: Some(id.into()), title: "Count.".into(), ..NewSession::default() };
        let session = host.app().sessions().create(new).unwrap();
        session.write(1, &JournalRecord::Sent { message: Message::user("Count.") });
        session.close().await.unwrap();
    }

    async fn lines(response: ServedResponse) -> Vec<Value> {
        assert_eq!(response.headers()["content-type"], NDJSON);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[tokio::test]
    async fn events_of_a_session_are_lines_with_numbers() {
        let silent = SilentHost::new(1).await;
        let (host, streams) = (&silent.host, Arc::new(Semaphore::new(1)));
        make_session(host, "s").await;
        let all = lines(read(host, &streams, "s", None).await.unwrap()).await;
        let numbers: Vec<_> = all.iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
        assert_eq!((&all[0]["event"], &all[0]["session"]), (&json!("stream_started"), &json!("s")), "{all:?}");
        assert_eq!(lines(read(host, &streams, "s", Some("1".into())).await.unwrap()).await, all[1..]);
        assert_eq!(lines(read(host, &streams, "s", Some("99".into())).await.unwrap()).await, Vec::<Value>::new());
        for (id, after, status) in [("none", None, 404_u16), ("../s", None, 404), ("s", Some("x".into()), 400)] {
            let refused = read(host, &streams, id, after).await.err().unwrap();
            assert_eq!(refused.status().as_u16(), status, "{id}");
        }
    }

    #[tokio::test]
    async fn only_so_many_sessions_are_read() {
        let silent = SilentHost::new(1).await;
        let (host, streams) = (&silent.host, Arc::new(Semaphore::new(limits::SERVE_SESSION_STREAMS)));
        make_session(host, "s").await;
        let mut all = Vec::new();
        for _ in 0..limits::SERVE_SESSION_STREAMS {
            all.push(read(host, &streams, "s", None).await.unwrap());
        }
        let refused = read(host, &streams, "s", None).await.err().unwrap();
        assert_eq!((refused.status(), refused.code()), (StatusCode::TOO_MANY_REQUESTS, "too_many"));
        lines(all.pop().unwrap()).await;
        assert!(read(host, &streams, "s", None).await.is_ok(), "one is read");
    }
}
