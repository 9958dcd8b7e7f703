use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, header::AsHeaderName, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{
    Method, Request, StatusCode,
    body::{Body, Incoming},
};
use tokio::time::timeout;

use super::connections::{ClientConnection, ConnectionUse};
use shelly_core::{
    event::{PropagatedSpan, TRACEPARENT, TRACESTATE},
    limits,
};

/// A request that the [`AccessPolicy`](super::AccessPolicy) admits. Its body is not read yet.
pub struct ServedRequest {
    parts: Parts,
    /// `None` once the body was read.
    body: Option<Incoming>,
    is_encrypted: bool,
    connection: Arc<ClientConnection>,
}

/// The reason why the body of a request cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is larger than the service takes.
    #[error("the body has more than {most} bytes")]
    TooLarge {
        /// The maximum in bytes.
        most: usize,
    },
    /// The connection broke, or the body is not encoded as its head says.
    #[error("the body cannot be read")]
    Unreadable,
    /// The body did not arrive within [`limits::SERVE_REQUEST_TIME`].
    #[error("the body did not arrive in time")]
    TooSlow,
}

impl BodyError {
    /// Returns the status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Unreadable => StatusCode::BAD_REQUEST,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
        }
    }
}

impl ServedRequest {
    /// Takes over a request. One without a body is in progress from now on.
    pub(super) fn new(request: Request<Incoming>, is_encrypted: bool, connection: &Arc<ClientConnection>) -> Self {
        let (parts, body) = request.into_parts();
        if body.is_end_stream() {
            connection.use_for(ConnectionUse::Busy);
        }
        Self { parts, body: Some(body), is_encrypted, connection: Arc::clone(connection) }
    }

    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.parts.method
    }

    /// Returns the scheme of the address to which the request was sent: `https` if the server speaks TLS, else `http`.
    pub fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Returns the path as it was sent: percent-encoded, with `.` and `..`, without the query.
    pub fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// Returns the decoded value of a parameter of the query: the first one of this name.
    pub fn query_value(&self, name: &str) -> Option<String> {
        let query = self.parts.uri.query()?;
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// Returns the value of a header; `None` if there is none, there are several, or it is no visible ASCII text.
    pub fn header(&self, name: impl AsHeaderName) -> Option<&str> {
        let mut all = self.parts.headers.get_all(name).iter();
        match (all.next(), all.next()) {
            (Some(one), None) => one.to_str().ok(),
            _ => None,
        }
    }

    /// Returns all headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Returns `true` if there is a header of this name, whatever its value is.
    pub fn has_header(&self, name: impl AsHeaderName) -> bool {
        self.parts.headers.contains_key(name)
    }

    /// Returns the span of the client to which the request belongs, if it names one in the form of the W3C Trace Context.
    pub fn outer_span(&self) -> Option<PropagatedSpan> {
        PropagatedSpan::parse(self.header(TRACEPARENT), self.header(TRACESTATE))
    }

    /// Returns the bytes of the body, if the client has declared them.
    pub fn body_bytes(&self) -> Option<u64> {
        self.body.as_ref().and_then(|body| body.size_hint().exact())
    }

    /// Returns the address of the client.
    pub fn peer(&self) -> IpAddr {
        self.connection.peer
    }

    /// Marks the connection as one that only listens. It is the first that is closed for others after those that wait for a
    /// request, since its client can resume it.
    pub fn listen(&self) {
        self.connection.use_for(ConnectionUse::Listening);
    }

    /// Reads the whole body. A second call returns an empty body.
    ///
    /// # Errors
    ///
    /// A [`BodyError`]. A body that declares to be too large is not read.
    pub async fn read_body(&mut self, most: usize) -> Result<Bytes, BodyError> {
        let Some(body) = self.body.take() else { return Ok(Bytes::new()) };
        if body.size_hint().lower() > most as u64 {
            return Err(BodyError::TooLarge { most });
        }
        let whole = Limited::new(body, most).collect();
        let read = match timeout(limits::SERVE_REQUEST_TIME, whole).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge { most }),
            Ok(Err(_)) => Err(BodyError::Unreadable),
            Err(_) => Err(BodyError::TooSlow),
        };
        if read.is_ok() {
            self.connection.use_for(ConnectionUse::Busy);
        }
        read
    }

    /// Returns the head of the request, for a library that takes it.
    pub fn into_parts(self) -> Parts {
        self.parts
    }
}
