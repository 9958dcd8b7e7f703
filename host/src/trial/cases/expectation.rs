use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, value::SeqAccessDeserializer},
};
use serde_json::{Map, Value, json};

use crate::{
    event::LogLevel,
    trial::fixture::{BytesFixture, FaultKind},
};

/// The expected outcome of a test case. A key that is left out is not compared.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CaseExpectation {
    /// The text of the result, or of the reply of a provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The text of the result as a JSON value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Texts that the result contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<ExpectedTexts>,
    /// The failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ExpectedFault>,
    /// The decision of a step: its name, or parts of what `plugin step` prints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Value>,
    /// The edits of an effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edits: Option<Vec<Map<String, Value>>>,
    /// The state that a step returns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<BytesFixture>,
    /// The reply of a provider: parts of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply: Option<Map<String, Value>>,
    /// The log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Vec<ExpectedLogEntry>>,
    /// Entries of the key-value store after the call; null for a key that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv: Option<BTreeMap<String, Option<BytesFixture>>>,
    /// Files after the call, by their path in the folder of the case; null for a file that is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, Option<BytesFixture>>>,
    /// The proposed changes of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<ExpectedChange>>,
    /// The proposed changes of files as a unified diff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The HTTP requests that were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<Vec<ExpectedHttpRequest>>,
    /// A part of the message about what is not granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
}

/// Texts that a result contains: one text, or a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ExpectedTexts(pub Vec<String>);

/// A failure: its kind, and a part of its message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedFault {
    /// The case of the contract's `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<FaultKind>,
    /// A text that the message contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An entry of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedLogEntry {
    /// The severity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<LogLevel>,
    /// The text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A proposed change of a file, as `plugin call --output json` prints it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedChange {
    /// The kind of change, such as `create`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub act: Option<String>,
    /// The path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The new path of a file that is moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The number of added lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// The number of removed lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

/// An HTTP request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedHttpRequest {
    /// The method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The whole URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers, with names in lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// The body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BytesFixture>,
}

impl<'de> Deserialize<'de> for ExpectedTexts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> de::Visitor<'de> for TextsVisitor {
            type Value = ExpectedTexts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a list of texts")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ExpectedTexts, E> {
                Ok(ExpectedTexts(vec![text.to_owned()]))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<ExpectedTexts, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(ExpectedTexts)
            }
        }
        from.deserialize_any(TextsVisitor)
    }
}

impl CaseExpectation {
    /// Returns the keys that are there, with their values as JSON.
    pub(super) fn values(&self) -> Map<String, Value> {
        match json!(self) {
            Value::Object(values) => values,
            _ => Map::new(),
        }
    }

    /// Returns `true` if the case expects the call to fail or to be denied something.
    pub(super) fn expects_failure(&self) -> bool {
        self.error.is_some() || self.denied.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_yaml;

    #[test]
    fn expectation_has_the_keys_that_are_written() {
        let text =
            "{contains: a, log: [{level: warn}], kv: {k: null}, edits: [{edit: note}], error: {kind: not_found}}";
        let expect: CaseExpectation = parse_yaml(text, "the case", "f").unwrap();
        let expected = json!({
            "contains": ["a"], "log": [{"level": "warn"}], "kv": {"k": null}, "edits": [{"edit": "note"}],
            "error": {"kind": "not_found"},
        });
        assert_eq!(Value::Object(expect.values()), expected);
        assert!(expect.expects_failure() && !CaseExpectation::default().expects_failure());
        assert!(CaseExpectation::default().values().is_empty());
    }

    #[test]
    fn mistakes_in_an_expectation_are_named() {
        for (text, says) in [
            ("resul: x", "there is no key `resul` (f, line 1"),
            ("log: [{levl: warn}]", "there is no key `levl` (f, line 1"),
            ("http: [{uri: x}]", "there is no key `uri` (f, line 1"),
        ] {
            let report = parse_yaml::<CaseExpectation>(text, "the case", "f").unwrap_err();
            assert!(report.message.starts_with(says), "{report}");
        }
    }
}
