//! The directory of compiled code and verdicts. The host runs or trusts its files without further checks, so nobody but
//! this user may write there.

use std::{fs, io, path::Path};

use shelly_core::limits;

/// Creates the directory and its missing parents with mode 0700, and [checks](check) the directory.
pub(super) fn make(directory: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    check(directory)
}

/// Refuses a directory that, on Unix, belongs to another user or is accessible to anybody else: whoever can change a
/// compiled component runs code outside the sandbox.
pub(super) fn check(directory: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(directory)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let mode = metadata.permissions().mode() & 0o777;
        let ours = metadata.uid() == rustix::process::geteuid().as_raw();
        if !metadata.is_dir() || mode & 0o077 != 0 || !ours {
            return Err(io::Error::other(format!(
                "{} must be a directory that you own, with mode 0700; its mode is {mode:o}",
                directory.display()
            )));
        }
    }
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Removes the oldest files while there are too many, or while all of them together are too large. Another process may
/// prune at the same time.
pub(super) fn prune(directory: &Path) -> io::Result<()> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Err(error) if is_gone(&error) => continue,
            metadata => metadata?,
        };
        if metadata.is_file() {
            entries.push((metadata.modified()?, metadata.len(), entry.path()));
        }
    }
    entries.sort();
    let (mut total, mut count): (u64, _) = (entries.iter().map(|(_, size, _)| size).sum(), entries.len());
    for (_, size, path) in entries {
        let (is_too_much, are_too_many) = (total > limits::CACHE_BYTES, count > limits::CACHE_ENTRIES);
        // The records that a component is valid are empty files: removing them frees no bytes.
        if are_too_many || is_too_much && size > 0 {
            fs::remove_file(path).or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
            (total, count) = (total - size, count - 1);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_files_go_when_there_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let path = |at: usize| folder.path().join(at.to_string());
        for at in 0..=limits::CACHE_ENTRIES {
            fs::File::create(path(at)).unwrap();
        }
        let oldest = fs::File::options().write(true).open(path(7)).unwrap();
        oldest.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        prune(folder.path()).unwrap();
        assert!(!path(7).exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), limits::CACHE_ENTRIES);
    }
}
