//! WASI's random numbers: the system's if `random` is granted, otherwise a fixed sequence.

use wasmtime::component::{HasData, HasSelf, Linker};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

use crate::runtime::PluginState;

/// Links the system's random numbers, or the fixed sequence.
pub fn link(linker: &mut Linker<PluginState>, is_granted: bool) -> wasmtime::Result<()> {
    if is_granted {
        type Own = HasSelf<PluginState>;
        random::add_to_linker::<_, Own>(linker, PluginState::called)?;
        insecure::add_to_linker::<_, Own>(linker, PluginState::called)?;
        insecure_seed::add_to_linker::<_, Own>(linker, PluginState::called)
    } else {
        random::add_to_linker::<_, DeterministicRandom>(linker, |state| DeterministicRandomView(state.called()))?;
        insecure::add_to_linker::<_, DeterministicRandom>(linker, |state| DeterministicRandomView(state.called()))?;
        insecure_seed::add_to_linker::<_, DeterministicRandom>(linker, |state| DeterministicRandomView(state.called()))
    }
}

/// A fixed pseudorandom sequence that starts anew in each instance: SplitMix64 with seed 0. A runtime that seeds its
/// hash tables with it works; a secret derived from it is not secret.
#[derive(Default)]
pub struct DeterministicRandom(u64);

impl HasData for DeterministicRandom {
    type Data<'a> = DeterministicRandomView<'a>;
}

impl DeterministicRandom {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A view of the fixed sequence of one instance.
pub struct DeterministicRandomView<'a>(&'a mut PluginState);

impl DeterministicRandomView<'_> {
    fn bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        let mut bytes = self.0.room_for_random(len)?;
        for piece in bytes.chunks_mut(size_of::<u64>()) {
            piece.copy_from_slice(&self.next().to_le_bytes()[..piece.len()]);
        }
        Ok(bytes)
    }

    fn next(&mut self) -> u64 {
        self.0.base.fixed.next()
    }
}

impl random::Host for DeterministicRandomView<'_> {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.next())
    }
}

impl insecure::Host for DeterministicRandomView<'_> {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.next())
    }
}

impl insecure_seed::Host for DeterministicRandomView<'_> {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.next(), self.next()))
    }
}

impl random::Host for PluginState {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.chance(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.number()
    }
}

impl insecure::Host for PluginState {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.chance(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.number()
    }
}

impl insecure_seed::Host for PluginState {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.number()?, self.number()?))
    }
}

impl PluginState {
    /// Returns a random number of eight bytes.
    fn number(&mut self) -> wasmtime::Result<u64> {
        let bytes = self.chance(size_of::<u64>() as u64)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
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
