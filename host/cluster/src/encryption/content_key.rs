//! A key that hosts share and the server never has.

use std::{
    fmt, fs,
    io::{self, Read},
    path::Path,
};

use ring::{
    aead::{AES_256_GCM, LessSafeKey, UnboundKey},
    hkdf::{HKDF_SHA256, Prk, Salt},
};
use shelly_core::{
    error::{cut, without_number},
    files, hex, limits,
};

use crate::cluster_error::ClusterError;

/// The bytes of a key, and of its id.
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 8;

/// The salt by which keys of this program differ from others that are made of the same bytes.
const SALT: &[u8] = b"shelly-cluster content 1";

/// A key for the content of a namespace. Each message is encrypted under a key of its own that is derived from it.
#[derive(Clone)]
pub struct ContentKey {
    id: [u8; ID_BYTES],
    secret: Prk,
}

impl ContentKey {
    /// Creates a random key in a new file that only its owner can read.
    ///
    /// # Errors
    ///
    /// [`ClusterError::KeyFile`] if the file exists or cannot be created.
    pub fn create(path: &Path) -> Result<Self, ClusterError> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| unusable(path, &error.to_string()))?;
        let created = files::create(path, format!("{}\n", hex::encode(bytes)).as_bytes());
        let created = created.map_err(|error| match error.kind() {
            // The error names the temporary file, which nobody knows.
            io::ErrorKind::NotFound => unusable(path, "its folder does not exist; make that first"),
            _ => unusable(path, &without_number(&error.to_string())),
        });
        match created? {
            true => Self::of_bytes(&bytes).ok_or_else(|| unusable(path, "no key can be derived")),
            false => Err(unusable(path, "there is such a file; it is not replaced")),
        }
    }

    /// Reads a key.
    ///
    /// # Errors
    ///
    /// [`ClusterError::KeyFile`] if the file cannot be read, is open to others, or has no key.
    pub fn read(path: &Path) -> Result<Self, ClusterError> {
        let failed = |error: io::Error| unusable(path, &without_number(&error.to_string()));
        let file = files::open(path).map_err(failed)?;
        if let Some(mode) = open_to_others(&file.metadata().map_err(failed)?) {
            let reason = format!("others can read or change it (mode {mode:o}); `chmod 600` it");
            return Err(unusable(path, &reason));
        }
        let mut text = String::new();
        file.take(limits::CLUSTER_KEY_FILE_BYTES.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > limits::CLUSTER_KEY_FILE_BYTES {
            return Err(unusable(path, &format!("it has more than {} bytes", limits::CLUSTER_KEY_FILE_BYTES)));
        }
        let bytes = hex::decode(text.trim_end());
        let bytes = bytes.ok_or_else(|| unusable(path, "it does not have 64 hexadecimal digits"))?;
        Self::of_bytes(&bytes).ok_or_else(|| unusable(path, "no key can be derived"))
    }

    fn of_bytes(bytes: &[u8; KEY_BYTES]) -> Option<Self> {
        let secret = Salt::new(HKDF_SHA256, SALT).extract(bytes);
        let id = digest_of(&secret, &[b"id"])?;
        Some(Self { id: *id.first_chunk()?, secret })
    }

    /// Returns the id, which messages name and which says nothing about the key.
    pub fn id(&self) -> String {
        hex::encode(self.id)
    }

    /// Returns the bytes of the id.
    pub(super) fn id_bytes(&self) -> &[u8; ID_BYTES] {
        &self.id
    }

    /// Returns the key of one message. The last part is random, so no two messages have the same key.
    pub(super) fn message_key(&self, parts: &[&[u8]]) -> Option<LessSafeKey> {
        let info: Vec<&[u8]> = [&b"message"[..]].into_iter().chain(parts.iter().copied()).collect();
        let derived = self.secret.expand(&info, &AES_256_GCM).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }

    /// Returns a name that says nothing about these parts to whoever lacks the key.
    pub(super) fn hidden_name(&self, parts: &[&[u8]]) -> Option<[u8; 32]> {
        let parts: Vec<&[u8]> = [&b"name"[..]].into_iter().chain(parts.iter().copied()).collect();
        digest_of(&self.secret, &parts)
    }
}

/// Returns 32 bytes that are derived from a secret and these parts.
fn digest_of(secret: &Prk, parts: &[&[u8]]) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    secret.expand(parts, HKDF_SHA256).ok()?.fill(&mut digest).ok()?;
    Some(digest)
}

fn unusable(path: &Path, reason: &str) -> ClusterError {
    let reason = cut(reason, limits::CLUSTER_REASON_CHARS);
    ClusterError::KeyFile { path: path.display().to_string(), reason }
}

/// Returns the mode of a file that others than its owner can read or change.
#[cfg(unix)]
fn open_to_others(metadata: &fs::Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Returns `None`: permissions are not modes here.
#[cfg(not(unix))]
fn open_to_others(_: &fs::Metadata) -> Option<u32> {
    None
}

impl fmt::Debug for ContentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentKey({})", self.id())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_created_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content.key");
        let key = ContentKey::create(&path).unwrap();
        assert_eq!(ContentKey::read(&path).unwrap().id(), key.id());
        assert_eq!(key.id().len(), 2 * ID_BYTES);
        let refused = ContentKey::create(&path).unwrap_err().to_string();
        assert!(refused.contains("content.key") && refused.contains("not replaced"), "{refused}");
        let refused = ContentKey::create(&folder.path().join("none/content.key")).unwrap_err().to_string();
        assert!(refused.contains("none/content.key cannot be used: its folder does not exist"), "{refused}");
        assert_ne!(ContentKey::create(&folder.path().join("other.key")).unwrap().id(), key.id());
        let text = fs::read_to_string(&path).unwrap();
        assert!(!format!("{key:?}").contains(text.trim_end()) && !text.contains(&key.id()));
    }

    #[test]
    fn key_file_that_is_none_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content.key");
        let refused = || ContentKey::read(&path).unwrap_err().to_string();
        assert!(refused().contains("content.key"), "{}", refused());
        let most = usize::try_from(limits::CLUSTER_KEY_FILE_BYTES).unwrap();
        for (text, why) in
            [("", "64 hexadecimal digits"), ("a1", "64 hexadecimal digits"), (&*"a".repeat(most + 1), "more than")]
        {
            let _ = fs::remove_file(&path);
            files::create(&path, text.as_bytes()).unwrap();
            assert!(refused().contains(why), "{}, not {why}", refused());
        }
    }

    #[cfg(unix)]
    #[test]
    fn key_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("content.key");
        ContentKey::create(&path).unwrap();
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let refused = ContentKey::read(&path).unwrap_err().to_string();
            assert!(refused.contains(&format!("mode {mode:o}")), "{refused}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(ContentKey::read(&path).is_ok());
    }
}
