//! Responses that come from the owner of an `Egress` in place of the network, for tests of plugins.

use std::fmt;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use reqwest::{Body, ResponseBuilderExt};
use url::Url;

use super::request_body::BodyCutReason;
use crate::failure::root;
use shelly_core::error::Fault;

/// Answers the requests of a plugin in place of the network. It gets a request after every check against the grant, and its
/// redirects are followed and checked like those of a server.
pub trait HttpResponder: fmt::Debug + Send + Sync {
    /// Returns the response to a request.
    ///
    /// # Errors
    ///
    /// The [`Fault`] that the plugin gets in place of a response.
    fn respond(&self, request: ResponderRequest) -> Result<ResponderReply, Fault>;
}

/// A request as a responder gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponderRequest {
    /// The method, in upper case.
    pub method: String,
    /// The URL without a fragment.
    pub url: String,
    /// The headers that the plugin has set, and that of a credential. Names are in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; empty if there is none.
    pub body: Bytes,
}

/// A response from a responder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponderReply {
    /// The status, 200 to 599.
    pub status: u16,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body, without an encoding.
    pub body: Bytes,
}

/// Sends a request to a responder.
pub(super) async fn response_of(
    responder: &dyn HttpResponder,
    message: Request<Body>,
    url: &Url,
    why_cut: &BodyCutReason,
) -> Result<reqwest::Response, Fault> {
    let (parts, body) = message.into_parts();
    // The body was bounded when the message was filled.
    let body = body.collect().await.map_err(|error| {
        let early = || Fault::other(format!("the body of the request ended early: {}", root(&error)));
        why_cut.get().cloned().unwrap_or_else(early)
    })?;
    let headers = parts.headers.iter().map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()));
    let ResponderReply { status, headers, body } = responder.respond(ResponderRequest {
        method: parts.method.as_str().to_owned(),
        url: url.as_str().to_owned(),
        headers: headers.collect(),
        body: body.to_bytes(),
    })?;
    let mut response = Response::builder().status(status).url(url.clone());
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let response = response.body(Body::from(body));
    response.map(reqwest::Response::from).map_err(|error| Fault::invalid(format!("the response is invalid: {error}")))
}
