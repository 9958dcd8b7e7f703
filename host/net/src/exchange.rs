use std::fmt;

use futures_util::StreamExt;
use http::{HeaderMap, Method, StatusCode};
use tokio::time::Instant;

use super::{
    ByteStream, HttpClient, HttpRequest,
    response::{HttpResponseBody, stream_of},
};
use shelly_core::error::Fault;

/// The response of a server with any status, for protocols in which the status means more than success or failure.
pub struct HttpResponse {
    body: HttpResponseBody,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Answer({}, {})", self.body.origin, self.body.response.status())
    }
}

impl HttpResponse {
    /// Returns the status.
    pub fn status(&self) -> StatusCode {
        self.body.response.status()
    }

    /// Returns the headers.
    pub fn headers(&self) -> &HeaderMap {
        self.body.response.headers()
    }

    /// Returns the body as a stream of bytes; see [`SuccessResponse::into_stream`](super::SuccessResponse::into_stream).
    pub fn into_stream(self) -> ByteStream {
        stream_of(self.body).boxed()
    }

    /// Returns up to `limit` bytes of the body, to explain a failure. Ignores errors.
    pub async fn beginning(mut self, limit: usize) -> Vec<u8> {
        self.body.beginning(limit).await
    }
}

impl HttpClient {
    /// Sends a request, with JSON if given. Repeats it, within its retries, only if there was no response.
    ///
    /// # Errors
    ///
    /// A [`Fault`] with the reason why there is no response. It shows neither key nor query.
    pub async fn exchange(
        &self,
        method: Method,
        request: &HttpRequest,
        json: Option<Vec<u8>>,
    ) -> Result<HttpResponse, Fault> {
        self.exchange_content(method, request, json.map(|json| ("application/json", json))).await
    }

    /// Sends a request with content of any type, given as content type and bytes; otherwise like [`HttpClient::exchange`].
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::exchange`]; [`Fault::Invalid`] for a content type that cannot be sent.
    pub async fn exchange_content(
        &self,
        method: Method,
        request: &HttpRequest,
        content: Option<(&str, Vec<u8>)>,
    ) -> Result<HttpResponse, Fault> {
        let message = self.message(method, request, content)?;
        let deadline = Instant::now() + request.total;
        let attempt = || async {
            let message = message.try_clone().ok_or_else(|| Fault::other("a request cannot be sent twice"))?;
            self.execute(message, request, deadline, |_| true).await
        };
        let (body, _) = self.again(request, deadline, attempt).await?;
        match body.encoding(&self.secrets(request)) {
            Some(encoding) => {
                let message = format!("{} sent a compressed reply ({encoding}) that was not requested", body.origin);
                Err(Fault::other(message))
            }
            None => Ok(HttpResponse { body }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Retries, endpoint};
    use shelly_test_support::{TestServer, answer};

    #[tokio::test]
    async fn exchange_returns_any_status_without_retry() {
        let server = TestServer::start(vec![
            answer("202 Accepted", "x-a: 1\r\n", ""),
            answer("404 Not Found", "", "no such thing"),
            answer("503 Busy", "retry-after: 1\r\n", "later"),
            answer("307 Elsewhere", "location: http://127.0.0.1:1/\r\n", ""),
            answer("200 OK", "content-encoding: gzip\r\n", "?"),
        ])
        .await;
        let request =
            HttpRequest { retries: Retries::NONE, ..HttpRequest::new(endpoint(&server.url, &["v1"]).unwrap()) };
        let client = HttpClient::new().unwrap();
        for (status, said) in [(202, ""), (404, "no such thing"), (503, "later"), (307, "")] {
            let answer = client.exchange(Method::POST, &request, Some(b"{}".into())).await.unwrap();
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers().contains_key("x-a"), status == 202);
            assert_eq!(answer.beginning(100).await, said.as_bytes());
        }
        let fault = client.exchange(Method::GET, &request, None).await.unwrap_err();
        assert!(fault.to_string().contains("sent a compressed reply (gzip)"), "{fault}");
        let fault = client.exchange(Method::DELETE, &request, None).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault}");
        let methods: Vec<_> = server.requests().iter().map(|sent| sent.split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(methods, ["POST", "POST", "POST", "POST", "GET", "DELETE"]);
    }
}
