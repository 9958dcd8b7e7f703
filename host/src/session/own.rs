//! Whose a session is. One that was made here has a mark in its folder: a digest of its first line under a key that only
//! this person has. One that came with a project has none that is right, and its calls must not be made unasked.

use std::{io, path::Path};

use super::{
    Kind, SessionError, Store,
    error::disk,
    reader,
    writer::{JOURNAL, write_new},
};
use crate::trust::TrustError;

/// The mark's name in the session's folder.
const MARK: &str = "mark";
/// Who made a session that this person goes on with. Each has marks of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    /// This person, here.
    Person,
    /// Somebody else; this person has said that it may be gone on with.
    Other,
}

impl Maker {
    /// What a mark is of.
    fn marked(self) -> &'static str {
        match self {
            Self::Person => "shelly-host session",
            Self::Other => "shelly-host session of somebody else",
        }
    }
}

/// Bytes of a mark that are looked at: more than any has.
const MARK_BYTES: usize = 128;

impl Store {
    /// Whether the session was made here by the person whose key [`Options`](super::Options) names, or this person has said
    /// that it may be gone on with: by its mark, which does not depend on where the project is.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: there is none, its header is damaged, the key or the disk says no.
    pub fn is_own(&self, given: &str) -> Result<bool, SessionError> {
        self.maker(given).map(|maker| maker.is_some())
    }

    /// Returns `true` if the session was made here by the person whose key [`Options`](super::Options) names: what its header
    /// names may be acted on. That somebody else's may be gone on with says nothing of that.
    ///
    /// # Errors
    ///
    /// As [`Store::is_own`].
    pub fn is_made_here(&self, given: &str) -> Result<bool, SessionError> {
        self.maker(given).map(|maker| maker == Some(Maker::Person))
    }

    /// Returns who made the session, by its mark; `None` if it has none that is right.
    pub(super) fn maker(&self, given: &str) -> Result<Option<Maker>, SessionError> {
        let folder = self.folder.join(self.resolve(given)?);
        let path = folder.join(MARK);
        match self.storage.entry(&path) {
            Ok(entry) if entry.kind == Kind::File => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk("read", &path)(error)),
        }
        let mut mark = vec![0; MARK_BYTES];
        let file = self.storage.open(&path).map_err(disk("read", &path))?;
        let read = file.read_full_at(&mut mark, 0).map_err(disk("read", &path))?;
        mark.truncate(read);
        let Ok(mark) = str::from_utf8(&mark) else { return Ok(None) };
        let line = self.first_line(&folder)?;
        for maker in [Maker::Person, Maker::Other] {
            if self.options.own.has_marked(maker.marked(), &line, mark.trim_end())? {
                return Ok(Some(maker));
            }
        }
        Ok(None)
    }

    /// Marks a session as this person's own: it is gone on with from now on.
    ///
    /// # Errors
    ///
    /// As [`Store::is_own`]; there is no place for a key.
    pub fn make_own(&self, given: &str) -> Result<(), SessionError> {
        let folder = self.folder.join(self.resolve(given)?);
        self.mark(&folder, Maker::Other)?;
        self.storage.sync_folder(&folder).map_err(disk("write", &folder))
    }

    /// Whether a person has a key here at all.
    pub fn has_key(&self) -> bool {
        self.options.own.has_place()
    }

    /// Writes the mark of the session in this folder. Its name need not be on the disk yet.
    pub(super) fn mark(&self, folder: &Path, maker: Maker) -> Result<(), SessionError> {
        if !self.has_key() {
            return Err(TrustError::NoPlace.into());
        }
        let mark = self.options.own.mark(maker.marked(), &self.first_line(folder)?)?;
        let (path, beside) = (folder.join(MARK), folder.join(format!(".{MARK}")));
        write_new(&*self.storage, &beside, format!("{mark}\n").as_bytes()).map_err(disk("write", &beside))?;
        self.storage.rename(&beside, &path).map_err(disk("write", &path))
    }

    /// The first line of a journal with its end: when the session was made, under which name, for what.
    fn first_line(&self, folder: &Path) -> Result<Vec<u8>, SessionError> {
        let path = folder.join(JOURNAL);
        let file = self.storage.open(&path).map_err(disk("read", &path))?;
        let (_, end) = reader::header(&*file, &path)?;
        // No longer than a header may be.
        let mut line = vec![0; usize::try_from(end).unwrap_or_default()];
        let read = file.read_full_at(&mut line, 0).map_err(disk("read", &path))?;
        line.truncate(read);
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        session::{Disk, Opening, Options, tests::named},
        trust::OwnKey,
    };

    /// The sessions of a project, for a person whose key is in this file.
    fn store(project: &Path, key: Option<&Path>) -> Store {
        let own = OwnKey::new(key.map(Path::to_owned));
        Store::new(std::sync::Arc::new(Disk), project, Options { own, ..Options::default() })
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
    fn a_session_is_of_who_made_it_wherever_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (mine, theirs) = (path("mine.key"), path("theirs.key"));
        let project = path("project");
        let here = store(&project, Some(&mine));
        let made = here.create(named("a")).unwrap();
        assert_eq!(made.not_marked(), None);
        drop(made);
        assert!(here.is_own("a").unwrap());
        drop(here.open("a", Opening::default()).unwrap());
        assert!(here.is_made_here("a").unwrap(), "also when more was written");
        let fork = here.fork("a", None).unwrap();
        assert!(here.is_own(&fork).unwrap() && here.is_made_here(&fork).unwrap());
        // Somebody else's, or without a key: no session is.
        for key in [Some(&*theirs), None] {
            let other = store(&project, key);
            assert!(!other.is_own("a").unwrap());
            assert_eq!(other.has_key(), key.is_some());
            let fork = other.fork("a", None).unwrap();
            assert!(!other.is_own(&fork).unwrap() && !here.is_own(&fork).unwrap(), "neither is a copy");
        }
        // The mark holds for this one alone, under any name and in any place.
        fs::rename(project.join("a"), project.join("b")).unwrap();
        assert!(here.is_own("b").unwrap());
        drop(here.create(named("a")).unwrap());
        fs::copy(project.join("b/mark"), project.join("a/mark")).unwrap();
        assert!(!here.is_own("a").unwrap(), "made at another time");
        copy(&project, &path("moved"));
        assert!(store(&path("moved"), Some(&mine)).is_own("b").unwrap());
    }

    #[test]
    fn what_is_brought_is_own_once_the_person_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let (key, project) = (path("own.key"), path("project"));
        let made = store(&project, None).create(named("a")).unwrap();
        assert!(made.not_marked().is_some_and(|why| why.contains("no place")), "{:?}", made.not_marked());
        drop(made);
        let here = store(&project, Some(&key));
        let right = {
            here.make_own("a").unwrap();
            fs::read(project.join("a/mark")).unwrap()
        };
        let fork = here.fork("a", None).unwrap();
        for adopted in ["a", &fork] {
            assert!(
                here.is_own(adopted).unwrap() && !here.is_made_here(adopted).unwrap(),
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
            here.make_own("a").unwrap();
            assert!(here.is_own("a").unwrap() && fs::read(path("right")).unwrap() == right);
        }
        assert!(matches!(store(&project, None).make_own("a"), Err(SessionError::Key(_))));
        assert!(matches!(here.is_own("x"), Err(SessionError::NotFound { .. })));
    }
}
