//! Arguments that are printed one by one as text. Their types come from the schema of the tool.

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::literal;
use crate::tool_names::ToolNames;

/// The arguments of one call.
pub struct PrintedArguments {
    /// The schema of the tool; null if it cannot be parsed.
    schema: Value,
    /// The JSON of the arguments, without the braces.
    json: String,
}

impl PrintedArguments {
    /// Creates an empty set of arguments for this tool.
    pub fn new(names: &ToolNames, tool: &str) -> Self {
        let schema = names.schema(tool).and_then(|schema| serde_json::from_str(schema.get()).ok());
        Self { schema: schema.unwrap_or_default(), json: String::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Adds a value as it was printed. `about` contains the other attributes of its element.
    pub fn add(&mut self, key: &str, text: &str, about: &str) {
        // One line break on each side belongs to the form, not to the value.
        let text = text.strip_prefix('\n').unwrap_or(text);
        let text = text.strip_suffix('\n').unwrap_or(text);
        let kinds = match about {
            about if about.contains("string=\"true\"") => vec!["string"],
            about if about.contains("string=\"false\"") => vec![],
            _ => self.kinds(key),
        };
        let is_null = text.trim() == "null" && kinds.contains(&"null");
        let is_text = kinds.contains(&"string") && !is_null;
        let json = value_of(text).filter(|_| !is_text).unwrap_or_else(|| string(text));
        self.add_json(key, json);
    }

    /// Adds a value that is JSON.
    pub fn add_json(&mut self, key: &str, json: String) {
        if !self.json.is_empty() {
            self.json.push(',');
        }
        self.json.push_str(&string(key));
        self.json.push(':');
        self.json.push_str(&json);
    }

    pub fn into_json(self) -> String {
        format!("{{{}}}", self.json)
    }

    /// Returns the possible types of a property, as far as its schema names them directly or in the alternatives of `anyOf`
    /// and `oneOf`.
    fn kinds(&self, key: &str) -> Vec<&str> {
        let Some(schema) = self.schema.get("properties").and_then(|properties| properties.get(key)) else {
            return Vec::new();
        };
        let ways = ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
        let mut kinds = Vec::new();
        for schema in ways.chain([schema]) {
            match schema.get("type") {
                Some(Value::String(kind)) => kinds.push(kind.as_str()),
                Some(Value::Array(list)) => kinds.extend(list.iter().filter_map(Value::as_str)),
                _ if schema.get("enum").is_some_and(|choices| choices[0].is_string()) => kinds.push("string"),
                _ => {}
            }
        }
        kinds
    }
}

/// Returns the JSON value of a text that is JSON or nearly JSON.
fn value_of(text: &str) -> Option<String> {
    let text = text.trim();
    if serde_json::from_str::<&RawValue>(text).is_ok() {
        return Some(text.to_owned());
    }
    let mut json = String::new();
    // The parser needs a character after a word to see its end.
    match literal::read(&format!("{text}\n"), &mut json) {
        literal::LiteralOutcome::Whole(bytes) if bytes >= text.len() => Some(json),
        _ => None,
    }
}

fn string(text: &str) -> String {
    to_raw_value(text).map(|json| json.get().to_owned()).unwrap_or_default()
}
