use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use serde_json::value::RawValue;

use crate::{digest::Sha256Digest, limits};

/// The mapping of a tool's property names where the model is shown names other than the tool's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertyNames {
    /// The tool's own names, by the names that a model is shown.
    own: Option<Arc<BTreeMap<String, String>>>,
}

impl PropertyNames {
    /// Builds the mapping from pairs of the shown name and the tool's own name.
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let own: BTreeMap<_, _> = pairs.into_iter().collect();
        Self { own: (!own.is_empty()).then(|| Arc::new(own)) }
    }

    /// Returns `true` if all names are the tool's own.
    pub fn is_empty(&self) -> bool {
        self.own.is_none()
    }

    /// Returns the arguments of a call with the tool's own names. Everything else, including numbers, stays as it was
    /// written.
    pub fn restore<'a>(&self, arguments: &'a str) -> Cow<'a, str> {
        let Some(own) = &self.own else { return arguments.into() };
        let mut restored = String::with_capacity(arguments.len());
        restore(own, arguments, limits::TOOL_SCHEMA_DEPTH, &mut restored);
        restored.into()
    }
}

/// Writes JSON with mapped keys. Values nested deeper than a schema can be have no renamed properties.
fn restore(own: &BTreeMap<String, String>, json: &str, depth: usize, to: &mut String) {
    let json = json.trim();
    let deeper = depth.saturating_sub(1);
    match json.as_bytes().first() {
        Some(b'{')
            if depth > 0
                && let Ok(map) = serde_json::from_str::<IndexMap<Cow<'_, str>, &RawValue>>(json) =>
        {
            let mut before = '{';
            for (key, value) in &map {
                to.push(before);
                before = ',';
                let key = own.get(&**key).map_or(&**key, String::as_str);
                to.push_str(&serde_json::to_string(key).unwrap_or_default());
                to.push(':');
                restore(own, value.get(), deeper, to);
            }
            to.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Some(b'[')
            if depth > 0
                && let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(json) =>
        {
            let mut before = '[';
            for value in &list {
                to.push(before);
                before = ',';
                restore(own, value.get(), deeper, to);
            }
            to.push_str(if list.is_empty() { "[]" } else { "]" });
        }
        _ => to.push_str(json),
    }
}

/// Returns a name of at most `longest` bytes (more than nine): `text` with `_` for characters that are not allowed, cut,
/// followed by a digest of `of` that distinguishes similar names. `is_taken` returns `true` for the allowed characters.
pub fn name_with_digest(text: &str, of: &str, longest: usize, is_taken: impl Fn(char) -> bool) -> String {
    let digest = Sha256Digest::of(of).hex();
    let plain = text.chars().map(|c| if c.is_ascii() && is_taken(c) { c } else { '_' });
    let plain: String = plain.take(longest - 9).collect();
    format!("{plain}_{}", &digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_names_are_restored_at_every_depth() {
        let names = PropertyNames::new([("_filter_1".to_owned(), "$filter".to_owned())]);
        for (shown, own) in [
            (r#"{"_filter_1": "a", "b": 1.0}"#, r#"{"$filter":"a","b":1.0}"#),
            (r#"{"a":[{"_filter_1":{"_filter_1":[]}}],"c":{}}"#, r#"{"a":[{"$filter":{"$filter":[]}}],"c":{}}"#),
            (
                r#"{"n":123456789012345678901234567890,"s":"_filter_1"}"#,
                r#"{"n":123456789012345678901234567890,"s":"_filter_1"}"#,
            ),
            (r#"{"\u005ffilter_1":"\n"}"#, r#"{"$filter":"\n"}"#),
            ("{", "{"),
        ] {
            assert_eq!(names.restore(shown), own);
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(names.restore(&deep).len(), deep.len());
        assert!(matches!(PropertyNames::default().restore("{ }"), Cow::Borrowed("{ }")));
    }
}
