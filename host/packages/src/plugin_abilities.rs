//! The abilities of a plugin, and how an update changes them.

use serde::{Deserialize, Serialize};
use shelly_core::{digest::Sha256Digest, error::cut, limits};

use crate::package_signature::key_id;

/// The abilities of a plugin: what it is, wants, imports and offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginAbilities {
    /// The kinds of the plugin.
    pub kinds: Vec<String>,
    /// The imported interfaces.
    pub imports: Vec<String>,
    /// The grants that `plugin.toml` requests, each as the line of a config that grants it.
    pub wants: Vec<String>,
    /// The tools; `None` if only a run would tell them and the publisher recorded none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<LockedTool>>,
}

/// A tool, as a lock file names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedTool {
    /// The name.
    pub name: String,
    /// The description for a model.
    pub description: String,
    /// The digest of the schema of its arguments.
    pub schema: Sha256Digest,
}

impl LockedTool {
    /// Creates the entry of a tool. `schema` is the JSON text of its schema.
    pub fn of(name: &str, description: &str, schema: &str) -> Self {
        Self { name: name.to_owned(), description: description.to_owned(), schema: Sha256Digest::of(schema) }
    }
}

/// One difference between two versions of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbilityChange {
    /// The difference on one line: `+` for what is new, `-` for what is gone, `~` for what differs.
    pub line: String,
    /// `true` if the plugin can do or say something that it could not before.
    pub is_growth: bool,
}

impl AbilityChange {
    /// Returns the difference between two signatures: a version without one, or by another key, after a signed one counts as growth.
    pub fn of_signature(before: Option<&str>, now: Option<&str>) -> Option<Self> {
        match (before.map(key_id), now.map(key_id)) {
            (Some(_), None) => Some(grown("- signature".to_owned())),
            (Some(before), Some(now)) if before != now => Some(grown("~ signature: by another key".to_owned())),
            _ => None,
        }
    }
}

impl PluginAbilities {
    /// Returns the differences to the version that is installed.
    pub fn changes_since(&self, before: &Self) -> Vec<AbilityChange> {
        let mut changes = Vec::new();
        for (what, now, then) in [
            ("kind", &self.kinds, &before.kinds),
            ("want", &self.wants, &before.wants),
            ("import", &self.imports, &before.imports),
        ] {
            changes
                .extend(now.iter().filter(|item| !then.contains(item)).map(|item| grown(format!("+ {what} {item}"))));
            changes.extend(then.iter().filter(|item| !now.contains(item)).map(|item| gone(format!("- {what} {item}"))));
        }
        match (&self.tools, &before.tools) {
            (Some(now), Some(then)) => changes.extend(tool_changes(now, then)),
            // Tools that were not recorded may be any.
            (None, Some(_)) => changes.push(grown("~ tools: this version does not record them".into())),
            (Some(now), None) => {
                changes.extend(now.iter().map(|tool| gone(format!("+ tool {} (not recorded before)", tool.name))))
            }
            (None, None) => {}
        }
        changes
    }
}

fn tool_changes(now: &[LockedTool], then: &[LockedTool]) -> Vec<AbilityChange> {
    let mut changes = Vec::new();
    for tool in now {
        let Some(before) = then.iter().find(|before| before.name == tool.name) else {
            changes.push(grown(format!("+ tool {}", tool.name)));
            continue;
        };
        // Both are texts that a model obeys.
        if before.description != tool.description {
            let (then, now) = differences(&before.description, &tool.description);
            changes.push(grown(format!("~ tool {}: description {then:?} → {now:?}", tool.name)));
        }
        if before.schema != tool.schema {
            changes.push(grown(format!("~ tool {}: another schema", tool.name)));
        }
    }
    let is_gone = |tool: &&LockedTool| !now.iter().any(|other| other.name == tool.name);
    changes.extend(then.iter().filter(is_gone).map(|tool| gone(format!("- tool {}", tool.name))));
    changes
}

/// Returns each text from the first word that differs, shortened to fit on a line.
fn differences(then: &str, now: &str) -> (String, String) {
    let same = then.char_indices().zip(now.chars()).take_while(|((_, one), other)| one == other);
    let end = same.map(|((at, one), _)| at + one.len_utf8()).last().unwrap_or_default();
    // From the beginning of the word in which they differ: both texts are the same up to there.
    let start = then[..end].rfind(' ').map_or(0, |at| at + 1);
    let part = |text: &str| {
        let lead = if start > 0 { "…" } else { "" };
        format!("{lead}{}", cut(&text[start..], limits::PACKAGE_CHANGE_CHARS))
    };
    (part(then), part(now))
}

fn grown(line: String) -> AbilityChange {
    AbilityChange { line, is_growth: true }
}

fn gone(line: String) -> AbilityChange {
    AbilityChange { line, is_growth: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abilities(imports: &[&str], tools: Option<&[(&str, &str, &str)]>) -> PluginAbilities {
        let tools = tools.map(|tools| tools.iter().map(|(name, about, schema)| LockedTool::of(name, about, schema)));
        PluginAbilities {
            kinds: vec!["tool".into()],
            imports: imports.iter().map(|import| (*import).to_owned()).collect(),
            wants: Vec::new(),
            tools: tools.map(Iterator::collect),
        }
    }

    fn lines(now: &PluginAbilities, then: &PluginAbilities) -> Vec<(String, bool)> {
        now.changes_since(then).into_iter().map(|change| (change.line, change.is_growth)).collect()
    }

    #[test]
    fn growth_is_told_from_what_is_gone() {
        let then =
            abilities(&["a:b/log"], Some(&[("count", "It Counts.", "{}"), ("old", "", "{}"), ("same", "", "{}")]));
        let now = abilities(
            &["a:b/http"],
            Some(&[("count", "It Counts. Obey.", "[]"), ("new", "", "{}"), ("same", "", "{}")]),
        );
        let expected = [
            ("+ import a:b/http", true),
            ("- import a:b/log", false),
            ("~ tool count: description \"…Counts.\" → \"…Counts. Obey.\"", true),
            ("~ tool count: another schema", true),
            ("+ tool new", true),
            ("- tool old", false),
        ];
        assert_eq!(lines(&now, &then), expected.map(|(line, is_growth)| (line.to_owned(), is_growth)));
        assert!(lines(&now, &now).is_empty());
    }

    #[test]
    fn differences_begin_with_the_word_that_differs() {
        let long = "x".repeat(limits::PACKAGE_CHANGE_CHARS + 1);
        let cut = format!("{}…", "x".repeat(limits::PACKAGE_CHANGE_CHARS));
        for (then, now, expected) in [
            ("Rolls a die.", "Rolls a dié and obeys.", ("…die.", "…dié and obeys.")),
            ("", "New.", ("", "New.")),
            ("Same", "Same and more", ("Same", "Same and more")),
            ("a b", "a ", ("…b", "…")),
            ("", long.as_str(), ("", cut.as_str())),
        ] {
            assert_eq!(differences(then, now), (expected.0.to_owned(), expected.1.to_owned()));
        }
    }

    #[test]
    fn tools_that_are_no_longer_recorded_are_growth() {
        let (recorded, silent) = (abilities(&[], Some(&[("count", "", "{}")])), abilities(&[], None));
        assert_eq!(lines(&silent, &recorded), [("~ tools: this version does not record them".to_owned(), true)]);
        assert_eq!(lines(&recorded, &silent), [("+ tool count (not recorded before)".to_owned(), false)]);
        assert!(lines(&silent, &silent).is_empty());
    }
}
