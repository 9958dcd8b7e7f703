//! Plugins and agents as packages: where they come from, the store that holds them, and the lock file that names them.
//!
//! There are two sorts of packages:
//!
//! - A plugin package has the files of one plugin: its component, and if it has them its `plugin.toml` and the WIT that documents
//!   its functions ([`PluginPackageFiles`], [`LockedPluginPackage`], [`PluginPackageArtifact`]).
//! - An agent package has agents and teams as a config describes them, with the skills and plugins that they need
//!   ([`AgentPackageFiles`], [`LockedAgentPackage`], [`AgentPackageArtifact`]).
//!
//! A [`PackageStore`] keeps each package in a folder that is named after the digest of its list of files. A [`PackageLock`]
//! says which packages are installed, and which files each of them had when a person accepted it.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `package_error` | the reasons why a package cannot be installed or used |
//! | `download` | files from web servers |
//! | `oci` | packages in OCI registries |
//! | `package_source` | where a package comes from: a path, a URL, a registry |
//! | `package_index` | lists of packages that anyone can host |
//! | `plugin_package_files` | the files of a plugin package, and their digest |
//! | `agent_package` | the files of an agent package, and the plugins that it contains |
//! | `package_store` | the folder in which packages are kept by digest |
//! | `plugin_abilities` | what a plugin wants, imports and offers, and what an update changes about it |
//! | `package_version` | which version is newer |
//! | `package_signature` | who must have signed a package |
//! | `locked_agent_package` | the entry of an agent package in a lock file |
//! | `package_lock` | `shelly.lock` |
//! | `package_place` | a lock file and its store: those of a project, and those of a person |
//!
//! # What it must not name
//!
//! The crate reads no component and knows no sandbox: its caller passes what a component imports. Nothing of a plugin runs
//! here. Requests go through `shelly-net`.

mod agent_package;
mod download;
mod locked_agent_package;
mod oci;
mod package_error;
mod package_index;
mod package_lock;
mod package_place;
mod package_signature;
mod package_source;
mod package_store;
mod package_version;
mod plugin_abilities;
mod plugin_package_files;

pub use agent_package::{AgentPackageFiles, AgentPackageManifest, ContainedPlugin};
pub use download::download;
pub use locked_agent_package::LockedAgentPackage;
pub use oci::{
    AgentPackageArtifact, OciReference, OciVersion, PluginPackageArtifact, RecordedTool, RegistryClient, RegistryLogins,
};
pub use package_error::PackageError;
pub use package_index::{IndexedPackage, PackageIndex};
pub use package_lock::{LockedPluginPackage, PackageLock};
pub use package_place::PackagePlace;
pub use package_signature::{SignaturePolicy, SigningKey, key_id};
pub use package_source::PackageSource;
pub use package_store::{PackageStore, StagedPackage};
pub use package_version::{VersionOrder, newer_tag};
pub use plugin_abilities::{AbilityChange, LockedTool, PluginAbilities};
pub use plugin_package_files::PluginPackageFiles;
