use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{limits, trigger::PathPattern};

/// The files that match some patterns at one time: the size of each, and the time of its last change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileSnapshot(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

/// The reason why files cannot be watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are more than {most} files and folders to look at")]
pub(super) struct TooManyWatchedFiles {
    most: usize,
}

impl FileSnapshot {
    /// Looks at the files below `root` that match. Links are not followed. Names that begin with a dot are left out, except
    /// those of folders before the first wildcard of a pattern; so are those that end with `~`, as editors write them.
    ///
    /// # Errors
    ///
    /// [`TooManyWatchedFiles`] if the folders have more than [`limits::TRIGGER_FILES`] entries.
    pub fn of(root: &Path, patterns: &[PathPattern]) -> Result<Self, TooManyWatchedFiles> {
        Self::with_most(root, patterns, limits::TRIGGER_FILES)
    }

    fn with_most(root: &Path, patterns: &[PathPattern], most: usize) -> Result<Self, TooManyWatchedFiles> {
        let mut files = BTreeMap::new();
        let mut left = most;
        let Ok(root) = root.canonicalize() else { return Ok(Self::default()) };
        for pattern in patterns {
            let base = root.join(pattern.base());
            // A folder on the way may be a link out of the project.
            if !base.canonicalize().is_ok_and(|real| real == base) {
                continue;
            }
            let mut folders = vec![(base, pattern.depth())];
            while let Some((folder, depth)) = folders.pop() {
                for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                    left = left.checked_sub(1).ok_or(TooManyWatchedFiles { most })?;
                    let Ok(about) = entry.metadata() else { continue };
                    let (path, name) = (entry.path(), entry.file_name());
                    let Ok(below) = path.strip_prefix(&root) else { continue };
                    let name = name.as_encoded_bytes();
                    if name.starts_with(b".") || name.ends_with(b"~") {
                        continue;
                    }
                    match about.is_dir() {
                        true if depth.is_none_or(|depth| depth > 1) => {
                            folders.push((path, depth.map(|depth| depth - 1)));
                        }
                        true => {}
                        false if pattern.fits(below) => {
                            files.insert(below.to_owned(), (about.len(), about.modified().ok()));
                        }
                        false => {}
                    }
                }
            }
        }
        Ok(Self(files))
    }

    /// Returns this look without the changes between two earlier ones: the files that differ in `after` are as in `before`.
    pub fn without_changes(mut self, before: &Self, after: &Self) -> Self {
        for path in before.0.keys().chain(after.0.keys()) {
            match (before.0.get(path), after.0.get(path)) {
                (old, new) if old == new => {}
                (Some(old), _) => {
                    self.0.insert(path.clone(), *old);
                }
                (None, _) => {
                    self.0.remove(path);
                }
            }
        }
        self
    }

    /// Returns the files that are new, gone or changed since an earlier look, by name.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let changed = self.0.iter().filter(|(path, about)| before.0.get(*path) != Some(*about)).map(|(path, _)| path);
        let gone = before.0.keys().filter(|path| !self.0.contains_key(*path));
        let mut names: Vec<_> = changed.chain(gone).map(|path| path.display().to_string()).collect();
        names.sort();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn look(root: &Path, patterns: &[&str]) -> FileSnapshot {
        let patterns: Vec<_> = patterns.iter().map(|pattern| PathPattern::parse(pattern).unwrap()).collect();
        FileSnapshot::of(root, &patterns).unwrap()
    }

    #[test]
    fn new_changed_and_missing_files_are_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for path in
            ["docs/a.md", "docs/deep/b.md", "docs/c.txt", "docs/.hidden.md", "docs/a.md~", "README.md", "x/README.md"]
        {
            write(root, path, "1");
        }
        let patterns = ["docs/**/*.md", "README.md"];
        let before = look(root, &patterns);
        let names = |snapshot: &FileSnapshot| snapshot.changes_since(&FileSnapshot::default());
        assert_eq!(names(&before), ["README.md", "docs/a.md", "docs/deep/b.md"]);
        write(root, "docs/deep/b.md", "22");
        write(root, "docs/new.md", "");
        write(root, "docs/c.txt", "22");
        fs::remove_file(root.join("README.md")).unwrap();
        let after = look(root, &patterns);
        assert_eq!(after.changes_since(&before), ["README.md", "docs/deep/b.md", "docs/new.md"]);
        assert_eq!(after.changes_since(&after), [""; 0]);
        write(root, ".github/workflows/ci.yml", "");
        assert_eq!(names(&look(root, &[".github/**", "none/**"])), [".github/workflows/ci.yml"]);
        assert_eq!(names(&look(root, &["**/*.yml"])), [""; 0], "it is hidden");
    }

    #[test]
    fn folders_with_too_many_files_are_not_watched() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/1", "a/2", "b/1"] {
            write(root.path(), path, "");
        }
        let look = |pattern: &str, most| {
            FileSnapshot::with_most(root.path(), &[PathPattern::parse(pattern).unwrap()], most)
                .map(|found| found.0.len())
        };
        assert_eq!((look("**", 5), look("a/*", 2), look("*", 2)), (Ok(3), Ok(2), Ok(0)));
        assert_eq!(look("**", 4), Err(TooManyWatchedFiles { most: 4 }));
    }

    #[test]
    #[cfg(unix)]
    fn links_are_not_followed() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(outside.path(), "secret", "");
        std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
        assert_eq!(look(root.path(), &["out/**", "out/*"]), FileSnapshot::default());
        // The link itself is a file.
        assert_eq!(look(root.path(), &["**"]).0.len(), 1);
    }
}
