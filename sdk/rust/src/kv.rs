//! Bytes by key that outlast a call. Which store it is, the agent's config says: of the run, the session, the agent or the
//! plugin. `kv = true` in `[wants]` asks for it, `kv: agent` in the config grants it. A write is whole or not at all, and
//! on disk when the call returns, except in a run's store.
//!
//! ```no_run
//! use shelly_plugin::{Error, kv};
//!
//! /// Which visit it is. Right also if many calls, or many processes, count at once.
//! fn visit(who: &str) -> Result<u64, Error> {
//!     kv::update(&format!("visits/{who}"), |count: Option<u64>| count.unwrap_or(0) + 1)
//! }
//! ```

use serde::{Serialize, de::DeserializeOwned};

use crate::{bindings::imports::shelly::plugin::kv as host, imports::only_in_host, types::Error};

#[doc(inline)]
pub use host::Entry;

/// Reads. Keys: 1 to 512 bytes.
#[track_caller]
pub fn get(key: &str) -> Result<Option<Entry>, Error> {
    only_in_host("kv::get");
    host::get(key)
}

/// Writes, whatever was there. Bounds: 1 MiB a value, 64 MiB and 65,536 keys a store (`Error::Exhausted`).
#[track_caller]
pub fn set(key: &str, value: &[u8]) -> Result<(), Error> {
    only_in_host("kv::set");
    host::set(key, Some(value))
}

/// Removes, if there is something.
#[track_caller]
pub fn remove(key: &str) -> Result<(), Error> {
    only_in_host("kv::remove");
    host::set(key, None)
}

/// Writes (none removes) if the key still has revision `expected`; none: if it does not exist. `false`, and nothing done,
/// if not: read again and repeat, or have [`update`] do that.
#[track_caller]
pub fn compare_and_swap(key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<bool, Error> {
    only_in_host("kv::compare_and_swap");
    host::compare_and_swap(key, expected, value)
}

/// Keys that start with `prefix` and come after `after`, in byte order. Bound: 1,000 a call; ask again after the last one.
#[track_caller]
pub fn keys(prefix: &str, after: Option<&str>) -> Result<Vec<String>, Error> {
    only_in_host("kv::keys");
    host::keys(prefix, after)
}

/// Reads what [`put`] or [`update`] has written.
pub fn read<T: DeserializeOwned>(key: &str) -> Result<Option<T>, Error> {
    get(key)?.map(|entry| parse(key, &entry.value)).transpose()
}

/// Writes a value as JSON.
pub fn put<T: Serialize>(key: &str, value: &T) -> Result<(), Error> {
    set(key, &serde_json::to_vec(value).map_err(Error::other)?)
}

/// Changes a value that is kept as JSON, and says what it is now. `change` is called again if somebody else wrote
/// meanwhile: it must do nothing but compute.
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
