use std::{io, path::PathBuf};

use crate::error::{ErrorKind, Report, without_number};

/// The reason for which a project's folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ProjectError {
    /// The folder of the project does not exist; it is never created.
    #[error("{} is not a project's folder", root.display())]
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
            Self::NoRoot { reason, .. } => report.cause(reason).hint("make the folder, or name another"),
            Self::Unwritable { reason, .. } => {
                report.cause(reason).hint("check who may write there, and that what stands in its place is yours")
            }
            Self::Unreadable { reason, .. } => {
                report.cause(reason).hint("change who may read it, or remove it: then you are asked again")
            }
            Self::Damaged { reason, .. } => {
                report.cause(reason).hint("mend it, or remove it: then nothing is trusted and you are asked again")
            }
        }
    }
}

/// Returns the error of a path that cannot be written.
pub(super) fn unwritable(path: PathBuf, error: &io::Error) -> ProjectError {
    ProjectError::Unwritable { path, reason: without_number(&error.to_string()) }
}
