//! Config bundles, components and input files on a server, by their digest.

use std::{
    io,
    pin::pin,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use async_nats::jetstream::object_store::{self, GetErrorKind, InfoErrorKind, ObjectInfo, ObjectMetadata, ObjectStore};
use bytes::Bytes;
use futures_util::TryStreamExt;
use shelly_core::{digest::Sha256Digest, limits};
use tokio::{io::AsyncReadExt, time::timeout};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles},
    encryption::{ContentSeals, SealKind, SealPlace},
    shared_connection::SharedConnection,
};

/// Bytes on a server, by their digest. What is read has the digest that was asked for, whatever the server says.
#[derive(Debug, Clone)]
pub struct ObjectStorage {
    shared: SharedConnection,
}

impl ObjectStorage {
    pub(crate) fn new(shared: SharedConnection) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &SharedConnection {
        &self.shared
    }

    /// Stores bytes, unless they are there, and returns their digest.
    ///
    /// # Errors
    ///
    /// [`ClusterError::TooLarge`] beyond [`limits::CLUSTER_OBJECT_BYTES`], and if the server fails.
    pub async fn put(&self, bytes: Bytes) -> Result<Sha256Digest, ClusterError> {
        let digest = Sha256Digest::of(&bytes);
        if bytes.len() as u64 > limits::CLUSTER_OBJECT_BYTES {
            let (bytes, most) = (bytes.len() as u64, limits::CLUSTER_OBJECT_BYTES);
            return Err(ClusterError::TooLarge { what: place(&digest), bytes, most });
        }
        let task = move |handles: ClusterHandles| async move { handles.put_object(&digest, bytes).await };
        self.shared.call("store", &place(&digest), task).await?;
        Ok(digest)
    }

    /// Returns the bytes with this digest.
    ///
    /// # Errors
    ///
    /// [`ClusterError::NotFound`], [`ClusterError::TooLarge`] if there are more than `most` bytes, [`ClusterError::Invalid`]
    /// if they have another digest, and if the server fails.
    pub async fn get(&self, digest: &Sha256Digest, most: u64) -> Result<Bytes, ClusterError> {
        let (digest, most) = (*digest, most.min(limits::CLUSTER_OBJECT_BYTES));
        let task = move |handles: ClusterHandles| async move { handles.get_object(&digest, most).await };
        let bytes = self.shared.call("read", &place(&digest), task).await?;
        match Sha256Digest::of(&bytes) == digest {
            true => Ok(Bytes::from(bytes)),
            false => Err(ClusterError::invalid(place(&digest), "the server has other bytes under this digest")),
        }
    }

    /// Returns `true` if the server says that it has bytes with this digest, and has them for so long a time that
    /// [`remove_unused`](Self::remove_unused) leaves them to a run that is submitted now.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn contains(&self, digest: &Sha256Digest) -> Result<bool, ClusterError> {
        let wanted = *digest;
        let task = move |handles: ClusterHandles| async move { handles.has_fresh_object(&wanted, None).await };
        self.shared.call("look for", &place(digest), task).await
    }

    /// Returns `true` if the server says that it has bytes with this digest, of any age, under a name that one of the keys of
    /// this host makes.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn is_stored(&self, digest: &Sha256Digest) -> Result<bool, ClusterError> {
        let wanted = *digest;
        let task = move |handles: ClusterHandles| async move { handles.has_object(&wanted).await };
        self.shared.call("look for", &place(digest), task).await
    }
}

/// The age up to which an object is not stored again: it is then not removed for as long a time.
const FRESH: Duration = Duration::from_secs(limits::CLUSTER_OBJECT_KEPT.as_secs() / 2);

/// Returns the time since this second; `None` if that is no time.
pub(crate) fn age_of(second: i64) -> Option<Duration> {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(second).ok()?))?;
    // Clocks of hosts differ: a time in the future is now.
    Some(SystemTime::now().duration_since(at).unwrap_or_default())
}

fn place(digest: &Sha256Digest) -> String {
    format!("the object {digest}")
}

/// Returns the name of the object store of a namespace.
pub(crate) fn objects_bucket(namespace: &str) -> String {
    format!("shelly-{namespace}-objects")
}

/// The maximum bytes of the name under which an object has its parts: clients use 22.
const PART_NAME_BYTES: usize = 64;

/// Returns `true` if this can be the name under which an object has its parts: it becomes a part of subjects, and a
/// description may have anything there.
pub(crate) fn is_part_name(name: &str) -> bool {
    (1..=PART_NAME_BYTES).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl ClusterHandles {
    /// Returns the names under which an object may be, the first of which is that of a new one.
    pub fn object_names(&self, digest: &Sha256Digest) -> Vec<String> {
        self.seals.hidden_names("object", &digest.hex())
    }

    async fn objects(&self) -> Result<&ObjectStore, ClusterCallError> {
        let open = || self.retry(|| self.open_objects(), |_| false);
        self.parts.objects.get_or_try_init(open).await.map_err(ClusterCallError::Failed)
    }

    async fn open_objects(&self) -> Result<ObjectStore, String> {
        let name = objects_bucket(&self.options.namespace);
        if let Ok(there) = self.context.get_object_store(&name).await {
            return Ok(there);
        }
        let config = object_store::Config {
            bucket: name.clone(),
            num_replicas: self.options.replicas,
            ..object_store::Config::default()
        };
        self.context.create_object_store(config).await.map_err(|error| format!("the object store {name}: {error}"))
    }

    /// Returns `true` if an object is whole, of this size, and newer than half of the age at which unused ones are removed.
    async fn has_fresh_object(&self, digest: &Sha256Digest, size: Option<usize>) -> Result<bool, ClusterCallError> {
        let name = self.object_names(digest).swap_remove(0);
        let Some(info) = self.object_info(&name).await? else { return Ok(false) };
        let is_fresh = info.modified.and_then(|at| age_of(at.unix_timestamp())).is_some_and(|age| age < FRESH);
        Ok(is_fresh && size.is_none_or(|size| size == info.size))
    }

    async fn has_object(&self, digest: &Sha256Digest) -> Result<bool, ClusterCallError> {
        for name in self.object_names(digest) {
            if self.object_info(&name).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the description of an object that is whole; `None` if there is none.
    async fn object_info(&self, name: &str) -> Result<Option<ObjectInfo>, ClusterCallError> {
        let store = self.objects().await?;
        match self.retry(|| store.info(name), |error| error.kind() == InfoErrorKind::NotFound).await {
            Ok(info) => Ok((!info.deleted).then_some(info)),
            Err(error) if error.kind() == InfoErrorKind::NotFound => Ok(None),
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    async fn put_object(&self, digest: &Sha256Digest, bytes: Bytes) -> Result<(), ClusterCallError> {
        // The description is written last: where it is, all parts are. Of two hosts that store the same bytes at once one
        // may leave parts that no description names; nobody is given other bytes by that.
        // One that is old is stored again, so that it is not removed before a run that needs it is submitted.
        if self.has_fresh_object(digest, Some(self.seals.sealed_bytes(bytes.len()))).await? {
            return Ok(());
        }
        let (store, part) = (self.objects().await?, limits::CLUSTER_OBJECT_PART.min(self.message_bytes));
        let name = self.object_names(digest).swap_remove(0);
        let bytes = self.seals.seal(SealPlace::new(SealKind::Object, &digest.hex()), bytes)?;
        let put = || async {
            let metadata = ObjectMetadata { name: name.clone(), chunk_size: Some(part), ..ObjectMetadata::default() };
            store.put(metadata, &mut &bytes[..]).await
        };
        self.retry(put, |_| false).await.map(drop).map_err(ClusterCallError::failed)
    }

    /// Reads an object; its digest is not checked.
    async fn get_object(&self, digest: &Sha256Digest, most: u64) -> Result<Vec<u8>, ClusterCallError> {
        let not_found = || ClusterError::NotFound { what: format!("object {digest}") };
        let mut found = None;
        for name in self.object_names(digest) {
            if found.is_none() {
                found = self.object_info(&name).await?.map(|info| (name, info));
            }
        }
        let (name, info) = found.ok_or_else(not_found)?;
        let (bytes, more) = (info.size as u64, if self.seals.is_on() { ContentSeals::MORE_BYTES as u64 } else { 0 });
        if bytes > most.saturating_add(more) {
            return Err(ClusterError::TooLarge { what: place(digest), bytes, most }.into());
        }
        // A link could name anything, even itself.
        if info.options.as_ref().is_some_and(|options| options.link.is_some()) {
            return Err(ClusterError::invalid(place(digest), "it is a link to another object").into());
        }
        let read = self.retry(|| self.read_object(&name, info.size), ObjectReadError::is_final).await;
        let read = read.map_err(|error| -> ClusterCallError {
            match error {
                ObjectReadError::Missing => not_found().into(),
                ObjectReadError::Failed(reason) => ClusterCallError::Failed(reason),
                ObjectReadError::Wrong(reason) => ClusterError::invalid(place(digest), reason).into(),
            }
        })?;
        Ok(self.seals.open(SealPlace::new(SealKind::Object, &digest.hex()), &read.into())?.to_vec())
    }

    async fn read_object(&self, name: &str, size: usize) -> Result<Vec<u8>, ObjectReadError> {
        let failed = ObjectReadError::Failed;
        let store = self.objects().await.map_err(|error| failed(error.to_string()))?;
        let mut object = store.get(name).await.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => ObjectReadError::Missing,
            _ => failed(error.to_string()),
        })?;
        let (info, mut bytes) = (object.info().clone(), Vec::new());
        loop {
            let read = match timeout(READ_TIME, object.read_buf(&mut bytes)).await {
                Ok(read) => read,
                // A part that is missing never comes. Whoever reads this object must not wait for it as for a server that is
                // away: another host may have described it only to make them wait.
                Err(_) if self.lacks_parts(name, &info).await => {
                    return Err(ObjectReadError::Wrong("the server lacks a part of it"));
                }
                Err(_) => return Err(failed("a part of it does not come".into())),
            };
            match read {
                Ok(0) => return Ok(bytes),
                Ok(_) if bytes.len() > size => {
                    return Err(ObjectReadError::Wrong("it is longer than its description says"));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(ObjectReadError::Wrong("it is not what its description says"));
                }
                Err(error) => return Err(failed(error.to_string())),
            }
        }
    }

    /// Returns `true` if the server says that it has fewer parts of an object than its description names.
    async fn lacks_parts(&self, name: &str, info: &ObjectInfo) -> bool {
        if !is_part_name(&info.nuid) {
            return true;
        }
        let bucket = objects_bucket(&self.options.namespace);
        let parts = format!("$O.{bucket}.C.{}", info.nuid);
        let counting = async {
            let stream = self.context.get_stream(format!("OBJ_{bucket}")).await.ok()?;
            let mut counts = pin!(stream.info_with_subjects(parts).await.ok()?);
            let mut count = 0_usize;
            while let Some((_, messages)) = counts.try_next().await.ok()? {
                count = count.saturating_add(messages);
            }
            Some(count)
        };
        // A server that does not answer may have all of them.
        let count = timeout(limits::CLUSTER_CALL, counting).await.ok().flatten();
        if count.is_none_or(|count| count >= info.chunks) {
            return false;
        }
        // Whoever has stored the object again has removed the parts of before.
        self.object_info(name).await.is_ok_and(|now| now.is_some_and(|now| now.nuid == info.nuid))
    }
}

/// The maximum wait for the next part of an object.
const READ_TIME: Duration = limits::CLUSTER_CALL;

/// The reason for which an object was not read.
#[derive(Debug)]
enum ObjectReadError {
    Missing,
    /// The server has something that is no such object, for this reason.
    Wrong(&'static str),
    /// The server did not do it.
    Failed(String),
}

impl ObjectReadError {
    fn is_final(&self) -> bool {
        !matches!(self, Self::Failed(_))
    }
}

impl std::fmt::Display for ObjectReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("missing"),
            Self::Wrong(reason) => f.write_str(reason),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_words_name_the_parts_of_an_object() {
        for (name, is_one) in [
            ("Zk7", true),
            ("", false),
            ("a.b", false),
            ("*", false),
            (&*"a".repeat(PART_NAME_BYTES), true),
            (&*"a".repeat(PART_NAME_BYTES + 1), false),
        ] {
            assert_eq!(is_part_name(name), is_one, "{name}");
        }
    }
}
