//! JSON that is parsed one level at a time. The conversion to a component's values needs what a parsed [`serde_json::Value`]
//! has lost: the digits of a number as they are written, the order of the keys of an object, and duplicate keys.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use shelly_core::{error::cut, limits};

/// A JSON value whose elements and fields are not parsed yet.
#[derive(Debug)]
pub enum ShallowJson<'a> {
    Null,
    Bool(bool),
    /// A number, as it is written.
    Number(&'a str),
    String(String),
    List(Vec<&'a RawValue>),
    /// The fields in the order in which they are written, each name once.
    Object(Vec<(String, &'a RawValue)>),
}

/// The only mistake that a text with the syntax of JSON can have: half of a surrogate pair.
const HALF_PAIR: &str = "a string with half of a surrogate pair, such as \\ud83d alone; write the whole character";

impl<'a> ShallowJson<'a> {
    /// Parses the outermost level of a value that has the syntax of JSON.
    ///
    /// # Errors
    ///
    /// The mistake, for a message: a string that is no Unicode, or a name that an object has twice.
    pub fn parse(raw: &'a RawValue) -> Result<Self, String> {
        let text = raw.get();
        let parsed = match text.as_bytes().first() {
            Some(b'{') => serde_json::from_str(text).map(|JsonFields(fields)| Self::Object(fields)),
            Some(b'[') => serde_json::from_str(text).map(Self::List),
            Some(b'"') => serde_json::from_str(text).map(Self::String),
            Some(b't') => Ok(Self::Bool(true)),
            Some(b'f') => Ok(Self::Bool(false)),
            Some(b'n') => Ok(Self::Null),
            _ => Ok(Self::Number(text)),
        };
        let parsed = parsed.map_err(|_| HALF_PAIR.to_owned())?;
        if let Self::Object(fields) = &parsed {
            let mut seen = HashSet::new();
            for (name, _) in fields {
                if !seen.insert(name.as_str()) {
                    return Err(format!("duplicate key `{}`", cut(name, limits::NAME_SHOWN_CHARS)));
                }
            }
        }
        Ok(parsed)
    }

    /// Returns the name and the value of the only field, if this is an object with one field.
    pub fn only_field(&self) -> Option<(&str, &'a RawValue)> {
        match self {
            Self::Object(fields) if let [(name, value)] = fields.as_slice() => Some((name.as_str(), *value)),
            _ => None,
        }
    }
}

/// Writes the value for a message. What a list or an object contains is left out.
impl fmt::Display for ShallowJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &str| cut(text, limits::NAME_SHOWN_CHARS);
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(it) => write!(f, "{it}"),
            Self::Number(digits) => f.write_str(&shown(digits)),
            Self::String(text) => {
                // One more character, so that what is cut is marked.
                let start = text.char_indices().nth(limits::NAME_SHOWN_CHARS + 1).map_or(text.len(), |(end, _)| end);
                f.write_str(&shown(&serde_json::Value::from(&text[..start]).to_string()))
            }
            Self::List(list) => write!(f, "a list of {}", list.len()),
            Self::Object(fields) => match fields.as_slice() {
                [] => f.write_str("{}"),
                [(name, _)] => write!(f, "{{{}: …}}", serde_json::Value::from(shown(name))),
                fields => write!(f, "an object of {} fields", fields.len()),
            },
        }
    }
}

/// The fields of an object, as they are written.
struct JsonFields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for JsonFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonFieldsVisitor;

        impl<'de> Visitor<'de> for JsonFieldsVisitor {
            type Value = JsonFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonFields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry::<String, &'de RawValue>()? {
                    fields.push(field);
                }
                Ok(JsonFields(fields))
            }
        }

        deserializer.deserialize_map(JsonFieldsVisitor)
    }
}
