//! Matching of texts against regular expressions and globs. The time of a match is at most linear in the length of the
//! text, whatever the pattern.

use regex_lite::Regex;
use serde::{Deserialize, Deserializer, de::Error as _};

/// A regular expression in params. It matches anywhere in a text; `^` and `$` anchor it. `\w`, `\d`, `\b` and `(?i)`
/// apply to ASCII only.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles a pattern. The error says what is wrong with it.
    pub fn new(text: &str) -> Result<Pattern, String> {
        if text.is_empty() {
            return Err("an empty pattern matches everything; write a pattern, or `.*`".into());
        }
        Regex::new(text).map(Pattern).map_err(|error| format!("invalid regular expression `{text}`: {error}"))
    }

    /// Returns the first match.
    pub fn find<'a>(&self, text: &'a str) -> Option<&'a str> {
        self.0.find(text).map(|found| found.as_str())
    }

    /// Returns the first group of the first match; for a pattern without groups, the whole match.
    pub fn capture<'a>(&self, text: &'a str) -> Option<&'a str> {
        let found = self.0.captures(text)?;
        found.get(usize::from(found.len() > 1)).map(|group| group.as_str())
    }

    /// Returns `true` if the pattern matches.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Pattern, D::Error> {
        Pattern::new(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A name pattern in params, with `*` for any characters and `?` for one. It must match the whole name.
#[derive(Debug, Clone)]
pub struct Glob(Regex);

impl Glob {
    /// Returns `true` if the pattern matches the whole name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Glob, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Err(D::Error::custom("an empty name matches nothing; write a name, or `*`"));
        }
        let pattern = regex_lite::escape(&text).replace(r"\*", ".*").replace(r"\?", ".");
        Regex::new(&format!("(?s)^{pattern}$")).map(Glob).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
        serde_json::from_value(serde_json::Value::from(text)).map_err(|error| error.to_string())
    }

    #[test]
    fn regex_params_match_anywhere_in_a_text() {
        let pattern: Pattern = read("(?i)pass(word)?").unwrap();
        assert_eq!(pattern.find("the PassWord is"), Some("PassWord"));
        assert!(!pattern.matches("pa ss"));
        assert_eq!(pattern.as_str(), "(?i)pass(word)?");
        assert_eq!((pattern.capture("Passwords"), pattern.capture("pass")), (Some("word"), None));
        assert_eq!(read::<Pattern>("o+").unwrap().capture("foo"), Some("oo"));
        let error = read::<Pattern>("a(").unwrap_err();
        assert!(error.starts_with("invalid regular expression `a(`: "), "{error}");
        assert!(read::<Pattern>("").unwrap_err().contains("matches everything"));
    }

    #[test]
    fn glob_params_match_whole_names() {
        for (glob, name, fits) in [
            ("git_*", "git_push", true),
            ("git_*", "git_", true),
            ("git_*", "my_git_push", false),
            ("*", "", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a.c", "abc", false),
            ("a*c", "a\nc", true),
            ("mcp:*", "mcp:files", true),
        ] {
            assert_eq!(read::<Glob>(glob).unwrap().matches(name), fits, "{glob} {name}");
        }
        assert!(read::<Glob>("").unwrap_err().contains("matches nothing"));
    }
}
