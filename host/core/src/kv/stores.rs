use std::{
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use super::{
    BucketKvBackend, KvQuota, KvStore,
    disk::{DiskKvBackend, KvFolderFn, make_folder},
    memory::{KvMemoryPool, MemoryKvBackend},
};
use crate::{
    bucket::{StateBucket, bucket_key_part, short_key_part},
    digest::Sha256Digest,
    error::without_number,
    limits,
};

/// The owner of a store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KvStoreOwner {
    /// One session, user and plugin.
    Session {
        /// The agent or model, by its config path, which is unique.
        user: String,
        /// The plugin's id.
        plugin: String,
    },
    /// One user and plugin.
    User {
        /// The agent or model, as for [`KvStoreOwner::Session`].
        user: String,
        /// The plugin's id.
        plugin: String,
    },
    /// One plugin.
    Plugin {
        /// The plugin's id.
        plugin: String,
    },
}

/// The stores of a project and of one session in it. Clones refer to the same stores.
#[derive(Clone)]
pub struct KvStores(Arc<KvStoresInner>);

struct KvStoresInner {
    /// The folder; `None`: all stores are in memory, or in the bucket.
    folder: Option<KvFolderFn>,
    /// The bucket in which hosts share the stores.
    bucket: Option<Arc<dyn StateBucket>>,
    /// The name of the session, once it is recorded: a part of the keys in the bucket.
    session_name: OnceLock<String>,
    /// The folder of the session's stores, once the session is recorded.
    session: OnceLock<KvFolderFn>,
    quota: KvQuota,
    pool: Arc<KvMemoryPool>,
    /// The one store of all owners, if there is only one.
    single: Option<KvStore>,
    open: Mutex<HashMap<KvStoreOwner, KvStore>>,
}

impl fmt::Debug for KvStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.0.bucket, &self.0.folder) {
            (Some(_), _) => "KvStores(bucket)",
            (None, Some(_)) => "KvStores(project)",
            (None, None) => "KvStores(memory)",
        })
    }
}

impl Default for KvStores {
    /// Creates stores in memory.
    fn default() -> Self {
        Self::new(None, None, KvQuota::default(), limits::KV_MEMORY_BYTES)
    }
}

impl KvStores {
    /// Creates stores that are one and the same for every owner, in memory: a test fills it before a call, and reads it after.
    pub fn single() -> Self {
        let (quota, pool) = (KvQuota::default(), Arc::new(KvMemoryPool::new(limits::KV_MEMORY_BYTES)));
        let single = Some(KvStore::in_memory(MemoryKvBackend::new(quota, Arc::clone(&pool))));
        let (session, session_name, open) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let (folder, bucket) = (None, None);
        Self(Arc::new(KvStoresInner { folder, bucket, session_name, session, quota, pool, single, open }))
    }

    /// Creates stores below a folder. `folder` is called when the first store is used; it may block.
    pub fn on_disk(folder: impl Fn() -> Result<PathBuf, String> + Send + Sync + 'static) -> Self {
        Self::new(Some(Arc::new(folder)), None, KvQuota::default(), limits::KV_MEMORY_BYTES)
    }

    /// Creates stores in a bucket, which other hosts use too. Stores of a run, and of a session that is not recorded, are
    /// in memory.
    pub fn in_bucket(bucket: Arc<dyn StateBucket>) -> Self {
        Self::new(None, Some(bucket), KvQuota::default(), limits::KV_MEMORY_BYTES)
    }

    /// Returns new stores with other bounds: `quota` for each store, `memory` bytes for all in-memory stores together.
    pub fn bounded(self, quota: KvQuota, memory: usize) -> Self {
        Self::new(self.0.folder.clone(), self.0.bucket.clone(), quota, memory)
    }

    fn new(folder: Option<KvFolderFn>, bucket: Option<Arc<dyn StateBucket>>, quota: KvQuota, memory: usize) -> Self {
        let (session, session_name, open) = (OnceLock::new(), OnceLock::new(), Mutex::default());
        let (pool, single) = (Arc::new(KvMemoryPool::new(memory)), None);
        Self(Arc::new(KvStoresInner { folder, bucket, session_name, session, quota, pool, single, open }))
    }

    /// Puts the session's stores into the folder `kv` of `folder`, which must exist, or, if the stores are in a bucket, into
    /// the bucket under the name of the session. Before that, and without a session, they are in memory. Only the first call
    /// has an effect.
    pub fn of_session(&self, name: &str, folder: PathBuf) {
        let _ = self.0.session_name.set(name.to_owned());
        let kv = move || {
            let kv = folder.join("kv");
            make_folder(&kv).map(|()| kv).map_err(|error| without_number(&error.to_string()))
        };
        let _ = self.0.session.set(Arc::new(kv));
    }

    /// Returns a new in-memory store that is not shared, or the one store of all owners.
    pub fn in_memory(&self) -> KvStore {
        if let Some(single) = &self.0.single {
            return single.clone();
        }
        KvStore::in_memory(MemoryKvBackend::new(self.0.quota, Arc::clone(&self.0.pool)))
    }

    /// Returns the store of this owner. No disk access before its first use.
    pub fn get(&self, owner: KvStoreOwner) -> KvStore {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(owner).or_insert_with_key(|owner| self.make(owner)).clone()
    }

    fn make(&self, owner: &KvStoreOwner) -> KvStore {
        if let Some(bucket) = &self.0.bucket {
            let key = match (owner, self.0.session_name.get()) {
                (KvStoreOwner::Session { .. }, None) => return self.in_memory(),
                (KvStoreOwner::Session { user, plugin }, Some(session)) => {
                    format!("session.{}.{}.{}", bucket_key_part(session), short_key_part(user), short_key_part(plugin))
                }
                (KvStoreOwner::User { user, plugin }, _) => {
                    format!("user.{}.{}", short_key_part(user), short_key_part(plugin))
                }
                (KvStoreOwner::Plugin { plugin }, _) => format!("plugin.{}", short_key_part(plugin)),
            };
            return KvStore::with_backend(BucketKvBackend::new(Arc::clone(bucket), key, self.0.quota));
        }
        let file = |plugin: &str| format!("{}.kv", file_name(plugin));
        let (folder, names) = match owner {
            KvStoreOwner::Session { user, plugin } => (self.0.session.get(), of_user(user, file(plugin))),
            KvStoreOwner::User { user, plugin } => (self.0.folder.as_ref(), of_user(user, file(plugin))),
            KvStoreOwner::Plugin { plugin } => (self.0.folder.as_ref(), vec!["plugins".into(), file(plugin)]),
        };
        match folder {
            Some(folder) => KvStore::with_backend(DiskKvBackend::new(Arc::clone(folder), names, self.0.quota)),
            None => self.in_memory(),
        }
    }
}

/// Returns the path of a user's file: `agents.ada` maps to `agents/ada`.
fn of_user(user: &str, file: String) -> Vec<String> {
    let (kind, name) = user.split_once('.').unwrap_or(("users", user));
    vec![file_name(kind), file_name(name), file]
}

/// Encodes a name as a file name: never a path, and distinct even on case-insensitive file systems.
fn file_name(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => safe.push(byte.into()),
            _ => safe.push_str(&format!("%{byte:02x}")),
        }
    }
    if (1..=limits::KV_FILE_NAME_BYTES).contains(&safe.len()) {
        return safe;
    }
    // An encoded name has no `%` without two hexadecimal digits after it.
    format!("%sha256-{}", Sha256Digest::of(name).hex())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::{bucket::MemoryBucket, kv::KvPrecondition};

    #[tokio::test]
    async fn single_store_belongs_to_every_owner() {
        let stores = KvStores::single();
        let anything = KvPrecondition::Anything;
        assert!(stores.in_memory().write("k".into(), anything, Some(b"v".to_vec())).await.unwrap());
        let plugin = stores.get(KvStoreOwner::Plugin { plugin: "p".into() });
        assert_eq!(plugin.get("k".into()).await.unwrap().unwrap().value, b"v");
        let (one, other) = (KvStores::default(), KvStores::default().in_memory());
        assert!(one.in_memory().write("k".into(), anything, Some(b"v".to_vec())).await.unwrap());
        assert!(other.get("k".into()).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn bucket_stores_of_owners_are_apart() {
        let bucket = Arc::new(MemoryBucket::new());
        let host = || KvStores::in_bucket(bucket.clone());
        let (one, other) = (host(), host());
        one.of_session("s.1", PathBuf::new());
        other.of_session("s.2", PathBuf::new());
        let (user, plugin) = ("agents.a".to_owned(), "p".to_owned());
        let owners = [
            KvStoreOwner::Session { user: user.clone(), plugin: plugin.clone() },
            KvStoreOwner::User { user, plugin: plugin.clone() },
            KvStoreOwner::Plugin { plugin },
        ];
        for (at, owner) in owners.iter().enumerate() {
            let value = vec![at as u8];
            one.get(owner.clone()).write("k".into(), KvPrecondition::Anything, Some(value)).await.unwrap();
        }
        for (at, owner) in owners.into_iter().enumerate() {
            let read = other.get(owner.clone()).get("k".into()).await.unwrap().map(|entry| entry.value);
            let is_of_session = matches!(owner, KvStoreOwner::Session { .. });
            assert_eq!(read, (!is_of_session).then(|| vec![at as u8]), "{owner:?}");
        }
        let keys = bucket.keys("session").unwrap();
        assert_eq!(keys, ["session.s=2e1.agents=2ea.p.key.k", "session.s=2e1.agents=2ea.p.total"]);
        let unrecorded = host().get(KvStoreOwner::Session { user: "a".into(), plugin: "p".into() });
        unrecorded.write("k".into(), KvPrecondition::Anything, Some(vec![])).await.unwrap();
        assert_eq!(bucket.keys("session").unwrap(), keys, "without a session the store is in memory");
    }

    #[test]
    fn kv_file_names_are_unique_and_never_paths() {
        let long = "x".repeat(101);
        let other = format!("{long}y");
        let names = [
            "ada", "Ada", "ADA", "a.b", "a/b", "a\\b", "..", ".", "", " ", "ä", "a\0", "%", "%2e", "a%2fb", "con:",
            &long, &other,
        ];
        let files: HashSet<_> = names.iter().map(|name| file_name(name)).collect();
        assert_eq!(files.len(), names.len());
        for file in &files {
            assert!((1..=100).contains(&file.len()) && !file.contains(['.', '/', '\\', '\0']), "{file}");
            assert_eq!(file.to_lowercase(), *file);
        }
        assert_eq!(file_name("read-files"), "read-files");
        assert_eq!(file_name("A.b"), "%41%2eb");
    }
}
