//! `shelly-host agent remove`.

use clap::Args;

use super::package_names::{named_package, not_installed};
use crate::{
    cli::{
        plugin::packages::{PackagePlaceArgs, guard},
        render::print,
    },
    error::Report,
};

/// Remove an agent package from the lock file and from the store, with the plugins that came with it.
#[derive(Args)]
pub struct AgentRemoveArgs {
    /// The package's id.
    id: String,
    #[command(flatten)]
    place: PackagePlaceArgs,
}

impl AgentRemoveArgs {
    /// Removes the package.
    pub fn remove(&self) -> Result<u8, Report> {
        let (_, place) = self.place.open()?;
        let _guard = guard(&place, false)?;
        let mut lock = place.read_lock().map_err(|error| error.report())?;
        let removed = lock.remove_agent(&self.id).ok_or_else(|| not_installed(&self.id, &lock))?;
        place.write_lock(&lock).map_err(|error| error.report())?;
        print(&format!("removed      {}", named_package(&removed)))?;
        Ok(0)
    }
}
