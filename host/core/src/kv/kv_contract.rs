//! The contract of [`KvBackend`]: checks that every implementation passes.

use super::{KvBackend, KvError, KvPrecondition, KvQuota};
use crate::limits;

/// The quota of the stores that are checked.
pub const KV_CHECK_QUOTA: KvQuota = KvQuota { bytes: 3 << 20, keys: 4 };

/// An empty store with the quota [`KV_CHECK_QUOTA`].
pub trait KvFixture {
    /// Returns the store as another process would open it.
    fn store(&self) -> Box<dyn KvBackend>;
}

/// A check of one rule.
type KvCheck = (&'static str, fn(&dyn KvFixture) -> Result<(), String>);

const CHECKS: [KvCheck; 5] = [
    ("values_are_read_as_written", values_are_read_as_written),
    ("preconditions_are_held", preconditions_are_held),
    ("keys_are_listed_in_byte_order", keys_are_listed_in_byte_order),
    ("quota_of_keys_is_held", quota_of_keys_is_held),
    ("quota_of_bytes_is_held", quota_of_bytes_is_held),
];

const ANY: KvPrecondition = KvPrecondition::Anything;

/// Runs all checks, each on a store of its own, and returns the failed ones with the reasons.
pub fn failed_kv_checks(new_fixture: impl Fn() -> Box<dyn KvFixture>) -> Vec<(&'static str, String)> {
    CHECKS.iter().filter_map(|(name, check)| Some((*name, check(&*new_fixture()).err()?))).collect()
}

/// Returns an error with both values if they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, not {expected:?}")),
    }
}

fn text(error: KvError) -> String {
    error.to_string()
}

fn write(store: &mut dyn KvBackend, key: &str, value: &[u8]) -> Result<(), String> {
    same(key, store.write(key, ANY, Some(value)).map_err(text)?, true)
}

fn revision(store: &mut dyn KvBackend, key: &str) -> Result<u64, String> {
    Ok(store.get(key).map_err(text)?.ok_or("there is no value")?.revision)
}

fn values_are_read_as_written(fixture: &dyn KvFixture) -> Result<(), String> {
    let mut store = fixture.store();
    let long = "k".repeat(limits::KV_KEY_BYTES);
    let large = vec![7; limits::KV_VALUE_BYTES];
    for key in ["a", "é\0.*>", "../up", &long] {
        for value in [&b"v"[..], &b""[..], &large[..]] {
            write(&mut *store, key, value)?;
            let read = fixture.store().get(key).map_err(text)?.ok_or("another process sees nothing")?;
            same(key, read.value == value, true)?;
        }
        same("removed", store.write(key, ANY, None).map_err(text)?, true)?;
        same("value after that", store.get(key).map_err(text)?, None)?;
        same("nothing removed", store.write(key, ANY, None).map_err(text)?, true)?;
    }
    Ok(())
}

fn preconditions_are_held(fixture: &dyn KvFixture) -> Result<(), String> {
    let (mut store, mut other) = (fixture.store(), fixture.store());
    let store = &mut *store;
    same("no such revision", store.write("k", KvPrecondition::Revision(0), Some(b"x")).map_err(text)?, false)?;
    same("created", store.write("k", KvPrecondition::Nothing, Some(b"1")).map_err(text)?, true)?;
    same("created again", other.write("k", KvPrecondition::Nothing, Some(b"1")).map_err(text)?, false)?;
    let first = revision(store, "k")?;
    let replace = KvPrecondition::Revision(first);
    same("replaced", other.write("k", replace, Some(b"1")).map_err(text)?, true)?;
    same("replaced again", store.write("k", replace, Some(b"2")).map_err(text)?, false)?;
    let second = revision(store, "k")?;
    same("a later revision", second > first, true)?;
    same("removed", store.write("k", KvPrecondition::Revision(second), None).map_err(text)?, true)?;
    write(store, "k", b"1")?;
    same("no revision repeats", revision(store, "k")? > second, true)
}

fn keys_are_listed_in_byte_order(fixture: &dyn KvFixture) -> Result<(), String> {
    let mut store = fixture.store();
    for key in ["é", "n/1", "n\0", "n"] {
        write(&mut *store, key, b"")?;
    }
    for (prefix, after, expected) in [
        ("", None, &["n", "n\0", "n/1", "é"][..]),
        ("n", Some("n"), &["n\0", "n/1"][..]),
        ("n/", None, &["n/1"][..]),
        ("x", None, &[][..]),
        ("", Some("n/1"), &["é"][..]),
    ] {
        let expected: Vec<_> = expected.iter().map(|key| (*key).to_owned()).collect();
        same(prefix, fixture.store().keys(prefix, after).map_err(text)?, expected)?;
    }
    Ok(())
}

fn quota_of_keys_is_held(fixture: &dyn KvFixture) -> Result<(), String> {
    let (mut store, most) = (fixture.store(), KV_CHECK_QUOTA.keys);
    for key in 0..most {
        write(&mut *store, &key.to_string(), b"")?;
    }
    same("one key more", fixture.store().write("more", ANY, Some(b"")), Err(KvError::TooManyKeys { most }))?;
    write(&mut *store, "0", b"longer")?;
    store.write("1", ANY, None).map_err(text)?;
    write(&mut *fixture.store(), "more", b"")
}

fn quota_of_bytes_is_held(fixture: &dyn KvFixture) -> Result<(), String> {
    let (mut store, most) = (fixture.store(), KV_CHECK_QUOTA.bytes);
    let large = vec![0; limits::KV_VALUE_BYTES - 1];
    for key in ["a", "b", "c"] {
        write(&mut *store, key, &large)?;
    }
    let full = KvError::Full { would: most + 1, most };
    same("one byte more", fixture.store().write("d", ANY, Some(b"")), Err(full))?;
    write(&mut *store, "a", &large)?;
    write(&mut *store, "a", b"")?;
    write(&mut *fixture.store(), "d", b"small")
}
