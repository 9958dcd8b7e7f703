use std::{
    io,
    path::{Path, PathBuf},
};

use super::{Authorship, format::VERSION};
use crate::{
    error::{ErrorKind, Report, without_number},
    trust::TrustError,
};

/// Why sessions cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum SessionError {
    /// No session has this name, and none begins with it.
    #[error("there is no session `{given}`")]
    NotFound { given: String },
    /// Several sessions begin with what was given. `some` of them.
    #[error("several sessions begin with `{given}`")]
    Ambiguous { given: String, some: Vec<String> },
    /// A name that no session can have.
    #[error("`{given}` cannot be the name of a session")]
    BadName { given: String },
    /// There is one of this name, which somebody may write to.
    #[error("there is a session `{id}`")]
    Exists { id: String, in_use: bool },
    /// Another process writes to it, or this one does.
    #[error("the session `{id}` is in use")]
    InUse { id: String },
    /// Another release wrote it, whose format is not known here.
    #[error("{} needs a newer shelly-host: its format is {version}, and this one reads up to {VERSION}", path.display())]
    Newer { path: PathBuf, version: u64 },
    /// Something in it is not what was written. `line` counts from 1, `byte` is where that line begins.
    #[error("{} is damaged at line {line}, byte {byte}", path.display())]
    Damaged { path: PathBuf, line: u64, byte: u64, reason: String },
    /// There is no such line: the last one has the number `last`.
    #[error("the session `{id}` has no line {at}")]
    NoLine { id: String, at: u64, last: u64 },
    /// No more sessions may be made.
    #[error("there are {there} sessions, and no more than {most} may be kept")]
    TooMany { there: usize, most: usize },
    /// The sessions fill what they may fill.
    #[error("all sessions take {there} bytes, and no more than {most} may be used")]
    TooLarge { there: u64, most: u64 },
    /// A link, or something else that was not expected, stands in the place of a file or a folder.
    #[error("{} is not what it should be", path.display())]
    NotOurs { path: PathBuf, reason: String },
    /// It was not made here by this person, who has not said that it may be gone on with. `has_key`: whether there is a
    /// place for the key by which that is known.
    #[error("the session `{id}` {}", not_own(*authorship))]
    NotOwn { id: String, has_key: bool, authorship: Authorship },
    /// Its lines are not those about which the person was asked.
    #[error("the session `{id}` was changed while you were asked about it")]
    ChangedSinceReview { id: String },
    /// The key by which a person's sessions are known cannot be used.
    #[error(transparent)]
    Key(#[from] TrustError),
    /// The disk says no. `doing` is what was tried, such as `read`.
    #[error("cannot {doing} {}", path.display())]
    Disk { doing: &'static str, path: PathBuf, error: io::Error },
}

impl SessionError {
    /// As a person reads it.
    pub fn report(&self) -> Report {
        if let Self::Key(error) = self {
            return error.report();
        }
        let kind = match self {
            Self::Disk { .. } | Self::Damaged { .. } => ErrorKind::Run,
            _ => ErrorKind::Usage,
        };
        let report = Report::new(kind, self.to_string());
        match self {
            Self::NotFound { .. } => report.hint("`shelly-host session list` shows those that there are"),
            Self::Ambiguous { some, .. } => {
                report.cause(format!("such as {}", some.join(", "))).hint("write more of its name")
            }
            Self::BadName { .. } => report
                .cause("a name has 1 to 64 of A-Z a-z 0-9 . _ - and begins with none of . and -")
                .hint("choose another name"),
            Self::Exists { in_use: true, .. } => report
                .cause("it is in use: a process writes to it")
                .hint("wait until it has ended, or choose another name"),
            Self::Exists { in_use: false, .. } => report.hint("resume it, or choose another name"),
            Self::InUse { id } => report
                .cause("a process writes to it")
                .hint(format!("wait until it has ended, or go on with a copy: `shelly-host session fork {id}`")),
            Self::Newer { .. } => report.hint("update shelly-host; nothing was changed"),
            Self::Damaged { path, line, reason, .. } => {
                let session = path.parent().and_then(Path::file_name).unwrap_or_default().display();
                report.cause(reason).hint(match line {
                    // There is nothing before its header.
                    1 => format!("it cannot be opened; `shelly-host session rm {session}` removes it"),
                    _ => format!(
                        "`shelly-host session resume {session} --up-to-damage` goes on from there; what follows is kept \
                         in a copy"
                    ),
                })
            }
            Self::NoLine { last, .. } => report.hint(format!("its lines are 1 to {last}")),
            Self::TooMany { .. } | Self::TooLarge { .. } => {
                report.hint("remove some: `shelly-host session prune --keep 20 --dry-run` shows which")
            }
            Self::NotOwn { id, has_key, authorship } => {
                let why = match (has_key, authorship) {
                    (_, Authorship::Altered { .. }) => {
                        "somebody who does not have your key has written to it: another person, or a plugin that may write there"
                    }
                    (true, Authorship::FirstLine) => {
                        "you began it with an earlier release, whose mark says nothing of what was written to it since"
                    }
                    (true, _) => "it has no mark of yours: it may have come with the project, or have had another name",
                    (false, _) => {
                        "there is no place for the key by which yours are known: neither XDG_STATE_HOME nor HOME is set"
                    }
                };
                let look = format!("look at it with `shelly-host session show {id}`");
                report
                    .cause(why)
                    .cause("whoever wrote it says what was said, and which calls of tools are made when it goes on")
                    .hint(format!(
                        "{look}; go on with it at a terminal, where you are asked, or for this run with --trust"
                    ))
            }
            Self::ChangedSinceReview { id } => {
                report.hint(format!("look at it with `shelly-host session show {id}`, and resume it again"))
            }
            // Told above.
            Self::Key(_) => report,
            Self::NotOurs { reason, .. } => report.cause(reason).hint("remove what stands there, if it is not yours"),
            Self::Disk { error, .. } => {
                let report = report.cause(without_number(&error.to_string()));
                match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        report.hint("free space: `shelly-host session prune --keep 20 --dry-run` shows what could go")
                    }
                    _ => report.hint("check who may read and write there"),
                }
            }
        }
    }
}

fn not_own(authorship: Authorship) -> String {
    match authorship {
        Authorship::Altered { line } => {
            format!("was changed since you wrote it: line {line} of its journal is not yours")
        }
        _ => "was not made here by you, as far as can be told".into(),
    }
}

/// Makes errors of the disk.
pub(super) fn disk(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionError {
    let path = path.to_owned();
    move |error| SessionError::Disk { doing, path, error }
}
