//! The types of a component as JSON Schema (2020-12), for the values that it accepts and returns.

use serde_json::{Map, Value, json};

use super::wit_types::{WitCase, WitField, WitInt, WitType, WitTypeKind};

/// Returns the schema of an object with these fields. `about` returns the description of a field.
pub fn object(fields: &[WitField], about: impl Fn(&str) -> Option<String>) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = schema(&field.shape);
        if let Some(text) = about(&field.name) {
            schema["description"] = text.into();
        }
        properties.insert(field.name.clone(), schema);
    }
    let required: Vec<_> = fields.iter().filter(|it| !it.shape.is_option()).map(|it| it.name.as_str()).collect();
    let mut object = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// Returns the schema of the values of a type.
pub fn schema(shape: &WitType) -> Value {
    match &shape.form {
        WitTypeKind::Bool => json!({ "type": "boolean" }),
        WitTypeKind::Int(int) => integer(*int),
        WitTypeKind::F32 | WitTypeKind::F64 => {
            json!({ "anyOf": [{ "type": "number" }, { "type": "string", "enum": NOT_NUMBERS }] })
        }
        WitTypeKind::Char => json!({ "type": "string", "minLength": 1, "maxLength": 1 }),
        WitTypeKind::String => json!({ "type": "string" }),
        WitTypeKind::List(element) | WitTypeKind::Stream(element) if shape.is_bytes() => json!({ "anyOf": [
            { "type": "string", "contentEncoding": "base64" },
            { "type": "array", "items": schema(element) },
        ] }),
        WitTypeKind::List(element) | WitTypeKind::Stream(element) => {
            json!({ "type": "array", "items": schema(element) })
        }
        WitTypeKind::Future(value) => schema(value),
        WitTypeKind::Map { key, value } if key.form == WitTypeKind::String => {
            json!({ "type": "object", "additionalProperties": schema(value) })
        }
        WitTypeKind::Map { key, value } => {
            let about = "Pairs of a key and its value; each key once";
            json!({ "type": "array", "items": tuple([&**key, &**value]), "description": about })
        }
        WitTypeKind::Tuple(parts) => tuple(parts),
        WitTypeKind::Record(fields) => object(fields, |_| None),
        WitTypeKind::Variant(cases) => variant(cases),
        WitTypeKind::Enum(cases) => json!({ "type": "string", "enum": cases }),
        WitTypeKind::Flags(flags) => {
            json!({ "type": "array", "items": { "type": "string", "enum": flags }, "uniqueItems": true })
        }
        WitTypeKind::Option(inner) if inner.is_option() => {
            json!({ "anyOf": [only("some", schema(inner)), { "type": "null" }] })
        }
        WitTypeKind::Option(inner) => json!({ "anyOf": [schema(inner), { "type": "null" }] }),
        WitTypeKind::Result { ok, error } => {
            let payload =
                |payload: &Option<Box<WitType>>| payload.as_ref().map_or(json!({ "type": "null" }), |it| schema(it));
            json!({ "anyOf": [only("ok", payload(ok)), only("error", payload(error))] })
        }
        WitTypeKind::Own(resource) => {
            let text = format!(
                "A handle of `{resource}` that another call returned, such as `{resource}#1-…`; the call takes it over"
            );
            json!({ "type": "string", "description": text })
        }
        WitTypeKind::Borrow(resource) => {
            let text = format!("A handle of `{resource}` that another call returned, such as `{resource}#1-…`");
            json!({ "type": "string", "description": text })
        }
    }
}

/// Returns the schema of a list with exactly one value for each of these types.
fn tuple<'a>(parts: impl IntoIterator<Item = &'a WitType>) -> Value {
    let items: Vec<_> = parts.into_iter().map(schema).collect();
    let count = items.len();
    json!({ "type": "array", "prefixItems": items, "minItems": count, "maxItems": count })
}

/// The floating point values that are not JSON numbers.
pub const NOT_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The largest integer that every reader of JSON represents exactly: larger ones are returned as strings.
pub const SAFE: i128 = 1 << 53;

fn integer(int: WitInt) -> Value {
    let (_, least, most) = int.facts();
    let bounded = match (u64::try_from(most), i64::try_from(least)) {
        (Ok(most), Ok(least)) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        _ => json!({ "type": "integer" }),
    };
    match int.is_large() {
        true => json!({
            "anyOf": [bounded, { "type": "string", "pattern": "^-?[0-9]{1,20}$" }],
            "description": "A number, or a string of decimal digits; returned as a string beyond 2^53",
        }),
        false => bounded,
    }
}

/// Returns the schema of an object with this one field.
fn only(name: &str, schema: Value) -> Value {
    let properties = Map::from_iter([(name.to_owned(), schema)]);
    json!({ "type": "object", "properties": properties, "required": [name], "additionalProperties": false })
}

/// Returns the schema of a variant: a case without a payload is its name, one with a payload an object with that key.
fn variant(cases: &[WitCase]) -> Value {
    let bare: Vec<_> = cases.iter().filter(|case| case.payload.is_none()).map(|case| case.name.as_str()).collect();
    let of_names = json!({ "type": "string", "enum": bare });
    let loaded = cases.iter().filter_map(|case| Some(only(&case.name, schema(case.payload.as_ref()?))));
    let all: Vec<_> = (!bare.is_empty()).then_some(of_names).into_iter().chain(loaded).collect();
    json!({ "anyOf": all })
}
