//! For authors of plugins: new projects in several languages, their builds, and the contract for each of them.
//!
//! [`NewProject`] writes a project from a template. [`PluginBuild`] compiles one with the toolchain of its language and
//! makes a component of what the compiler writes, and [`SourceSnapshot`] says when to build again. [`language_states`] says
//! which toolchains are here. Nothing of this crate runs a plugin or names a WebAssembly engine: what was built is checked by
//! the program.
//!
//! ```
//! use shelly_author::{NewProject, PluginLanguage, ProjectKind, ProjectName};
//!
//! let name = ProjectName::new("dice")?;
//! let project = NewProject::new(name, ProjectKind::Tool, PluginLanguage::Python);
//! assert!(project.files()?.iter().any(|(path, _)| path == "app.py"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod author_error;
mod build;
mod build_cancellation;
mod build_record;
mod contract;
mod encoding;
mod failure_hints;
mod javascript_engine;
mod language;
mod new_project;
mod plugin_project;
mod project_kind;
mod project_name;
mod project_wit;
mod sdk_sources;
mod source_snapshot;
mod templates;
#[cfg(test)]
mod testing;
mod tool_run;
mod toolchain;
mod typescript_types;

pub use author_error::AuthorError;
pub use build::{BuiltPlugin, PluginBuild, rebuild_twice};
pub use build_cancellation::BuildCancellation;
pub use build_record::BuildRecord;
pub use contract::{
    files as contract_files, whole as whole_contract, world as contract_world, world_names as contract_world_names,
};
pub use failure_hints::{other_kinds as hint_for_other_kinds, undeclared_import as hint_for_undeclared_import};
pub use javascript_engine::JavaScriptEngine;
pub use language::PluginLanguage;
pub use new_project::NewProject;
pub use plugin_project::{PluginProject, ProjectSettings};
pub use project_kind::ProjectKind;
pub use project_name::ProjectName;
pub use source_snapshot::SourceSnapshot;
pub use toolchain::{BuildEnvironment, LanguageState, ToolState, language_states};
