//! Reading attachments of a session as files.

use std::io;

use super::{SessionError, SessionStore, error::disk, journal_lease::AttachmentError, reader};
use shelly_core::digest::Sha256Digest;

impl SessionStore {
    /// Lists the attachments of a session as digest and size in bytes, sorted by digest; at most `most`. Files that are not
    /// attachments are skipped.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist or its folder cannot be read.
    pub fn attachments(&self, given: &str, most: usize) -> Result<Vec<(Sha256Digest, u64)>, SessionError> {
        let mut attachments = self.journals.attachments(&self.resolve(given)?, most)?;
        attachments.sort_unstable_by_key(|(digest, _)| *digest);
        Ok(attachments)
    }

    /// Reads one attachment as it was written; returns `None` if none has this digest.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::attachments`], and if the file is not what was written.
    pub fn attachment(&self, given: &str, digest: &Sha256Digest) -> Result<Option<Vec<u8>>, SessionError> {
        let id = self.resolve(given)?;
        match reader::attachment(&*self.journals, &id, digest) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(AttachmentError::Missing) => Ok(None),
            Err(error) => {
                let wrong = |reason| disk("read", &self.journals.location(&id))(io::Error::other(reason));
                Err(error.into_session_error(digest, wrong))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{DiskStorage, NewSession, SessionStoreOptions, file_names::ATTACHMENTS};

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
