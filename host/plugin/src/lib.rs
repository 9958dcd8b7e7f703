//! Plugins: WebAssembly components behind the contract in `wit/`, as tools, effects, middleware, models and coordinators.
//!
//! # From a file to a call
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
//! # Layers
//!
//! The lowest first; a module uses only those above it in this table.
//!
//! | module | contents |
//! |---|---|
//! | `contract` | what the contract fixes: its versions, the kinds of plugins, the requirement for each import |
//! | `error` | the reasons why a plugin cannot be used |
//! | `http_client` | the requests of a plugin, each reported as an event |
//! | `bindings` | the Rust types of the contract, generated from `wit/` |
//! | `convert` | conversions between them and the host's types, with bounds on everything that a guest returns |
//! | `functions` | exported functions as tools: types, names, schemas, values |
//! | `component` | the bytes of a component: work, names, kinds, imports |
//! | `metering` | limits of calls, permits, processor time, memory |
//! | `store` | the data of a store: everything that one instance can reach |
//! | `imports` | the functions that a guest may call, and the linking of those that are granted |
//! | `compile` | validation and compilation, in a sandboxed process; the cache of compiled code |
//! | `runtime` | the engine, and the execution of one call |
//! | `package` | manifests, plugin folders, and the catalog of all of them |
//! | `loader` | the binding of a plugin to one agent; the certificate of what it can reach |
//! | `adapter` | a bound plugin as a tool, effect, middleware, model or coordinator |
//!
//! # What it must not name
//!
//! This is the only crate that names wasmtime and WIT types, and none of them is in its documented interface: an agent cannot
//! tell a plugin's tool from one written in Rust. It knows no config file and no terminal; folders, grants and compile
//! processes are given to it. Requests of plugins go through `shelly-net`.
//!
//! # The tools of a plugin
//!
//! ```no_run
//! use std::sync::Arc;
//! use shelly_core::{agent::Agent, model::ScriptedCompleter};
//! use shelly_plugin_host::{
//!     CompileConfig, CompileStep, ComponentCompiler, Plugin, PluginCatalog, PluginEngine, PluginSettings, PluginTool,
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let compiler = Arc::new(ComponentCompiler::from(CompileConfig::default()));
//! let catalog = PluginCatalog::scan(&["plugins".into()], &compiler)?;
//! catalog.open(["calc"], CompileStep::Compile).await;
//! let package = catalog.get("calc").ok_or("there is no plugin `calc`")?.map_err(ToString::to_string)?;
//!
//! let engine = Arc::new(PluginEngine::new(CompileConfig::default())?);
//! // Without a grant, the plugin can compute and nothing else.
//! let plugin = Arc::new(Plugin::load(&engine, package, &PluginSettings::new("ada", "this program")).await?);
//! let mut agent = Agent::new("ada", "Be brief.", Arc::new(ScriptedCompleter::new([])));
//! for tool in PluginTool::all(&plugin) {
//!     agent.tools.register(tool)?;
//! }
//! # Ok(()) }
//! ```
//!
//! [`Grant`]: shelly_core::capability::Grant

mod adapter;
mod bindings;
mod compile;
mod component;
mod contract;
mod convert;
mod error;
mod functions;
#[doc(hidden)]
pub mod fuzz;
mod http_client;
mod imports;
mod loader;
mod metering;
mod package;
mod runtime;
mod store;

pub use adapter::{
    PluginCoordinator, PluginEffect, PluginModel, PluginModelMiddleware, PluginRunMiddleware, PluginTool,
    PluginToolMiddleware,
};
#[doc(hidden)]
pub use compile::sandbox;
pub use compile::{
    COMPILE_WORKER, CompileConfig, CompileLimits, CompileObserver, CompileProfile, CompileSandboxStatus, CompileSite,
    CompileStart, CompileStep, CompileWorker, ComponentCompiler, engine_config,
};
pub use component::{Anatomy, read_bounded};
pub use contract::{CONTRACT, ContractVersion, PluginKind};
pub use error::{CompileFailure, ComponentError, PluginError};
pub use functions::{FunctionTool, FunctionToolset, FunctionsManifest};
pub use loader::{
    Certificate, CertifiedFunction, CertifiedImport, CompiledPlugin, FolderMount, HostBuildInfo, ImportState, Plugin,
    PluginSettings, PluginStart,
};
pub use metering::{GuestMemoryUse, Limits, MemorySource};
pub use package::{
    CatalogEntry, ComponentDescriptor, EmbeddedPlugin, LockedPlugin, ManifestBuild, OutrankedPlugin, PACKAGED_FOLDER,
    PluginCatalog, PluginDirs, PluginLocation, PluginManifest, PluginPackage, PluginReview, ReviewedImport,
    SHIPPED_PLUGINS, ShippedPlugins,
};
pub use runtime::{PluginEngine, WASMTIME_VERSION};
/// Resolves a path of a grant, so that it can be compared with other paths.
pub use shelly_core::files::resolved;
pub use store::FixedInputs;
