//! `shelly-host plugin remove`.

use clap::Args;

use super::{
    package_candidate::named,
    place_args::{PackagePlaceArgs, guard, not_installed, refuse_contained},
};
use crate::{cli::render::print, error::Report};

/// Remove an installed plugin from the lock file and from the store.
#[derive(Args)]
pub struct PluginRemoveArgs {
    /// The plugin's id.
    id: String,
    #[command(flatten)]
    place: PackagePlaceArgs,
}

impl PluginRemoveArgs {
    /// Removes the plugin.
    pub fn remove(&self) -> Result<u8, Report> {
        let (_, place) = self.place.open()?;
        let _guard = guard(&place, false)?;
        let mut lock = place.read_lock().map_err(|error| error.report())?;
        let removed = lock.get(&self.id).cloned().ok_or_else(|| not_installed(&self.id, &lock))?;
        refuse_contained(&removed)?;
        lock.remove(&self.id);
        place.write_lock(&lock).map_err(|error| error.report())?;
        print(&format!("removed      {}", named(&removed)))?;
        Ok(0)
    }
}
