use std::{collections::BTreeSet, path::Path};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::limits;

/// Lines that each say one thing that a project's files want, sorted. Each is a permission by itself: with fewer lines
/// less is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Facts(BTreeSet<String>);

impl Facts {
    /// Adds one. What others wrote stands in it as [`quoted`] or [`quoted_path`], so that no line can pass for another.
    pub fn add(&mut self, line: String) {
        self.0.insert(line);
    }

    /// Adds those of `more`.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The lines, in order.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is one of them.
    pub fn contains(&self, line: &str) -> bool {
        self.0.contains(line)
    }

    /// Those that are not among `others`.
    pub fn without(&self, others: &Self) -> Self {
        Self(&self.0 - &others.0)
    }

    /// Keeps those for which this is so.
    pub fn retain(&mut self, is_kept: impl FnMut(&String) -> bool) {
        self.0.retain(is_kept);
    }

    /// Whether a person can be shown all of them: at most [`limits::FACTS_SHOWN`], none of more than
    /// [`limits::FACT_CHARS`] characters. Nobody says yes to what was cut away.
    pub fn can_be_shown(&self) -> bool {
        self.len() <= limits::FACTS_SHOWN && self.lines().all(|line| line.chars().count() <= limits::FACT_CHARS)
    }

    /// SHA-256 of them, as `sha256:` and 64 hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut all = Sha256::new();
        for line in &self.0 {
            all.update((line.len() as u64).to_le_bytes());
            all.update(line);
        }
        let digest: [u8; 32] = all.finalize().into();
        digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }
}

impl FromIterator<String> for Facts {
    fn from_iter<T: IntoIterator<Item = String>>(lines: T) -> Self {
        Self(lines.into_iter().collect())
    }
}

/// What somebody else wrote, as a part of a line: between backticks, and without any of them in it or anything that a
/// terminal acts on. Different texts stay different.
pub fn quoted(text: &str) -> String {
    let escape = |c: char| match c {
        '`' => "\\u{60}".to_owned(),
        '\'' | '"' => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    format!("`{}`", text.chars().map(escape).collect::<String>())
}

/// A path as [`quoted`] text; what is no text in it is written as bytes.
pub fn quoted_path(path: &Path) -> String {
    match path.to_str() {
        Some(text) => quoted(text),
        None => quoted(&format!("{path:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lines: &[&str]) -> Facts {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn no_text_can_pass_for_another_line() {
        for (text, shown) in [
            ("plain é 日", "`plain é 日`"),
            ("it's \"so\"", "`it's \"so\"`"),
            ("a` may write `/", "`a\\u{60} may write \\u{60}/`"),
            ("a\\u{60}", "`a\\\\u{60}`"),
            ("two\nlines\x1b[2J\u{9b}\u{202e}", "`two\\nlines\\u{1b}[2J\\u{9b}\\u{202e}`"),
        ] {
            assert_eq!(quoted(text), shown);
            assert!(!quoted(text).contains(crate::error::acts_on_terminal), "{text:?}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let odd = |bytes: &[u8]| quoted_path(Path::new(std::ffi::OsStr::from_bytes(bytes)));
            assert_ne!(odd(b"/a\xff"), odd(b"/a\xfe"));
        }
    }

    #[test]
    fn a_digest_is_that_of_the_lines_in_whatever_order() {
        let one = facts(&["a", "b"]);
        assert_eq!(one.digest(), facts(&["b", "a", "b"]).digest());
        assert!(one.digest().starts_with("sha256:") && one.digest().len() == 71);
        for other in [&["a"][..], &["ab"], &["a", "b", ""], &[]] {
            assert_ne!(one.digest(), facts(other).digest(), "{other:?}");
        }
        assert_eq!(one.without(&facts(&["b", "c"])), facts(&["a"]));
    }

    #[test]
    fn what_is_shown_is_shown_whole() {
        let line = |at: usize| format!("{at}");
        assert!((0..limits::FACTS_SHOWN).map(line).collect::<Facts>().can_be_shown());
        assert!(!(0..=limits::FACTS_SHOWN).map(line).collect::<Facts>().can_be_shown());
        let long = |most: usize| facts(&[&"é".repeat(most)]).can_be_shown();
        assert!(long(limits::FACT_CHARS) && !long(limits::FACT_CHARS + 1));
    }
}
