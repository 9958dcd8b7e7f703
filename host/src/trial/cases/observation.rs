use serde_json::{Map, Value};

use crate::error::Fault;

/// The parts of a call's outcome that a test case can expect.
#[derive(Debug, Default)]
pub(super) struct CaseObservation {
    /// The actual values by the keys of `expect`. Keys without a value are absent.
    pub values: Map<String, Value>,
    /// The keys that `--update` writes for a case without expectations.
    pub main_keys: &'static [&'static str],
    /// The failure of the call.
    pub fault: Option<Fault>,
    /// The messages about what is not granted.
    pub denials: Vec<String>,
    /// Messages about requests of the plugin that the case does not answer.
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
