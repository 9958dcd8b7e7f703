//! The sources of the SDKs, of which a new project gets a copy: they are in no registry.

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

/// The folder of a Python project that holds the copy of the SDK: `import` finds it beside `app.py`.
pub const PYTHON_SDK_FOLDER: &str = "shelly_plugin";

macro_rules! python_file {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../sdk/python/shelly_plugin/", $path)))
    };
}

/// The modules of the SDK for Python, by their path below `sdk/python/shelly_plugin`.
const PYTHON_FILES: &[(&str, &str)] = &[
    python_file!("__init__.py"),
    python_file!("_adapters.py"),
    python_file!("_bindings.py"),
    python_file!("_lift.py"),
    python_file!("_lower.py"),
    python_file!("attachments.py"),
    python_file!("chat.py"),
    python_file!("clock.py"),
    python_file!("config.py"),
    python_file!("coordinator.py"),
    python_file!("docstring.py"),
    python_file!("effect.py"),
    python_file!("errors.py"),
    python_file!("exports.py"),
    python_file!("http.py"),
    python_file!("kv.py"),
    python_file!("log.py"),
    python_file!("model_middleware.py"),
    python_file!("outgoing.py"),
    python_file!("process.py"),
    python_file!("progress.py"),
    python_file!("provider.py"),
    python_file!("py.typed"),
    python_file!("random.py"),
    python_file!("run_middleware.py"),
    python_file!("schema.py"),
    python_file!("sink.py"),
    python_file!("state.py"),
    python_file!("streamed.py"),
    python_file!("testing.py"),
    python_file!("tool_middleware.py"),
    python_file!("tools.py"),
    python_file!("types.py"),
];

/// Returns the files of the SDK for Python with its README, by their path below [`PYTHON_SDK_FOLDER`].
pub fn python_sdk_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let readme = ("README.md", include_str!("../../../sdk/python/README.md"));
    PYTHON_FILES.iter().copied().chain([readme])
}

/// The folder of a project in JavaScript or TypeScript that holds the copy of the SDK: componentize-js reads files beside the
/// plugin.
pub const JAVASCRIPT_SDK_FOLDER: &str = "src/shelly-plugin";

macro_rules! javascript_file {
    ($path:literal) => {
        ($path, include_str!(concat!("../../../sdk/typescript/src/", $path)))
    };
}

/// The modules of the SDK for JavaScript and TypeScript, by their path below `sdk/typescript/src`.
const JAVASCRIPT_FILES: &[(&str, &str)] = &[
    javascript_file!("bytes.js"),
    javascript_file!("config.d.ts"),
    javascript_file!("config.js"),
    javascript_file!("errors.d.ts"),
    javascript_file!("errors.js"),
    javascript_file!("hooks.js"),
    javascript_file!("http.d.ts"),
    javascript_file!("http.js"),
    javascript_file!("index.d.ts"),
    javascript_file!("index.js"),
    javascript_file!("kinds.d.ts"),
    javascript_file!("kinds.js"),
    javascript_file!("kv.d.ts"),
    javascript_file!("kv.js"),
    javascript_file!("log.d.ts"),
    javascript_file!("log.js"),
    javascript_file!("register.js"),
    javascript_file!("schema.d.ts"),
    javascript_file!("schema.js"),
    javascript_file!("streamed.d.ts"),
    javascript_file!("streamed.js"),
    javascript_file!("testing.d.ts"),
    javascript_file!("testing.js"),
    javascript_file!("tool.d.ts"),
    javascript_file!("tool.js"),
];

/// Returns the files of the SDK for JavaScript and TypeScript with its README, by their path below [`JAVASCRIPT_SDK_FOLDER`].
pub fn javascript_sdk_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let readme = ("README.md", include_str!("../../../sdk/typescript/README.md"));
    JAVASCRIPT_FILES.iter().copied().chain([readme])
}

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
    fn copies_of_other_sdks_have_each_of_their_modules() {
        let python: BTreeSet<_> = python_sdk_files().map(|(path, _)| path.to_owned()).collect();
        let javascript: BTreeSet<_> = javascript_sdk_files().map(|(path, _)| path.to_owned()).collect();
        for (folder, copied) in [("sdk/python/shelly_plugin", python), ("sdk/typescript/src", javascript)] {
            // Python writes `__pycache__` beside the modules that it has loaded.
            let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
            let names = entries.filter(|path| path.is_file()).map(|path| path.file_name().unwrap().to_owned());
            let mut found: BTreeSet<_> = names.map(|name| name.to_string_lossy().into_owned()).collect();
            assert!(found.insert("README.md".to_owned()), "{folder}: the README is beside the folder of the modules");
            assert_eq!(copied, found, "{folder}");
        }
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
        assert_eq!(version(&text("sdk/python/pyproject.toml"), "version"), version(&workspace, "version"));
        let package: serde_json::Value = serde_json::from_str(&text("sdk/typescript/package.json")).unwrap();
        assert_eq!(package["version"], version(&workspace, "version"));
    }
}
