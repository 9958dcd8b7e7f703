//! New projects: the files of a template with a project's names in them, and how they are written.

use std::path::{Path, PathBuf};

use shelly_core::files;

use crate::{
    author_error::AuthorError,
    contract::{CONTRACT_FOLDER, NEWEST, WIT_FOLDER, plugin_world},
    javascript_engine::JavaScriptEngine,
    language::PluginLanguage,
    project_kind::ProjectKind,
    project_name::ProjectName,
    project_wit::ProjectWit,
    sdk_sources::{
        C_SDK_FOLDER, GO_SDK_FOLDER, JAVASCRIPT_SDK_FOLDER, PYTHON_SDK_FOLDER, SDK_FOLDER, c_sdk_files, go_sdk_files,
        javascript_sdk_files, python_sdk_files, sdk_files,
    },
    templates,
    typescript_types::{TYPES_FILE, typescript_types},
};

/// A project that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProject {
    name: ProjectName,
    kind: ProjectKind,
    language: PluginLanguage,
    engine: JavaScriptEngine,
}

impl NewProject {
    /// Describes a project.
    pub fn new(name: ProjectName, kind: ProjectKind, language: PluginLanguage) -> Self {
        Self { name, kind, language, engine: JavaScriptEngine::default() }
    }

    /// Sets the engine of a project in JavaScript or TypeScript.
    ///
    /// # Errors
    ///
    /// [`AuthorError::EngineOfOtherLanguage`] for other languages, [`AuthorError::NotOfferedByEngine`] if the engine does not run
    /// plugins of this kind.
    pub fn with_engine(self, engine: JavaScriptEngine) -> Result<Self, AuthorError> {
        let (language, kind) = (self.language, self.kind);
        if !language.has_engine() {
            return Err(AuthorError::EngineOfOtherLanguage { engine, language });
        }
        match engine.kinds().contains(&kind) {
            true => Ok(Self { engine, ..self }),
            false => Err(AuthorError::NotOfferedByEngine { engine, kind }),
        }
    }

    /// Returns the files, by their path below the project's folder, with `/` between folders.
    ///
    /// # Errors
    ///
    /// [`AuthorError::Wit`] if the contract of this program cannot be read, which a test excludes.
    pub fn files(&self) -> Result<Vec<(String, String)>, AuthorError> {
        let mut files: Vec<(String, String)> = templates::sources(self.language, self.kind)
            .into_iter()
            .map(|(path, text)| (path.to_owned(), self.filled(text)))
            .collect();
        let readme = [templates::README_HEAD, templates::usage(self.kind), templates::README_TAIL].concat();
        let mut manifest = self.filled(templates::manifest(self.kind));
        if self.engine != JavaScriptEngine::default() {
            manifest.push_str(&format!("\n[build]\nengine = \"{}\"\n", self.engine.name()));
        }
        files.push(("plugin.toml".into(), manifest));
        files.push(("README.md".into(), self.filled(&readme)));
        files.push((format!("cases/{}.yaml", self.name), self.filled(templates::cases(self.kind))));
        files.extend(templates::trial(self.kind).map(|text| ("trial.yaml".into(), text.to_owned())));
        let (is_rust, is_plain) = (self.language == PluginLanguage::Rust, self.kind == ProjectKind::Plain);
        let wit = if is_plain {
            vec![(format!("{}.wit", self.name), templates::PLAIN_WIT.to_owned())]
        } else if is_rust {
            // The SDK has the contract.
            Vec::new()
        } else {
            let files = NEWEST.files.iter().map(|(name, text)| (format!("{CONTRACT_FOLDER}/{name}"), (*text).into()));
            [("plugin.wit".to_owned(), plugin_world(self.kind))].into_iter().chain(files).collect()
        };
        if self.language == PluginLanguage::TypeScript {
            let parsed = ProjectWit::of_texts(&wit, None)?;
            files.push((TYPES_FILE.into(), typescript_types(&parsed)));
        }
        files.extend(wit.into_iter().map(|(path, text)| (format!("{WIT_FOLDER}/{path}"), text)));
        match self.language {
            PluginLanguage::Rust if !is_plain => {
                files.extend(sdk_files().map(|(path, text)| (format!("{SDK_FOLDER}/{path}"), text.to_owned())));
            }
            PluginLanguage::Python if !is_plain => {
                let sdk = python_sdk_files();
                files.extend(sdk.map(|(path, text)| (format!("{PYTHON_SDK_FOLDER}/{path}"), text.to_owned())));
            }
            PluginLanguage::JavaScript | PluginLanguage::TypeScript if !is_plain => {
                let sdk = javascript_sdk_files();
                files.extend(sdk.map(|(path, text)| (format!("{JAVASCRIPT_SDK_FOLDER}/{path}"), text.to_owned())));
            }
            PluginLanguage::Go if !is_plain => {
                files.extend(go_sdk_files().map(|(path, text)| (format!("{GO_SDK_FOLDER}/{path}"), text.to_owned())));
            }
            PluginLanguage::C if !is_plain => {
                files.extend(c_sdk_files().map(|(path, text)| (format!("{C_SDK_FOLDER}/{path}"), text.to_owned())));
            }
            _ => {}
        }
        Ok(files)
    }

    /// Writes the project into a folder, which may be there. No file that is there is replaced: then nothing is written.
    /// Returns the paths of the files, in the order in which they were written.
    ///
    /// # Errors
    ///
    /// [`AuthorError::InTheWay`] with the files that are there; [`AuthorError::File`] if one cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, AuthorError> {
        let files = self.files()?;
        let paths: Vec<_> = files.iter().map(|(path, _)| folder.join(path)).collect();
        let in_the_way: Vec<_> = paths.iter().filter(|path| path.symlink_metadata().is_ok()).cloned().collect();
        if !in_the_way.is_empty() {
            return Err(AuthorError::InTheWay { paths: in_the_way });
        }
        for (path, (_, text)) in paths.iter().zip(&files) {
            create(path, text)?;
        }
        Ok(paths)
    }

    /// Puts the project's names in the places of the marks.
    fn filled(&self, text: &str) -> String {
        let is_quickjs = self.engine == JavaScriptEngine::QuickJs;
        let wasi = if self.language.imports_wasi() && !is_quickjs { templates::WASI_WANT } else { "" };
        let engine = if is_quickjs { "import \"./shelly-plugin/quickjs.js\";\n" } else { "" };
        let componentizer = format!("\"{}\": \"@{{{}}}\"", self.engine.package(), self.engine.componentizer());
        let console = match self.engine {
            JavaScriptEngine::SpiderMonkey => "What it writes to the console is in the plugin's log.",
            JavaScriptEngine::QuickJs => "QuickJS runs it: there is no console, no clock, and no integer beyond 2^53.",
        };
        let dependencies = match self.kind {
            ProjectKind::Plain => templates::RUST_PLAIN_DEPENDENCIES,
            _ => templates::RUST_DEPENDENCIES,
        };
        let about = self.about();
        let identifier = self.name.identifier();
        let extension = if self.language == PluginLanguage::TypeScript { "ts" } else { "js" };
        // The parts that contain marks come first.
        let marks = [
            ("@{test}\n", templates::test_part(self.language, self.kind)),
            ("@{change}", self.change()),
            ("@{install}", self.install()),
            ("@{console}", console),
            ("@{engine}\n", engine),
            ("@{componentizer}", &componentizer),
            ("@{wasi}\n", wasi),
            ("@{dependencies}\n", dependencies),
            ("@{about}", &about),
            ("@{language}", self.language.title()),
            ("@{ext}", extension),
            ("@{id}", self.name.as_str()),
            ("@{tool}", &identifier),
        ];
        let text = marks.iter().fold(text.to_owned(), |text, (mark, part)| text.replace(mark, part));
        templates::VERSIONS.iter().fold(text, |text, (name, version)| text.replace(&format!("@{{{name}}}"), version))
    }

    /// Returns the description in the manifest.
    fn about(&self) -> String {
        let lines = templates::manifest(self.kind).lines();
        let description = lines.filter_map(|line| line.strip_prefix("description = \"")?.strip_suffix('"')).next();
        description.unwrap_or_default().to_owned()
    }

    /// Returns the command that installs the toolchain into the project, for the block of commands in the README.
    fn install(&self) -> &'static str {
        match self.language {
            PluginLanguage::Python => {
                "python3 -m venv .venv && .venv/bin/pip install componentize-py==@{componentize-py}     # once\n"
            }
            PluginLanguage::TypeScript | PluginLanguage::JavaScript => "npm install     # once\n",
            _ => "",
        }
    }

    /// Returns the part of the README that says where an author begins.
    fn change(&self) -> &'static str {
        match (self.language, self.kind) {
            (PluginLanguage::Rust, ProjectKind::Plain) => {
                "`src/lib.rs` is the plugin, and `wit/@{id}.wit` the functions that it exports."
            }
            (PluginLanguage::Rust, _) => {
                "`src/lib.rs` is the plugin. It uses the SDK in `vendor/shelly-plugin`, whose README says what a plugin can do."
            }
            (PluginLanguage::Go, ProjectKind::Plain) => {
                "`plugin.go` is the plugin, and `wit/@{id}.wit` the functions that it exports. `memory.go` takes arguments and \
                 returns results."
            }
            (PluginLanguage::Go, _) => {
                "`plugin.go` is the plugin. It uses the SDK in `shelly-plugin`, whose README says what a plugin can do. \
                 `wit/plugin.wit` says what it imports of the host. What it prints is in the plugin's log."
            }
            (PluginLanguage::C, ProjectKind::Plain) => {
                "`plugin.c` is the plugin, and `wit/@{id}.wit` the functions that it exports."
            }
            (PluginLanguage::C, _) => {
                "`plugin.c` is the plugin. It uses the SDK in `shelly`, whose README says what a plugin can do. \
                 `wit/plugin.wit` says what it imports of the host. All files beside `plugin.c` and in `shelly` that end in \
                 `.c` are compiled. What it prints is in the plugin's log."
            }
            (PluginLanguage::Python, ProjectKind::Plain) => {
                "`app.py` is the plugin, and `wit/@{id}.wit` the functions that it exports. What it prints is in the plugin's log."
            }
            (PluginLanguage::Python, _) => {
                "`app.py` is the plugin. It uses the SDK in `shelly_plugin`, whose README says what a plugin can do. \
                 `wit/plugin.wit` says what it imports of the host. What it prints is in the plugin's log."
            }
            (_, ProjectKind::Plain) => {
                "`src/plugin.@{ext}` is the plugin, and `wit/@{id}.wit` the functions that it exports. @{console}"
            }
            (_, _) => {
                "`src/plugin.@{ext}` is the plugin. It uses the SDK in `src/shelly-plugin`, whose README says what a plugin can \
                 do. `wit/plugin.wit` says what it imports of the host, and the files in `wit/deps/shelly-plugin` what there is. \
                 @{console}"
            }
        }
    }
}

/// Creates a file that must not exist, with the missing folders above it.
fn create(path: &Path, text: &str) -> Result<(), AuthorError> {
    let missing: Vec<_> = path
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.symlink_metadata().is_err() && !folder.as_os_str().is_empty())
        .collect();
    for folder in missing.into_iter().rev() {
        files::create_folder(folder).map_err(AuthorError::file("create", folder))?;
    }
    match files::create(path, text.as_bytes()).map_err(AuthorError::file("write", path))? {
        true => Ok(()),
        false => Err(AuthorError::InTheWay { paths: vec![path.into()] }),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::testing::files_below;

    fn project(name: &str, kind: ProjectKind, language: PluginLanguage) -> NewProject {
        NewProject::new(ProjectName::new(name).unwrap(), kind, language)
    }

    fn all() -> impl Iterator<Item = NewProject> {
        let pairs = PluginLanguage::ALL
            .into_iter()
            .flat_map(|language| ProjectKind::ALL.into_iter().map(move |kind| (language, kind)));
        pairs.map(|(language, kind)| project("my-plugin", kind, language)).chain(of_quickjs())
    }

    fn of_quickjs() -> Vec<NewProject> {
        let quickjs = JavaScriptEngine::QuickJs;
        let of = |kind, language| project("my-plugin", kind, language).with_engine(quickjs).unwrap();
        let languages = [PluginLanguage::JavaScript, PluginLanguage::TypeScript];
        quickjs.kinds().into_iter().flat_map(|kind| languages.map(|language| of(kind, language))).collect()
    }

    #[test]
    fn each_pair_expands_without_leftover_marks() {
        for project in all() {
            for (path, text) in project.files().unwrap() {
                let shown = format!("{} {}: {path}", project.language, project.kind);
                let folders = [SDK_FOLDER, PYTHON_SDK_FOLDER, JAVASCRIPT_SDK_FOLDER, GO_SDK_FOLDER, C_SDK_FOLDER];
                let is_of_sdk = folders.iter().any(|folder| path.starts_with(&format!("{folder}/")));
                assert!(is_of_sdk || !text.contains("@{"), "{shown}\n{text}");
                assert!(!text.is_empty() && text.ends_with('\n'), "{shown}");
                let is_ours = !path.ends_with(".wit") && !is_of_sdk && path != TYPES_FILE && path != "package.json";
                for line in text.lines().filter(|_| is_ours && !path.ends_with("README.md")) {
                    assert!(line.chars().count() <= 125, "{shown}: {line}");
                    assert_eq!(line, line.trim_end(), "{shown}");
                }
            }
        }
    }

    #[test]
    fn manifest_wants_wasi_where_the_runtime_imports_it() {
        for project in all() {
            let files = project.files().unwrap();
            let (_, manifest) = files.iter().find(|(path, _)| path == "plugin.toml").unwrap();
            assert_eq!(
                manifest.contains("wasi = \"powerless\""),
                project.language != PluginLanguage::Rust && project.engine != JavaScriptEngine::QuickJs,
                "{manifest}"
            );
            let kind = if project.kind == ProjectKind::Plain { "functions" } else { project.kind.name() };
            assert!(manifest.contains(&format!("kinds = [\"{kind}\"]")), "{manifest}");
            assert!(manifest.contains("id = \"my-plugin\"\n") && manifest.contains("component = \"my-plugin.wasm\"\n"));
        }
    }

    #[test]
    fn readme_of_each_project_has_its_sections() {
        for project in all() {
            let files = project.files().unwrap();
            let (_, readme) = files.iter().find(|(path, _)| path == "README.md").unwrap();
            let sections: Vec<_> = readme.lines().filter(|line| line.starts_with("## ")).collect();
            let wanted = ["## Build", "## Run the cases", "## Test", "## Try it", "## Use it", "## Change it"];
            assert_eq!(sections, wanted, "{readme}");
            assert!(!readme.contains("\n\n\n"), "{readme}");
        }
    }

    #[test]
    fn project_for_quickjs_names_it_everywhere() {
        for project in of_quickjs() {
            let files = project.files().unwrap();
            let text = |name: &str| &files.iter().find(|(path, _)| path == name).unwrap().1;
            assert!(text("plugin.toml").ends_with("\n[build]\nengine = \"quickjs\"\n"));
            assert!(text("package.json").contains("\"componentize-qjs\": \"0."));
            assert!(!text("package.json").contains("componentize-js"));
            assert!(text("README.md").contains("there is no console, no clock"));
            let source = if project.language == PluginLanguage::JavaScript { "src/plugin.js" } else { "src/plugin.ts" };
            let imports_engine = text(source).contains("\nimport \"./shelly-plugin/quickjs.js\";\nimport {");
            assert_eq!(imports_engine, project.kind == ProjectKind::Tool, "only the SDK needs to know");
        }
        let quickjs = JavaScriptEngine::QuickJs;
        let effect = project("a", ProjectKind::Effect, PluginLanguage::JavaScript).with_engine(quickjs);
        let hint = effect.unwrap_err().report().with_hint();
        assert!(hint.contains("no template of kind `effect` for QuickJS") && hint.contains("tool, plain"), "{hint}");
        let python = project("a", ProjectKind::Tool, PluginLanguage::Python).with_engine(quickjs);
        assert!(matches!(python, Err(AuthorError::EngineOfOtherLanguage { .. })));
    }

    #[test]
    fn project_in_go_and_c_uses_its_sdk_unless_plain() {
        for (language, source, names) in [
            (PluginLanguage::Go, "plugin.go", "\"shelly-plugin/"),
            (PluginLanguage::C, "plugin.c", "#include \"shelly/shelly.h\""),
        ] {
            for kind in ProjectKind::ALL {
                let files = project("my-plugin", kind, language).files().unwrap();
                let text = |wanted: &str| files.iter().find(|(path, _)| path == wanted).map(|(_, text)| text.as_str());
                let has_sdk = kind != ProjectKind::Plain;
                assert_eq!(text(source).unwrap().contains(names), has_sdk, "{language} {kind}");
                let (folder, library) = match language {
                    PluginLanguage::Go => (GO_SDK_FOLDER, "go.mod"),
                    _ => (C_SDK_FOLDER, "shelly.h"),
                };
                assert_eq!(text(&format!("{folder}/{library}")).is_some(), has_sdk, "{language} {kind}");
                // The sources of a plugin are short, since the SDK has the rest.
                assert!(text(source).unwrap().lines().count() <= 50, "{language} {kind}");
            }
        }
        let module = project("my-plugin", ProjectKind::Tool, PluginLanguage::Go).files().unwrap();
        let (_, module) = module.iter().find(|(path, _)| path == "go.mod").unwrap();
        assert!(module.contains(&format!("replace shelly-plugin => ./{GO_SDK_FOLDER}\n")), "{module}");
    }

    #[test]
    fn new_project_never_replaces_a_file() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().join("a/b");
        let project = project("dice", ProjectKind::Tool, PluginLanguage::Python);
        let written = project.write(&folder).unwrap();
        let found: BTreeSet<_> = files_below(&folder).into_iter().map(|(path, _)| folder.join(path)).collect();
        assert_eq!(written.into_iter().collect::<BTreeSet<_>>(), found);
        fs::write(folder.join("app.py"), "mine").unwrap();
        fs::remove_file(folder.join("test_app.py")).unwrap();
        let error = project.write(&folder).unwrap_err();
        let AuthorError::InTheWay { paths } = &error else { panic!("{error}") };
        assert!(paths.contains(&folder.join("app.py")) && !paths.contains(&folder.join("test_app.py")), "{paths:?}");
        assert_eq!(fs::read_to_string(folder.join("app.py")).unwrap(), "mine");
        assert!(!folder.join("test_app.py").exists(), "nothing is written then");
    }
}
