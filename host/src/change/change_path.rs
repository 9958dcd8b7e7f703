use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::ChangeError;
use crate::{error::legible, limits};

/// Where a file is, or is to be: below a folder out of which nothing leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePath {
    folder: PathBuf,
    below: PathBuf,
    shown: String,
}

/// A place as it was found on the disk: no link is on the way to it any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResolvedChangePath {
    /// All of its path.
    pub real: PathBuf,
    /// What people and models are shown.
    pub shown: String,
}

/// What becomes of a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLinkPolicy {
    /// What it leads to is meant.
    Follow,
    /// It is meant itself.
    Keep,
}

impl ChangePath {
    /// The place `below` a folder, which is absolute and has no links and no `..` in it. `shown` is the path in the words of
    /// whoever proposes.
    ///
    /// # Errors
    ///
    /// [`ChangeError::BadPath`] for the folder itself and for what leads upwards.
    pub fn new(folder: impl Into<PathBuf>, below: &Path, shown: &str) -> Result<Self, ChangeError> {
        let shown = legible(shown);
        let mut path = PathBuf::new();
        for part in below.components() {
            match part {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => return Err(ChangeError::BadPath { shown }),
            }
        }
        // What is written down of it is JSON.
        if path.as_os_str().is_empty() || path.as_os_str().len() > limits::CHANGED_PATH_BYTES || path.to_str().is_none()
        {
            return Err(ChangeError::BadPath { shown });
        }
        Ok(Self { folder: folder.into(), below: path, shown })
    }

    /// The folder out of which nothing leads.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Finds out where it is: what is a link on the way is resolved, and may not lead out of the folder. What is not there is
    /// taken as it is written.
    pub(super) fn resolve(&self, last: FinalLinkPolicy) -> Result<ResolvedChangePath, ChangeError> {
        let shown = || self.shown.clone();
        let outside = || ChangeError::Outside { shown: shown() };
        let unreadable = ChangeError::io(&self.shown, "looked at");
        // The folder may have been replaced by a link since it was granted.
        if self.folder.canonicalize().map_err(&unreadable)? != self.folder {
            return Err(outside());
        }
        let mut real = self.folder.clone();
        let mut parts = self.below.components().peekable();
        while let Some(part) = parts.next() {
            real.push(part);
            match fs::symlink_metadata(&real) {
                Ok(found) if found.is_symlink() && (parts.peek().is_some() || last == FinalLinkPolicy::Follow) => {
                    // One that leads nowhere leads out, for all that can be told.
                    real = real.canonicalize().map_err(|_| outside())?;
                    if !real.starts_with(&self.folder) || real == self.folder && parts.peek().is_none() {
                        return Err(outside());
                    }
                }
                Ok(found) if !found.is_dir() && parts.peek().is_some() => {
                    return Err(ChangeError::WrongKind {
                        shown: shown(),
                        is: "below a file",
                        wanted: "what is in a folder",
                    });
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    real.extend(parts);
                    break;
                }
                Err(error) => return Err(unreadable(error)),
            }
        }
        match real.to_str() {
            Some(_) => Ok(ResolvedChangePath { real, shown: shown() }),
            None => Err(ChangeError::BadPath { shown: shown() }),
        }
    }
}

impl ResolvedChangePath {
    /// A folder above it, shown as it is.
    pub fn above(&self, folder: &Path) -> Self {
        Self { real: folder.to_owned(), shown: legible(&folder.to_string_lossy()) }
    }

    /// Its name, and the folder in which it is.
    pub fn parts(&self) -> io::Result<(&Path, &str)> {
        let name = self.real.file_name().and_then(|name| name.to_str());
        self.real.parent().zip(name).ok_or_else(|| io::Error::other("it has no name"))
    }
}
