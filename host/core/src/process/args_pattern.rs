//! Patterns for the arguments of a program.

use std::fmt;

/// A pattern for argument lists: each word matches one argument. In a word, `*` matches any characters, `?` one character,
/// and `\` quotes the next character. A word that begins with `*` or `?` matches no argument that begins with `-`: options
/// must be written out. The last word may be `**`, which matches any further arguments, including options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgsPattern {
    words: Vec<String>,
    has_rest: bool,
}

/// The reason for which a list of words is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ArgsPatternError {
    /// `**` is not the last word.
    #[error("`**` matches all further arguments and must be the last word")]
    RestWithin,
    /// A `\` ends the word.
    #[error("`{word}` ends with `\\`; write `\\` only before the character that it escapes")]
    Unended { word: String },
}

impl ArgsPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// [`ArgsPatternError`].
    pub fn new(words: &[String]) -> Result<Self, ArgsPatternError> {
        let (words, has_rest) = match words.split_last() {
            Some((last, before)) if last == REST => (before, true),
            _ => (words, false),
        };
        if words.iter().any(|word| word == REST) {
            return Err(ArgsPatternError::RestWithin);
        }
        let unended = |word: &&String| word.chars().rev().take_while(|c| *c == '\\').count() % 2 == 1;
        match words.iter().find(unended) {
            Some(word) => Err(ArgsPatternError::Unended { word: word.clone() }),
            None => Ok(Self { words: words.to_vec(), has_rest }),
        }
    }

    /// Returns `true` if the pattern matches these arguments.
    pub fn fits(&self, args: &[String]) -> bool {
        let has_as_many = if self.has_rest { args.len() >= self.words.len() } else { args.len() == self.words.len() };
        has_as_many && self.words.iter().zip(args).all(|(word, arg)| fits(word, arg))
    }

    /// Returns `true` if the pattern spells out the argument at this position without wildcards.
    pub fn spells_out(&self, at: usize) -> bool {
        let is_letter = |piece: &ArgsPatternToken| matches!(piece, ArgsPatternToken::Is(_));
        self.words.get(at).is_some_and(|word| pieces(word).iter().all(is_letter))
    }
}

const REST: &str = "**";

/// Returns `true` if a word matches an argument. The time is at most proportional to the product of their lengths.
fn fits(word: &str, arg: &str) -> bool {
    if word.starts_with(['*', '?']) && arg.starts_with('-') {
        return false;
    }
    let pieces = pieces(word);
    let arg: Vec<char> = arg.chars().collect();
    // The backtracking point: after the last `*`, which then matches one more character.
    let (mut at, mut piece, mut retry) = (0, 0, None);
    while at < arg.len() {
        match pieces.get(piece) {
            Some(ArgsPatternToken::Any) => {
                retry = Some((at, piece + 1));
                piece += 1;
                continue;
            }
            Some(ArgsPatternToken::One) => (at, piece) = (at + 1, piece + 1),
            Some(ArgsPatternToken::Is(c)) if *c == arg[at] => (at, piece) = (at + 1, piece + 1),
            _ => match &mut retry {
                Some((from, after)) => {
                    *from += 1;
                    (at, piece) = (*from, *after);
                }
                None => return false,
            },
        }
    }
    pieces[piece..].iter().all(|piece| *piece == ArgsPatternToken::Any)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgsPatternToken {
    /// Any characters.
    Any,
    /// Any one character.
    One,
    /// This character.
    Is(char),
}

fn pieces(word: &str) -> Vec<ArgsPatternToken> {
    let mut chars = word.chars();
    let mut pieces = Vec::new();
    while let Some(c) = chars.next() {
        pieces.push(match c {
            '*' => ArgsPatternToken::Any,
            '?' => ArgsPatternToken::One,
            '\\' => ArgsPatternToken::Is(chars.next().unwrap_or('\\')),
            c => ArgsPatternToken::Is(c),
        });
    }
    pieces
}

/// Formats the pattern as in a config.
impl fmt::Display for ArgsPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.has_rest.then_some(REST);
        let words: Vec<_> =
            self.words.iter().map(|word| format!("{word:?}")).chain(rest.map(|rest| format!("{rest:?}"))).collect();
        write!(f, "[{}]", words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn args_pattern_matches_its_arguments() {
        for (pattern, args, fits) in [
            (&[][..], &[][..], true),
            (&[], &["x"], false),
            (&["test"], &["test"], true),
            (&["test"], &[], false),
            (&["test"], &["test", "--all"], false),
            (&["test"], &["Test"], false),
            (&["test", "**"], &["test"], true),
            (&["test", "**"], &["test", "--config=x", "y"], true),
            (&["test", "**"], &["run"], false),
            (&["**"], &[], true),
            (&["**"], &["-x"], true),
            (&["run", "*"], &["run", "build"], true),
            (&["run", "*"], &["run", ""], true),
            (&["run", "*"], &["run", "-rf"], false),
            (&["run", "*"], &["run", "--prefix=/tmp"], false),
            (&["run", "?x"], &["run", "-x"], false),
            (&["run", "?x"], &["run", "ax"], true),
            (&["run", "-*"], &["run", "-rf"], true),
            (&["run", "\\*"], &["run", "*"], true),
            (&["run", "\\*"], &["run", "x"], false),
            (&["\\\\*"], &["\\x"], true),
            (&["--package=*"], &["--package=a b/c"], true),
            (&["--package=*"], &["--packages=a"], false),
            (&["a*b*c"], &["abbcbc"], true),
            (&["a*b*c"], &["abbcb"], false),
            (&["é?*"], &["éè"], true),
        ] {
            let pattern = ArgsPattern::new(&words(pattern)).unwrap();
            assert_eq!(pattern.fits(&words(args)), fits, "{pattern} {args:?}");
        }
    }

    #[test]
    fn invalid_args_pattern_is_explained() {
        assert_eq!(ArgsPattern::new(&words(&["**", "x"])), Err(ArgsPatternError::RestWithin));
        assert_eq!(ArgsPattern::new(&words(&["a\\"])), Err(ArgsPatternError::Unended { word: "a\\".into() }));
        assert!(ArgsPattern::new(&words(&["a\\\\"])).is_ok());
        assert_eq!(ArgsPattern::new(&words(&["run", "a b", "**"])).unwrap().to_string(), r#"["run", "a b", "**"]"#);
    }

    #[test]
    fn args_pattern_with_many_stars_matches_quickly() {
        let pattern = ArgsPattern::new(&[format!("{}b", "*a".repeat(500))]).unwrap();
        assert!(!pattern.fits(&["a".repeat(50_000)]));
    }

    proptest! {
        #[test]
        fn args_pattern_equals_the_naive_matcher(word in "[ab*?]{0,6}", arg in "[ab]{0,6}") {
            fn plain(pieces: &[ArgsPatternToken], arg: &[char]) -> bool {
                match (pieces.split_first(), arg.split_first()) {
                    (None, None) => true,
                    (Some((ArgsPatternToken::Any, rest)), _) if plain(rest, arg) => true,
                    (Some((ArgsPatternToken::Any, _)), Some((_, beyond))) => plain(pieces, beyond),
                    (Some((ArgsPatternToken::One, rest)), Some((_, beyond))) => plain(rest, beyond),
                    (Some((ArgsPatternToken::Is(c), rest)), Some((d, beyond))) => c == d && plain(rest, beyond),
                    _ => false,
                }
            }
            let chars: Vec<char> = arg.chars().collect();
            prop_assert_eq!(fits(&word, &arg), plain(&pieces(&word), &chars));
        }
    }
}
