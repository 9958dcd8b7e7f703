//! The state of `wasi:http`, for components that were not written for this host. Its requests go through the same client
//! as those of the import `http`.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, StreamBody};
use tokio::time::timeout;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks};

use crate::http_client::PluginHttpClient;
use shelly_core::{error::Fault, limits};
use shelly_net::egress::{CredentialUse, EgressRequest, EgressRequestBody, EgressResponse, EgressResponseBody};

/// The state of `wasi:http` in one store. It must be dropped before the store's table, so that a body whose writer is
/// dropped with the store is reported as cut off and not as complete.
#[derive(Default)]
pub struct WasiHttpState {
    context: WasiHttpCtx,
    hooks: PluginHttpHooks,
}

impl Drop for WasiHttpState {
    fn drop(&mut self) {
        self.hooks.is_gone.store(true, Ordering::Release);
    }
}

/// Sends the guest's requests; refuses them in calls that may send none.
#[derive(Default)]
struct PluginHttpHooks {
    client: Option<PluginHttpClient>,
    /// `true` once the store has been dropped.
    is_gone: Arc<AtomicBool>,
}

impl WasiHttpState {
    /// Returns the view through which the guest sends requests with this client; `None` refuses them all.
    pub fn view<'a>(
        &'a mut self,
        client: &Option<PluginHttpClient>,
        table: &'a mut ResourceTable,
    ) -> WasiHttpCtxView<'a> {
        let Self { context, hooks } = self;
        if hooks.client.is_none() {
            hooks.client.clone_from(client);
        }
        WasiHttpCtxView { hooks, table, ctx: context }
    }
}

type WasiHttpResult = Result<(Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

impl WasiHttpHooks for PluginHttpHooks {
    /// Returns `false`: the host's HTTP client sets the header itself.
    fn set_host_header(&mut self) -> bool {
        false
    }

    /// Returns the size of the chunks that are sent at once; each body that the guest has begun holds up to that much
    /// memory.
    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        limits::EGRESS_CHUNK_BYTES
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = WasiHttpResult> + Send> {
        let (client, is_gone) = (self.client.clone(), Arc::clone(&self.is_gone));
        Box::new(async move {
            let Some(client) = client else { return Err(Error::HttpRequestDenied) };
            let RequestOptions { connect_timeout, first_byte_timeout, between_bytes_timeout } =
                options.unwrap_or_default();
            let begins_within =
                [connect_timeout, first_byte_timeout].into_iter().flatten().reduce(|one, two| one + two);
            let (sent, event) = client.send(asked(request, is_gone), begins_within).await;
            client.cx.events.emit(event).await;
            let response = response(sent.map_err(|fault| code(&fault))?, between_bytes_timeout)?;
            Ok((response, Box::new(async { Ok(()) }) as Box<dyn Future<Output = _> + Send>))
        })
    }
}

/// Converts a guest's request. Leaves out `Content-Length` and `Accept-Encoding`, which the host's HTTP client sets
/// itself.
fn asked(request: Request<WasiBody>, is_gone: Arc<AtomicBool>) -> EgressRequest {
    let (parts, body) = request.into_parts();
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let is_host = |name: &HeaderName| matches!(*name, header::CONTENT_LENGTH | header::ACCEPT_ENCODING);
    let headers = parts.headers.iter().filter(|(name, _)| !is_host(name));
    let is_empty = body.is_end_stream() || length == Some(0);
    EgressRequest {
        method: parts.method.as_str().into(),
        url: parts.uri.to_string(),
        headers: headers.map(|(name, value)| (name.as_str().into(), value.as_bytes().into())).collect(),
        // `wasi:http` cannot name a credential.
        credential: CredentialUse::Any,
        // As in the standard: the guest sees the redirect, and may follow it itself.
        follow: false,
        timeout: None,
        idle: None,
        span: None,
        body: if is_empty {
            EgressRequestBody::default()
        } else {
            EgressRequestBody::stream(GuestRequestBody { body, is_gone }, length)
        },
    }
}

/// The body of a request, as the guest writes it.
struct GuestRequestBody {
    body: WasiBody,
    is_gone: Arc<AtomicBool>,
}

impl Body for GuestRequestBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled {
            // A complete body and a dropped writer look the same.
            Poll::Ready(None) if self.is_gone.load(Ordering::Acquire) => {
                Poll::Ready(Some(Err(Error::ConnectionTerminated)))
            }
            polled => polled,
        }
    }
}

fn response(sent: EgressResponse, between_bytes: Option<Duration>) -> Result<Response<WasiBody>, Error> {
    let EgressResponse { status, headers, body, .. } = sent;
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        // Always valid, since the value was received as a header.
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            response = response.header(name, value);
        }
    }
    response.body(streamed(body, between_bytes)).map_err(|_| Error::HttpProtocolError)
}

/// Returns the body of a response as a stream that reads each piece when the guest asks for it.
fn streamed(reply: EgressResponseBody, between_bytes: Option<Duration>) -> WasiBody {
    let pieces = stream::try_unfold(reply, move |mut reply| async move {
        let next = async { reply.chunk().await.map_err(|fault| code(&fault)) };
        let next = match between_bytes {
            Some(time) => timeout(time, next).await.map_err(|_| Error::ConnectionReadTimeout)?,
            None => next.await,
        };
        Ok(next?.map(|chunk: Bytes| (Frame::data(chunk), reply)))
    });
    let pieces: Pin<Box<dyn futures_util::Stream<Item = Result<Frame<Bytes>, Error>> + Send>> = Box::pin(pieces);
    StreamBody::new(pieces).boxed_unsync()
}

/// Converts a fault to an error code of `wasi:http`.
fn code(fault: &Fault) -> Error {
    match fault {
        Fault::Denied { .. } => Error::HttpRequestDenied,
        Fault::Invalid { .. } => Error::HttpRequestUriInvalid,
        Fault::NotFound { .. } => Error::DestinationNotFound,
        Fault::RateLimited { .. } => Error::ConnectionLimitReached,
        Fault::TooLarge { .. } => Error::HttpResponseBodySize(None),
        Fault::Timeout { .. } => Error::HttpResponseTimeout,
        Fault::Unavailable { .. } => Error::DestinationUnavailable,
        Fault::Exhausted { message } | Fault::Other { message } => Error::InternalError(Some(message.clone())),
    }
}
