//! Attributes in the form of the protocol.

use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, any_value::Value};

pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

pub(crate) fn texts(key: &str, values: impl IntoIterator<Item = String>) -> KeyValue {
    let values = values.into_iter().map(text_value).collect();
    attribute(key, Value::ArrayValue(ArrayValue { values }))
}

/// The protocol has signed numbers only; a larger one is the largest.
pub(crate) fn number(key: &str, value: u64) -> KeyValue {
    attribute(key, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

pub(crate) fn fraction(key: &str, value: f64) -> KeyValue {
    attribute(key, Value::DoubleValue(value))
}

pub(crate) fn flag(key: &str, value: bool) -> KeyValue {
    attribute(key, Value::BoolValue(value))
}

pub(crate) fn text_value(value: impl Into<String>) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(value.into())) }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
