//! Redirects: their target, and the parts of the request that go along.

use http::{HeaderMap, Method, StatusCode, header};
use url::Url;

use super::{
    hop::{EgressHop, checked},
    policy::EgressPolicy,
    request_body::EgressRequestBody,
    scrub::Scrubber,
};
use shelly_core::{error::Fault, event::StepSpan, limits};

/// Returns the request that a redirect asks for; `None` if the response is final.
///
/// # Errors
///
/// [`Fault::Denied`] if the redirect leads to a URL that can never be requested.
pub(super) fn next(
    policy: &EgressPolicy,
    last: SentHop,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Option<EgressHop>, Fault> {
    let Some(location) = headers.get(header::LOCATION).and_then(|value| value.to_str().ok()) else { return Ok(None) };
    let Some(method) = method_after(&last.method, status) else { return Ok(None) };
    let is_kept = method == last.method;
    let body = match last.body {
        // The method requires the body again, which cannot be repeated.
        None if is_kept => return Ok(None),
        Some(body) if is_kept => body,
        _ => EgressRequestBody::default(),
    };
    let url = leads_to(&last.url, location)?;
    let mut headers = last.headers;
    if !is_kept {
        let about_body: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with("content-")).cloned().collect();
        for name in about_body {
            headers.remove(name);
        }
    }
    if url.origin() != last.url.origin() {
        policy.forget_sender(&mut headers);
    }
    Ok(Some(EgressHop { method, url, headers, span: last.span, body }))
}

/// Checks that the target of a redirect may be revealed to the plugin and to servers on the way.
///
/// # Errors
///
/// [`Fault::Denied`] if the target contains a credential: it would reach servers that may not have it, and would no longer
/// be recognized once a URL parser has re-encoded it.
pub(super) fn check_clean(headers: &HeaderMap, scrubber: &Scrubber) -> Result<(), Fault> {
    let location = headers.get(header::LOCATION).map_or(&b""[..], |value| value.as_bytes());
    if scrubber.bytes(location) == location {
        return Ok(());
    }
    Err(Fault::Denied { message: "a redirect leads to a URL that contains a credential".into() })
}

/// The request of the last hop.
pub(super) struct SentHop {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub span: Option<StepSpan>,
    /// `None` for a body that was streamed.
    pub body: Option<EgressRequestBody>,
}

/// Returns the method with which a redirect continues, if the status is that of a redirect.
fn method_after(method: &Method, status: StatusCode) -> Option<Method> {
    match status.as_u16() {
        // All clients do so.
        301 | 302 if *method == Method::POST => Some(Method::GET),
        303 if *method != Method::HEAD => Some(Method::GET),
        301 | 302 | 303 | 307 | 308 => Some(method.clone()),
        _ => None,
    }
}

fn leads_to(from: &Url, location: &str) -> Result<Url, Fault> {
    let denied =
        |why: &str| Fault::Denied { message: format!("a redirect leads to a target that is not allowed: {why}") };
    if location.len() > limits::EGRESS_URL_BYTES {
        return Err(denied("a URL that is too long"));
    }
    let url = from.join(location).map_err(|error| denied(&error.to_string()))?;
    checked(url).map_err(|fault| denied(&fault.to_string()))
}
