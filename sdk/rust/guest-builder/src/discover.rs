//! Discovery of the guests in a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BuildError;

/// A crate that becomes a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// The name of the guest's folder, of its package and of the plugin.
    pub id: String,
    /// The absolute path of the guest's folder.
    pub folder: PathBuf,
}

impl Guest {
    /// Returns the file name of the guest's component.
    pub(crate) fn component(&self) -> String {
        format!("{}.wasm", self.id.replace('-', "_"))
    }
}

/// Returns every direct subfolder with a `Cargo.toml` and a `plugin.toml`, sorted by name.
pub(crate) fn discover(folder: &Path) -> Result<Vec<Guest>, BuildError> {
    let mut guests = Vec::new();
    let read = BuildError::file("read the guests in", folder);
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(read)?;
    for entry in entries {
        let folder = entry.path();
        if folder.join("Cargo.toml").is_file() && folder.join("plugin.toml").is_file() {
            guests.push(guest(folder)?);
        }
    }
    guests.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(guests)
}

fn guest(folder: PathBuf) -> Result<Guest, BuildError> {
    let refuse = |folder: &Path, cause: String, hint: &str| {
        Err(BuildError::Guest { folder: folder.to_owned(), cause, hint: hint.to_owned() })
    };
    let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !is_id(&id) {
        let cause = format!("the folder name `{id}` cannot name a plugin, a package and a Rust function");
        return refuse(&folder, cause, "use lower-case letters, digits and single dashes, a letter first");
    }
    let manifest = folder.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(BuildError::file("read", &manifest))?;
    match value(&text, "[package]", "name").and_then(|value| value.strip_prefix('"')?.split('"').next()) {
        Some(name) if name == id => {}
        Some(name) => {
            let cause = format!("the package has the name `{name}`, but its folder has the name `{id}`");
            let hint = "give both the same name, so that one name finds the crate, the plugin and its test";
            return refuse(&folder, cause, hint);
        }
        None => {
            return refuse(
                &folder,
                "its Cargo.toml names no package".to_owned(),
                "write `name = \"…\"` under [package]",
            );
        }
    }
    // If another crate type is present, cargo silently omits link-time optimization, and the component is half as big
    // again.
    let kind = value(&text, "[lib]", "crate-type").unwrap_or_default();
    if !kind.starts_with("[\"cdylib\"]") {
        let cause =
            "the only crate type that gives a component, with link-time optimization, is `cdylib` alone".to_owned();
        return refuse(
            &folder,
            cause,
            "write `crate-type = [\"cdylib\"]` under [lib] in its Cargo.toml; unit tests need no other",
        );
    }
    Ok(Guest { id, folder })
}

fn is_id(id: &str) -> bool {
    let word = |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    id.starts_with(|first: char| first.is_ascii_lowercase()) && id.split('-').all(word)
}

/// Returns the value of a key in a table of a manifest. Supports only the usual notation: on one line, with a bare key.
fn value<'a>(manifest: &'a str, table: &str, key: &str) -> Option<&'a str> {
    let lines = manifest.lines().map(str::trim).skip_while(|line| !line.starts_with(table)).skip(1);
    let mut pairs = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once('='));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    fn add(dir: &TempDir, name: &str, manifest: &str) {
        dir.write(format!("{name}/Cargo.toml"), manifest);
        dir.write(format!("{name}/plugin.toml"), "");
    }

    #[test]
    fn discover_lists_folders_with_both_manifests_in_order() {
        let dir = TempDir::new();
        add(
            &dir,
            "read-files",
            "[package]\nname = \"read-files\" # here\n[lib]\ncrate-type = [\"cdylib\"] # and here\n",
        );
        add(&dir, "count2", "[lib]\ncrate-type=[\"cdylib\"]\n\n[package]\ndescription = \"name\"\n  name=\"count2\"\n");
        dir.write("only-crate/Cargo.toml", "[package]\nname = \"only-crate\"\n");
        dir.write("only-plugin/plugin.toml", "");
        dir.write("README.md", "");
        let guests = discover(dir.path()).expect("guests");
        let ids: Vec<_> = guests.iter().map(|guest| guest.id.as_str()).collect();
        assert_eq!(ids, ["count2", "read-files"]);
        assert_eq!(guests[1].folder, dir.path().join("read-files"));
        assert_eq!(guests[1].component(), "read_files.wasm");
    }

    #[test]
    fn discover_refuses_a_package_of_another_name_or_crate_type() {
        for (manifest, cause) in [
            ("[package]\nname = \"b\"\n", "the package has the name `b`, but its folder has the name `a`"),
            ("[package]\nversion = \"1\"\n[lib]\nname = \"a\"\n", "names no package"),
            ("[package]\nname = \"a\"\n", "is `cdylib` alone"),
            ("[package]\nname = \"a\"\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]\n", "is `cdylib` alone"),
        ] {
            let dir = TempDir::new();
            add(&dir, "a", manifest);
            let error = discover(dir.path()).expect_err("a malformed guest").to_string();
            assert!(error.contains(cause), "{error}");
            assert!(error.contains("hint:"), "{error}");
        }
    }

    #[test]
    fn discover_refuses_invalid_plugin_names() {
        for name in ["Upper", "under_score", "1st", "two--dashes", "dash-"] {
            let dir = TempDir::new();
            add(&dir, name, &format!("[package]\nname = \"{name}\"\n"));
            let error = discover(dir.path()).expect_err(name).to_string();
            assert!(error.contains("cannot name a plugin"), "{error}");
        }
    }

    #[test]
    fn discover_error_names_the_missing_folder() {
        let dir = TempDir::new();
        let error = discover(&dir.path().join("guests")).expect_err("no such folder").to_string();
        assert!(error.contains("cannot read the guests in") && error.contains("guests\n  cause:"), "{error}");
    }
}
