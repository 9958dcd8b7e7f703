//! The files of a project at one time, compared to see if a build is worth while.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, Metadata},
    path::{Path, PathBuf},
    time::SystemTime,
};

use shelly_core::limits;

use crate::{author_error::AuthorError, plugin_project::BUILD_FOLDER};

/// Folders at the top of a project that hold what a build makes, or a copy of somebody else's sources.
const MADE_AT_TOP: [&str; 3] = [BUILD_FOLDER, "target", "vendor"];
/// Folders that hold what a toolchain makes or installs, wherever they are.
const MADE_ANYWHERE: [&str; 2] = ["node_modules", "__pycache__"];

/// The sources of a project at one time: the size and the time of each file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSnapshot {
    /// By the paths below the folder.
    files: BTreeMap<PathBuf, FileStamp>,
}

/// The size of a file, and the time of its last change if the system knows it.
type FileStamp = (u64, Option<SystemTime>);

impl SourceSnapshot {
    /// Looks at all files below a folder, except at those that a build makes and at those whose names begin with a dot. Links
    /// are not followed.
    ///
    /// # Errors
    ///
    /// [`AuthorError::File`] if the folder cannot be read, [`AuthorError::TooManyFiles`].
    pub fn of(folder: &Path) -> Result<Self, AuthorError> {
        Self::with_most(folder, limits::WATCHED_FILES)
    }

    fn with_most(folder: &Path, most: usize) -> Result<Self, AuthorError> {
        let (mut files, mut seen) = (BTreeMap::new(), 0_usize);
        // The folder itself must be there; others may go at any time.
        fs::read_dir(folder).map_err(AuthorError::file("read", folder))?;
        let mut folders = vec![PathBuf::new()];
        while let Some(below) = folders.pop() {
            for entry in fs::read_dir(folder.join(&below)).into_iter().flatten().flatten() {
                let path = below.join(entry.file_name());
                let Ok(metadata) = entry.metadata() else { continue };
                if is_left_out(&path, &metadata) {
                    continue;
                }
                seen += 1;
                if seen > most {
                    return Err(AuthorError::TooManyFiles { folder: folder.into(), most });
                }
                match metadata.is_dir() {
                    true => folders.push(path),
                    false => drop(files.insert(path, (metadata.len(), metadata.modified().ok()))),
                }
            }
        }
        Ok(Self { files })
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns `true` if there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the files that are new, gone or changed since an earlier look, by their names.
    pub fn changes_since(&self, before: &Self) -> Vec<PathBuf> {
        let changed = self.files.iter().filter(|(path, stamp)| before.files.get(*path) != Some(*stamp));
        let gone = before.files.keys().filter(|path| !self.files.contains_key(*path));
        let mut paths: Vec<_> = changed.map(|(path, _)| path).chain(gone).cloned().collect();
        paths.sort();
        paths
    }
}

/// Returns `true` for what is no source: folders of toolchains, and hidden files, such as those that editors write beside a
/// file.
fn is_left_out(path: &Path, metadata: &Metadata) -> bool {
    let name = path.file_name().map_or_else(Default::default, OsStr::to_string_lossy);
    let is_one_of = |names: &[&str]| names.iter().any(|one| *one == name);
    let is_at_top = path.components().count() == 1;
    let is_made = metadata.is_dir() && (is_one_of(&MADE_ANYWHERE) || is_at_top && is_one_of(&MADE_AT_TOP));
    is_made || name.starts_with('.') || name.ends_with('~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        folder
    }

    #[test]
    fn new_changed_and_missing_sources_are_named() {
        let folder = project(&["plugin.toml", "src/lib.rs", "src/build/mod.rs", "old.rs"]);
        let before = SourceSnapshot::of(folder.path()).unwrap();
        assert_eq!(before.len(), 4);
        assert!(SourceSnapshot::of(folder.path()).unwrap().changes_since(&before).is_empty());
        fs::write(folder.path().join("src/build/mod.rs"), "// changed").unwrap();
        fs::write(folder.path().join("new.rs"), "").unwrap();
        fs::remove_file(folder.path().join("old.rs")).unwrap();
        let after = SourceSnapshot::of(folder.path()).unwrap();
        assert_eq!(after.changes_since(&before), ["new.rs", "old.rs", "src/build/mod.rs"].map(PathBuf::from));
    }

    #[test]
    fn what_a_build_makes_is_not_watched() {
        let folder = project(&[
            "app.py",
            "build/dice/dice.wasm",
            "target/debug/dice.d",
            "vendor/shelly-plugin/src/lib.rs",
            "web/node_modules/a/index.js",
            "lib/__pycache__/a.pyc",
            ".venv/bin/python",
            ".app.py.swp",
            "app.py~",
        ]);
        assert_eq!(
            SourceSnapshot::of(folder.path()).unwrap().files.into_keys().collect::<Vec<_>>(),
            [PathBuf::from("app.py")]
        );
    }

    #[test]
    fn folder_with_more_files_than_the_limit_is_refused() {
        let folder = project(&["a", "b", "c/d"]);
        assert_eq!(SourceSnapshot::with_most(folder.path(), 4).unwrap().len(), 3, "a folder counts as well");
        let error = SourceSnapshot::with_most(folder.path(), 3).unwrap_err();
        assert!(matches!(&error, AuthorError::TooManyFiles { most: 3, .. }), "{error}");
        assert!(error.report().hint.unwrap().contains("they are not watched"));
        assert!(matches!(SourceSnapshot::of(&folder.path().join("none")), Err(AuthorError::File { .. })));
    }
}
