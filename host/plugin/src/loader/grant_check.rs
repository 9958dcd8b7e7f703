//! The check of a plugin's imports and folders against its grant, without running any of its code.

use shelly_core::capability::Capability;

use super::{folders, plugin_settings::PluginSettings};
use crate::{contract::need_of_import, error::PluginError, package::PluginPackage};

impl PluginSettings {
    /// Checks that the plugin can be bound with these settings: every import is granted, and the folders exist. Runs no
    /// code of the plugin.
    ///
    /// # Errors
    ///
    /// The [`PluginError`] that [`Plugin::load`](crate::Plugin::load) would return.
    pub fn check(&self, package: &PluginPackage) -> Result<(), PluginError> {
        check_grant(package, self)?;
        folders::open(package, self).map(drop)
    }
}

/// Checks that every import of the component is linked. Reported here because the engine's own message misleads.
pub(super) fn check_grant(package: &PluginPackage, settings: &PluginSettings) -> Result<(), PluginError> {
    let manifest = &package.manifest;
    let linked = settings.linked(manifest);
    for import in &package.anatomy.imports {
        let Some(need) = need_of_import(import).filter(|need| !need.is_linked_with(&linked, manifest)) else {
            continue;
        };
        let mut refused = settings.refused(manifest).into_iter();
        let needed = need.capability().map(Capability::name);
        let missing = refused.find(|(_, missing)| Some(missing.capability.as_str()) == needed);
        if let Some((place, missing)) = missing {
            let withheld = *place != *settings.place;
            let (id, agent, place) = (manifest.id.clone(), settings.agent.clone(), place.to_string());
            let (import, missing) = (import.clone(), Box::new(missing));
            return Err(PluginError::NotGranted { id, agent, place, withheld, import, missing });
        }
    }
    Ok(())
}
