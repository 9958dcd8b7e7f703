//! Values of the config that have a unit or bounds: how they are read, and what the schema says of them.

use std::{borrow::Cow, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::effective_setting::shown;

/// Hint that follows the reason why a value is refused.
const LEAVE_OUT: &str = "remove the key to use the default, which `config check` shows";

/// A duration such as `90s` or `5m`; the empty text is `None`.
pub(super) enum OptionalDuration {}

impl OptionalDuration {
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(from)?.filter(|text| !text.is_empty());
        let parsed = text.map(|text| humantime::parse_duration(&text)).transpose();
        parsed.map_err(|_| de::Error::custom("not a duration; write a value such as 90s, 5m or 1h30m"))
    }

    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        time.map(shown).serialize(to)
    }
}

impl JsonSchema for OptionalDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OptionalDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "null"], "examples": ["90s", "1h30m"] })
    }
}

/// A duration that must be given and longer than zero.
pub(super) enum SetDuration {}

impl SetDuration {
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let time = OptionalDuration::deserialize(from)?.filter(|time| !time.is_zero());
        time.ok_or_else(|| de::Error::custom("must be more than 0; write a value such as 90s, 5m or 1h30m"))
    }

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        shown(*time).serialize(to)
    }
}

impl JsonSchema for SetDuration {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SetDuration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "examples": ["90s", "1h30m"] })
    }
}

/// A duration of more than zero and at most `MOST` seconds.
pub(super) enum BoundedDuration<const MOST: u64> {}

impl<const MOST: u64> BoundedDuration<MOST> {
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        let wrong = |what: String| Err(de::Error::custom(format!("{what}; {LEAVE_OUT}")));
        match OptionalDuration::deserialize(from)? {
            Some(Duration::ZERO) => wrong("must be more than 0".into()),
            Some(time) if time > Duration::from_secs(MOST) => {
                wrong(format!("must be at most {}", shown(Duration::from_secs(MOST))))
            }
            time => Ok(time),
        }
    }

    pub fn serialize<S: Serializer>(time: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        OptionalDuration::serialize(time, to)
    }
}

impl<const MOST: u64> JsonSchema for BoundedDuration<MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("DurationTo{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let comment = format!("more than 0, at most {}", shown(Duration::from_secs(MOST)));
        json_schema!({ "type": ["string", "null"], "examples": ["90s", "1h30m"], "$comment": comment })
    }
}

/// A number from `LEAST`, below which nothing would work, to `MOST`.
pub(super) enum BoundedNumber<const LEAST: u64, const MOST: u64> {}

impl<const LEAST: u64, const MOST: u64> BoundedNumber<LEAST, MOST> {
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        let wrong = |what: String| Err(de::Error::custom(format!("{what}; {LEAVE_OUT}")));
        match Option::deserialize(from)? {
            Some(number) if number < LEAST => wrong(format!("must be at least {LEAST}")),
            Some(number) if number > MOST => wrong(format!("must be at most {MOST}")),
            number => Ok(number),
        }
    }

    pub fn serialize<S: Serializer>(number: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        number.serialize(to)
    }
}

impl<const LEAST: u64, const MOST: u64> JsonSchema for BoundedNumber<LEAST, MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("NumberFrom{LEAST}To{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "null"], "minimum": LEAST, "maximum": MOST })
    }
}

/// Adds to the schema of a mapping that a text may stand in its place.
pub(super) fn or_text(schema: &mut Schema) {
    let mut mapping = std::mem::take(schema);
    let description = mapping.remove("description");
    *schema = json_schema!({ "anyOf": [{ "type": "string" }, mapping] });
    if let Some(description) = description {
        schema.insert("description".into(), description);
    }
}
