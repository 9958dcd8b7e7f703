//! Traversal of folders in the order of names.

use shelly_plugin::{
    Error,
    fs::{Entry, File, Folder, Kind},
};

use crate::{
    globs::Names,
    rules::{self, Rules},
};

/// The maximum depth of nested folders. Each is held open, and an instance may hold 256 handles.
const DEPTH: usize = 100;

/// The maximum number of names of a folder: the host lists no larger one.
const NAMES: usize = 20_000;

/// The maximum number of entries of a whole traversal: a bound on time.
const ENTRIES: usize = 1_000_000;

/// The number of bytes of a file that are read at once: as many as the host returns at once.
pub(crate) const CHUNK: u64 = 64 << 10;

/// A folder to traverse: of the host, or of a test.
pub(crate) trait Source: Sized {
    type File: Bytes;
    fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), Error>;
    fn folder(&self, name: &str) -> Result<Self, Error>;
    fn file(&self, name: &str) -> Result<Self::File, Error>;
    /// Opens a file by its whole path.
    fn at(path: &str) -> Result<Self::File, Error>;
}

/// The bytes of a file.
pub(crate) trait Bytes {
    /// Reads at most [`CHUNK`] bytes from `offset`; none at the end.
    fn read(&mut self, offset: u64) -> Result<Vec<u8>, Error>;
}

impl Source for Folder {
    type File = File;
    fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), Error> {
        Folder::entries(self, most)
    }
    fn folder(&self, name: &str) -> Result<Folder, Error> {
        Folder::folder(self, name)
    }
    fn file(&self, name: &str) -> Result<File, Error> {
        Folder::file(self, name)
    }
    fn at(path: &str) -> Result<File, Error> {
        File::open(path)
    }
}

impl Bytes for File {
    fn read(&mut self, offset: u64) -> Result<Vec<u8>, Error> {
        self.read_at(offset, CHUNK)
    }
}

/// The decision to continue or stop a traversal.
#[derive(PartialEq, Eq)]
pub(crate) enum Next {
    Further,
    Stop,
}

/// The folders that were skipped although they may contain matching files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// The number of folders that could not be listed, or not completely.
    pub(crate) folders: usize,
    /// The number of folders that are nested too deep.
    pub(crate) deep: usize,
    /// Set if there were too many entries to reach the end.
    pub(crate) is_endless: bool,
}

/// A traversal of folders, or a single file.
pub(crate) struct Walk<S> {
    /// The folders to start with, and their paths.
    starts: Vec<(S, String)>,
    file: Option<String>,
    /// The rules of the folders above the first.
    above: Vec<Rules>,
}

/// A folder that is being traversed.
struct Level<S> {
    folder: S,
    /// The folder's path, with a slash at its end; empty at the top.
    base: String,
    left: std::vec::IntoIter<Entry>,
    has_rules: bool,
}

impl<S: Source> Walk<S> {
    /// Creates a traversal of these folders and everything below them. `read` reads a small file, for the rules of the
    /// folders above.
    pub(crate) fn new(starts: Vec<(S, String)>, read: impl Fn(&str) -> Option<Vec<u8>>) -> Walk<S> {
        let above = match &*starts {
            [(_, path)] if path != "." => above(path).filter_map(|base| {
                Rules::new(&base, rules::NAMES.iter().filter_map(|name| read(&format!("{base}{name}"))))
            }),
            _ => return Walk { starts, file: None, above: Vec::new() },
        };
        let above = above.collect();
        Walk { starts, file: None, above }
    }

    /// Creates a traversal of a single file, whatever the rules say about it.
    pub(crate) fn file(path: &str) -> Walk<S> {
        Walk { starts: Vec::new(), file: Some(path.to_owned()), above: Vec::new() }
    }

    /// Calls `visit` with the path of each selected file and a function to open it.
    pub(crate) fn run(
        self,
        names: &Names,
        mut visit: impl FnMut(&str, &dyn Fn() -> Result<S::File, Error>) -> Next,
    ) -> Skipped {
        let mut skipped = Skipped::default();
        if let Some(path) = self.file {
            visit(&path, &|| S::at(&path));
            return skipped;
        }
        let mut rules = self.above;
        let mut seen = 0;
        for (folder, path) in self.starts {
            let base = if path == "." { String::new() } else { format!("{}/", path.trim_end_matches('/')) };
            let start = base.len();
            let mut levels = Vec::new();
            levels.extend(Level::open(folder, base, &mut rules, &mut skipped));
            while let (depth, Some(level)) = (levels.len(), levels.last_mut()) {
                let Some(entry) = level.left.next() else {
                    if level.has_rules {
                        rules.pop();
                    }
                    levels.pop();
                    continue;
                };
                seen += 1;
                if seen > ENTRIES {
                    skipped.is_endless = true;
                    return skipped;
                }
                let is_folder = entry.kind == Kind::Folder;
                if is_passed_over(&entry, names) {
                    continue;
                }
                let path = format!("{}{}", level.base, entry.name);
                if !is_folder && !names.mean(&path[start..]) || rules::leave_out(rules.iter(), &path, is_folder) {
                    continue;
                }
                if !is_folder {
                    if visit(&path, &|| level.folder.file(&entry.name)) == Next::Stop {
                        return skipped;
                    }
                } else if depth == DEPTH {
                    skipped.deep += 1;
                } else {
                    match level.folder.folder(&entry.name) {
                        Ok(folder) => levels.extend(Level::open(folder, path + "/", &mut rules, &mut skipped)),
                        Err(_) => skipped.folders += 1,
                    }
                }
            }
        }
        skipped
    }
}

impl<S: Source> Level<S> {
    /// Lists a folder, and adds its rules to those of the folders above.
    fn open(folder: S, base: String, rules: &mut Vec<Rules>, skipped: &mut Skipped) -> Option<Level<S>> {
        let (entries, more) = folder.entries(NAMES).unwrap_or_else(|_| (Vec::new(), true));
        skipped.folders += usize::from(more);
        let own = rules::NAMES
            .iter()
            .filter(|name| entries.iter().any(|entry| entry.kind == Kind::File && entry.name == **name));
        let own = Rules::new(&base, own.filter_map(|name| small(&mut folder.file(name).ok()?)));
        let has_rules = own.is_some();
        rules.extend(own);
        Some(Level { folder, base, left: entries.into_iter(), has_rules })
    }
}

/// Returns `true` if an entry is neither read nor entered. Links are not followed: their targets are found at their own
/// place.
fn is_passed_over(entry: &Entry, names: &Names) -> bool {
    !matches!(entry.kind, Kind::File | Kind::Folder)
        || entry.name == ".git"
        || entry.name.starts_with('.') && !names.wants_hidden
}

/// Returns the folders above a path, from the top, each with a slash at the end.
fn above(path: &str) -> impl Iterator<Item = String> {
    let mut bases: Vec<String> = path.match_indices('/').map(|(at, _)| path[..=at].to_owned()).collect();
    if !path.starts_with('/') {
        bases.insert(0, String::new());
    }
    bases.into_iter()
}

/// Reads a small file as a whole.
fn small(file: &mut impl Bytes) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let chunk = file.read(bytes.len() as u64).ok()?;
        if chunk.is_empty() {
            return Some(bytes);
        }
        bytes.extend(chunk);
        if bytes.len() as u64 > rules::BYTES {
            return None;
        }
    }
}
