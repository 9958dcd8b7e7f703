//! Plugins on disk and in the program: manifests, folders, and the catalog of all plugins that a config can name. No plugin's code runs.

mod catalog;
mod catalog_entry;
mod embedded_plugin;
mod locked_plugin;
mod manifest;
mod plugin_candidate;
mod plugin_location;
mod plugin_package;
mod plugin_review;
mod requirement_check;
mod shipped_plugins;

pub use catalog::{OutrankedPlugin, PluginCatalog, PluginDirs};
pub use catalog_entry::{CatalogEntry, ComponentDescriptor};
pub use embedded_plugin::EmbeddedPlugin;
pub use locked_plugin::LockedPlugin;
pub use manifest::{ManifestBuild, PluginManifest};
pub use plugin_location::PluginLocation;
pub use plugin_package::PluginPackage;
pub use plugin_review::{PluginReview, ReviewedImport};
pub use shipped_plugins::{PACKAGED_FOLDER, SHIPPED_PLUGINS, ShippedPlugins};
