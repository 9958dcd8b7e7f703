//! Server-sent events as the body of an answer.

use std::{
    convert::Infallible,
    fmt::Write as _,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use http_body_util::BodyExt;
use hyper::{
    Response, StatusCode,
    body::{Body, Frame},
    header::{self, HeaderValue},
};
use memchr::memchr2;
use tokio::time::{Instant, Sleep, sleep};

use super::{ServedResponse, bytes_response};
use shelly_core::limits;

/// One server-sent event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseFrame {
    /// The name of the event; without one, clients call it `message`.
    pub event: Option<&'static str>,
    /// The id with which a client resumes the stream after this event; `None`: the id of the event before stays.
    pub id: Option<u64>,
    /// The content.
    pub data: Arc<str>,
}

/// Returns an answer that sends these events as they come, and keep-alives while none comes. The next event is taken
/// when the client has read those before it; dropping the connection drops the events. A client whose connection breaks
/// is asked to connect again.
pub fn event_stream(frames: BoxStream<'static, SseFrame>) -> ServedResponse {
    stream_after(format!("retry: {}\n\n", limits::SERVE_STREAM_RETRY.as_millis()), frames)
}

/// Returns an answer like [`event_stream`] that cannot be resumed. Before its first event it sends nothing: some
/// clients take a `retry` for an event.
pub fn single_event_stream(frames: BoxStream<'static, SseFrame>) -> ServedResponse {
    stream_after(String::new(), frames)
}

fn stream_after(beginning: String, frames: BoxStream<'static, SseFrame>) -> ServedResponse {
    let silence = Box::pin(sleep(limits::SERVE_KEEP_ALIVE));
    let body = SseBody { frames, chunk: beginning, silence, has_ended: false };
    let (mut parts, _) = bytes_response(StatusCode::OK, "text/event-stream", Bytes::new()).into_parts();
    // Some proxies hold answers back until they have enough of them.
    parts.headers.insert(header::HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    Response::from_parts(parts, body.boxed_unsync())
}

/// A body that consists of events.
struct SseBody {
    frames: BoxStream<'static, SseFrame>,
    /// The text that is to be sent next.
    chunk: String,
    /// Ends when a keep-alive is due.
    silence: Pin<Box<Sleep>>,
    has_ended: bool,
}

impl Body for SseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        while !this.has_ended && this.chunk.len() < limits::SERVE_STREAM_CHUNK_BYTES {
            match this.frames.poll_next_unpin(cx) {
                Poll::Ready(Some(frame)) => frame.write_to(&mut this.chunk),
                Poll::Ready(None) => this.has_ended = true,
                Poll::Pending => break,
            }
        }
        if this.chunk.is_empty() {
            if this.has_ended {
                return Poll::Ready(None);
            }
            ready!(this.silence.as_mut().poll(cx));
            this.chunk.push_str(": keep-alive\n\n");
        }
        this.silence.as_mut().reset(Instant::now() + limits::SERVE_KEEP_ALIVE);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(std::mem::take(&mut this.chunk))))))
    }
}

impl SseFrame {
    /// Appends the event as it is sent. A line break in the content begins another line of it, so that none can end the
    /// event.
    fn write_to(&self, text: &mut String) {
        // Writing to a text cannot fail.
        if let Some(id) = self.id {
            let _ = writeln!(text, "id: {id}");
        }
        if let Some(event) = self.event {
            let _ = writeln!(text, "event: {event}");
        }
        // One line, as JSON is: each watcher of a run is sent it.
        if memchr2(b'\n', b'\r', self.data.as_bytes()).is_none() {
            let _ = writeln!(text, "data: {}", self.data);
        } else {
            for line in self.data.split(['\n', '\r']) {
                let _ = writeln!(text, "data: {line}");
            }
        }
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;

    use super::*;

    fn frame(id: Option<u64>, data: &str) -> SseFrame {
        SseFrame { event: Some("run"), id, data: data.into() }
    }

    /// Returns the next piece of a body.
    async fn next(response: &mut ServedResponse) -> Option<String> {
        let data = response.body_mut().frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn events_are_written_as_browsers_read_them() {
        let frames = stream::iter([frame(Some(7), "{\"a\":1}"), frame(None, "two\nlines\rid: 9")]);
        let mut response = event_stream(frames.boxed());
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let expected =
            "retry: 1000\n\nid: 7\nevent: run\ndata: {\"a\":1}\n\nevent: run\ndata: two\ndata: lines\ndata: id: 9\n\n";
        assert_eq!(next(&mut response).await.unwrap(), expected);
        assert_eq!(next(&mut response).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn single_stream_begins_with_its_first_event() {
        let one = SseFrame { event: None, id: None, data: "{}".into() };
        let mut response = single_event_stream(stream::iter([one]).chain(stream::pending()).boxed());
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        assert_eq!(next(&mut response).await.unwrap(), "data: {}\n\n");
        assert_eq!(next(&mut response).await.unwrap(), ": keep-alive\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_stream_sends_keep_alives() {
        let mut response = event_stream(stream::pending().boxed());
        let before = Instant::now();
        assert_eq!(next(&mut response).await.unwrap(), "retry: 1000\n\n");
        for n in 1..=2 {
            assert_eq!(next(&mut response).await.unwrap(), ": keep-alive\n\n");
            assert!(before.elapsed() >= limits::SERVE_KEEP_ALIVE * n - Duration::from_millis(n.into()));
        }
    }

    #[tokio::test]
    async fn events_are_taken_as_the_client_reads() {
        let taken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let long = "x".repeat(limits::SERVE_STREAM_CHUNK_BYTES);
        let frames = stream::repeat(frame(Some(1), &long)).inspect(move |_| {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        });
        let mut response = event_stream(frames.boxed());
        for n in 1..=3 {
            assert!(next(&mut response).await.unwrap().len() > limits::SERVE_STREAM_CHUNK_BYTES);
            assert_eq!(taken.load(std::sync::atomic::Ordering::SeqCst), n);
        }
    }
}
