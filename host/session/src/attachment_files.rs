//! Reading attachments of a session as files.

use std::io;

use super::{SessionError, SessionStore, Sha256Digest, StorageEntryKind, error::disk, file_names::ATTACHMENTS, reader};

impl SessionStore {
    /// Lists the attachments of a session as digest and size in bytes, sorted by digest; at most `most`. Files that are not
    /// attachments are skipped.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist or its folder cannot be read.
    pub fn attachments(&self, given: &str, most: usize) -> Result<Vec<(Sha256Digest, u64)>, SessionError> {
        let folder = self.folder.join(self.resolve(given)?).join(ATTACHMENTS);
        let entries = match self.storage.entries(&folder, most) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries.map_err(disk("read", &folder))?,
        };
        let files = entries.into_iter().filter(|entry| entry.kind == StorageEntryKind::File);
        let mut files: Vec<_> = files.filter_map(|file| Some((Sha256Digest::of_hex(&file.name)?, file.len))).collect();
        files.sort_unstable_by_key(|(digest, _)| digest.0);
        Ok(files)
    }

    /// Reads one attachment as it was written; returns `None` if none has this digest.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::attachments`], and if the file is not what was written.
    pub fn attachment(&self, given: &str, digest: &Sha256Digest) -> Result<Option<Vec<u8>>, SessionError> {
        let folder = self.folder.join(self.resolve(given)?);
        let path = folder.join(ATTACHMENTS).join(digest.hex());
        match self.storage.entry(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => {
                let wrong = |reason| disk("read", &path)(io::Error::other(reason));
                reader::attachment(&*self.storage, &folder, digest, &wrong).map(Some)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{DiskStorage, NewSession, SessionStoreOptions};

    #[test]
    fn attachments_are_listed_and_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let options = SessionStoreOptions { root: Some(folder.path().into()), ..SessionStoreOptions::default() };
        let store = SessionStore::new(Arc::new(DiskStorage), folder.path().join("sessions"), options);
        let session = store.create(NewSession { id: Some("one".into()), ..NewSession::default() }).unwrap();
        assert_eq!(store.attachments("one", 9).unwrap(), []);
        let at = session.folder().join(ATTACHMENTS);
        let [first, second] = [&b"first"[..], b"second"].map(|bytes| (Sha256Digest::of(bytes), bytes));
        for (digest, bytes) in [first, second] {
            std::fs::write(at.join(digest.hex()), bytes).unwrap();
        }
        std::fs::write(at.join("no digest"), "x").unwrap();
        std::fs::write(at.join(Sha256Digest::of(b"third").hex()), "other").unwrap();
        std::os::unix::fs::symlink("/etc/hostname", at.join(Sha256Digest::of(b"link").hex())).unwrap();
        let listed = store.attachments("one", 9).unwrap();
        assert!(listed.contains(&(first.0, 5)) && listed.contains(&(second.0, 6)) && listed.len() == 3, "{listed:?}");
        assert!(listed.is_sorted_by_key(|(digest, _)| digest.0));
        assert!(store.attachments("one", 2).unwrap().len() <= 2);
        for (digest, bytes) in [first, second] {
            assert_eq!(store.attachment("one", &digest).unwrap().as_deref(), Some(bytes));
        }
        assert_eq!(store.attachment("one", &Sha256Digest::of(b"none")).unwrap(), None);
        for changed in [&b"third"[..], b"link"] {
            assert!(store.attachment("one", &Sha256Digest::of(changed)).is_err(), "it is not what was written");
        }
        assert!(store.attachments("two", 9).is_err() && store.attachment("../one", &first.0).is_err());
    }
}
