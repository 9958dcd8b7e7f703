//! Buckets of values that several hosts share: each value has a revision, and each write states the one that it replaces.
//!
//! A [`StateBucket`] is all that shared state needs of a server. Key-value stores, notes, reflections, boards and rate
//! limits are built on it, so a further kind of server needs one implementation, which passes [`bucket_contract`].
//! [`MemoryBucket`] is the one without a server.

mod bucket_error;
mod bucket_key;
mod memory_bucket;
mod state_bucket;

pub mod bucket_contract;

pub use bucket_error::BucketError;
pub(crate) use bucket_key::short_key_part;
pub use bucket_key::{bucket_key_part, text_of_key_part};
pub use memory_bucket::MemoryBucket;
pub use state_bucket::{BucketChangeFn, BucketEntry, BucketWatch, StateBucket, change_entry};
