//! Plugin folders: the files that the host loads, separate from cargo's output.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::discover::Guest;
use crate::error::BuildError;

/// Puts a guest's manifest and component into its plugin folder and removes components of earlier names. Returns the path
/// of the component.
pub(crate) fn plugin_folder(guest: &Guest, artifact: &Path, plugin: &Path) -> Result<PathBuf, BuildError> {
    fs::create_dir_all(plugin).map_err(BuildError::file("create", plugin))?;
    let component = plugin.join(guest.component());
    copy_if_changed(&guest.folder.join("plugin.toml"), &plugin.join("plugin.toml"))?;
    copy_if_changed(artifact, &component)?;
    for path in entries(plugin)? {
        if is_component(&path) && path != component {
            fs::remove_file(&path).map_err(BuildError::file("remove", &path))?;
        }
    }
    Ok(component)
}

/// Removes the plugin folders of guests that do not exist any more. A folder that contains anything but a manifest and
/// components does not belong to the builder and stays.
pub(crate) fn remove_others(output: &Path, guests: &[Guest]) -> Result<(), BuildError> {
    if !output.is_dir() {
        return Ok(());
    }
    for path in entries(output)? {
        let wanted = guests.iter().any(|guest| path.file_name().is_some_and(|name| name == guest.id.as_str()));
        let is_ours = |path: &PathBuf| path.is_file() && (path.ends_with("plugin.toml") || is_component(path));
        if !wanted && path.is_dir() && entries(&path)?.iter().all(is_ours) {
            fs::remove_dir_all(&path).map_err(BuildError::file("remove", &path))?;
        }
    }
    Ok(())
}

fn is_component(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let list = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>();
    list().map_err(BuildError::file("read", folder))
}

/// Copies a file so that a reader sees either the old or the new content, never a part of it. An unchanged file keeps its
/// modification time.
fn copy_if_changed(from: &Path, to: &Path) -> Result<(), BuildError> {
    let content = fs::read(from).map_err(BuildError::file("read", from))?;
    if fs::read(to).is_ok_and(|old| old == content) {
        return Ok(());
    }
    // Two builders that run at once each write their own temporary file.
    let new = to.with_extension(format!("new-{}", process::id()));
    fs::write(&new, content).map_err(BuildError::file("write", &new))?;
    fs::rename(&new, to).map_err(BuildError::file("write", to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use std::time::SystemTime;

    fn guest(dir: &TempDir, id: &str) -> Guest {
        dir.write(format!("plugins/{id}/plugin.toml"), &format!("id = \"{id}\"\n"));
        Guest { id: id.to_owned(), folder: dir.path().join("plugins").join(id) }
    }

    /// Returns the names of the files below a folder, in order.
    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = entries(folder).expect("entries").iter().map(|path| name(path)).collect();
        names.sort();
        names
    }

    fn name(path: &Path) -> String {
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    #[test]
    fn plugin_folder_holds_only_the_built_component() {
        let dir = TempDir::new();
        let guest = guest(&dir, "read-files");
        let artifact = dir.write("built.wasm", "one");
        let plugin = dir.path().join("out/read-files");
        dir.write("out/read-files/old_name.wasm", "old");
        let component = plugin_folder(&guest, &artifact, &plugin).expect("a plugin folder");
        assert_eq!(component, plugin.join("read_files.wasm"));
        assert_eq!(names(&plugin), ["plugin.toml", "read_files.wasm"]);
        assert_eq!(fs::read_to_string(&component).expect("component"), "one");
        assert_eq!(fs::read_to_string(plugin.join("plugin.toml")).expect("manifest"), "id = \"read-files\"\n");
    }

    #[test]
    fn plugin_folder_copies_only_changed_files() {
        let dir = TempDir::new();
        let guest = guest(&dir, "a");
        let plugin = dir.path().join("out/a");
        let artifact = dir.write("built.wasm", "one");
        let component = plugin_folder(&guest, &artifact, &plugin).expect("a plugin folder");
        let long_ago = SystemTime::UNIX_EPOCH;
        let set = |path: &Path| fs::File::options().write(true).open(path).and_then(|file| file.set_modified(long_ago));
        let time = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).expect("a time");
        set(&component).expect("a file");
        set(&plugin.join("plugin.toml")).expect("a file");

        plugin_folder(&guest, &artifact, &plugin).expect("a plugin folder");
        assert_eq!(time(&component), long_ago, "written though it had not changed");

        dir.write("built.wasm", "two");
        plugin_folder(&guest, &artifact, &plugin).expect("a plugin folder");
        assert_eq!(fs::read_to_string(&component).expect("component"), "two");
        assert_eq!(time(&plugin.join("plugin.toml")), long_ago, "written though it had not changed");
    }

    #[test]
    fn assemble_removes_only_folders_of_deleted_guests() {
        let dir = TempDir::new();
        let stays = guest(&dir, "stays");
        for file in
            ["stays/plugin.toml", "gone/plugin.toml", "gone/gone.wasm", "foreign/plugin.toml", "foreign/src/lib.rs"]
        {
            dir.write(format!("out/{file}"), "");
        }
        dir.write("out/README.md", "");
        remove_others(&dir.path().join("out"), &[stays]).expect("removal");
        assert_eq!(names(&dir.path().join("out")), ["README.md", "foreign", "stays"]);
        remove_others(&dir.path().join("not-there"), &[]).expect("nothing to remove");
    }
}
