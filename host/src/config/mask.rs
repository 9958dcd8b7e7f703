//! Recognizes credentials by their names and hides those of a config that is shown.

use std::path::Path;

use indexmap::IndexMap;
use serde_json::Value;
use url::Url;

pub(super) const MASK: &str = "***";

/// Returns a credential if it is exactly one `${NAME}`, and [`MASK`] otherwise.
pub(super) fn masked(key: &str) -> &str {
    let is_variable = key.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    match is_variable {
        Some(name) if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') => key,
        _ => MASK,
    }
}

/// Returns an address without the parts that may hold a credential: user, query and fragment.
pub(super) fn masked_url(text: &str) -> String {
    if !text.contains(['@', '?', '#']) {
        return text.into();
    }
    let without_user = |mut url: Url| {
        url.set_username("").ok()?;
        url.set_password(None).ok()?;
        Some(url)
    };
    // With variables in the address the parts cannot be told apart.
    let url = Url::parse(text).ok().filter(|_| !text.contains("${")).and_then(without_user);
    url.map_or(MASK.into(), |mut url| {
        url.set_fragment(None);
        let query = url.query().map(|_| MASK);
        url.set_query(query);
        url.into()
    })
}

/// Texts in the name of a setting that mark it as a credential.
const SECRET: [&str; 12] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "auth",
    "credential",
    "bearer",
    "cookie",
    "session",
];

/// Words that contain one of these texts, or end like one, and mark nothing.
const HARMLESS: [&str; 9] =
    ["author", "authors", "authority", "xauthority", "keyboard", "keymap", "keytimeout", "tokenizer", "tokenizers"];

/// Words each of which marks a variable of the environment as a credential, whatever its value looks like.
const SECRET_WORDS: [&str; 13] = [
    "key",
    "apikey",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pass",
    "sshpass",
    "pwd",
    "credentials",
    "bearer",
    "cookie",
];

/// The variables in which shells keep the current and the last folder.
const SHELL_FOLDERS: [&str; 2] = ["PWD", "OLDPWD"];

/// The shortest text that looks like a credential, in bytes: most of them are longer.
const SHORTEST: usize = 16;

/// Returns `true` if the name of a setting is that of a credential.
pub(super) fn names_credential(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_secret = |word: &str| word == "pass" || SECRET.iter().any(|secret| word.contains(secret));
    words(&name).any(|word| !HARMLESS.contains(&word) && is_secret(word))
}

/// Returns `true` if a variable of the environment holds a credential: one of the words of its name says so, or a part of its
/// name and the look of its value. The path of something that exists is none.
pub(super) fn variable_holds_credential(name: &str, value: &str) -> bool {
    let path = Path::new(value);
    if SHELL_FOLDERS.contains(&name) || path.is_absolute() && path.exists() {
        return false;
    }
    let in_lower_case = name.to_lowercase();
    let ends_as_secret = |word: &str| ["token", "secret", "password", "apikey"].iter().any(|end| word.ends_with(end));
    words(&in_lower_case).any(|word| SECRET_WORDS.contains(&word) || ends_as_secret(word))
        || words(&in_lower_case).next_back() == Some("auth")
        || names_credential(name) && looks_like_credential(value)
}

/// Returns `true` if a text could be a credential: no folder, option or everyday word.
pub(super) fn looks_like_credential(text: &str) -> bool {
    text.len() >= SHORTEST && !text.contains(['/', '\\']) && text.contains(|c: char| c.is_ascii_digit())
}

/// Returns the words of a name such as `MY_API_KEY` or `x-api-key`.
fn words(name: &str) -> impl DoubleEndedIterator<Item = &str> {
    name.split(|c: char| !c.is_ascii_alphanumeric())
}

/// Returns the params of a plugin, with texts under credential-like keys hidden.
pub(super) fn masked_params(params: &IndexMap<String, Value>) -> IndexMap<&str, Value> {
    fn hide(key: &str, value: &Value) -> Value {
        match value {
            Value::String(_) if names_credential(key) => MASK.into(),
            // A connection string: the part before the host may be a credential.
            Value::String(text) if text.contains("://") => masked_url(text).into(),
            Value::Array(list) => list.iter().map(|value| hide(key, value)).collect(),
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), hide(key, value))).collect(),
            other => other.clone(),
        }
    }
    params.iter().map(|(key, value)| (key.as_str(), hide(key, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_is_a_credential_by_its_words() {
        for name in ["api_key", "apiKey", "Authorization", "X-Auth", "pass", "db_password", "session_cookie", "pwd"] {
            assert!(names_credential(name), "{name}");
        }
        for name in ["author", "keyboard", "compass", "bypass", "tokenizer", "path", "name", ""] {
            assert!(!names_credential(name), "{name}");
        }
    }

    #[test]
    fn variable_is_a_credential_by_name_and_value() {
        let folder = tempfile::tempdir().unwrap();
        let existing = folder.path().to_str().unwrap();
        let long = "0123456789abcdef";
        for (name, value) in [
            ("OPENAI_API_KEY", "sk-short"),
            ("GITHUB_TOKEN", "ghp_short"),
            ("MYTOKEN", "shortone"),
            ("AWS_SECRET_ACCESS_KEY", "/begins/as/a/path"),
            ("PGPASSWORD", "hunter22"),
            ("MYSQL_PWD", "hunter22"),
            ("RABBITMQ_PASS", "hunter22"),
            ("SSHPASS", "hunter22"),
            ("HTTP_AUTH", "me:hunter22"),
            ("openai_api_key", "sk-short"),
            ("GOOGLE_APIKEY", "sk-short"),
            ("AOC_SESSION", long),
            ("XAUTHHEADER", long),
            ("MY_SECRETS", long),
        ] {
            assert!(variable_holds_credential(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("PWD", "/folder/that/is/gone"),
            ("OLDPWD", "/folder/that/is/gone"),
            ("MY_KEY", existing),
            ("SSH_ASKPASS", existing),
            ("SSH_AUTH_SOCK", "/tmp/ssh-a0b10123456789/agent.12"),
            ("XAUTHORITY", "/run/user/1000/gdm/Xauthority"),
            ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
            ("XDG_SESSION_DESKTOP", "ubuntu-wayland"),
            ("DESKTOP_SESSION", "ubuntu-wayland"),
            ("XDG_SESSION_TYPE", "wayland"),
            ("KEYBOARD_LAYOUT", long),
            ("COMPASS", long),
            ("BYPASS_PROXY", long),
            ("GIT_AUTHOR_EMAIL", "me0123456789@example.com"),
            ("TOKENIZERS_PARALLELISM", "0123456789012345"),
            ("PATH", "/usr/bin:/bin"),
            ("HOME", existing),
        ] {
            assert!(!variable_holds_credential(name, value), "{name}={value}");
        }
    }

    #[test]
    fn a_secret_is_masked() {
        for (key, shown) in [
            ("${OPENAI_API_KEY}", "${OPENAI_API_KEY}"),
            ("sk-secret", MASK),
            ("Bearer ${KEY}", MASK),
            ("${KEY}sk-${KEY}", MASK),
            ("${}", MASK),
            ("", MASK),
        ] {
            assert_eq!(masked(key), shown, "{key}");
        }
        for (url, shown) in [
            ("http://localhost:11434/v1", "http://localhost:11434/v1"),
            ("${BASE}/v1", "${BASE}/v1"),
            ("https://me:sk-secret@a.example/v1", "https://a.example/v1"),
            ("https://sk-secret@a.example/v1", "https://a.example/v1"),
            ("https://a.example/v1?key=sk-secret&x=1", "https://a.example/v1?***"),
            ("https://a.example/v1#sk-secret", "https://a.example/v1"),
            ("https://me:sk-secret@${HOST}/v1", MASK),
            ("https://a.example/${PART}?key=sk-secret", MASK),
            ("//me:sk-secret@host/v1", MASK),
            ("mailto:sk-secret@host?x", MASK),
        ] {
            assert_eq!(masked_url(url), shown, "{url}");
        }
        let params = serde_json::json!({
            "threshold": 3, "max_tokens": 7, "Api-Key": "sk-secret", "deep": [{"tokens": ["sk-secret"], "name": "x"}]
        });
        let params = serde_json::from_value(params).unwrap();
        let shown = serde_json::to_value(masked_params(&params)).unwrap();
        assert_eq!(
            shown,
            serde_json::json!({
                "threshold": 3, "max_tokens": 7, "Api-Key": MASK, "deep": [{"tokens": [MASK], "name": "x"}]
            })
        );
    }
}
