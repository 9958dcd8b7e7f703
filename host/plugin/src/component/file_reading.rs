//! Bounded reading of the files of a plugin.

use std::{fs, io::Read, path::Path};

use crate::error::PluginError;
use shelly_core::files;

/// Reads a regular file of at most `most` bytes. Pipes and devices are not opened.
pub fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    read_at(path, path, most)
}

/// Reads the file at `real` like [`read_bounded`]; errors name it `path`.
fn read_at(real: &Path, path: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    let unreadable = |source| PluginError::Unreadable { path: path.into(), source };
    let file = files::open(real).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.len() > most {
        return Err(PluginError::TooLarge { path: path.into(), size: metadata.len(), most });
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Reads a file like [`read_bounded`]. A link that leads out of `folder` is refused.
pub fn read_inside(path: &Path, folder: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    let unreadable = |source| PluginError::Unreadable { path: path.into(), source };
    // Most files are regular ones in the folder itself, so there is no link to resolve.
    if path.parent() == Some(folder) && fs::symlink_metadata(path).is_ok_and(|there| there.is_file()) {
        return read_at(path, path, most);
    }
    let real = path.canonicalize().map_err(unreadable)?;
    match real.starts_with(folder.canonicalize().map_err(unreadable)?) {
        // Read the resolved path: the links that were just followed may lead elsewhere by now.
        true => read_at(&real, path, most),
        false => Err(PluginError::LeadsOut { path: path.into() }),
    }
}
