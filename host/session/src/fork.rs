use std::{collections::HashSet, sync::Arc, time::SystemTime};

use sha2::{Digest as _, Sha256};

use super::{
    Authorship, ForkOrigin, JournalReader, SessionError, SessionHeader, SessionStore,
    event_lines::{EventLineEnvelope, EventLines},
    journal_lease::{AttachmentError, JournalBatch, JournalDraft},
    journal_storage::JournalStorage,
    session_origin::SessionOrigin,
};
use shelly_core::{digest::Sha256Digest, limits};

/// The number of bytes of lines that are written to a copy at once.
const AT_ONCE: usize = 1 << 20;

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
        let (id, mut draft) = self.draft(None)?;
        let mut journal = JournalReader::open(Arc::clone(&self.journals), &from)?;
        let header = SessionHeader {
            id: id.clone(),
            created: SystemTime::now(),
            host: env!("CARGO_PKG_VERSION").into(),
            forked_from: Some(ForkOrigin { id: from.clone(), at: last }),
            ..journal.header().clone()
        };
        let mut digest = Sha256::new_with_prefix(self.append_header(&mut *draft, &header)?);
        copy_lines(&mut journal, last, &mut *draft, &mut digest, |draft, digest, _| {
            draft.share_attachment(&from, digest)
        })?;
        copy_events(&*self.journals, &from, last, &mut *draft)?;
        if let Some(origin) = origin {
            // The lines have codes of the original's chain, so the copy's mark covers them.
            let (mark, _) = self.new_mark(&id, origin, last, digest.into())?;
            draft.set_mark(&mark.text())?;
        }
        drop(draft.publish()?);
        Ok(id)
    }

    /// Returns the number of the last line to copy, and the origin of the session if all lines up to there are this
    /// person's.
    fn last_of(&self, id: &str, at: Option<u64>) -> Result<(u64, Option<SessionOrigin>), SessionError> {
        let mut journal = self.watched(id).or_else(|_| JournalReader::open(Arc::clone(&self.journals), id))?;
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
}

/// Copies the lines up to `last` unchanged: line numbers and checksums stay valid in the copy. `attach` adds each
/// attachment; it is given the number of the last line that was copied. Adds the lines to `digest`.
pub(super) fn copy_lines(
    journal: &mut JournalReader,
    last: u64,
    draft: &mut dyn JournalDraft,
    digest: &mut Sha256,
    attach: impl Fn(&mut dyn JournalDraft, &Sha256Digest, u64) -> Result<(), AttachmentError>,
) -> Result<(), SessionError> {
    let (mut lines, mut copied, mut after) = (Vec::new(), HashSet::new(), 1);
    while journal.line() < last {
        let Some(line) = journal.next_checked()? else { break };
        for reference in line.attached.values() {
            if copied.insert(reference.digest) {
                attach(&mut *draft, &reference.digest, after).map_err(|error| {
                    let (path, line, byte) = (journal.path(), line.n, line.start);
                    let damaged = |reason| SessionError::Damaged { path, line, byte, reason };
                    error.into_session_error(&reference.digest, damaged)
                })?;
            }
        }
        lines.extend_from_slice(line.text.as_bytes());
        lines.push(b'\n');
        if lines.len() >= AT_ONCE {
            digest.update(&lines);
            draft.append(&JournalBatch { after, last: line.n, lines: &lines, attachments: &[] })?;
            after = line.n;
            lines.clear();
        }
    }
    if !lines.is_empty() {
        digest.update(&lines);
        draft.append(&JournalBatch { after, last: journal.line(), lines: &lines, attachments: &[] })?;
    }
    Ok(())
}

/// Copies the recorded events that happened when the journal had at most `last` lines.
pub(super) fn copy_events(
    journals: &dyn JournalStorage,
    from: &str,
    last: u64,
    draft: &mut dyn JournalDraft,
) -> Result<(), SessionError> {
    // A copy does not depend on events.
    let Ok(Some(source)) = journals.events(from) else { return Ok(()) };
    let (mut events, mut lines, mut copied) = (EventLines::of(source), Vec::new(), 0);
    while let Some(line) = events.next_line()? {
        match EventLineEnvelope::of(&line) {
            Some(envelope) if envelope.n > last => break,
            Some(_) => {}
            None => continue,
        }
        copied += line.len() as u64 + 1;
        if copied > limits::SESSION_EVENTS_BYTES {
            break;
        }
        lines.extend_from_slice(&line);
        lines.push(b'\n');
        if lines.len() >= AT_ONCE {
            draft.append_events(&lines)?;
            lines.clear();
        }
    }
    match lines.is_empty() {
        true => Ok(()),
        false => draft.append_events(&lines),
    }
}
