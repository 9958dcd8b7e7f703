//! Authorship of sessions. A session that was created here has a file `mark` in its folder: an authentication code, under a
//! key that only this person has, over the session's name and its first lines. It starts the [chain](super::line_chain) of codes
//! of the lines that follow. A session that came with a project has no valid mark, and its open calls need consent.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{
    Authorship, JournalReader, SessionError, SessionHeader, SessionStore,
    journal_start::CHUNK,
    journal_verifier::JournalVerifier,
    session_mark::{PURPOSE, SessionMark},
    session_origin::SessionOrigin,
};
use shelly_core::{
    digest::Sha256Digest,
    trust::{DerivedKey, TrustError},
};

/// The state of a session at the time when a person was asked about it.
#[derive(Debug, Clone)]
pub struct SessionReview {
    id: String,
    authorship: Authorship,
    lines: u64,
    bytes: u64,
    digest: Sha256Digest,
}

impl SessionReview {
    /// Returns the authorship of its lines.
    pub fn authorship(&self) -> Authorship {
        self.authorship
    }
}

impl SessionStore {
    /// Determines the authorship of a session: reads all of it, up to damage. Neither the location of the project matters
    /// nor whether a process is writing to the session.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, its header is damaged, or the key or the disk fails.
    pub fn authorship(&self, given: &str) -> Result<Authorship, SessionError> {
        Ok(self.read_marked(&self.resolve(given)?)?.watch().authorship())
    }

    /// Reads a session as [`authorship`](Self::authorship) does, so that a person can be asked about its present content.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::authorship`].
    pub fn review(&self, given: &str) -> Result<SessionReview, SessionError> {
        let id = self.resolve(given)?;
        let journal = self.read_marked(&id)?;
        let (lines, bytes, authorship) = (journal.line(), journal.at(), journal.watch().authorship());
        let digest = self.digest_of_lines(&id, bytes)?;
        let digest = digest.ok_or_else(|| SessionError::ChangedSinceReview { id: id.clone() })?;
        Ok(SessionReview { id, authorship, lines, bytes, digest })
    }

    /// Reads the session of this name up to damage: it can be resumed from the lines before the damage.
    fn read_marked(&self, id: &str) -> Result<JournalReader, SessionError> {
        let mut journal = self.watched(id)?;
        while journal.next_before_damage()?.is_some() {}
        Ok(journal)
    }

    /// Returns `true` if the session may be resumed without asking the person whose key
    /// [`SessionStoreOptions`](super::SessionStoreOptions) holds: its lines are [`Authorship::Own`].
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::authorship`].
    pub fn is_own(&self, given: &str) -> Result<bool, SessionError> {
        self.authorship(given).map(Authorship::is_own)
    }

    /// Returns `true` if the person whose key [`SessionStoreOptions`](super::SessionStoreOptions) holds created the session
    /// here, so that the options in its header may be used. Returns `false` for another person's session that this person
    /// accepted. Only the lines that the mark covers are read.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::authorship`].
    pub fn is_created_here(&self, given: &str) -> Result<bool, SessionError> {
        self.origin(given).map(|origin| origin == Some(SessionOrigin::Person))
    }

    /// Returns `true` if the session has a mark of this person that matches its name and the lines that the mark covers.
    /// [`SessionStore::authorship`] tells whether another author has written to it since.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::authorship`].
    pub fn is_marked(&self, given: &str) -> Result<bool, SessionError> {
        self.origin(given).map(|origin| origin.is_some())
    }

    fn origin(&self, given: &str) -> Result<Option<SessionOrigin>, SessionError> {
        let mut journal = self.watched(&self.resolve(given)?)?;
        while journal.next_covered()? {}
        Ok(journal.watch().origin())
    }

    /// Opens the journal of the session of this name and verifies it against its mark while it is read.
    pub(super) fn watched(&self, id: &str) -> Result<JournalReader, SessionError> {
        let mark = self.journals.mark(id)?;
        JournalReader::open_watched(Arc::clone(&self.journals), id, |header, line| self.watch(id, header, line, mark))
    }

    fn watch(
        &self,
        id: &str,
        header: &SessionHeader,
        line: &[u8],
        mark: Option<String>,
    ) -> Result<JournalVerifier, SessionError> {
        let Some(text) = mark else { return Ok(JournalVerifier::Unmarked) };
        if let Some(mark) = SessionMark::parse(&text) {
            let key = self.options.own.derived(PURPOSE)?;
            return Ok(key.map_or(JournalVerifier::Unmarked, |key| JournalVerifier::new(key, id, mark)));
        }
        for origin in [SessionOrigin::Person, SessionOrigin::Other] {
            // A folder of another name may hold another session in its place.
            if header.id == id && self.options.own.has_marked(origin.first_line_label(), line, text.trim_end())? {
                return Ok(JournalVerifier::FirstLine(origin));
            }
        }
        Ok(JournalVerifier::Unmarked)
    }

    /// Accepts a session in its reviewed state: writes a mark for the lines that existed then.
    ///
    /// # Errors
    ///
    /// The errors of [`SessionStore::authorship`]; also if there is no location for a key, if a process writes to the
    /// session, or if its reviewed lines have changed since.
    pub fn accept(&self, review: &SessionReview) -> Result<(), SessionError> {
        let SessionReview { id, authorship, lines, bytes, digest } = review;
        let mut lease = self.journals.take(id)?.ok_or_else(|| SessionError::InUse { id: id.clone() })?;
        if self.digest_of_lines(id, *bytes)? != Some(*digest) {
            return Err(SessionError::ChangedSinceReview { id: id.clone() });
        }
        // The mark of an earlier release still says who began the session.
        let begun = (*authorship == Authorship::FirstLine).then(|| self.origin(id)).transpose()?.flatten();
        let (mark, _) = self.new_mark(id, begun.unwrap_or(SessionOrigin::Other), *lines, *digest)?;
        lease.set_mark(&mark.text())
    }

    /// Returns `true` if there is a location for a person's key.
    pub fn has_key(&self) -> bool {
        self.options.own.has_place()
    }

    /// Returns the mark of the session of this name, whose first lines have this digest, and the key of the chain for the
    /// lines that follow.
    pub(super) fn new_mark(
        &self,
        id: &str,
        origin: SessionOrigin,
        lines: u64,
        digest: Sha256Digest,
    ) -> Result<(SessionMark, DerivedKey), SessionError> {
        if !self.has_key() {
            return Err(TrustError::NoPlace.into());
        }
        let key = self.options.own.derived_or_made(PURPOSE)?;
        Ok((SessionMark::new(&key, origin, id, lines, digest), key))
    }

    /// Returns the digest of the first `bytes` bytes of a journal; `None` if it has fewer.
    fn digest_of_lines(&self, id: &str, bytes: u64) -> Result<Option<Sha256Digest>, SessionError> {
        let mut source = self.journals.read(id, 1)?;
        let (mut digest, mut left, mut buffer) = (Sha256::new(), bytes, Vec::new());
        while left > 0 {
            buffer.clear();
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let read = source.read_more(&mut buffer, most)?;
            if read == 0 {
                return Ok(None);
            }
            digest.update(&buffer);
            left = left.saturating_sub(read as u64);
        }
        Ok(Some(digest.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::{
        DiskStorage, SessionOpenOptions, SessionStoreOptions,
        file_names::{JOURNAL, MARK},
        tests::{named, said},
    };
    use shelly_core::{agent::journal::Recorder, trust::UserKey};

    /// Returns the sessions of a project, for a person whose key is in this file.
    fn store(project: &Path, key: Option<&Path>) -> SessionStore {
        let own = UserKey::new(key.map(Path::to_owned));
        SessionStore::new(Arc::new(DiskStorage), project, SessionStoreOptions { own, ..SessionStoreOptions::default() })
    }

    fn copy(from: &Path, to: &Path) {
        fs::create_dir(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy(&entry.path(), &to),
                false => drop(fs::copy(entry.path(), to).unwrap()),
            }
        }
    }

    #[test]
    fn session_authorship_is_independent_of_location() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (mine, theirs) = (path("mine.key"), path("theirs.key"));
        let project = path("project");
        let here = store(&project, Some(&mine));
        let made = here.create(named("a")).unwrap();
        assert_eq!(made.not_marked(), None);
        drop(made);
        assert!(here.is_own("a").unwrap());
        drop(here.open("a", SessionOpenOptions::default()).unwrap());
        assert!(here.is_created_here("a").unwrap(), "also when more was written");
        let fork = here.fork("a", None).unwrap();
        assert!(here.is_own(&fork).unwrap() && here.is_created_here(&fork).unwrap());
        // With another person's key, or without a key, no session is own.
        for key in [Some(&*theirs), None] {
            let other = store(&project, key);
            assert!(!other.is_own("a").unwrap());
            assert_eq!(other.has_key(), key.is_some());
            let fork = other.fork("a", None).unwrap();
            assert!(!other.is_own(&fork).unwrap() && !here.is_own(&fork).unwrap(), "neither is a copy");
        }
        // The mark is valid for this session alone, under its name, in any project folder.
        fs::rename(project.join("a"), project.join("b")).unwrap();
        assert!(!here.is_own("b").unwrap(), "another session could stand in its place");
        drop(here.create(named("a")).unwrap());
        fs::copy(project.join("b/mark"), project.join("a/mark")).unwrap();
        assert!(!here.is_own("a").unwrap(), "made at another time");
        fs::remove_dir_all(project.join("a")).unwrap();
        fs::rename(project.join("b"), project.join("a")).unwrap();
        copy(&project, &path("moved"));
        assert!(store(&path("moved"), Some(&mine)).is_own("a").unwrap());
    }

    /// Returns a session of this many further lines, written by the person with this key.
    fn written(store: &SessionStore, id: &str, lines: usize) -> PathBuf {
        let session = store.create(named(id)).unwrap();
        for n in 0..lines {
            let _ = session.write(1, &said(n.to_string()));
        }
        session.folder().join(JOURNAL)
    }

    #[test]
    fn altered_session_reports_its_first_foreign_line() {
        let folder = tempfile::tempdir().unwrap();
        let (key, project) = (folder.path().join("own.key"), folder.path().join("project"));
        let here = store(&project, Some(&key));
        let path = written(&here, "a", 3);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        assert_eq!((lines.len(), here.authorship("a").unwrap()), (4, Authorship::Own));
        // A line that a writer without the key can produce, with a correct checksum.
        let forged = |n: u64| {
            let members = format!(r#""n":{n},"t":0,"run":1,"kind":"looked","changes":[],"effects":[]"#);
            String::from_utf8(crate::journal_line(&members)).unwrap()
        };
        for (case, altered, line) in [
            ("a line is added", text.clone() + &forged(5), Some(5)),
            ("a line is put in the place of another", lines[..2].concat() + &forged(3) + lines[3], Some(3)),
            ("a line that was cut off ends otherwise", lines[..3].concat() + &forged(4), Some(4)),
            ("the end is cut off", lines[..2].concat(), None),
            ("a line is cut off in its middle", text[..text.len() - 9].to_owned(), None),
            ("all but the first line is cut off", lines[0].to_owned(), None),
        ] {
            fs::write(&path, &altered).unwrap();
            let expected = line.map_or(Authorship::Own, |line| Authorship::Altered { line });
            assert_eq!(here.authorship("a").unwrap(), expected, "{case}");
            assert!(here.is_created_here("a").unwrap(), "{case}: what its first line names is this person's");
            let opened = here.open("a", SessionOpenOptions { must_be_own: true, ..SessionOpenOptions::default() });
            assert_eq!(opened.is_ok(), line.is_none(), "{case}");
            if let Err(error) = opened {
                assert!(error.to_string().contains(&format!("line {}", line.unwrap())), "{case}: {error}");
                assert_eq!(fs::read_to_string(&path).unwrap(), altered, "{case}: it is left as it was");
                // A person's consent for one run vouches for nothing.
                drop(here.open("a", SessionOpenOptions::default()).unwrap());
                assert_eq!(here.authorship("a").unwrap(), expected, "{case}");
            } else {
                drop(opened);
                assert_eq!(here.authorship("a").unwrap(), Authorship::Own, "{case}: it went on from there");
            }
        }
        // A copy has the authorship of its original up to that line.
        fs::write(&path, text.clone() + &forged(5)).unwrap();
        for (at, is_own) in [(2, true), (4, true), (5, false)] {
            let fork = here.fork("a", Some(at)).unwrap();
            assert_eq!((here.is_own(&fork).unwrap(), here.is_created_here(&fork).unwrap()), (is_own, is_own), "{at}");
        }
        accept(&here, "a").unwrap();
        assert_eq!(here.authorship("a").unwrap(), Authorship::Own, "the person said so");
        assert!(!here.is_created_here("a").unwrap());
        drop(here.open("a", SessionOpenOptions { must_be_own: true, ..SessionOpenOptions::default() }).unwrap());
        assert_eq!(here.authorship("a").unwrap(), Authorship::Own);
        fs::write(&path, &text).unwrap();
        assert_eq!(here.authorship("a").unwrap(), Authorship::Unmarked, "lines that were said yes to are gone");
    }

    #[test]
    fn damaged_session_is_own_up_to_the_damage() {
        let folder = tempfile::tempdir().unwrap();
        let (key, project) = (folder.path().join("own.key"), folder.path().join("project"));
        let here = store(&project, Some(&key));
        let path = written(&here, "a", 3);
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.len() - 5 - bytes.iter().rev().skip(1).position(|byte| *byte == b'\n').unwrap();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(here.authorship("a").unwrap(), Authorship::Own);
        let opening = SessionOpenOptions { must_be_own: true, up_to_damage: true, ..SessionOpenOptions::default() };
        let opened = here.open("a", opening).unwrap();
        assert!(opened.warnings[0].contains("damaged at line 3"), "{:?}", opened.warnings);
        drop(opened);
        assert_eq!(here.authorship("a").unwrap(), Authorship::Own);
    }

    /// Accepts a session in its present state.
    fn accept(store: &SessionStore, id: &str) -> Result<(), SessionError> {
        store.accept(&store.review(id)?)
    }

    /// Gives a session the mark of earlier releases.
    fn mark_first_line(store: &SessionStore, id: &str, origin: SessionOrigin) {
        let journal = fs::read(store.folder.join(id).join(JOURNAL)).unwrap();
        let first = journal.split_inclusive(|byte| *byte == b'\n').next().unwrap();
        let mark = store.options.own.mark(origin.first_line_label(), first).unwrap();
        fs::write(store.folder.join(id).join(MARK), format!("{mark}\n")).unwrap();
    }

    #[test]
    fn earlier_release_mark_makes_no_line_own() {
        let folder = tempfile::tempdir().unwrap();
        let (key, project) = (folder.path().join("own.key"), folder.path().join("project"));
        let here = store(&project, Some(&key));
        for (id, origin, is_created_here) in [("a", SessionOrigin::Person, true), ("b", SessionOrigin::Other, false)] {
            written(&here, id, 2);
            // Also when it is put in the place of a newer mark.
            mark_first_line(&here, id, origin);
            assert_eq!(here.authorship(id).unwrap(), Authorship::FirstLine);
            assert_eq!((here.is_own(id).unwrap(), here.is_created_here(id).unwrap()), (false, is_created_here));
            let fork = here.fork(id, None).unwrap();
            assert_eq!(here.authorship(&fork).unwrap(), Authorship::Unmarked);
            let opening = || SessionOpenOptions { must_be_own: true, ..SessionOpenOptions::default() };
            assert!(matches!(here.open(id, opening()), Err(SessionError::NotOwn { .. })));
            drop(here.open(id, SessionOpenOptions::default()).unwrap());
            assert_eq!(here.authorship(id).unwrap(), Authorship::FirstLine, "opened once, it is not vouched for");
            accept(&here, id).unwrap();
            assert_eq!(here.authorship(id).unwrap(), Authorship::Own);
            assert_eq!(here.is_created_here(id).unwrap(), is_created_here, "its first line tells who began it");
            drop(here.open(id, opening()).unwrap());
        }
    }

    #[test]
    fn only_the_reviewed_session_lines_are_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let (key, project) = (folder.path().join("own.key"), folder.path().join("project"));
        let here = store(&project, Some(&key));
        let path = written(&store(&project, None), "a", 3);
        let review = here.review("a").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let forged = crate::journal_line(r#""n":5,"t":0,"run":1,"kind":"looked","changes":[],"effects":[]"#);
        let altered = text.replace("\"n\":3,", "\"n\":3, ");
        for changed in [altered.as_str(), &text[..text.len() - 1], ""] {
            fs::write(&path, changed).unwrap();
            let refused = here.accept(&review);
            assert!(matches!(refused, Err(SessionError::ChangedSinceReview { .. })), "{changed:?}: {refused:?}");
            assert!(!path.with_file_name(MARK).exists());
        }
        fs::write(&path, [text.as_bytes(), &forged].concat()).unwrap();
        here.accept(&review).unwrap();
        assert_eq!(here.authorship("a").unwrap(), Authorship::Altered { line: 5 }, "it came after the review");
    }

    #[test]
    fn session_in_use_cannot_be_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let here = store(&folder.path().join("project"), Some(&folder.path().join("own.key")));
        let session = here.create(named("a")).unwrap();
        assert!(matches!(accept(&here, "a"), Err(SessionError::InUse { .. })));
        drop(session);
        accept(&here, "a").unwrap();
    }

    #[test]
    fn foreign_session_is_own_after_acceptance() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (key, project) = (path("own.key"), path("project"));
        let made = store(&project, None).create(named("a")).unwrap();
        assert!(made.not_marked().is_some_and(|why| why.contains("no folder")), "{:?}", made.not_marked());
        drop(made);
        let here = store(&project, Some(&key));
        let right = {
            accept(&here, "a").unwrap();
            fs::read(project.join("a/mark")).unwrap()
        };
        let fork = here.fork("a", None).unwrap();
        for adopted in ["a", &fork] {
            assert!(
                here.is_own(adopted).unwrap() && !here.is_created_here(adopted).unwrap(),
                "what it names is not chosen"
            );
        }
        for wrong in [&b""[..], b"\xff", b"hmac-sha256:00", &right[..right.len() - 2], &[&right[..], b"0"].concat()] {
            fs::write(project.join("a/mark"), wrong).unwrap();
            assert!(!here.is_own("a").unwrap(), "{wrong:?}");
        }
        fs::remove_file(project.join("a/mark")).unwrap();
        fs::create_dir(project.join("a/mark")).unwrap();
        assert!(!here.is_own("a").unwrap());
        fs::remove_dir(project.join("a/mark")).unwrap();
        #[cfg(unix)]
        {
            fs::write(path("right"), &right).unwrap();
            std::os::unix::fs::symlink("../../right", project.join("a/mark")).unwrap();
            assert!(!here.is_own("a").unwrap(), "a link is no mark");
            accept(&here, "a").unwrap();
            assert!(here.is_own("a").unwrap() && fs::read(path("right")).unwrap() == right);
        }
        assert!(matches!(accept(&store(&project, None), "a"), Err(SessionError::Key(_))));
        assert!(matches!(here.is_own("x"), Err(SessionError::NotFound { .. })));
    }
}
