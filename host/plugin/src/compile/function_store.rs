//! The cache of compiled functions for `plugin dev`: the compiler takes the functions that have not changed since the last
//! build of the plugin from it.
//!
//! This module is the store in memory, which the compiler uses during a build; `kept_functions.rs` has the
//! file between two builds.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    ops::Range,
    sync::{Mutex, MutexGuard, PoisonError},
};

use shelly_core::limits;
use wasmtime::CacheStore;

/// The key of a function: a hash over its intermediate code, the compiler's version and all of its settings.
type FunctionKey = [u8; 32];

/// The length of the head of an entry: its key, and the length of its value as four bytes in little-endian order.
const ENTRY_HEAD: usize = size_of::<FunctionKey>() + 4;

/// The compiled functions of one plugin. The compiler looks each function up by its key, and adds those that it compiles.
pub struct FunctionStore {
    /// The entries of the last build, one after the other: an entry's head, then its value.
    bytes: Vec<u8>,
    /// The values within `bytes`.
    last: HashMap<FunctionKey, Range<usize>>,
    /// The maximum bytes of all entries.
    most: usize,
    state: Mutex<StoreState>,
}

#[derive(Default)]
struct StoreState {
    /// The keys of the last build that this build uses again.
    used: HashSet<FunctionKey>,
    /// The functions that this build has compiled.
    added: BTreeMap<FunctionKey, Vec<u8>>,
    /// The bytes of the entries in `added`.
    added_bytes: usize,
}

impl FunctionStore {
    /// Parses the bytes that [`changed`](Self::changed) returned after the last build. Invalid bytes make a store without
    /// entries, so that everything is compiled again.
    pub fn of_last_build(bytes: Vec<u8>) -> Self {
        let last = entries(&bytes).unwrap_or_default();
        Self { bytes, last, most: limits::KEPT_FUNCTIONS_BYTES, state: Mutex::default() }
    }

    /// Returns the entries of this build, in the order of their keys; `None` if no function was compiled, so that those of the
    /// last build can stay. Entries beyond [`limits::KEPT_FUNCTIONS_BYTES`] are left out.
    pub fn changed(&self) -> Option<Vec<u8>> {
        let state = self.state();
        if state.added.is_empty() {
            return None;
        }
        let used = state.used.iter().filter_map(|key| Some((key, &self.bytes[self.last.get(key)?.clone()])));
        let added = state.added.iter().map(|(key, value)| (key, value.as_slice()));
        let all: BTreeMap<_, _> = used.chain(added).collect();
        let mut bytes = Vec::new();
        for (key, value) in all {
            let Ok(length) = u32::try_from(value.len()) else { continue };
            if bytes.len() + ENTRY_HEAD + value.len() <= self.most {
                bytes.extend(key);
                bytes.extend(length.to_le_bytes());
                bytes.extend(value);
            }
        }
        Some(bytes)
    }

    fn state(&self) -> MutexGuard<'_, StoreState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the values of entries that follow one another; `None` if the bytes do not end where an entry does.
fn entries(bytes: &[u8]) -> Option<HashMap<FunctionKey, Range<usize>>> {
    let mut entries = HashMap::new();
    let mut at = 0;
    while at < bytes.len() {
        let (key, rest) = bytes[at..].split_first_chunk::<{ size_of::<FunctionKey>() }>()?;
        let length = u32::from_le_bytes(*rest.first_chunk::<4>()?);
        let begin = at + ENTRY_HEAD;
        let end = begin.checked_add(usize::try_from(length).ok()?).filter(|end| *end <= bytes.len())?;
        entries.insert(*key, begin..end);
        at = end;
    }
    Some(entries)
}

impl CacheStore for FunctionStore {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key = FunctionKey::try_from(key).ok()?;
        let mut state = self.state();
        if let Some(range) = self.last.get(&key) {
            state.used.insert(key);
            return Some(Cow::Borrowed(&self.bytes[range.clone()]));
        }
        // Two modules of one component may contain the same function.
        state.added.get(&key).map(|value| Cow::Owned(value.clone()))
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let Ok(key) = FunctionKey::try_from(key) else { return false };
        let mut state = self.state();
        let bytes = state.added_bytes.saturating_add(ENTRY_HEAD + value.len());
        if bytes > self.most {
            return false;
        }
        // The compiler has rejected the entry of the last build, for example one of another compiler version.
        state.used.remove(&key);
        if state.added.insert(key, value).is_none() {
            state.added_bytes = bytes;
        }
        true
    }
}

impl fmt::Debug for FunctionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionStore").field("last", &self.last.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn key(of: u8) -> FunctionKey {
        [of; size_of::<FunctionKey>()]
    }

    /// A store of a build that has compiled these functions.
    fn built(functions: &[(u8, &[u8])]) -> FunctionStore {
        let store = FunctionStore::of_last_build(Vec::new());
        for (of, value) in functions {
            assert!(store.insert(&key(*of), value.to_vec()));
        }
        store
    }

    #[test]
    fn unchanged_functions_come_from_the_last_build() {
        let first = built(&[(1, b"one"), (2, b"two")]);
        assert_eq!(first.get(&key(2)).as_deref(), Some(&b"two"[..]), "within one build");
        let kept = first.changed().unwrap();

        let second = FunctionStore::of_last_build(kept);
        assert_eq!(second.get(&key(1)).as_deref(), Some(&b"one"[..]));
        assert_eq!(second.get(&key(3)), None);
        assert_eq!(second.changed(), None, "nothing was compiled: what is kept can stay");
        assert!(second.insert(&key(3), b"three".to_vec()));

        // The second function is no longer a part of the plugin.
        let third = FunctionStore::of_last_build(second.changed().unwrap());
        let found = [1, 2, 3].map(|of| third.get(&key(of)).map(Cow::into_owned));
        assert_eq!(found, [Some(b"one".to_vec()), None, Some(b"three".to_vec())]);
    }

    #[test]
    fn function_that_is_compiled_again_replaces_the_last_one() {
        let second = FunctionStore::of_last_build(built(&[(1, b"old")]).changed().unwrap());
        assert_eq!(second.get(&key(1)).as_deref(), Some(&b"old"[..]));
        assert!(second.insert(&key(1), b"new".to_vec()));
        let third = FunctionStore::of_last_build(second.changed().unwrap());
        assert_eq!(third.get(&key(1)).as_deref(), Some(&b"new"[..]));
    }

    #[test]
    fn damaged_store_has_no_functions() {
        let kept = built(&[(1, b"one"), (2, b"two")]).changed().unwrap();
        let whole = [0, ENTRY_HEAD + 3, kept.len()];
        for end in 0..=kept.len() {
            let store = FunctionStore::of_last_build(kept[..end].to_vec());
            assert_eq!(store.last.len(), whole.iter().position(|whole| *whole == end).unwrap_or(0), "{end}");
        }
        assert_eq!(FunctionStore::of_last_build(kept).get(b"a key of another length"), None);
    }

    #[test]
    fn functions_beyond_the_limit_are_not_kept() {
        assert_eq!(FunctionStore::of_last_build(Vec::new()).most, limits::KEPT_FUNCTIONS_BYTES);
        let most = 100;
        let bounded = |bytes| FunctionStore { most, ..FunctionStore::of_last_build(bytes) };
        let store = bounded(Vec::new());
        assert!(!store.insert(b"a key of another length", Vec::new()));
        assert!(store.insert(&key(2), vec![0; most - ENTRY_HEAD]));
        assert!(!store.insert(&key(1), Vec::new()), "there is no room for its key");

        let store = bounded(store.changed().unwrap());
        assert!(store.get(&key(2)).is_some() && store.insert(&key(1), b"one".to_vec()));
        assert_eq!(
            store.changed().unwrap().len(),
            ENTRY_HEAD + 3,
            "the first fits, and the large one beside it does not"
        );
    }
}
