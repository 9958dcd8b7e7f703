//! The failures of calls on a cluster.

use shelly_core::{
    error::{ErrorKind, Report},
    limits,
};

use super::seal_error::SealError;

/// The words of a command to a run in [`ClusterError::Unavailable`].
pub(crate) const SENDING_A_COMMAND: &str = "send a command to";

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
            Self::Unreachable { reason, .. } => (ErrorKind::Run, connection_mend(reason).to_owned()),
            Self::Unavailable { doing, .. } if *doing == SENDING_A_COMMAND => (
                ErrorKind::Run,
                "the run may have just ended: `shelly-host cluster runs` shows its state; otherwise check that the NATS \
                 server of cluster.nats runs, and that its permissions allow it"
                    .to_owned(),
            ),
            Self::Unavailable { .. } => {
                let hint = "check that the NATS server of cluster.nats runs, and that its permissions allow it";
                (ErrorKind::Run, hint.to_owned())
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
                "make one with `shelly-host cluster key FILE` in a new file, and give each host a copy".to_owned(),
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

/// Returns the mend for a connection that was not made for this reason, which may be a server's.
pub(crate) fn connection_mend(reason: &str) -> &'static str {
    let has = |words: &str| reason.contains(words);
    if has("the credentials file") {
        return "name a file with a JWT and an NKey seed, as `nsc` writes it, under cluster.credentials";
    }
    if has("the certificates file") {
        return "name a file with certificates in PEM, which this host can read, under cluster.certificates";
    }
    if has("authorization violation") {
        return "name the credentials file of a user of this server under cluster.credentials; passwords and tokens are not \
                supported";
    }
    if has("jetstream unavailable") {
        return "start the server with JetStream, such as with `nats-server -js`, or allow it for the account";
    }
    if has("replicas > 1 not supported") {
        return "omit cluster.replicas: this server stands alone";
    }
    if has("invalid peer certificate") {
        return "name the certificate of the server's authority under cluster.certificates, and in cluster.nats a host \
                that the server's certificate is for";
    }
    if has("TLS error") {
        return "check the file that cluster.certificates names: it holds certificates in PEM";
    }
    if has("InvalidContentType") {
        return "the server has no TLS at this port: write nats:// instead of tls:// under cluster.nats, or give the \
                server a certificate";
    }
    "check cluster.nats and cluster.credentials, and that the server runs with JetStream"
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

    #[test]
    fn mend_of_a_connection_follows_from_the_reason() {
        for (reason, mend) in [
            ("authorization violation: nats: authorization violation", "passwords and tokens are not supported"),
            ("the credentials file /k/a.creds cannot be used: cannot parse user JWT", "as `nsc` writes it"),
            ("the certificates file /k/ca.pem cannot be used: No such file or directory", "which this host can read"),
            ("the stream shelly-a: jetstream unavailable", "with JetStream"),
            ("the stream shelly-a: jetstream error: replicas > 1 not supported in non-clustered mode", "replicas"),
            ("IO error: invalid peer certificate: UnknownIssuer", "cluster.certificates"),
            ("TLS error: No such file or directory", "cluster.certificates"),
            ("IO error: received corrupt message of type InvalidContentType", "no TLS at this port"),
            ("IO error: Connection refused", "check cluster.nats"),
        ] {
            let error = ClusterError::Unreachable { servers: "nats://h:1".into(), reason: reason.into() };
            let hint = error.report().hint.unwrap_or_default();
            assert!(hint.contains(mend), "{reason}: {hint}");
        }
    }

    #[test]
    fn lost_command_names_the_end_of_the_run() {
        let error = |doing| ClusterError::Unavailable { doing, place: "run a".into(), reason: "timed out".into() };
        let shown = error(SENDING_A_COMMAND).report().with_hint();
        assert!(shown.contains("cannot send a command to run a") && shown.contains("may have just ended"), "{shown}");
        assert!(!error("read").report().with_hint().contains("ended"));
    }
}
