//! Times as milliseconds since 1970 in JSON. One that is beyond all times becomes the beginning.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serializer};

/// Returns the milliseconds since 1970 of a time.
pub(crate) fn of(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time that is this many milliseconds after 1970.
fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

/// Writes a time.
pub(crate) fn serialize<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(of(*at))
}

/// Reads a time.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
    u64::deserialize(from).map(time)
}

/// Times that may be absent.
pub(crate) mod option {
    use super::{Deserialize, Deserializer, Serializer, SystemTime, of, time};

    /// Writes a time or its absence.
    pub(crate) fn serialize<S: Serializer>(at: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => to.serialize_some(&of(*at)),
            None => to.serialize_none(),
        }
    }

    /// Reads a time or its absence.
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SystemTime>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(time))
    }
}
