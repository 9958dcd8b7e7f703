use std::{
    io,
    path::{Path, PathBuf},
};

use super::{authorship::Authorship, session_header::VERSION};
use shelly_core::{
    error::{ErrorKind, Report, without_number},
    trust::TrustError,
};

/// The reason for which sessions cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum SessionError {
    /// No session has this name or a name that begins with it.
    #[error("there is no session `{given}`")]
    NotFound { given: String },
    /// Several session names begin with the given text; `some` holds some of them.
    #[error("several sessions begin with `{given}`")]
    Ambiguous { given: String, some: Vec<String> },
    /// A name that no session can have.
    #[error("`{given}` cannot be the name of a session")]
    BadName { given: String },
    /// A session of this name exists. `in_use`: a process writes to it.
    #[error("there is a session `{id}`")]
    Exists { id: String, in_use: bool },
    /// A process writes to the session, this one or another.
    #[error("the session `{id}` is in use")]
    InUse { id: String },
    /// A newer release wrote the session in an unknown format.
    #[error("{} needs a newer shelly-host: its format is {version}, and this one reads up to {VERSION}", path.display())]
    Newer { path: PathBuf, version: u64 },
    /// The content is not what was written. `line` counts from 1; `byte` is the offset of that line.
    #[error("{} is damaged at line {line}, byte {byte}", path.display())]
    Damaged { path: PathBuf, line: u64, byte: u64, reason: String },
    /// The line does not exist: the last one has the number `last`.
    #[error("the session `{id}` has no line {at}")]
    NoLine { id: String, at: u64, last: u64 },
    /// The number of sessions has reached its limit.
    #[error("there are {there} sessions, and no more than {most} may be kept")]
    TooMany { there: usize, most: usize },
    /// The sessions have reached their size limit.
    #[error("all sessions take {there} bytes, and no more than {most} may be used")]
    TooLarge { there: u64, most: u64 },
    /// A link, or another unexpected object, stands in the place of a file or a folder.
    #[error("{} is not what it should be", path.display())]
    NotOurs { path: PathBuf, reason: String },
    /// The session was not created here by this person, who has not accepted it. `has_key`: there is a location for the
    /// person's key, which the check needs.
    #[error("the session `{id}` {}", not_own(*authorship))]
    NotOwn { id: String, has_key: bool, authorship: Authorship },
    /// The lines differ from those about which the person was asked.
    #[error("the session `{id}` was changed while you were asked about it")]
    ChangedSinceReview { id: String },
    /// The key that identifies a person's sessions cannot be used.
    #[error(transparent)]
    Key(#[from] TrustError),
    /// The disk returned an error. `doing` is the attempted operation, such as `read`.
    #[error("cannot {doing} {}", path.display())]
    Disk { doing: &'static str, path: PathBuf, error: io::Error },
}

impl SessionError {
    /// Returns the error as a report with causes and a hint.
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
                    // No line precedes the header.
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
            // Handled above.
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

/// Returns a function that wraps an I/O error on `path`.
pub(super) fn disk(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionError {
    let path = path.to_owned();
    move |error| SessionError::Disk { doing, path, error }
}
