//! Updates of installed packages, which `plugin update` and `agent update` share.

use super::{
    package_fetch::PackageFetcher,
    place_args::{PackagePlaceArgs, guard},
};
use crate::{
    cli::{command_runtime::runtime, render::print},
    config::Config,
    error::{ErrorKind, Report},
    packages::{PackageLock, PackagePlace},
};

/// The result of one update.
pub enum UpdateOutcome {
    /// There is no other version.
    UpToDate,
    /// The person has declined the other version.
    Declined,
    /// Another version took the place of the installed one: its id and version, as messages show them.
    Updated(String),
}

/// A command that updates installed packages of one kind.
pub trait PackageUpdater {
    /// An entry of a lock file.
    type Locked;
    /// The name of the kind in messages.
    const KIND: &'static str;
    /// The command of the kind, such as `agent`.
    const COMMAND: &'static str;

    /// Returns an installed package.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it is not installed, or is not updated by itself.
    fn find(id: &str, lock: &PackageLock) -> Result<Self::Locked, Report>;

    /// Returns the packages that are updated if none is named.
    fn all(lock: &PackageLock) -> Vec<Self::Locked>;

    /// Returns the id and version of a package, as messages show them.
    fn named(locked: &Self::Locked) -> String;

    /// Updates a package.
    async fn update_one(
        &self,
        before: &Self::Locked,
        of: (&Config, &PackagePlace),
        lock: &mut PackageLock,
        fetcher: &PackageFetcher,
    ) -> Result<UpdateOutcome, Report>;

    /// Updates these packages, or all if there are no ids, one after the other, and prints what has become of each. Returns
    /// an exit code that is not 0 if the person has declined one.
    fn update_all(&self, ids: &[String], place_args: &PackagePlaceArgs) -> Result<u8, Report> {
        let (config, place) = place_args.open()?;
        let _guard = guard(&place, false)?;
        let mut lock = place.read_lock().map_err(|error| error.report())?;
        let wanted = match ids.is_empty() {
            true => Self::all(&lock),
            false => ids.iter().map(|id| Self::find(id, &lock)).collect::<Result<Vec<_>, _>>()?,
        };
        if wanted.is_empty() {
            let (command, options) = (Self::COMMAND, place_args.shown());
            return Err(Report::new(ErrorKind::Usage, format!("no {} is installed", Self::KIND))
                .hint(format!("install one: shelly-host {command} install SOURCE{options}")));
        }
        let fetcher = PackageFetcher::new()?;
        runtime()?.block_on(async {
            let mut code = 0;
            for before in &wanted {
                let old = Self::named(before);
                let line = match self.update_one(before, (&config, &place), &mut lock, &fetcher).await? {
                    UpdateOutcome::UpToDate => format!("up to date   {old}"),
                    UpdateOutcome::Declined => {
                        code = ErrorKind::Run.exit_code();
                        format!("left as is   {old}")
                    }
                    UpdateOutcome::Updated(now) => format!("updated      {now} (was {old})"),
                };
                print(&line)?;
            }
            Ok(code)
        })
    }
}
