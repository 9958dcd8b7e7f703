//! Names of tools as a vendor takes them, there and back.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use sha2::{Digest, Sha256};

use crate::chat::ToolSpec;

/// What a vendor takes as the name of a tool.
#[derive(Debug, Clone, Copy)]
pub struct NameRule {
    /// Bytes of the longest name; more than ten.
    pub longest: usize,
    /// Whether a name may begin with a digit or `-`.
    pub any_first: bool,
}

/// What OpenAI, Anthropic and nearly all compatible servers take: 1 to 64 of `A-Z a-z 0-9 _ -`.
pub const COMMON: NameRule = NameRule { longest: 64, any_first: true };

impl NameRule {
    fn takes(&self, name: &str) -> bool {
        let is_first = |byte: u8| self.any_first || byte.is_ascii_alphabetic() || byte == b'_';
        (1..=self.longest).contains(&name.len())
            && name.bytes().all(is_taken)
            && name.bytes().next().is_some_and(is_first)
    }

    /// The name as the vendor takes it. One that it refuses is changed, and told from others by a digest: the refusal of a
    /// name, be it one that a model made up, would end the whole run.
    pub fn wire<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.takes(name) {
            return name.into();
        }
        let digest = Sha256::digest(name.as_bytes());
        let first = if self.any_first { "" } else { "_" };
        let rest = name.chars().map(|c| if c.is_ascii() && is_taken(c as u8) { c } else { '_' });
        let most = self.longest - first.len() - 9;
        let rest: String = rest.take(most).collect();
        format!("{first}{rest}_{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]).into()
    }
}

fn is_taken(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// The tools of a request, as the vendor and as the host names them.
#[derive(Debug, Default)]
pub struct Names {
    /// Names of the host by those of the vendor, where they differ.
    renamed: HashMap<String, String>,
    offered: HashSet<String>,
}

impl Names {
    /// Of these tools.
    pub fn of<'a>(rule: &NameRule, tools: impl IntoIterator<Item = &'a ToolSpec>) -> Self {
        let mut names = Self::default();
        for tool in tools {
            if let Cow::Owned(wire) = rule.wire(&tool.name) {
                names.offered.insert(wire.clone());
                names.renamed.insert(wire, tool.name.clone());
            }
            names.offered.insert(tool.name.clone());
        }
        names
    }

    /// The same names, of tools that must not be called.
    pub fn not_offered(mut self) -> Self {
        self.offered.clear();
        self
    }

    /// The tool that the vendor calls `wire`.
    pub fn host(&self, wire: String) -> String {
        self.renamed.get(&wire).cloned().unwrap_or(wire)
    }

    /// Whether a tool that may be called has this name, the vendor's or the host's.
    pub fn offers(&self, name: &str) -> bool {
        self.offered.contains(name)
    }

    /// Whether any tool may be called.
    pub fn offers_any(&self) -> bool {
        !self.offered.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::chat::ToolHints;

    #[test]
    fn what_a_vendor_refuses_is_renamed_and_found_again() {
        let strict = NameRule { longest: 20, any_first: false };
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
            let schema = serde_json::value::RawValue::from_string("{}".into()).unwrap();
            let tool = ToolSpec {
                name: name.into(),
                description: String::new(),
                input_schema: Arc::from(schema),
                hints: ToolHints::default(),
            };
            let names = Names::of(&rule, [&tool]);
            assert!(names.offers(&wire) && names.offers(name) && !names.offers("other"));
            assert_eq!(names.host(wire.clone().into_owned()), name);
            let names = names.not_offered();
            assert!(!names.offers(&wire) && !names.offers_any());
            assert_eq!(names.host(wire.into_owned()), name);
        }
        assert_ne!(COMMON.wire("a.b"), COMMON.wire("a:b"));
        assert_eq!(Names::default().host("made_up".into()), "made_up");
    }
}
