//! The toolchains of the languages: where their programs are, and what installs them.

mod build_environment;
mod finding;
mod installation;
mod state;

pub use build_environment::BuildEnvironment;
pub(crate) use finding::{find_c_compiler, find_node_tool, find_python_tool, find_tool, has_wasm_std};
pub use installation::install_command;
pub(crate) use state::is_new_go;
pub use state::{LanguageState, ToolState, language_states};
