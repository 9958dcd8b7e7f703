//! Detection of keys that an object has twice. One parser takes the first value and another the last, so a rule might
//! check another value than the tool gets.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};

/// A key that an object within a JSON value has twice, whatever its escapes.
#[derive(Default)]
pub(crate) struct Twice(pub Option<String>);

impl<'de> Deserialize<'de> for Twice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Twice, D::Error> {
        from.deserialize_any(Twice::default())
    }
}

impl<'de> Visitor<'de> for Twice {
    type Value = Twice;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Twice, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Twice, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Twice, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Twice, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Twice, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Twice, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Twice, A::Error> {
        while let Some(Twice(inside)) = items.next_element()? {
            self.0 = self.0.or(inside);
        }
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Twice, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some((key, Twice(inside))) = fields.next_entry::<String, _>()? {
            self.0 = self.0.or(inside).or(keys.replace(key));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_json_keys_are_found_at_any_depth() {
        for (json, key) in [
            ("{}", None),
            (r#"{"a": 1, "b": {"a": 1}, "c": [{"a": null}, {"a": true}]}"#, None),
            (r#"[1, -1, 0.5, 1e300, 99999999999999999999, "a", "a"]"#, None),
            (r#"{"a": 1, "A": 1, "a ": 1}"#, None),
            (r#"{"a": 1, "b": 2, "a": 1}"#, Some("a")),
            (r#"{"p\u0061th": "/tmp", "path": "/etc"}"#, Some("path")),
            (r#"[{"b": [[{"": 0, "": 0}]]}]"#, Some("")),
            (r#"{"a": {"b": 1, "b": 2}, "c": 3}"#, Some("b")),
        ] {
            let Twice(found) = serde_json::from_str(json).unwrap();
            assert_eq!(found.as_deref(), key, "{json}");
        }
    }
}
