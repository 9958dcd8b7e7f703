//! The parts that many objects of the protocol share.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Values under names that the protocol leaves open.
pub type A2aMetadata = Map<String, Value>;

/// Deserializes a field that may be `null`, which means its default.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
