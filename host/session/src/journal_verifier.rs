//! Verification of journal lines: the mark covers the first lines, and each further line has an authentication code over
//! its content and the previous code.

use sha2::{Digest as _, Sha256};

use super::{
    authorship::Authorship, line_chain::LineChain, line_format::split_code, session_mark::SessionMark,
    session_origin::SessionOrigin,
};
use shelly_core::trust::DerivedKey;

/// Verifies a journal against its mark while it is read, from the first line on.
#[derive(Debug)]
pub(super) enum JournalVerifier {
    /// There is no mark, or none that matches the session's name and first lines.
    Unmarked,
    /// The mark is of an earlier release and matches the first line.
    FirstLine(SessionOrigin),
    /// The lines that the mark covers are being read.
    Covered { key: DerivedKey, name: String, mark: SessionMark, seen: Sha256 },
    /// All lines so far are authentic.
    Chained(SessionOrigin, LineChain),
    /// The mark matches, and `line` is not authentic.
    Altered { origin: SessionOrigin, line: u64 },
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
                    let is_right = SessionMark::new(key, mark.origin, name, n, seen.clone()) == *mark;
                    let marked = || Self::Chained(mark.origin, mark.chain(key.clone()));
                    *self = if is_right { marked() } else { Self::Unmarked };
                }
            }
            Self::Chained(origin, chain) => {
                let origin = *origin;
                let follows = split_code(line).is_some_and(|(content, code)| chain.follow(content, code));
                if !follows {
                    *self = Self::Altered { origin, line: n };
                }
            }
        }
    }

    /// Returns the origin of the session according to its mark; `None` without a matching mark.
    pub fn origin(&self) -> Option<SessionOrigin> {
        match self {
            Self::Unmarked | Self::Covered { .. } => None,
            Self::FirstLine(origin) | Self::Chained(origin, _) | Self::Altered { origin, .. } => Some(*origin),
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{line_format, session_mark::PURPOSE};
    use shelly_core::trust::UserKey;

    fn key() -> DerivedKey {
        let home = tempfile::tempdir().unwrap();
        UserKey::new(Some(home.path().join("key"))).derived_or_made(PURPOSE).unwrap()
    }

    /// Returns a session of this name with this many further lines, and its mark.
    fn session(key: &DerivedKey, name: &str, lines: u64) -> (SessionMark, Vec<Vec<u8>>) {
        let header = b"the first line".to_vec();
        let digest = Sha256::new_with_prefix(&header).chain_update(b"\n");
        let mark = SessionMark::new(key, SessionOrigin::Person, name, 1, digest);
        let mut chain = mark.chain(key.clone());
        let mut all = vec![header];
        for n in 2..lines + 2 {
            let mut line = Vec::new();
            line_format::append_line(&mut line, format_args!("\"n\":{n},"), b"\"kind\":\"said\"", Some(&mut chain));
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
        for origin in [SessionOrigin::Person, SessionOrigin::Other] {
            let mark = SessionMark::new(&key, origin, "a", 7, Sha256::new());
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
    fn session_mark_is_valid_for_its_name_and_lines_only() {
        let key = key();
        let (mark, lines) = session(&key, "a", 3);
        assert_eq!(authorship(&key, "a", &mark, &lines), Authorship::Own);
        assert_eq!(authorship(&key, "b", &mark, &lines), Authorship::Unmarked, "another name");
        assert_eq!(authorship(&self::key(), "a", &mark, &lines), Authorship::Unmarked, "another person");
        let other = [vec![b"another first line".to_vec()], lines[1..].to_vec()].concat();
        assert_eq!(authorship(&key, "a", &mark, &other), Authorship::Unmarked);
        let adopted = SessionMark { origin: SessionOrigin::Other, ..mark };
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
