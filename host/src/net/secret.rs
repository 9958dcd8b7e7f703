use std::{cmp::Reverse, fmt, sync::Arc};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use url::form_urlencoded::byte_serialize;

use crate::limits;

/// A credential. It is shown by nothing but the request that it is meant for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Texts this short are not blotted out: that would garble messages and hide nothing.
    pub(super) const SHORTEST: usize = 4;

    /// Takes a credential. White space around it is dropped: files and shells add line ends.
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().into())
    }

    /// The credential itself, to put it into a request or to look for it in what must not show it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the credential, should a server have echoed it: as it is, as JSON, as a part of a URL or as base64.
    pub fn blot(&self, text: &str) -> String {
        if self.0.len() < Self::SHORTEST {
            return text.into();
        }
        self.forms().iter().fold(text.into(), |text, form| text.replace(form, "***"))
    }

    /// What of a text that may hold a credential must not be shown: the text and each of its words, as in `Bearer sk-…`, but
    /// for those of fewer than [`limits::SESSION_SECRET_BYTES`] bytes.
    pub fn parts(&self) -> Vec<Self> {
        let words = self.0.split_whitespace().filter(|word| word.len() < self.0.len());
        let parts = std::iter::once(&*self.0).chain(words);
        parts.filter(|part| part.len() >= limits::SESSION_SECRET_BYTES).map(Self::new).collect()
    }

    /// The ways in which it may be written, the longest first: one may begin with another.
    pub(super) fn forms(&self) -> Vec<String> {
        let json = in_json(&self.0);
        let form: String = byte_serialize(self.0.as_bytes()).collect();
        let percent = form.replace('+', "%20").replace('*', "%2A").replace("%7E", "~");
        let mut forms = vec![
            self.0.to_string(),
            in_json(&json),
            json,
            with_small_digits(&form),
            with_small_digits(&percent),
            form,
            percent,
            STANDARD_NO_PAD.encode(&*self.0),
            URL_SAFE_NO_PAD.encode(&*self.0),
        ];
        forms.sort_by_key(|form| Reverse(form.len()));
        forms.dedup();
        forms
    }
}

/// A text as it stands between the quotes of a JSON string.
fn in_json(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].into()
}

/// A percent-encoded text with `%2f` for `%2F`.
fn with_small_digits(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text + "%" + &digits.to_lowercase() + rest
    })
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_never_shown() {
        let secret = Secret::new(" sk-very-secret\n");
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** Secret(***) Some(Secret(***))");
        assert_eq!(secret.blot("bad key sk-very-secret, sk-very-secret!"), "bad key ***, ***!");
        assert_eq!(Secret::new("").blot("text"), "text");
    }

    #[test]
    fn words_of_a_header_are_secrets_too() {
        let parts =
            |text: &str| Secret::new(text).parts().iter().map(|part| part.expose().to_owned()).collect::<Vec<_>>();
        assert_eq!(parts("Bearer sk-very-secret"), ["Bearer sk-very-secret", "sk-very-secret"]);
        assert_eq!(parts("sk-very-secret"), ["sk-very-secret"]);
        assert_eq!(parts("birds"), [""; 0]);
    }

    #[test]
    fn is_blotted_out_however_it_is_written() {
        let secret = Secret::new(r#"a"b/C +~*d\"#);
        for (text, expected) in [
            (r#"key a"b/C +~*d\!"#, "key ***!"),
            (r#"{"key":"a\"b/C +~*d\\"}"#, r#"{"key":"***"}"#),
            (r#"{"said":"{\"key\":\"a\\\"b/C +~*d\\\\\"}"}"#, r#"{"said":"{\"key\":\"***\"}"}"#),
            ("?key=a%22b%2FC+%2B%7E*d%5C&x", "?key=***&x"),
            ("?key=a%22b%2fC+%2b%7e*d%5c&x", "?key=***&x"),
            ("?key=a%22b%2FC%20%2B~%2Ad%5C&x", "?key=***&x"),
            ("?key=a%22b%2fC%20%2b~%2ad%5c&x", "?key=***&x"),
            ("YSJiL0MgK34qZFw=", "***="),
            ("nothing of it", "nothing of it"),
        ] {
            assert_eq!(secret.blot(text), expected, "{text}");
        }
        assert_eq!(Secret::new("???>>>").blot("Pz8_Pj4- Pz8/Pj4+"), "*** ***");
        assert_eq!(Secret::new("ä%&").blot("100 % of it"), "100 % of it");
    }
}
