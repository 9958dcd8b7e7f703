use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{chat::as_base64, limits};

/// The nondeterministic inputs of a plugin call: the clock readings and random bytes that another call would not get.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NondeterministicInputs {
    /// Clock readings in order: milliseconds since 1970, or nanoseconds since the call began for the monotonic clock.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock: Vec<u64>,
    /// Random bytes in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_base64")]
    #[schemars(with = "String")]
    pub random: Vec<u8>,
    /// `true` if the call got more than [`limits::GIVEN_CLOCK_READINGS`] or [`limits::GIVEN_RANDOM_BYTES`]; the rest is left
    /// out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
}

impl NondeterministicInputs {
    /// Returns `true` if the call got no such input.
    pub fn is_empty(&self) -> bool {
        self.clock.is_empty() && self.random.is_empty() && !self.cut
    }

    /// Adds a reading of a clock, in the unit of that clock, unless the call got too many.
    pub fn clock(&mut self, reading: u64) {
        if self.clock.len() < limits::GIVEN_CLOCK_READINGS {
            self.clock.push(reading);
        } else {
            self.cut = true;
        }
    }

    /// Adds random bytes, up to what a call may get.
    pub fn random(&mut self, bytes: &[u8]) {
        // Inputs that were read from a file may have more.
        let room = limits::GIVEN_RANDOM_BYTES.saturating_sub(self.random.len());
        self.random.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.cut |= bytes.len() > room;
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nondeterministic_inputs_are_cut_at_their_limits() {
        let mut given = NondeterministicInputs::default();
        assert_eq!(serde_json::to_value(&given).unwrap(), serde_json::json!({}));
        given.clock(7);
        given.random(&[0, 255]);
        given.random(&[]);
        let json = serde_json::to_value(&given).unwrap();
        assert_eq!(json, serde_json::json!({"clock": [7], "random": "AP8="}));
        assert_eq!(serde_json::from_value::<NondeterministicInputs>(json).unwrap(), given);
        for (readings, bytes, cut) in [
            (limits::GIVEN_CLOCK_READINGS, limits::GIVEN_RANDOM_BYTES, false),
            (limits::GIVEN_CLOCK_READINGS + 1, 0, true),
            (0, limits::GIVEN_RANDOM_BYTES + 1, true),
        ] {
            let mut given = NondeterministicInputs::default();
            (0..readings).for_each(|reading| given.clock(reading as u64));
            (0..bytes).for_each(|_| given.random(&[1]));
            assert_eq!(given.cut, cut, "{readings} {bytes}");
            assert_eq!(given.clock.len(), readings.min(limits::GIVEN_CLOCK_READINGS));
            assert_eq!(given.random.len(), bytes.min(limits::GIVEN_RANDOM_BYTES));
            given.random(&vec![2; limits::GIVEN_RANDOM_BYTES + 1]);
            assert_eq!((given.random.len(), given.cut), (limits::GIVEN_RANDOM_BYTES, true), "what fits is kept");
        }
    }
}
