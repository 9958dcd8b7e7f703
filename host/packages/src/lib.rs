//! Plugins and agents as packages: where they come from, the store that holds them, and the lock file that names them.
//!
//! A package is the few files of a plugin: its component, and if it has them its `plugin.toml` and the WIT that documents its
//! functions. An agent package has agents and teams as a config describes them, with the skills and plugins that they need. A [`PackageStore`] keeps each package in a folder that is named after the digest of all of its files. A
//! [`PackageLock`] says which packages are installed, and what each of them was when a person accepted it.
//!
//! # Modules
//!
//! In reading order:
//!
//! | module | contents |
//! |---|---|
//! | `package_error` | the reasons why a package cannot be installed or used |
//! | `download` | files from web servers |
//! | `oci` | plugins in OCI registries |
//! | `package_source` | where a plugin comes from: a path, a URL, a registry, an index |
//! | `package_index` | lists of plugins that anyone can host |
//! | `package_files` | the files of a package, and their digest |
//! | `agent_package` | the files of an agent package, and the plugins that it contains |
//! | `package_store` | the folder in which packages are kept by digest |
//! | `package_abilities` | what a plugin wants, imports and offers, and what an update changes about it |
//! | `package_version` | which version is newer |
//! | `package_signature` | who must have signed a package |
//! | `locked_agent_package` | the entry of an agent package in a lock file |
//! | `package_lock` | `shelly.lock` |
//! | `package_place` | a lock file and its store: those of a project, and those of a person |
//!
//! # What it must not name
//!
//! It reads no component and knows no sandbox: what a component imports is told to it. Nothing of a plugin runs here. Requests
//! go through `shelly-net`.

mod agent_package;
mod download;
mod locked_agent_package;
mod oci;
mod package_abilities;
mod package_error;
mod package_files;
mod package_index;
mod package_lock;
mod package_place;
mod package_signature;
mod package_source;
mod package_store;
mod package_version;

pub use agent_package::{AgentPackageFiles, AgentPackageManifest, ContainedPlugin};
pub use download::download;
pub use locked_agent_package::LockedAgentPackage;
pub use oci::{
    AgentPackageArtifact, OciArtifact, OciReference, OciVersion, RecordedTool, RegistryClient, RegistryLogins,
};
pub use package_abilities::{AbilityChange, LockedTool, PackageAbilities};
pub use package_error::PackageError;
pub use package_files::PackageFiles;
pub use package_index::{IndexedPackage, PackageIndex};
pub use package_lock::{LockedPackage, PackageLock};
pub use package_place::PackagePlace;
pub use package_signature::{SignaturePolicy, SigningKey, key_id};
pub use package_source::PackageSource;
pub use package_store::{PackageStore, StagedPackage};
pub use package_version::{VersionOrder, newer_tag};
