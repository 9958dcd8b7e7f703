//! Plugins: WebAssembly components behind the contract in `wit/`. The only module that uses wasmtime and WIT types.
//!
//! [`PluginCatalog`] finds the folder of a plugin, reads its [`PluginManifest`] and reads the component without running
//! it ([`Anatomy`]), once a [`ComponentCompiler`] has found the component valid. The compiler of the command line
//! validates and compiles each component in a process of its own. [`Plugin::load`] binds the plugin to one agent: it
//! compares the imports with the [`Grant`], links those that were granted and no others, compiles the component (or
//! takes the code from the cache), and asks it once for its tools. The adapters then implement the trait of the agent
//! or team for each kind: each call gets a fresh store and instance, under limits, and drops them afterwards. The
//! exported functions of a component that does not use the contract become tools (module `functions`); if they pass
//! handles, the instance lasts as long as the run.
//!
//! [`Grant`]: shelly_core::capability::Grant

mod adapter;
mod anatomy;
mod bindings;
mod cache_dir;
mod catalog;
mod certificate;
mod compile;
mod complexity;
mod component_error;
mod convert;
mod error;
mod folders;
mod functions;
#[doc(hidden)]
pub mod fuzz;
mod imports;
mod loader;
mod manifest;
mod plugin_candidate;
mod runtime;
mod shipped_plugins;
mod tool_concurrency;

pub use adapter::{
    PluginCoordinator, PluginEffect, PluginModel, PluginModelMiddleware, PluginRunMiddleware, PluginTool,
    PluginToolMiddleware,
};
pub use anatomy::{Anatomy, PluginKind};
pub use catalog::{CatalogEntry, ComponentDescriptor, PluginCatalog, PluginDirs, PluginPackage};
pub use certificate::{Certificate, CertifiedFunction, CertifiedImport, HostBuildInfo, ImportState};
#[doc(hidden)]
pub use compile::sandbox;
pub use compile::{
    COMPILE_WORKER, CompileConfig, CompileFailure, CompileLimits, CompileSandboxStatus, CompileSite, CompileStep,
    CompileWorker, ComponentCompiler,
};
pub use component_error::ComponentError;
pub use error::PluginError;
pub use folders::FolderMount;
pub use functions::{FunctionTool, FunctionToolset, FunctionsManifest};
pub use loader::{Plugin, PluginSettings};
pub use manifest::PluginManifest;
pub use plugin_candidate::read_bounded;
pub use runtime::{GuestMemoryUse, Limits, MemorySource, PluginEngine, engine_config};
/// Resolves a path of a grant, so that it can be compared with other paths.
pub use shelly_core::files::resolved;
pub use shipped_plugins::{INSTALLED, SHIPPED_PLUGINS, how_to_install, lies_in};
