use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::ChangeError;
use crate::{error::legible, limits};

/// The path of a file below a folder that it cannot leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePath {
    folder: PathBuf,
    below: PathBuf,
    shown: String,
}

/// A path resolved on disk: no component is a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResolvedChangePath {
    /// The absolute path.
    pub real: PathBuf,
    /// The path as it is shown to people and models.
    pub shown: String,
}

/// The treatment of a link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalLinkPolicy {
    /// The target of the link is meant.
    Follow,
    /// The link itself is meant.
    Keep,
}

impl ChangePath {
    /// Creates a path `below` a folder, which must be absolute and without links and `..`. `shown` is the path as the
    /// proposing tool names it.
    ///
    /// # Errors
    ///
    /// [`ChangeError::BadPath`] for the folder itself, for a path that leads upwards or is not UTF-8, and for one longer
    /// than [`limits::CHANGED_PATH_BYTES`].
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
        // The path is recorded as JSON.
        if path.as_os_str().is_empty() || path.as_os_str().len() > limits::CHANGED_PATH_BYTES || path.to_str().is_none()
        {
            return Err(ChangeError::BadPath { shown });
        }
        Ok(Self { folder: folder.into(), below: path, shown })
    }

    /// Returns the folder that the path cannot leave.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Resolves the links on the path, none of which may lead out of the folder. Components that do not exist are taken as
    /// written.
    pub(super) fn resolve(&self, last: FinalLinkPolicy) -> Result<ResolvedChangePath, ChangeError> {
        let shown = || self.shown.clone();
        let outside = || ChangeError::Outside { shown: shown() };
        let unreadable = ChangeError::io(&self.shown, "examined");
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
                    // A dangling link counts as leading out of the folder.
                    real = real.canonicalize().map_err(|_| outside())?;
                    if !real.starts_with(&self.folder) || real == self.folder && parts.peek().is_none() {
                        return Err(outside());
                    }
                }
                Ok(found) if !found.is_dir() && parts.peek().is_some() => {
                    return Err(ChangeError::WrongKind {
                        shown: shown(),
                        is: "below a file",
                        wanted: "a path in a folder",
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
    /// Returns a folder above it, shown by its absolute path.
    pub fn above(&self, folder: &Path) -> Self {
        Self { real: folder.to_owned(), shown: legible(&folder.to_string_lossy()) }
    }

    /// Returns the folder that contains it, and its name.
    pub fn parts(&self) -> io::Result<(&Path, &str)> {
        let name = self.real.file_name().and_then(|name| name.to_str());
        self.real.parent().zip(name).ok_or_else(|| io::Error::other("the path has no file name"))
    }
}
