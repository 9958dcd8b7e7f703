use std::{collections::HashSet, io, path::Path, sync::Arc, time::SystemTime};

use super::{
    Authorship, ForkOrigin, JournalReader, SessionError, SessionHeader, SessionStore, StorageEntryKind,
    error::disk,
    event_lines::{EventLineEnvelope, EventLines},
    file_names::{ATTACHMENTS, EVENTS, JOURNAL},
    session_origin::SessionOrigin,
};
use shelly_core::digest::Sha256Digest;

impl SessionStore {
    /// Copies a session up to and including line `at`, or all of it; a process may be writing to it. Returns the name of the
    /// copy. The copy is [this person's own](SessionStore::is_own), and [created here](SessionStore::is_created_here), if the
    /// session is.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session or the line does not exist, if the session is damaged before the line, or if the disk
    /// fails.
    pub fn fork(&self, given: &str, at: Option<u64>) -> Result<String, SessionError> {
        let from = self.resolve(given)?;
        let (last, origin) = self.last_of(&from, at)?;
        let created = self.make(None, |folder, id| {
            let mut journal = JournalReader::open(Arc::clone(&self.storage), self.folder.join(&from))?;
            let header = SessionHeader {
                id: id.to_owned(),
                created: SystemTime::now(),
                host: env!("CARGO_PKG_VERSION").into(),
                forked_from: Some(ForkOrigin { id: from.clone(), at: last }),
                ..journal.header().clone()
            };
            let start = self.write_header(folder, &header)?;
            let end = self.copy_lines(&mut journal, last, folder, start)?;
            self.copy_events(&self.folder.join(&from), last, folder)?;
            match origin {
                // The lines have codes of the original's chain, so the copy's mark covers them.
                Some(origin) => self.mark(folder, id, origin, (last, end)).map(drop),
                None => Ok(()),
            }
        })?;
        Ok(created.id)
    }

    /// Returns the number of the last line to copy, and the origin of the session if all lines up to there are this
    /// person's.
    fn last_of(&self, id: &str, at: Option<u64>) -> Result<(u64, Option<SessionOrigin>), SessionError> {
        let mut journal =
            self.watched(id).or_else(|_| JournalReader::open(Arc::clone(&self.storage), self.folder.join(id)))?;
        while at.is_none_or(|at| at == 0 || journal.line() < at) {
            if journal.next_checked()?.is_none() {
                break;
            }
        }
        let last = journal.line();
        match at {
            Some(at) if at == 0 || at > last => Err(SessionError::NoLine { id: id.to_owned(), at, last }),
            _ => {
                // Authorship within the lines that the mark covers is known only when all of them are read.
                while journal.next_covered()? {}
                let authorship = match journal.watch().authorship() {
                    Authorship::Altered { line } if line > last => Authorship::Own,
                    authorship => authorship,
                };
                Ok((last, journal.watch().origin().filter(|_| authorship.is_own())))
            }
        }
    }

    /// Copies lines unchanged and returns the end offset of the last one: line numbers and checksums stay valid in the copy.
    fn copy_lines(
        &self,
        journal: &mut JournalReader,
        last: u64,
        folder: &Path,
        mut end: u64,
    ) -> Result<u64, SessionError> {
        const AT_ONCE: usize = 1 << 20;
        let path = folder.join(JOURNAL);
        let file = self.storage.open(&path).map_err(disk("write", &path))?;
        let (mut lines, mut copied) = (Vec::new(), HashSet::new());
        while journal.line() < last {
            let Some(line) = journal.next_checked()? else { break };
            for reference in line.attached.values() {
                if copied.insert(reference.digest) {
                    self.copy_attachment(journal, (line.n, line.start), &reference.digest, folder)?;
                }
            }
            lines.extend_from_slice(line.text.as_bytes());
            lines.push(b'\n');
            if lines.len() >= AT_ONCE || journal.line() == last {
                file.write_all_at(&lines, end).map_err(disk("write", &path))?;
                end += lines.len() as u64;
                lines.clear();
            }
        }
        file.sync().map_err(disk("write", &path))?;
        Ok(end)
    }

    /// Copies the recorded events that happened when the journal had at most `last` lines.
    fn copy_events(&self, from: &Path, last: u64, to: &Path) -> Result<(), SessionError> {
        let (from, to) = (from.join(EVENTS), to.join(EVENTS));
        match self.storage.entry(&from) {
            Ok(entry) if entry.kind == StorageEntryKind::File => {}
            // A fork does not depend on events.
            _ => return Ok(()),
        }
        let mut lines = self.storage.open(&from).and_then(EventLines::of).map_err(disk("read", &from))?;
        let (file, mut end) = (self.storage.open_or_create(&to).map_err(disk("write", &to))?, 0);
        while let Some(mut line) = lines.next_line().map_err(disk("read", &from))? {
            match EventLineEnvelope::of(&line) {
                Some(envelope) if envelope.n > last => break,
                Some(_) => {}
                None => continue,
            }
            line.push(b'\n');
            file.write_all_at(&line, end).map_err(disk("write", &to))?;
            end += line.len() as u64;
        }
        Ok(())
    }

    /// Hard-links the attachment, or copies it where linking fails.
    fn copy_attachment(
        &self,
        journal: &JournalReader,
        (line, byte): (u64, u64),
        digest: &Sha256Digest,
        folder: &Path,
    ) -> Result<(), SessionError> {
        let from = journal.path().with_file_name(ATTACHMENTS).join(digest.hex());
        let to = folder.join(ATTACHMENTS).join(digest.hex());
        let damaged = |reason: String| SessionError::Damaged { path: journal.path(), line, byte, reason };
        match self.storage.entry(&from) {
            Ok(entry) if entry.kind == StorageEntryKind::File => {}
            Ok(_) => return Err(damaged(format!("attachment {digest} is not a file"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(format!("attachment {digest} is missing")));
            }
            Err(error) => return Err(disk("read", &from)(error)),
        }
        match self.storage.link(&from, &to) {
            Ok(()) => Ok(()),
            Err(_) => self.copy(&from, &to),
        }
    }
}
