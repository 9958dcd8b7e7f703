//! JSON as text.

use serde::Serialize;

/// Returns a value as JSON. The values of this crate consist of text, numbers and lists, so it has a form.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the members of an object as JSON, without its braces.
pub(crate) fn members(value: &impl Serialize) -> String {
    let json = json(value);
    json.strip_prefix('{').and_then(|json| json.strip_suffix('}')).unwrap_or_default().to_owned()
}
