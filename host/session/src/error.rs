use std::{
    io,
    path::{Path, PathBuf},
};

use super::{authorship::Authorship, session_header::VERSION};
use shelly_core::{
    error::{ErrorKind, Report, RequestObstacle, without_number},
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
    #[error("invalid session name `{given}`")]
    BadName { given: String },
    /// A session of this name exists. `in_use`: a process writes to it.
    #[error("session `{id}` already exists")]
    Exists { id: String, in_use: bool },
    /// A process writes to the session, this one or another.
    #[error("session `{id}` is in use")]
    InUse { id: String },
    /// A newer release wrote the session in an unknown format.
    #[error("{} needs a newer shelly-host: its format has version {version}, this shelly-host reads up to version \
             {VERSION}", path.display())]
    Newer { path: PathBuf, version: u64 },
    /// The content is not what was written. `line` counts from 1; `byte` is the offset of that line.
    #[error("{} is damaged at line {line}, byte {byte}", path.display())]
    Damaged { path: PathBuf, line: u64, byte: u64, reason: String },
    /// The line does not exist: the last one has the number `last`.
    #[error("session `{id}` has no line {at}")]
    NoLine { id: String, at: u64, last: u64 },
    /// The number of sessions has reached its limit.
    #[error("there are {there} sessions, the maximum is {most}")]
    TooMany { there: usize, most: usize },
    /// The sessions have reached their size limit.
    #[error("all sessions take {there} bytes, the maximum is {most}")]
    TooLarge { there: u64, most: u64 },
    /// A link, or another unexpected object, stands in the place of a file or a folder.
    #[error("{} is not a part of a session", path.display())]
    NotOurs { path: PathBuf, reason: String },
    /// The session was not created here by this person, who has not accepted it. `has_key`: there is a location for the
    /// person's key, which the check needs.
    #[error("session `{id}` {}", not_own(*authorship))]
    NotOwn { id: String, has_key: bool, authorship: Authorship },
    /// The lines differ from those about which the person was asked.
    #[error("session `{id}` was changed while you were asked about it")]
    ChangedSinceReview { id: String },
    /// The key that identifies a person's sessions cannot be used.
    #[error(transparent)]
    Key(#[from] TrustError),
    /// The process does not hold the right to write to the session any more: its lease ran out and another process took
    /// it, or another process appended to it.
    #[error("session `{id}` is written by another process now")]
    LeaseLost { id: String },
    /// A storage that is not a disk failed. `doing` is the attempted operation, `mend` is a hint. `is_unusable`: the
    /// content is there, and this host cannot use it, such as without its key.
    #[error("cannot {doing} {place}")]
    Storage { doing: &'static str, place: String, reason: String, mend: String, is_unusable: bool },
    /// The disk returned an error. `doing` is the attempted operation, such as `read`.
    #[error("cannot {doing} {}", path.display())]
    Disk { doing: &'static str, path: PathBuf, error: io::Error },
}

impl SessionError {
    /// Returns `true` if another host may be able to use the content that is there, and this one is not: it lacks a key, or
    /// is too old for it. Trying again here does not help.
    pub fn is_unusable(&self) -> bool {
        match self {
            Self::Newer { .. } => true,
            Self::Storage { is_unusable, .. } => *is_unusable,
            _ => false,
        }
    }

    /// Returns the state that stands in the way of a request to use the session.
    fn obstacle(&self) -> Option<RequestObstacle> {
        match self {
            Self::InUse { .. } | Self::Exists { in_use: true, .. } | Self::LeaseLost { .. } => {
                Some(RequestObstacle::InUse)
            }
            Self::TooMany { .. } | Self::TooLarge { .. } => Some(RequestObstacle::Full),
            Self::Disk { error, .. } => {
                let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                is_full.then_some(RequestObstacle::Full)
            }
            Self::Storage { .. } => Some(RequestObstacle::Unavailable),
            _ => None,
        }
    }

    /// Returns the error as a report with causes and a hint.
    pub fn report(&self) -> Report {
        if let Self::Key(error) = self {
            return error.report();
        }
        let kind = match self {
            Self::Disk { .. } | Self::Damaged { .. } | Self::LeaseLost { .. } | Self::Storage { .. } => ErrorKind::Run,
            _ => ErrorKind::Usage,
        };
        let report = Report::new(kind, self.to_string());
        let report = self.obstacle().into_iter().fold(report, Report::obstacle);
        match self {
            Self::NotFound { .. } => report.hint("list the sessions with `shelly-host session list`"),
            Self::Ambiguous { some, .. } => {
                report.cause(format!("such as {}", some.join(", "))).hint("write more of the name")
            }
            Self::BadName { .. } => report
                .cause("a name has 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with . or -")
                .hint("choose another name"),
            Self::Exists { in_use: true, .. } => {
                report.cause("a process writes to it").hint("wait until that process has ended, or choose another name")
            }
            Self::Exists { in_use: false, .. } => report.hint("resume it, or choose another name"),
            Self::InUse { id } => report.cause("a process writes to it").hint(format!(
                "wait until that process has ended, or continue with a copy: `shelly-host session fork {id}`"
            )),
            Self::LeaseLost { id } => report
                .cause("this process could not refresh its lease in time, or another one took the session")
                .hint(format!(
                    "nothing more is written here; wait until the other process has ended, then run `shelly-host session \
                     resume {id}`"
                )),
            Self::Storage { reason, mend, .. } => report.cause(without_number(reason)).hint(mend.as_str()),
            Self::Newer { .. } => report.hint("update shelly-host; nothing was changed"),
            Self::Damaged { path, line, reason, .. } => {
                let session = path.parent().and_then(Path::file_name).unwrap_or_default().display();
                report.cause(reason).hint(match line {
                    // No line precedes the header.
                    1 => format!("the session cannot be opened; remove it with `shelly-host session rm {session}`"),
                    _ => format!(
                        "continue from before the damage with `shelly-host session resume {session} --up-to-damage`, \
                         which keeps a copy of the journal"
                    ),
                })
            }
            Self::NoLine { last, .. } => report.hint(format!("use a line from 1 to {last}")),
            Self::TooMany { .. } | Self::TooLarge { .. } => {
                report.hint("remove some; `shelly-host session prune --keep 20 --dry-run` shows which")
            }
            Self::NotOwn { id, has_key, authorship } => {
                let why = match (has_key, authorship) {
                    (_, Authorship::Altered { .. }) => {
                        "somebody without your key has written to it: another person, or a plugin that can write to \
                         its folder"
                    }
                    (true, Authorship::FirstLine) => {
                        "you created it with an earlier release, whose mark does not cover the lines written since"
                    }
                    (true, _) => "it does not have your mark: it may have come with the project, or was renamed",
                    (false, _) => {
                        "there is no folder for the key that authenticates your sessions: neither XDG_STATE_HOME nor \
                         HOME is set"
                    }
                };
                let look = format!("inspect it with `shelly-host session show {id}`");
                report
                    .cause(why)
                    .cause(
                        "its author decides what its conversation says, and which tool calls are made when it is \
                         resumed",
                    )
                    .hint(format!("{look}; resume it at a terminal, where you are asked, or for this run with --trust"))
            }
            Self::ChangedSinceReview { id } => {
                report.hint(format!("inspect it with `shelly-host session show {id}`, and resume it again"))
            }
            // Handled above.
            Self::Key(_) => report,
            Self::NotOurs { reason, .. } => report.cause(reason).hint("remove it if it is not yours"),
            Self::Disk { error, .. } => {
                let report = report.cause(without_number(&error.to_string()));
                match error.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => report
                        .hint("free space; `shelly-host session prune --keep 20 --dry-run` shows what can be removed"),
                    _ => report.hint("check the permissions of the path"),
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
        _ => "was not created by you on this machine, as far as can be verified".into(),
    }
}

/// Returns a function that wraps an I/O error on `path`.
pub(super) fn disk(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SessionError {
    let path = path.to_owned();
    move |error| SessionError::Disk { doing, path, error }
}
