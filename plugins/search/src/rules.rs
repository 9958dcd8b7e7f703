//! The rules of `.gitignore` and `.ignore` files.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The maximum size of a rule file in bytes. A larger file is ignored as a whole, because half of it could mean the
/// opposite.
pub(crate) const BYTES: u64 = 256 << 10;

/// The maximum number of lines of a rule file.
const LINES: usize = 5_000;

/// The names of rule files; the first takes precedence.
pub(crate) const NAMES: [&str; 2] = [".ignore", ".gitignore"];

/// The rules of one folder, for everything below it.
pub(crate) struct Rules {
    /// The path of the folder, with a slash at its end; empty at the top.
    base: String,
    /// The rules of each file, in the order of [`NAMES`].
    files: Vec<Gitignore>,
}

impl Rules {
    /// Parses the rule files of a folder; returns none if they have no rules. Lines that are not rules are skipped, as
    /// git does.
    pub(crate) fn new(base: &str, texts: impl IntoIterator<Item = Vec<u8>>) -> Option<Rules> {
        let files: Vec<_> = texts.into_iter().filter_map(|text| of(&text)).collect();
        (!files.is_empty()).then(|| Rules { base: base.to_owned(), files })
    }

    /// Returns `true` if the rules exclude a path, `false` if they include it explicitly, none if no rule applies.
    fn say(&self, path: &str, is_folder: bool) -> Option<bool> {
        let below = path.strip_prefix(&self.base)?;
        self.files.iter().find_map(|rules| match rules.matched(below, is_folder) {
            matched if matched.is_ignore() => Some(true),
            matched if matched.is_whitelist() => Some(false),
            _ => None,
        })
    }
}

fn of(text: &[u8]) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new("");
    let text = String::from_utf8_lossy(text);
    for line in text.trim_start_matches('\u{feff}').lines().take(LINES) {
        // An invalid line is ignored.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Returns `true` if the rules of the folders above exclude a path. The last folder, the nearest, takes precedence.
pub(crate) fn leave_out<'a>(rules: impl DoubleEndedIterator<Item = &'a Rules>, path: &str, is_folder: bool) -> bool {
    rules.rev().find_map(|rules| rules.say(path, is_folder)).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_ignore_rules_take_precedence() {
        let top = Rules::new("", [b"*.log\n/build/\n# note\n\\#odd\ndocs/*.tmp\n".to_vec()]).unwrap();
        let inner = Rules::new("src/", [b"\xef\xbb\xbf!keep.log\r\n*.gen.rs\r\n".to_vec()]).unwrap();
        let both = [top, inner];
        for (path, is_folder, expected) in [
            ("a.log", false, true),
            ("x/a.log", false, true),
            ("src/a.log", false, true),
            ("src/keep.log", false, false),
            ("keep.log", false, true),
            ("build", true, true),
            ("build", false, false),
            ("src/build", true, false),
            ("src/x/a.gen.rs", false, true),
            ("a.gen.rs", false, false),
            ("#odd", false, true),
            ("docs/a.tmp", false, true),
            ("docs/x/a.tmp", false, false),
            ("a.txt", false, false),
        ] {
            assert_eq!(leave_out(both.iter(), path, is_folder), expected, "{path}");
        }
    }

    #[test]
    fn empty_and_invalid_ignore_rules_are_skipped() {
        assert!(Rules::new("", [b"# only\n\n".to_vec()]).is_none());
        assert!(Rules::new("", [Vec::new(), Vec::new()]).is_none());
        let odd = Rules::new("", [b"a[\n\xff\xfe\n*.o\n".to_vec()]).unwrap();
        assert!(leave_out([odd].iter(), "x.o", false));
        let two = Rules::new("", [b"!a.o\n".to_vec(), b"*.o\n".to_vec()]).unwrap();
        assert!(!leave_out([two].iter(), "a.o", false), "`.ignore` comes before `.gitignore`");
    }
}
