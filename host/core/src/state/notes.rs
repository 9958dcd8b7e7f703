use std::{
    collections::BTreeSet,
    fmt, fs,
    io::{self, Read},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Serialize;

use super::shown_name::shown_name;
use crate::{
    error::{Fault, cut, why_unreadable, without_number},
    files, limits,
};

/// Markdown notes in which agents leave information that outlasts a run: in a folder, or in a bucket that several hosts
/// share. Clones refer to the same notes.
///
/// In a folder, a note is the file `<name>.md`. It is written atomically with mode 0600; the folder is created with the
/// first note, with mode 0750. Symbolic links are refused, as notes and as the folder. Other files in the folder are ignored.
#[derive(Debug, Clone)]
pub struct NoteStore {
    storage: Arc<dyn NoteStorage>,
}

/// The place of notes. Names and sizes are within their bounds. All calls may block. `note_contract` says what it holds.
pub trait NoteStorage: Send + Sync + fmt::Debug {
    /// Writes a note, replacing one of the same name; one more than [`limits::NOTES_FILES`] is refused.
    ///
    /// # Errors
    ///
    /// [`NoteError`].
    fn write(&self, name: &str, content: &str) -> Result<(), NoteError>;

    /// Reads a note.
    ///
    /// # Errors
    ///
    /// [`NoteError`].
    fn read(&self, name: &str) -> Result<String, NoteError>;

    /// Lists the notes.
    ///
    /// # Errors
    ///
    /// [`NoteError`].
    fn list(&self) -> Result<NoteList, NoteError>;
}

#[derive(Debug)]
struct NoteFolder {
    path: Box<Path>,
    /// Held while a note is written, so that concurrent writers cannot exceed the limit.
    writing: Mutex<()>,
}

/// The entry of a note in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoteSummary {
    /// The name.
    pub name: String,
    /// The first line, cut at [`limits::NOTES_LINE_CHARS`] characters.
    pub first_line: String,
}

/// The notes of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoteList {
    /// The notes sorted by name, at most [`limits::NOTES_FILES`].
    pub notes: Vec<NoteSummary>,
    /// The number of further notes, which were added by other means.
    pub left_off: usize,
}

/// The reason for which a note was not written or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum NoteError {
    /// The name is invalid.
    #[error("invalid note name `{name}`; use 1 to {} of A-Z, a-z, 0-9, _ and -", limits::NOTES_NAME_BYTES)]
    Name { name: String },
    /// The note is too large.
    #[error(
        "the note `{name}` has {bytes} bytes, the maximum is {}; split it into several notes",
        limits::NOTES_FILE_BYTES
    )]
    TooLarge { name: String, bytes: u64 },
    /// The folder has reached its maximum number of notes.
    #[error("there are {count} notes, which is the maximum; overwrite one that is no longer needed")]
    Full { count: usize },
    /// No note has this name.
    #[error("there is no note `{name}`; list the notes to see their names")]
    Missing { name: String },
    /// The path of the note is not a regular file.
    #[error("the note `{name}` is {kind}, which cannot be used; choose another name")]
    NotAFile { name: String, kind: &'static str },
    /// The folder cannot be used.
    #[error("cannot use the folder of the notes: {cause}")]
    Folder { cause: String },
    /// The file cannot be read or written.
    #[error("the note `{name}` cannot be {action}: {cause}")]
    File { name: String, action: &'static str, cause: String },
    /// The bucket cannot be used.
    #[error("cannot use the notes of the cluster: {cause}")]
    Cluster { cause: String },
}

impl From<NoteError> for Fault {
    fn from(error: NoteError) -> Self {
        let message = error.to_string();
        match error {
            NoteError::Name { .. } => Self::Invalid { message },
            NoteError::TooLarge { .. } => Self::TooLarge { message },
            NoteError::Full { .. } => Self::Exhausted { message },
            NoteError::Missing { .. } => Self::NotFound { message },
            NoteError::NotAFile { .. } => Self::Denied { message },
            NoteError::Folder { .. } | NoteError::File { .. } => Self::Other { message },
            NoteError::Cluster { .. } => Self::Unavailable { message, after: None },
        }
    }
}

impl NoteStore {
    /// Creates a store for this folder. No disk access.
    pub fn new(folder: impl AsRef<Path>) -> Self {
        Self::with_storage(Arc::new(NoteFolder { path: folder.as_ref().into(), writing: Mutex::default() }))
    }

    /// Creates a store of notes in this place.
    pub fn with_storage(storage: Arc<dyn NoteStorage>) -> Self {
        Self { storage }
    }

    /// Writes a note, replacing one of the same name. A write that has begun completes, even if this future is dropped.
    ///
    /// # Errors
    ///
    /// [`NoteError`].
    pub async fn write(&self, name: &str, content: &str) -> Result<(), NoteError> {
        check_name(name)?;
        if content.len() > limits::NOTES_FILE_BYTES {
            return Err(NoteError::TooLarge { name: name.into(), bytes: content.len() as u64 });
        }
        let (name, content) = (name.to_owned(), content.to_owned());
        self.blocking(move |storage| storage.write(&name, &content)).await
    }

    /// Reads a note.
    ///
    /// # Errors
    ///
    /// [`NoteError`].
    pub async fn read(&self, name: &str) -> Result<String, NoteError> {
        check_name(name)?;
        let name = name.to_owned();
        self.blocking(move |storage| storage.read(&name)).await
    }

    /// Lists the notes; empty if there are none.
    ///
    /// # Errors
    ///
    /// [`NoteError::Folder`] or [`NoteError::Cluster`].
    pub async fn list(&self) -> Result<NoteList, NoteError> {
        self.blocking(|storage| storage.list()).await
    }

    async fn blocking<R: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn NoteStorage) -> Result<R, NoteError> + Send + 'static,
    ) -> Result<R, NoteError> {
        let storage = Arc::clone(&self.storage);
        let done = tokio::task::spawn_blocking(move || work(&*storage)).await;
        done.unwrap_or_else(|error| Err(NoteError::Folder { cause: error.to_string() }))
    }
}

impl NoteStorage for NoteFolder {
    fn write(&self, name: &str, content: &str) -> Result<(), NoteError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.make()?;
        let failed = |error: io::Error| file_error(name, "written", without_number(&error.to_string()));
        let path = self.path.join(format!("{name}.md"));
        match fs::symlink_metadata(&path) {
            Ok(there) => check_file(name, &there)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let count = self.names()?.len();
                if count >= limits::NOTES_FILES {
                    return Err(NoteError::Full { count });
                }
            }
            Err(error) => return Err(failed(error)),
        }
        files::replace(&path, content.as_bytes()).map_err(failed)
    }

    fn read(&self, name: &str) -> Result<String, NoteError> {
        self.is_there()?;
        let file = self.open(name)?;
        let mut bytes = Vec::new();
        let limit = limits::NOTES_FILE_BYTES as u64;
        let failed = |error: &io::Error| file_error(name, "read", why_unreadable(error));
        (&file).take(limit + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
        if bytes.len() as u64 > limit {
            let bytes = file.metadata().map_or(bytes.len() as u64, |metadata| metadata.len());
            return Err(NoteError::TooLarge { name: name.into(), bytes });
        }
        String::from_utf8(bytes).map_err(|_| failed(&io::ErrorKind::InvalidData.into()))
    }

    fn list(&self) -> Result<NoteList, NoteError> {
        if !self.is_there()? {
            return Ok(NoteList::default());
        }
        let names = self.names()?;
        let left_off = names.len().saturating_sub(limits::NOTES_FILES);
        // A file that was removed meanwhile, or is not a regular file, is skipped.
        let summary = |name: String| Some(NoteSummary { first_line: self.first_line(&name).ok()?, name });
        Ok(NoteList { notes: names.into_iter().take(limits::NOTES_FILES).filter_map(summary).collect(), left_off })
    }
}

impl NoteFolder {
    /// Reads only as many bytes as the shown line can have.
    fn first_line(&self, name: &str) -> Result<String, NoteError> {
        let mut head = Vec::new();
        let longest = (limits::NOTES_LINE_CHARS + 1) * 4;
        let read = self.open(name)?.take(longest as u64).read_to_end(&mut head);
        read.map_err(|error| file_error(name, "read", why_unreadable(&error)))?;
        Ok(cut(String::from_utf8_lossy(&head).lines().next().unwrap_or_default(), limits::NOTES_LINE_CHARS))
    }

    /// Returns the names of the notes, sorted.
    fn names(&self) -> Result<BTreeSet<String>, NoteError> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(&self.path).map_err(folder_error)? {
            let entry = entry.map_err(folder_error)?;
            let file_name = entry.file_name();
            let name = file_name.to_str().and_then(|name| name.strip_suffix(".md"));
            if let Some(name) = name.filter(|name| check_name(name).is_ok())
                && entry.file_type().is_ok_and(|kind| kind.is_file())
            {
                names.insert(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Opens a note, and checks that the opened file is the regular file that was checked before.
    fn open(&self, name: &str) -> Result<fs::File, NoteError> {
        let path = self.path.join(format!("{name}.md"));
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => NoteError::Missing { name: name.into() },
            _ => file_error(name, "read", why_unreadable(&error)),
        };
        let there = fs::symlink_metadata(&path).map_err(failed)?;
        check_file(name, &there)?;
        let file = files::open(&path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let opened = file.metadata().map_err(failed)?;
            if (opened.dev(), opened.ino()) != (there.dev(), there.ino()) {
                return Err(file_error(name, "read", "the file was replaced in the meantime; retry".into()));
            }
        }
        Ok(file)
    }

    /// Returns `true` if the folder exists; an error if the path is not a folder.
    fn is_there(&self) -> Result<bool, NoteError> {
        match fs::symlink_metadata(&self.path) {
            Ok(there) if there.is_dir() => Ok(true),
            Ok(there) if there.is_symlink() => Err(NoteError::Folder { cause: "the folder is a symbolic link".into() }),
            Ok(_) => Err(NoteError::Folder { cause: "expected a folder, found a file".into() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(folder_error(error)),
        }
    }

    fn make(&self) -> Result<(), NoteError> {
        if self.is_there()? {
            return Ok(());
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o750);
        builder.create(&self.path).map_err(folder_error)
    }
}

pub(super) fn check_name(name: &str) -> Result<(), NoteError> {
    let fits = (1..=limits::NOTES_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if fits { Ok(()) } else { Err(NoteError::Name { name: shown_name(name).escape_debug().to_string() }) }
}

fn check_file(name: &str, there: &fs::Metadata) -> Result<(), NoteError> {
    let kind = match there.file_type() {
        kind if kind.is_file() => return Ok(()),
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_dir() => "a folder",
        _ => "not a regular file",
    };
    Err(NoteError::NotAFile { name: name.into(), kind })
}

fn file_error(name: &str, action: &'static str, cause: String) -> NoteError {
    NoteError::File { name: name.into(), action, cause }
}

fn folder_error(error: io::Error) -> NoteError {
    NoteError::Folder { cause: without_number(&error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::{
        super::note_contract::{NoteFixture, failed_note_checks},
        *,
    };

    fn folder() -> (tempfile::TempDir, NoteStore) {
        let parent = tempfile::tempdir().unwrap();
        let notes = NoteStore::new(parent.path().join("local/notes"));
        (parent, notes)
    }

    fn line(name: &str, first_line: &str) -> NoteSummary {
        NoteSummary { name: name.into(), first_line: first_line.into() }
    }

    #[tokio::test]
    async fn notes_are_written_read_and_listed() {
        let (_parent, notes) = folder();
        assert_eq!(notes.list().await, Ok(NoteList::default()));
        assert_eq!(notes.read("plan").await, Err(NoteError::Missing { name: "plan".into() }));
        let long = "ä€𝄞é".repeat(30);
        for (name, content) in [("plan", "# Plan\r\nmore"), ("B-2", ""), ("a_1", &long), ("plan", "# New plan\nmore")] {
            notes.write(name, content).await.unwrap();
            assert_eq!(notes.clone().read(name).await.as_deref(), Ok(content));
        }
        let cut = format!("{}…", "ä€𝄞é".repeat(20));
        let expected = vec![line("B-2", ""), line("a_1", &cut), line("plan", "# New plan")];
        assert_eq!(notes.list().await, Ok(NoteList { notes: expected, left_off: 0 }));
    }

    #[tokio::test]
    async fn names_and_sizes_are_bounded() {
        let (parent, notes) = folder();
        let long = "n".repeat(limits::NOTES_NAME_BYTES + 1);
        for name in ["", "a b", "../up", "a.md", "é", "a\n", long.as_str()] {
            assert!(matches!(notes.write(name, "x").await, Err(NoteError::Name { .. })), "{name}");
            assert!(matches!(notes.read(name).await, Err(NoteError::Name { .. })), "{name}");
        }
        let large = "x".repeat(limits::NOTES_FILE_BYTES + 1);
        let too_large = NoteError::TooLarge { name: "n".into(), bytes: large.len() as u64 };
        assert_eq!(notes.write("n", &large).await, Err(too_large.clone()));
        assert!(!parent.path().join("local").exists(), "what is refused leaves nothing");
        notes.write(&long[1..], &large[1..]).await.unwrap();
        fs::write(parent.path().join("local/notes/n.md"), &large).unwrap();
        assert_eq!(notes.read("n").await, Err(too_large));
        fs::write(parent.path().join("local/notes/n.md"), b"\xffbinary").unwrap();
        let told = notes.read("n").await.unwrap_err().to_string();
        assert_eq!(told, "the note `n` cannot be read: not UTF-8 text");
    }

    #[tokio::test]
    async fn note_folder_limits_notes_and_listing() {
        let (parent, notes) = folder();
        notes.write("n000", "x").await.unwrap();
        let folder = parent.path().join("local/notes");
        for n in 1..limits::NOTES_FILES {
            fs::write(folder.join(format!("n{n:03}.md")), "x").unwrap();
        }
        let full = NoteError::Full { count: limits::NOTES_FILES };
        assert_eq!(notes.write("more", "x").await, Err(full));
        notes.write("n000", "over one that is there").await.unwrap();
        fs::write(folder.join("zzz.md"), "by hand").unwrap();
        let list = notes.list().await.unwrap();
        assert_eq!((list.notes.len(), list.left_off), (limits::NOTES_FILES, 1));
        assert_eq!(list.notes[0], line("n000", "over one that is there"));
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn notes_ignore_links_and_other_files() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let (parent, notes) = folder();
        notes.write("real", "inside").await.unwrap();
        let (folder, outside) = (parent.path().join("local/notes"), parent.path().join("outside"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder.join("real.md")), mode(&folder) & !0o750), (0o600, 0));
        fs::write(&outside, "secret").unwrap();
        symlink(&outside, folder.join("link.md")).unwrap();
        fs::create_dir(folder.join("folder.md")).unwrap();
        fs::write(folder.join("other.txt"), "x").unwrap();
        fs::write(folder.join("no name.md"), "x").unwrap();
        for (name, kind) in [("link", "a symbolic link"), ("folder", "a folder")] {
            let refused = NoteError::NotAFile { name: name.into(), kind };
            assert_eq!(notes.read(name).await, Err(refused.clone()));
            assert_eq!(notes.write(name, "x").await, Err(refused));
        }
        assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
        assert_eq!(notes.list().await.unwrap().notes, [line("real", "inside")]);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 5, "no temporary file stays");

        symlink(&folder, parent.path().join("linked")).unwrap();
        for (path, cause) in [("linked", "symbolic link"), ("outside", "found a file"), ("outside/below", "")] {
            let notes = NoteStore::new(parent.path().join(path));
            for told in [notes.write("real", "x").await.unwrap_err(), notes.list().await.unwrap_err()] {
                assert!(matches!(&told, NoteError::Folder { cause: found } if found.contains(cause)), "{told}");
            }
            assert!(notes.read("real").await.is_err(), "{path}");
        }
        assert_eq!(notes.read("real").await.as_deref(), Ok("inside"));
    }

    impl NoteFixture for tempfile::TempDir {
        fn notes(&self) -> NoteStore {
            NoteStore::new(self.path().join("notes"))
        }
    }

    #[test]
    fn note_folder_passes_all_checks() {
        assert_eq!(failed_note_checks(|| Box::new(tempfile::tempdir().unwrap())), []);
    }

    #[tokio::test]
    async fn concurrent_writes_leave_one_complete_note() {
        let (_parent, notes) = folder();
        let contents: Vec<_> = (0..8).map(|n| n.to_string().repeat(10_000)).collect();
        let writes = contents.iter().map(|content| notes.write("shared", content));
        for written in futures_util::future::join_all(writes).await {
            written.unwrap();
        }
        assert!(contents.contains(&notes.read("shared").await.unwrap()));
    }
}
