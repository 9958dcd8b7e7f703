//! A reproducible source of random numbers.

use std::{
    env,
    time::{SystemTime, UNIX_EPOCH},
};

/// Returns the first number: `SHELLY_CRASH_CHANCE`, or the time. A failure shows it.
pub fn first() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    number("SHELLY_CRASH_CHANCE").unwrap_or_else(now)
}

/// The number in a variable of the environment, if it is set.
pub fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

/// Numbers that look like chance, the same for the same beginning (a xorshift).
pub struct Chance(u64);

impl Chance {
    pub fn new(from: u64) -> Self {
        // Never 0.
        Self(from.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Below `most`.
    pub fn below(&mut self, most: usize) -> usize {
        (self.next() >> 32) as usize % most
    }
}
