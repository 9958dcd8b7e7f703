//! Conversion of schemas from unknown authors to 2020-12.

use std::collections::HashSet;

use serde_json::{Number, Value};

use super::{
    check::{anchors, fits},
    keywords::{KeywordShape, TYPES, is_anchor, visit},
    node::{JsonMap, JsonNode},
    pattern,
};

/// The only dialect that a schema may name, because schemas are converted to it.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Converts a schema to 2020-12. Drops everything without a meaning there, or without one that can be guessed.
pub fn bring(schema: JsonNode) -> JsonNode {
    let mut brought = of_schema(schema);
    let before = brought.clone();
    let (anchors, id) = (anchors(&before), before.map().and_then(|map| map.get("$id")).and_then(JsonNode::text));
    visit(&mut brought, &mut |map| {
        let Some(target) = map.get("$ref").and_then(JsonNode::text) else { return };
        match followed(&before, &anchors, id, target) {
            Some(target) => drop(map.insert("$ref".into(), target.as_str().into())),
            None => drop(map.shift_remove("$ref")),
        }
    });
    brought
}

/// Returns the target of a reference within this document; `None` if there is none.
fn followed(root: &JsonNode, anchors: &HashSet<String>, id: Option<&str>, target: &str) -> Option<String> {
    let own = id.map(|id| id.trim_end_matches('#')).filter(|id| !id.is_empty());
    let target = own.and_then(|id| target.strip_prefix(id)).unwrap_or(target);
    let target = if target.is_empty() { "#" } else { target };
    let leads = |target: &str| root.find(target).is_some_and(JsonNode::is_schema);
    if leads(target) || target.strip_prefix('#').is_some_and(|name| anchors.contains(name)) {
        return Some(target.into());
    }
    // Positions in a list under `items` are now under `prefixItems`.
    let moved = target.replace("/items/", "/prefixItems/");
    leads(&moved).then_some(moved)
}

fn of_schema(node: JsonNode) -> JsonNode {
    match node {
        JsonNode::Object(map) => JsonNode::Object(of_object(map)),
        JsonNode::Leaf(Value::Bool(_)) => node,
        // `{"city": "string"}`
        JsonNode::Leaf(Value::String(text)) => match types(&text) {
            Some(types) => JsonNode::Object(of_object(types.map(|types| ("type".into(), types)).into_iter().collect())),
            None => JsonNode::Object(JsonMap::from_iter([("description".into(), text.as_str().into())])),
        },
        _ => JsonNode::default(),
    }
}

fn of_object(mut map: JsonMap) -> JsonMap {
    modern_bounds(&mut map);
    modern_items(&mut map);
    modern_dependencies(&mut map);
    schemas_among_types(&mut map);
    modern_names(&mut map);
    require_children(&mut map);
    let mut brought = JsonMap::new();
    for (keyword, value) in map {
        let value = match (keyword.as_str(), KeywordShape::under(&keyword)) {
            ("$schema", _) if value.text().is_none_or(|text| text.trim_end_matches('#') != DIALECT) => None,
            // Only a validator needs the meaning of these keywords.
            ("$vocabulary" | "$dynamicRef" | "$dynamicAnchor" | "$recursiveAnchor", _) => None,
            (_, Some(shape)) => of_keyword(shape, value),
            (_, None) => Some(value),
        };
        if let Some(value) = value {
            brought.insert(keyword, value);
        }
    }
    // Some vendors refuse an array without `items`.
    let is_array = |kind: &JsonNode| kind.text() == Some("array");
    let has_array = brought.get("type").is_some_and(|kind| is_array(kind) || kind.list().iter().any(is_array));
    if has_array && !brought.contains_key("items") {
        brought.insert("items".into(), JsonNode::default());
    }
    brought
}

/// Converts the value of a keyword; `None` if it is dropped.
fn of_keyword(shape: KeywordShape, node: JsonNode) -> Option<JsonNode> {
    match (shape, node) {
        (KeywordShape::Schema, JsonNode::Leaf(Value::String(text))) if is_flag(&text).is_some() => is_flag(&text),
        (KeywordShape::Schema, JsonNode::Leaf(Value::String(text))) => {
            types(&text).flatten().map(|_| of_schema(text.as_str().into()))
        }
        (KeywordShape::Schema, node) if node.is_schema() => Some(of_schema(node)),
        (KeywordShape::Schemas, JsonNode::List(list)) => {
            let schemas: Vec<_> = list.into_iter().filter_map(way).collect();
            (!schemas.is_empty()).then_some(JsonNode::List(schemas))
        }
        (KeywordShape::Schemas, node @ JsonNode::Object(_)) => Some(JsonNode::List(vec![of_schema(node)])),
        (KeywordShape::NamedSchemas, JsonNode::Object(map)) => Some(each(map, |_| true)),
        (KeywordShape::SchemasByPattern, JsonNode::Object(map)) => Some(each(map, pattern::is_portable)),
        // Some languages print an empty list for an empty object.
        (
            KeywordShape::NamedSchemas | KeywordShape::SchemasByPattern | KeywordShape::NamesByName,
            JsonNode::List(list),
        ) if list.is_empty() => Some(JsonNode::default()),
        (KeywordShape::Types, JsonNode::Leaf(Value::String(text))) => types(&text).flatten(),
        (KeywordShape::Types, JsonNode::List(list)) => types_of_list(&list),
        (KeywordShape::Number | KeywordShape::Positive, JsonNode::Leaf(Value::String(text))) => {
            let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite())?;
            let whole = text.trim().parse::<i64>().map(Value::from);
            of_keyword(shape, JsonNode::Leaf(whole.unwrap_or_else(|_| number.into())))
        }
        (KeywordShape::Count, JsonNode::Leaf(Value::String(text))) => {
            text.trim().parse::<u64>().ok().map(|count| JsonNode::Leaf(count.into()))
        }
        (KeywordShape::Count, JsonNode::Leaf(Value::Number(number))) => {
            count(&number).map(|count| JsonNode::Leaf(count.into()))
        }
        (KeywordShape::Flag, JsonNode::Leaf(Value::String(text))) => is_flag(&text),
        (KeywordShape::Text, JsonNode::Leaf(value @ (Value::Number(_) | Value::Bool(_)))) => {
            Some(value.to_string().as_str().into())
        }
        (KeywordShape::Text, JsonNode::List(list)) => {
            let lines: Option<Vec<_>> = list.iter().map(JsonNode::text).collect();
            lines.filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n").as_str().into())
        }
        (KeywordShape::Names, JsonNode::Leaf(Value::String(name))) => Some(JsonNode::List(vec![name.as_str().into()])),
        (KeywordShape::Names, JsonNode::List(list)) => {
            let mut seen = HashSet::new();
            let names = list.iter().filter_map(JsonNode::text).filter(|name| seen.insert(*name));
            Some(JsonNode::List(names.map(JsonNode::from).collect()))
        }
        (KeywordShape::NamesByName, JsonNode::Object(map)) => {
            let named =
                map.into_iter().filter_map(|(name, names)| Some((name, of_keyword(KeywordShape::Names, names)?)));
            Some(JsonNode::Object(named.collect()))
        }
        (KeywordShape::Choices | KeywordShape::Values, leaf @ JsonNode::Leaf(_))
            if leaf != JsonNode::Leaf(Value::Null) =>
        {
            Some(JsonNode::List(vec![leaf]))
        }
        (KeywordShape::Choices, JsonNode::List(list)) => {
            let mut seen = HashSet::new();
            let choices: Vec<_> = list.into_iter().filter(|one| seen.insert(one.to_json())).collect();
            (!choices.is_empty()).then_some(JsonNode::List(choices))
        }
        // The target is checked once the whole schema has been converted.
        (KeywordShape::Reference, node) => node.text().is_some().then_some(node),
        (shape, node) => fits(shape, &node).then_some(node),
    }
}

/// Converts one of several schemas; authors write `null` for the type.
fn way(node: JsonNode) -> Option<JsonNode> {
    match node {
        JsonNode::Leaf(Value::Null) => Some(of_schema("null".into())),
        JsonNode::Object(_) | JsonNode::Leaf(Value::Bool(_) | Value::String(_)) => Some(of_schema(node)),
        _ => None,
    }
}

fn each(map: JsonMap, takes: impl Fn(&str) -> bool) -> JsonNode {
    let named = map.into_iter().filter(|(name, _)| takes(name));
    JsonNode::Object(named.map(|(name, schema)| (name, of_schema(schema))).collect())
}

/// Returns the types that a word of some language means: `Some(None)` for a word that means any type, `None` for an unknown
/// word.
fn types(text: &str) -> Option<Option<JsonNode>> {
    let words: Vec<_> = text.split('|').map(|word| word.trim().to_ascii_lowercase()).collect();
    let found: Option<Vec<_>> = words.iter().map(|word| type_of(word)).collect();
    let found: Option<Vec<_>> = found?.into_iter().collect();
    Some(found.map(one_or_several))
}

fn types_of_list(list: &[JsonNode]) -> Option<JsonNode> {
    let words = list.iter().map(|word| match word {
        JsonNode::Leaf(Value::Null) => Some("null".to_owned()),
        word => word.text().map(str::to_ascii_lowercase),
    });
    // With a word that means any type, or an unknown one, any value is allowed.
    let found: Option<Vec<_>> = words.map(|word| type_of(&word?).flatten()).collect();
    found.filter(|found| !found.is_empty()).map(one_or_several)
}

fn one_or_several(types: Vec<&str>) -> JsonNode {
    let mut seen = HashSet::new();
    let mut types: Vec<_> = types.into_iter().filter(|kind| seen.insert(*kind)).map(JsonNode::from).collect();
    if types.len() == 1 { types.remove(0) } else { JsonNode::List(types) }
}

/// Returns the type that a word means: `Some(None)` for any type.
fn type_of(word: &str) -> Option<Option<&'static str>> {
    let kind = TYPES.iter().copied().find(|kind| *kind == word);
    Some(Some(match word {
        _ if kind.is_some() => kind?,
        "dict" | "dictionary" | "map" | "hash" | "record" | "struct" => "object",
        "list" | "tuple" | "set" | "vec" | "sequence" => "array",
        "str" | "text" | "char" | "date" | "datetime" | "date-time" | "uuid" | "url" | "uri" | "email" | "password"
        | "bytes" | "binary" => "string",
        "int" | "int8" | "int16" | "int32" | "int64" | "uint" | "uint8" | "uint16" | "uint32" | "uint64" | "long"
        | "short" | "bigint" => "integer",
        "float" | "float32" | "float64" | "double" | "decimal" | "numeric" | "real" => "number",
        "bool" => "boolean",
        "none" | "nil" | "nonetype" | "void" | "undefined" => "null",
        "any" | "mixed" | "unknown" | "*" | "" => return Some(None),
        _ => return None,
    }))
}

fn is_flag(text: &str) -> Option<JsonNode> {
    match text.trim() {
        "true" | "True" => Some(JsonNode::Leaf(true.into())),
        "false" | "False" => Some(JsonNode::Leaf(false.into())),
        _ => None,
    }
}

fn count(number: &Number) -> Option<u64> {
    let float = number.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
    number.as_u64().or_else(|| float.map(|number| number as u64))
}

/// Converts draft 4, in which `exclusiveMinimum: true` excludes the value of `minimum`.
fn modern_bounds(map: &mut JsonMap) {
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(JsonNode::Leaf(Value::Bool(is_excluded))) = map.get(exclusive) {
            let excluded = is_excluded.then(|| map.shift_remove(bound)).flatten();
            map.shift_remove(exclusive);
            map.extend(excluded.map(|excluded| (exclusive.into(), excluded)));
        }
    }
    if let Some(step) = map.shift_remove("divisibleBy") {
        map.entry("multipleOf".into()).or_insert(step);
    }
}

/// Converts drafts before 2020-12, in which a list under `items` describes items by position, and `additionalItems` the
/// others.
fn modern_items(map: &mut JsonMap) {
    let others = map.shift_remove("additionalItems");
    if let Some(JsonNode::List(places)) = map.get_mut("items") {
        let places = std::mem::take(places);
        map.shift_remove("items");
        if !places.is_empty() {
            map.entry("prefixItems".into()).or_insert(JsonNode::List(places));
        }
        map.extend(others.map(|others| ("items".into(), others)));
    }
}

/// Converts drafts before 2019-09, in which one keyword expressed all dependencies of a property.
fn modern_dependencies(map: &mut JsonMap) {
    let Some(dependencies) = map.shift_remove("dependencies") else { return };
    let JsonNode::Object(dependencies) = dependencies else { return };
    for (name, needs) in dependencies {
        let is_schema = matches!(needs, JsonNode::Object(_) | JsonNode::Leaf(Value::Bool(_)));
        let keyword = if is_schema { "dependentSchemas" } else { "dependentRequired" };
        if let JsonNode::Object(there) = map.entry(keyword.into()).or_default() {
            there.entry(name).or_insert(needs);
        }
    }
}

/// Converts draft 3, in which the types may contain schemas.
fn schemas_among_types(map: &mut JsonMap) {
    let ways = match map.get("type") {
        Some(JsonNode::List(list)) if list.iter().any(|one| one.map().is_some()) => list.clone(),
        Some(one @ JsonNode::Object(_)) => vec![one.clone()],
        _ => return,
    };
    map.shift_remove("type");
    map.entry("anyOf".into()).or_insert(JsonNode::List(ways));
}

/// Converts keywords with other names in other drafts, and properties given as a list.
fn modern_names(map: &mut JsonMap) {
    let name = map.get("$id").and_then(JsonNode::text).and_then(|id| id.strip_prefix('#'));
    if let Some(name) = name.filter(|name| is_anchor(name)).map(str::to_owned) {
        map.entry("$anchor".into()).or_insert(name.as_str().into());
    }
    if let Some(target) = map.shift_remove("$recursiveRef") {
        map.entry("$ref".into()).or_insert(target);
    }
    if let Some(JsonNode::List(list)) = map.get("properties") {
        let named = list.iter().filter_map(|one| Some((one.map()?.get("name")?.text()?.to_owned(), without_name(one))));
        let named = JsonNode::Object(named.collect());
        map.insert("properties".into(), named);
    }
}

fn without_name(node: &JsonNode) -> JsonNode {
    let map = node.map().into_iter().flatten().filter(|(keyword, _)| *keyword != "name");
    JsonNode::Object(map.map(|(keyword, value)| (keyword.clone(), value.clone())).collect())
}

/// Converts draft 3, in which each property states itself that it is required.
fn require_children(map: &mut JsonMap) {
    let is_required = |schema: &JsonNode| match schema.map().and_then(|map| map.get("required")) {
        Some(JsonNode::Leaf(Value::Bool(is_required))) => *is_required,
        Some(JsonNode::Leaf(Value::String(word))) => is_flag(word) == Some(JsonNode::Leaf(true.into())),
        _ => false,
    };
    let properties = map.get("properties").and_then(JsonNode::map).into_iter().flatten();
    let required: Vec<JsonNode> =
        properties.filter(|(_, schema)| is_required(schema)).map(|(name, _)| name.as_str().into()).collect();
    if map.get("required").and_then(JsonNode::text).is_some_and(|word| is_flag(word).is_some()) {
        map.shift_remove("required");
    }
    if required.is_empty() {
        return;
    }
    let before = map.shift_remove("required").and_then(|names| of_keyword(KeywordShape::Names, names));
    let before = before.as_ref().map(JsonNode::list).unwrap_or_default();
    map.insert("required".into(), JsonNode::List(before.iter().cloned().chain(required).collect()));
}
