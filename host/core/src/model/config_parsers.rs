//! Parsers for model settings in a config.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::limits;

/// Parses a duration of more than zero and at most `MOST` seconds.
pub(super) fn time<'de, D: Deserializer<'de>, const MOST: u64>(from: D) -> Result<Duration, D::Error> {
    let most = Duration::from_secs(MOST);
    match humantime::parse_duration(&String::deserialize(from)?) {
        Err(_) => Err(de::Error::custom("it is no duration; write it as 90s, 5m or 1h30m")),
        Ok(Duration::ZERO) => Err(de::Error::custom("it must be more than 0; leave it out for the default")),
        Ok(time) if time > most => {
            Err(de::Error::custom(format!("it can be at most {}", humantime::format_duration(most))))
        }
        Ok(time) => Ok(time),
    }
}

/// Parses a number from 1 to `MOST`.
pub(super) fn count<'de, D: Deserializer<'de>, const MOST: usize>(from: D) -> Result<usize, D::Error> {
    match usize::deserialize(from)? {
        0 => Err(de::Error::custom("it is at least 1; leave it out for the default")),
        number if number > MOST => Err(de::Error::custom(format!("it can be at most {MOST}"))),
        number => Ok(number),
    }
}

/// Parses a rate per minute from 1 to [`limits::RATE_LIMIT_CEILING`]; `None`: no limit.
pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match Option::<u64>::deserialize(from)? {
        Some(0) => Err(de::Error::custom("it is at least 1; leave it out for no limit")),
        Some(number) if number > limits::RATE_LIMIT_CEILING => {
            Err(de::Error::custom(format!("it can be at most {}", limits::RATE_LIMIT_CEILING)))
        }
        number => Ok(number),
    }
}
