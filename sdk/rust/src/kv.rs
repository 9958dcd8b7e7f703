//! A key-value store for bytes that outlast a call. The agent's config decides whether the store belongs to the run, the
//! session, the agent or the plugin. A plugin asks for it with `kv = true` in `[wants]`; the config grants it with
//! `kv: agent`. A write is atomic, and it is on disk when the call returns, or on the server of the cluster that the config
//! names, except in the store of a run.
//!
//! ```no_run
//! use shelly_plugin::{Error, kv};
//!
//! /// Returns the number of this visit, also if many calls or processes count at once.
//! fn visit(who: &str) -> Result<u64, Error> {
//!     kv::update(&format!("visits/{who}"), |count: Option<u64>| count.unwrap_or(0) + 1)
//! }
//! ```

use serde::{Serialize, de::DeserializeOwned};

use crate::{host::kv as host, types::Error};

#[doc(inline)]
pub use host::Entry;

/// Reads a value. Keys have 1 to 512 bytes.
#[track_caller]
pub fn get(key: &str) -> Result<Option<Entry>, Error> {
    host::get(key)
}

/// Writes a value, whatever the key holds. Bounds: 1 MiB a value, 64 MiB and 65,536 keys a store ([`Error::Exhausted`]).
#[track_caller]
pub fn set(key: &str, value: &[u8]) -> Result<(), Error> {
    host::set(key, Some(value))
}

/// Removes a key if it exists.
#[track_caller]
pub fn remove(key: &str) -> Result<(), Error> {
    host::set(key, None)
}

/// Writes a value, or removes it if `value` is `None`, if the key still has revision `expected`; if `expected` is `None`,
/// the key must not exist. Otherwise changes nothing and returns `false`: read again and repeat, or use [`update`].
#[track_caller]
pub fn compare_and_swap(key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<bool, Error> {
    host::compare_and_swap(key, expected, value)
}

/// Returns the keys that start with `prefix` and come after `after`, in byte order. Bound: 1,000 a call; call again with
/// the last key as `after`.
#[track_caller]
pub fn keys(prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
    host::keys(prefix, after)
}

/// Reads a value that [`put`] or [`update`] wrote.
pub fn read<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    get(key)?.map(|entry| parse(key, &entry.value)).transpose()
}

/// Writes a value as JSON.
pub fn put<T: Serialize>(key: &str, value: &T) -> Result<(), Error> {
    set(key, &serde_json::to_vec(value).map_err(Error::other)?)
}

/// Changes a value that is stored as JSON, and returns the new value. `change` is called again if another call has
/// written the key meanwhile, so it must have no side effects.
pub fn update<T: Serialize + DeserializeOwned>(key: &str, mut change: impl FnMut(Option<T>) -> T) -> Result<T, Error> {
    loop {
        let there = get(key)?;
        let revision = there.as_ref().map(|entry| entry.revision);
        let new = change(there.map(|entry| parse(key, &entry.value)).transpose()?);
        if compare_and_swap(key, revision, Some(&serde_json::to_vec(&new).map_err(Error::other)?))? {
            return Ok(new);
        }
    }
}

fn parse<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, Error> {
    let text = std::str::from_utf8(value).map_err(|error| error.to_string());
    text.and_then(crate::json::parse).map_err(|cause| Error::Other(format!("the value of `{key}`: {cause}")))
}
