//! A plugin's project: its folder, its language, and what it is built for.

use std::{
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

use shelly_core::files::resolved;

use crate::{
    author_error::AuthorError, contract::WIT_FOLDER, javascript_engine::JavaScriptEngine, language::PluginLanguage,
    project_wit::ProjectWit,
};

/// The folder of a project that its plugin is built into.
pub(crate) const BUILD_FOLDER: &str = "build";

/// The facts of `plugin.toml` that a build needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectSettings {
    /// The id of the plugin.
    pub id: String,
    /// The file name of the component.
    pub component: String,
    /// `language` under `[build]`.
    pub language: Option<String>,
    /// `engine` under `[build]`.
    pub engine: Option<String>,
    /// `world` under `[build]`.
    pub world: Option<String>,
    /// `source` under `[build]`.
    pub source: Option<String>,
    /// `true` if the plugin wants HTTP.
    pub wants_http: bool,
}

/// A plugin's project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginProject {
    /// The folder, without links.
    pub folder: PathBuf,
    /// The language.
    pub language: PluginLanguage,
    /// The engine, for JavaScript and TypeScript.
    pub(crate) engine: JavaScriptEngine,
    /// The facts of its manifest.
    pub settings: ProjectSettings,
    /// The folder that is built into.
    pub(crate) build_folder: PathBuf,
}

impl PluginProject {
    /// Recognises the language of a project by its manifest, or else by its files.
    ///
    /// # Errors
    ///
    /// [`AuthorError`] if none or several languages fit, or the source lies outside of the project.
    pub fn recognise(folder: &Path, settings: ProjectSettings) -> Result<Self, AuthorError> {
        let folder = resolved(folder);
        let language = match &settings.language {
            Some(name) => name.parse().map_err(|message| AuthorError::Language { message })?,
            None => language_of(&folder)?,
        };
        let engine = match &settings.engine {
            Some(name) => name.parse().map_err(|message| AuthorError::Engine { message })?,
            None => JavaScriptEngine::default(),
        };
        if settings.engine.is_some() && !language.has_engine() {
            return Err(AuthorError::EngineOfOtherLanguage { engine, language });
        }
        if let Some(source) = &settings.source {
            let is_below =
                Path::new(source).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            let wrong = |why| AuthorError::Source { source_name: source.clone(), why };
            if source.is_empty() || !is_below {
                return Err(wrong("leads out of the project"));
            }
            if source.starts_with('-') {
                return Err(wrong("begins with -, which programs take for an option"));
            }
        }
        let build_folder = folder.join(BUILD_FOLDER);
        Ok(Self { folder, language, engine, settings, build_folder })
    }

    /// Returns the project with another folder to build into, in which everything is made anew.
    pub(crate) fn built_into(self, build_folder: PathBuf) -> Self {
        Self { build_folder, ..self }
    }

    /// Returns the folder for what a compiler keeps between builds, if it is not the compiler's own choice.
    pub(crate) fn compiler_folder(&self) -> Option<PathBuf> {
        (self.build_folder != self.folder.join(BUILD_FOLDER)).then(|| self.build_folder.join("target"))
    }

    /// Returns the source that the manifest names, or one of these if it is there, relative to the folder.
    ///
    /// # Errors
    ///
    /// [`AuthorError::NoSource`] with the first of them if none is there.
    pub(crate) fn source(&self, defaults: &[&str]) -> Result<PathBuf, AuthorError> {
        let named = self.settings.source.as_deref();
        let candidates = named.map_or(defaults.to_vec(), |named| vec![named]);
        let found = candidates.iter().find(|path| self.folder.join(path).exists());
        found.map(PathBuf::from).ok_or_else(|| AuthorError::NoSource {
            path: self.folder.join(candidates.first().copied().unwrap_or_default()),
        })
    }

    /// Returns the folder that the plugin is written to.
    pub fn output(&self) -> PathBuf {
        self.build_folder.join(&self.settings.id)
    }

    /// Returns the folder of intermediate files. Nothing in it is a plugin of the directory `build`.
    pub fn work(&self) -> PathBuf {
        self.build_folder.join(".work")
    }

    /// Returns the folder of the project's WIT.
    pub(crate) fn wit_folder(&self) -> PathBuf {
        self.folder.join(WIT_FOLDER)
    }

    /// Reads the project's WIT.
    ///
    /// # Errors
    ///
    /// [`AuthorError::NoWit`] if it has none; otherwise as [`ProjectWit::read`].
    pub(crate) fn wit(&self) -> Result<ProjectWit, AuthorError> {
        let folder = self.wit_folder();
        match folder.is_dir() {
            true => ProjectWit::read(&folder, self.settings.world.as_deref()),
            false => Err(AuthorError::NoWit { path: folder }),
        }
    }
}

/// Recognises the language of a folder by its files.
fn language_of(folder: &Path) -> Result<PluginLanguage, AuthorError> {
    let has = |name: &str| folder.join(name).is_file();
    let has_c = || -> bool {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).any(|path| path.extension() == Some(OsStr::new("c")))
    };
    let fits = |language: &PluginLanguage| match language {
        PluginLanguage::Rust => has("Cargo.toml"),
        PluginLanguage::Python => has("pyproject.toml") || has("app.py"),
        PluginLanguage::TypeScript => has("package.json") && has("tsconfig.json"),
        PluginLanguage::JavaScript => has("package.json") && !has("tsconfig.json"),
        PluginLanguage::Go => has("go.mod"),
        // C beside another language is a part of it.
        PluginLanguage::C => false,
    };
    let languages: Vec<_> = PluginLanguage::ALL.into_iter().filter(fits).collect();
    match languages.as_slice() {
        [language] => Ok(*language),
        [] if has_c() => Ok(PluginLanguage::C),
        [] => Err(AuthorError::NoLanguage { folder: folder.into() }),
        _ => Err(AuthorError::SeveralLanguages { folder: folder.into(), languages }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(files: &[&str], language: Option<&str>) -> Result<PluginLanguage, AuthorError> {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let settings = ProjectSettings { language: language.map(str::to_owned), ..ProjectSettings::default() };
        PluginProject::recognise(folder.path(), settings).map(|project| project.language)
    }

    #[test]
    fn language_is_recognised_by_files() {
        for (files, language) in [
            (&["Cargo.toml"][..], PluginLanguage::Rust),
            (&["pyproject.toml"], PluginLanguage::Python),
            (&["app.py", "helper.c"], PluginLanguage::Python),
            (&["package.json"], PluginLanguage::JavaScript),
            (&["package.json", "tsconfig.json"], PluginLanguage::TypeScript),
            (&["go.mod", "go.sum"], PluginLanguage::Go),
            (&["words.c"], PluginLanguage::C),
        ] {
            assert_eq!(recognised(files, None).unwrap(), language, "{files:?}");
            assert_eq!(recognised(files, Some("go")).unwrap(), PluginLanguage::Go, "the manifest decides");
        }
    }

    #[test]
    fn unclear_language_is_asked_for() {
        let report = |files: &[&str], language| recognised(files, language).unwrap_err().report();
        let none = report(&["README.md"], None);
        assert!(none.message.ends_with("does not tell the language of the plugin"), "{none}");
        assert!(none.causes[0].contains("Go has go.mod"), "{none}");
        let two = report(&["go.mod", "Cargo.toml"], None);
        assert!(two.message.ends_with("could be a plugin in Rust or Go"), "{two}");
        assert!(two.hint.unwrap().contains("`language = \"rust\" or \"go\"`"));
        let unknown = report(&[], Some("cobol\u{1b}"));
        assert!(unknown.message.contains("unknown language `cobol\\u{1b}`; use one of rust,"), "{unknown}");
    }

    #[test]
    fn engine_is_for_javascript_and_typescript_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |language: &str, engine: Option<&str>| {
            let (language, engine) = (Some(language.to_owned()), engine.map(str::to_owned));
            let settings = ProjectSettings { language, engine, ..ProjectSettings::default() };
            PluginProject::recognise(folder.path(), settings).map(|project| project.engine)
        };
        assert_eq!(of("javascript", None).unwrap(), JavaScriptEngine::SpiderMonkey);
        for language in ["javascript", "typescript"] {
            assert_eq!(of(language, Some("quickjs")).unwrap(), JavaScriptEngine::QuickJs);
        }
        let unknown = of("javascript", Some("v8\u{1b}")).unwrap_err().report().with_hint();
        assert!(unknown.contains("unknown engine `v8\\u{1b}`; use one of spidermonkey, quickjs"), "{unknown}");
        assert!(unknown.contains("correct `engine` under [build]"), "{unknown}");
        let other = of("python", Some("quickjs")).unwrap_err().report().with_hint();
        assert!(other.contains("JavaScript and TypeScript, and this one is in Python"), "{other}");
        assert_eq!(of("python", None).unwrap(), JavaScriptEngine::SpiderMonkey, "nothing asks for it");
    }

    #[test]
    fn source_outside_of_the_project_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (source, is_fine) in [
            ("src/app.py", true),
            ("./app.py", true),
            ("../app.py", false),
            ("/etc/x.c", false),
            ("", false),
            ("-o", false),
        ] {
            let settings = ProjectSettings {
                language: Some("python".into()),
                source: Some(source.into()),
                ..ProjectSettings::default()
            };
            let project = PluginProject::recognise(folder.path(), settings);
            assert_eq!(project.is_ok(), is_fine, "{source}");
            if let Ok(project) = project {
                let error = project.source(&["app.py"]).unwrap_err();
                assert!(
                    matches!(&error, AuthorError::NoSource { path } if path == &project.folder.join(source)),
                    "{error}"
                );
            }
        }
    }
}
