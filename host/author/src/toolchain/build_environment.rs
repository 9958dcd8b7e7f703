//! The parts of the environment that a build depends on.

use std::path::PathBuf;

use shelly_core::process::ProgramFinder;

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
