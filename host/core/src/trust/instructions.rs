//! Instruction files of a project that a person has seen, with their content.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::{TrustError, TrustStore, quoted, store};
use crate::{
    digest::Sha256Digest,
    error::without_number,
    files::{self, FileReadError},
    limits,
};

/// The version of the file format.
const VERSION: u32 = 1;

/// A file of a project whose text agents get as instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstructionFile {
    /// Its path below the project's folder.
    pub path: String,
    /// SHA-256 of the text that agents get, as `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The text that agents get; `None` if it is too long to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl InstructionFile {
    /// Returns the file at this path with the text that agents get.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let digest = Sha256Digest::of(&text).to_string();
        Self { path: path.into(), digest, text: Some(text) }
    }

    /// Returns the file's line in [`TrustFacts`](super::TrustFacts).
    pub fn fact(&self) -> String {
        format!("the instructions {} for agents: {}", quoted(&self.path), self.digest)
    }
}

/// The instruction files of a project that a person has seen, the newest last. Every seen version stays accepted: a file
/// that goes back to an earlier version is not asked about again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SeenInstructions(Vec<InstructionFile>);

impl SeenInstructions {
    /// Returns `true` if the person has seen this version of the file.
    pub fn has(&self, file: &InstructionFile) -> bool {
        self.0.iter().any(|seen| seen.path == file.path && seen.digest == file.digest)
    }

    /// Returns the text of the file at this path when the person last saw it; `None` if it is not known.
    pub fn text_of(&self, path: &str) -> Option<&str> {
        self.0.iter().rev().find(|seen| seen.path == path)?.text.as_deref()
    }

    /// Adds files that the person has seen now. Drops the oldest files if there are too many, and the oldest texts if they
    /// are too large.
    fn add(&mut self, files: &[InstructionFile]) {
        self.0.retain(|seen| !files.iter().any(|file| file.path == seen.path && file.digest == seen.digest));
        self.0.extend(files.iter().cloned());
        self.0.drain(..self.0.len().saturating_sub(limits::INSTRUCTIONS_SEEN));
        let mut room = limits::INSTRUCTIONS_SEEN_BYTES;
        for file in self.0.iter_mut().rev() {
            let bytes = file.text.as_ref().map_or(0, String::len);
            match room.checked_sub(bytes) {
                Some(left) => room = left,
                None => file.text = None,
            }
        }
    }
}

/// The stored file of one project.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SeenInstructionsFile {
    version: u32,
    root: String,
    files: Vec<InstructionFile>,
}

impl TrustStore {
    /// Returns the instruction files of the project in this folder that the person has seen; `None` if none were ever
    /// stored.
    ///
    /// # Errors
    ///
    /// [`TrustError`]: the list cannot be read or is damaged, or the folder is not there.
    pub fn seen_instructions(&self, root: &Path) -> Result<Option<SeenInstructions>, TrustError> {
        let Some((path, _)) = self.instructions_of(root)? else { return Ok(None) };
        let text = match files::read(&path, files::folder_of(&path), limits::INSTRUCTIONS_FILE_BYTES) {
            Ok(text) => text,
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(TrustError::Unreadable { path, reason: error.to_string() }),
        };
        match serde_json::from_str::<SeenInstructionsFile>(&text) {
            Ok(SeenInstructionsFile { version: VERSION, files, .. }) => Ok(Some(SeenInstructions(files))),
            Ok(SeenInstructionsFile { version, .. }) => {
                let reason = format!("the file has version {version}, this program supports version {VERSION}");
                Err(TrustError::Damaged { path, reason })
            }
            Err(error) => Err(TrustError::Damaged { path, reason: error.to_string() }),
        }
    }

    /// Records that the person has seen these instruction files of a project, in addition to those recorded before. If
    /// there is no room, the projects that were written longest ago are forgotten.
    ///
    /// # Errors
    ///
    /// The errors of [`TrustStore::seen_instructions`]; the list cannot be written, or the store has no path.
    pub fn keep_instructions(&self, root: &Path, files: &[InstructionFile]) -> Result<(), TrustError> {
        let (path, root_name) = self.instructions_of(root)?.ok_or(TrustError::NoPlace)?;
        let unwritable = |error: io::Error| {
            let reason = without_number(&error.to_string());
            TrustError::Unwritable { path: path.clone(), reason }
        };
        files::create_private_folders(files::folder_of(&path)).map_err(unwritable)?;
        let _lock = files::lock_folder(files::folder_of(&path)).map_err(unwritable)?;
        let mut seen = self.seen_instructions(root)?.unwrap_or_default();
        seen.add(files);
        let file = SeenInstructionsFile { version: VERSION, root: root_name, files: seen.0 };
        let json = serde_json::to_string_pretty(&file).expect("texts under string keys") + "\n";
        files::replace(&path, json.as_bytes()).and_then(|()| prune(files::folder_of(&path))).map_err(unwritable)
    }

    /// Deletes the record of the seen instruction files of a project.
    pub(super) fn forget_instructions(&self, root: &Path) -> Result<(), TrustError> {
        let Some((path, _)) = self.instructions_of(root)? else { return Ok(()) };
        let forget = || {
            let _lock = files::lock_folder(files::folder_of(&path))?;
            fs::remove_file(&path)
        };
        match forget() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let reason = without_number(&error.to_string());
                Err(TrustError::Unwritable { path, reason })
            }
            _ => Ok(()),
        }
    }

    /// Returns the path of a project's record and the project's name; `None` if the store has no path.
    fn instructions_of(&self, root: &Path) -> Result<Option<(PathBuf, String)>, TrustError> {
        let Some(path) = self.path() else { return Ok(None) };
        let name = store::key(root)?;
        let file = format!("{}.json", Sha256Digest::of(&name).hex());
        Ok(Some((files::folder_of(path).join("instructions").join(file), name)))
    }
}

/// Removes the files that were written longest ago, down to the maximum.
fn prune(folder: &Path) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        files.push((entry.metadata()?.modified()?, entry.path()));
    }
    files.sort();
    let beyond = files.len().saturating_sub(limits::TRUST_PROJECTS);
    files.into_iter().take(beyond).try_for_each(|(_, path)| fs::remove_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        home: tempfile::TempDir,
    }

    impl World {
        fn store(&self) -> TrustStore {
            TrustStore::new(Some(self.home.path().join("state/trust.json")))
        }

        fn root(&self, name: &str) -> PathBuf {
            let root = self.home.path().join(name);
            fs::create_dir_all(&root).unwrap();
            root
        }
    }

    #[test]
    fn seen_files_are_kept_by_project_with_their_texts() {
        let world = World { home: tempfile::tempdir().unwrap() };
        let (store, one, two) = (world.store(), world.root("one"), world.root("two"));
        let [first, second] = ["a", "b"].map(|text| InstructionFile::new("AGENTS.md", text));
        assert_eq!(store.seen_instructions(&one).unwrap(), None);
        assert!(!world.home.path().join("state").exists(), "to look makes nothing");
        store.keep_instructions(&one, std::slice::from_ref(&first)).unwrap();
        store.keep_instructions(&two, &[]).unwrap();
        assert_eq!(
            store.seen_instructions(&two).unwrap(),
            Some(SeenInstructions::default()),
            "seen that there are none"
        );
        let seen = store.seen_instructions(&one).unwrap().unwrap();
        assert!(seen.has(&first) && !seen.has(&second) && seen.text_of("AGENTS.md") == Some("a"));
        store.keep_instructions(&one, std::slice::from_ref(&second)).unwrap();
        let seen = store.seen_instructions(&one).unwrap().unwrap();
        assert!(seen.has(&first) && seen.has(&second) && seen.text_of("AGENTS.md") == Some("b"));
        assert!(!seen.has(&InstructionFile::new("CLAUDE.md", "a")) && seen.text_of("CLAUDE.md").is_none());
        store.forget(&one).unwrap();
        assert_eq!(store.seen_instructions(&one).unwrap(), None);
        let nowhere = TrustStore::new(None);
        assert_eq!(nowhere.seen_instructions(&one).unwrap(), None);
        assert!(matches!(nowhere.keep_instructions(&one, &[first]), Err(TrustError::NoPlace)));
    }

    #[test]
    fn stored_instructions_are_bounded() {
        let world = World { home: tempfile::tempdir().unwrap() };
        let (store, root) = (world.store(), world.root("one"));
        let half = "x".repeat(limits::INSTRUCTIONS_SEEN_BYTES / 2);
        let files = ["a", "b", "c"].map(|path| InstructionFile::new(path, &*half));
        store.keep_instructions(&root, &files).unwrap();
        let seen = store.seen_instructions(&root).unwrap().unwrap();
        assert!(files.iter().all(|file| seen.has(file)), "each is known all the same");
        assert_eq!(["a", "b", "c"].map(|path| seen.text_of(path).is_some()), [false, true, true]);
        let many: Vec<_> = (0..limits::INSTRUCTIONS_SEEN).map(|n| InstructionFile::new(format!("{n}"), "")).collect();
        store.keep_instructions(&root, &many).unwrap();
        let seen = store.seen_instructions(&root).unwrap().unwrap();
        assert!(!seen.has(&files[2]) && many.iter().all(|file| seen.has(file)));
        // Makes as many records as are kept, and one more.
        let folder = world.home.path().join("state/instructions");
        let old = SystemTime::UNIX_EPOCH;
        for n in 0..limits::TRUST_PROJECTS {
            fs::File::create(folder.join(format!("{n}.json"))).unwrap().set_modified(old).unwrap();
        }
        store.keep_instructions(&root, &[]).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), limits::TRUST_PROJECTS);
        assert!(store.seen_instructions(&root).unwrap().is_some(), "the newest stays");
    }

    #[test]
    fn damaged_record_of_seen_files_is_told() {
        let world = World { home: tempfile::tempdir().unwrap() };
        let (store, root) = (world.store(), world.root("one"));
        store.keep_instructions(&root, &[]).unwrap();
        let path = fs::read_dir(world.home.path().join("state/instructions")).unwrap().next().unwrap().unwrap().path();
        for text in ["", "{}", "{\"version\": 2, \"root\": \"\", \"files\": []}", "[1]"] {
            fs::write(&path, text).unwrap();
            assert!(matches!(store.seen_instructions(&root), Err(TrustError::Damaged { .. })), "{text}");
        }
        fs::write(&path, vec![b' '; limits::INSTRUCTIONS_FILE_BYTES as usize + 1]).unwrap();
        assert!(matches!(store.seen_instructions(&root), Err(TrustError::Unreadable { .. })));
    }
}
