//! The facts of a build that the next one is compared with.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize};
use shelly_core::{files, limits};

use crate::author_error::AuthorError;

/// The facts of a build: what the plugin asks for, imports and offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// The needs of the plugin, a line each.
    pub wants: Vec<String>,
    /// The imported interfaces.
    pub imports: Vec<String>,
    /// The tools: their names, and a text that differs when the tool does.
    pub tools: BTreeMap<String, String>,
}

/// The name of the record's file.
const FILE: &str = "last-build.json";

impl BuildRecord {
    /// Reads the record of the last build; `None` if there is none that can be read.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = files::read(&folder.join(FILE), folder, limits::BUILD_RECORD_BYTES).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the record.
    ///
    /// # Errors
    ///
    /// [`AuthorError::File`].
    pub fn write(&self, folder: &Path) -> Result<(), AuthorError> {
        let path = folder.join(FILE);
        fs::create_dir_all(folder).map_err(AuthorError::file("create", folder))?;
        let text = serde_json::to_string(self).unwrap_or_default();
        files::replace(&path, text.as_bytes()).map_err(AuthorError::file("write", &path))
    }

    /// Returns the differences to an earlier build, a line each: `+` for what is new, `-` for what is gone, `~` for what is
    /// another.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (what, now, then) in [("want", &self.wants, &before.wants), ("import", &self.imports, &before.imports)] {
            lines.extend(now.iter().filter(|item| !then.contains(item)).map(|item| format!("+ {what} {item}")));
            lines.extend(then.iter().filter(|item| !now.contains(item)).map(|item| format!("- {what} {item}")));
        }
        for (tool, text) in &self.tools {
            match before.tools.get(tool) {
                None => lines.push(format!("+ tool {tool}")),
                Some(then) if then != text => lines.push(format!("~ tool {tool}")),
                Some(_) => {}
            }
        }
        let gone = before.tools.keys().filter(|tool| !self.tools.contains_key(*tool));
        lines.extend(gone.map(|tool| format!("- tool {tool}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(wants: &[&str], imports: &[&str], tools: &[(&str, &str)]) -> BuildRecord {
        let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        let tools = tools.iter().map(|(tool, text)| ((*tool).to_owned(), (*text).to_owned())).collect();
        BuildRecord { wants: list(wants), imports: list(imports), tools }
    }

    #[test]
    fn differences_of_two_builds_are_listed() {
        let before = record(&["kv: true"], &["a:b/log@1.0.0"], &[("count", "1"), ("old", "1"), ("same", "1")]);
        let now = record(
            &["http: true"],
            &["a:b/log@1.0.0", "a:b/http@1.0.0"],
            &[("count", "2"), ("new", "1"), ("same", "1")],
        );
        assert_eq!(
            now.changes_since(&before),
            [
                "+ want http: true",
                "- want kv: true",
                "+ import a:b/http@1.0.0",
                "~ tool count",
                "+ tool new",
                "- tool old"
            ]
        );
        assert!(now.changes_since(&now).is_empty());
    }

    #[test]
    fn record_is_read_back_unless_it_is_too_large() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(BuildRecord::read(folder.path()), None);
        let written = record(&["kv: true"], &[], &[("count", "1")]);
        written.write(&folder.path().join("work")).unwrap();
        assert_eq!(BuildRecord::read(&folder.path().join("work")), Some(written));
        let most = usize::try_from(limits::BUILD_RECORD_BYTES).unwrap();
        record(&[&"x".repeat(most)], &[], &[]).write(folder.path()).unwrap();
        assert_eq!(BuildRecord::read(folder.path()), None);
    }
}
