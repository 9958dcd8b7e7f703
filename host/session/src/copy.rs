use std::sync::Arc;

use sha2::Sha256;

use super::{
    JournalReader, SessionError, SessionStore,
    fork::{copy_events, copy_lines},
    journal_lease::{AttachmentError, JournalAttachment, JournalBatch},
    reader,
};

impl SessionStore {
    /// Copies a session to another store, with its name, its lines, its attachments, its recorded events and its mark, and
    /// returns its name. The original stays. What belongs to the session and stays on this machine is not copied.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, is in use or is damaged, if the other store has one of this name
    /// or no room, or if a storage fails.
    pub fn copy_to(&self, given: &str, to: &Self) -> Result<String, SessionError> {
        let id = self.resolve(given)?;
        // Held until the copy is there, so that nobody continues the original meanwhile.
        let lease = self.journals.take(&id)?.ok_or_else(|| SessionError::InUse { id: id.clone() })?;
        let (_, mut draft) = to.draft(Some(id.clone()))?;
        let mut journal = JournalReader::open(Arc::clone(&self.journals), &id)?;
        draft.append(&JournalBatch { after: 0, last: 1, lines: journal.first_line(), attachments: &[] })?;
        copy_lines(&mut journal, u64::MAX, &mut *draft, &mut Sha256::default(), |draft, digest, after| {
            let bytes = reader::attachment(&*self.journals, &id, digest)?;
            let attachments = [JournalAttachment { digest: *digest, bytes }];
            let batch = JournalBatch { after, last: after, lines: &[], attachments: &attachments };
            draft.append(&batch).map_err(AttachmentError::Storage)
        })?;
        copy_events(&*self.journals, &id, journal.line(), &mut *draft)?;
        // It covers the name and the first lines, which are the same.
        if let Some(mark) = self.journals.mark(&id)? {
            draft.set_mark(&mark)?;
        }
        drop(draft.publish()?);
        drop(lease);
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        MemoryDisk, MemoryJournals, SessionOpenOptions, SessionStoreOptions,
        tests::{began, ended, named, said, store},
    };
    use shelly_core::{agent::journal::Recorder, limits, trust::UserKey};

    #[test]
    fn session_is_copied_between_storages_and_back() {
        let home = tempfile::tempdir().unwrap();
        let options = || SessionStoreOptions {
            own: UserKey::new(Some(home.path().join("own.key"))),
            ..SessionStoreOptions::default()
        };
        let files = SessionStore::new(Arc::new(MemoryDisk::new()), "/sessions", options());
        let memory = SessionStore::with_journals(Arc::new(MemoryJournals::new()), "/none", options());
        let long = said("z".repeat(limits::SESSION_INLINE_LINE_BYTES + 1));
        let all = [(1, began(None)), (1, long), (1, ended(false))];
        let session = files.create(named("s")).unwrap();
        all.iter().for_each(|(run, record)| {
            session.write(*run, record);
        });
        assert!(matches!(files.copy_to("s", &memory), Err(SessionError::InUse { .. })));
        drop(session);
        assert_eq!(files.copy_to("s", &memory).unwrap(), "s");
        assert!(memory.is_own("s").unwrap() && memory.is_created_here("s").unwrap());
        assert!(matches!(files.copy_to("s", &memory), Err(SessionError::Exists { .. })));
        let opened = memory.open("s", SessionOpenOptions::default()).unwrap();
        assert_eq!(opened.records, all);
        drop(opened);
        files.remove("s").unwrap();
        memory.copy_to("s", &files).unwrap();
        assert_eq!(files.open("s", SessionOpenOptions::default()).unwrap().records, all);
        assert!(files.is_own("s").unwrap());
    }

    #[test]
    fn damaged_session_is_not_copied() {
        let disk = MemoryDisk::new();
        let (files, memory) = (store(&disk), MemoryJournals::new());
        let memory = SessionStore::with_journals(Arc::new(memory), "/none", SessionStoreOptions::default());
        let session = files.create(named("s")).unwrap();
        session.write(1, &said("ä"));
        session.write(1, &said("b"));
        drop(session);
        let journal = crate::SessionStorage::open(&disk, std::path::Path::new("/sessions/s/journal.jsonl")).unwrap();
        let end = journal.len().unwrap();
        journal.write_all_at(b"\x01", end / 2).unwrap();
        assert!(matches!(files.copy_to("s", &memory), Err(SessionError::Damaged { .. })));
        assert_eq!(memory.usage().unwrap().sessions, 0);
    }
}
