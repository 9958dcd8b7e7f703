use std::{collections::BTreeMap, path::Path, time::UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::case_folder::is_inside;
use crate::{
    error::{ErrorKind, Report},
    trial::fixture::{BytesFixture, CompletionFixture, FaultFixture},
};

/// The answers of the host in a test case: its key `host`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaseHostFixture {
    /// The HTTP requests that are answered. A request without an entry fails, and so does the case.
    pub http: Vec<HttpExchangeFixture>,
    /// The entries of the key-value store before the call.
    pub kv: BTreeMap<String, BytesFixture>,
    /// The files before the call, by their path in the folder of the case.
    pub files: BTreeMap<String, BytesFixture>,
    /// The first reading of the clock.
    pub clock: CaseClock,
    /// The seed of the random numbers.
    pub random: u64,
    /// The answers of models to the queries of a step, in order. If there are none, the first query ends the step and is its
    /// decision.
    pub models: Vec<ModelAnswerFixture>,
}

/// A request that the case answers, and the reply or the failure. A request matches if it has the method, the URL, and the
/// headers and body that are named here.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpExchangeFixture {
    /// The method.
    #[serde(default = "get")]
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// Headers that the request must have.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body that the request must have.
    pub body: Option<BytesFixture>,
    /// The JSON value that the body of the request must be.
    pub json: Option<Value>,
    /// The response.
    #[serde(default)]
    pub reply: HttpReplyFixture,
    /// The failure, in place of a response.
    pub error: Option<FaultFixture>,
}

fn get() -> String {
    "GET".into()
}

/// A response.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpReplyFixture {
    /// The status, 200 to 599.
    pub status: u16,
    /// The headers.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: BytesFixture,
    /// The body as a JSON value, in place of `body`. Its type is `application/json` unless `headers` has another.
    pub json: Option<Value>,
}

impl Default for HttpReplyFixture {
    fn default() -> Self {
        Self { status: 200, headers: BTreeMap::new(), body: BytesFixture::default(), json: None }
    }
}

/// The answer of a model: a mapping with one key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelAnswerFixture {
    /// The reply.
    Reply(CompletionFixture),
    /// The failure.
    Error(FaultFixture),
}

/// The first reading of a fixed clock, in milliseconds since 1970. It is written as `2025-01-01T00:00:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CaseClock(pub u64);

impl Default for CaseClock {
    /// Returns the beginning of 2025.
    fn default() -> Self {
        Self(1_735_689_600_000)
    }
}

impl TryFrom<String> for CaseClock {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        // A report shows the part before `;` as the cause and the part after it as the hint.
        const WRONG: &str = "not a time in UTC; write it as 2025-01-01T00:00:00Z";
        let time = humantime::parse_rfc3339(&text).map_err(|_| WRONG)?;
        let since = time.duration_since(UNIX_EPOCH).map_err(|_| WRONG)?;
        u64::try_from(since.as_millis()).map(Self).map_err(|_| WRONG)
    }
}

impl CaseHostFixture {
    /// Checks the rules that the types cannot express.
    pub(super) fn check(&self) -> Result<(), Report> {
        let wrong = |message: String| Report::new(ErrorKind::Usage, message);
        for HttpExchangeFixture { url, body, json, reply, error, .. } in &self.http {
            let place = format!("host.http: `{url}`");
            if Url::parse(url).is_err() {
                return Err(
                    wrong(format!("{place} is not a URL")).hint("write the whole URL, such as https://example.com/a")
                );
            }
            if body.is_some() && json.is_some() {
                return Err(wrong(format!("{place} has `body` and `json`")).hint("remove one of them"));
            }
            if error.is_some() && *reply != HttpReplyFixture::default() {
                return Err(wrong(format!("{place} has `reply` and `error`")).hint("remove one of them"));
            }
            if !(200..600).contains(&reply.status) {
                let status = reply.status;
                return Err(wrong(format!("{place} has the status {status}")).hint("write a status from 200 to 599"));
            }
            if reply.json.is_some() && reply.body != BytesFixture::default() {
                return Err(wrong(format!("{place} has a reply with `body` and `json`")).hint("remove one of them"));
            }
        }
        for answer in &self.models {
            if let ModelAnswerFixture::Reply(reply) = answer {
                reply.clone().completion()?;
            }
        }
        match self.files.keys().find(|path| !is_inside(Path::new(path))) {
            None => Ok(()),
            Some(path) => Err(wrong(format!("host.files: `{path}` is not below the folder of the case"))
                .hint("write a relative path without `..`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_yaml;

    #[test]
    fn clock_is_a_time_in_utc() {
        let clock = |text: &str| parse_yaml::<CaseClock>(text, "the clock", "f");
        assert_eq!(clock("2025-01-01T00:00:00Z").unwrap(), CaseClock::default());
        assert_eq!(clock("1970-01-01T00:00:01.5Z").unwrap(), CaseClock(1_500));
        assert!(clock("yesterday").is_err() && clock("1969-01-01T00:00:00Z").is_err());
    }

    #[test]
    fn mistakes_in_host_answers_are_named() {
        for (text, says) in [
            ("http: [{url: example.com}]", "host.http: `example.com` is not a URL"),
            ("http: [{url: 'https://a.b', body: x, json: 1}]", "has `body` and `json`"),
            ("http: [{url: 'https://a.b', reply: {status: 101}}]", "has the status 101"),
            ("http: [{url: 'https://a.b', reply: {body: x}, error: {message: y}}]", "has `reply` and `error`"),
            ("http: [{url: 'https://a.b', reply: {body: x, json: 1}}]", "a reply with `body` and `json`"),
            ("files: {../a: x}", "host.files: `../a` is not below"),
            ("files: {/a: x}", "host.files: `/a` is not below"),
        ] {
            let report = parse_yaml::<CaseHostFixture>(text, "the case", "f").unwrap().check().unwrap_err();
            assert!(report.message.contains(says) && report.hint.is_some(), "{text}: {report}");
        }
    }
}
