//! Conversion of tool names to those that a vendor accepts, and back.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use serde_json::value::RawValue;

use shelly_core::chat::{ToolSpec, name_with_digest};

/// The tool names that a vendor accepts.
#[derive(Debug, Clone, Copy)]
pub struct ToolNameRule {
    /// The longest name in bytes; must be more than ten.
    pub longest: usize,
    /// `true` if a name may begin with a digit or `-`.
    pub any_first: bool,
}

/// The rule of OpenAI, Anthropic and nearly all compatible servers: 1 to 64 of `A-Z a-z 0-9 _ -`.
pub const COMMON: ToolNameRule = ToolNameRule { longest: 64, any_first: true };

/// The rule of Google: a letter or `_`, then up to 63 of `A-Z a-z 0-9 _ -`. It also accepts dots, which other vendors do not.
pub const GEMINI: ToolNameRule = ToolNameRule { longest: 64, any_first: false };

impl ToolNameRule {
    fn takes(&self, name: &str) -> bool {
        let is_first = |byte: u8| self.any_first || byte.is_ascii_alphabetic() || byte == b'_';
        (1..=self.longest).contains(&name.len())
            && name.bytes().all(is_taken)
            && name.bytes().next().is_some_and(is_first)
    }

    /// Returns the name in a form that the vendor accepts. A name that it would refuse is changed and gets a digest to stay
    /// distinct. This holds even for a name that a model made up, because a refusal would end the whole run.
    pub fn wire<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.takes(name) {
            return name.into();
        }
        let first = if self.any_first { "" } else { "_" };
        let rest = name_with_digest(name, name, self.longest - first.len(), |c| is_taken(c as u8));
        format!("{first}{rest}").into()
    }
}

fn is_taken(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The tools of a request with the names that the vendor and the host use.
#[derive(Debug, Default)]
pub struct ToolNames {
    /// The host's names by the vendor's names, where they differ.
    renamed: HashMap<String, String>,
    /// The schemas of the tools that may be called, by both names.
    offered: HashMap<String, Arc<RawValue>>,
}

impl ToolNames {
    /// Collects the names of these tools.
    pub fn of<'a>(rule: &ToolNameRule, tools: impl IntoIterator<Item = &'a ToolSpec>) -> Self {
        let mut names = Self::default();
        for tool in tools {
            if let Cow::Owned(wire) = rule.wire(&tool.name) {
                names.offered.insert(wire.clone(), Arc::clone(&tool.input_schema));
                names.renamed.insert(wire, tool.name.clone());
            }
            names.offered.insert(tool.name.clone(), Arc::clone(&tool.input_schema));
        }
        names
    }

    /// Returns the same names without any offered tool, for requests in which none may be called.
    pub fn not_offered(mut self) -> Self {
        self.offered.clear();
        self
    }

    /// Returns the host's name of the tool that the vendor calls `wire`.
    pub fn host(&self, wire: String) -> String {
        self.renamed.get(&wire).cloned().unwrap_or(wire)
    }

    /// Returns `true` if a callable tool has this name, the vendor's or the host's.
    pub fn offers(&self, name: &str) -> bool {
        self.offered.contains_key(name)
    }

    /// Returns the offered tool that a model means when it writes the name from memory: without the part before `__`, with
    /// another separator in its place, or with a `functions.` or `tools.` prefix. Returns `None` if no tool fits, or more
    /// than one.
    pub fn find(&self, printed: &str) -> Option<String> {
        let bare = ["functions.", "tools."].iter().find_map(|all| printed.strip_prefix(all)).unwrap_or(printed);
        if let Some(name) = [printed, bare].into_iter().find(|name| self.offers(name)) {
            return Some(name.to_owned());
        }
        let joined = bare.replacen(['.', ':', '/'], "__", 1);
        let fits = |name: &&String| **name == joined || without_server(name).is_some_and(|tool| tool == bare);
        let mut found = self.offered.keys().filter(fits).map(|name| self.renamed.get(name).unwrap_or(name));
        let first = found.next().filter(|_| !bare.is_empty())?;
        found.all(|other| other == first).then(|| first.clone())
    }

    /// Returns `true` if `beginning` is a prefix of an offered name, or of a name that [`ToolNames::find`] accepts for one.
    pub fn may_become_one(&self, beginning: &str) -> bool {
        let begins = |name: &str| name.starts_with(beginning);
        "functions.".starts_with(beginning)
            || self.offered.keys().any(|name| begins(name) || without_server(name).is_some_and(begins))
    }

    /// Returns the schema of an offered tool, by the vendor's name or the host's.
    pub fn schema(&self, name: &str) -> Option<&RawValue> {
        self.offered.get(name).map(|schema| &**schema)
    }

    /// Returns `true` if any tool may be called.
    pub fn offers_any(&self) -> bool {
        !self.offered.is_empty()
    }
}

/// Returns the name of a server's tool without the server's name.
fn without_server(name: &str) -> Option<&str> {
    name.split_once("__").map(|(_, tool)| tool)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_core::chat::{PropertyNames, ToolHints};

    #[test]
    fn refused_tool_name_is_renamed_and_mapped_back() {
        let strict = ToolNameRule { longest: 20, any_first: false };
        let long = "a".repeat(65);
        for (rule, name, expected) in [
            (COMMON, "read_file-2", "read_file-2"),
            (COMMON, "2-read", "2-read"),
            (COMMON, "fs.read", "fs_read_4074bc02"),
            (COMMON, "größe", "gr__e_d353a267"),
            (COMMON, "", "_e3b0c442"),
            (strict, "2-read", "_2-read_7e2704ac"),
            (COMMON, &long, ""),
        ] {
            let wire = rule.wire(name);
            assert!(rule.takes(&wire), "{name}: {wire}");
            if !expected.is_empty() {
                assert_eq!(wire, expected, "{name}");
            }
            let schema = RawValue::from_string("{}".into()).unwrap();
            let tool = ToolSpec {
                name: name.into(),
                description: String::new(),
                input_schema: Arc::from(schema),
                hints: ToolHints::default(),
                property_names: PropertyNames::default(),
            };
            let names = ToolNames::of(&rule, [&tool]);
            assert!(names.offers(&wire) && names.offers(name) && !names.offers("other"));
            assert_eq!(names.host(wire.clone().into_owned()), name);
            let names = names.not_offered();
            assert!(!names.offers(&wire) && !names.offers_any());
            assert_eq!(names.host(wire.into_owned()), name);
        }
        assert_ne!(COMMON.wire("a.b"), COMMON.wire("a:b"));
        assert_eq!(ToolNames::default().host("made_up".into()), "made_up");
    }
}
