//! Helpers of the tests of this crate.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the files below a folder, also through links: their paths below it, and their texts.
pub fn files_below(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => found.push((path.strip_prefix(folder).unwrap().into(), fs::read_to_string(&path).unwrap())),
            }
        }
    }
    found
}
