use std::{fmt, time::Duration};

use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, StatusCode, Upgraded, header};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        error::ProtocolError,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    HttpClient, HttpRequest, RateLimits, Secret,
    failure::{FailedAttempt, root, timed_out, unavailable},
    status::shown,
};
use shelly_core::{error::Fault, limits};

impl HttpClient {
    /// Opens a WebSocket at the address of `request`: encrypted for `https` (or `wss`), unencrypted for `http` (or `ws`). It
    /// begins as an ordinary request, with the same credential, proxy, certificates and attempts. The request's time limits
    /// apply to the whole life of the WebSocket.
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::post`]; [`Fault::Other`] if the server's response does not open a WebSocket.
    pub async fn dial(&self, request: &HttpRequest) -> Result<WebSocket, Fault> {
        let mut message = self.message(Method::GET, request, None)?;
        let scheme = if matches!(request.url.scheme(), "https" | "wss") { "https" } else { "http" };
        // `set_scheme` refuses some changes, but not these.
        let _ = message.url_mut().set_scheme(scheme);
        let headers = message.headers_mut();
        headers.remove(header::ACCEPT);
        for (name, value) in
            [(header::CONNECTION, "Upgrade"), (header::UPGRADE, "websocket"), (header::SEC_WEBSOCKET_VERSION, "13")]
        {
            headers.insert(name, header::HeaderValue::from_static(value));
        }
        let (http, deadline) = (self.sockets()?, Instant::now() + request.total);
        let attempt = || async {
            let message = message.try_clone().ok_or_else(|| Fault::other("a request cannot be sent twice"))?;
            self.upgrade(http, message, request, deadline).await
        };
        self.again(request, deadline, attempt).await
    }

    async fn upgrade(
        &self,
        http: &reqwest::Client,
        mut message: reqwest::Request,
        request: &HttpRequest,
        deadline: Instant,
    ) -> Result<WebSocket, FailedAttempt> {
        let key = generate_key();
        let accepted = derive_accept_key(key.as_bytes());
        let value = header::HeaderValue::from_str(&key).map_err(|error| Fault::other(error.to_string()))?;
        message.headers_mut().insert(header::SEC_WEBSOCKET_KEY, value);
        let wanted = |status: &StatusCode| status.is_success() || *status == StatusCode::SWITCHING_PROTOCOLS;
        let (body, rate_limits) = self.execute(http, message, request, deadline, wanted).await?;
        let (origin, response) = (body.origin, body.response);
        let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if response.status() != StatusCode::SWITCHING_PROTOCOLS
            || accept.is_none_or(|accept| accept != accepted.as_str())
        {
            let status = response.status().as_u16();
            return Err(Fault::other(format!("{origin} answered {status} and opened no WebSocket")).into());
        }
        let connection = timeout_at(deadline, response.upgrade())
            .await
            .map_err(|_| timed_out(&origin))?
            .map_err(|error| unavailable(format!("{origin} cut the WebSocket off: {}", root(&error))))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(limits::WEBSOCKET_MESSAGE_BYTES))
            .max_frame_size(Some(limits::WEBSOCKET_MESSAGE_BYTES));
        let socket = WebSocketStream::from_raw_socket(connection, Role::Client, Some(config)).await;
        let secrets = self.secrets(request);
        Ok(WebSocket { socket, origin, secrets, deadline, idle: request.idle, rate_limits })
    }
}

/// A connection over which both sides send texts at any time. Dropping it closes the connection.
pub struct WebSocket {
    socket: WebSocketStream<Upgraded>,
    origin: String,
    secrets: Vec<Secret>,
    deadline: Instant,
    idle: Duration,
    rate_limits: RateLimits,
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebSocket({})", self.origin)
    }
}

impl WebSocket {
    /// Returns the rate limits that the server reported when the WebSocket was opened.
    pub fn rate_limits(&self) -> &RateLimits {
        &self.rate_limits
    }

    /// Sends a text.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] beyond [`limits::WEBSOCKET_MESSAGE_BYTES`], and the errors of [`WebSocket::receive`].
    pub async fn send(&mut self, text: impl Into<String>) -> Result<(), Fault> {
        let (text, most) = (text.into(), limits::WEBSOCKET_MESSAGE_BYTES);
        if text.len() > most {
            return Err(Fault::TooLarge {
                message: format!("a message to {} has more than {most} bytes", self.origin),
            });
        }
        let until = self.deadline.min(Instant::now() + self.idle);
        match timeout_at(until, self.socket.send(Message::text(text))).await {
            Ok(sent) => sent.map_err(|error| self.broke(error)),
            Err(_) => Err(self.silent(until)),
        }
    }

    /// Returns the next text; `None` once the server has closed the WebSocket normally. Answers the server's pings while it
    /// waits. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] after a silence beyond the request's `idle`, or if the connection was cut; [`Fault::Timeout`]
    /// after its `total`; [`Fault::TooLarge`] beyond [`limits::WEBSOCKET_MESSAGE_BYTES`]; otherwise the fault for the
    /// server's close code. Nothing follows an error.
    pub async fn receive(&mut self) -> Result<Option<String>, Fault> {
        loop {
            let until = self.deadline.min(Instant::now() + self.idle);
            let message = match timeout_at(until, self.socket.next()).await {
                Ok(Some(message)) => message.map_err(|error| self.broke(error))?,
                Ok(None) => return Ok(None),
                Err(_) => return Err(self.silent(until)),
            };
            match message {
                Message::Text(text) => return Ok(Some(text.to_string())),
                // Some servers send their JSON as binary messages.
                Message::Binary(bytes) => match String::from_utf8(bytes.into()) {
                    Ok(text) => return Ok(Some(text)),
                    Err(_) => return Err(Fault::other(format!("{} sent bytes that are no text", self.origin))),
                },
                Message::Close(frame) => {
                    // Sends our own close frame. It does not matter if it arrives.
                    let _ = timeout(limits::WEBSOCKET_CLOSE_TIME, self.socket.next()).await;
                    return self.closed(frame);
                }
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }

    /// Closes the WebSocket normally; messages that the server still sends are dropped. Takes at most
    /// [`limits::WEBSOCKET_CLOSE_TIME`].
    pub async fn close(mut self) {
        let ends = async {
            let _ = self.socket.close(None).await;
            while let Some(Ok(_)) = self.socket.next().await {}
        };
        let _ = timeout(limits::WEBSOCKET_CLOSE_TIME, ends).await;
    }

    /// Returns the result or fault for the server's close frame.
    fn closed(&self, frame: Option<CloseFrame>) -> Result<Option<String>, Fault> {
        let Some(frame) = frame else { return Ok(None) };
        let reason = shown(&frame.reason, &self.secrets, limits::ERROR_BYTES);
        let code = u16::from(frame.code);
        let message = format!("{} closed the WebSocket with {code}{}{reason}", self.origin, separator(&reason));
        Err(match frame.code {
            CloseCode::Normal | CloseCode::Status => return Ok(None),
            CloseCode::Away | CloseCode::Error | CloseCode::Restart | CloseCode::Again => unavailable(message),
            CloseCode::Protocol | CloseCode::Unsupported | CloseCode::Invalid => Fault::invalid(message),
            // 3000 and 3003 are registered as the equivalents of HTTP 401 and 403.
            CloseCode::Policy | CloseCode::Iana(3_000 | 3_003) => Fault::Denied { message },
            CloseCode::Size => Fault::TooLarge { message },
            _ => Fault::other(message),
        })
    }

    fn silent(&self, until: Instant) -> Fault {
        if until == self.deadline {
            return timed_out(&self.origin);
        }
        unavailable(format!("{} fell silent on its WebSocket, for {:?}", self.origin, self.idle))
    }

    fn broke(&self, error: tungstenite::Error) -> Fault {
        use tungstenite::Error;

        let origin = &self.origin;
        let why = shown(&error.to_string(), &self.secrets, limits::ERROR_BYTES);
        match error {
            Error::Capacity(_) => {
                let most = limits::WEBSOCKET_MESSAGE_BYTES;
                Fault::TooLarge { message: format!("{origin} sent a message of more than {most} bytes") }
            }
            Error::Io(_)
            | Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
                unavailable(format!("{origin} cut the WebSocket off: {why}"))
            }
            _ => Fault::other(format!("{origin} does not keep to the rules of WebSockets: {why}")),
        }
    }
}

fn separator(reason: &str) -> &str {
    if reason.is_empty() { "" } else { ": " }
}

#[cfg(test)]
mod tests;
