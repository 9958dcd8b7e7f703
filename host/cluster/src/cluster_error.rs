//! The failures of calls on a cluster.

use shelly_core::{
    error::{ErrorKind, Report},
    limits,
};

use super::seal_error::SealError;

/// The reason for which a cluster did not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ClusterError {
    /// No server can be connected to.
    #[error("cannot connect to {servers}: {reason}")]
    Unreachable { servers: String, reason: String },
    /// No server did it within the time for which calls are repeated.
    #[error("cannot {doing} {place}: {reason}")]
    Unavailable { doing: &'static str, place: String, reason: String },
    /// A server refused it.
    #[error("cannot {doing} {place}: {reason}")]
    Refused { doing: &'static str, place: String, reason: String },
    /// A part is larger than it may be.
    #[error("{what} has {bytes} bytes, more than {most}")]
    TooLarge { what: String, bytes: u64, most: u64 },
    /// A part is not in the form that it must have.
    #[error("{what}: {reason}")]
    Invalid { what: String, reason: String },
    /// A later version of this program has written it.
    #[error("{what} has version {version}, which this shelly-host does not read")]
    Newer { what: String, version: u32 },
    /// Content on the server is not used.
    #[error(transparent)]
    Sealed(#[from] SealError),
    /// The file of a key for content cannot be used.
    #[error("the key file {path} cannot be used: {reason}")]
    KeyFile { path: String, reason: String },
    /// There is no such thing.
    #[error("there is no {what}")]
    NotFound { what: String },
    /// Something else has this name.
    #[error("{what}: {reason}")]
    Conflict { what: String, reason: String },
    /// Another worker has the run now, or the run has ended.
    #[error("run {run} was taken by another worker, or has ended")]
    Lost { run: String },
    /// No worker answers commands for the run.
    #[error("no worker has the run {run} at this moment")]
    NotAtWork { run: String },
}

impl ClusterError {
    /// Returns the failure as it is shown to a person.
    pub fn report(&self) -> Report {
        let (kind, hint) = match self {
            Self::Unreachable { .. } => (
                ErrorKind::Run,
                "check cluster.nats and cluster.credentials, and that the server runs with JetStream".to_owned(),
            ),
            Self::Unavailable { .. } => {
                (ErrorKind::Run, "check that the NATS server runs, and that its permissions allow it".to_owned())
            }
            Self::Refused { .. } => (ErrorKind::Run, "check that the NATS server has room; try again later".to_owned()),
            Self::TooLarge { .. } => (ErrorKind::Usage, "make it smaller, or give it in files".to_owned()),
            Self::Invalid { .. } => (
                ErrorKind::Usage,
                "correct it; if it is on the server, another program has written it: remove it there".to_owned(),
            ),
            Self::Newer { .. } => (ErrorKind::Run, "use the newest shelly-host of the cluster's hosts".to_owned()),
            Self::Sealed(error) => (ErrorKind::Run, error.mend().to_owned()),
            Self::KeyFile { .. } => (
                ErrorKind::Usage,
                "make a key with `shelly-host cluster key FILE`, and give each host a copy".to_owned(),
            ),
            Self::NotFound { .. } => (
                ErrorKind::Usage,
                "it was removed, or never there; `shelly-host cluster runs` lists the runs that are".to_owned(),
            ),
            Self::Conflict { .. } => (ErrorKind::Usage, "use another id".to_owned()),
            Self::Lost { .. } => (ErrorKind::Run, "the other worker continues it; nothing is to be done".to_owned()),
            Self::NotAtWork { .. } => {
                (ErrorKind::Run, "it waits or has ended: `shelly-host cluster runs` shows its state".to_owned())
            }
        };
        Report::new(kind, self.to_string()).hint(hint)
    }

    /// Returns the failure of a part of this size.
    pub(crate) fn too_large(what: impl Into<String>, bytes: usize, most: usize) -> Self {
        Self::TooLarge { what: what.into(), bytes: bytes as u64, most: most as u64 }
    }

    /// Returns the failure of a part in a wrong form. The reason may be a server's: it is cut.
    pub(crate) fn invalid(what: impl Into<String>, reason: impl AsRef<str>) -> Self {
        let reason = shelly_core::error::cut(reason.as_ref(), limits::CLUSTER_REASON_CHARS);
        Self::Invalid { what: what.into(), reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_of_a_server_is_cut() {
        let long = "x".repeat(limits::CLUSTER_REASON_CHARS + 1);
        let ClusterError::Invalid { reason, .. } = ClusterError::invalid("run a", &long) else {
            panic!("another case")
        };
        assert_eq!(reason.chars().count(), limits::CLUSTER_REASON_CHARS + 1, "with the mark of the cut");
        assert!(reason.ends_with('…'));
    }

    #[test]
    fn report_names_the_place_and_the_mend() {
        let error = ClusterError::Unreachable { servers: "nats://h:1".into(), reason: "refused".into() };
        let shown = error.report().with_hint();
        assert!(shown.contains("nats://h:1") && shown.contains("cluster.nats"), "{shown}");
    }
}
