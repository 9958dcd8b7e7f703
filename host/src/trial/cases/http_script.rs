use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value, json};
use url::Url;

use super::case_host::{HttpExchangeFixture, HttpReplyFixture};
use crate::{
    error::{Fault, cut},
    limits,
    net::egress::{HttpResponder, ResponderReply, ResponderRequest},
    trial::fixture::BytesFixture,
};

/// The HTTP exchanges of a test case. Exchanges that match the same request answer in their order, and the last one answers
/// all further requests.
#[derive(Debug)]
pub(super) struct HttpScript {
    exchanges: Vec<HttpExchangeFixture>,
    seen: Mutex<SeenRequests>,
}

/// The requests of a test case so far.
#[derive(Debug, Default)]
struct SeenRequests {
    requests: Vec<Value>,
    /// The positions of the exchanges that have answered.
    used: BTreeSet<usize>,
    unanswered: Vec<String>,
}

impl HttpScript {
    pub fn new(exchanges: Vec<HttpExchangeFixture>) -> Self {
        Self { exchanges, seen: Mutex::default() }
    }

    /// Returns the requests in the form of fixtures, and removes them.
    pub fn take_requests(&self) -> Vec<Value> {
        std::mem::take(&mut self.seen().requests)
    }

    /// Returns a message for each request that no exchange answered, and removes these messages.
    pub fn take_unanswered(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().unanswered)
    }

    fn seen(&self) -> MutexGuard<'_, SeenRequests> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpResponder for HttpScript {
    fn respond(&self, request: ResponderRequest) -> Result<ResponderReply, Fault> {
        let mut seen = self.seen();
        seen.requests.push(request_json(&request));
        let matching: Vec<_> = (0..self.exchanges.len()).filter(|at| matches(&self.exchanges[*at], &request)).collect();
        let unused = matching.iter().find(|at| !seen.used.contains(*at));
        let Some(at) = unused.or(matching.last()).copied() else {
            let (method, url) = (&request.method, cut(&request.url, limits::NAME_SHOWN_CHARS));
            let message = format!("no entry of `host.http` answers {method} {url}; add one with this method and URL");
            seen.unanswered.push(message.clone());
            return Err(Fault::Unavailable { message, after: None });
        };
        seen.used.insert(at);
        match &self.exchanges[at].error {
            Some(error) => Err(error.clone().into()),
            None => Ok(reply(&self.exchanges[at].reply)),
        }
    }
}

/// Returns a request in the form of a fixture.
fn request_json(request: &ResponderRequest) -> Value {
    let mut json = json!({ "method": request.method, "url": request.url });
    let text = |(name, value): &(String, Vec<u8>)| (name.clone(), Value::from(String::from_utf8_lossy(value)));
    let headers: Map<String, Value> = request.headers.iter().map(text).collect();
    if !headers.is_empty() {
        json["headers"] = headers.into();
    }
    if !request.body.is_empty() {
        json["body"] = json!(BytesFixture(request.body.to_vec()));
    }
    json
}

/// Returns `true` if an exchange answers this request.
fn matches(exchange: &HttpExchangeFixture, request: &ResponderRequest) -> bool {
    let url = Url::parse(&exchange.url).map(|mut url| {
        // HTTP clients never send a fragment.
        url.set_fragment(None);
        String::from(url)
    });
    let has_header = |name: &String, value: &String| {
        request.headers.iter().any(|(sent, text)| sent.eq_ignore_ascii_case(name) && text == value.as_bytes())
    };
    let parsed = || serde_json::from_slice::<Value>(&request.body).ok();
    exchange.method == request.method
        && url.is_ok_and(|url| url == request.url)
        && exchange.headers.iter().all(|(name, value)| has_header(name, value))
        && exchange.body.as_ref().is_none_or(|body| request.body == body.0[..])
        && exchange.json.as_ref().is_none_or(|json| parsed().as_ref() == Some(json))
}

fn reply(fixture: &HttpReplyFixture) -> ResponderReply {
    let HttpReplyFixture { status, headers, body, json } = fixture;
    let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let body = match json {
        None => body.0.clone(),
        Some(json) => {
            if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type")) {
                headers.push(("content-type".into(), "application/json".into()));
            }
            json.to_string().into_bytes()
        }
    };
    ResponderReply { status: *status, headers, body: body.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_yaml;

    fn script(text: &str) -> HttpScript {
        HttpScript::new(parse_yaml(text, "the case", "f").unwrap())
    }

    fn request(method: &str, url: &str, body: &str) -> ResponderRequest {
        let headers = vec![("x-a".to_owned(), b"1".to_vec())];
        let (method, url) = (method.to_owned(), url.to_owned());
        ResponderRequest { method, url, headers, body: body.to_owned().into() }
    }

    #[test]
    fn entries_for_one_request_answer_in_order() {
        let script =
            script("[{url: 'https://a.b', reply: {status: 503}}, {url: 'https://a.b/#x', reply: {json: [1]}}]");
        let status = || script.respond(request("GET", "https://a.b/", "")).map(|reply| reply.status);
        assert_eq!([status(), status(), status()], [Ok(503), Ok(200), Ok(200)]);
        let reply = script.respond(request("GET", "https://a.b/", "")).unwrap();
        assert_eq!((&reply.body[..], reply.headers.len()), (&b"[1]"[..], 1));
        assert_eq!(script.take_requests()[0], json!({"method": "GET", "url": "https://a.b/", "headers": {"x-a": "1"}}));
        assert!(script.take_unanswered().is_empty());
    }

    #[test]
    fn request_without_an_entry_is_named() {
        let text = "
- {method: POST, url: 'https://a.b/', json: {q: 1}, headers: {X-A: '1'}, reply: {body: yes}}
- {method: POST, url: 'https://a.b/c', headers: {X-A: '2'}}
- {url: 'https://a.b/d', error: {kind: timeout, message: late}}
";
        let script = script(text);
        assert!(script.respond(request("POST", "https://a.b/", r#"{"q": 1}"#)).is_ok());
        for (method, url, body) in
            [("POST", "https://a.b/", "{}"), ("POST", "https://a.b/c", ""), ("GET", "https://a.b/", "")]
        {
            let fault = script.respond(request(method, url, body)).unwrap_err();
            assert!(fault.to_string().contains(&format!("answers {method} {url};")), "{fault}");
        }
        let late = script.respond(request("GET", "https://a.b/d", "")).unwrap_err();
        assert_eq!(late, Fault::Timeout { message: "late".into() });
        assert_eq!((script.take_unanswered().len(), script.take_requests().len()), (3, 5));
    }
}
