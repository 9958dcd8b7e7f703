//! Plugins: WebAssembly components behind the contract in `wit/`. The only module that knows wasmtime and WIT types.
//!
//! A plugin's way: [`PluginCatalog`] finds its folder, reads its [`PluginManifest`] and looks into the component without
//! running it ([`Anatomy`]), once a [`ComponentCompiler`] has found it valid: the command line's does that, and compiles, in
//! a process of its own for each component. [`Plugin::load`] binds it to one agent: it compares the imports with the [`Grant`],
//! links those that were granted and no others, compiles (or takes the code from the cache), and asks it once for its
//! tools. The adapters then make each kind the trait that the agent knows: a fresh store and instance for each call,
//! under limits, dropped after it. A component that knows nothing of the contract has its exported functions as tools (the
//! module `functions`); where those give handles an instance lasts as long as a run.
//!
//! [`Grant`]: crate::capability::Grant

mod adapter;
mod anatomy;
mod bindings;
mod cache_dir;
mod catalog;
mod certificate;
mod compile;
mod complexity;
mod component_error;
pub(crate) mod convert;
mod error;
mod folders;
mod functions;
mod imports;
mod loader;
mod manifest;
mod plugin_candidate;
mod runtime;
mod shipped_plugins;
mod tool_concurrency;

/// What paths of grants are made of before they are compared.
pub use crate::files::resolved;
pub use adapter::{
    PluginCoordinator, PluginEffect, PluginModel, PluginModelMiddleware, PluginRunMiddleware, PluginTool,
    PluginToolMiddleware,
};
pub use anatomy::{Anatomy, PluginKind};
pub use catalog::{CatalogEntry, ComponentDescriptor, ComponentDigest, PluginCatalog, PluginDirs, PluginPackage};
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
pub(crate) use plugin_candidate::read_bounded;
pub use runtime::{GuestMemoryUse, Limits, MemorySource, PluginEngine, engine_config};
pub use shipped_plugins::{INSTALLED, SHIPPED_PLUGINS, how_to_install, lies_in};
