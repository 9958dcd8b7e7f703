//! WASI's random numbers: the system's if `random` is granted, otherwise a fixed sequence.

use wasmtime::component::{HasData, HasSelf, Linker};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

use crate::{contract::ImportedInterface, store::PluginState};

/// Links the system's random numbers, or the fixed sequence.
pub fn link(linker: &mut Linker<PluginState>, is_granted: bool) -> wasmtime::Result<()> {
    if is_granted {
        type Own = HasSelf<PluginState>;
        random::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiRandom))?;
        insecure::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiRandom))?;
        insecure_seed::add_to_linker::<_, Own>(linker, |state| state.called(ImportedInterface::WasiRandom))
    } else {
        random::add_to_linker::<_, HasDeterministicRandom>(linker, |state| {
            DeterministicRandomView(state.called(ImportedInterface::WasiRandom))
        })?;
        insecure::add_to_linker::<_, HasDeterministicRandom>(linker, |state| {
            DeterministicRandomView(state.called(ImportedInterface::WasiRandom))
        })?;
        insecure_seed::add_to_linker::<_, HasDeterministicRandom>(linker, |state| {
            DeterministicRandomView(state.called(ImportedInterface::WasiRandom))
        })
    }
}

/// The marker of the fixed sequence for the linker.
struct HasDeterministicRandom;

impl HasData for HasDeterministicRandom {
    type Data<'a> = DeterministicRandomView<'a>;
}

/// A view of the fixed sequence of one instance.
struct DeterministicRandomView<'a>(&'a mut PluginState);

impl DeterministicRandomView<'_> {
    fn bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        let mut bytes = self.0.room_for_random(len)?;
        self.0.base.fixed.fill(&mut bytes);
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
