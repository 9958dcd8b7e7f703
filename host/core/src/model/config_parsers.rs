//! Parsers for model settings in a config, and what the schema of the config says of these settings.

use std::{borrow::Cow, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits;

/// A duration of more than zero and at most `MOST` seconds.
pub(super) enum BoundedTime<const MOST: u64> {}

impl<const MOST: u64> BoundedTime<MOST> {
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let most = Duration::from_secs(MOST);
        match humantime::parse_duration(&String::deserialize(from)?) {
            Err(_) => Err(de::Error::custom("invalid duration; write it as 90s, 5m or 1h30m")),
            Ok(Duration::ZERO) => {
                Err(de::Error::custom("the value must be more than 0; leave the key out for the default"))
            }
            Ok(time) if time > most => {
                Err(de::Error::custom(format!("the maximum is {}", humantime::format_duration(most))))
            }
            Ok(time) => Ok(time),
        }
    }

    pub fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*time))
    }
}

impl<const MOST: u64> JsonSchema for BoundedTime<MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("TimeTo{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let most = humantime::format_duration(Duration::from_secs(MOST));
        let comment = format!("more than 0, at most {most}");
        json_schema!({ "type": "string", "minLength": 1, "examples": ["90s", "1h30m"], "$comment": comment })
    }
}

/// A number from 1 to `MOST`.
pub(super) enum BoundedCount<const MOST: usize> {}

impl<const MOST: usize> BoundedCount<MOST> {
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
        match usize::deserialize(from)? {
            0 => Err(de::Error::custom("the minimum is 1; leave the key out for the default")),
            number if number > MOST => Err(de::Error::custom(format!("the maximum is {MOST}"))),
            number => Ok(number),
        }
    }

    pub fn serialize<S: Serializer>(number: &usize, to: S) -> Result<S::Ok, S::Error> {
        number.serialize(to)
    }
}

impl<const MOST: usize> JsonSchema for BoundedCount<MOST> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("CountTo{MOST}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1, "maximum": MOST })
    }
}

/// Parses a rate per minute from 1 to [`limits::RATE_LIMIT_CEILING`]; `None`: no limit.
pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(from)? {
        Some(0) => Err(de::Error::custom("the minimum is 1; leave the key out for no limit")),
        Some(number) if number > limits::RATE_LIMIT_CEILING => {
            Err(de::Error::custom(format!("the maximum is {}", limits::RATE_LIMIT_CEILING)))
        }
        number => Ok(number),
    }
}
