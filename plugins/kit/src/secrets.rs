//! Detection of secrets in a text. It is a best effort: a secret of unknown shape is not found.

mod personal;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use shelly_plugin::{Error, config};

use crate::bad;

const BLOT: &str = "[redacted]";

/// The maximum length of a variable name that is checked. Without it, each position in an endless run of dashes would be
/// checked to the end of the run.
const MAX_NAME: usize = 64;

/// A secret with a fixed prefix.
struct Shape {
    prefix: &'static str,
    /// The minimum number of characters after the prefix.
    min: usize,
    body: fn(char) -> bool,
}

const SHAPES: &[Shape] = &[
    // OpenAI, Anthropic and many that follow them.
    Shape { prefix: "sk-", min: 20, body: is_token },
    // GitHub: personal, OAuth, user, server, refresh; fine-grained.
    Shape { prefix: "ghp_", min: 30, body: is_alphanumeric },
    Shape { prefix: "gho_", min: 30, body: is_alphanumeric },
    Shape { prefix: "ghu_", min: 30, body: is_alphanumeric },
    Shape { prefix: "ghs_", min: 30, body: is_alphanumeric },
    Shape { prefix: "ghr_", min: 30, body: is_alphanumeric },
    Shape { prefix: "github_pat_", min: 22, body: is_token },
    // GitLab.
    Shape { prefix: "glpat-", min: 20, body: is_token },
    // AWS: long-lived, temporary.
    Shape { prefix: "AKIA", min: 16, body: is_upper },
    Shape { prefix: "ASIA", min: 16, body: is_upper },
    // Slack: bot, person, app, workspace.
    Shape { prefix: "xoxb-", min: 10, body: is_token },
    Shape { prefix: "xoxp-", min: 10, body: is_token },
    Shape { prefix: "xoxa-", min: 10, body: is_token },
    Shape { prefix: "xoxs-", min: 10, body: is_token },
    // Google.
    Shape { prefix: "AIza", min: 35, body: is_token },
    // Whatever stands in an `Authorization` header.
    Shape { prefix: "Bearer ", min: 20, body: is_bearer },
];

/// The number of bytes of an unquoted value that decide whether it is a secret; the whole value of a secret is removed.
/// Without this bound, each position in an endless run of names and values would be checked to the end of the run.
const VALUE_LOOKED_AT: usize = 128;

/// The endings of a name that denote a password: `DB_PASSWORD`.
const PASSWORDS: &[&str] = &["password", "passwd", "passphrase", "pwd"];

/// The endings of a name that denote another secret. They are often only mentioned in prose.
const SECRETS: &[&str] =
    &["secret", "api_key", "apikey", "api-key", "access_key", "access-key", "private_key", "token"];

/// A class of texts that are redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Keys and tokens of well-known shapes, private keys, passwords in assignments.
    Secrets,
    /// E-mail addresses.
    Emails,
    /// Payment card numbers.
    Cards,
}

/// The params of a guest that redacts, which has no others.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The classes that are redacted.
    what: Vec<What>,
    /// Texts that are redacted wherever they occur.
    extra: Vec<String>,
}

impl Default for Params {
    fn default() -> Params {
        Params { what: vec![What::Secrets], extra: Vec::new() }
    }
}

/// A redactor of texts.
#[derive(Debug)]
pub struct Net {
    what: Vec<What>,
    extra: Vec<String>,
}

impl Net {
    /// Creates the redactor that the guest's params describe.
    pub fn of_params() -> Result<Net, Error> {
        let Params { what, extra } = config()?;
        Net::new(what, extra)
    }

    /// Creates a redactor for these classes, and for the texts in `extra` wherever they occur.
    pub fn new(what: Vec<What>, extra: Vec<String>) -> Result<Net, Error> {
        if extra.iter().any(|text| text.trim().is_empty()) {
            return Err(bad("`extra` has an empty text; each must be a secret to redact"));
        }
        if what.is_empty() && extra.is_empty() {
            return Err(bad("`what` and `extra` are empty, so nothing would be redacted; set one of them"));
        }
        Ok(Net { what, extra })
    }

    /// Returns the text without its secrets, and the number of secrets.
    pub fn redact(&self, text: &str) -> (String, usize) {
        let mut clean = String::with_capacity(text.len());
        let (mut count, mut kept, mut at) = (0, 0, 0);
        let mut no_token_before = 0;
        let bytes = text.as_bytes();
        while let Some(byte) = bytes.get(at) {
            // Most positions are inside of words or between them; only a listed text can begin there.
            let is_inside = at > 0 && bytes[at - 1].is_ascii_alphanumeric() && *byte != b'-';
            let secret = match is_inside || !self.may_begin_with(*byte) {
                true => self.listed(text, at),
                false => self.secret_at(text, at, &mut no_token_before),
            };
            match secret {
                Some((start, end)) => {
                    clean += &text[kept..start];
                    clean += BLOT;
                    count += 1;
                    (kept, at) = (end, end);
                }
                None => at = text.ceil_char_boundary(at + 1),
            }
        }
        clean += &text[kept..];
        (clean, count)
    }

    /// Redacts the text of a JSON value, and keeps it valid JSON.
    pub fn redact_json(&self, json: &str) -> (String, usize) {
        let (clean, count) = self.redact(json);
        if count == 0 || serde_json::from_str::<IgnoredAny>(&clean).is_ok() {
            return (clean, count);
        }
        // A replacement is in a place where JSON allows no text, so each value is redacted by itself.
        let Ok(mut value) = serde_json::from_str::<Value>(json) else { return (clean, count) };
        let count = self.redact_value(&mut value);
        (value.to_string(), count)
    }

    fn redact_value(&self, value: &mut Value) -> usize {
        match value {
            Value::Null | Value::Bool(_) => 0,
            Value::Number(number) => match self.redact(&number.to_string()) {
                (_, 0) => 0,
                (clean, count) => {
                    *value = clean.into();
                    count
                }
            },
            Value::String(text) => {
                let (clean, count) = self.redact(text);
                *text = clean;
                count
            }
            Value::Array(values) => values.iter_mut().map(|value| self.redact_value(value)).sum(),
            Value::Object(fields) => fields.iter_mut().map(|(_, value)| self.redact_value(value)).sum(),
        }
    }

    /// Returns `true` if a secret that is not listed may begin with this byte. E-mail addresses begin with letters of any
    /// script.
    fn may_begin_with(&self, byte: u8) -> bool {
        is_token(char::from(byte)) || self.what.contains(&What::Emails)
    }

    /// Returns the range of the longest listed text that begins at `at`, in case one contains another.
    fn listed(&self, text: &str, at: usize) -> Option<(usize, usize)> {
        let is_here = |secret: &&String| text.as_bytes()[at..].starts_with(secret.as_bytes());
        let longest = self.extra.iter().filter(is_here).map(String::len).max()?;
        Some((at, at + longest))
    }

    /// Returns the range of the secret that begins at `at`, or whose name begins there. No web token begins before
    /// `no_token_before`, as far as is known.
    fn secret_at(&self, text: &str, at: usize, no_token_before: &mut usize) -> Option<(usize, usize)> {
        let rest = &text[at..];
        let has = |what| self.what.contains(&what);
        if let Some(listed) = self.listed(text, at) {
            return Some(listed);
        }
        let is_asked = has(What::Secrets);
        if let Some(length) = is_asked.then(|| private_key(rest)).flatten() {
            return Some((at, at + length));
        }
        let before = text[..at].chars().next_back();
        if before.is_some_and(char::is_alphanumeric) {
            return None;
        }
        let mut token = || {
            let found = (at >= *no_token_before).then(|| web_token(rest))?;
            found.map_err(|none| *no_token_before = at + none).ok()
        };
        // Only the requested classes are searched for.
        let mut secret = || is_asked.then(|| shaped(rest).or_else(&mut token)).flatten();
        let email = || has(What::Emails).then(|| personal::email(rest)).flatten();
        let card = || has(What::Cards).then(|| personal::card(rest)).flatten();
        if let Some(length) = secret().or_else(email).or_else(card) {
            return Some((at, at + length));
        }
        let (start, end) = is_asked.then(|| assigned(rest)).flatten()?;
        Some((at + start, at + end))
    }
}

fn shaped(text: &str) -> Option<usize> {
    let first = text.as_bytes().first()?;
    SHAPES.iter().filter(|shape| shape.prefix.as_bytes()[0] == *first).find_map(|shape| {
        let body = run(text.strip_prefix(shape.prefix)?, shape.body);
        (body >= shape.min).then_some(shape.prefix.len() + body)
    })
}

/// Returns the length of a JSON web token: three parts, of which the first two are JSON objects in base64. The error is
/// the number of bytes within which no token begins either.
fn web_token(text: &str) -> Result<usize, usize> {
    if !text.starts_with("eyJ") {
        return Err(0);
    }
    let head = run(text, is_token);
    let rest = text[head..].strip_prefix('.').filter(|rest| rest.starts_with("eyJ")).ok_or(head)?;
    let body = run(rest, is_token);
    let signature = rest[body..].strip_prefix('.').ok_or(head + 1 + body)?;
    match head > 10 && body > 10 {
        true => Ok(head + 1 + body + 1 + run(signature, is_token)),
        false => Err(head),
    }
}

/// Returns the length of a private key block as OpenSSL writes it; to the end of the text if its end is missing.
fn private_key(text: &str) -> Option<usize> {
    const END: &str = "PRIVATE KEY-----";
    let kind = text.strip_prefix("-----BEGIN ")?;
    let (kind, body) = kind.split_once("-----")?;
    if !kind.ends_with("PRIVATE KEY") || kind.len() > 40 {
        return None;
    }
    let end = body.find("-----END ").and_then(|from| Some(from + body[from..].find(END)? + END.len()));
    Some(text.len() - body.len() + end.unwrap_or(body.len()))
}

/// Returns the range of the value for a name that begins here: `password=…`, `"api_key": "…"`.
fn assigned(text: &str) -> Option<(usize, usize)> {
    let name = &text[..text.bytes().take(MAX_NAME).take_while(|byte| is_token(char::from(*byte))).count()];
    let last = name.as_bytes().last()?.to_ascii_lowercase();
    let is_called =
        |names: &[&str]| names.iter().any(|secret| secret.as_bytes().last() == Some(&last) && ends_with(name, secret));
    let is_password = is_called(PASSWORDS);
    if !is_password && !is_called(SECRETS) {
        return None;
    }
    // A quoted name ends with a quote.
    let rest = text[name.len()..].trim_start_matches(['"', '\'']).trim_start_matches(' ');
    let is_equal = rest.starts_with('=');
    let rest = rest.strip_prefix(['=', ':'])?.trim_start_matches(' ');
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
    let is_value = |c: char| !c.is_whitespace() && !matches!(c, ',' | ';' | '&' | ')' | '}' | '"' | '\'' | '`');
    let value = match quote {
        Some(quote) => rest[1..].split(quote).next()?,
        None => {
            let looked_at = &rest[..rest.floor_char_boundary(VALUE_LOOKED_AT)];
            &looked_at[..run(looked_at, is_value)]
        }
    };
    let has = |is: fn(char) -> bool| value.chars().any(is);
    // An unquoted value may be prose or code: "token: a word", `secret = next()`.
    let is_secret = match (quote.is_some(), is_equal, is_password) {
        (true, ..) | (false, true, true) => value.len() >= 4,
        (false, true, false) => value.len() >= 8 && has(|c| c.is_ascii_digit()),
        (false, false, _) => value.len() >= 6 && has(|c| c.is_ascii_digit()) && has(|c| c.is_ascii_alphabetic()),
    };
    if !is_secret || value.contains('\n') || is_placeholder(value) {
        return None;
    }
    let start = text.len() - rest.len() + usize::from(quote.is_some());
    let length = if quote.is_some() { value.len() } else { run(rest, is_value) };
    Some((start, start + length))
}

/// Returns `true` if `secret` is the name or its last word: `auth_token`, `authToken`, `TOKEN`, but not `detoken`.
fn ends_with(name: &str, secret: &str) -> bool {
    let Some(split) = name.len().checked_sub(secret.len()) else { return false };
    let (begin, end) = name.split_at(split);
    end.eq_ignore_ascii_case(secret)
        && (!begin.ends_with(|c: char| c.is_ascii_lowercase()) || end.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Returns `true` if the value stands for a secret or computes one: `<your key>`, `${KEY}`, `****`, `next(`.
fn is_placeholder(value: &str) -> bool {
    value.starts_with(['<', '$', '{', '['])
        || value.contains('(')
        || value.chars().all(|c| matches!(c, '*' | 'x' | 'X' | '.'))
}

/// Returns the number of bytes at the start of `text` whose characters satisfy `is`.
fn run(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn is_upper(c: char) -> bool {
    c.is_ascii_uppercase() || c.is_ascii_digit()
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_bearer(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '~' | '+' | '/' | '=')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(text: &str, extra: &[String]) -> (String, usize) {
        Net::new(vec![What::Secrets], extra.to_vec()).unwrap().redact(text)
    }

    /// Replaces `§` by forty letters and digits, so that this file contains nothing that looks like a secret.
    fn fill(text: &str) -> String {
        text.replace('§', "A1B2C3D4E5F6G7H8A1B2C3D4E5F6G7H8A1B2C3D4")
    }

    #[test]
    fn secrets_are_redacted() {
        let cases = [
            ("the key is sk-§.", "the key is [redacted]."),
            ("sk-ant-api03-§_x-y", "[redacted]"),
            ("(ghp_§)", "([redacted])"),
            ("github_pat_§_§ and glpat-§", "[redacted] and [redacted]"),
            ("id AKIAABCDEFGHIJKLMNOP!", "id [redacted]!"),
            ("xoxb-12-§,xoxp-§", "[redacted],[redacted]"),
            ("https://x.test/?key=AIza§&a=b", "https://x.test/?key=[redacted]&a=b"),
            ("eyJ§.eyJ§.§", "[redacted]"),
            ("Authorization: Bearer §.§", "Authorization: [redacted]"),
            ("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"),
            ("-----BEGIN PRIVATE KEY-----\nMIIE", "[redacted]"),
            ("password=hunter", "password=[redacted]"),
            ("DB_PASSWORD=hunter2; user=me", "DB_PASSWORD=[redacted]; user=me"),
            ("dbPassword: \"correct horse\"", "dbPassword: \"[redacted]\""),
            (r#"{"api_key": "abcd", "n": 1}"#, r#"{"api_key": "[redacted]", "n": 1}"#),
            ("auth_token=abc12345&x=1", "auth_token=[redacted]&x=1"),
            ("the password: hunter2", "the password: [redacted]"),
            ("ünï sk-§ ünï", "ünï [redacted] ünï"),
        ];
        for (text, expected) in cases {
            let (clean, count) = redact(&fill(text), &[]);
            assert_eq!(clean, fill(expected), "for {text}");
            assert_eq!(count, expected.matches(BLOT).count(), "for {text}");
        }
    }

    #[test]
    fn ordinary_text_is_not_redacted() {
        let cases = [
            "",
            "task-force",
            "ask-me-anything-about-the-weather",
            "sk-short",
            "a ghp_ prefix",
            "AKIA",
            "xoxb-",
            "eyJust a word. And. More",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "Password: must be long",
            "the token: a word",
            "max_tokens = 4096",
            "token_count=12345678",
            "secret = next_secret()",
            "password=<your password>",
            "password=${PASSWORD}",
            "password=****",
            "password=",
            "tokens: 12",
            "Bearer of news",
            "the password is not here",
            "eyJhbGciOiJI-eyJhbGciOiJI.eyJhbGciOiJI",
        ];
        for text in cases {
            assert_eq!(redact(text, &[]), (text.to_owned(), 0));
        }
    }

    #[test]
    fn listed_texts_are_redacted_anywhere() {
        let extra = ["blue".to_owned(), "blueberry".to_owned(), "öl".to_owned()];
        assert_eq!(redact("skyblue, blueberry, Öl öl", &extra), ("sky[redacted], [redacted], Öl [redacted]".into(), 3));
    }

    #[test]
    fn long_secret_is_redacted_whole() {
        let value = "a1".repeat(5_000);
        assert_eq!(redact(&format!("token={value} b"), &[]), ("token=[redacted] b".into(), 1));
        let (clean, count) = redact(&fill("-eyJ-eyJ§.eyJ§.§ eyJ-eyJ§.eyJ§.§"), &[]);
        assert_eq!((&*clean, count), ("-[redacted] [redacted]", 2));
    }

    /// The time per byte must not grow for texts that are written to exhaust the plugin's time.
    #[test]
    fn redaction_time_is_linear_in_the_text_length() {
        let net = Net::new(vec![What::Secrets, What::Emails, What::Cards], Vec::new()).unwrap();
        for piece in [
            "-eyJ",
            "-eyJ.",
            "-eyJabcdefghijk.eyJ",
            "token=",
            "password=<",
            "token=(",
            "password='",
            "Bearer ",
            "sk-",
            "a.",
            "4-",
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY",
        ] {
            let text = piece.repeat((1 << 18) / piece.len());
            let started = std::time::Instant::now();
            net.redact(&text);
            // Linear time takes some tenths of a second, quadratic time takes minutes.
            assert!(started.elapsed().as_secs() < 20, "{piece}: {:?}", started.elapsed());
        }
    }

    #[test]
    fn redaction_covers_only_the_requested_kinds() {
        let text = "ann@example.com pays with 4111 1111 1111 1111, password=hunter22";
        for (what, expected) in [
            (vec![What::Emails], "[redacted] pays with 4111 1111 1111 1111, password=hunter22"),
            (vec![What::Cards], "ann@example.com pays with [redacted], password=hunter22"),
            (vec![What::Secrets], "ann@example.com pays with 4111 1111 1111 1111, password=[redacted]"),
            (vec![What::Cards, What::Secrets, What::Emails], "[redacted] pays with [redacted], password=[redacted]"),
        ] {
            assert_eq!(Net::new(what, Vec::new()).unwrap().redact(text).0, expected);
        }
        for (what, extra) in [(vec![], vec![]), (vec![What::Cards], vec![" ".to_owned()])] {
            assert!(Net::new(what, extra).is_err());
        }
    }

    #[test]
    fn redacted_json_stays_valid() {
        let net = Net::new(vec![What::Secrets, What::Emails, What::Cards], vec!["{".into()]).unwrap();
        for (json, expected, count) in [
            (r#"[1]"#, r#"[1]"#, 0),
            (r#"["ann@example.com"]"#, r#"["[redacted]"]"#, 1),
            (r#"[{"b": 4111111111111111, "a": "x"}]"#, r#"[{"a":"x","b":"[redacted]"}]"#, 1),
            (r#"["a \"password=abcd1234\" b", null, true]"#, r#"["a \"password=[redacted]\" b",null,true]"#, 1),
        ] {
            assert_eq!(net.redact_json(json), (expected.to_owned(), count), "{json}");
        }
    }
}
