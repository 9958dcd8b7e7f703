//! HTTP requests within the grant of the agent's config: schemes, hosts, ports, methods, paths. A plugin asks for it with
//! `http = true` in `[wants]`. All requests go through the host, which checks each redirect again. A plugin that uses
//! nothing from this module does not import the interface.
//!
//! ```no_run
//! use serde::Deserialize;
//! use shelly_plugin::{Error, http::Request};
//!
//! #[derive(Deserialize)]
//! struct Issue {
//!     title: String,
//! }
//!
//! /// The key stays with the host: the plugin only knows its name.
//! fn title(number: u32) -> Result<String, Error> {
//!     let url = format!("https://api.example.com/issues/{number}");
//!     let issue: Issue = Request::get(url).credential("tracker").send()?.ok()?.json()?;
//!     Ok(issue.title)
//! }
//! ```
//!
//! A request that the grant refuses, or that gets no response, is an [`Error`] of the contract. A response with any
//! status is not an error; [`Response::ok`] turns a status other than success into one.

use std::time::Duration;

use serde::Serialize;

use crate::{host::http as host, types::Error};

mod body;
mod events;
mod lines;
mod split;
mod status;

pub use body::{Body, MOST_WHOLE};
pub use events::{Event, Events, MOST_EVENT};
pub use lines::Lines;
pub use split::MOST_LINE;
pub use status::reported;

/// The number of bytes of an upload that are passed to the host at once.
const WRITE: usize = 256 << 10;

/// A request, built step by step. Invalid input is reported when the request is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    credential: Option<String>,
    timeout: Option<Duration>,
    body: Result<Vec<u8>, Error>,
}

impl Request {
    /// Creates a request with this method, in upper case, to an absolute URL: `https` unless the grant says `http`.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Request {
        let (method, url) = (method.into(), url.into());
        Request { method, url, headers: Vec::new(), credential: None, timeout: None, body: Ok(Vec::new()) }
    }

    /// Creates a `GET` request.
    pub fn get(url: impl Into<String>) -> Request {
        Request::new("GET", url)
    }

    /// Creates a `POST` request; usually with [`json`](Self::json) or [`body`](Self::body).
    pub fn post(url: impl Into<String>) -> Request {
        Request::new("POST", url)
    }

    /// Creates a `PUT` request.
    pub fn put(url: impl Into<String>) -> Request {
        Request::new("PUT", url)
    }

    /// Creates a `PATCH` request.
    pub fn patch(url: impl Into<String>) -> Request {
        Request::new("PATCH", url)
    }

    /// Creates a `DELETE` request.
    pub fn delete(url: impl Into<String>) -> Request {
        Request::new("DELETE", url)
    }

    /// Creates a `HEAD` request.
    pub fn head(url: impl Into<String>) -> Request {
        Request::new("HEAD", url)
    }

    /// Adds `name=value` to the query, escaped. The URL must have no fragment.
    pub fn query(mut self, name: &str, value: impl ToString) -> Request {
        self.url.push(if self.url.contains('?') { '&' } else { '?' });
        escape(&mut self.url, name);
        self.url.push('=');
        escape(&mut self.url, &value.to_string());
        self
    }

    /// Adds a header. The host sets `host`, `content-length`, `connection`, `accept-encoding` and the like, and the
    /// header that carries a credential.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Names the credential that the host adds: a literal, or an `Option<&str>`. The request is `denied` if the
    /// credential is not bound to the target.
    pub fn credential<'a>(mut self, name: impl Into<Option<&'a str>>) -> Request {
        self.credential = name.into().map(str::to_owned);
        self
    }

    /// Sets the time limit of the whole exchange, up to the last byte of the response. The default is the time that is
    /// left for the call.
    pub fn timeout(mut self, timeout: Duration) -> Request {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = Ok(body.into());
        self
    }

    /// Sets the body to this value as JSON, with the matching `content-type`.
    pub fn json(mut self, value: &(impl Serialize + ?Sized)) -> Request {
        self.body = serde_json::to_vec(value)
            .map_err(|error| Error::Invalid(format!("cannot write the body of the request as JSON: {error}")));
        self.header("content-type", "application/json")
    }

    /// Sends the request and waits for the head of the response.
    #[track_caller]
    pub fn send(self) -> Result<Response, Error> {
        let (head, body, origin) = self.parts()?;
        Ok(Response::of(host::send(&head, &body)?, origin))
    }

    /// Sends the head of the request, and the body that was set; the rest of the body follows in pieces.
    #[track_caller]
    pub fn upload(self) -> Result<Upload, Error> {
        let (head, body, origin) = self.parts()?;
        let mut upload = Upload { host: host::begin(&head)?, origin };
        upload.write(&body)?;
        Ok(upload)
    }

    fn parts(self) -> Result<(host::Request, Vec<u8>, String), Error> {
        let Request { method, url, headers, credential, timeout, body } = self;
        let origin = origin(&url).to_owned();
        // A timeout below a millisecond becomes one millisecond: 0 would mean no limit.
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let head = host::Request { method, url, headers, credential, timeout_ms: timeout.map(millis) };
        Ok((head, body?, origin))
    }
}

/// A request whose body is being sent. Dropping it aborts the request.
#[derive(Debug)]
pub struct Upload {
    host: host::Upload,
    origin: String,
}

impl Upload {
    /// Sends a piece of the body. Waits while the network is behind.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        bytes.chunks(WRITE).try_for_each(|piece| self.host.write(piece))
    }

    /// Ends the body and waits for the head of the response.
    pub fn finish(self) -> Result<Response, Error> {
        Ok(Response::of(host::Upload::finish(self.host)?, self.origin))
    }
}

/// A response: its head, and a body that is read separately. Dropping it closes the connection.
#[derive(Debug)]
pub struct Response {
    /// The status, 100 to 599.
    pub status: u16,
    /// The headers, in order, with names in lower case; repeated headers are kept.
    pub headers: Vec<(String, String)>,
    /// The body, decompressed as it is read.
    pub body: Body,
    /// The host and port of the server, for messages. It contains no part of the URL that could be a secret.
    origin: String,
}

impl Response {
    /// Creates a response for unit tests; create its body with [`Body::of`].
    pub fn new(status: u16, headers: &[(&str, &str)], body: Body) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body, origin: "the server".to_owned() }
    }

    fn of(response: host::Response, origin: String) -> Response {
        let host::Response { status, headers, body } = response;
        Response { status, headers, body: body.into(), origin }
    }

    /// Returns the value of the first header of this name, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Iterates over the lines of the body as they arrive, such as text or JSON lines.
    pub fn lines(self) -> Lines {
        Lines::new(self.body)
    }

    /// Iterates over the server-sent events of the body as they arrive.
    pub fn events(self) -> Events {
        Events::new(self.body)
    }
}

/// Returns the names of the credentials that are granted and exist.
#[track_caller]
pub fn credentials() -> Vec<String> {
    host::credentials()
}

/// Returns the credential to use: the one that the params name, else the only granted one, if there is one.
///
/// # Errors
///
/// [`Error::Invalid`] if the params name none and several are granted.
pub fn credential(named: Option<&str>) -> Result<Option<String>, Error> {
    match named {
        Some(name) => Ok(Some(name.to_owned())),
        None => only(credentials()),
    }
}

fn only(mut granted: Vec<String>) -> Result<Option<String>, Error> {
    if granted.len() > 1 {
        let names = granted.join("`, `");
        return Err(Error::Invalid(format!(
            "params: several credentials are granted; set `credential` to one of `{names}`"
        )));
    }
    Ok(granted.pop())
}

/// Returns the server that, according to this error, is not granted, as `https://example.com:8443`: the target of the
/// request or of a redirect. The plugin can have a person asked for it
/// ([`Reply::needs_server`](crate::Reply::needs_server)). Returns `None` for all other errors, and for access that only
/// the config can grant: servers in private networks, methods other than GET and HEAD.
pub fn lacking(error: &Error) -> Option<&str> {
    let Error::Denied(message) = error else { return None };
    // The host's message contains the missing line of the config.
    let (_, line) = message.rsplit_once("write `http: [\"")?;
    line.split_once("\"]`").map(|(server, _)| server)
}

/// Returns the host and port of a URL, for messages.
fn origin(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Appends text to a query. All characters but those that every server accepts literally become `%XX`.
fn escape(url: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
            _ => {
                url.push('%');
                url.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_request_builder_sets_every_part() {
        let request = Request::post("https://user:pw@example.com:8443/v1?a=1")
            .query("q", "ä b&c=/~")
            .query("n", 7)
            .header("accept", "text/plain")
            .credential("key")
            .timeout(Duration::from_millis(1_500))
            .json(&serde_json::json!({ "x": [1] }));
        let (head, body, origin) = request.parts().unwrap();
        let expected = host::Request {
            method: "POST".into(),
            url: "https://user:pw@example.com:8443/v1?a=1&q=%C3%A4%20b%26c%3D%2F~&n=7".into(),
            headers: [("accept", "text/plain"), ("content-type", "application/json")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            credential: Some("key".into()),
            timeout_ms: Some(1_500),
        };
        assert_eq!((head, &*body, &*origin), (expected, &br#"{"x":[1]}"#[..], "example.com:8443"));
    }

    #[test]
    fn http_request_omits_unset_parts() {
        let (head, body, _) = Request::get("https://example.com").credential(None).parts().unwrap();
        assert_eq!((head.credential, head.timeout_ms, head.headers, body), (None, None, vec![], vec![]));
        for (timeout, millis) in
            [(Duration::ZERO, 1), (Duration::from_micros(1), 1), (Duration::from_secs(1 << 40), u32::MAX)]
        {
            assert_eq!(Request::get("").timeout(timeout).parts().unwrap().0.timeout_ms, Some(millis));
        }
    }

    #[test]
    fn unserialisable_http_body_is_an_error_on_send() {
        struct Never;
        impl Serialize for Never {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("never"))
            }
        }
        let error = Request::post("https://example.com").json(&Never).send().unwrap_err();
        assert_eq!(error, Error::Invalid("cannot write the body of the request as JSON: never".into()));
    }

    #[test]
    fn http_error_names_only_the_origin() {
        for (url, expected) in [
            ("https://example.com/a?key=s", "example.com"),
            ("http://u:p@[::1]:80?x", "[::1]:80"),
            ("https://a@b@c#d@e", "c"),
            ("example.com/a", "example.com"),
            ("", ""),
        ] {
            assert_eq!(origin(url), expected, "{url}");
        }
    }

    #[test]
    fn single_credential_needs_no_name() {
        let granted = |names: &[&str]| only(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(granted(&[]), Ok(None));
        assert_eq!(granted(&["a"]), Ok(Some("a".into())));
        assert!(granted(&["a", "b"]).unwrap_err().message().ends_with("one of `a`, `b`"));
        assert_eq!(credential(Some("b")), Ok(Some("b".into())));
    }

    #[test]
    fn missing_origin_is_parsed_from_the_denial() {
        let denied = |message: &str| Error::Denied(message.into());
        let said =
            denied("GET https://b.example is not granted; to allow it write `http: [\"https://b.example:8443\"]`");
        assert_eq!(lacking(&said), Some("https://b.example:8443"));
        let posts = "POST https://b.example is not granted; to grant it write `http: [{url: \"https://b.example\", \
                     methods: [POST]}]`";
        assert_eq!(lacking(&denied(posts)), None, "a person is asked for what reads");
        assert_eq!(lacking(&denied("b.example leads to no address that is granted")), None);
        assert_eq!(lacking(&Error::Invalid("write `http: [\"https://b.example\"]`".into())), None);
    }
}
