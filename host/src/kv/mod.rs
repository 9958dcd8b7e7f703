//! Key-value stores: bytes by key, in memory or in a file. A write is whole or not at all, and on disk when it returns.
//!
//! [`KvStores`] knows which store is whose and where it is; a [`KvStore`] is one of them. On disk a store is one file that is
//! only ever added to (`log.rs`) until so much of it is out of date that it is written anew. Each operation holds a lock for
//! as long as it lasts and first reads what others have added, so processes share a store.

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

pub use error::KvError;
pub use quota::KvQuota;
pub use store::{KvEntry, KvPrecondition, KvStore};
pub use stores::{KvStoreOwner, KvStores};
