use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, OnceLock},
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match, MatchKind};

use shelly_core::{encodings::encodings_of, limits};

/// Credentials that the host knows: none of them is written to a journal, printed or sent to a client.
///
/// They are searched for in every encoding in which a server may echo them: as they are, in JSON, in URLs, as hexadecimal
/// digits, as `\u` escapes and as base64.
#[derive(Clone, Default)]
pub struct Secrets(Arc<KnownSecrets>);

#[derive(Default)]
struct KnownSecrets {
    /// The replacement text of each credential, and the credential.
    named: Vec<(String, String)>,
    /// Built on the first search: some stores are opened only to look up a name.
    search: OnceLock<SecretSearch>,
}

/// A search for all encodings of all credentials.
struct SecretSearch {
    forms: AhoCorasick,
    /// The encodings in lower case, sorted.
    sorted: Vec<String>,
    /// The index of the credential of each encoding.
    owners: Vec<usize>,
    /// The length in bytes of the longest encoding.
    longest: usize,
}

impl Secrets {
    /// Creates a set of credentials, each with the name that replaces it. Values of fewer than
    /// [`limits::SESSION_SECRET_BYTES`] bytes are ignored: they would match text that is no secret.
    pub fn new<N: Into<String>, V: AsRef<str>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let instead =
            |name: N| format!("[secret {}]", Into::<String>::into(name).chars().map(plain).collect::<String>());
        let long = secrets.into_iter().filter(|(_, value)| value.as_ref().trim().len() >= limits::SESSION_SECRET_BYTES);
        let named = long.map(|(name, value)| (instead(name), value.as_ref().trim().to_owned())).collect();
        Self(Arc::new(KnownSecrets { named, search: OnceLock::new() }))
    }

    /// Returns these credentials and those of another set.
    pub fn with(&self, more: &Self) -> Self {
        let named = self.0.named.iter().chain(&more.0.named).cloned().collect();
        Self(Arc::new(KnownSecrets { named, search: OnceLock::new() }))
    }

    /// Creates a stream that removes secrets from a text that arrives in pieces.
    pub fn stream(&self) -> SecretStream {
        SecretStream { secrets: self.clone(), held: String::new() }
    }

    /// Returns these bytes without secrets.
    pub(super) fn clean<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.replaced(bytes, |_| true).map_or(Cow::Borrowed(bytes), Cow::Owned)
    }

    /// Returns this text without secrets.
    pub fn clean_text(&self, text: &str) -> String {
        // A replacement begins and ends at character boundaries.
        String::from_utf8_lossy(&self.clean(text.as_bytes())).into_owned()
    }

    /// Returns this JSON text without secrets. A secret that is itself a keyword of the format, so that the text is not
    /// `valid` without it, stays.
    pub fn clean_json(&self, json: Vec<u8>, valid: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let Some(all) = self.replaced(&json, |_| true) else { return json };
        if valid(&all) {
            return all;
        }
        (0..self.0.named.len()).fold(json, |json, owner| {
            let one = self.replaced(&json, |found| found == owner).filter(|one| valid(one));
            one.unwrap_or(json)
        })
    }

    /// Replaces the credentials that are `wanted` by their names; returns `None` if none was found. A complete key of a JSON
    /// object is not replaced.
    fn replaced(&self, bytes: &[u8], wanted: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
        let search = self.search()?;
        let (mut clean, mut copied) = (Vec::new(), 0);
        for found in search.forms.find_iter(bytes) {
            let owner = search.owners[found.pattern().as_usize()];
            if !wanted(owner) || is_key(bytes, &found) {
                continue;
            }
            clean.extend_from_slice(&bytes[copied..found.start()]);
            clean.extend_from_slice(self.0.named[owner].0.as_bytes());
            copied = found.end();
        }
        clean.extend_from_slice(&bytes[copied..]);
        (copied > 0).then_some(clean)
    }

    /// Returns the search; `None` if there are no credentials.
    fn search(&self) -> Option<&SecretSearch> {
        let KnownSecrets { named, search } = &*self.0;
        (!named.is_empty()).then(|| search.get_or_init(|| SecretSearch::new(named)))
    }
}

impl SecretSearch {
    fn new(named: &[(String, String)]) -> Self {
        let forms = |(owner, (_, secret)): (usize, &(String, String))| {
            encodings_of(secret).into_iter().map(move |form| (form.to_ascii_lowercase(), owner)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = named.iter().enumerate().flat_map(forms).collect();
        all.sort();
        // The first of two names of one credential wins.
        all.dedup_by(|next, first| next.0 == first.0);
        let (sorted, owners): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let mut builder = AhoCorasick::builder();
        builder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest);
        let forms = builder.kind(Some(AhoCorasickKind::ContiguousNFA)).build(&sorted);
        let forms = forms.expect("all credentials together are far from 2^31 bytes");
        let longest = sorted.iter().map(String::len).max().unwrap_or_default();
        Self { forms, sorted, owners, longest }
    }

    /// Returns `true` if a text is a proper prefix of an encoding.
    fn is_begun_by(&self, text: &str) -> bool {
        // The first bytes nearly always decide, so no lower-case copy is made.
        let small = || text.bytes().map(|byte| byte.to_ascii_lowercase());
        let at = self.sorted.partition_point(|form| form.bytes().cmp(small()).is_le());
        self.sorted
            .get(at)
            .is_some_and(|form| form.len() > text.len() && form.bytes().zip(small()).all(|(a, b)| a == b))
    }

    /// Returns the start of the suffix that could become an encoding when the text continues.
    fn open_end(&self, text: &str) -> usize {
        let from = text.len().saturating_sub(self.longest);
        let starts = text.char_indices().map(|(at, _)| at).skip_while(|at| *at < from);
        let open = starts.into_iter().find(|at| self.is_begun_by(&text[*at..])).unwrap_or(text.len());
        let across = self.forms.find_iter(text).find(|found| found.start() < open && open < found.end());
        across.map_or(open, |found| found.start())
    }
}

fn is_key(bytes: &[u8], found: &Match) -> bool {
    let (before, behind) = (&bytes[..found.start()], &bytes[found.end()..]);
    before.ends_with(b"\"") && !before.ends_with(b"\\\"") && behind.starts_with(b"\":")
}

/// A filter that removes secrets from a text that arrives in pieces. A possible beginning of a secret is held back.
#[derive(Debug)]
pub struct SecretStream {
    secrets: Secrets,
    held: String,
}

impl SecretStream {
    /// Takes a piece, and returns the text that can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let open = self.secrets.search().map_or(self.held.len(), |search| search.open_end(&self.held));
        let rest = self.held.split_off(open);
        self.secrets.clean_text(&std::mem::replace(&mut self.held, rest))
    }

    /// Returns the remaining text; call it at the end.
    pub fn finish(&mut self) -> String {
        self.secrets.clean_text(&std::mem::take(&mut self.held))
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.named.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_core::{agent::journal::JournalRecord, chat::Message};

    #[test]
    fn secrets_are_replaced_in_every_encoding() {
        let quoted = "a\"b\\c\nd/e";
        let secrets =
            Secrets::new([("KEY", "sk-12345"), ("LONG", "sk-1234567"), ("Q Q", quoted), ("SHORT", "1234567")]);
        for (text, clean) in [
            ("nothing 1234567 here".to_owned(), "nothing 1234567 here"),
            ("sk-12345".into(), "[secret KEY]"),
            ("a sk-12345 and sk-1234567.".into(), "a [secret KEY] and [secret LONG]."),
            (format!("<{quoted}>"), "<[secret Q_Q]>"),
            ("SK-12345 c2stMTIzNDU 736B2d3132333435 %73%6b%2d%31%32%33%34%35".into(), {
                "[secret KEY] [secret KEY] [secret KEY] [secret KEY]"
            }),
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
    fn secret_equal_to_a_format_keyword_keeps_json_valid() {
        let record =
            JournalRecord::Sent { message: Message::text(shelly_core::chat::Role::Assistant, "b", "the iteration") };
        let valid = |json: &[u8]| serde_json::from_slice::<JournalRecord>(json).is_ok();
        for (secret, is_replaced) in [("assistant", false), ("message\"", false), ("iteration", true)] {
            let json = serde_json::to_vec(&record).unwrap();
            let clean = Secrets::new([("X", secret)]).clean_json(json.clone(), valid);
            assert_eq!(clean != json, is_replaced, "{secret}");
            assert!(valid(&clean));
        }
        let turn = br#"{"kind":"asked","iteration":1}"#.to_vec();
        assert_eq!(Secrets::new([("X", "iteration")]).clean_json(turn.clone(), |_| true), turn, "a key");
    }

    #[test]
    fn secret_stream_cleans_like_the_whole_text() {
        let secrets = Secrets::new([("A", "sk-12345"), ("B", "sk-1234567"), ("C", "34567-and"), ("D", "ä-secret-ö")]);
        for text in [
            "",
            "plain text without any",
            "a sk-12345 b sk-1234567, sk-123456 and sk-1234",
            "sk-12345sk-12345",
            "sk-1234567-and more",
            "sk-sk-12345",
            "ä-secret-ö ä-secret- \u{1f469}",
            "c2stMTIzNDU2Nw== SK-1234567",
        ] {
            let whole = secrets.clean_text(text);
            let chars: Vec<_> = text.chars().collect();
            for size in 1..=chars.len().max(1) {
                let mut stream = secrets.stream();
                let mut pieces = String::new();
                for piece in chars.chunks(size) {
                    let shown = stream.push(&piece.iter().collect::<String>());
                    pieces.push_str(&shown);
                    assert!(!pieces.to_lowercase().contains("sk-12345"), "{text}, {size}: {pieces}");
                }
                assert_eq!(pieces + &stream.finish(), whole, "{text}, {size}");
            }
        }
        let mut stream = secrets.stream();
        assert_eq!((stream.push("what is no "), stream.push("secret s")), ("what is no ".into(), "secret ".into()));
        assert_eq!((stream.push("kip"), stream.finish()), ("skip".into(), String::new()));
        let mut none = Secrets::default().stream();
        assert_eq!(none.push("sk-"), "sk-");
    }
}
