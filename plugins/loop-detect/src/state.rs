//! The state that the effect keeps from turn to turn.

use crate::Call;

/// The call that was noted last, and the number of times that it had been made.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct State {
    pub count: u32,
    /// A digest of the call; 0 if there is none.
    pub call: u64,
}

/// The version of the layout: a byte, four bytes `count`, eight bytes `call`.
const VERSION: u8 = 1;

impl State {
    pub(crate) fn new(call: &Call, count: u32) -> State {
        State { count, call: digest(call) }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        [&[VERSION], &self.count.to_le_bytes()[..], &self.call.to_le_bytes()].concat()
    }

    /// Decodes the state. A state of another version counts as empty: at worst a note is repeated.
    pub(crate) fn decode(bytes: &[u8]) -> State {
        let read = || {
            let (version, rest) = bytes.split_first()?;
            let (count, call) = rest.split_first_chunk()?;
            let call = call.try_into().ok()?;
            (*version == VERSION).then_some(State { count: u32::from_le_bytes(*count), call: u64::from_le_bytes(call) })
        };
        read().unwrap_or_default()
    }
}

/// Computes an FNV-1a digest, which suffices to distinguish one call from the next.
fn digest(call: &Call) -> u64 {
    let bytes = call.tool.bytes().chain([0]).chain(call.arguments.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_and_strange_bytes_count_as_nothing() {
        let state = State { count: 7, call: 9 };
        assert_eq!(State::decode(&state.encode()), state);
        for bytes in [&[][..], &[VERSION], &[2; 13], &[VERSION; 12], &[VERSION; 14]] {
            assert_eq!(State::decode(bytes), State::default(), "for {bytes:?}");
        }
    }
}
