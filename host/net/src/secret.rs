use std::{fmt, sync::Arc};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use shelly_core::{encodings::encodings_of, limits};

/// A credential. It is only revealed in the request that it is meant for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Credentials shorter than this are not redacted: that would garble messages and hide nothing.
    pub(super) const SHORTEST: usize = 4;

    /// Creates a secret. Surrounding white space is dropped, because files and shells add line terminators.
    pub fn new(value: impl AsRef<str>) -> Self {
        Self(value.as_ref().trim().into())
    }

    /// Returns the credential itself, for use in a request or for a search in text that must not contain it. Not for
    /// embedders: only the crates below `host/` call it.
    #[doc(hidden)]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Redacts the credential in `text`, in case a server has echoed it: in every known encoding, ignoring case.
    pub fn blot(&self, text: &str) -> String {
        if self.0.len() < Self::SHORTEST {
            return text.into();
        }
        // Most texts are shorter than most encodings of a long credential.
        let forms: Vec<_> = self.forms().into_iter().filter(|form| form.len() <= text.len()).collect();
        let mut search = AhoCorasick::builder();
        search.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        // The default for few patterns, a DFA, takes minutes to build for a pattern of 64 KiB.
        search.kind(Some(AhoCorasickKind::NoncontiguousNFA)).prefilter(false);
        match search.build(&forms) {
            Ok(search) => search.replace_all(text, &vec!["***"; forms.len()]),
            // The patterns are too large to search for: nothing is shown.
            Err(_) => "***".into(),
        }
    }

    /// Returns the parts of a text with a possible credential that must not be shown: the text and each of its words, as in
    /// `Bearer sk-…`, except those of fewer than [`limits::SESSION_SECRET_BYTES`] bytes.
    pub fn parts(&self) -> Vec<Self> {
        let words = self.0.split_whitespace().filter(|word| word.len() < self.0.len());
        let parts = std::iter::once(&*self.0).chain(words);
        parts.filter(|part| part.len() >= limits::SESSION_SECRET_BYTES).map(Self::new).collect()
    }

    /// Returns the encodings of the credential; see [`encodings_of`].
    pub(super) fn forms(&self) -> Vec<String> {
        encodings_of(&self.0)
    }
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
    use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};

    use super::*;

    #[test]
    fn secret_is_never_shown() {
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
    fn secret_is_redacted_in_every_encoding() {
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
            ("A\"B/c +~*D\\", "***"),
            ("%61%22%62%2F%43%20%2b%7E%2a%64%5C", "***"),
            ("6122622f43202b7e2a645c 6122622F43202B7E2A645C", "*** ***"),
            (r"\u0061\u0022\u0062\u002F\u0043\u0020\u002b\u007e\u002A\u0064\u005c", "***"),
            (r#"{"k":"a\"b\/c +~*d\\"}"#, r#"{"k":"***"}"#),
            ("/a%22b/C%20%2B~%2Ad%5C/", "/***/"),
            ("nothing of it", "nothing of it"),
        ] {
            assert_eq!(secret.blot(text), expected, "{text}");
        }
        assert_eq!(Secret::new("???>>>").blot("Pz8_Pj4- Pz8/Pj4+"), "*** ***");
        // The longest credential, in a text that contains it.
        let longest = "x".repeat(limits::SECRET_BYTES as usize);
        assert_eq!(
            Secret::new(&longest).blot(&format!("{longest}{}, y{longest}", longest.to_uppercase())),
            "******, y***"
        );
        // `Bearer sk-very-secret` with various prefixes and suffixes. The digits that also encode adjacent characters may
        // remain visible.
        for before in ["", "x", "xy", "Bearer ", "user:"] {
            for behind in ["", "z", "zz", "zzz"] {
                let encoded = STANDARD_NO_PAD.encode(format!("{before}sk-very-secret{behind}"));
                let shown = Secret::new("sk-very-secret").blot(&encoded);
                assert!(
                    shown.contains("***") && shown.len() <= (before.len() + behind.len()) * 4 / 3 + 3 + 4,
                    "{encoded}: {shown}"
                );
            }
        }
        assert_eq!(Secret::new("ä%&").blot("100 % of it"), "100 % of it");
    }
}
