//! The place of the user-wide config on each system.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use crate::config::{ConfigErrors, UserConfig};

/// The systems on which programs keep a person's settings in different folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SettingsPlatform {
    Windows,
    MacOs,
    Other,
}

impl SettingsPlatform {
    /// The system for which this program was built.
    const THIS: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::MacOs
    } else {
        Self::Other
    };
}

/// Returns the path of the user-wide config, whether or not it exists; `None` if no folder of the person is known.
pub fn user_config_path() -> Option<PathBuf> {
    path_on(SettingsPlatform::THIS, |name| std::env::var_os(name))
}

/// Reads the user-wide config; `None` if there is none.
pub fn user_config() -> Result<Option<UserConfig>, ConfigErrors> {
    user_config_path().map_or(Ok(None), |path| UserConfig::read(&path, home().as_deref()))
}

/// Returns the home folder of the person.
pub fn home() -> Option<PathBuf> {
    home_of(&|name| std::env::var_os(name))
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

fn home_of(variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    ["HOME", "USERPROFILE"].into_iter().find_map(|name| folder_in(name, variable))
}

/// Returns the folder that a variable names. A relative path would lie in the project.
fn folder_in(name: &str, variable: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

fn path_on(platform: SettingsPlatform, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let below_home = |folder: &str| home_of(&variable).map(|home| home.join(folder));
    let usual = || match platform {
        SettingsPlatform::Windows => folder_in("APPDATA", &variable).or_else(|| below_home("AppData/Roaming")),
        SettingsPlatform::MacOs => below_home("Library/Application Support"),
        SettingsPlatform::Other => below_home(".config"),
    };
    let base = folder_in("XDG_CONFIG_HOME", &variable).or_else(usual)?;
    Some(base.join(Path::new("shelly-host/config.yaml")))
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

    #[test]
    fn user_config_lies_where_the_platform_keeps_settings() {
        use SettingsPlatform::{MacOs, Other, Windows};
        for (platform, set, expected) in [
            (Other, &[("HOME", "/home/me")][..], Some("/home/me/.config/shelly-host/config.yaml")),
            (Other, &[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "/etc/me")], Some("/etc/me/shelly-host/config.yaml")),
            (Other, &[("HOME", "/home/me"), ("XDG_CONFIG_HOME", "")], Some("/home/me/.config/shelly-host/config.yaml")),
            (Other, &[("HOME", "/h"), ("XDG_CONFIG_HOME", "relative")], Some("/h/.config/shelly-host/config.yaml")),
            (Other, &[("HOME", "relative")], None),
            (Other, &[], None),
            (MacOs, &[("HOME", "/Users/me")], Some("/Users/me/Library/Application Support/shelly-host/config.yaml")),
            (MacOs, &[("HOME", "/Users/me"), ("XDG_CONFIG_HOME", "/c")], Some("/c/shelly-host/config.yaml")),
            (Windows, &[("APPDATA", "/me/Roaming")], Some("/me/Roaming/shelly-host/config.yaml")),
            (Windows, &[("USERPROFILE", "/me")], Some("/me/AppData/Roaming/shelly-host/config.yaml")),
        ] {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into());
            assert_eq!(path_on(platform, variable), expected.map(PathBuf::from), "{platform:?} {set:?}");
        }
    }
}
