//! The events of a run as a stream that a client can leave and take up again.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::problem::{ApiResult, Problem};
use crate::{
    net::http_server::{ServedRequest, SseFrame, event_stream},
    serve::hosted_runs::{HostedRun, RunHost, RunLineReader, RunLineStep},
};

/// The header with the sequence after which a stream goes on.
const LAST_EVENT_ID: &str = "last-event-id";

/// A client that reads the events of a run.
struct RunWatcher {
    run: Arc<HostedRun>,
    reader: RunLineReader,
    /// Cancelled when the server ends.
    stop: CancellationToken,
    /// `true` once the last event was sent.
    is_over: bool,
    _permit: OwnedSemaphorePermit,
}

pub(super) fn watch(host: &RunHost, id: &str, request: &ServedRequest, stop: &CancellationToken) -> ApiResult {
    let run = host.run(id)?;
    let after = match request.header(LAST_EVENT_ID) {
        Some(after) => Some(after.to_owned()),
        // There are several, or it is no text.
        None if request.has_header(LAST_EVENT_ID) => Some(String::new()),
        None => request.query_value("after"),
    };
    let after = after.map_or(Ok(0), |after| after.parse::<u64>());
    let after = after.map_err(|_| {
        Problem::bad_request("the sequence to go on after is not a whole number")
            .mend("send the id of the last event in `Last-Event-ID`, or as ?after=N")
    })?;
    let (reader, permit) = host.watch_lines(&run, after)?;
    request.listen();
    let watcher = RunWatcher { run, reader, stop: stop.clone(), is_over: false, _permit: permit };
    Ok(event_stream(stream::unfold(watcher, RunWatcher::next).boxed()))
}

impl RunWatcher {
    /// Returns the next event for the client; `None` after the last one.
    async fn next(mut self) -> Option<(SseFrame, Self)> {
        if self.is_over {
            return None;
        }
        let step = tokio::select! {
            biased;
            step = self.reader.next() => Some(step),
            () = self.stop.cancelled() => None,
        };
        let named =
            |event, data: serde_json::Value| SseFrame { event: Some(event), id: None, data: data.to_string().into() };
        let (frame, is_over) = match step {
            Some(RunLineStep::Line(line)) => {
                // After the first of two events of one sequence, a client would go on after both.
                let id = line.completes_sequence.then_some(line.sequence);
                (SseFrame { event: Some("run"), id, data: line.json }, false)
            }
            Some(RunLineStep::Gap { from, to }) => {
                (named("gap", json!({ "from": from, "to": to, "session": self.run.session() })), false)
            }
            Some(RunLineStep::Behind { after }) => (named("behind", json!({ "after": after })), true),
            Some(RunLineStep::End) => {
                (named("end", json!({ "state": self.run.state(), "session": self.run.session() })), true)
            }
            None => (named("shutdown", json!({ "session": self.run.session() })), true),
        };
        self.is_over = is_over;
        Some((frame, self))
    }
}
