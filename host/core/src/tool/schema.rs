//! JSON Schema validation for tools that have no Rust type for their arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{error::cut, limits};

/// The keywords that [`InputSchema`] enforces.
pub const ENFORCED_KEYWORDS: [&str; 20] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "allOf",
    "anyOf",
    "oneOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
];

/// A JSON Schema whose every keyword is enforced. Keywords that the host does not know are refused, so that none is without
/// effect. Annotations (`title`, `description`, `default`, `examples`, `format`, `deprecated`, `$comment`) are allowed and
/// ignored.
///
/// ```
/// use serde_json::json;
/// use shelly_core::tool::InputSchema;
///
/// let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
/// let schema = InputSchema::new(&schema).unwrap();
/// assert_eq!(schema.check(&json!({"city": "Paris"})), Ok(()));
/// assert_eq!(schema.check(&json!({"city": 7})), Err("`city`: got a number, expected a string".into()));
/// assert!(InputSchema::new(&json!({"patternProperties": {}})).unwrap_err().contains("`patternProperties`"));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputSchema {
    kinds: Option<Vec<JsonType>>,
    /// All allowed values.
    values: Option<Vec<Value>>,
    properties: BTreeMap<String, InputSchema>,
    required: Vec<String>,
    others: AdditionalProperties,
    items: Option<Box<InputSchema>>,
    /// The minimum and maximum number of characters, items and properties.
    lengths: [(u64, Option<u64>); 3],
    minimum: Option<f64>,
    maximum: Option<f64>,
    above: Option<f64>,
    below: Option<f64>,
    all_of: Vec<InputSchema>,
    any_of: Vec<InputSchema>,
    one_of: Vec<InputSchema>,
}

/// The rule for properties that are not named.
#[derive(Debug, Clone, Default, PartialEq)]
enum AdditionalProperties {
    #[default]
    Any,
    None,
    Of(Box<InputSchema>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JsonType {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

const CHARS: usize = 0;
const ITEMS: usize = 1;
const PROPERTIES: usize = 2;

impl JsonType {
    const ALL: [(Self, &str); 7] = [
        (Self::Null, "null"),
        (Self::Boolean, "boolean"),
        (Self::Integer, "integer"),
        (Self::Number, "number"),
        (Self::String, "string"),
        (Self::Array, "array"),
        (Self::Object, "object"),
    ];

    fn of(name: &Value) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| name.as_str() == Some(known));
        found.map(|(kind, _)| *kind)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn fits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            (Self::Integer, Value::Number(number)) => {
                number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
            }
            _ => false,
        }
    }
}

impl InputSchema {
    /// Parses a schema.
    ///
    /// # Errors
    ///
    /// Returns the first keyword that the host cannot enforce, with its position.
    pub fn new(schema: &Value) -> Result<Self, String> {
        Self::at(schema, "", limits::TOOL_SCHEMA_DEPTH)
    }

    fn at(schema: &Value, path: &str, depth: usize) -> Result<Self, String> {
        let wrong = |what: String| match path {
            "" => what,
            path => format!("{path}: {what}"),
        };
        let words = match schema {
            Value::Object(words) => words,
            // Any value is allowed.
            Value::Bool(true) => return Ok(Self::default()),
            _ => return Err(wrong("a schema must be an object".into())),
        };
        let deeper = depth
            .checked_sub(1)
            .ok_or_else(|| wrong(format!("the schema has more than {} nested schemas", limits::TOOL_SCHEMA_DEPTH)))?;
        let below = |schema: &Value, word: &str| {
            Self::at(schema, &if path.is_empty() { word.to_owned() } else { format!("{path}.{word}") }, deeper)
        };
        let mut this = Self::default();
        for (word, value) in words {
            let not = |what: &str| wrong(format!("`{word}` must be {what}"));
            let list = || value.as_array().filter(|list| !list.is_empty()).ok_or_else(|| not("a non-empty list"));
            let several = || list()?.iter().map(|one| below(one, word)).collect::<Result<Vec<_>, _>>();
            let number = || value.as_f64().ok_or_else(|| not("a number"));
            let count = || value.as_u64().ok_or_else(|| not("a non-negative integer"));
            match word.as_str() {
                "type" => {
                    let one = std::slice::from_ref(value);
                    let names = value.as_array().map_or(one, Vec::as_slice);
                    let kinds: Option<Vec<_>> = names.iter().map(JsonType::of).collect();
                    let kinds = kinds.filter(|kinds| !kinds.is_empty());
                    let known: Vec<_> = JsonType::ALL.iter().map(|(_, name)| *name).collect();
                    this.kinds =
                        Some(kinds.ok_or_else(|| not(&format!("one or more of the types {}", known.join(", "))))?);
                }
                "enum" => this.values = Some(list()?.clone()),
                "const" => this.values = Some(vec![value.clone()]),
                "properties" => {
                    let named = value.as_object().ok_or_else(|| not("an object of schemas"))?;
                    let named = named.iter().map(|(name, schema)| Ok((name.clone(), below(schema, name)?)));
                    this.properties = named.collect::<Result<_, String>>()?;
                }
                "required" => {
                    let names = value.as_array().ok_or_else(|| not("a list of names"))?.iter();
                    let names: Option<_> = names.map(|name| name.as_str().map(str::to_owned)).collect();
                    this.required = names.ok_or_else(|| not("a list of names"))?;
                }
                "additionalProperties" => {
                    this.others = match value {
                        Value::Bool(true) => AdditionalProperties::Any,
                        Value::Bool(false) => AdditionalProperties::None,
                        schema => AdditionalProperties::Of(Box::new(below(schema, word)?)),
                    }
                }
                "items" => this.items = Some(Box::new(below(value, word)?)),
                "minLength" => this.lengths[CHARS].0 = count()?,
                "maxLength" => this.lengths[CHARS].1 = Some(count()?),
                "minItems" => this.lengths[ITEMS].0 = count()?,
                "maxItems" => this.lengths[ITEMS].1 = Some(count()?),
                "minProperties" => this.lengths[PROPERTIES].0 = count()?,
                "maxProperties" => this.lengths[PROPERTIES].1 = Some(count()?),
                "minimum" => this.minimum = Some(number()?),
                "maximum" => this.maximum = Some(number()?),
                "exclusiveMinimum" => this.above = Some(number()?),
                "exclusiveMaximum" => this.below = Some(number()?),
                "allOf" => this.all_of = several()?,
                "anyOf" => this.any_of = several()?,
                "oneOf" => this.one_of = several()?,
                "title" | "description" | "default" | "examples" | "format" | "deprecated" | "$comment" => {}
                word => {
                    let word = cut(word, limits::NAME_SHOWN_CHARS);
                    return Err(wrong(format!("unsupported JSON Schema keyword `{}`; remove it", word.escape_debug())));
                }
            }
        }
        // A schema that requires a property which it also forbids fits nothing.
        let unknown = this.required.iter().find(|name| !this.properties.contains_key(*name));
        match unknown.filter(|_| this.others == AdditionalProperties::None) {
            Some(name) => Err(wrong(format!("`{}` is required, but not a property", name.escape_debug()))),
            None => Ok(this),
        }
    }

    /// Checks a value against the schema.
    ///
    /// # Errors
    ///
    /// Returns the position of the first mismatch and its reason, for the author of the value.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.check_at(value, &JsonValuePath::Top)
    }

    fn check_at(&self, value: &Value, path: &JsonValuePath<'_>) -> Result<(), String> {
        let wrong = |what: String| Err(path.says(&what));
        if let Some(kinds) = &self.kinds
            && !kinds.iter().any(|kind| kind.fits(value))
        {
            let wanted: Vec<_> = kinds.iter().map(|kind| with_article(kind.name())).collect();
            return wrong(format!("got {}, expected {}", with_article(kind_of(value)), wanted.join(" or ")));
        }
        if let Some(values) = &self.values
            && !values.contains(value)
        {
            let list: Vec<_> = values.iter().map(Value::to_string).collect();
            return wrong(format!("expected one of {}", cut(&list.join(", "), 500)));
        }
        match value {
            Value::Object(map) => self.check_object(map, path)?,
            Value::Array(list) => {
                self.check_length(ITEMS, list.len(), "items", path)?;
                if let Some(items) = &self.items {
                    for (at, one) in list.iter().enumerate() {
                        items.check_at(one, &JsonValuePath::Item(path, at))?;
                    }
                }
            }
            Value::String(text) => self.check_length(CHARS, text.chars().count(), "characters", path)?,
            Value::Number(number) => self.check_number(number.as_f64().unwrap_or(f64::NAN), path)?,
            Value::Null | Value::Bool(_) => {}
        }
        self.all_of.iter().try_for_each(|one| one.check_at(value, path))?;
        let fitting = |all: &[Self]| all.iter().filter(|one| one.check_at(value, path).is_ok()).count();
        if !self.any_of.is_empty() && fitting(&self.any_of) == 0 {
            return wrong(format!("the value matches none of {} schemas", self.any_of.len()));
        }
        // Counted once: each of these schemas may have as many in turn.
        let count = fitting(&self.one_of);
        if !self.one_of.is_empty() && count != 1 {
            return wrong(format!("the value matches {count} of {} schemas, expected exactly one", self.one_of.len()));
        }
        Ok(())
    }

    fn check_object(&self, map: &Map<String, Value>, path: &JsonValuePath<'_>) -> Result<(), String> {
        if let Some(name) = self.required.iter().find(|name| !map.contains_key(*name)) {
            return Err(path.says(&format!("`{}` is missing", cut(name, limits::NAME_SHOWN_CHARS))));
        }
        self.check_length(PROPERTIES, map.len(), "properties", path)?;
        for (name, value) in map {
            let below = JsonValuePath::Property(path, name);
            match (self.properties.get(name), &self.others) {
                (Some(schema), _) => schema.check_at(value, &below)?,
                (None, AdditionalProperties::Any) => {}
                (None, AdditionalProperties::Of(schema)) => schema.check_at(value, &below)?,
                (None, AdditionalProperties::None) => {
                    let known: Vec<_> = self.properties.keys().map(|name| format!("`{name}`")).collect();
                    let known = if known.is_empty() { "none".into() } else { cut(&known.join(", "), 500) };
                    return Err(below.says(&format!("unknown property; known properties: {known}")));
                }
            }
        }
        Ok(())
    }

    fn check_length(&self, of: usize, length: usize, unit: &str, path: &JsonValuePath<'_>) -> Result<(), String> {
        let (fewest, most) = self.lengths[of];
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        if length < fewest {
            return Err(path.says(&format!("the value has {length} {unit}, the minimum is {fewest}")));
        }
        match most {
            Some(most) if length > most => {
                Err(path.says(&format!("the value has {length} {unit}, the maximum is {most}")))
            }
            _ => Ok(()),
        }
    }

    fn check_number(&self, number: f64, path: &JsonValuePath<'_>) -> Result<(), String> {
        let bounds = [
            (self.minimum, "at least", f64::ge as fn(&f64, &f64) -> bool),
            (self.maximum, "at most", f64::le),
            (self.above, "more than", f64::gt),
            (self.below, "less than", f64::lt),
        ];
        for (bound, word, holds) in bounds {
            if let Some(bound) = bound
                && !holds(&number, &bound)
            {
                return Err(path.says(&format!("got {number}, expected {word} {bound}")));
            }
        }
        Ok(())
    }
}

/// The path to a position within a JSON value.
enum JsonValuePath<'a> {
    Top,
    Property(&'a JsonValuePath<'a>, &'a str),
    Item(&'a JsonValuePath<'a>, usize),
}

impl JsonValuePath<'_> {
    fn path(&self) -> String {
        match self {
            Self::Top => String::new(),
            Self::Property(Self::Top, name) => cut(name, limits::NAME_SHOWN_CHARS),
            Self::Property(of, name) => format!("{}.{}", of.path(), cut(name, limits::NAME_SHOWN_CHARS)),
            Self::Item(of, at) => format!("{}[{at}]", of.path()),
        }
    }

    fn says(&self, what: &str) -> String {
        match self {
            Self::Top => what.into(),
            path => format!("`{}`: {what}", cut(&path.path(), 200).escape_debug()),
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => "null".into(),
        "integer" | "array" | "object" => format!("an {kind}"),
        kind => format!("a {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_schema_keyword_is_enforced() {
        for (schema, fits, fits_not, why) in [
            (json!({"type": "string"}), json!("a"), json!(null), "got null, expected a string"),
            (
                json!({"type": ["string", "integer"]}),
                json!(7.0),
                json!(7.5),
                "got a number, expected a string or an integer",
            ),
            (json!({"enum": ["a", 1]}), json!(1), json!("b"), r#"expected one of "a", 1"#),
            (json!({"const": {"a": [1]}}), json!({"a": [1]}), json!({"a": []}), r#"expected one of {"a":[1]}"#),
            (json!({"required": ["a"]}), json!({"a": null}), json!({}), "`a` is missing"),
            (
                json!({"properties": {"a": {"properties": {"b": {"type": "boolean"}}}}}),
                json!({"a": {"b": true}, "c": 1}),
                json!({"a": {"b": 1}}),
                "`a.b`: got a number, expected a boolean",
            ),
            (
                json!({"properties": {"a": {}}, "additionalProperties": false}),
                json!({"a": 1}),
                json!({"b": 1}),
                "`b`: unknown property; known properties: `a`",
            ),
            (
                json!({"properties": {"a": true}, "additionalProperties": {"type": "null"}}),
                json!({"a": 1, "b": null}),
                json!({"b": 1}),
                "`b`: got a number, expected null",
            ),
            (
                json!({"items": {"items": {"type": "array"}}}),
                json!([[[]], []]),
                json!([[[], 7]]),
                "`[0][1]`: got a number, expected an array",
            ),
            (json!({"minLength": 2}), json!("éé"), json!("é"), "the value has 1 characters, the minimum is 2"),
            (json!({"maxLength": 2}), json!("éé"), json!("ééé"), "the value has 3 characters, the maximum is 2"),
            (json!({"minItems": 1}), json!([1]), json!([]), "the value has 0 items, the minimum is 1"),
            (json!({"maxItems": 1}), json!([1]), json!([1, 2]), "the value has 2 items, the maximum is 1"),
            (json!({"minProperties": 1}), json!({"a": 1}), json!({}), "the value has 0 properties, the minimum is 1"),
            (json!({"maxProperties": 0}), json!({}), json!({"a": 1}), "the value has 1 properties, the maximum is 0"),
            (json!({"minimum": 1}), json!(1), json!(0.5), "got 0.5, expected at least 1"),
            (json!({"maximum": 1}), json!(1), json!(2), "got 2, expected at most 1"),
            (json!({"exclusiveMinimum": 1}), json!(1.5), json!(1), "got 1, expected more than 1"),
            (json!({"exclusiveMaximum": 1}), json!(0), json!(1), "got 1, expected less than 1"),
            (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!(2), json!(3), "got 3, expected at most 2"),
            (
                json!({"anyOf": [{"type": "string"}, {"minimum": 2}]}),
                json!(2),
                json!(1),
                "the value matches none of 2 schemas",
            ),
            (
                json!({"oneOf": [{"minimum": 1}, {"minimum": 2}]}),
                json!(1),
                json!(2),
                "the value matches 2 of 2 schemas, expected exactly one",
            ),
            (json!({"title": "t", "format": "date", "default": 1}), json!(1), json!(null), ""),
        ] {
            let read = InputSchema::new(&schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
            assert_eq!(read.check(&fits), Ok(()), "{schema} {fits}");
            let expected = if why.is_empty() { Ok(()) } else { Err(why.to_owned()) };
            assert_eq!(read.check(&fits_not), expected, "{schema} {fits_not}");
        }
    }

    #[test]
    fn enforced_keywords_are_known_to_the_schema() {
        for keyword in ENFORCED_KEYWORDS {
            // A value of the wrong type, so that the keyword itself is what is complained about.
            let read = InputSchema::new(&json!({ keyword: null }));
            assert!(!read.err().is_some_and(|why| why.contains("unsupported")), "{keyword}");
        }
        assert!(InputSchema::new(&json!({"pattern": "x"})).unwrap_err().contains("unsupported"));
    }

    #[test]
    fn unknown_schema_keyword_is_refused_with_its_path() {
        let deep = (0..=limits::TOOL_SCHEMA_DEPTH).fold(json!({}), |inner, _| json!({"items": inner}));
        for (schema, why) in [
            (json!([]), "a schema must be an object"),
            (json!({"$ref": "#/a"}), "unsupported JSON Schema keyword `$ref`; remove it"),
            (
                json!({"type": "text"}),
                "`type` must be one or more of the types null, boolean, integer, number, string, array, object",
            ),
            (
                json!({"type": []}),
                "`type` must be one or more of the types null, boolean, integer, number, string, array, object",
            ),
            (json!({"enum": []}), "`enum` must be a non-empty list"),
            (json!({"properties": {"a": {"pattern": "x"}}}), "a: unsupported JSON Schema keyword `pattern`; remove it"),
            (json!({"properties": {"a": {"items": 7}}}), "a.items: a schema must be an object"),
            (json!({"required": "a"}), "`required` must be a list of names"),
            (json!({"required": ["a"], "additionalProperties": false}), "`a` is required, but not a property"),
            (json!({"minLength": -1}), "`minLength` must be a non-negative integer"),
            (json!({"maximum": "1"}), "`maximum` must be a number"),
            (json!({"anyOf": [{"x": 1}]}), "anyOf: unsupported JSON Schema keyword `x`; remove it"),
        ] {
            let read = InputSchema::new(&schema).err().unwrap_or_default();
            assert_eq!(read, why, "{schema}");
        }
        let why = InputSchema::new(&deep).unwrap_err();
        assert!(why.ends_with(&format!("more than {} nested schemas", limits::TOOL_SCHEMA_DEPTH)), "{why}");
    }
}
