//! The place of the user-wide config on each system. The caller looks up the variables: the library does not read the
//! environment itself.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

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
pub fn user_config_location(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    path_on(SettingsPlatform::THIS, variable)
}

/// Returns the home folder of the person.
pub fn home_folder(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    ["HOME", "USERPROFILE"].into_iter().find_map(|name| folder_in(name, variable))
}

/// Returns the folder that a variable names. A relative path would lie in the project.
fn folder_in(name: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

fn path_on(platform: SettingsPlatform, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let below_home = |folder: &str| home_folder(variable).map(|home| home.join(folder));
    let usual = || match platform {
        SettingsPlatform::Windows => folder_in("APPDATA", variable).or_else(|| below_home("AppData/Roaming")),
        SettingsPlatform::MacOs => below_home("Library/Application Support"),
        SettingsPlatform::Other => below_home(".config"),
    };
    let base = folder_in("XDG_CONFIG_HOME", variable).or_else(usual)?;
    Some(base.join(Path::new("shelly-host/config.yaml")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(path_on(platform, &variable), expected.map(PathBuf::from), "{platform:?} {set:?}");
        }
    }
}
