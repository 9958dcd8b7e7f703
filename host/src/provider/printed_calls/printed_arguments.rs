//! Arguments that are printed one by one, as text: what they are is said by the schema of the tool.

use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::literal;
use crate::provider::tool_names::ToolNames;

/// The arguments of one call.
pub struct PrintedArguments {
    /// The schema of the tool, if it can be read.
    schema: Value,
    /// JSON, after `{`.
    json: String,
}

impl PrintedArguments {
    /// None yet, of this tool.
    pub fn new(names: &ToolNames, tool: &str) -> Self {
        let schema = names.schema(tool).and_then(|schema| serde_json::from_str(schema.get()).ok());
        Self { schema: schema.unwrap_or_default(), json: String::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.json.is_empty()
    }

    /// Adds a value as it was printed. `about` is what its element says of it beside its name.
    pub fn add(&mut self, key: &str, text: &str, about: &str) {
        // One line break belongs to the form, not to the text.
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

    /// The types that a property may have, as far as its schema says so at once or in one of several ways.
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

/// The JSON that this text is, or nearly is.
fn value_of(text: &str) -> Option<String> {
    let text = text.trim();
    if serde_json::from_str::<&RawValue>(text).is_ok() {
        return Some(text.to_owned());
    }
    let mut json = String::new();
    // What ends a word has to be there.
    match literal::read(&format!("{text}\n"), &mut json) {
        literal::LiteralOutcome::Whole(bytes) if bytes >= text.len() => Some(json),
        _ => None,
    }
}

fn string(text: &str) -> String {
    to_raw_value(text).map(|json| json.get().to_owned()).unwrap_or_default()
}
