use std::{fmt::Write, time::Duration};

use serde_json::Value;

use super::Secret;
use shelly_core::{
    error::{Fault, acts_on_terminal, speaks_of_window},
    limits,
};

/// The number of characters shown of a body in an unknown format.
const RAW_CHARS: usize = 300;

/// Returns the fault that an error status stands for. `after` is the server's `Retry-After`, `body` its message.
pub fn fault(origin: &str, status: u16, after: Option<Duration>, body: &str, secrets: &[Secret]) -> Fault {
    let complaint = ServerErrorBody::parse(body);
    let complaint_text = match &complaint {
        Some(complaint) => shown(&complaint.message, secrets, limits::ERROR_BYTES),
        // A page made for browsers explains nothing here.
        None if body.trim_start().starts_with('<') => String::new(),
        None => shown(body.trim(), secrets, RAW_CHARS),
    };
    let mut message = format!("{origin} answered {status}");
    if let Some(reason) = reqwest::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()) {
        let _ = write!(message, " {reason}");
    }
    if !complaint_text.is_empty() {
        let _ = write!(message, ": {complaint_text}");
    }
    of_status(status, &complaint.unwrap_or_default(), message, after)
}

/// Returns the fault for an error object that a server sent in place of a reply, or in the middle of one. `error` is the
/// JSON value of its `error` key.
pub fn fault_in_reply(origin: &str, error: &str, secrets: &[Secret]) -> Fault {
    let value = serde_json::from_str(error).unwrap_or_else(|_| Value::String(error.into()));
    let complaint = ServerErrorBody::of(&value);
    let message =
        format!("{origin} ended its reply with an error: {}", shown(&complaint.message, secrets, limits::ERROR_BYTES));
    of_status(complaint.status(), &complaint, message, None)
}

fn of_status(status: u16, complaint: &ServerErrorBody, message: String, after: Option<Duration>) -> Fault {
    // Some vendors use misleading statuses: an unpaid bill is not a rate limit, and a full context window is not invalid
    // input.
    if complaint.is("insufficient_quota") {
        return Fault::Exhausted { message };
    }
    let is_named = complaint.is("context_length_exceeded") || complaint.is("exceed_context_size_error");
    // Most servers have no code for it, only a message.
    let is_said = matches!(status, 400 | 413 | 422 | 500) && speaks_of_window(&complaint.message);
    if is_named || is_said {
        let mut message = message;
        if !is_said {
            message += " (context length exceeded)";
        }
        if !complaint.n_ctx.is_empty() {
            let _ = write!(message, " (n_ctx {})", complaint.n_ctx);
        }
        return Fault::TooLarge { message };
    }
    // Anthropic has no code for it, only a message.
    if complaint.is("invalid_request_error") && complaint.message.starts_with("Your credit balance is too low") {
        return Fault::Exhausted { message };
    }
    // Google reports an unknown key as invalid input.
    if complaint.reason == "API_KEY_INVALID" {
        return Fault::Denied { message };
    }
    let after = after.or(complaint.after);
    match status {
        401 | 403 | 407 => Fault::Denied { message },
        402 => Fault::Exhausted { message },
        404 | 410 => Fault::NotFound { message },
        413 => Fault::TooLarge { message },
        429 => Fault::RateLimited { message, after },
        408 | 409 | 500 | 502..=504 | 520..=529 => Fault::Unavailable { message, after },
        400..=499 => Fault::Invalid { message },
        _ => Fault::Other { message },
    }
}

/// The error that a server reports.
#[derive(Default)]
struct ServerErrorBody {
    message: String,
    kind: String,
    code: String,
    /// Google's name for the kind.
    status: String,
    /// Google's name for the underlying reason.
    reason: String,
    /// The pause that the server asks for.
    after: Option<Duration>,
    /// llama.cpp's name for the context window.
    n_ctx: String,
}

impl ServerErrorBody {
    /// Parses a body in one of the usual formats: `{"error": {"message": …}}`, `{"error": "…"}`, `{"message": "…"}`,
    /// `{"detail": "…"}`, or a list that begins with one of them.
    fn parse(body: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(body).ok()?;
        let value = value.get(0).unwrap_or(&value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        let complaint = Self::of(error);
        (!complaint.message.is_empty()).then_some(complaint)
    }

    /// Parses an error object, or a bare message.
    fn of(error: &Value) -> Self {
        let field = |name: &str| match error.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        };
        let message = match error {
            Value::String(text) => text.clone(),
            _ => [field("message"), field("detail")].into_iter().find(|text| !text.is_empty()).unwrap_or_default(),
        };
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let detail = |name: &str| details.iter().find_map(|detail| detail.get(name)?.as_str());
        Self {
            message,
            kind: field("type"),
            code: field("code"),
            status: field("status"),
            reason: detail("reason").unwrap_or_default().into(),
            n_ctx: error.get("n_ctx").and_then(Value::as_u64).map(|tokens| tokens.to_string()).unwrap_or_default(),
            after: detail("retryDelay").and_then(seconds),
        }
    }

    fn is(&self, word: &str) -> bool {
        self.kind == word || self.code == word || self.status == word
    }

    /// Returns the HTTP status that corresponds to the error. The default is 500, a transient failure after the server had
    /// accepted the request.
    fn status(&self) -> u16 {
        let word = |words: &[&str]| words.iter().any(|word| self.is(word));
        match self.code.parse() {
            Ok(status @ 400..=599) => status,
            _ if word(&["invalid_request_error", "invalid_prompt", "INVALID_ARGUMENT", "FAILED_PRECONDITION"]) => 400,
            // OpenAI has several codes for unusable images.
            _ if self.code.contains("image") => 400,
            _ if word(&["authentication_error", "permission_error", "invalid_api_key"]) => 401,
            _ if word(&["UNAUTHENTICATED", "PERMISSION_DENIED"]) => 401,
            _ if word(&["billing_error"]) => 402,
            _ if word(&["not_found_error", "model_not_found", "NOT_FOUND"]) => 404,
            _ if word(&["request_too_large"]) => 413,
            _ if word(&["rate_limit_error", "rate_limit_exceeded", "too_many_requests", "RESOURCE_EXHAUSTED"]) => 429,
            _ if word(&["overloaded_error"]) => 529,
            _ => 500,
        }
    }
}

/// Parses a duration in Google's format, such as `3.5s`.
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.strip_suffix('s')?.parse().ok()?).ok()
}

/// Prepares `text` from a server for display: at most `limit` bytes, without these credentials, on one line, with control
/// characters escaped.
pub fn shown(text: &str, secrets: &[Secret], limit: usize) -> String {
    let text = secrets.iter().fold(text.to_owned(), |text, secret| secret.blot(&text));
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.push(' '),
            c if acts_on_terminal(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
        if shown.len() >= limit {
            shown.truncate(shown.floor_char_boundary(limit));
            shown.push('…');
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(status: u16, body: &str) -> Fault {
        fault("host:1", status, None, body, &[Secret::new("sk-secret")])
    }

    #[test]
    fn the_message_is_found_in_the_usual_shapes() {
        for body in [
            r#"{"error":{"message":"no luck","type":"x"}}"#,
            r#"{"error":"no luck"}"#,
            r#"{"message":"no luck"}"#,
            r#"{"detail":"no luck"}"#,
            r#"{"error":null,"message":"no luck"}"#,
            r#"[{"error":{"message":"no luck"}}]"#,
            "no luck\n",
        ] {
            assert_eq!(fault_of(400, body), Fault::invalid("host:1 answered 400 Bad Request: no luck"), "{body}");
        }
        for body in ["", "  ", "<html>no luck</html>"] {
            assert_eq!(fault_of(400, body), Fault::invalid("host:1 answered 400 Bad Request"), "{body}");
        }
    }

    #[test]
    fn what_a_server_says_is_cleaned_and_bounded() {
        let fault = fault_of(500, r#"{"error":"key sk-secret\u001b[31m\nred \u202eback"}"#);
        assert_eq!(
            fault.to_string(),
            "host:1 answered 500 Internal Server Error: key ***\\u{1b}[31m red \\u{202e}back"
        );
        let long = fault_of(500, &format!(r#"{{"error":"{}"}}"#, "ä".repeat(10_000))).to_string();
        assert!(long.len() < limits::ERROR_BYTES + 100 && long.ends_with("ä…"));
    }

    #[test]
    fn words_of_vendors_outweigh_the_status() {
        let quota = r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#;
        assert!(matches!(fault_of(429, quota), Fault::Exhausted { .. }));
        let window = r#"{"error":{"message":"full","code":"context_length_exceeded"}}"#;
        assert!(matches!(fault_of(400, window), Fault::TooLarge { .. }));
        assert!(
            fault_of(400, window).to_string().ends_with("full (context length exceeded)"),
            "{}",
            fault_of(400, window)
        );
        let sized = r#"{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":2048}}"#;
        assert!(fault_of(400, sized).to_string().ends_with("context size (n_ctx 2048)"), "{}", fault_of(400, sized));
        // vLLM, LM Studio and older llama.cpp: only a message, under various statuses.
        let said = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.";
        let said = format!(r#"{{"object":"error","message":"{said}","type":"BadRequestError","code":400}}"#);
        for (status, is_window) in [(400, true), (413, true), (422, true), (500, true), (401, false), (429, false)] {
            assert_eq!(
                matches!(fault_of(status, &said), Fault::TooLarge { .. }),
                is_window || status == 413,
                "{status}"
            );
        }
        let anthropic = |message: &str| {
            fault_of(
                400,
                &format!(r#"{{"type":"error","error":{{"type":"invalid_request_error","message":"{message}"}}}}"#),
            )
        };
        assert!(matches!(anthropic("prompt is too long: 9 tokens > 8 maximum"), Fault::TooLarge { .. }));
        assert!(matches!(anthropic("Your credit balance is too low to …"), Fault::Exhausted { .. }));
        assert!(matches!(anthropic("a prompt must not be empty"), Fault::Invalid { .. }));
    }

    #[test]
    fn google_errors_map_to_faults() {
        let error = |code: u16, status: &str, message: &str, details: &str| {
            format!(
                r#"{{"error":{{"code":{code},"message":"{message}","status":"{status}","details":[{{"@type":"x"}},{details}]}}}}"#
            )
        };
        let delay = r#"{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.5s"}"#;
        let limited = error(429, "RESOURCE_EXHAUSTED", "slow down", delay);
        let after = Some(Duration::from_millis(3_500));
        for body in [limited.clone(), format!("[{limited}]")] {
            let message = "host:1 answered 429 Too Many Requests: slow down".into();
            assert_eq!(fault_of(429, &body), Fault::RateLimited { message, after });
        }
        for (text, expected) in [("3s", Some(3)), ("-1s", None), ("NaNs", None), ("1e300s", None), ("3", None)] {
            assert_eq!(seconds(text).map(|time| time.as_secs()), expected, "{text}");
        }
        let key = error(400, "INVALID_ARGUMENT", "API key not valid.", r#"{"reason":"API_KEY_INVALID"}"#);
        assert!(matches!(fault_of(400, &key), Fault::Denied { .. }));
        let window = "The input token count (9) exceeds the maximum number of tokens allowed (8).";
        let window = error(400, "INVALID_ARGUMENT", window, "{}");
        assert!(matches!(fault_of(400, &window), Fault::TooLarge { .. }));
        // In a stream, where there is no code, the status name decides.
        let inside =
            |status: &str| fault_in_reply("h", &format!(r#"{{"status":"{status}","details":[{delay}]}}"#), &[]);
        assert!(matches!(inside("RESOURCE_EXHAUSTED"), Fault::RateLimited { after: Some(_), .. }));
        assert!(matches!(inside("INVALID_ARGUMENT"), Fault::Invalid { .. }));
        assert!(matches!(inside("PERMISSION_DENIED"), Fault::Denied { .. }));
        assert!(matches!(inside("NOT_FOUND"), Fault::NotFound { .. }));
        assert!(matches!(inside("INTERNAL"), Fault::Unavailable { .. }));
    }

    #[test]
    fn errors_inside_a_reply_have_their_case() {
        let inside = |error| fault_in_reply("host:1", error, &[Secret::new("sk-secret")]);
        assert!(matches!(inside(r#"{"message":"m","code":429}"#), Fault::RateLimited { .. }));
        assert!(matches!(inside(r#"{"message":"m","type":"invalid_request_error"}"#), Fault::Invalid { .. }));
        assert!(matches!(inside(r#"{"message":"m","type":"server_error"}"#), Fault::Unavailable { .. }));
        assert!(matches!(inside(r#"{"message":"m","code":"image_parse_error"}"#), Fault::Invalid { .. }));
        assert!(matches!(inside(r#"{"message":"m","type":"overloaded_error"}"#), Fault::Unavailable { .. }));
        assert!(matches!(inside(r#"{"message":"m","type":"billing_error"}"#), Fault::Exhausted { .. }));
        assert!(matches!(inside(r#"{"message":"m","type":"request_too_large"}"#), Fault::TooLarge { .. }));
        assert_eq!(inside(r#""lost sk-secret""#).to_string(), "host:1 ended its reply with an error: lost ***");
    }
}
