//! A config file as a tree with the line of each part, for messages about where a setting comes from.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_saphyr::Spanned;

use super::recover;
use crate::error::{ErrorKind, Report};

/// A part of a YAML file with its line, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LocatedYaml {
    pub line: u64,
    pub content: YamlContent,
}

/// The content of a part of a YAML file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum YamlContent {
    /// A text, as it is written; `None` for a value of another type.
    Scalar(Option<String>),
    /// The entries of a list.
    List(Vec<LocatedYaml>),
    /// The keys of a mapping with their values. The line of a value is that of its key.
    Mapping(Vec<(String, LocatedYaml)>),
}

impl LocatedYaml {
    /// Parses a text; `None` if it is not YAML.
    pub fn parse(text: &str) -> Option<Self> {
        recover::read(text).ok()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        match &self.content {
            YamlContent::Mapping(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            YamlContent::Scalar(_) | YamlContent::List(_) => None,
        }
    }

    /// Returns the entry of a list at this position.
    pub fn at(&self, position: usize) -> Option<&Self> {
        match &self.content {
            YamlContent::List(entries) => entries.get(position),
            YamlContent::Scalar(_) | YamlContent::Mapping(_) => None,
        }
    }

    /// Returns the entry of a list that has this name: a text, or a mapping with `name`.
    pub fn named(&self, name: &str) -> Option<&Self> {
        let YamlContent::List(entries) = &self.content else { return None };
        entries.iter().find(|entry| entry.text().or(entry.get("name").and_then(Self::text)) == Some(name))
    }

    /// Returns `true` if it is neither a list nor a mapping.
    pub fn is_scalar(&self) -> bool {
        matches!(self.content, YamlContent::Scalar(_))
    }

    /// Returns the text, if it is one.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            YamlContent::Scalar(text) => text.as_deref(),
            YamlContent::List(_) | YamlContent::Mapping(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for LocatedYaml {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Spanned { value: content, referenced, .. } = Spanned::deserialize(from)?;
        Ok(Self { line: referenced.line(), content })
    }
}

impl<'de> Deserialize<'de> for YamlContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ContentVisitor;
        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = YamlContent;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }
            fn visit_bool<E: de::Error>(self, _: bool) -> Result<YamlContent, E> {
                Ok(YamlContent::Scalar(None))
            }
            fn visit_i64<E: de::Error>(self, _: i64) -> Result<YamlContent, E> {
                Ok(YamlContent::Scalar(None))
            }
            fn visit_u64<E: de::Error>(self, _: u64) -> Result<YamlContent, E> {
                Ok(YamlContent::Scalar(None))
            }
            fn visit_f64<E: de::Error>(self, _: f64) -> Result<YamlContent, E> {
                Ok(YamlContent::Scalar(None))
            }
            fn visit_unit<E: de::Error>(self) -> Result<YamlContent, E> {
                Ok(YamlContent::Scalar(None))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<YamlContent, E> {
                Ok(YamlContent::Scalar(Some(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<YamlContent, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    entries.push(entry);
                }
                Ok(YamlContent::List(entries))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlContent, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    let value = LocatedYaml { line: key.referenced.line(), ..map.next_value()? };
                    entries.push((key.value, value));
                }
                Ok(YamlContent::Mapping(entries))
            }
        }
        from.deserialize_any(ContentVisitor)
    }
}

/// The lines of an entry of a list, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListEntryLines {
    /// The line on which the entry begins.
    pub entry: u64,
    /// The line of the looked up key; `None` if the entry does not have the key.
    pub key: Option<u64>,
}

/// Returns for each entry of a list its line, and the line of this key in the entry; `None` if the text is no list in YAML.
pub fn list_entry_lines(text: &str, key: &str) -> Option<Vec<ListEntryLines>> {
    let YamlContent::List(entries) = LocatedYaml::parse(text)?.content else { return None };
    let lines = |entry: &LocatedYaml| ListEntryLines { entry: entry.line, key: entry.get(key).map(|value| value.line) };
    Some(entries.iter().map(lines).collect())
}

/// Reports a key that stands in the wrong config, with its line in `text`. `what` says of what it is a setting.
pub(super) fn misplaced_key(text: &str, key: &str, what: &str) -> Report {
    let line = LocatedYaml::parse(text).and_then(|yaml| yaml.get(key).map(|found| found.line));
    let at = line.map_or(String::new(), |line| format!(", line {line}"));
    Report::new(ErrorKind::Usage, format!("`{key}` is {what}")).at(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_file_has_its_line() {
        let text = "\
# a comment
providers:
  - name: m
    kind: openai

    instructions: |
      two
      lines
  - {name: n, price: {input: 1}, on: true,
     off: null}
agents: [a, 3]
";
        let yaml = LocatedYaml::parse(text).unwrap();
        let providers = yaml.get("providers").unwrap();
        let second = providers.at(1).unwrap();
        assert_eq!((yaml.get("agents").unwrap().line, providers.line), (11, 2));
        assert_eq!((providers.at(0).unwrap().line, providers.at(0).unwrap().get("kind").unwrap().line), (3, 4));
        assert_eq!(providers.at(0).unwrap().get("instructions").unwrap().line, 6);
        assert_eq!((second.line, second.get("price").unwrap().get("input").unwrap().line), (9, 9));
        assert_eq!((second.get("off").unwrap().line, second.get("on").unwrap().is_scalar()), (10, true));
        assert_eq!(providers.named("n"), Some(second));
        assert_eq!(yaml.get("agents").unwrap().named("a").unwrap().line, 11);
        assert!(yaml.named("a").is_none() && yaml.at(0).is_none() && providers.get("name").is_none());
        let lines = list_entry_lines("# two\n- name: a\n  b: 1\n\n- {c: 1}\n", "b").unwrap();
        assert_eq!(lines, [(2, Some(3)), (5, None)].map(|(entry, key)| ListEntryLines { entry, key }));
        assert!(list_entry_lines("a: 1", "a").is_none());
        assert!(LocatedYaml::parse("a: [").is_none() && LocatedYaml::parse("").unwrap().get("a").is_none());
    }
}
