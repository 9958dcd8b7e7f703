//! The plugins that are installed for a project and for the person, as their lock files name them.

use std::path::Path;

use crate::{
    config::Config,
    error::Report,
    packages::{LockedPluginPackage, PackageError, PackagePlace, SignaturePolicy},
    plugin::LockedPlugin,
};

/// Returns the plugins that the lock files of a project and of the person name, those of the project first. `installed` is the
/// folder of the person's own. No component is read.
///
/// # Errors
///
/// A [`Report`] if a lock file cannot be used.
pub fn locked_plugins(config: &Config, installed: Option<&Path>) -> Result<Vec<LockedPlugin>, Report> {
    let policies = [config.plugin_signatures.policy()?, config.user.plugin_signatures.policy()?];
    let of_person = installed.map(PackagePlace::of_person);
    let mut plugins = Vec::new();
    for place in [PackagePlace::of_project(&config.root)].into_iter().chain(of_person) {
        let lock = place.read_lock().map_err(|error| error.report())?;
        plugins.extend(lock.iter().map(|package| locked_plugin(package, &place, &policies)));
    }
    Ok(plugins)
}

fn locked_plugin(package: &LockedPluginPackage, place: &PackagePlace, policies: &[SignaturePolicy]) -> LockedPlugin {
    let signature = package.signature.as_deref();
    let refusal = policies.iter().find_map(|policy| policy.signer(&package.files, signature).err());
    LockedPlugin {
        id: package.id.clone(),
        folder: place.store.folder(&package.digest),
        component: package.component.clone(),
        files: package.files.clone(),
        lock: place.lock_file().to_owned(),
        is_personal: place.is_personal,
        refusal: refusal.map(|why| (why, PackageError::SIGNATURE_MEND.to_owned())),
    }
}
