//! Goes through folders, in the order of names.

use shelly_plugin::{
    Error,
    fs::{Entry, File, Folder, Kind},
};

use crate::{
    globs::Names,
    rules::{self, Rules},
};

/// Folders within each other that are gone into: each is held open, and an instance may hold 256 handles.
const DEPTH: usize = 100;

/// Names of one folder that are looked at: the host lists no larger one.
const NAMES: usize = 20_000;

/// What is looked at in all: a bound on time.
const ENTRIES: usize = 1_000_000;

/// Bytes of a file that come at once: what the host gives at once.
pub(crate) const CHUNK: u64 = 64 << 10;

/// Something to go through: folders of the host, or those of a test.
pub(crate) trait Source: Sized {
    type File: Bytes;
    fn entries(&self, most: usize) -> Result<(Vec<Entry>, bool), Error>;
    fn folder(&self, name: &str) -> Result<Self, Error>;
    fn file(&self, name: &str) -> Result<Self::File, Error>;
    /// A file by its whole path.
    fn at(path: &str) -> Result<Self::File, Error>;
}

/// The bytes of a file.
pub(crate) trait Bytes {
    /// The next ones from `offset`, at most [`CHUNK`]; none at the end.
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

/// Whether to go on.
#[derive(PartialEq, Eq)]
pub(crate) enum Next {
    Further,
    Stop,
}

/// What was not looked at though it may have been meant.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Folders that could not be listed, or not all of them.
    pub(crate) folders: usize,
    /// Folders that lie too deep.
    pub(crate) deep: usize,
    /// Whether there was so much that the end was not reached.
    pub(crate) is_endless: bool,
}

/// What is to be gone through.
pub(crate) struct Walk<S> {
    /// Folders, with their paths.
    starts: Vec<(S, String)>,
    file: Option<String>,
    /// The rules of folders above the first.
    above: Vec<Rules>,
}

/// One folder that is being gone through.
struct Level<S> {
    folder: S,
    /// With a slash at its end; empty at the top.
    base: String,
    left: std::vec::IntoIter<Entry>,
    has_rules: bool,
}

impl<S: Source> Walk<S> {
    /// These folders with all below them. `read` reads a small file, for the rules of the folders above.
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

    /// One file, whatever rules say of it.
    pub(crate) fn file(path: &str) -> Walk<S> {
        Walk { starts: Vec::new(), file: Some(path.to_owned()), above: Vec::new() }
    }

    /// Hands on each file that is meant, by its path and a way to open it.
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

/// Whether something is neither looked at nor gone into. Links are not followed: what they lead to is found where it is.
fn is_passed_over(entry: &Entry, names: &Names) -> bool {
    !matches!(entry.kind, Kind::File | Kind::Folder)
        || entry.name == ".git"
        || entry.name.starts_with('.') && !names.wants_hidden
}

/// The folders above a path, from the top, as bases: with a slash at the end.
fn above(path: &str) -> impl Iterator<Item = String> {
    let mut bases: Vec<String> = path.match_indices('/').map(|(at, _)| path[..=at].to_owned()).collect();
    if !path.starts_with('/') {
        bases.insert(0, String::new());
    }
    bases.into_iter()
}

/// A small file as a whole.
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
