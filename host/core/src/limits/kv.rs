//! Limits of the key-value stores of plugins.

use std::time::Duration;

/// The maximum bytes of a key, as in the contract.
pub const KV_KEY_BYTES: usize = 512;
/// The maximum bytes of a value, as in the contract: what one call can easily pass.
pub const KV_VALUE_BYTES: usize = 1 << 20;
/// The maximum bytes of all keys and values of one store, as in the contract. A store's file has up to twice as many plus
/// [`KV_WASTE_BYTES`].
pub const KV_STORE_BYTES: u64 = 64 << 20;
/// The maximum number of keys of one store: each takes about a hundred bytes of the host's memory while the store is in use.
pub const KV_STORE_KEYS: usize = 65_536;
/// The maximum number of keys that one `kv.keys` returns, as in the contract.
pub const KV_KEYS_LISTED: usize = 1_000;
/// The maximum bytes of keys and values of all in-memory stores together, including [`KV_ENTRY_BYTES`] for each key: a
/// thousand active agents have one each.
pub const KV_MEMORY_BYTES: usize = 512 << 20;
/// The bytes that an entry takes in addition to its key and value.
pub const KV_ENTRY_BYTES: usize = 128;
/// The bytes of overwritten and removed records that a file may hold beyond the size of the live ones, before it is
/// rewritten.
pub const KV_WASTE_BYTES: u64 = 4 << 20;
/// The time to wait for another process that uses the same store: it holds the lock for one operation at a time.
pub const KV_LOCK_TIME: Duration = Duration::from_secs(5);
/// The pause between two attempts to lock a store.
pub const KV_LOCK_PAUSE: Duration = Duration::from_millis(1);
/// The maximum bytes of an agent's or plugin's name in a file name; a longer one is replaced by its SHA-256.
pub const KV_FILE_NAME_BYTES: usize = 100;
/// The maximum bytes of a store's file; a larger one was not written by this program, and is not read. Twice the live
/// content, including [`KV_RECORD_BYTES`] for each key, plus the permitted waste and one more record.
pub const KV_FILE_BYTES: u64 = 2 * (KV_STORE_BYTES + (KV_STORE_KEYS * KV_RECORD_BYTES) as u64)
    + KV_WASTE_BYTES
    + (KV_RECORD_BYTES + KV_KEY_BYTES + KV_VALUE_BYTES) as u64;
/// The bytes of a record in a file in addition to its key and value.
pub const KV_RECORD_BYTES: usize = 22;
/// The maximum number of distinct warnings about one unusable store. A process that changes the file repeatedly could cause
/// new ones forever.
pub const KV_WARNINGS: u32 = 8;
/// The time between two counts of a store in a cluster that seems to be full: a count reads all of its values.
pub const KV_COUNT_PAUSE: Duration = Duration::from_secs(60);
