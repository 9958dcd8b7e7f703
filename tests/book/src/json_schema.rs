//! The keys of a config, from the JSON Schema of the config.

use serde_json::{Map, Value, json};

use crate::{
    markdown::{anchor, plural, sentence, table},
    page::ReferencePage,
};

const INTRODUCTION: &str = "\
Every key of a config, with its type, its default and its meaning. A key without a default in the table can be left out, unless \
its row says that it is required. An unknown key is refused. [The config](config.md) shows all of them in one file, with \
examples.";

/// Returns the page of all keys of a config.
pub fn page(schema: &Value, source: &str) -> ReferencePage {
    let mut reference = SchemaReference { definitions: schema["$defs"].as_object(), used: Vec::new() };
    let mut text = format!("# Config reference\n\n{INTRODUCTION}\n\n## The file\n\n{}\n", reference.keys(schema));
    let mut at = 0;
    while at < reference.used.len() {
        let name = reference.used[at].clone();
        let definition = reference.definitions.and_then(|all| all.get(&name));
        let definition = definition.unwrap_or_else(|| panic!("the schema has no definition `{name}`"));
        text.push_str(&format!("## {name}\n\n{}\n", reference.section(definition)));
        at += 1;
    }
    ReferencePage::new("config-reference.md", source, &text)
}

/// The definitions of a schema, and those that the page has named so far, in order.
struct SchemaReference<'a> {
    definitions: Option<&'a Map<String, Value>>,
    used: Vec<String>,
}

impl SchemaReference<'_> {
    /// Returns the text about one definition: its description, and a table of its keys or values.
    fn section(&mut self, schema: &Value) -> String {
        let about = description(schema);
        let shape = if schema["properties"].is_object() {
            self.keys(schema)
        } else if let Some(cases) = cases(schema).filter(|cases| cases.iter().any(|case| !description(case).is_empty()))
        {
            let rows: Vec<_> = cases.iter().map(|case| vec![self.words(case), description(case)]).collect();
            table(&["value", "meaning"], &rows)
        } else {
            format!("Value: {}.\n", self.words(schema))
        };
        if about.is_empty() { shape } else { format!("{about}\n\n{shape}") }
    }

    /// Returns the table of the keys of an object.
    fn keys(&mut self, schema: &Value) -> String {
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let mut rows = Vec::new();
        for (key, of) in properties {
            let default = match of.get("default") {
                Some(Value::Null) | None if required.contains(&key.as_str()) => "required".to_owned(),
                Some(Value::Null) | None => String::new(),
                // As if it were left out.
                Some(value) if [json!(""), json!([]), json!({})].contains(value) => String::new(),
                Some(value) => format!("`{}`", as_yaml(value)),
            };
            rows.push(vec![format!("`{key}`"), self.words(of), default, description(of)]);
        }
        let mut text = table(&["key", "type", "default", "meaning"], &rows);
        if schema["additionalProperties"].is_object() {
            text.push_str(&format!("\nFurther keys: {}.\n", self.words(&schema["additionalProperties"])));
        }
        text
    }

    /// Returns a type in words. `null` is left out: it says what a key without a value says.
    fn words(&mut self, schema: &Value) -> String {
        if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            if !self.used.iter().any(|known| known == name) {
                self.used.push(name.to_owned());
            }
            return format!("[{name}](#{})", anchor(name));
        }
        if let Some(value) = schema.get("const") {
            return format!("`{}`", as_yaml(value));
        }
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<_> = values.iter().filter(|value| !value.is_null()).collect();
            return values.iter().map(|value| format!("`{}`", as_yaml(value))).collect::<Vec<_>>().join(", ");
        }
        if let Some(cases) = cases(schema) {
            let mut words: Vec<String> = Vec::new();
            for case in cases.iter().filter(|case| case["type"] != "null") {
                let word = self.words(case);
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            return words.join(" or ");
        }
        let types: Vec<_> = match &schema["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|ty| *ty != "null").collect(),
            Value::String(ty) => vec![ty.as_str()],
            _ if schema["properties"].is_object() => vec!["object"],
            _ => return "any value".to_owned(),
        };
        let words = types.into_iter().map(|ty| self.typed(ty, schema)).collect::<Vec<_>>().join(" or ");
        let examples = schema["examples"].as_array().into_iter().flatten();
        let examples: Vec<_> = examples.map(|value| format!("`{}`", as_yaml(value))).collect();
        let examples = if examples.is_empty() { String::new() } else { format!(" such as {}", examples.join(", ")) };
        let bounds = schema["$comment"].as_str().map(|bounds| format!(": {bounds}")).unwrap_or_default();
        format!("{words}{examples}{bounds}")
    }

    fn typed(&mut self, ty: &str, schema: &Value) -> String {
        match ty {
            "array" if schema["items"].is_object() => format!("list of {}", plural(&self.words(&schema["items"]))),
            "array" => "list".to_owned(),
            "object" if schema["additionalProperties"].is_object() && !schema["properties"].is_object() => {
                format!("map from names to {}", plural(&self.words(&schema["additionalProperties"])))
            }
            "object" if schema["properties"].is_object() => {
                let keys: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
                let keys: Vec<_> = keys.into_iter().map(|(key, of)| format!("`{key}`: {}", self.words(of))).collect();
                format!("object with {}", keys.join(", "))
            }
            "object" => "map".to_owned(),
            "integer" => format!("whole number{}", range(schema)),
            "number" => format!("number{}", range(schema)),
            "boolean" => "`true` or `false`".to_owned(),
            ty => ty.to_owned(),
        }
    }
}

/// Returns the alternatives of a schema.
fn cases(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf", "allOf"].iter().find_map(|key| schema[*key].as_array())
}

/// Returns the range of a number, if the schema bounds it on both sides or from above. That it is not negative goes without
/// saying.
fn range(schema: &Value) -> String {
    let number = |key: &str| schema.get(key).filter(|value| value.is_number());
    match (number("minimum"), number("maximum")) {
        (Some(least), Some(most)) => format!(", {least} to {most}"),
        (None, Some(most)) => format!(", at most {most}"),
        (Some(least), None) if least.as_f64().is_some_and(|least| least > 0.0) => format!(", at least {least}"),
        _ => String::new(),
    }
}

/// Returns the description of a schema, with its paragraphs on one line.
fn description(schema: &Value) -> String {
    sentence(schema["description"].as_str().unwrap_or_default()).replace(". left out", ". Left out")
}

/// Returns a value as a config has it: a string that needs no quotes has none.
fn as_yaml(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() => text.clone(),
        value => value.to_string(),
    }
}
