//! Key-value stores, in memory or in a file. A write is atomic, and durable when it returns.
//!
//! [`KvStores`] maps an owner to its store; a [`KvStore`] is one of them. On disk a store is one append-only file (`log.rs`)
//! that is rewritten when enough of it is out of date. Each operation holds a lock for its duration and first reads the
//! records that other processes have appended, so processes can share a store.

mod backend;
mod disk;
mod error;
mod file;
mod log;
mod memory;
mod quota;
mod store;
mod stores;
#[cfg(test)]
mod tests;

pub use backend::{KvEntry, KvPrecondition};
pub use error::KvError;
pub use quota::KvQuota;
pub use store::KvStore;
pub use stores::{KvStoreOwner, KvStores};
