//! The comparison of an outcome with what a case expects.

use serde_json::{Map, Value};

use super::{expectation::CaseExpectation, observation::CaseObservation};
use crate::change::text_difference;

/// A reason why a case fails.
#[derive(Debug, Clone, PartialEq)]
pub enum CaseMismatch {
    /// A value is not the expected one.
    Value {
        /// The key of `expect`.
        key: String,
        /// The expected value.
        expected: Value,
        /// The actual value, reduced to the parts that the case names.
        actual: Value,
    },
    /// A failure of the call that the case does not expect, or a request that it does not answer, in words.
    Failure(String),
}

impl CaseMismatch {
    /// Returns the unified diff from the expected value to the actual one, or the words. It may have text of a plugin.
    pub fn text(&self) -> String {
        let (key, expected, actual) = match self {
            Self::Failure(words) => return format!("{words}\n"),
            Self::Value { key, expected, actual } => (key, expected, actual),
        };
        let (before, after) = match (lines(expected), lines(actual)) {
            // The texts differ in their last line break alone.
            (before, after) if before == after => (format!("{expected}\n"), format!("{actual}\n")),
            differing => differing,
        };
        text_difference(&format!("expect.{key}"), Some(&before), &after)
    }
}

/// Returns a value as lines: a text as it is, everything else as indented JSON.
fn lines(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// Returns the reasons why the case fails; none if it passes.
pub(super) fn mismatches(expect: &CaseExpectation, observed: &CaseObservation) -> Vec<CaseMismatch> {
    let mut mismatches: Vec<_> = observed.unanswered.iter().cloned().map(CaseMismatch::Failure).collect();
    if let Some(fault) = observed.fault.as_ref().filter(|_| !expect.expects_failure()) {
        let kind = observed.value("error")["kind"].as_str().unwrap_or_default().to_owned();
        mismatches.push(CaseMismatch::Failure(format!("the call failed ({kind}): {fault}")));
    }
    for (key, expected) in expect.values() {
        let actual = actual_value(&key, &expected, observed);
        if actual != expected {
            mismatches.push(CaseMismatch::Value { key, expected, actual });
        }
    }
    mismatches
}

/// Returns the `expect` with which the case would pass: its keys with the actual values, without those that have none. A
/// case without keys gets the main keys of its call, and the log unless that is empty.
pub(super) fn updated(expect: &CaseExpectation, observed: &CaseObservation) -> Map<String, Value> {
    let mut updated = Map::new();
    for (key, expected) in expect.values() {
        let actual = actual_value(&key, &expected, observed);
        match key.as_str() {
            _ if actual == expected => drop(updated.insert(key, expected)),
            "contains" => drop(updated.insert("result".into(), observed.value("result").clone())),
            "denied" => updated.extend(observed.denials.first().map(|denial| (key, denial.as_str().into()))),
            _ if actual.is_null() => {}
            _ => drop(updated.insert(key, actual)),
        }
    }
    if expect.values().is_empty() {
        let keys =
            observed.main_keys.iter().chain(&["log"]).filter(|key| observed.value(key) != &Value::Array(Vec::new()));
        updated.extend(keys.map(|key| ((*key).to_owned(), observed.value(key).clone())));
    }
    let names_failure = updated.contains_key("error") || updated.contains_key("denied");
    if observed.fault.is_some() && !names_failure {
        updated.insert("error".into(), observed.value("error").clone());
    }
    updated.retain(|_, value| !value.is_null());
    updated
}

/// Returns the actual value of a key, reduced to the parts that the expected value names. It equals the expected value if
/// the expectation is met.
fn actual_value(key: &str, expected: &Value, observed: &CaseObservation) -> Value {
    let actual = observed.value(key);
    match key {
        "result" | "json" | "diff" => actual.clone(),
        "contains" => {
            let mut texts = expected.as_array().into_iter().flatten().filter_map(Value::as_str);
            if texts.all(|text| observed.text().contains(text)) {
                return expected.clone();
            }
            observed.value("result").clone()
        }
        "denied" => {
            let part = expected.as_str().unwrap_or_default();
            match observed.denials.iter().any(|denial| denial.contains(part)) {
                true => expected.clone(),
                false if observed.denials.is_empty() => Value::Null,
                false => observed.denials.join("\n").into(),
            }
        }
        "error" => {
            let mut actual = named_parts(actual, expected);
            let contains = |message: &str| expected["message"].as_str().is_some_and(|part| message.contains(part));
            if actual["message"].as_str().is_some_and(contains) {
                actual["message"] = expected["message"].clone();
            }
            actual
        }
        "decision" if expected.is_string() => {
            // A middleware decides before and after: the last decision counts.
            let name = [&actual["decision"], &actual["after"]["decision"], &actual["before"]["decision"]];
            name.into_iter().find(|name| name.is_string()).cloned().unwrap_or_default()
        }
        _ => named_parts(actual, expected),
    }
}

/// Returns the parts of `actual` that `expected` names: in a mapping its keys, in a list of equal length the parts of each
/// entry.
fn named_parts(actual: &Value, expected: &Value) -> Value {
    match (actual, expected) {
        (Value::Object(actual), Value::Object(expected)) => {
            let part = |(key, expected): (&String, &Value)| {
                let actual = actual.get(key).unwrap_or(&Value::Null);
                (key.clone(), named_parts(actual, expected))
            };
            expected.iter().map(part).collect()
        }
        (Value::Array(actual), Value::Array(expected)) if actual.len() == expected.len() => {
            actual.iter().zip(expected).map(|(actual, expected)| named_parts(actual, expected)).collect()
        }
        (actual, _) => actual.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{config::parse_yaml, error::Fault};

    fn expect(text: &str) -> CaseExpectation {
        parse_yaml(text, "the case", "f").unwrap()
    }

    fn observed(values: Value) -> CaseObservation {
        let Value::Object(values) = values else { panic!("{values}") };
        CaseObservation { values, main_keys: &["result"], ..CaseObservation::default() }
    }

    #[test]
    fn parts_that_a_case_names_are_compared() {
        let fine = observed(json!({
            "result": "3 words", "json": {"a": 1}, "edits": [{"edit": "note", "text": "x"}],
            "decision": {"before": {"decision": "deny", "reason": "no", "state": ""}},
            "log": [{"level": "warn", "message": "hm"}], "kv": {"k": "v", "n": "1"},
        }));
        for text in [
            "{}",
            "result: 3 words",
            "contains: [words, '3']",
            "json: {a: 1}",
            "decision: deny",
            "decision: {before: {reason: 'no'}}",
            "edits: [{edit: note}]",
            "log: [{message: hm}]",
            "kv: {k: v, none: null}",
        ] {
            let found = mismatches(&expect(text), &fine);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
        for (text, actual) in [
            ("result: 3 word", json!("3 words")),
            ("contains: [words, '4']", json!("3 words")),
            ("json: {}", json!({"a": 1})),
            ("decision: allow", json!("deny")),
            ("edits: []", json!([{"edit": "note", "text": "x"}])),
            ("log: [{level: info}]", json!([{"level": "warn"}])),
            ("kv: {k: null}", json!({"k": "v"})),
            ("reply: {text: x}", json!(null)),
        ] {
            let found = mismatches(&expect(text), &fine);
            assert!(matches!(&found[..], [CaseMismatch::Value { actual: found, .. }] if *found == actual), "{found:?}");
        }
    }

    #[test]
    fn failure_that_is_not_expected_fails_the_case() {
        let mut failed = observed(json!({"result": "gone", "error": {"kind": "not_found", "message": "gone"}}));
        failed.fault = Some(Fault::NotFound { message: "gone".into() });
        failed.unanswered = vec!["no entry answers".into()];
        let unanswered = CaseMismatch::Failure("no entry answers".into());
        let words = CaseMismatch::Failure("the call failed (not_found): gone".into());
        assert_eq!(mismatches(&expect("result: gone"), &failed), [unanswered.clone(), words]);
        assert_eq!(
            mismatches(&expect("error: {kind: not_found, message: on}"), &failed),
            std::slice::from_ref(&unanswered)
        );
        let found = mismatches(&expect("denied: http"), &failed);
        assert_eq!(found.len(), 2, "{found:?}");
        failed.denials = vec!["`http` is not granted".into()];
        assert_eq!(mismatches(&expect("denied: http"), &failed), [unanswered]);
    }

    #[test]
    fn updated_expectation_keeps_its_keys_and_passes() {
        let mut came = observed(json!({"result": "b", "log": [], "edits": [{"edit": "note", "text": "x"}]}));
        for (text, expected) in [
            ("{}", json!({"result": "b"})),
            ("result: a", json!({"result": "b"})),
            ("contains: b", json!({"contains": ["b"]})),
            ("contains: a", json!({"result": "b"})),
            ("{log: [{message: a}], reply: {text: a}}", json!({"log": []})),
            ("edits: [{edit: stop}]", json!({"edits": [{"edit": "note"}]})),
            ("error: {message: a}", json!({})),
        ] {
            assert_eq!(Value::Object(updated(&expect(text), &came)), expected, "{text}");
        }
        came.fault = Some(Fault::other("no"));
        came.values.insert("error".into(), json!({"kind": "other", "message": "no"}));
        let updated = updated(&expect("result: a"), &came);
        assert_eq!(Value::Object(updated), json!({"result": "b", "error": {"kind": "other", "message": "no"}}));
    }

    #[test]
    fn difference_is_a_diff_or_words() {
        let differs =
            |expected: Value, actual: Value| CaseMismatch::Value { key: "result".into(), expected, actual }.text();
        let head = "--- expect.result\n+++ expect.result\n";
        assert_eq!(differs(json!("a\nb"), json!("a\nc")), format!("{head}@@ -1,2 +1,2 @@\n a\n-b\n+c\n"));
        assert_eq!(differs(json!("a"), json!("a\n")), format!("{head}@@ -1 +1 @@\n-\"a\"\n+\"a\\n\"\n"));
        assert_eq!(differs(json!(1), json!(null)), format!("{head}@@ -1 +1 @@\n-1\n+null\n"));
        assert_eq!(CaseMismatch::Failure("no".into()).text(), "no\n");
    }
}
