//! The reasons why a plugin cannot be used.

mod compile_failure;
mod component_error;
mod plugin_error;

pub use compile_failure::CompileFailure;
pub use component_error::ComponentError;
pub use plugin_error::PluginError;
