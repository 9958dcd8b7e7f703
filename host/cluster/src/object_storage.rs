//! Config bundles, components and input files on a server, by their digest.

use std::time::Duration;

use async_nats::jetstream::object_store::{self, GetErrorKind, InfoErrorKind, ObjectInfo, ObjectMetadata, ObjectStore};
use bytes::Bytes;
use shelly_core::{digest::Sha256Digest, limits};
use tokio::{io::AsyncReadExt, time::timeout};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles},
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

    /// Returns `true` if the server says that it has bytes with this digest.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn contains(&self, digest: &Sha256Digest) -> Result<bool, ClusterError> {
        let wanted = *digest;
        let task = move |handles: ClusterHandles| async move { Ok(handles.object_info(&wanted).await?.is_some()) };
        self.shared.call("look for", &place(digest), task).await
    }
}

fn place(digest: &Sha256Digest) -> String {
    format!("the object {digest}")
}

impl ClusterHandles {
    async fn objects(&self) -> Result<&ObjectStore, ClusterCallError> {
        let open = || self.retry(|| self.open_objects(), |_| false);
        self.parts.objects.get_or_try_init(open).await.map_err(ClusterCallError::Failed)
    }

    async fn open_objects(&self) -> Result<ObjectStore, String> {
        let name = format!("shelly-{}-objects", self.options.namespace);
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

    /// Returns the description of an object that is whole; `None` if there is none.
    async fn object_info(&self, digest: &Sha256Digest) -> Result<Option<ObjectInfo>, ClusterCallError> {
        let (store, name) = (self.objects().await?, digest.hex());
        match self.retry(|| store.info(&name), |error| error.kind() == InfoErrorKind::NotFound).await {
            Ok(info) => Ok((!info.deleted).then_some(info)),
            Err(error) if error.kind() == InfoErrorKind::NotFound => Ok(None),
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    async fn put_object(&self, digest: &Sha256Digest, bytes: Bytes) -> Result<(), ClusterCallError> {
        // The description is written last: where it is, all parts are. Of two hosts that store the same bytes at once one
        // may leave parts that no description names; nobody is given other bytes by that.
        if self.object_info(digest).await?.is_some_and(|there| there.size == bytes.len()) {
            return Ok(());
        }
        let (store, part) = (self.objects().await?, limits::CLUSTER_OBJECT_PART.min(self.message_bytes));
        let put = || async {
            let metadata = ObjectMetadata { name: digest.hex(), chunk_size: Some(part), ..ObjectMetadata::default() };
            store.put(metadata, &mut &bytes[..]).await
        };
        self.retry(put, |_| false).await.map(drop).map_err(ClusterCallError::failed)
    }

    /// Reads an object; its digest is not checked.
    async fn get_object(&self, digest: &Sha256Digest, most: u64) -> Result<Vec<u8>, ClusterCallError> {
        let not_found = || ClusterError::NotFound { what: place(digest) };
        let info = self.object_info(digest).await?.ok_or_else(not_found)?;
        if info.size as u64 > most {
            return Err(ClusterError::TooLarge { what: place(digest), bytes: info.size as u64, most }.into());
        }
        // A link could name anything, even itself.
        if info.options.as_ref().is_some_and(|options| options.link.is_some()) {
            return Err(ClusterError::invalid(place(digest), "it is a link to another object").into());
        }
        let read = self.retry(|| self.read_object(digest, info.size), ObjectReadError::is_final).await;
        read.map_err(|error| match error {
            ObjectReadError::Missing => not_found().into(),
            ObjectReadError::Failed(reason) => ClusterCallError::Failed(reason),
            ObjectReadError::Longer => {
                ClusterError::invalid(place(digest), "it is longer than its description says").into()
            }
        })
    }

    async fn read_object(&self, digest: &Sha256Digest, size: usize) -> Result<Vec<u8>, ObjectReadError> {
        let failed = ObjectReadError::Failed;
        let store = self.objects().await.map_err(|error| failed(error.to_string()))?;
        let mut object = store.get(digest.hex()).await.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => ObjectReadError::Missing,
            _ => failed(error.to_string()),
        })?;
        let mut bytes = Vec::new();
        loop {
            // A part that is missing never comes.
            let read = timeout(READ_TIME, object.read_buf(&mut bytes)).await;
            let read = read.map_err(|_| failed("a part of it does not come".into()))?;
            if read.map_err(|error| failed(error.to_string()))? == 0 {
                return Ok(bytes);
            }
            if bytes.len() > size {
                return Err(ObjectReadError::Longer);
            }
        }
    }
}

/// The maximum wait for the next part of an object.
const READ_TIME: Duration = limits::CLUSTER_CALL;

/// The reason for which an object was not read.
#[derive(Debug)]
enum ObjectReadError {
    Missing,
    Longer,
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
            Self::Longer => f.write_str("longer than it says"),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
}
