//! Selection of files by their names.

use globset::{GlobBuilder, GlobMatcher};
use shelly_plugin::{Error, text::short};

/// The maximum size of a glob in bytes.
const BYTES: usize = 1_000;

/// An optional glob on the paths below the folder that is searched.
pub(crate) struct Names {
    glob: Option<GlobMatcher>,
    /// Set if the glob applies to the name alone, in any folder.
    is_for_name: bool,
    /// Set if the glob names something hidden, so that hidden files are included.
    pub(crate) wants_hidden: bool,
}

impl Names {
    /// Compiles a glob. A glob without a slash applies to names in every folder, as in `.gitignore`.
    pub(crate) fn new(glob: Option<&str>) -> Result<Names, Error> {
        let Some(asked) = glob else {
            return Ok(Names { glob: None, is_for_name: false, wants_hidden: false });
        };
        let invalid = |why: &str| Error::Invalid(format!("invalid glob `{}`: {why}", short(asked, 200)));
        let plain = asked.trim_start_matches("./").trim_start_matches('/');
        if plain.is_empty() {
            return Err(invalid("empty; use `**` for every file"));
        }
        if plain.len() > BYTES {
            return Err(invalid(&format!("more than {BYTES} bytes")));
        }
        if plain.split('/').any(|name| name == "..") {
            return Err(invalid("it leads out with `..`; name the folder as `directory`"));
        }
        // A glob that ends with a slash means everything in the folder.
        let whole = if plain.ends_with('/') { format!("{plain}**") } else { plain.to_owned() };
        let built = GlobBuilder::new(&whole).literal_separator(true).build();
        Ok(Names {
            glob: Some(built.map_err(|error| invalid(&error.kind().to_string()))?.compile_matcher()),
            is_for_name: !whole.contains('/') && plain.len() == asked.len() && whole != "**",
            wants_hidden: whole.split(['/', '{', ',']).any(|name| name.starts_with('.')),
        })
    }

    /// Returns `true` if a file is selected, by its path from the folder that is searched.
    pub(crate) fn mean(&self, path: &str) -> bool {
        let Some(glob) = &self.glob else { return true };
        let name = path.rsplit('/').next().unwrap_or(path);
        glob.is_match(if self.is_for_name { name } else { path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_globs_match_like_gitignore_patterns() {
        for (glob, meant, not_meant) in [
            ("*.rs", &["a.rs", "src/b.rs", "ä/ö.rs"][..], &["a.rsx", "rs"][..]),
            ("./*.rs", &["a.rs"], &["src/b.rs"]),
            ("/*.rs", &["a.rs"], &["src/b.rs"]),
            ("src/*.rs", &["src/b.rs"], &["src/x/b.rs", "b.rs", "x/src/b.rs"]),
            ("src/**/*.rs", &["src/b.rs", "src/x/y/b.rs"], &["b.rs"]),
            ("**/x/**", &["x/a", "b/x/a", "b/x/c/a"], &["xa", "x"]),
            ("**", &["a", "b/c"], &[]),
            ("src/", &["src/a", "src/x/a"], &["a"]),
            ("*.{yml,yaml}", &["a.yml", "b/c.yaml"], &["a.y"]),
            ("[ab]?.txt", &["a1.txt", "x/b2.txt"], &["c1.txt", "a12.txt"]),
            ("Ü*", &["Über.md"], &["ü"]),
            (".env", &[".env", "a/.env"], &["env"]),
        ] {
            let names = Names::new(Some(glob)).unwrap();
            meant.iter().for_each(|path| assert!(names.mean(path), "{glob} means {path}"));
            not_meant.iter().for_each(|path| assert!(!names.mean(path), "{glob} does not mean {path}"));
        }
        assert!(Names::new(None).unwrap().mean("any/thing"));
    }

    #[test]
    fn search_glob_with_a_leading_dot_includes_hidden_files() {
        for (glob, expected) in [
            (".github/**", true),
            ("**/.env", true),
            ("*.{a,.b}", true),
            ("*.rs", false),
            ("./src/*", false),
            ("**", false),
        ] {
            assert_eq!(Names::new(Some(glob)).unwrap().wants_hidden, expected, "{glob}");
        }
    }

    #[test]
    fn invalid_search_glob_error_states_the_cause() {
        for (glob, why) in
            [("", "empty; use"), ("/", "empty; use"), ("a[", "unclosed"), ("../x", "`directory`"), ("{a", "unclosed")]
        {
            let error = Names::new(Some(glob)).err().unwrap();
            assert!(error.message().contains(why), "{glob}: {error:?}");
        }
        assert!(Names::new(Some(&"x".repeat(9_000))).err().unwrap().message().len() < 500);
    }
}
