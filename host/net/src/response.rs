use std::{fmt, time::Duration};

use futures_util::{
    FutureExt, Stream, StreamExt,
    stream::{self, BoxStream},
};
use reqwest::header;
use tokio::time::{Instant, timeout_at};

use super::{
    failure::{root, timed_out, unavailable},
    rate::RateLimits,
    secret::Secret,
    status,
};
use shelly_core::{error::Fault, limits};

/// The bytes of a reply as they arrive; an error ends the stream. Dropping it early ends the request: over HTTP/1.1 by
/// closing the connection, over HTTP/2 by resetting the stream.
pub type ByteStream = BoxStream<'static, Result<Vec<u8>, Fault>>;

/// The reply to a request, with a success status. It has begun: its first bytes have arrived.
pub struct SuccessResponse {
    pub(super) first: Option<Vec<u8>>,
    pub(super) body: HttpResponseBody,
    pub(super) rate_limits: RateLimits,
}

impl fmt::Debug for SuccessResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.body.origin)
    }
}

impl SuccessResponse {
    /// Returns the rate limits that the server reported.
    pub fn rate_limits(&self) -> &RateLimits {
        &self.rate_limits
    }

    /// Returns the body as a stream of bytes. A broken connection or a silence beyond the request's limits is an error,
    /// [`Fault::Unavailable`] or [`Fault::Timeout`].
    pub fn into_stream(self) -> ByteStream {
        stream::iter(self.first.map(Ok)).chain(stream_of(self.body)).boxed()
    }

    /// Returns the whole body.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] beyond `limit` bytes, and the errors of [`SuccessResponse::into_stream`].
    pub async fn read(mut self, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = self.first.unwrap_or_default();
        while bytes.len() <= limit {
            match self.body.next().await? {
                Some(chunk) => bytes.extend(chunk),
                None => return Ok(bytes),
            }
        }
        Err(Fault::TooLarge { message: format!("{} answered with more than {limit} bytes", self.body.origin) })
    }
}

/// Returns the rest of a body as a stream.
pub(super) fn stream_of(body: HttpResponseBody) -> impl Stream<Item = Result<Vec<u8>, Fault>> + Send {
    // Boxed, because the body is moved with each chunk.
    stream::try_unfold(Box::new(body), |mut body| async { Ok(body.next().await?.map(|chunk| (chunk, body))) })
}

pub(super) struct HttpResponseBody {
    pub response: reqwest::Response,
    pub origin: String,
    pub deadline: Instant,
    pub idle: Duration,
}

impl HttpResponseBody {
    /// Returns the compression of the bytes, if any.
    pub(super) fn encoding(&self, secrets: &[Secret]) -> Option<String> {
        let value = self.response.headers().get(header::CONTENT_ENCODING)?;
        let named = status::shown(&String::from_utf8_lossy(value.as_bytes()), secrets, limits::SHOWN_HEADER_BYTES);
        (!matches!(&*named, "" | "identity")).then_some(named)
    }

    /// Returns the next bytes, after a silence of at most `idle`.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        // Avoids a timer if a chunk has already arrived.
        if let Some(chunk) = self.response.chunk().now_or_never() {
            return self.received(chunk);
        }
        self.chunk(self.deadline.min(Instant::now() + self.idle)).await
    }

    pub(super) async fn chunk(&mut self, until: Instant) -> Result<Option<Vec<u8>>, Fault> {
        match timeout_at(until, self.response.chunk()).await {
            Ok(chunk) => self.received(chunk),
            Err(_) if until == self.deadline => Err(timed_out(&self.origin)),
            Err(_) => {
                Err(unavailable(format!("{} sent nothing for {:?} in the middle of its reply", self.origin, self.idle)))
            }
        }
    }

    fn received(&self, chunk: reqwest::Result<Option<impl AsRef<[u8]>>>) -> Result<Option<Vec<u8>>, Fault> {
        match chunk {
            Ok(chunk) => Ok(chunk.map(|chunk| chunk.as_ref().to_vec())),
            Err(error) => Err(unavailable(format!("{} ended its reply early: {}", self.origin, root(&error)))),
        }
    }

    /// Returns up to `limit` bytes of the body, to explain a failure. Errors are ignored, and a compressed body is not read.
    pub(super) async fn beginning(&mut self, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.encoding(&[]).is_some() {
            return bytes;
        }
        while bytes.len() < limit
            && let Ok(Some(chunk)) = self.next().await
        {
            bytes.extend(chunk);
        }
        bytes.truncate(limit);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::{HttpClient, HttpRequest, Retries, endpoint};
    use shelly_test_support::{CannedResponse, TestServer, answer};

    async fn post(server: &TestServer) -> Result<SuccessResponse, Fault> {
        let request = HttpRequest::new(endpoint(&server.url, &["v1"])?);
        HttpClient::new()?.post(&HttpRequest { retries: Retries::NONE, ..request }, b"{}".into()).await
    }

    async fn whole(reply: SuccessResponse) -> (Vec<u8>, Option<Fault>) {
        let (mut bytes, mut stream) = (Vec::new(), reply.into_stream());
        while let Some(chunk) = stream.next().await {
            match chunk {
                Ok(chunk) => bytes.extend(chunk),
                Err(fault) => {
                    assert!(stream.next().await.is_none(), "nothing comes after an error");
                    return (bytes, Some(fault));
                }
            }
        }
        (bytes, None)
    }

    #[tokio::test]
    async fn a_cut_is_an_error_however_the_length_was_told() {
        for (head, is_cut) in [
            ("content-length: 5\r\n\r\nfi", true),
            ("transfer-encoding: chunked\r\n\r\n2\r\nfi\r\n", true),
            ("transfer-encoding: chunked\r\n\r\n5\r\nfi", true),
            ("transfer-encoding: chunked\r\n\r\n2\r\nfi\r\nxyz\r\n", true),
            ("transfer-encoding: chunked\r\n\r\n2\r\nfi\r\n0\r\n\r\n", false),
            // Without a length, the body ends with the connection: only the content tells if it is complete.
            ("connection: close\r\n\r\nfi", false),
        ] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{head}").into_bytes();
            let server = TestServer::start(vec![CannedResponse { bytes, stays: false }]).await;
            let (said, fault) = whole(post(&server).await.unwrap()).await;
            assert_eq!(said, b"fi", "{head}");
            assert_eq!(matches!(fault, Some(Fault::Unavailable { .. })), is_cut, "{head}: {fault:?}");
            assert_eq!(fault.is_some(), is_cut, "{head}");
        }
    }

    #[tokio::test]
    async fn a_reply_is_never_compressed() {
        let zipped = |status, encoding| answer(status, &format!("content-encoding: {encoding}\r\n"), "\u{1f}\u{8b}");
        let server =
            TestServer::start(vec![zipped("200 OK", "gzip"), zipped("200 OK", "identity"), zipped("500 Odd", "gzip")])
                .await;
        let said = post(&server).await.unwrap_err().to_string();
        assert!(said.ends_with(" sent a compressed reply (gzip) that was not requested"), "{said}");
        assert!(post(&server).await.is_ok());
        let said = post(&server).await.unwrap_err().to_string();
        assert!(said.ends_with(" answered 500 Internal Server Error"), "{said}");
        assert!(!server.requests()[0].to_lowercase().contains("accept-encoding"));
    }

    /// Returns an HTTP/2 frame on the stream `stream`.
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let head = [0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, stream];
        [&head[..], payload].concat()
    }

    #[tokio::test]
    async fn a_reset_of_http_2_is_a_cut() {
        const SETTINGS: u8 = 4;
        for (frames, expected) in [
            // RST_STREAM with INTERNAL_ERROR, then with CANCEL; GOAWAY; only the end of the connection.
            (frame(3, 0, 1, &[0, 0, 0, 2]), true),
            (frame(3, 0, 1, &[0, 0, 0, 8]), true),
            (frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 2]), true),
            (vec![], true),
            // DATA with END_STREAM.
            (frame(0, 1, 1, b""), false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            tokio::spawn(async move {
                let (mut connection, _) = listener.accept().await.unwrap();
                let mut heard = [0; 4_096];
                let _ = connection.read(&mut heard).await.unwrap();
                let greeting = [frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].concat();
                connection.write_all(&greeting).await.unwrap();
                // HEADERS: `:status: 200` is one byte. Then DATA.
                let reply = [frame(1, 4, 1, &[0x88]), frame(0, 0, 1, b"fi"), frames].concat();
                // The first bytes may only have been the preface; the request has arrived once there are more.
                let _ = connection.read(&mut heard).await.unwrap();
                connection.write_all(&reply).await.unwrap();
                connection.shutdown().await.unwrap();
                while connection.read(&mut heard).await.is_ok_and(|read| read > 0) {}
            });
            let client = HttpClient::new().unwrap();
            let http = reqwest::Client::builder().no_proxy().http2_prior_knowledge().build().unwrap();
            let client = HttpClient { http, ..client };
            let request = HttpRequest { retries: Retries::NONE, ..HttpRequest::new(endpoint(&url, &["v1"]).unwrap()) };
            let (said, fault) = match client.post(&request, b"{}".into()).await {
                Ok(reply) => whole(reply).await,
                Err(fault) => (b"fi".into(), Some(fault)),
            };
            assert_eq!(said, b"fi");
            assert_eq!(matches!(fault, Some(Fault::Unavailable { .. })), expected, "{fault:?}");
        }
    }

    #[tokio::test]
    async fn dropped_reply_closes_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = endpoint(&format!("http://{}", listener.local_addr().unwrap()), &["v1"]).unwrap();
        let serve = async {
            let mut connection: TcpStream = listener.accept().await.unwrap().0;
            let (mut heard, mut ends) = (Vec::new(), false);
            while !heard.ends_with(b"{}") {
                assert_ne!(connection.read_buf(&mut heard).await.unwrap(), 0);
            }
            connection.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nfi\r\n").await.unwrap();
            while !ends {
                // Either the end or a reset.
                ends = connection.read_buf(&mut heard).await.is_ok_and(|read| read == 0);
            }
        };
        let client = HttpClient::new().unwrap();
        let drops = async {
            let mut stream = client.post(&HttpRequest::new(url), b"{}".into()).await.unwrap().into_stream();
            assert_eq!(stream.next().await.unwrap().unwrap(), b"fi");
            drop(stream);
        };
        let both = futures_util::future::join(serve, drops);
        assert!(tokio::time::timeout(limits::CONNECT_TIME, both).await.is_ok(), "the connection is still open");
    }
}
