use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::Limits;
use crate::limits;

/// Counts what one instance takes and stops it at its bound: all its memories together, all its tables together.
#[derive(Debug)]
pub struct Limiter {
    limits: Arc<Limits>,
    memory: usize,
    tables: usize,
    /// The bound that it ran into, if any: told in place of the trap that follows.
    pub hit: Option<Bound>,
}

/// A bound on what an instance holds, or on what crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Memory,
    Tables,
    Input,
    Output,
}

impl Limiter {
    pub fn new(limits: Arc<Limits>) -> Self {
        Self { limits, memory: 0, tables: 0, hit: None }
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
        if all > self.limits.memory_bytes {
            self.hit = Some(Bound::Memory);
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
        if all > self.limits.table_elements {
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
        self.limits.instances
    }

    fn memories(&self) -> usize {
        limits::PLUGIN_MEMORIES as usize
    }

    fn tables(&self) -> usize {
        limits::PLUGIN_TABLES as usize
    }
}
