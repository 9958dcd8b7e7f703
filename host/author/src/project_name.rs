//! The name of a new project.

use std::fmt;

/// The name of a new project: the plugin's id, and a name in each of the languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectName(String);

impl ProjectName {
    /// The maximum length of a plugin's id.
    pub const MOST: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be a plugin's id, or the name of a package in some language.
    pub fn new(name: &str) -> Result<Self, String> {
        let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > Self::MOST || !name.chars().all(is_id) {
            return Err(format!(
                "`{}` is no id of a plugin; use 1 to {} of a-z, 0-9 and -",
                name.escape_debug(),
                Self::MOST
            ));
        }
        if name == "host" {
            return Err("the id `host` is reserved for the host's own tools".into());
        }
        // The languages have packages and modules of this name.
        if !name.starts_with(|c: char| c.is_ascii_lowercase()) || name.ends_with('-') {
            return Err(format!(
                "`{name}` does not begin with a letter, or it ends in -, which no package may be called"
            ));
        }
        Ok(Self(name.to_owned()))
    }

    /// Returns the name as it is.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as an identifier: with `_` in place of `-`.
    pub fn identifier(&self) -> String {
        self.0.replace('-', "_")
    }
}

impl fmt::Display for ProjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_name_is_a_plugin_id_and_a_package_name() {
        for name in ["dice", "my-tool", "a", "x2", &"a".repeat(64)] {
            assert_eq!(ProjectName::new(name).unwrap().as_str(), name);
        }
        assert_eq!(ProjectName::new("my-new-tool").unwrap().identifier(), "my_new_tool");
        for (name, says) in [
            ("", "1 to 64"),
            ("Dice", "1 to 64"),
            ("a/b", "1 to 64"),
            ("..", "1 to 64"),
            ("a\u{1b}[2J", "`a\\u{1b}[2J`"),
            (&"a".repeat(65), "1 to 64"),
            ("host", "reserved"),
            ("2x", "begin with a letter"),
            ("-a", "begin with a letter"),
            ("a-", "ends in -"),
        ] {
            let error = ProjectName::new(name).unwrap_err();
            assert!(error.contains(says), "{name}: {error}");
        }
    }
}
