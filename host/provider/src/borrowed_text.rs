use std::{borrow::Cow, ops::Deref};

use serde::Deserialize;

/// Text that a server sent, borrowed from the event unless it contains escapes. A plain [`Cow`] in an [`Option`] would
/// always be copied.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

impl BorrowedText<'_> {
    /// Returns an owned copy.
    pub fn into_owned(self) -> String {
        self.0.into_owned()
    }
}

impl Deref for BorrowedText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow)]
        word: Option<BorrowedText<'a>>,
    }

    #[test]
    fn text_without_escapes_is_borrowed() {
        for (json, expected, is_borrowed) in [
            (r#"{"word":"größe"}"#, Some("größe"), true),
            (r#"{"word":"a\u0062"}"#, Some("ab"), false),
            (r#"{"word":null}"#, None, false),
            ("{}", None, false),
        ] {
            let wire: Wire = serde_json::from_str(json).unwrap();
            assert_eq!(wire.word.as_deref(), expected, "{json}");
            assert_eq!(matches!(wire.word, Some(BorrowedText(Cow::Borrowed(_)))), is_borrowed, "{json}");
        }
    }
}
