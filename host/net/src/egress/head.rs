//! Headers: those that a plugin may set, and those that it receives.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::scrub::Scrubber;
use shelly_core::{error::Fault, limits};

/// Headers that the host sets itself, or that concern a single connection. With a value of its own, a plugin could declare
/// the end of a message and have the rest taken for another one.
const OF_THE_HOST: [&str; 14] = [
    "host",
    "content-length",
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "accept-encoding",
    "http2-settings",
];

/// Headers that make a server treat a request as one with another method, path or sender. The server would then do something
/// that is not granted.
const OF_ANOTHER_REQUEST: [&str; 10] = [
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-url",
    "x-original-method",
    "x-rewrite-url",
    "x-real-ip",
    "x-client-ip",
    "forwarded",
    "via",
];

/// Parses the name of a header that a plugin, or a credential, may set.
pub(super) fn name(name: &[u8]) -> Result<HeaderName, Fault> {
    let shown = name.get(..limits::SHOWN_HEADER_BYTES).unwrap_or(name).escape_ascii();
    let header = HeaderName::from_bytes(name).map_err(|_| Fault::invalid(format!("invalid header name `{shown}`")))?;
    // Some servers treat the two characters as equal.
    let plain = header.as_str().replace('_', "-");
    if OF_THE_HOST.contains(&&*plain) {
        return Err(Fault::invalid(format!("the header `{shown}` is set by the host; leave it out")));
    }
    if OF_ANOTHER_REQUEST.contains(&&*plain) || plain.starts_with("x-forwarded-") {
        return Err(Fault::Denied {
            message: format!(
                "the header `{shown}` is not allowed: the server could mistake the request for another one"
            ),
        });
    }
    Ok(header)
}

/// Checks the name of a header that a request may set.
///
/// # Errors
///
/// [`Fault::Invalid`] if it is not a header name or the host sets the header itself, [`Fault::Denied`] if a server could
/// mistake the request for another one because of it.
pub fn check_header_name(header: &str) -> Result<(), Fault> {
    name(header.as_bytes()).map(drop)
}

/// Converts the headers of a plugin's request.
pub(super) fn of_request(headers: &[(String, Vec<u8>)]) -> Result<HeaderMap, Fault> {
    let (most, most_bytes) = (limits::EGRESS_REQUEST_HEADERS, limits::EGRESS_REQUEST_HEADER_BYTES);
    if headers.len() > most {
        return Err(Fault::TooLarge { message: format!("a request has more than {most} headers") });
    }
    if headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > most_bytes {
        return Err(Fault::TooLarge { message: format!("the headers of a request have more than {most_bytes} bytes") });
    }
    let mut map = HeaderMap::with_capacity(headers.len());
    for (key, value) in headers {
        let key = name(key.as_bytes())?;
        let value = HeaderValue::from_bytes(value).map_err(|_| {
            Fault::invalid(format!("the header `{key}` has characters that cannot be sent, such as line ends"))
        })?;
        map.append(key, value);
    }
    Ok(map)
}

/// Response headers that concern the connection, not the response.
const OF_THE_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Converts the headers of a response for the plugin. `has_body` tells if a body follows, which is redacted and decoded.
pub(super) fn of_response(
    headers: &HeaderMap,
    has_body: bool,
    origin: &str,
    scrubber: &Scrubber,
) -> Result<Vec<(String, Vec<u8>)>, Fault> {
    let (most, most_bytes) = (limits::EGRESS_RESPONSE_HEADERS, limits::EGRESS_RESPONSE_HEADER_BYTES);
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if headers.len() > most || bytes > most_bytes {
        return Err(too_many(origin));
    }
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<_> = named.flat_map(|value| value.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect();
    // The length counts the body before redaction.
    let has_length = !has_body || scrubber.is_empty();
    let is_shown = |name: &HeaderName| {
        !OF_THE_CONNECTION.contains(name)
            && !named.iter().any(|named| named == name.as_str())
            && (has_length || name != header::CONTENT_LENGTH)
    };
    let shown = headers.iter().filter(|(name, _)| is_shown(name));
    let shown = shown.map(|(name, value)| (name.as_str().to_owned(), scrubber.bytes(value.as_bytes())));
    // A header whose name contains a credential is dropped.
    Ok(shown.filter(|(name, _)| scrubber.text(name) == *name).collect())
}

pub(super) fn too_many(origin: &str) -> Fault {
    let (most, most_bytes) = (limits::EGRESS_RESPONSE_HEADERS, limits::EGRESS_RESPONSE_HEADER_BYTES);
    Fault::TooLarge {
        message: format!(
            "{origin} answered with more than {most} headers, or with more than {most_bytes} bytes of headers"
        ),
    }
}

#[cfg(test)]
mod tests;
