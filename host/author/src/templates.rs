//! The templates of new projects: files of `templates/`, embedded in the program.

use crate::{language::PluginLanguage, project_kind::ProjectKind};

/// A file of a new project: its path, and its text with marks such as `@{id}`.
pub type TemplateFile = (&'static str, &'static str);

macro_rules! text {
    ($($path:tt)*) => {
        include_str!(concat!("../templates/", $($path)*))
    };
}

/// The file of a kind, with the path `$folder/KIND$file`; `$plain` for a component with a world of its own.
macro_rules! of_kind {
    ($kind:ident, $folder:literal, $file:literal, $plain:expr) => {
        match $kind {
            ProjectKind::Tool => text!(concat!($folder, "tool", $file)),
            ProjectKind::Effect => text!(concat!($folder, "effect", $file)),
            ProjectKind::RunMiddleware => text!(concat!($folder, "run-middleware", $file)),
            ProjectKind::ModelMiddleware => text!(concat!($folder, "model-middleware", $file)),
            ProjectKind::ToolMiddleware => text!(concat!($folder, "tool-middleware", $file)),
            ProjectKind::Provider => text!(concat!($folder, "provider", $file)),
            ProjectKind::Coordinator => text!(concat!($folder, "coordinator", $file)),
            ProjectKind::Plain => $plain,
        }
    };
}

/// Defines a function from a kind to one of its files.
macro_rules! for_each_kind {
    ($(#[$doc:meta])* $vis:vis $name:ident, $folder:literal, $file:literal) => {
        $(#[$doc])*
        $vis fn $name(kind: ProjectKind) -> &'static str {
            of_kind!(kind, $folder, $file, text!(concat!($folder, "plain", $file)))
        }
    };
}

/// Defines a function from a kind with an SDK to one of its files, and from a component with a world of its own to `None`.
macro_rules! for_each_kind_with_sdk {
    ($(#[$doc:meta])* $name:ident, $folder:literal, $file:literal) => {
        $(#[$doc])*
        fn $name(kind: ProjectKind) -> Option<&'static str> {
            Some(of_kind!(kind, $folder, $file, return None))
        }
    };
}

for_each_kind! {
    /// Returns `plugin.toml`. The mark `@{wasi}` in it is a line of `[wants]` or nothing.
    pub manifest, "manifest/", ".toml"
}
for_each_kind! {
    /// Returns the part of the README that says how the plugin is used.
    pub usage, "readme/", ".md"
}
for_each_kind! {
    /// Returns the test cases.
    pub cases, "cases/", ".yaml"
}
for_each_kind!(rust_source, "rust/", ".rs.in");
for_each_kind!(python_source, "python/", "/app.py");
for_each_kind_with_sdk!(python_test, "python/", "/test_app.py");
for_each_kind_with_sdk! {
    /// Returns the plugin, which is the same in JavaScript and TypeScript: its types come from the SDK.
    script_source, "javascript/", "/plugin.js"
}
for_each_kind_with_sdk! {
    /// Returns the test, which is the same in both languages: esbuild finds `plugin.ts` under the name `plugin.js`.
    script_test, "javascript/", "/plugin.test.js"
}

for_each_kind_with_sdk!(go_source, "go/", "/plugin.go");
for_each_kind_with_sdk!(go_test, "go/", "/plugin_test.go");
for_each_kind_with_sdk!(c_source, "c/", "/plugin.c");
for_each_kind_with_sdk!(c_test, "c/", "/plugin_test.c");

/// Returns the input with which a plugin of this kind is tried; `None` for tools, whose arguments stand on the command line.
pub fn trial(kind: ProjectKind) -> Option<&'static str> {
    match kind {
        ProjectKind::Tool | ProjectKind::Plain => None,
        ProjectKind::Effect => Some(text!("trial/effect.yaml")),
        ProjectKind::RunMiddleware => Some(text!("trial/run-middleware.yaml")),
        ProjectKind::ModelMiddleware => Some(text!("trial/model-middleware.yaml")),
        ProjectKind::ToolMiddleware => Some(text!("trial/tool-middleware.yaml")),
        ProjectKind::Provider => Some(text!("trial/provider.yaml")),
        ProjectKind::Coordinator => Some(text!("trial/coordinator.yaml")),
    }
}

/// The WIT of a component with a world of its own.
pub const PLAIN_WIT: &str = text!("wit/plain.wit");

/// The line of `[wants]` for languages whose runtime imports WASI.
pub const WASI_WANT: &str = text!("manifest/wasi.toml");

/// The dependencies of a Rust project with the SDK, and of one with a world of its own.
pub const RUST_DEPENDENCIES: &str = text!("rust/dependencies.toml");
pub const RUST_PLAIN_DEPENDENCIES: &str = text!("rust/dependencies-plain.toml");

/// The parts of a README around the [`usage`].
pub const README_HEAD: &str = text!("readme/head.md");
pub const README_TAIL: &str = text!("readme/tail.md");

/// The versions of the toolchains that a new project names, by their marks. They are those that the templates were tried
/// with.
pub const VERSIONS: [(&str, &str); 5] = [
    ("componentize-py", "0.25.1"),
    ("componentize-js", "0.23.0"),
    ("componentize-qjs", "0.4.5"),
    ("esbuild", "0.28.2"),
    ("typescript", "7.0.2"),
];

/// Returns the files of a project in this language that depend on its kind, without WIT, manifest and README.
pub fn sources(language: PluginLanguage, kind: ProjectKind) -> Vec<TemplateFile> {
    match language {
        PluginLanguage::Rust => vec![
            ("Cargo.toml", text!("rust/Cargo.toml.in")),
            (".gitignore", text!("rust/gitignore")),
            ("src/lib.rs", rust_source(kind)),
        ],
        PluginLanguage::Python => {
            let mut files = vec![
                ("pyproject.toml", text!("python/pyproject.toml")),
                (".gitignore", text!("python/gitignore")),
                ("app.py", python_source(kind)),
            ];
            files.extend(match python_test(kind) {
                Some(test) => vec![("test_app.py", test)],
                None => vec![
                    ("logic.py", text!("python/plain/logic.py")),
                    ("test_logic.py", text!("python/plain/test_logic.py")),
                ],
            });
            files
        }
        PluginLanguage::JavaScript => {
            let mut files = vec![(".gitignore", text!("javascript/gitignore"))];
            files.extend(match script_source(kind).zip(script_test(kind)) {
                Some((source, test)) => vec![
                    ("package.json", text!("javascript/package.json")),
                    ("src/plugin.js", source),
                    ("test/plugin.test.js", test),
                ],
                None => vec![
                    ("package.json", text!("javascript/plain/package.json")),
                    ("src/plugin.js", text!("javascript/plain/plugin.js")),
                    ("src/logic.js", text!("javascript/plain/logic.js")),
                    ("test/logic.test.js", text!("javascript/plain/logic.test.js")),
                ],
            });
            files
        }
        PluginLanguage::TypeScript => {
            let mut files = vec![
                ("tsconfig.json", text!("typescript/tsconfig.json")),
                (".gitignore", text!("typescript/gitignore")),
            ];
            files.extend(match script_source(kind).zip(script_test(kind)) {
                Some((source, test)) => vec![
                    ("package.json", text!("typescript/package.json")),
                    ("src/plugin.ts", source),
                    ("test/plugin.test.ts", test),
                ],
                None => vec![
                    ("package.json", text!("typescript/plain/package.json")),
                    ("src/plugin.ts", text!("typescript/plain/plugin.ts")),
                    ("src/logic.ts", text!("typescript/plain/logic.ts")),
                    ("test/logic.test.ts", text!("javascript/plain/logic.test.js")),
                ],
            });
            files
        }
        PluginLanguage::Go => {
            let mut files = vec![(".gitignore", text!("go/gitignore"))];
            files.extend(match go_source(kind).zip(go_test(kind)) {
                Some((source, test)) => {
                    vec![("go.mod", text!("go/go.mod.in")), ("plugin.go", source), ("plugin_test.go", test)]
                }
                None => vec![
                    ("go.mod", text!("go/plain/go.mod.in")),
                    ("plugin.go", text!("go/plain/plugin.go")),
                    ("main.go", text!("go/plain/main.go")),
                    ("memory.go", text!("go/plain/memory.go")),
                    ("logic.go", text!("go/plain/logic.go")),
                    ("logic_test.go", text!("go/plain/logic_test.go")),
                ],
            });
            files
        }
        PluginLanguage::C => {
            let mut files = vec![(".gitignore", text!("c/gitignore"))];
            files.extend(match c_source(kind).zip(c_test(kind)) {
                Some((source, test)) => vec![("plugin.c", source), ("tests/plugin_test.c", test)],
                None => vec![
                    ("plugin.c", text!("c/plain/plugin.c")),
                    ("text_counts.h", text!("c/plain/text_counts.h")),
                    ("tests/counts_test.c", text!("c/plain/counts_test.c")),
                ],
            });
            files
        }
    }
}

/// Returns the part of the README on tests.
pub fn test_part(language: PluginLanguage, kind: ProjectKind) -> &'static str {
    match language {
        PluginLanguage::Rust => text!("rust/readme.md"),
        PluginLanguage::Python if kind == ProjectKind::Plain => text!("python/readme-plain.md"),
        PluginLanguage::Python => text!("python/readme.md"),
        PluginLanguage::TypeScript | PluginLanguage::JavaScript if kind == ProjectKind::Plain => {
            text!("javascript/readme-plain.md")
        }
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => text!("javascript/readme.md"),
        PluginLanguage::Go if kind == ProjectKind::Plain => text!("go/readme-plain.md"),
        PluginLanguage::Go => text!("go/readme.md"),
        PluginLanguage::C if kind == ProjectKind::Plain => text!("c/readme-plain.md"),
        PluginLanguage::C => text!("c/readme.md"),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        path::{Path, PathBuf},
    };

    use super::*;
    use crate::testing::files_below;

    #[test]
    fn each_file_of_the_templates_is_used() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let found: BTreeSet<_> = files_below(&folder).into_iter().map(|(_, text)| text).collect();
        let mut used: BTreeSet<_> =
            [PLAIN_WIT, WASI_WANT, RUST_DEPENDENCIES, RUST_PLAIN_DEPENDENCIES, README_HEAD, README_TAIL]
                .map(str::to_owned)
                .into();
        for language in PluginLanguage::ALL {
            for kind in ProjectKind::ALL {
                let own = [manifest(kind), usage(kind), cases(kind), trial(kind).unwrap_or_default()];
                used.extend(own.map(str::to_owned));
                used.insert(test_part(language, kind).to_owned());
                used.extend(sources(language, kind).into_iter().map(|(_, text)| text.to_owned()));
            }
        }
        used.remove("");
        assert_eq!(found, used);
    }

    #[test]
    fn versions_are_those_that_the_lane_tries() {
        let lane = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/languages/authors.py");
        let lane = std::fs::read_to_string(lane).unwrap();
        for (tool, version) in VERSIONS {
            let names = [format!("\"{tool}=={version}\""), format!("{tool}@{version}\"")];
            assert!(names.iter().any(|name| lane.contains(name)), "{tool} {version}");
        }
    }

    #[test]
    fn files_of_a_project_have_a_path_each() {
        for language in PluginLanguage::ALL {
            for kind in ProjectKind::ALL {
                let files = sources(language, kind);
                let paths: BTreeSet<_> = files.iter().map(|(path, _)| PathBuf::from(path)).collect();
                assert_eq!(paths.len(), files.len(), "{language} {kind}");
            }
        }
    }
}
