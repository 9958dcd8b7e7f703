//! A check whether a schema is acceptable unchanged: one pass that builds nothing.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, value::RawValue};

use super::dialect::{SchemaDialect, SchemaRoot};
use shelly_core::json_schema::{JsonNode, NOT_AT_TOP};

/// Returns `true` if nothing in the schema has to change. Returns `false` for invalid JSON.
pub fn is_plain(schema: &RawValue, dialect: SchemaDialect, of: SchemaRoot) -> bool {
    let root = if of == SchemaRoot::Object { ExpectedSchemaNode::Top(dialect) } else { ExpectedSchemaNode::Schema };
    let mut json = serde_json::Deserializer::from_str(schema.get());
    root.deserialize(&mut json).is_ok() && json.end().is_ok()
}

/// The kind of node expected at a position of a schema. Any other node is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedSchemaNode {
    /// The schema of a tool's arguments.
    Top(SchemaDialect),
    /// A schema in Gemini's dialect.
    Schema,
    /// A schema in Gemini's dialect, or a Boolean.
    SchemaOrBool,
    /// Names with schemas in Gemini's dialect.
    Named,
    /// A list of schemas in Gemini's dialect.
    Each,
    /// The word `object`.
    ObjectWord,
    /// The name of a type, or a list of such names.
    Type,
    /// A format that Gemini knows.
    Format,
    /// A list of values that Gemini accepts as choices.
    Choices,
    /// One value of such a list.
    Choice,
    /// A list of names.
    Words,
    Text,
    Number,
    Bool,
    Any,
    /// An object with any content.
    AnyMap,
}

impl ExpectedSchemaNode {
    /// Returns the node expected under a keyword that Gemini's documentation lists for either of its two schema forms;
    /// `None` for other keywords, which are dropped. `propertyOrdering` is dropped too, because it can contradict the
    /// properties.
    pub fn of_gemini(keyword: &str) -> Option<Self> {
        Some(match keyword {
            "type" => Self::Type,
            "format" => Self::Format,
            "title" | "description" | "pattern" => Self::Text,
            "minimum" | "maximum" | "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
            | "maxProperties" => Self::Number,
            "nullable" => Self::Bool,
            "default" => Self::Any,
            "enum" => Self::Choices,
            "items" => Self::Schema,
            "prefixItems" | "anyOf" | "oneOf" => Self::Each,
            "properties" => Self::Named,
            "additionalProperties" => Self::SchemaOrBool,
            "required" => Self::Words,
            _ => return None,
        })
    }

    fn of_common(keyword: &str) -> Option<Self> {
        match keyword {
            "type" => Some(Self::ObjectWord),
            "properties" => Some(Self::AnyMap),
            keyword => (!NOT_AT_TOP.contains(&keyword)).then_some(Self::Any),
        }
    }

    fn under(self, keyword: &str) -> Option<Self> {
        match self {
            Self::Top(SchemaDialect::Common) => Self::of_common(keyword),
            Self::Top(SchemaDialect::Gemini) if keyword == "type" => Some(Self::ObjectWord),
            Self::Top(SchemaDialect::Gemini) if NOT_AT_TOP.contains(&keyword) => None,
            _ => Self::of_gemini(keyword),
        }
    }

    /// Returns `true` if a node without schemas inside fits here.
    pub fn takes(self, node: &JsonNode) -> bool {
        match (self, node) {
            (Self::Any, _) => true,
            (Self::Choice, JsonNode::Leaf(Value::Number(_))) | (Self::Number, JsonNode::Leaf(Value::Number(_))) => true,
            (Self::Bool | Self::SchemaOrBool, JsonNode::Leaf(Value::Bool(_))) => true,
            (Self::Words, JsonNode::List(words)) => words.iter().all(|word| word.text().is_some()),
            (Self::Type, JsonNode::List(words)) => !words.is_empty() && words.iter().all(|word| self.takes(word)),
            (_, JsonNode::Leaf(Value::String(text))) => self.takes_text(text),
            _ => false,
        }
    }

    fn takes_text(self, text: &str) -> bool {
        match self {
            Self::ObjectWord => text == "object",
            Self::Type => {
                matches!(text, "object" | "array" | "string" | "integer" | "number" | "boolean" | "null")
            }
            Self::Format => {
                matches!(text, "date-time" | "date" | "time" | "duration" | "int32" | "int64" | "float" | "double")
            }
            Self::Choice => !text.is_empty(),
            Self::Text | Self::Any => true,
            _ => false,
        }
    }
}

impl<'de> DeserializeSeed<'de> for ExpectedSchemaNode {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self == Self::Any {
            deserializer.deserialize_ignored_any(IgnoredAny).map(drop)
        } else {
            deserializer.deserialize_any(self)
        }
    }
}

/// Node types without a method here do not fit anywhere.
impl<'de> Visitor<'de> for ExpectedSchemaNode {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }

    /// Fails for a name with an escape, because it cannot be borrowed. The schema is then rebuilt, at the cost of a copy.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let unfit = || A::Error::custom("it does not fit");
        match self {
            Self::AnyMap => {
                while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            Self::Top(_) | Self::Schema | Self::SchemaOrBool => {}
            _ => return Err(unfit()),
        }
        let (mut typed, mut names, mut required) = (false, None, Vec::new());
        while let Some(keyword) = entries.next_key::<&str>()? {
            match self.under(keyword).ok_or_else(unfit)? {
                Self::Named => names = Some(entries.next_value_seed(SchemaNamesVisitor)?),
                Self::Words => required = entries.next_value::<Vec<&str>>()?,
                place => {
                    entries.next_value_seed(place)?;
                    typed |= place == Self::ObjectWord;
                    if place == Self::AnyMap {
                        names = Some(Vec::new());
                    }
                }
            }
        }
        if matches!(self, Self::Top(_)) && !(typed && names.is_some()) {
            return Err(unfit());
        }
        let mut names = names.unwrap_or_default();
        names.sort_unstable();
        let twice = required.len() > names.len();
        if twice || required.iter().any(|name| names.binary_search(name).is_err()) {
            return Err(unfit());
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let place = match self {
            Self::Each => Self::Schema,
            Self::Choices => Self::Choice,
            Self::Type => Self::Type,
            _ => return Err(A::Error::custom("it does not fit")),
        };
        let mut is_empty = true;
        while elements.next_element_seed(place)?.is_some() {
            is_empty = false;
        }
        if is_empty { Err(A::Error::custom("it is empty")) } else { Ok(()) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if self.takes_text(text) { Ok(()) } else { Err(E::custom("it does not fit")) }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        let fits = matches!(self, Self::Bool | Self::SchemaOrBool);
        if fits { Ok(()) } else { Err(E::custom("it does not fit")) }
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        if matches!(self, Self::Number | Self::Choice) { Ok(()) } else { Err(E::custom("it does not fit")) }
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.visit_u64(0)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.visit_u64(0)
    }
}

/// A visitor that checks named schemas like [`ExpectedSchemaNode::Named`] and returns the names.
struct SchemaNamesVisitor;

impl<'de> DeserializeSeed<'de> for SchemaNamesVisitor {
    type Value = Vec<&'de str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SchemaNamesVisitor {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("schemas by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = entries.next_key()? {
            entries.next_value_seed(ExpectedSchemaNode::Schema)?;
            names.push(name);
        }
        Ok(names)
    }
}
