//! Finds the config of a command: the one that the command line names, or one in a usual place.

use std::path::{Path, PathBuf};

use super::render::{name, tell};
use crate::{config::Config, error::Report};

/// Reads the config that is named, or that is found in a usual place; otherwise returns an empty one.
pub fn read_config(named: Option<&PathBuf>) -> Result<Config, Report> {
    config_path(named.cloned()).map_or_else(|| Ok(Config::default()), |path| Config::read(&path))
}

/// The name of a config beside its project's files; one in the folder `.shelly` has priority.
pub const BESIDE: &str = "shelly.yaml";

/// Returns the path of the config that is named, or that is found in a usual place.
pub fn config_path(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        // The user did not name the config, and it may lie in another person's project, so its path is shown.
        let found = usual(Path::new("")).inspect(|path| tell(&format!("config {}\n", path.display())));
        if found.is_none()
            && let Some(link) = USUAL.into_iter().map(Path::new).find(|path| path.is_file())
        {
            tell(&format!(
                "the config {link} is a link out of this folder and was not used: --config {link}\n",
                link = link.display()
            ));
        } else if found.is_none()
            && let Some(above) = above()
        {
            let above = name(&above.display().to_string());
            tell(&format!("the config {above} is not of this folder and was not used: --config {above}\n"));
        }
        found
    })
}

/// The usual paths of a config, relative to its folder.
const USUAL: [&str; 2] = [".shelly/config.yaml", BESIDE];

/// Returns the config of a folder. A link that leads out of the folder is skipped: another person may have made it, and it
/// may point at any file that this user can read.
pub fn usual(folder: &Path) -> Option<PathBuf> {
    let is_inside = |path: &PathBuf| {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (real, folder) = (path.canonicalize(), folder.canonicalize());
        path.is_file() && real.is_ok_and(|real| folder.is_ok_and(|folder| real.starts_with(folder)))
    };
    USUAL.map(|path| folder.join(path)).into_iter().find(is_inside)
}

/// Returns the config of the nearest ancestor of the current directory that has one.
pub fn above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let around = here.ancestors().skip(1).scan(PathBuf::new(), |path, _| {
        path.push("..");
        Some(path.clone())
    });
    around.into_iter().find_map(|folder| usual(&folder))
}
