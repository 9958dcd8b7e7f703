use std::fmt;

use indexmap::IndexMap;
use percent_encoding::percent_decode_str;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;

/// A JSON object that keeps its order, because the order of properties tells a model which ones matter.
pub type JsonMap = IndexMap<String, JsonNode>;

/// JSON whose objects keep their order.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum JsonNode {
    /// An object, in the order in which its members came.
    Object(JsonMap),
    /// An array.
    List(Vec<Self>),
    /// A value without children.
    Leaf(Value),
}

impl Default for JsonNode {
    /// Returns the schema that admits everything.
    fn default() -> Self {
        Self::Object(JsonMap::new())
    }
}

impl JsonNode {
    /// Returns the text if this is a string.
    pub fn text(&self) -> Option<&str> {
        if let Self::Leaf(Value::String(text)) = self { Some(text) } else { None }
    }

    /// Returns the members if this is an object.
    pub fn map(&self) -> Option<&JsonMap> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// Returns the elements of an array; none for anything else.
    pub fn list(&self) -> &[Self] {
        if let Self::List(list) = self { list } else { &[] }
    }

    /// Returns `true` for an object or a Boolean, the two forms of a schema.
    pub fn is_schema(&self) -> bool {
        matches!(self, Self::Object(_) | Self::Leaf(Value::Bool(_)))
    }

    /// Serializes the node.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the target of a JSON pointer in a fragment, such as `#/$defs/a`. Fetches nothing from elsewhere.
    pub fn find(&self, target: &str) -> Option<&Self> {
        let pointer = target.strip_prefix('#')?;
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |node, step| match node {
            Self::Object(map) => map.get(&Self::step(step)),
            Self::List(list) => list.get(step.parse::<usize>().ok()?),
            Self::Leaf(_) => None,
        })
    }

    /// Decodes one step of a pointer to the key that it names.
    pub fn step(step: &str) -> String {
        percent_decode_str(step).decode_utf8_lossy().replace("~1", "/").replace("~0", "~")
    }

    /// Estimates the size of the serialized node in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Object(map) => map.iter().map(|(key, value)| key.len() + 4 + value.bytes()).sum::<usize>() + 2,
            Self::List(list) => list.iter().map(|value| value.bytes() + 1).sum::<usize>() + 2,
            Self::Leaf(Value::String(text)) => text.len() + 2,
            Self::Leaf(_) => 4,
        }
    }
}

impl From<&str> for JsonNode {
    fn from(text: &str) -> Self {
        Self::Leaf(text.into())
    }
}

impl<'de> Deserialize<'de> for JsonNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonNodeVisitor)
    }
}

struct JsonNodeVisitor;

impl<'de> Visitor<'de> for JsonNodeVisitor {
    type Value = JsonNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<JsonNode, A::Error> {
        let mut map = JsonMap::new();
        while let Some((key, value)) = entries.next_entry()? {
            map.insert(key, value);
        }
        Ok(JsonNode::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<JsonNode, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(JsonNode::List(list))
    }

    fn visit_str<E>(self, text: &str) -> Result<JsonNode, E> {
        Ok(JsonNode::Leaf(text.into()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<JsonNode, E> {
        Ok(JsonNode::Leaf(value.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<JsonNode, E> {
        Ok(JsonNode::Leaf(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<JsonNode, E> {
        Ok(JsonNode::Leaf(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<JsonNode, E> {
        Ok(JsonNode::Leaf(number.into()))
    }

    fn visit_unit<E>(self) -> Result<JsonNode, E> {
        Ok(JsonNode::Leaf(Value::Null))
    }
}
