//! The hops of a request.

use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::{egress_request::EgressRequest, head, request_body::EgressRequestBody};
use shelly_core::{
    capability::is_method,
    error::Fault,
    event::{SpanDestination, StepSpan, TRACEPARENT, TRACESTATE},
    limits,
};

/// One hop of a request, before it is sent. It was parsed once, so that all checks see the same values.
pub(super) struct EgressHop {
    pub method: http::Method,
    pub url: Url,
    /// The headers that the plugin set.
    pub headers: HeaderMap,
    /// The step for which the request is made.
    pub span: Option<StepSpan>,
    pub body: EgressRequestBody,
}

impl EgressHop {
    /// Creates the first hop.
    pub fn first(request: EgressRequest) -> Result<Self, Fault> {
        if !is_method(&request.method) {
            let shown: String = request.method.chars().take(limits::NAME_SHOWN_CHARS).collect();
            return Err(Fault::invalid(format!(
                "invalid HTTP method `{}`; write it in upper case, such as GET (CONNECT and TRACE are not allowed)",
                shown.escape_debug()
            )));
        }
        let method = http::Method::from_bytes(request.method.as_bytes());
        let method = method.map_err(|_| Fault::invalid("invalid HTTP method"))?;
        let url = url(&request.url)?;
        let EgressRequest { headers, span, body, .. } = request;
        Ok(Self { method, url, headers: head::of_request(&headers)?, span, body })
    }

    /// Returns the headers that name the span of the request to its server. There are none for a server that is not told,
    /// and none beside headers of the plugin for its own traces.
    pub fn span_headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let is_traced = [TRACEPARENT, TRACESTATE].iter().any(|name| self.headers.contains_key(*name));
        let span = self.span.as_ref().filter(|_| !is_traced);
        let told = span.and_then(|span| span.span_for(SpanDestination::Server(&self.url)));
        let headers = told.into_iter().flat_map(|span| span.headers());
        headers.filter_map(|(name, value)| Some((HeaderName::from_static(name), value.try_into().ok()?))).collect()
    }

    /// Returns `true` if a body has no meaning with this method.
    pub fn is_bare(&self) -> bool {
        matches!(self.method, http::Method::GET | http::Method::HEAD)
    }
}

/// Parses a URL that may be requested, provided that it is granted. Drops the fragment, which is never sent.
pub(super) fn url(text: &str) -> Result<Url, Fault> {
    if text.len() > limits::EGRESS_URL_BYTES {
        return Err(Fault::TooLarge { message: format!("the URL has more than {} bytes", limits::EGRESS_URL_BYTES) });
    }
    // A URL parser would remove these characters, so that the URL requested would differ from the one that was read.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Fault::invalid("the URL has spaces or control characters; percent-encode them"));
    }
    let url = Url::parse(text).map_err(|error| Fault::invalid(format!("invalid URL: {error}")))?;
    checked(url)
}

/// Checks a parsed URL like [`url()`].
pub(super) fn checked(mut url: Url) -> Result<Url, Fault> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::invalid("invalid URL; begin it with https:// or http://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::invalid("the URL has a user or a password; use the name of a granted credential instead"));
    }
    url.set_fragment(None);
    if url.as_str().len() > limits::EGRESS_URL_BYTES {
        return Err(Fault::TooLarge { message: format!("the URL has more than {} bytes", limits::EGRESS_URL_BYTES) });
    }
    Ok(url)
}
