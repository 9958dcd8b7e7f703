//! Binding of a plugin to one agent: it is checked against the grant, linked to the granted imports, and probed once.

mod certificate;
mod compiled_plugin;
mod folder_mount;
mod folders;
mod function_indices;
mod grant_check;
mod kind_functions;
mod kind_indices;
mod load;
mod plugin;
mod plugin_settings;
mod plugin_start;
mod tool_concurrency;

pub use certificate::{Certificate, CertifiedFunction, CertifiedImport, HostBuildInfo, ImportState};
pub use compiled_plugin::CompiledPlugin;
pub use folder_mount::FolderMount;
pub use function_indices::no_function;
pub use kind_functions::{ModelMiddlewareFunctions, RunMiddlewareFunctions, ToolMiddlewareFunctions};
pub use plugin::Plugin;
pub use plugin_settings::PluginSettings;
pub use plugin_start::PluginStart;
