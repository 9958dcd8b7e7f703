//! What `.gitignore` and `.ignore` leave out.

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Bytes of such a file that are read; of a longer one nothing is taken, since half of it could say the opposite.
pub(crate) const BYTES: u64 = 256 << 10;

/// Lines of such a file that count.
const LINES: usize = 5_000;

/// Their names; what the first says comes before what the second says.
pub(crate) const NAMES: [&str; 2] = [".ignore", ".gitignore"];

/// The rules of one folder, for all below it.
pub(crate) struct Rules {
    /// The path of the folder, with a slash at its end; empty at the top.
    base: String,
    /// As [`NAMES`] has them.
    files: Vec<Gitignore>,
}

impl Rules {
    /// Of what the files of a folder say; none if they say nothing. A line that is no rule is passed over, as git does.
    pub(crate) fn new(base: &str, texts: impl IntoIterator<Item = Vec<u8>>) -> Option<Rules> {
        let files: Vec<_> = texts.into_iter().filter_map(|text| of(&text)).collect();
        (!files.is_empty()).then(|| Rules { base: base.to_owned(), files })
    }

    /// Whether something is left out, or expressly not; none where nothing is said of it.
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
        // One that cannot be read says nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

/// Whether something is left out by the rules of the folders above it, of which the last, the nearest, comes first.
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
