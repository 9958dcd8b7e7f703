use wasmtime::ResourceLimiter;

use crate::limits;

/// Counts what one instance takes and stops it at its bound: all its memories together, all its tables together.
#[derive(Debug)]
pub struct Limiter {
    memory: usize,
    most_memory: usize,
    tables: usize,
    /// The bound that it ran into, if any: told in place of the trap that follows.
    pub hit: Option<Bound>,
}

/// A bound on what an instance holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Memory { bytes: usize },
    Tables,
}

impl Limiter {
    pub fn new(most_memory: usize) -> Self {
        Self { memory: 0, most_memory, tables: 0, hit: None }
    }

    /// Bytes of linear memory that the instance holds. Memory does not shrink, so it is also the most that it held.
    pub fn memory(&self) -> usize {
        self.memory
    }
}

/// Whether the memory or table declares itself that it never gets so large: then it does not, and holds no more.
fn is_beyond(desired: usize, most: Option<usize>) -> bool {
    most.is_some_and(|most| desired > most)
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let all = self.memory.saturating_add(desired.saturating_sub(current));
        if all > self.most_memory {
            self.hit = Some(Bound::Memory { bytes: self.most_memory });
            return Ok(false);
        }
        if is_beyond(desired, most) {
            return Ok(false);
        }
        self.memory = all;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let all = self.tables.saturating_add(desired.saturating_sub(current));
        if all > limits::PLUGIN_TABLE_ELEMENTS {
            self.hit = Some(Bound::Tables);
            return Ok(false);
        }
        if is_beyond(desired, most) {
            return Ok(false);
        }
        self.tables = all;
        Ok(true)
    }

    fn instances(&self) -> usize {
        limits::PLUGIN_CORE_INSTANCES
    }

    fn memories(&self) -> usize {
        limits::PLUGIN_MEMORIES as usize
    }

    fn tables(&self) -> usize {
        limits::PLUGIN_TABLES as usize
    }
}
