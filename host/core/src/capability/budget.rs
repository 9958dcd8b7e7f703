//! Budgets: the amounts that a run may spend.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Usd;
use crate::limits;

/// What a run may spend, or what it has left. What is not named has no bound of its own.
///
/// Written as `{tokens: 100000, usd: 0.50, tool_calls: 200, time: 10m}` in a config and, with the same keys, by a model
/// that delegates. Each amount that is named is at least 1, or more than $0: in other programs 0 means "without a bound".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Tokens, sent and received together, those of the cache included.
    #[serde(deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// US dollars, such as 0.50.
    #[serde(deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>", extend("exclusiveMinimum" = 0))]
    pub usd: Option<Usd>,
    /// Calls of tools.
    #[serde(deserialize_with = "some", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tool_calls: Option<u64>,
    /// Wall time, such as 90s, 10m, 1h30m or 500ms.
    #[serde(deserialize_with = "time", serialize_with = "show_time", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub time: Option<Duration>,
}

impl Budget {
    /// Returns the smaller of each amount: what both budgets allow.
    pub fn meet(&self, other: &Self) -> Self {
        Self {
            tokens: smaller(self.tokens, other.tokens),
            usd: smaller(self.usd, other.usd),
            tool_calls: smaller(self.tool_calls, other.tool_calls),
            time: smaller(self.time, other.time),
        }
    }
}

/// The amounts of a [`Budget`], any of which may be 0: the bounds of an allocation when it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocationBounds {
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Usd>,
    /// Tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
}

impl AllocationBounds {
    /// The bounds of an allocation from which nothing can be spent.
    pub const NOTHING: Self = Self { tokens: Some(0), usd: Some(Usd::ZERO), tool_calls: Some(0) };
}

/// Returns the smaller of two bounds, where `None` means unbounded.
pub(super) fn smaller<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Deserializes an amount that must not be 0.
fn some<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default + PartialEq>(from: D) -> Result<Option<T>, D::Error> {
    let amount = Option::<T>::deserialize(from)?;
    if amount == Some(T::default()) {
        return Err(de::Error::custom(
            "a budget of 0 allows nothing; use a larger value, or leave the key out for no limit",
        ));
    }
    Ok(amount)
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<HumanDuration>::deserialize(from)?.map(|HumanDuration(time)| time))
}

/// A duration in human-readable form.
struct HumanDuration(Duration);

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct HumanDurationVisitor;

        impl de::Visitor<'_> for HumanDurationVisitor {
            type Value = HumanDuration;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as 90s, 10m, 1h30m or 500ms")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<HumanDuration, E> {
                let time = humantime::parse_duration(text.trim())
                    .map_err(|error| E::custom(format!("{error}; write a time such as 90s, 10m, 1h30m or 500ms")))?;
                if time.is_zero() || time > limits::BUDGET_TIME {
                    let days = limits::BUDGET_TIME.as_secs() / 86_400;
                    return Err(E::custom(format!(
                        "a time must be more than 0 and at most {days}days; leave the key out for no limit"
                    )));
                }
                Ok(HumanDuration(time))
            }
        }

        from.deserialize_str(HumanDurationVisitor)
    }
}

fn show_time<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(&humantime::format_duration(*time)),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_budget_is_read() {
        let all = Budget {
            tokens: Some(100_000),
            usd: Some(Usd::from_pico(500_000_000_000)),
            tool_calls: Some(200),
            time: Some(Duration::from_secs(600)),
        };
        for (yaml, budget) in [
            ("{tokens: 100000, usd: 0.50, tool_calls: 200, time: 10m}", all),
            ("{tokens: 100000, usd: '$0.50', tool_calls: 200, time: '600s'}", all),
            ("{}", Budget::default()),
            ("{tokens: null, time: null}", Budget::default()),
            ("{time: 1h30m}", Budget { time: Some(Duration::from_secs(5_400)), ..Budget::default() }),
            ("{time: 1h 30m}", Budget { time: Some(Duration::from_secs(5_400)), ..Budget::default() }),
            ("{time: 500ms}", Budget { time: Some(Duration::from_millis(500)), ..Budget::default() }),
            ("{time: 30days}", Budget { time: Some(limits::BUDGET_TIME), ..Budget::default() }),
        ] {
            let from_yaml: Budget = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(from_yaml, budget, "{yaml}");
            let json = serde_json::to_value(budget).unwrap();
            assert_eq!(serde_json::from_value::<Budget>(json).unwrap(), budget, "{yaml}");
        }
        let shown = json!({"tokens": 100_000, "usd": 0.5, "tool_calls": 200, "time": "10m"});
        assert_eq!(serde_json::to_value(all).unwrap(), shown);
        assert_eq!(serde_json::to_value(Budget::default()).unwrap(), json!({}));
    }

    #[test]
    fn invalid_budget_error_says_what_to_write() {
        for (budget, says) in [
            (json!({"token": 1}), "unknown field `token`, expected one of `tokens`, `usd`, `tool_calls`, `time`"),
            (json!({"tokens": 0}), "a budget of 0 allows nothing; use a larger value"),
            (json!({"usd": 0.0}), "a budget of 0 allows nothing; use a larger value"),
            (json!({"tool_calls": 0}), "a budget of 0 allows nothing; use a larger value"),
            (json!({"tokens": -5}), "expected u64"),
            (json!({"usd": "much"}), "such as 0.50"),
            (json!({"usd": 1_000_001}), "from 0 to 1000000"),
            (json!({"time": 90}), "expected a time with its unit, such as 90s"),
            (json!({"time": "90"}), "write a time such as 90s"),
            (json!({"time": "0s"}), "more than 0 and at most 30days"),
            (json!({"time": "31days"}), "more than 0 and at most 30days"),
            (json!({"time": "99999999999999999999y"}), "write a time such as 90s"),
        ] {
            let error = serde_json::from_value::<Budget>(budget.clone()).unwrap_err().to_string();
            assert!(error.contains(says), "{budget}: {error}");
        }
    }

    #[test]
    fn budget_schema_has_the_config_keys() {
        let schema = serde_json::to_value(schemars::schema_for!(Budget)).unwrap();
        assert_eq!(schema["additionalProperties"], false);
        for (key, types, least) in [
            ("tokens", json!(["integer", "null"]), ("minimum", json!(1))),
            ("usd", json!(["number", "null"]), ("exclusiveMinimum", json!(0))),
            ("tool_calls", json!(["integer", "null"]), ("minimum", json!(1))),
            ("time", json!(["string", "null"]), ("minimum", json!(null))),
        ] {
            let property = &schema["properties"][key];
            assert_eq!(property["type"], types, "{schema:#}");
            assert_eq!(property[least.0], least.1, "{schema:#}");
            assert!(property["description"].is_string(), "{schema:#}");
        }
    }

    fn budgets() -> impl Strategy<Value = Budget> {
        let amount = || option::of(0..50_u64);
        (amount(), amount(), amount(), amount()).prop_map(|(tokens, usd, tool_calls, time)| Budget {
            tokens,
            usd: usd.map(Usd::from_pico),
            tool_calls,
            time: time.map(Duration::from_secs),
        })
    }

    /// Returns `true` if everything within `one` is within `other`.
    fn within(one: &Budget, other: &Budget) -> bool {
        fn bound<T: Ord>(one: Option<T>, other: Option<T>) -> bool {
            other.is_none_or(|other| one.is_some_and(|one| one <= other))
        }
        bound(one.tokens, other.tokens)
            && bound(one.usd, other.usd)
            && bound(one.tool_calls, other.tool_calls)
            && bound(one.time, other.time)
    }

    proptest! {
        #[test]
        fn meet_is_the_greatest_lower_bound(a in budgets(), b in budgets(), c in budgets()) {
            prop_assert_eq!(a.meet(&a), a);
            prop_assert_eq!(a.meet(&b), b.meet(&a));
            prop_assert_eq!(a.meet(&b).meet(&c), a.meet(&b.meet(&c)));
            prop_assert_eq!(a.meet(&Budget::default()), a);
            prop_assert!(within(&a.meet(&b), &a) && within(&a.meet(&b), &b));
            if within(&c, &a) && within(&c, &b) {
                prop_assert!(within(&c, &a.meet(&b)));
            }
            if within(&a, &b) {
                prop_assert!(within(&a.meet(&c), &b.meet(&c)), "monotone");
            }
        }
    }
}
