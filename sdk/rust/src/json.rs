//! Parsing of JSON: the arguments of tools, the params of plugins.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, SeqAccess, Visitor},
};

/// Parses `json`. The error says which field is wrong and how. It omits positions, because the author of the JSON (a
/// model, a YAML file) sees no columns.
pub(crate) fn parse<T: DeserializeOwned>(json: &str) -> Result<T, String> {
    let mut source = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut source).map_err(|error| {
        let path = error.path().to_string();
        let cause = without_position(error.inner());
        // An error such as "unknown field `x`" already names the field.
        let named = path == "." || cause.contains(&format!("`{path}`"));
        if named { cause } else { format!("`{path}`: {cause}") }
    })?;
    source.end().map_err(|error| without_position(&error))?;
    Ok(value)
}

/// Returns `true` if `json` is an object that can be read to its end. A text may follow JSON's grammar and still be
/// unreadable: an escape may be half a character, or a number too large.
pub(crate) fn is_object(json: &str) -> bool {
    json.starts_with('{') && serde_json::from_str::<Readable>(json).is_ok()
}

/// Any JSON value; its content is discarded.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Readable, D::Error> {
        deserializer.deserialize_any(Readable)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Readable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_str<E>(self, _: &str) -> Result<Readable, E> {
        Ok(Readable)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Readable, A::Error> {
        while list.next_element::<Readable>()?.is_some() {}
        Ok(Readable)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Readable, A::Error> {
        while entries.next_entry::<Readable, Readable>()?.is_some() {}
        Ok(Readable)
    }
}

fn without_position(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if let Some(start) = text.rfind(" at line ") {
        text.truncate(start);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[derive(serde::Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct Args {
        #[allow(dead_code, reason = "only its parsing is tested")]
        path: String,
        #[allow(dead_code, reason = "only its parsing is tested")]
        lines: Option<Vec<u32>>,
    }

    #[test]
    fn errors_name_the_field_and_no_column() {
        let cases = [
            ("{}", "missing field `path`"),
            (r#"{"path":1}"#, "`path`: invalid type: integer `1`, expected a string"),
            (r#"{"path":"a","lines":[1,"b"]}"#, "`lines[1]`: invalid type: string \"b\", expected u32"),
            (r#"{"path":"a","x":1}"#, "unknown field `x`, expected `path` or `lines`"),
            (r#"{"path":"a"} x"#, "trailing characters"),
            ("", "EOF while parsing a value"),
        ];
        for (json, expected) in cases {
            assert_eq!(parse::<Args>(json).unwrap_err(), expected, "for {json}");
        }
    }
}
