//! The commands that hand plugins to others: they publish, install, update and remove them. Nothing of a plugin runs when it is
//! installed.

mod acceptance;
mod index_args;
mod install;
mod newer_source;
mod outdated;
mod package_candidate;
mod package_fetch;
mod place_args;
mod publish;
mod remove;
mod search;
mod update;
mod vendor;

pub use self::{
    install::PluginInstallArgs, outdated::list_outdated, publish::PluginPublishArgs, remove::PluginRemoveArgs,
    search::PluginSearchArgs, update::PluginUpdateArgs, vendor::PluginVendorArgs,
};
