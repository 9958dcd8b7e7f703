//! The search for programs. Only the host resolves programs: a model or a plugin supplies a name.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A search path for programs; programs may also be named by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramFinder {
    folders: Vec<PathBuf>,
}

/// The reason for which a program was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ProgramFindError {
    /// The text is not a program name.
    #[error("invalid program name `{}`; write only the name, and each argument separately", name.escape_debug())]
    NoName { name: String },
    /// The search path has no program of this name.
    #[error("there is no program `{}` in PATH", name.escape_debug())]
    NotInPath { name: String },
    /// The path has no executable file.
    #[error("{} does not exist or is not an executable file", path.display())]
    NoProgram { path: PathBuf },
}

impl ProgramFinder {
    /// Creates a finder for the folders of a `PATH`. Relative folders are skipped: they depend on the current directory,
    /// which may be another person's.
    pub fn new(path: &str) -> Self {
        Self { folders: std::env::split_paths(path).filter(|folder| folder.is_absolute()).collect() }
    }

    /// Returns the file of a program. A path is used as it is, relative to `base`; a name is looked up in the search path,
    /// first match first.
    ///
    /// # Errors
    ///
    /// [`ProgramFindError`].
    pub fn find(&self, name: &str, base: &Path) -> Result<PathBuf, ProgramFindError> {
        if name.trim().is_empty() || name.contains('\0') || matches!(name, "." | "..") {
            return Err(ProgramFindError::NoName { name: name.into() });
        }
        if name.contains(std::path::is_separator) {
            let path = base.join(name);
            return if is_program(&path) { Ok(path) } else { Err(ProgramFindError::NoProgram { path }) };
        }
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        let mut all = self.folders.iter().flat_map(|folder| [folder.join(name), folder.join(&file)]);
        all.find(|path| is_program(path)).ok_or_else(|| ProgramFindError::NotInPath { name: name.into() })
    }
}

fn is_program(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may_run = std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may_run = true;
    about.is_file() && may_run
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn program_finder_uses_absolute_path_folders() {
        let world = tempfile::tempdir().unwrap();
        let file = |name: &str, mode: u32| {
            let path = world.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let (first, second) = (file("one/tool", 0o755), file("two/tool", 0o755));
        let (plain, own) = (file("one/plain", 0o644), file("project/run.sh", 0o755));
        let only_two = file("two/plain", 0o755);
        fs::create_dir_all(world.path().join("one/folder")).unwrap();
        let (one, two, base) = (world.path().join("one"), world.path().join("two"), world.path().join("project"));
        let finder = ProgramFinder::new(&format!("project:.::{}:{}", one.display(), two.display()));
        assert_eq!(finder.find("tool", &base), Ok(first), "the first");
        assert_eq!(finder.find("plain", &base), Ok(only_two), "{} may not be run", plain.display());
        for relative in ["./run.sh", "../project/run.sh"] {
            assert_eq!(finder.find(relative, &base), Ok(base.join(relative)));
        }
        assert_eq!(finder.find(&own.to_string_lossy(), &two), Ok(own));
        assert_eq!(finder.find(&second.to_string_lossy(), &base), Ok(second));
        for name in ["folder", "run.sh", "none"] {
            assert_eq!(finder.find(name, &base), Err(ProgramFindError::NotInPath { name: name.into() }));
        }
        for name in ["", " ", ".", "..", "a\0b"] {
            assert_eq!(finder.find(name, &base), Err(ProgramFindError::NoName { name: name.into() }));
        }
        let none = finder.find("./none", &base).unwrap_err();
        assert!(none.to_string().ends_with("project/./none does not exist or is not an executable file"));
    }
}
