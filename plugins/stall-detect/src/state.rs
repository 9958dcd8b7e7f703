//! The state that the effect keeps from turn to turn.

/// The progress in the chat, and the newest results.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct State {
    /// Set if the model was told, and its results have not changed since.
    pub told: bool,
    /// The id of the last message that was examined.
    pub seen: Option<u64>,
    /// The fingerprints of the newest results, oldest first.
    pub results: Vec<u64>,
}

/// The version of the layout: a byte, a byte `told`, eight bytes `seen` plus one (0: none), eight bytes a result.
const VERSION: u8 = 1;

impl State {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let seen = self.seen.map_or(0, |id| id.wrapping_add(1));
        let numbers = [seen].into_iter().chain(self.results.iter().copied()).flat_map(u64::to_le_bytes);
        [VERSION, u8::from(self.told)].into_iter().chain(numbers).collect()
    }

    /// Decodes the state. A state of another version counts as empty: at worst the model is told twice.
    pub(crate) fn decode(bytes: &[u8]) -> State {
        let read = || {
            let ([version, told], rest) = bytes.split_first_chunk()?;
            let (numbers, []) = rest.as_chunks() else { return None };
            let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
            let seen = numbers.next()?.checked_sub(1);
            (*version == VERSION).then(|| State { told: *told == 1, seen, results: numbers.collect() })
        };
        read().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_as_it_was_and_strange_bytes_count_as_nothing() {
        for state in [
            State::default(),
            State { told: true, seen: Some(0), results: vec![] },
            State { told: false, seen: Some(7), results: vec![1, u64::MAX] },
        ] {
            assert_eq!(State::decode(&state.encode()), state);
        }
        for bytes in [&[][..], &[VERSION], &[VERSION; 9], &[VERSION; 11], &[2; 10]] {
            assert_eq!(State::decode(bytes), State::default(), "for {bytes:?}");
        }
    }
}
