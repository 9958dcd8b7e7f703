//! Random numbers that follow from a seed.

/// Random numbers that follow from a seed.
pub struct SeededRandom(u64);

impl SeededRandom {
    /// Creates the numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `most`; 0 if that is 0.
    pub fn below(&mut self, most: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % most.max(1) as u64) as usize
    }
}
