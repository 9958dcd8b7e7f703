use std::{borrow::Cow, fmt, sync::Arc};

use memchr::memmem;

use crate::limits;

/// Credentials that the host knows: none of them is written down.
///
/// They are looked for as they are, and as they stand in JSON and in JSON within JSON; not in other encodings.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[Needle]>);

struct Needle {
    /// What is looked for, in texts and in attachments.
    raw: memmem::Finder<'static>,
    /// What is looked for in JSON.
    escaped: Vec<memmem::Finder<'static>>,
    /// What stands in its place.
    instead: String,
}

impl Secrets {
    /// The credentials, each with the name that stands in its place. Values of fewer than
    /// [`limits::SESSION_SECRET_BYTES`] bytes are not looked for: they would be found in what is no secret.
    pub fn new<N: Into<String>, V: AsRef<str>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut secrets: Vec<(String, V)> = secrets
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .filter(|(_, value)| value.as_ref().len() >= limits::SESSION_SECRET_BYTES)
            .collect();
        // One that holds another goes first: the rest of it would stay.
        secrets.sort_by_key(|(_, value)| std::cmp::Reverse(value.as_ref().len()));
        Self(secrets.iter().map(|(name, value)| Needle::new(name, value.as_ref())).collect())
    }

    /// These bytes without secrets.
    pub(super) fn clean<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut clean = Cow::Borrowed(bytes);
        for needle in &*self.0 {
            if let Some(replaced) = replaced(&clean, &needle.raw, &needle.instead) {
                clean = Cow::Owned(replaced);
            }
        }
        clean
    }

    /// This text without secrets.
    pub(super) fn clean_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.clean(text.as_bytes())).into_owned()
    }

    /// This JSON text without secrets. One that is itself a word of the format, such that the text is not `valid` without
    /// it, stays.
    pub(super) fn clean_json(&self, json: Vec<u8>, valid: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut clean = json;
        for needle in &*self.0 {
            for form in &needle.escaped {
                if let Some(replaced) = replaced(&clean, form, &needle.instead).filter(|json| valid(json)) {
                    clean = replaced;
                }
            }
        }
        clean
    }
}

impl Needle {
    fn new(name: &str, value: &str) -> Self {
        let once = escaped(value);
        let twice = escaped(&once);
        let finder = |text: &str| memmem::Finder::new(text).into_owned();
        // The longer one first: it holds the other.
        let forms = if once == twice { vec![finder(&once)] } else { vec![finder(&twice), finder(&once)] };
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let instead = format!("[secret {}]", name.chars().map(plain).collect::<String>());
        Self { raw: finder(value), escaped: forms, instead }
    }
}

fn escaped(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json[1..json.len() - 1].to_owned()
}

/// The bytes with the other text instead; none if nothing was found. A whole key of a JSON object stays as it is.
fn replaced(bytes: &[u8], finder: &memmem::Finder<'_>, instead: &str) -> Option<Vec<u8>> {
    let (mut clean, mut copied) = (Vec::new(), 0);
    for at in finder.find_iter(bytes) {
        let end = at + finder.needle().len();
        let is_key =
            bytes[..at].ends_with(b"\"") && !bytes[..at].ends_with(b"\\\"") && bytes[end..].starts_with(b"\":");
        if !is_key {
            clean.extend_from_slice(&bytes[copied..at]);
            clean.extend_from_slice(instead.as_bytes());
            copied = end;
        }
    }
    clean.extend_from_slice(&bytes[copied..]);
    (copied > 0).then_some(clean)
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agent::journal::Record, chat::Message};

    #[test]
    fn secrets_are_replaced_in_whatever_form_they_stand() {
        let quoted = "a\"b\\c\nd/e";
        let secrets =
            Secrets::new([("KEY", "sk-12345"), ("LONG", "sk-1234567"), ("Q Q", quoted), ("SHORT", "1234567")]);
        for (text, clean) in [
            ("nothing 1234567 here".to_owned(), "nothing 1234567 here"),
            ("sk-12345".into(), "[secret KEY]"),
            ("a sk-12345 and sk-1234567.".into(), "a [secret KEY] and [secret LONG]."),
            (format!("<{quoted}>"), "<[secret Q_Q]>"),
        ] {
            assert_eq!(secrets.clean_text(&text), clean);
            let json = serde_json::to_vec(&text).unwrap();
            let cleaned = secrets.clean_json(json, |_| true);
            assert_eq!(serde_json::from_slice::<String>(&cleaned).unwrap(), clean);
            let twice = serde_json::to_vec(&serde_json::to_string(&text).unwrap()).unwrap();
            let cleaned: String = serde_json::from_slice(&secrets.clean_json(twice, |_| true)).unwrap();
            assert_eq!(serde_json::from_str::<String>(&cleaned).unwrap(), clean);
        }
        assert_eq!(format!("{secrets:?}"), "Secrets(3)");
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_format_does_not_damage_it() {
        let record = Record::Sent { message: Message::text(crate::chat::Role::Assistant, "b", "the iteration") };
        let valid = |json: &[u8]| serde_json::from_slice::<Record>(json).is_ok();
        for (secret, is_replaced) in [("assistant", false), ("message\"", false), ("iteration", true)] {
            let json = serde_json::to_vec(&record).unwrap();
            let clean = Secrets::new([("X", secret)]).clean_json(json.clone(), valid);
            assert_eq!(clean != json, is_replaced, "{secret}");
            assert!(valid(&clean));
        }
        let turn = br#"{"kind":"asked","iteration":1}"#.to_vec();
        assert_eq!(Secrets::new([("X", "iteration")]).clean_json(turn.clone(), |_| true), turn, "a key");
    }
}
