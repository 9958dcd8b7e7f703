//! The HTTP client below an `Egress`, whose connections count the bytes they read.
//!
//! A server can endlessly send data that never becomes part of a response: interim responses (1xx), or HTTP/2 frames without
//! content. `reqwest` hides all of that, so its parts are assembled here again: hyper's client, rustls, and the decoders of
//! `tower-http`. A [`ReadMeter`] between hyper and the socket counts the bytes that a connection reads, and deducts those
//! that were delivered. A connection whose count exceeds [`limits::EGRESS_IDLE_BYTES`] is closed.

use std::{
    error::Error,
    fmt, io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, header};
use http_body::{Body, Frame, SizeHint};
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector};
use hyper_util::{
    client::legacy::{
        self, Client,
        connect::{Connected, Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use reqwest::ResponseBuilderExt;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tower_http::decompression::Decompression;
use tower_service::Service;
use url::Url;

use super::{box_error::BoxError, resolver::GrantedResolver};
use shelly_core::limits;

/// An HTTP client. Clones share its connections.
#[derive(Clone)]
pub(super) struct EgressTransport(Decompression<MeteredClient>);

impl EgressTransport {
    /// Creates a client that connects to the addresses from this resolver. It uses no proxy and follows no redirects.
    pub fn new(resolver: GrantedResolver, tls: rustls::ClientConfig) -> Self {
        Self::with(resolver, tls, Client::builder(TokioExecutor::new()))
    }

    fn with(resolver: GrantedResolver, tls: rustls::ClientConfig, mut builder: legacy::Builder) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(resolver);
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(limits::EGRESS_KEEP_ALIVE));
        let https = HttpsConnector::new(MeteredTcp(tcp), tls, false, Arc::new(DefaultServerNameResolver::default()));
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(limits::EGRESS_IDLE_CONNECTIONS)
            .pool_idle_timeout(limits::EGRESS_IDLE_TIME)
            .http1_max_headers(limits::EGRESS_RESPONSE_HEADERS)
            .http2_max_header_list_size(limits::EGRESS_RESPONSE_HEADER_BYTES as u32)
            .http2_initial_stream_window_size(limits::EGRESS_WINDOW_BYTES)
            .http2_initial_connection_window_size(limits::EGRESS_WINDOW_BYTES);
        Self(Decompression::new(MeteredClient(builder.build(TimedConnector(https)))))
    }

    /// Sends a request to this URL and waits for the head of its response, whose body is decoded as it is read. Dropping the
    /// future closes the connection.
    ///
    /// # Errors
    ///
    /// The error of hyper's client, whose sources contain the cause.
    pub async fn execute(
        &self,
        mut request: Request<reqwest::Body>,
        url: Url,
    ) -> Result<reqwest::Response, legacy::Error> {
        add_default_headers(request.headers_mut());
        let (mut parts, body) = self.0.clone().call(request).await?.into_parts();
        if let Ok(named) = Response::builder().url(url).body(()) {
            parts.extensions.extend(named.into_parts().0.extensions);
        }
        Ok(Response::from_parts(parts, reqwest::Body::wrap(body)).into())
    }
}

fn add_default_headers(headers: &mut HeaderMap) {
    let defaults = [(header::ACCEPT, "*/*"), (header::USER_AGENT, concat!("shelly-host/", env!("CARGO_PKG_VERSION")))];
    for (name, value) in defaults {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// The number of bytes that a connection has read without delivering them.
#[derive(Debug, Clone, Default)]
struct ReadMeter(Arc<AtomicU64>);

impl ReadMeter {
    /// Counts bytes that were read.
    fn add(&self, bytes: usize) -> io::Result<()> {
        let bytes = bytes as u64;
        match self.0.fetch_add(bytes, Relaxed).saturating_add(bytes) > limits::EGRESS_IDLE_BYTES {
            true => Err(io::Error::other(IdleBytesExceeded)),
            false => Ok(()),
        }
    }

    /// Deducts a piece of a body that was passed on, and its framing.
    fn deliver(&self, bytes: usize) {
        let bytes = (bytes as u64).saturating_add(limits::EGRESS_FRAME_BYTES);
        // Cannot fail: the closure always returns `Some`.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |count| Some(count.saturating_sub(bytes)));
    }

    /// Resets the count, because a response has arrived.
    fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// The error of a connection whose server sent too many bytes that belong to no response.
#[derive(Debug)]
pub(super) struct IdleBytesExceeded;

impl fmt::Display for IdleBytesExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = limits::EGRESS_IDLE_BYTES >> 20;
        write!(f, "received more than {most} MiB that are part of no response, such as interim responses (1xx)")
    }
}

impl Error for IdleBytesExceeded {}

/// A connector whose TCP connections count the bytes they read.
#[derive(Clone)]
struct MeteredTcp(HttpConnector<GrantedResolver>);

impl Service<Uri> for MeteredTcp {
    type Response = TokioIo<MeteredStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(MeteredStream { stream, meter: ReadMeter::default() }))
        })
    }
}

/// A TCP connection that counts the bytes read from it.
struct MeteredStream {
    stream: TcpStream,
    meter: ReadMeter,
}

impl Connection for MeteredStream {
    fn connected(&self) -> Connected {
        // Each response of this connection carries the meter in its extensions.
        self.stream.connected().extra(self.meter.clone())
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, meter } = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(stream).poll_read(cx, buffer))?;
        Poll::Ready(meter.add(buffer.filled().len() - before))
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A connector with a time limit for connecting, including TLS.
#[derive(Clone)]
struct TimedConnector(HttpsConnector<MeteredTcp>);

impl Service<Uri> for TimedConnector {
    type Response = <HttpsConnector<MeteredTcp> as Service<Uri>>::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = timeout(limits::CONNECT_TIME, self.0.call(uri));
        Box::pin(
            async move { connecting.await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into())) },
        )
    }
}

/// Hyper's client, which reports delivered bytes to the meter of the connection.
#[derive(Clone)]
struct MeteredClient(Client<TimedConnector, reqwest::Body>);

impl Service<Request<reqwest::Body>> for MeteredClient {
    type Response = Response<MeteredBody>;
    type Error = legacy::Error;
    type Future = BoxFuture<'static, Result<Self::Response, legacy::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), legacy::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<reqwest::Body>) -> Self::Future {
        let answering = self.0.request(request);
        Box::pin(async move {
            let response = answering.await?;
            let meter = response.extensions().get::<ReadMeter>().cloned().unwrap_or_default();
            meter.reset();
            Ok(response.map(|body| MeteredBody { body, meter }))
        })
    }
}

/// The raw body of a response, whose pieces are deducted from the meter of its connection.
struct MeteredBody {
    body: hyper::body::Incoming,
    meter: ReadMeter,
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body, meter } = self.get_mut();
        let frame = ready!(Pin::new(body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref().filter(|data| !data.is_empty())
        {
            meter.deliver(data.len());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use hyper::{server::conn::http2, service::service_fn};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::{egress::resolver::of_system, failure::root, tls::TlsTrust};
    use shelly_core::capability::{AllowedAddresses, loopback};

    /// Sends a request over HTTP/2 without TLS.
    async fn answer(listener: &TcpListener) -> Result<reqwest::Response, legacy::Error> {
        let resolver = GrantedResolver { reaches: AllowedAddresses::public_and(loopback()), lookup: of_system() };
        let mut builder = Client::builder(TokioExecutor::new());
        builder.http2_only(true);
        let transport = EgressTransport::with(resolver, TlsTrust::of_process().unwrap().tls.clone(), builder);
        let url: Url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let request = Request::builder().uri(url.as_str()).body(reqwest::Body::default()).unwrap();
        transport.execute(request, url).await
    }

    #[tokio::test]
    async fn large_body_comes_whole_over_http_2() {
        const BYTES: usize = 4 * limits::EGRESS_IDLE_BYTES as usize;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let serving = async {
            let (connection, _) = listener.accept().await.unwrap();
            let says =
                service_fn(async |_| Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::from(vec![7; BYTES])))));
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(connection), says).await
        };
        let asking = async { answer(&listener).await.unwrap().bytes().await.unwrap() };
        let body = tokio::select! {
            body = asking => body,
            ended = serving => panic!("{ended:?}"),
        };
        assert_eq!(body.len(), BYTES);
    }

    #[tokio::test]
    async fn endless_frames_of_http_2_are_cut() {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        // HEADERS of stream 1 with END_HEADERS: `:status: 103`.
        const INTERIM: [u8; 14] = [0, 0, 5, 1, 4, 0, 0, 0, 1, 8, 3, b'1', b'0', b'3'];
        const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        for frame in [&INTERIM[..], &PING] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let serving = async {
                let (connection, _) = listener.accept().await.unwrap();
                let (mut reader, mut writer) = connection.into_split();
                writer.write_all(&SETTINGS).await.unwrap();
                let mut heard = vec![0; 64 << 10];
                reader.read_exact(&mut heard[..PREFACE.len()]).await.unwrap();
                // A stream does not exist before its HEADERS have arrived.
                while heard[3] != 1 {
                    reader.read_exact(&mut heard[..9]).await.unwrap();
                    let length = usize::from(heard[1]) << 8 | usize::from(heard[2]);
                    reader.read_exact(&mut heard[9..9 + length]).await.unwrap();
                }
                let reading = async { while reader.read(&mut heard).await.is_ok_and(|read| read > 0) {} };
                let writing = async {
                    let many = frame.repeat(1_000);
                    while writer.write_all(&many).await.is_ok() {}
                };
                tokio::join!(reading, writing);
            };
            let (answered, ()) = tokio::join!(answer(&listener), serving);
            let error = answered.unwrap_err();
            assert_eq!(root(&error), IdleBytesExceeded.to_string(), "{error:?}");
        }
    }
}
