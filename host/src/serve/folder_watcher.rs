//! Watches folders by polling the metadata of their files.

use std::{
    collections::BTreeSet,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use crate::{app::App, limits, project::ProjectLayout};

/// The folders of an app's plugins and skills, with the fingerprint of their last state.
pub(super) struct FolderWatcher {
    /// `around`: folders whose subfolders are examined; `single`: folders that are examined themselves.
    around: BTreeSet<PathBuf>,
    single: BTreeSet<PathBuf>,
    seen: u64,
}

impl FolderWatcher {
    pub fn of(app: &App) -> Self {
        let mut this = Self { around: BTreeSet::new(), single: BTreeSet::new(), seen: 0 };
        this.look_at(app);
        this
    }

    /// Adds the folders of this app, and takes their present state as seen. A folder that was watched before stays:
    /// plugins that were removed from it may come back.
    pub fn look_at(&mut self, app: &App) {
        let layout = ProjectLayout::new(&app.config.root);
        let skills = [layout.skills(), layout.shared_skills()].into_iter().chain(app.config.user.skills.clone());
        self.around.extend(app.plugin_dirs.iter().cloned().chain(skills));
        self.single =
            app.catalog.iter().filter_map(|(_, plugin)| plugin.location().folder()).map(Path::to_owned).collect();
        self.seen = look(&self.around, &self.single);
    }

    /// Waits until the fingerprint differs from the last one and stays the same for one poll, so that files are copied
    /// completely.
    pub async fn changed(&mut self) {
        let mut before = self.seen;
        loop {
            tokio::time::sleep(limits::MCP_SERVE_LOOK).await;
            let (around, single) = (self.around.clone(), self.single.clone());
            let Ok(now) = tokio::task::spawn_blocking(move || look(&around, &single)).await else { continue };
            if now != self.seen && now == before {
                self.seen = now;
                return;
            }
            before = now;
        }
    }
}

/// Returns the fingerprint of all watched folders.
fn look(around: &BTreeSet<PathBuf>, single: &BTreeSet<PathBuf>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for folder in around {
        for below in entries(folder) {
            look_into(&below, &mut hasher);
        }
    }
    single.iter().for_each(|folder| look_into(folder, &mut hasher));
    hasher.finish()
}

/// Hashes the names, sizes and times of the files in a folder.
fn look_into(folder: &Path, hasher: &mut DefaultHasher) {
    folder.hash(hasher);
    for file in entries(folder) {
        let about = fs::metadata(&file).ok();
        let about =
            about.map(|about| (about.is_dir(), if about.is_dir() { 0 } else { about.len() }, about.modified().ok()));
        (file, about).hash(hasher);
    }
}

/// Returns the entries of a folder, sorted; none if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(limits::PLUGINS_PER_DIRECTORY);
    let mut entries: Vec<_> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_watcher_sees_changed_files() {
        let folder = tempfile::tempdir().unwrap();
        let (around, single) = (folder.path().join("plugins"), folder.path().join("one"));
        let now = || look(&[around.clone()].into(), &[single.clone()].into());
        let mut seen = vec![now()];
        let mut changed = |what: &str| {
            let now = now();
            assert!(!seen.contains(&now), "{what}");
            assert_eq!(now, look(&[around.clone()].into(), &[single.clone()].into()), "{what}");
            seen.push(now);
        };
        fs::create_dir_all(around.join("a")).unwrap();
        changed("a folder");
        fs::write(around.join("a/plugin.toml"), "id").unwrap();
        changed("a file");
        fs::write(around.join("a/plugin.toml"), "id = 1").unwrap();
        changed("a longer file");
        let file = fs::File::options().write(true).open(around.join("a/plugin.toml")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        changed("another time");
        fs::create_dir_all(&single).unwrap();
        fs::write(single.join("c.wasm"), "x").unwrap();
        changed("another folder");
        fs::rename(around.join("a"), around.join("b")).unwrap();
        changed("another name");
        fs::remove_dir_all(around.join("b")).unwrap();
        changed("nothing left");
    }
}
