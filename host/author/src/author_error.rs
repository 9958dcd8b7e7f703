//! Errors of new projects and of their builds.

use std::{
    io,
    path::{Path, PathBuf},
};

use shelly_core::error::{ErrorKind, Report, legible, why_unreadable};

use crate::{javascript_engine::JavaScriptEngine, language::PluginLanguage, project_kind::ProjectKind};

/// The reason why a project was not written or not built.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum AuthorError {
    /// An engine has no template of a kind.
    #[error("there is no template of kind `{kind}` for {engine}")]
    NotOfferedByEngine { engine: JavaScriptEngine, kind: ProjectKind },
    /// A name of an engine that does not exist.
    #[error("{message}")]
    Engine { message: String },
    /// An engine for JavaScript in a project of another language.
    #[error("{engine} runs plugins in JavaScript and TypeScript, and this one is in {language}")]
    EngineOfOtherLanguage { engine: JavaScriptEngine, language: PluginLanguage },
    /// Files are where a project was to be written.
    #[error("there are files that this would replace; nothing was written")]
    InTheWay { paths: Vec<PathBuf> },
    /// A file or folder cannot be read or written.
    #[error("cannot {action} {}", shown(path))]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// A name of a language that does not exist.
    #[error("{message}")]
    Language { message: String },
    /// Nothing in the folder tells a language.
    #[error("{} does not tell the language of the plugin", shown(folder))]
    NoLanguage { folder: PathBuf },
    /// Several languages fit the files of the folder.
    #[error("{} could be a plugin in {}", shown(folder), join(languages, " or "))]
    SeveralLanguages { folder: PathBuf, languages: Vec<PluginLanguage> },
    /// A source that the manifest names, or that is there by default, is missing.
    #[error("there is no {}", shown(path))]
    NoSource { path: PathBuf },
    /// A source that the manifest names is not in the project, or has a name that a language cannot take.
    #[error("`source = \"{}\"` under [build] in plugin.toml {why}", legible(source_name))]
    Source { source_name: String, why: &'static str },
    /// The WIT of the project cannot be parsed.
    #[error("the WIT in {} cannot be used", shown(path))]
    Wit { path: PathBuf, message: String },
    /// The WIT has no such world, or several and none was named.
    #[error("{}", no_world(path, world.as_deref(), known))]
    NoWorld { path: PathBuf, world: Option<String>, known: Vec<String> },
    /// The project has no folder of WIT.
    #[error("there is no folder {}", shown(path))]
    NoWit { path: PathBuf },
    /// A program that the build needs is not there, or too old.
    #[error("{language} plugins need {what}, {why}")]
    NoTool { language: PluginLanguage, what: String, why: String, install: String },
    /// A program cannot be started.
    #[error("cannot start {}", shown(program))]
    NotStarted { program: PathBuf, source: io::Error },
    /// A program of the toolchain failed. Its output was shown.
    #[error("{program} failed{}", status.map(|code| format!(" (exit code {code})")).unwrap_or_default())]
    ToolFailed { program: String, status: Option<i32>, cause: Option<String>, hint: String },
    /// A program of the toolchain succeeded and made no component.
    #[error("{program} made no WebAssembly")]
    NoOutput { program: String, hint: String },
    /// The output of a compiler is larger than any component may be.
    #[error("{} has {size} bytes, a component has at most {most}", shown(path))]
    TooLarge { path: PathBuf, size: u64, most: u64 },
    /// A project has more files than are watched.
    #[error("{} has more than {most} files and folders that would be watched", shown(folder))]
    TooManyFiles { folder: PathBuf, most: usize },
    /// A core module does not fit its world.
    #[error("the compiled module does not fit the world `{world}`")]
    Module { world: String, cause: String, hint: String },
    /// The runtime of the Go toolchain is not one that is known.
    #[error("the runtime of {version} in {} is not one that this program knows", shown(path))]
    GoRuntime { version: String, path: PathBuf },
}

impl AuthorError {
    /// Returns a function for `map_err` that adds the operation and the path to an error of the operating system.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns the report for a person: message, causes and hint.
    pub fn report(&self) -> Report {
        let report = |kind| Report::new(kind, self.to_string());
        let usage = || report(ErrorKind::Usage);
        match self {
            Self::NotOfferedByEngine { engine, .. } => {
                let kinds = join(&engine.kinds(), ", ");
                usage().hint(format!("for {engine} there are {kinds}; leave the engine out for other kinds"))
            }
            Self::Engine { .. } => usage().hint("correct `engine` under [build] in plugin.toml"),
            Self::EngineOfOtherLanguage { .. } => usage().hint("leave the engine out, or choose one of these languages"),
            Self::InTheWay { paths } => {
                let report = paths.iter().fold(usage(), |report, path| report.cause(shown(path)));
                report.hint("move these files away, or choose another folder")
            }
            Self::File { source, .. } => {
                usage().cause(why_unreadable(source)).hint("check who may read and write there, and what stands in its place")
            }
            Self::Language { .. } => usage().hint("correct `language` under [build] in plugin.toml"),
            Self::NoLanguage { .. } => {
                let marks = PluginLanguage::ALL.map(|language| format!("{language} has {}", language.mark()));
                usage().cause(marks.join("; ")).hint(
                    "name the language in plugin.toml: `language = \"…\"` under [build]; or begin with shelly-host plugin new",
                )
            }
            Self::SeveralLanguages { languages, .. } => {
                let names: Vec<_> = languages.iter().map(|language| format!("\"{}\"", language.name())).collect();
                usage().hint(format!("write which in plugin.toml: `language = {}` under [build]", names.join(" or ")))
            }
            Self::NoSource { .. } => {
                usage().hint("create the file, or name another with `source = \"…\"` under [build] in plugin.toml")
            }
            Self::Source { .. } => usage().hint("name a file or folder below the folder of plugin.toml"),
            Self::Wit { message, .. } => usage().cause(message.trim_end()).hint("correct the WIT"),
            Self::NoWorld { known, .. } => match known.as_slice() {
                [] => usage().hint("write a `world` into it that exports what the plugin offers"),
                known => usage().hint(format!(
                    "name one in plugin.toml, under [build]: {}",
                    known.iter().map(|world| format!("`world = \"{}\"`", legible(world))).collect::<Vec<_>>().join(" or ")
                )),
            },
            Self::NoWit { .. } => usage().hint(
                "write the plugin's world there; shelly-host plugin wit --out wit/deps/shelly-plugin writes the contract",
            ),
            Self::NoTool { install, .. } => usage().hint(format!("install it: {install}")),
            Self::NotStarted { source, .. } => {
                usage().cause(why_unreadable(source)).hint("check that it can be executed")
            }
            Self::ToolFailed { cause, hint, .. } => {
                let report = report(ErrorKind::Plugin);
                cause.iter().fold(report, |report, cause| report.cause(legible(cause))).hint(hint)
            }
            Self::NoOutput { hint, .. } => report(ErrorKind::Plugin).hint(hint),
            Self::TooLarge { .. } => report(ErrorKind::Plugin).hint("build it with --release, without debug information"),
            Self::TooManyFiles { .. } => usage().hint(
                "move what is no source out of the folder, or into build, target, vendor, node_modules or a folder whose name \
                 begins with a dot: they are not watched",
            ),
            Self::Module { cause, hint, .. } => report(ErrorKind::Plugin).cause(legible(cause)).hint(hint),
            Self::GoRuntime { .. } => usage().hint(
                "use a Go from 1.24 to 1.27, or a newer shelly-host: the runtime must be told that the adapter of WASI \
                 takes memory too",
            ),
        }
    }
}

fn no_world(path: &Path, world: Option<&str>, known: &[String]) -> String {
    match (world, known) {
        (Some(world), _) => format!("the WIT in {} has no world `{}`", shown(path), legible(world)),
        (None, []) => format!("the WIT in {} has no world", shown(path)),
        (None, _) => format!("the WIT in {} has several worlds", shown(path)),
    }
}

fn join<T: ToString>(items: &[T], with: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(with)
}

/// Formats a path for a message.
pub(crate) fn shown(path: &Path) -> String {
    legible(&path.display().to_string())
}
