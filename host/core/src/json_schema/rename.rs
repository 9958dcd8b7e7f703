//! Renaming of properties to names that every vendor accepts.

use std::collections::BTreeMap;

use super::{
    keywords::visit,
    node::{JsonMap, JsonNode},
};
use crate::chat::{PropertyNames, name_with_digest};

/// The maximum length of a property name in bytes that every vendor accepts: Anthropic's limit.
const LONGEST: usize = 64;

/// Renames the properties whose names a vendor refuses, everywhere in the schema, and returns the mapping from the new names
/// to the tool's own.
pub fn rename(schema: &mut JsonNode) -> PropertyNames {
    let mut renamed = BTreeMap::new();
    visit(schema, &mut |map| {
        for name in map.get("properties").and_then(JsonNode::map).into_iter().flat_map(JsonMap::keys) {
            if !is_taken(name) && !renamed.contains_key(name) {
                renamed.insert(name.clone(), name_with_digest(name, name, LONGEST, is_taken_char));
            }
        }
    });
    if renamed.is_empty() {
        return PropertyNames::default();
    }
    visit(schema, &mut |map| {
        for (keyword, value) in map.iter_mut() {
            match (keyword.as_str(), value) {
                ("properties" | "dependentSchemas", JsonNode::Object(named)) => rename_keys(named, &renamed),
                ("required", JsonNode::List(names)) => rename_all(names, &renamed),
                ("dependentRequired", JsonNode::Object(named)) => {
                    rename_keys(named, &renamed);
                    for names in named.values_mut() {
                        if let JsonNode::List(names) = names {
                            rename_all(names, &renamed);
                        }
                    }
                }
                ("const" | "default" | "enum" | "examples", value) => rename_inside(value, &renamed),
                ("$ref", JsonNode::Leaf(target)) => {
                    if let Some(moved) = target.as_str().and_then(|target| moved(target, &renamed)) {
                        *target = moved.into();
                    }
                }
                _ => {}
            }
        }
    });
    PropertyNames::new(renamed.into_iter().map(|(own, shown)| (shown, own)))
}

fn is_taken(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len()) && name.chars().all(is_taken_char)
}

fn is_taken_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn rename_keys(map: &mut JsonMap, renamed: &BTreeMap<String, String>) {
    if map.keys().any(|name| renamed.contains_key(name)) {
        let entries = std::mem::take(map).into_iter();
        *map = entries.map(|(name, value)| (renamed.get(&name).cloned().unwrap_or(name), value)).collect();
    }
}

fn rename_all(names: &mut [JsonNode], renamed: &BTreeMap<String, String>) {
    for name in names {
        if let Some(shown) = name.text().and_then(|name| renamed.get(name)) {
            *name = shown.as_str().into();
        }
    }
}

/// Renames properties in values that a model may see, so that they match the names it has to write.
fn rename_inside(value: &mut JsonNode, renamed: &BTreeMap<String, String>) {
    match value {
        JsonNode::Object(map) => {
            rename_keys(map, renamed);
            map.values_mut().for_each(|value| rename_inside(value, renamed));
        }
        JsonNode::List(list) => list.iter_mut().for_each(|value| rename_inside(value, renamed)),
        JsonNode::Leaf(_) => {}
    }
}

/// Returns a reference with the renamed properties in its path; `None` if there are none.
fn moved(target: &str, renamed: &BTreeMap<String, String>) -> Option<String> {
    let steps: Vec<_> = target.split('/').collect();
    let mut is_moved = false;
    let mut before = "";
    let steps: Vec<_> = steps
        .into_iter()
        .map(|step| {
            let shown = renamed.get(&JsonNode::step(step)).filter(|_| before == "properties");
            before = step;
            is_moved |= shown.is_some();
            shown.map_or(step, String::as_str)
        })
        .collect();
    is_moved.then(|| steps.join("/"))
}
