//! The sources of the SDK for Rust, which a new project gets a copy of: the crate is not in a registry.

use crate::contract::CONTRACT_FILES;

/// The folder of a Rust project that holds the copy of the SDK.
pub const SDK_FOLDER: &str = "vendor/shelly-plugin";

macro_rules! sdk_file {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../sdk/rust/", $path)))
    };
}

/// The files of the SDK without its contract, by their path below `sdk/rust`.
const SDK_FILES: &[(&str, &str)] = &[
    sdk_file!("Cargo.toml"),
    sdk_file!("README.md"),
    sdk_file!("src/bindings.rs"),
    sdk_file!("src/chat.rs"),
    sdk_file!("src/coordinator.rs"),
    sdk_file!("src/effect.rs"),
    sdk_file!("src/export.rs"),
    sdk_file!("src/fs.rs"),
    sdk_file!("src/heap.rs"),
    sdk_file!("src/http/body.rs"),
    sdk_file!("src/http/events.rs"),
    sdk_file!("src/http/lines.rs"),
    sdk_file!("src/http/mod.rs"),
    sdk_file!("src/http/split.rs"),
    sdk_file!("src/http/status.rs"),
    sdk_file!("src/imports.rs"),
    sdk_file!("src/json.rs"),
    sdk_file!("src/kinds.rs"),
    sdk_file!("src/kv.rs"),
    sdk_file!("src/lib.rs"),
    sdk_file!("src/media.rs"),
    sdk_file!("src/names.rs"),
    sdk_file!("src/near.rs"),
    sdk_file!("src/shorten.rs"),
    sdk_file!("src/streamed.rs"),
    sdk_file!("src/summary.rs"),
    sdk_file!("src/summary_tests.rs"),
    sdk_file!("src/text.rs"),
    sdk_file!("src/tool.rs"),
    sdk_file!("src/types.rs"),
];

/// Returns the files of the SDK with its contract, by their path below [`SDK_FOLDER`].
pub fn sdk_files() -> impl Iterator<Item = (String, &'static str)> {
    let sources = SDK_FILES.iter().map(|(path, text)| ((*path).to_owned(), *text));
    sources.chain(CONTRACT_FILES.iter().map(|(name, text)| (format!("wit/{name}"), *text)))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn copy_of_the_sdk_has_each_of_its_files() {
        let sdk = root().join("sdk/rust");
        let (mut found, mut folders) = (BTreeSet::new(), vec![sdk.join("src"), sdk.join("wit")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(found.insert(path.strip_prefix(&sdk).unwrap().display().to_string())),
                }
            }
        }
        let copied: BTreeSet<_> = sdk_files().map(|(path, _)| path).collect();
        let sources: BTreeSet<_> = copied.iter().filter(|path| path.contains('/')).cloned().collect();
        assert_eq!(sources, found);
        assert!(
            copied.contains("Cargo.toml") && copied.contains("README.md"),
            "the crate's documentation is its README"
        );
    }

    #[test]
    fn copy_of_the_sdk_leads_out_of_no_folder() {
        let (_, manifest) = sdk_files().find(|(path, _)| path == "Cargo.toml").unwrap();
        assert!(!manifest.contains("workspace = true") && !manifest.contains("path ="), "{manifest}");
        for (path, text) in sdk_files().filter(|(path, _)| path.ends_with(".rs")) {
            // Paths of files: other texts may contain the same.
            let names_file = |line: &&str| line.contains("../") && (line.contains("include") || line.contains("path:"));
            for line in text.lines().filter(names_file) {
                assert_eq!(line, "#![doc = include_str!(\"../README.md\")]", "{path}");
            }
        }
    }

    #[test]
    fn sdk_has_the_versions_of_the_workspace() {
        let text = |path: &str| fs::read_to_string(root().join(path)).unwrap();
        let (workspace, sdk) = (text("Cargo.toml"), text("sdk/rust/Cargo.toml"));
        let version = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} = "))).unwrap();
            line.split('"').nth(1).unwrap().to_owned()
        };
        for name in ["base64", "schemars", "serde", "serde_json", "edition", "rust-version", "license"] {
            assert_eq!(version(&sdk, name), version(&workspace, name), "{name}");
        }
        assert_eq!(version(&sdk, "version"), version(&workspace, "version"));
    }
}
