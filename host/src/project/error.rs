use std::{io, path::PathBuf};

use crate::error::{ErrorKind, Report, without_number};

/// The reason for which a project's folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ProjectError {
    /// The folder of the project does not exist; it is never created.
    #[error("{} cannot be a project folder", root.display())]
    NoRoot { root: PathBuf, reason: String },
    /// A file or a folder cannot be created or changed.
    #[error("cannot write {}", path.display())]
    Unwritable { path: PathBuf, reason: String },
    /// The permissions cannot be read.
    #[error("cannot read the permissions {}", path.display())]
    Unreadable { path: PathBuf, reason: String },
    /// The permissions are malformed.
    #[error("the permissions {} are damaged", path.display())]
    Damaged { path: PathBuf, reason: String },
}

impl ProjectError {
    /// Returns the error as a report with causes and a hint.
    pub fn report(&self) -> Report {
        let report = Report::new(ErrorKind::Usage, self.to_string());
        match self {
            Self::NoRoot { reason, .. } => report.cause(reason).hint("create the folder, or name another one"),
            Self::Unwritable { reason, .. } => report
                .cause(reason)
                .hint("check the permissions of the path, and that no other file or link is in its place"),
            Self::Unreadable { reason, .. } => {
                report.cause(reason).hint("make the file readable, or remove it; you are then asked again")
            }
            Self::Damaged { reason, .. } => report
                .cause(reason)
                .hint("repair the file, or remove it; nothing is trusted then, and you are asked again"),
        }
    }
}

/// Returns the error of a path that cannot be written.
pub(super) fn unwritable(path: PathBuf, error: &io::Error) -> ProjectError {
    ProjectError::Unwritable { path, reason: without_number(&error.to_string()) }
}
