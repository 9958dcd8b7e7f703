//! The sources of the SDKs, of which a new project gets a copy: they are in no registry.

use crate::contract::NEWEST;

/// The files of a folder of `sdk/`, each as its path below that folder and its text.
macro_rules! sdk_files {
    ($folder:literal: $($path:literal,)*) => {
        &[$(($path, include_str!(concat!("../../../sdk/", $folder, $path)))),*]
    };
}

/// The folder of a Rust project that holds the copy of the SDK.
pub const SDK_FOLDER: &str = "vendor/shelly-plugin";

/// The files of the SDK without its contract, by their path below `sdk/rust`.
const SDK_FILES: &[(&str, &str)] = sdk_files! {
    "rust/":
    "Cargo.toml",
    "README.md",
    "src/bindings.rs",
    "src/chat.rs",
    "src/coordinator.rs",
    "src/effect.rs",
    "src/export.rs",
    "src/fs.rs",
    "src/heap.rs",
    "src/http/body.rs",
    "src/http/events.rs",
    "src/http/lines.rs",
    "src/http/mod.rs",
    "src/http/split.rs",
    "src/http/status.rs",
    "src/imports.rs",
    "src/json.rs",
    "src/kinds.rs",
    "src/kv.rs",
    "src/lib.rs",
    "src/media.rs",
    "src/names.rs",
    "src/near.rs",
    "src/shorten.rs",
    "src/streamed.rs",
    "src/summary.rs",
    "src/summary_tests.rs",
    "src/testing/fakes.rs",
    "src/testing/mod.rs",
    "src/text.rs",
    "src/tool.rs",
    "src/types.rs",
};

/// The folder of a Python project that holds the copy of the SDK: `import` finds it beside `app.py`.
pub const PYTHON_SDK_FOLDER: &str = "shelly_plugin";

/// The modules of the SDK for Python, by their path below `sdk/python/shelly_plugin`.
const PYTHON_FILES: &[(&str, &str)] = sdk_files! {
    "python/shelly_plugin/":
    "__init__.py",
    "_adapters.py",
    "_bindings.py",
    "_lift.py",
    "_lower.py",
    "attachments.py",
    "chat.py",
    "clock.py",
    "config.py",
    "coordinator.py",
    "docstring.py",
    "effect.py",
    "errors.py",
    "exports.py",
    "http.py",
    "kv.py",
    "log.py",
    "model_middleware.py",
    "outgoing.py",
    "process.py",
    "progress.py",
    "provider.py",
    "py.typed",
    "random.py",
    "run_middleware.py",
    "schema.py",
    "sink.py",
    "state.py",
    "streamed.py",
    "testing.py",
    "tool_middleware.py",
    "tools.py",
    "types.py",
};

/// Returns the files of the SDK for Python with its README, by their path below [`PYTHON_SDK_FOLDER`].
pub fn python_sdk_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let readme = ("README.md", include_str!("../../../sdk/python/README.md"));
    PYTHON_FILES.iter().copied().chain([readme])
}

/// The folder of a project in JavaScript or TypeScript that holds the copy of the SDK: componentize-js reads files beside the
/// plugin.
pub const JAVASCRIPT_SDK_FOLDER: &str = "src/shelly-plugin";

/// The modules of the SDK for JavaScript and TypeScript, by their path below `sdk/typescript/src`.
const JAVASCRIPT_FILES: &[(&str, &str)] = sdk_files! {
    "typescript/src/":
    "bytes.js",
    "config.d.ts",
    "config.js",
    "errors.d.ts",
    "errors.js",
    "hooks.js",
    "http.d.ts",
    "http.js",
    "index.d.ts",
    "index.js",
    "integers.js",
    "kinds.d.ts",
    "kinds.js",
    "kv.d.ts",
    "kv.js",
    "log.d.ts",
    "log.js",
    "quickjs.d.ts",
    "quickjs.js",
    "register.js",
    "schema.d.ts",
    "schema.js",
    "streamed.d.ts",
    "streamed.js",
    "testing.d.ts",
    "testing.js",
    "tool.d.ts",
    "tool.js",
};

/// Returns the files of the SDK for JavaScript and TypeScript with its README, by their path below [`JAVASCRIPT_SDK_FOLDER`].
pub fn javascript_sdk_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let readme = ("README.md", include_str!("../../../sdk/typescript/README.md"));
    JAVASCRIPT_FILES.iter().copied().chain([readme])
}

/// The folder of a Go project that holds the copy of the SDK, which is a module of its own.
pub const GO_SDK_FOLDER: &str = "shelly-plugin";

/// The files of the SDK for Go without its tests, by their path below `sdk/go`.
const GO_FILES: &[(&str, &str)] = sdk_files! {
    "go/":
    "coordinator/coordinator.go",
    "coordinator/export.go",
    "coordinator/layout.go",
    "effect/effect.go",
    "effect/export.go",
    "effect/layout.go",
    "errors.go",
    "files/files.go",
    "go.mod",
    "host/host.go",
    "http/http.go",
    "http/status.go",
    "internal/abi/memory.go",
    "internal/abi/memory_native.go",
    "internal/abi/memory_wasm.go",
    "internal/abi/types.go",
    "internal/calls/component.go",
    "internal/calls/native.go",
    "internal/calls/types.go",
    "internal/contract/types.go",
    "internal/exports/exports.go",
    "kv/kv.go",
    "modelmiddleware/export.go",
    "modelmiddleware/layout.go",
    "modelmiddleware/modelmiddleware.go",
    "provider/export.go",
    "provider/layout.go",
    "provider/provider.go",
    "provider/streamed.go",
    "runmiddleware/export.go",
    "runmiddleware/layout.go",
    "runmiddleware/runmiddleware.go",
    "schema/check.go",
    "schema/schema.go",
    "shelly.go",
    "shellytest/adapter.go",
    "shellytest/host.go",
    "shellytest/http.go",
    "shellytest/stores.go",
    "tool/export.go",
    "tool/tool.go",
    "toolmiddleware/export.go",
    "toolmiddleware/layout.go",
    "toolmiddleware/toolmiddleware.go",
};

/// Returns the files of the SDK for Go with its README, by their path below [`GO_SDK_FOLDER`].
pub fn go_sdk_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let readme = ("README.md", include_str!("../../../sdk/go/README.md"));
    GO_FILES.iter().copied().chain([readme])
}

/// The folder of a C project that holds the copy of the SDK. A build compiles its sources with those of the plugin.
pub const C_SDK_FOLDER: &str = "shelly";

/// The files of the SDK for C without its tests, by their path below `sdk/c`.
const C_FILES: &[(&str, &str)] = sdk_files! {
    "c/":
    "host.c",
    "imports.h",
    "kinds.c",
    "kinds.h",
    "shelly.h",
    "testing.h",
    "tools.c",
    "values.c",
};

/// Returns the files of the SDK for C with its README, by their path below [`C_SDK_FOLDER`].
pub fn c_sdk_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let readme = ("README.md", include_str!("../../../sdk/c/README.md"));
    C_FILES.iter().copied().chain([readme])
}

/// Returns the files of the SDK with its contract, by their path below [`SDK_FOLDER`].
pub fn sdk_files() -> impl Iterator<Item = (String, &'static str)> {
    let sources = SDK_FILES.iter().map(|(path, text)| ((*path).to_owned(), *text));
    sources.chain(NEWEST.files.into_iter().map(|(name, text)| (format!("wit/{name}"), text)))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::testing::files_below;

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
    fn copies_of_go_and_c_have_each_file_but_tests() {
        for (folder, copied) in [("sdk/go", go_sdk_files().collect::<Vec<_>>()), ("sdk/c", c_sdk_files().collect())] {
            let copied: BTreeSet<_> = copied.into_iter().map(|(path, _)| PathBuf::from(path)).collect();
            let found = files_below(&root().join(folder)).into_iter().map(|(path, _)| path);
            // Those of the tests, and what the tests of the README compile.
            let is_of_tests = |path: &PathBuf| {
                let names = ["tests", "abitest", "readme"];
                path.iter().any(|part| names.iter().any(|name| part == *name))
                    || path.to_string_lossy().ends_with("_test.go")
            };
            let found: BTreeSet<_> = found.filter(|path| !is_of_tests(path)).collect();
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
                    // The older versions of the contract.
                    true if folder.ends_with("wit") => {}
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
