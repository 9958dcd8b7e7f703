//! Plugins on disk: manifests, folders, and the catalog of all plugins that a config can name. No plugin's code runs.

mod catalog;
mod catalog_entry;
mod manifest;
mod plugin_candidate;
mod plugin_package;
mod requirement_check;
mod shipped_plugins;

pub use catalog::{PluginCatalog, PluginDirs};
pub use catalog_entry::{CatalogEntry, ComponentDescriptor};
pub use manifest::PluginManifest;
pub use plugin_package::PluginPackage;
pub use shipped_plugins::{INSTALLED, SHIPPED_PLUGINS, how_to_install, lies_in};
