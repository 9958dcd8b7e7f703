//! The commands that hand plugins to others: they publish, install, update and remove them. Nothing of a plugin runs when it is
//! installed. The commands for agent packages share what is said here of sources, stores and lock files.

mod acceptance;
mod agent_fetch;
mod index_args;
mod install;
mod newer_source;
mod outdated;
mod package_candidate;
mod package_fetch;
mod package_updater;
mod place_args;
mod publish;
mod remove;
mod restore;
mod search;
mod update;
mod vendor;

pub(in crate::cli) use self::{
    acceptance::{AcceptanceArgs, VersionChange, is_confirmed, plugin_changes},
    agent_fetch::{FetchedAgentPackage, package_folder},
    index_args::{IndexedKind, PackageIndexArgs, check_indexed, is_index_name},
    package_candidate::{PackageCandidate, PackageInspector, described, named, signature_state, signer},
    package_fetch::{FetchedPackage, PackageFetcher},
    package_updater::{PackageUpdater, UpdateOutcome},
    place_args::{PackagePlaceArgs, guard, project_and_person},
    publish::artifact_named,
    restore::restore,
};
pub use self::{
    install::PluginInstallArgs, outdated::list_outdated, publish::PluginPublishArgs, remove::PluginRemoveArgs,
    search::PluginSearchArgs, update::PluginUpdateArgs, vendor::PluginVendorArgs,
};
