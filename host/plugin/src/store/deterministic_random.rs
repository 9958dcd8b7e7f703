/// A fixed pseudorandom sequence that starts anew in each instance: SplitMix64, by default with seed 0. A runtime that
/// seeds its hash tables with it works; a secret derived from it is not secret.
#[derive(Default)]
pub struct DeterministicRandom(u64);

impl DeterministicRandom {
    /// Creates the sequence with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Fills `bytes` with the next numbers of the sequence.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(size_of::<u64>()) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
    }

    /// Returns the next eight bytes of the sequence.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the algorithm's authors publish for this seed.
    #[test]
    fn deterministic_random_matches_splitmix64() {
        let mut fixed = DeterministicRandom::default();
        let numbers = [fixed.next(), fixed.next(), fixed.next()];
        assert_eq!(numbers, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
    }
}
