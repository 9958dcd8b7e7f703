//! Authentication of journal lines: the mark covers the first lines, and each further line has an authentication code over
//! its content and the previous code.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{format::split_code, ownership::SessionAuthor};
use shelly_core::{digest::Sha256Digest, hex, trust::DerivedKey};

/// The purpose string of the key from which marks and codes are derived.
pub(super) const PURPOSE: &str = "shelly-host session";

/// The number of hexadecimal digits of a line's code: 128 bits.
pub(super) const CODE_DIGITS: usize = 32;

/// The chain of codes up to the last line of a session.
#[derive(Debug, Clone)]
pub(super) struct LineChain {
    key: DerivedKey,
    last: [u8; 32],
}

impl LineChain {
    /// Appends a line and returns its code; `content` is the part of the line that the code covers.
    pub fn extend(&mut self, content: &[u8]) -> String {
        self.last = self.key.code(&[b"line", &self.last, content]);
        hex::encode(&self.last[..CODE_DIGITS / 2])
    }

    /// Returns `true` if `line` is the authentic next line; then the chain includes it.
    fn follows(&mut self, line: &[u8]) -> bool {
        let Some((content, code)) = split_code(line) else { return false };
        let mut next = self.clone();
        let is_next: bool = next.extend(content).as_bytes().ct_eq(code).into();
        if is_next {
            *self = next;
        }
        is_next
    }
}

/// The mark of a session: its author, its name, and its first lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionMark {
    pub maker: SessionAuthor,
    /// The number of lines that the mark itself covers, including the first one.
    pub lines: u64,
    code: [u8; 32],
}

impl SessionMark {
    /// Creates the mark of a session of this name; `digest` is that of its first lines including their line ends.
    pub fn new(key: &DerivedKey, maker: SessionAuthor, name: &str, lines: u64, digest: Sha256Digest) -> Self {
        let code = key.code(&[
            b"mark",
            // A part of every code that was ever written: `SessionAuthor` says which number.
            &[maker as u8],
            &(name.len() as u64).to_le_bytes(),
            name.as_bytes(),
            &lines.to_le_bytes(),
            &digest.0,
        ]);
        Self { maker, lines, code }
    }

    /// Returns `true` if this is the mark of a session of this name with these first lines. The comparison takes constant
    /// time.
    fn is_of(&self, key: &DerivedKey, name: &str, digest: Sha256Digest) -> bool {
        let right = Self::new(key, self.maker, name, self.lines, digest);
        right.code.ct_eq(&self.code).into()
    }

    /// Returns the chain for the lines after those that the mark covers.
    pub fn chain(&self, key: DerivedKey) -> LineChain {
        LineChain { key, last: self.code }
    }

    /// Returns the text of the mark file.
    pub fn text(&self) -> String {
        format!("2 {} {} hmac-sha256:{}\n", self.maker.word(), self.lines, hex::encode(self.code))
    }

    /// Parses the text of a mark file; `None` if it is invalid or of an earlier release.
    pub fn parse(text: &str) -> Option<Self> {
        let (head, code) = text.strip_suffix('\n')?.split_once(" hmac-sha256:")?;
        let mut words = head.split(' ');
        let (version, maker, lines) = (words.next()?, words.next()?, words.next()?);
        let mark = Self {
            maker: SessionAuthor::of_word(maker)?,
            lines: lines.parse().ok().filter(|lines| *lines > 0)?,
            code: hex::decode_lower(code)?,
        };
        (version == "2" && words.next().is_none() && mark.text() == text).then_some(mark)
    }
}

/// Verifies a journal against its mark while it is read, from the first line on.
#[derive(Debug)]
pub(super) enum JournalVerifier {
    /// There is no mark, or none that matches the session's name and first lines.
    Unmarked,
    /// The mark is of an earlier release and matches the first line.
    FirstLine(SessionAuthor),
    /// The lines that the mark covers are being read.
    Covered { key: DerivedKey, name: String, mark: SessionMark, seen: Sha256 },
    /// All lines so far are authentic.
    Chained(SessionAuthor, LineChain),
    /// The mark matches, and `line` is not authentic.
    Altered { maker: SessionAuthor, line: u64 },
}

impl JournalVerifier {
    /// Creates the verifier of a session of this name with this mark.
    pub fn new(key: DerivedKey, name: &str, mark: SessionMark) -> Self {
        Self::Covered { key, name: name.to_owned(), mark, seen: Sha256::new() }
    }

    /// Takes the next line, without its line end.
    pub fn see(&mut self, n: u64, line: &[u8]) {
        match self {
            Self::Unmarked | Self::FirstLine(_) | Self::Altered { .. } => {}
            Self::Covered { key, name, mark, seen } => {
                seen.update(line);
                seen.update(b"\n");
                if n == mark.lines {
                    let is_right = mark.is_of(key, name, seen.clone().into());
                    let marked = || Self::Chained(mark.maker, mark.chain(key.clone()));
                    *self = if is_right { marked() } else { Self::Unmarked };
                }
            }
            Self::Chained(maker, chain) => {
                let maker = *maker;
                if !chain.follows(line) {
                    *self = Self::Altered { maker, line: n };
                }
            }
        }
    }

    /// Returns the author of the session according to its mark; `None` without a matching mark.
    pub fn maker(&self) -> Option<SessionAuthor> {
        match self {
            Self::Unmarked | Self::Covered { .. } => None,
            Self::FirstLine(maker) | Self::Chained(maker, _) | Self::Altered { maker, .. } => Some(*maker),
        }
    }

    /// Returns the authorship of the lines read so far.
    pub fn authorship(&self) -> Authorship {
        match self {
            Self::Unmarked | Self::Covered { .. } => Authorship::Unmarked,
            Self::FirstLine(_) => Authorship::FirstLine,
            Self::Chained(..) => Authorship::Own,
            Self::Altered { line, .. } => Authorship::Altered { line: *line },
        }
    }

    /// Returns the chain for further lines; `None` if continuing it would vouch for lines of another author.
    pub fn chain(&self) -> Option<LineChain> {
        match self {
            Self::Chained(_, chain) => Some(chain.clone()),
            Self::Unmarked | Self::FirstLine(_) | Self::Covered { .. } | Self::Altered { .. } => None,
        }
    }
}

/// The authorship of a session's lines, according to its mark and their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorship {
    /// This person's programs wrote every line, or this person accepted the session as it was. It may have been truncated to
    /// an earlier line since: each prefix of it is `Own`, too.
    Own,
    /// This person began the session with an earlier release, whose mark covers only the first line; the authors of the
    /// other lines are unknown. Another person who kept such a mark can put it in the place of a newer one.
    FirstLine,
    /// The mark matches, but from this line on another author wrote.
    Altered {
        /// The number of the line.
        line: u64,
    },
    /// No mark matches the session's name and first lines.
    Unmarked,
}

impl Authorship {
    /// Returns `true` if the session may be resumed without asking.
    pub fn is_own(self) -> bool {
        self == Self::Own
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format;
    use shelly_core::trust::UserKey;

    fn key() -> DerivedKey {
        let home = tempfile::tempdir().unwrap();
        UserKey::new(Some(home.path().join("key"))).derived_or_made(PURPOSE).unwrap()
    }

    /// Returns a session of this name with this many further lines, and its mark.
    fn session(key: &DerivedKey, name: &str, lines: u64) -> (SessionMark, Vec<Vec<u8>>) {
        let header = b"the first line".to_vec();
        let digest = Sha256::new_with_prefix(&header).chain_update(b"\n");
        let mark = SessionMark::new(key, SessionAuthor::Person, name, 1, digest.into());
        let mut chain = mark.chain(key.clone());
        let mut all = vec![header];
        for n in 2..lines + 2 {
            let mut line = Vec::new();
            format::append_line(&mut line, format_args!("\"n\":{n},"), b"\"kind\":\"said\"", Some(&mut chain));
            line.pop();
            all.push(line);
        }
        (mark, all)
    }

    fn authorship(key: &DerivedKey, name: &str, mark: &SessionMark, lines: &[Vec<u8>]) -> Authorship {
        let mut watch = JournalVerifier::new(key.clone(), name, mark.clone());
        lines.iter().zip(1..).for_each(|(line, n)| watch.see(n, line));
        watch.authorship()
    }

    #[test]
    fn mark_is_read_as_it_was_written() {
        let key = key();
        for maker in [SessionAuthor::Person, SessionAuthor::Other] {
            let mark = SessionMark::new(&key, maker, "a", 7, Sha256::new().into());
            let text = mark.text();
            assert_eq!(SessionMark::parse(&text), Some(mark));
            for wrong in
                [text.trim_end(), &text.replace(" 7 ", " 07 "), &text.replace("2 ", "3 "), &text[1..], "", "x\n"]
            {
                assert_eq!(SessionMark::parse(wrong), None, "{wrong:?}");
            }
            assert_eq!(SessionMark::parse(&text.replace(" 7 ", " 0 ")), None);
        }
    }

    #[test]
    fn mark_and_codes_of_an_earlier_release_stay_valid() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("key");
        std::fs::write(&path, "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n").unwrap();
        let key = UserKey::new(Some(path)).derived(PURPOSE).unwrap().unwrap();
        let text = "2 person 1 hmac-sha256:14449f0c5436fba701115e7877e8b0bcb72fba416f6c4a1442cee86e1e48bf93\n";
        let mark = SessionMark::parse(text).unwrap();
        let digest = Sha256Digest::of("the first line\n");
        assert_eq!(SessionMark::new(&key, SessionAuthor::Person, "a", 1, digest), mark);
        assert!(mark.is_of(&key, "a", digest) && !mark.is_of(&key, "b", digest));
        let mut chain = mark.chain(key);
        assert_eq!(chain.extend(b"content"), "cf30c194fc2619e352e0af0c6f53f0e3");
        assert_eq!(chain.extend(b"more"), "b991d43981aeabcae32851c020c571fd");
    }

    #[test]
    fn session_mark_is_valid_for_its_name_and_lines_only() {
        let key = key();
        let (mark, lines) = session(&key, "a", 3);
        assert_eq!(authorship(&key, "a", &mark, &lines), Authorship::Own);
        assert_eq!(authorship(&key, "b", &mark, &lines), Authorship::Unmarked, "another name");
        assert_eq!(authorship(&self::key(), "a", &mark, &lines), Authorship::Unmarked, "another person");
        let other = [vec![b"another first line".to_vec()], lines[1..].to_vec()].concat();
        assert_eq!(authorship(&key, "a", &mark, &other), Authorship::Unmarked);
        let adopted = SessionMark { maker: SessionAuthor::Other, ..mark };
        assert_eq!(authorship(&key, "a", &adopted, &lines), Authorship::Unmarked, "another maker");
        assert_eq!(
            authorship(&key, "a", &SessionMark { lines: 9, ..adopted }, &lines),
            Authorship::Unmarked,
            "lines are gone"
        );
    }

    proptest! {
        /// Every prefix of a session is its own, and every other change is detected, with its position.
        #[test]
        fn session_prefix_is_own_and_other_changes_are_found(
            count in 1..8_u64, at in any::<prop::sample::Index>(), byte in any::<prop::sample::Index>(), bit in 0..8_u32,
        ) {
            let key = key();
            let (mark, lines) = session(&key, "a", count);
            for length in 1..=lines.len() {
                prop_assert_eq!(authorship(&key, "a", &mark, &lines[..length]), Authorship::Own);
            }
            let at = 1 + at.index(lines.len() - 1);
            let altered = Authorship::Altered { line: at as u64 + 1 };
            let mut changed = lines.clone();
            let byte = byte.index(changed[at].len());
            changed[at][byte] ^= 1 << bit;
            // The checksum at the beginning is not covered: the reader has checked it.
            let is_checksum = byte < br#"{"crc":"00000000","#.len();
            prop_assert_eq!(authorship(&key, "a", &mark, &changed), if is_checksum { Authorship::Own } else { altered });
            let mut added = lines.clone();
            added.insert(at, lines[at - 1].clone());
            prop_assert_eq!(authorship(&key, "a", &mark, &added), altered, "a line twice");
            let mut less = lines.clone();
            less.remove(at);
            let expected = if at == lines.len() - 1 { Authorship::Own } else { altered };
            prop_assert_eq!(authorship(&key, "a", &mark, &less), expected, "a line less in the middle");
            let (_, other) = session(&key, "b", count);
            let mixed = [&lines[..at], &other[at..]].concat();
            prop_assert_eq!(authorship(&key, "a", &mark, &mixed), altered, "lines of another session");
        }
    }
}
