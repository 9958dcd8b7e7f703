//! Key-value stores, in memory, in a file or in a bucket. A write is atomic, and durable when it returns.
//!
//! [`KvStores`] maps an owner to its store; a [`KvStore`] is one of them. On disk a store is one append-only file (`log.rs`)
//! that is rewritten when enough of it is out of date. Each operation holds a lock for its duration and first reads the
//! records that other processes have appended, so processes can share a store. In a [bucket](crate::bucket) hosts share
//! it. [`kv_contract`] says what each [`KvBackend`] holds.

mod backend;
mod bucket_store;
#[cfg(test)]
mod contract_tests;
mod disk;
mod error;
mod file;
pub mod kv_contract;
mod log;
mod memory;
mod quota;
mod store;
mod stores;
#[cfg(test)]
mod tests;

pub use backend::{KvBackend, KvEntry, KvPrecondition};
pub use bucket_store::BucketKvBackend;
pub use error::KvError;
pub use quota::KvQuota;
pub use store::KvStore;
pub use stores::{KvStoreOwner, KvStores};
