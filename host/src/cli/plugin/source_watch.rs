use std::path::{Path, PathBuf};

use shelly_author::SourceSnapshot;

use crate::error::Report;

/// A snapshot of a project's sources, to find out when they have changed. The caller polls it: nothing happens between
/// calls.
pub struct SourceWatch {
    folder: PathBuf,
    /// The sources of the last build.
    built: SourceSnapshot,
    /// The sources in the last snapshot.
    seen: SourceSnapshot,
}

impl SourceWatch {
    /// Takes the first snapshot. These sources count as built.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the folder cannot be read or has too many files.
    pub fn begin(folder: &Path) -> Result<Self, Report> {
        let built = look(folder)?;
        Ok(Self { folder: folder.to_owned(), seen: built.clone(), built })
    }

    /// Returns the number of files.
    pub fn files(&self) -> usize {
        self.built.len()
    }

    /// Takes another snapshot. Returns the files that have changed since the last build, once two snapshots in a row are
    /// equal, so that nobody is writing them any more. From then on these sources count as built.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the folder cannot be read or has too many files.
    pub fn look_again(&mut self) -> Result<Option<Vec<PathBuf>>, Report> {
        let now = look(&self.folder)?;
        let is_still = now == self.seen;
        self.seen = now;
        if !is_still || self.seen == self.built {
            return Ok(None);
        }
        Ok(Some(self.count_as_built()))
    }

    /// Takes another snapshot, and counts these sources as built at once. Returns the files that have changed since the last
    /// build.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the folder cannot be read or has too many files.
    pub fn take(&mut self) -> Result<Vec<PathBuf>, Report> {
        self.seen = look(&self.folder)?;
        Ok(self.count_as_built())
    }

    fn count_as_built(&mut self) -> Vec<PathBuf> {
        let changed = self.seen.changes_since(&self.built);
        self.built = self.seen.clone();
        changed
    }
}

fn look(folder: &Path) -> Result<SourceSnapshot, Report> {
    SourceSnapshot::of(folder).map_err(|error| error.report())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn change_is_returned_once_and_a_missing_folder_is_an_error() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().join("dice");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("app.py"), "one").unwrap();
        let mut sources = SourceWatch::begin(&folder).unwrap();
        assert_eq!((sources.files(), sources.look_again().unwrap()), (1, None));
        fs::write(folder.join("app.py"), "three").unwrap();
        assert_eq!(sources.look_again().unwrap(), None, "it may still be written");
        assert_eq!(sources.look_again().unwrap(), Some(vec!["app.py".into()]));
        assert_eq!(sources.look_again().unwrap(), None);
        fs::rename(&folder, world.path().join("away")).unwrap();
        assert!(sources.look_again().unwrap_err().message.starts_with("cannot read"));
        fs::rename(world.path().join("away"), &folder).unwrap();
        fs::write(folder.join("new.py"), "").unwrap();
        assert_eq!(sources.take().unwrap(), [PathBuf::from("new.py")]);
    }
}
