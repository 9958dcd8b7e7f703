use super::{deterministic_random::DeterministicRandom, frozen_clock::FrozenClock};

/// A time and random numbers that are the same in each instance, in place of those of the system. A plugin gets them only
/// as far as it is granted `clock` and `random`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedInputs {
    /// The first reading of the clock, in milliseconds since 1970. The clock advances by
    /// [`FROZEN_STEP`](shelly_core::limits::FROZEN_STEP) with each reading, and by the duration of each completed wait.
    pub start_ms: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// The state of the fixed inputs of one instance.
pub struct FixedSources {
    start_ms: u64,
    /// The time since the start.
    pub clock: FrozenClock,
    /// The random numbers.
    pub random: DeterministicRandom,
}

impl FixedSources {
    /// Returns the next reading of the wall clock, in milliseconds.
    pub fn wall_millis(&self) -> u64 {
        self.start_ms.saturating_add(self.clock.read() / 1_000_000)
    }
}

impl From<FixedInputs> for FixedSources {
    fn from(FixedInputs { start_ms, seed }: FixedInputs) -> Self {
        Self { start_ms, clock: FrozenClock::default(), random: DeterministicRandom::seeded(seed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_sources_of_one_seed_and_start_are_equal() {
        let read = |seed| {
            let mut sources = FixedSources::from(FixedInputs { start_ms: 5, seed });
            let mut bytes = [0; 12];
            sources.random.fill(&mut bytes);
            (sources.wall_millis(), sources.wall_millis(), bytes)
        };
        let (first, second, bytes) = read(1);
        assert_eq!((first, second), (5, 6));
        assert_eq!(read(1).2, bytes);
        assert_ne!(read(2).2, bytes);
    }
}
