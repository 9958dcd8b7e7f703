//! Hides credentials of a config that is shown.

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

/// Words that mark the name of a setting as a credential.
const SECRET: [&str; 11] =
    ["key", "token", "secret", "password", "passwd", "pwd", "auth", "credential", "bearer", "cookie", "session"];

/// Returns `true` if the name of a setting or of a variable is that of a credential.
pub(super) fn names_credential(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET.iter().any(|word| name.contains(word))
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
