//! The errors that unsuccessful statuses mean, with the server's own explanation.

use serde_json::Value;

use super::{
    Response,
    body::{Body, first},
};
use crate::{
    text::short,
    types::{Error, Retry},
};

/// The number of bytes that are read of an error body.
const READ_OF_COMPLAINT: usize = 64 << 10;

/// The number of characters of the explanation in an error: of a message in a known shape, and of any other text.
const SENTENCE: usize = 2_000;
const RAW: usize = 300;

impl Response {
    /// Returns `true` if the status is 200 to 299.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the response if its status is one of success; otherwise the error that the status means, with the server's
    /// explanation:
    ///
    /// | status | error |
    /// |---|---|
    /// | 401, 403, 407 | [`Error::Denied`] |
    /// | 402 | [`Error::Exhausted`] |
    /// | 404, 410 | [`Error::NotFound`] |
    /// | 413 | [`Error::TooLarge`] |
    /// | 429 | [`Error::RateLimited`], after the pause that the server asks for |
    /// | 408, 409, 425, 500 and more, but 501 and 505 | [`Error::Unavailable`], likewise |
    /// | other 400 to 499 | [`Error::Invalid`] |
    /// | anything else | [`Error::Other`] |
    ///
    /// Vendors use the codes `insufficient_quota` and `context_length_exceeded` with various statuses; they become
    /// `Exhausted` and `TooLarge`. The pause is read from `retry-after-ms` and from `retry-after` in seconds; a date is
    /// ignored.
    pub fn ok(self) -> Result<Response, Error> {
        if self.is_success() {
            return Ok(self);
        }
        let after_ms = self.pause();
        let complaint = Complaint::read(self.body);
        let mut message = format!("{} answered {}", self.origin, self.status);
        if !complaint.said.is_empty() {
            message = format!("{message}: {}", complaint.said);
        }
        Err(complaint.error(self.status, Retry { message, after_ms }))
    }

    /// Returns the pause that the server asks for, in milliseconds.
    fn pause(&self) -> Option<u64> {
        let number = |name: &str| self.header(name)?.trim().parse::<f64>().ok().filter(|number| *number >= 0.0);
        let millis = number("retry-after-ms").or_else(|| Some(number("retry-after")? * 1_000.0))?;
        // The cast saturates at the largest number.
        Some(millis.ceil() as u64)
    }
}

/// Converts an error object that a server sent within a reply, or in place of one, to an error. `error` is the value of
/// the `error` key. An unknown error becomes [`Error::Unavailable`], because the server failed after it had accepted the
/// request.
pub fn reported(error: &Value) -> Error {
    let complaint = Complaint::of(error);
    let message = match complaint.said.is_empty() {
        true => "the server ended its reply with an error".to_owned(),
        false => format!("the server ended its reply with an error: {}", complaint.said),
    };
    complaint.error(complaint.status(), Retry { message, after_ms: None })
}

/// A server's explanation of an error.
#[derive(Default)]
struct Complaint {
    said: String,
    kind: String,
    code: String,
}

impl Complaint {
    /// Reads the beginning of a body. A failure to read it is ignored: the original error matters more.
    fn read(body: Body) -> Complaint {
        let (bytes, _) = first(body, READ_OF_COMPLAINT).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let parsed = serde_json::from_str::<Value>(&text).ok().map(|value| {
            let value = value.get(0).unwrap_or(&value);
            Complaint::of(value.get("error").filter(|error| !error.is_null()).unwrap_or(value))
        });
        match parsed {
            Some(complaint) if !complaint.said.is_empty() => complaint,
            // An HTML page explains nothing here.
            _ if text.trim_start().starts_with('<') => Complaint::default(),
            _ => Complaint { said: shown(&text, RAW), ..Complaint::default() },
        }
    }

    /// Reads an error object, or a plain string.
    fn of(error: &Value) -> Complaint {
        let field = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        };
        let said = match error {
            Value::String(text) => text.clone(),
            _ => [field("message"), field("detail")].into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
        };
        Complaint { said: shown(&said, SENTENCE), kind: field("type"), code: field("code") }
    }

    fn is(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.kind == *word || self.code == *word)
    }

    /// Returns the status with which this error would be sent as a response of its own.
    fn status(&self) -> u16 {
        match self.code.parse() {
            Ok(status @ 400..=599) => status,
            _ if self.is(&["invalid_request_error"]) => 400,
            _ if self.is(&["authentication_error", "permission_error", "invalid_api_key"]) => 401,
            _ if self.is(&["billing_error"]) => 402,
            _ if self.is(&["not_found_error", "model_not_found"]) => 404,
            _ if self.is(&["request_too_large"]) => 413,
            _ if self.is(&["rate_limit_error", "rate_limit_exceeded"]) => 429,
            _ => 500,
        }
    }

    fn error(&self, status: u16, retry: Retry) -> Error {
        let message = retry.message.clone();
        match status {
            // Vendors use some statuses for two things: an unpaid bill must not cause a pause, and a full context window
            // is not invalid input.
            _ if self.is(&["insufficient_quota"]) => Error::Exhausted(message),
            _ if self.is(&["context_length_exceeded"]) => Error::TooLarge(message),
            401 | 403 | 407 => Error::Denied(message),
            402 => Error::Exhausted(message),
            404 | 410 => Error::NotFound(message),
            413 => Error::TooLarge(message),
            429 => Error::RateLimited(retry),
            501 | 505 => Error::Other(message),
            408 | 409 | 425 | 500.. => Error::Unavailable(retry),
            400..=499 => Error::Invalid(message),
            _ => Error::Other(message),
        }
    }
}

/// Returns a server's text as a single line, shortened, without control characters that act on a terminal.
fn shown(text: &str, most: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    short(text.trim(), most).chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, headers: &[(&str, &str)], body: &str) -> Error {
        Response::new(status, headers, Body::of([body])).ok().unwrap_err()
    }

    /// Returns the case of an error, and its pause.
    fn case(error: &Error) -> (&'static str, Option<u64>) {
        match error {
            Error::Invalid(_) => ("invalid", None),
            Error::Denied(_) => ("denied", None),
            Error::NotFound(_) => ("not-found", None),
            Error::TooLarge(_) => ("too-large", None),
            Error::Exhausted(_) => ("exhausted", None),
            Error::RateLimited(retry) => ("rate-limited", retry.after_ms),
            Error::Unavailable(retry) => ("unavailable", retry.after_ms),
            Error::Timeout(_) => ("timeout", None),
            Error::Other(_) => ("other", None),
        }
    }

    #[test]
    fn a_status_decides_the_case() {
        for (status, expected) in [
            (100, "other"),
            (302, "other"),
            (400, "invalid"),
            (401, "denied"),
            (402, "exhausted"),
            (403, "denied"),
            (404, "not-found"),
            (405, "invalid"),
            (407, "denied"),
            (408, "unavailable"),
            (409, "unavailable"),
            (410, "not-found"),
            (413, "too-large"),
            (422, "invalid"),
            (425, "unavailable"),
            (429, "rate-limited"),
            (500, "unavailable"),
            (501, "other"),
            (503, "unavailable"),
            (505, "other"),
            (529, "unavailable"),
        ] {
            let error = error(status, &[("retry-after", "7")], r#"{"error":"no luck"}"#);
            let after = matches!(expected, "unavailable" | "rate-limited").then_some(7_000);
            assert_eq!(case(&error), (expected, after), "{status}");
            assert_eq!(error.message(), format!("the server answered {status}: no luck"));
        }
        for status in [200, 204, 299] {
            assert!(Response::new(status, &[], Body::of([""])).ok().is_ok());
        }
    }

    #[test]
    fn http_error_quotes_a_bounded_server_message() {
        for body in [
            r#"{"error":{"message":"no luck","type":"x"}}"#,
            r#"{"error":"no luck"}"#,
            r#"{"message":"no luck"}"#,
            r#"{"detail":"no luck"}"#,
            r#"{"error":null,"message":"no luck"}"#,
            r#"[{"error":{"message":"no luck"}}]"#,
            " no\nluck\n",
        ] {
            assert_eq!(error(400, &[], body).message(), "the server answered 400: no luck", "{body}");
        }
        for body in ["", "  ", "<html>no luck</html>"] {
            assert_eq!(error(400, &[], body).message(), "the server answered 400", "{body}");
        }
        let long = error(400, &[], &format!(r#"{{"error":"{}"}}"#, "ä".repeat(3_000)));
        assert!(long.message().ends_with("ää…") && long.message().chars().count() < SENTENCE + 50);
        assert!(error(400, &[], &"ä".repeat(READ_OF_COMPLAINT)).message().chars().count() < RAW + 50);
        assert!(!error(400, &[], "a\u{1b}[31m").message().contains('\u{1b}'));
        let cut = Body::of(["{\"error\":"]).and_then_fails(Error::Timeout("late".into()));
        assert_eq!(Response::new(404, &[], cut).ok().unwrap_err(), Error::NotFound("the server answered 404".into()));
    }

    #[test]
    fn words_of_vendors_outweigh_the_status() {
        let with =
            |status, code: &str| error(status, &[], &format!(r#"{{"error":{{"message":"m","code":"{code}"}}}}"#));
        assert_eq!(case(&with(429, "insufficient_quota")).0, "exhausted");
        assert_eq!(case(&with(400, "context_length_exceeded")).0, "too-large");
    }

    #[test]
    fn retry_after_header_is_parsed_as_a_number() {
        for (headers, expected) in [
            (&[("retry-after", "2")][..], Some(2_000)),
            (&[("retry-after", "0.5")], Some(500)),
            (&[("retry-after", "9"), ("retry-after-ms", " 250 ")], Some(250)),
            (&[("retry-after", "1e300")], Some(u64::MAX)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None),
            (&[], None),
        ] {
            assert_eq!(case(&error(429, headers, "")), ("rate-limited", expected), "{headers:?}");
        }
    }

    #[test]
    fn errors_inside_a_reply_have_their_case() {
        for (json, expected) in [
            (r#""lost""#, "unavailable"),
            (r#"{"message":"lost"}"#, "unavailable"),
            (r#"{"message":"lost","code":429}"#, "rate-limited"),
            (r#"{"message":"lost","code":"404"}"#, "not-found"),
            (r#"{"message":"lost","code":7}"#, "unavailable"),
            (r#"{"message":"lost","type":"invalid_request_error"}"#, "invalid"),
            (r#"{"message":"lost","type":"authentication_error"}"#, "denied"),
            (r#"{"message":"lost","type":"billing_error"}"#, "exhausted"),
            (r#"{"message":"lost","type":"request_too_large"}"#, "too-large"),
            (r#"{"message":"lost","type":"rate_limit_error"}"#, "rate-limited"),
            (r#"{"message":"lost","type":"overloaded_error"}"#, "unavailable"),
        ] {
            let error = reported(&serde_json::from_str(json).unwrap());
            assert_eq!(case(&error), (expected, None), "{json}");
            assert_eq!(error.message(), "the server ended its reply with an error: lost", "{json}");
        }
        assert_eq!(reported(&Value::Null).message(), "the server ended its reply with an error");
    }
}
