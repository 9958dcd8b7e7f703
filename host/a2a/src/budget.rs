use serde_json::Value;

use crate::{A2aError, wire::A2aMetadata};
use shelly_core::capability::Budget;

/// The extension by which a message says what its task may spend: the key of its metadata, and its name in agent cards.
pub const BUDGET_EXTENSION: &str = "urn:shelly-host:a2a:budget:v1";

/// Returns the metadata that say what a task may spend; none if it may spend anything.
pub fn budget_metadata(budget: &Budget) -> A2aMetadata {
    let value = serde_json::to_value(budget).unwrap_or_default();
    match value.as_object().is_some_and(|budget| !budget.is_empty()) {
        true => [(BUDGET_EXTENSION.to_owned(), value)].into_iter().collect(),
        false => A2aMetadata::new(),
    }
}

/// Returns the budget that metadata say: all amounts that one of these says, and of two the smaller one.
///
/// # Errors
///
/// [`A2aErrorKind::InvalidParams`](crate::A2aErrorKind::InvalidParams) if it cannot be used. A budget that is not understood
/// would otherwise be none.
pub fn budget_of<'a>(all: impl IntoIterator<Item = &'a A2aMetadata>) -> Result<Budget, A2aError> {
    let said = all.into_iter().filter_map(|metadata| metadata.get(BUDGET_EXTENSION));
    said.filter(|value| !value.is_null()).try_fold(Budget::default(), |budget, value| {
        let said: Budget = parse(value)?;
        Ok(budget.meet(&said))
    })
}

fn parse(value: &Value) -> Result<Budget, A2aError> {
    serde_json::from_value(with_whole_numbers(value)).map_err(|error| {
        A2aError::invalid_params(format!(
            "the budget in `metadata` cannot be used: {error}; write it as {{\"tokens\": 100000, \"usd\": 0.5, \
             \"tool_calls\": 200, \"time\": \"10m\"}}, with the keys that you need"
        ))
    })
}

/// Returns an object whose whole numbers have no fraction: on the way through protobuf each number becomes one with a
/// fraction.
fn with_whole_numbers(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let whole = |value: &Value| match value.as_f64() {
        // Beyond 2^53 not every whole number can be written so.
        Some(number) if value.is_f64() && number.fract() == 0.0 && (0.0..9.0e15).contains(&number) => {
            Value::from(number as u64)
        }
        _ => value.clone(),
    };
    Value::Object(fields.iter().map(|(name, value)| (name.clone(), whole(value))).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn metadata(value: Value) -> A2aMetadata {
        [(BUDGET_EXTENSION.to_owned(), value)].into_iter().collect()
    }

    #[test]
    fn budget_goes_through_metadata() {
        let budget = Budget { tokens: Some(5), time: Some(Duration::from_secs(90)), ..Budget::default() };
        assert_eq!(budget_of([&budget_metadata(&budget)]), Ok(budget));
        assert!(budget_metadata(&Budget::default()).is_empty());
        assert_eq!(budget_of([&A2aMetadata::new(), &metadata(Value::Null)]), Ok(Budget::default()));
        let both = budget_of([&metadata(json!({"tokens": 7})), &metadata(json!({"tokens": 5, "time": "90s"}))]);
        assert_eq!(both, Ok(budget));
        let by_protobuf = budget_of([&metadata(json!({"tokens": 5.0, "usd": 1.0, "tool_calls": 2e2}))]).unwrap();
        assert_eq!((by_protobuf.tokens, by_protobuf.tool_calls), (Some(5), Some(200)));
        assert!(by_protobuf.usd.is_some());
    }

    #[test]
    fn budget_that_is_not_understood_is_refused() {
        for wrong in [
            json!(7),
            json!({"tokens": 0.0}),
            json!({"tokens": 1.5}),
            json!({"tokens": 0}),
            json!({"token": 5}),
            json!({"time": 90}),
        ] {
            let error = budget_of([&metadata(wrong.clone())]).unwrap_err();
            assert!(error.message.starts_with("the budget in `metadata` cannot be used"), "{wrong}: {error}");
        }
    }
}
