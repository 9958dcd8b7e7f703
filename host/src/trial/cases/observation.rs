use serde_json::{Map, Value};

use crate::error::Fault;

/// The outcome of the call of a test case, as far as a case can expect it.
#[derive(Debug, Default)]
pub(super) struct CaseObservation {
    /// The values by the keys of an expectation. A key that the call gave no value is left out.
    pub values: Map<String, Value>,
    /// The keys that `--update` writes for a case without expectations.
    pub main_keys: &'static [&'static str],
    /// The failure of the call.
    pub fault: Option<Fault>,
    /// The messages about what is not granted.
    pub denials: Vec<String>,
    /// The requests of the plugin to the host that the case does not answer.
    pub unanswered: Vec<String>,
}

impl CaseObservation {
    /// Returns the value of a key; null if there is none.
    pub fn value(&self, key: &str) -> &Value {
        self.values.get(key).unwrap_or(&Value::Null)
    }

    /// Sets the value of a key, unless it is null.
    pub fn set(&mut self, key: &str, value: Value) {
        if !value.is_null() {
            self.values.insert(key.to_owned(), value);
        }
    }

    /// Returns the text of the result; empty if there is none.
    pub fn text(&self) -> &str {
        self.value("result").as_str().unwrap_or_default()
    }
}
