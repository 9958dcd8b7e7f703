//! The user-wide config of the person who runs this process.

use std::path::{Path, PathBuf};

use crate::config::{ConfigErrors, UserConfig, home_folder, user_config_location};

/// Returns the path of the user-wide config, whether or not it exists; `None` if no folder of the person is known.
pub fn user_config_path() -> Option<PathBuf> {
    user_config_location(&|name| std::env::var_os(name))
}

/// Reads the user-wide config; `None` if there is none.
pub fn user_config() -> Result<Option<UserConfig>, ConfigErrors> {
    user_config_path().map_or(Ok(None), |path| UserConfig::read(&path, home().as_deref()))
}

/// Returns the home folder of the person.
pub fn home() -> Option<PathBuf> {
    home_folder(&|name| std::env::var_os(name))
}

/// Returns `true` if a folder is the person's home folder or contains it: an agent that works there can read everything that the
/// person has.
pub fn contains_home(folder: &Path) -> bool {
    holds_home(folder, home().as_deref())
}

fn holds_home(folder: &Path, home: Option<&Path>) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = real(folder);
    folder.parent().is_none() || home.is_some_and(|home| real(home).starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_contains_home_if_it_is_home_or_above() {
        let outer = tempfile::tempdir().unwrap();
        let home = outer.path().join("me");
        std::fs::create_dir_all(home.join("project")).unwrap();
        for (folder, expected) in
            [("me", true), (".", true), ("me/../me", true), ("me/project", false), ("none", false)]
        {
            assert_eq!(holds_home(&outer.path().join(folder), Some(&home)), expected, "{folder}");
        }
        assert!(holds_home(Path::new("/"), None) && !holds_home(outer.path(), None));
    }
}
