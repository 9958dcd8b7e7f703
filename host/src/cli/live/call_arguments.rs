use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// The arguments that say most about a call, the most telling first.
const TELLING: [&str; 15] = [
    "path",
    "file_path",
    "file",
    "command",
    "program",
    "url",
    "query",
    "question",
    "pattern",
    "agent",
    "task",
    "title",
    "key",
    "name",
    "skill",
];

/// Returns the argument of a call that says most about it: a known one, or the only one, if it is a text. Otherwise it is all
/// arguments as they are. Arguments that were cut for display are read up to the cut.
pub fn telling_argument(arguments: &str) -> String {
    let mut entries = Vec::new();
    let mut json = serde_json::Deserializer::from_str(arguments);
    let is_whole = EntriesSeed(&mut entries).deserialize(&mut json).is_ok();
    let text = |value: &Value| value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let known =
        TELLING.iter().find_map(|name| entries.iter().find(|(key, _)| key == name).and_then(|(_, value)| text(value)));
    let only = || match &entries[..] {
        [(_, value)] if is_whole => text(value),
        _ => None,
    };
    known.or_else(only).unwrap_or_else(|| arguments.to_owned())
}

/// Collects the entries of an object, also of one whose end is missing.
struct EntriesSeed<'a>(&'a mut Vec<(String, Value)>);

impl<'de> DeserializeSeed<'de> for EntriesSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntriesSeed<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(entry) = map.next_entry()? {
            self.0.push(entry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_telling_argument_stands_for_all() {
        for (arguments, shown) in [
            (r#"{"path":"notes.md"}"#, "notes.md"),
            (r#"{"text":"new","path":"a b.md"}"#, "a b.md"),
            (r#"{"path":"b.txt","content":"a long text that was c…"#, "b.txt"),
            (r#"{"question":"Which one?","options":[{"label":"a"}]}"#, "Which one?"),
            (r#"{"expression":"2+2"}"#, "2+2"),
            (r#"{"expression":"2+2…"#, r#"{"expression":"2+2…"#),
            (r#"{"a":"1","b":"2"}"#, r#"{"a":"1","b":"2"}"#),
            (r#"{"path":7}"#, r#"{"path":7}"#),
            (r#"{"path":" "}"#, r#"{"path":" "}"#),
            ("{}", "{}"),
            ("", ""),
            ("[1]", "[1]"),
            ("no json", "no json"),
        ] {
            assert_eq!(telling_argument(arguments), shown, "{arguments}");
        }
    }
}
