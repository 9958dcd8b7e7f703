//! Patterns for paths below the root of a project.

use std::path::{Path, PathBuf};

use crate::limits;

/// A pattern for paths with `/` between names. `*` in a name stands for any characters, `?` for one, and the name `**` for
/// any number of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern(Vec<String>);

/// The reason why a text is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathPatternError {
    /// A name is empty, `.` or `..`, or the path is absolute.
    #[error("a pattern is a path below the root, without `.`, `..`, `\\` and empty names")]
    NotBelow,
    /// The pattern has more than [`limits::TRIGGER_PATH_NAMES`] names.
    #[error("a pattern has at most {} names", limits::TRIGGER_PATH_NAMES)]
    TooLong,
    /// `**` stands for whole names.
    #[error("`**` stands alone between slashes")]
    AnyWithin,
}

const ANY: &str = "**";

impl PathPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    ///
    /// [`PathPatternError`].
    pub fn parse(text: &str) -> Result<Self, PathPatternError> {
        let names: Vec<_> = text.split('/').map(str::to_owned).collect();
        if names.len() > limits::TRIGGER_PATH_NAMES {
            return Err(PathPatternError::TooLong);
        }
        let is_wrong = |name: &String| matches!(name.as_str(), "" | "." | "..") || name.contains(['\\', ':', '\0']);
        if names.iter().any(is_wrong) {
            return Err(PathPatternError::NotBelow);
        }
        match names.iter().any(|name| name != ANY && name.contains(ANY)) {
            true => Err(PathPatternError::AnyWithin),
            false => Ok(Self(names)),
        }
    }

    /// Returns the folder in which all matching files are: the names before the first with a wildcard, without the last.
    pub fn base(&self) -> PathBuf {
        let parents = &self.0[..self.0.len() - 1];
        parents.iter().take_while(|name| !name.contains(['*', '?'])).collect()
    }

    /// Returns the largest number of names that a matching path has below the base; `None`: any number.
    pub fn depth(&self) -> Option<usize> {
        let below = self.0.len() - self.base().components().count();
        (!self.0.iter().any(|name| name == ANY)).then_some(below)
    }

    /// Returns `true` if the pattern matches this path. The time is at most proportional to the product of their lengths.
    pub fn fits(&self, path: &Path) -> bool {
        let Some(names) = path.iter().map(|name| name.to_str()).collect::<Option<Vec<_>>>() else { return false };
        // How many names the pattern may have used up so far.
        let mut used = vec![false; names.len() + 1];
        used[0] = true;
        for part in &self.0 {
            let before = std::mem::replace(&mut used, vec![false; names.len() + 1]);
            if part == ANY {
                let mut is_reached = false;
                for (at, used) in used.iter_mut().enumerate() {
                    is_reached |= before[at];
                    *used = is_reached;
                }
            } else {
                for (at, name) in names.iter().enumerate() {
                    used[at + 1] = before[at] && fits_name(part, name);
                }
            }
        }
        used[names.len()]
    }
}

fn fits_name(pattern: &str, name: &str) -> bool {
    let name: Vec<_> = name.chars().collect();
    let mut used = vec![false; name.len() + 1];
    used[0] = true;
    for wanted in pattern.chars() {
        let before = std::mem::replace(&mut used, vec![false; name.len() + 1]);
        if wanted == '*' {
            let mut is_reached = false;
            for (at, used) in used.iter_mut().enumerate() {
                is_reached |= before[at];
                *used = is_reached;
            }
        } else {
            for (at, c) in name.iter().enumerate() {
                used[at + 1] = before[at] && (wanted == '?' || wanted == *c);
            }
        }
    }
    used[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_paths() {
        for (pattern, base, depth, fitting, other) in [
            ("README.md", "", Some(1), &["README.md"][..], &["a/README.md", "README.md.bak"][..]),
            ("docs/**", "docs", None, &["docs/a.md", "docs/a/b/c"], &["doc/a", "src/docs/a"]),
            ("docs/*.md", "docs", Some(1), &["docs/a.md", "docs/.md"], &["docs/a/b.md", "docs/a.txt"]),
            ("**/*.rs", "", None, &["a.rs", "a/b/c.rs"], &["a.rs/b", "a.r"]),
            ("a/**/b/**/c?", "a", None, &["a/b/c1", "a/x/y/b/z/cé"], &["a/b", "a/c1", "a/b/c12"]),
            ("s*c/?/x", "", Some(3), &["src/a/x", "sc/a/x"], &["src/ab/x", "src/x"]),
        ] {
            let parsed = PathPattern::parse(pattern).unwrap();
            assert_eq!((parsed.base(), parsed.depth()), (PathBuf::from(base), depth), "{pattern}");
            for path in fitting {
                assert!(parsed.fits(Path::new(path)), "{pattern} should match {path}");
            }
            for path in other {
                assert!(!parsed.fits(Path::new(path)), "{pattern} should not match {path}");
            }
        }
        // Many wildcards take no time.
        let slow = PathPattern::parse(&["**", "*a*a*a*a*"].repeat(limits::TRIGGER_PATH_NAMES / 2).join("/")).unwrap();
        assert!(!slow.fits(&Path::new(&"aaaaaaaaab/".repeat(64)).join("b")));
    }

    #[test]
    fn pattern_that_leads_out_or_is_long_is_refused() {
        for (text, error) in [
            ("", PathPatternError::NotBelow),
            ("/etc/*", PathPatternError::NotBelow),
            ("../x", PathPatternError::NotBelow),
            ("a/./b", PathPatternError::NotBelow),
            ("a//b", PathPatternError::NotBelow),
            ("C:/x", PathPatternError::NotBelow),
            ("a\\b", PathPatternError::NotBelow),
            ("a/**b", PathPatternError::AnyWithin),
        ] {
            assert_eq!(PathPattern::parse(text), Err(error), "{text}");
        }
        let names = |count: usize| vec!["a"; count].join("/");
        assert!(PathPattern::parse(&names(limits::TRIGGER_PATH_NAMES)).is_ok());
        assert_eq!(PathPattern::parse(&names(limits::TRIGGER_PATH_NAMES + 1)), Err(PathPatternError::TooLong));
    }
}
