//! The reasons for which stored content is not opened.

/// The reason for which stored content is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum SealError {
    /// The content is encrypted with a key that this host does not have.
    #[error("{what} is encrypted with the key {key}, which this host does not have")]
    NoKey { what: String, key: String },
    /// The content is plain, and plain content is not accepted.
    #[error("{what} is not encrypted, although this host has a key")]
    Plain { what: String },
    /// The content is not what the holder of the key has stored at this place.
    #[error("{what} does not open with the key {key}: it was changed, or moved from another place")]
    Changed { what: String, key: String },
    /// A later version of this program has encrypted it.
    #[error("{what} is encrypted in version {version} of the form, which this shelly-host does not read")]
    Newer { what: String, version: u8 },
    /// The system has no random numbers, or the content is too long.
    #[error("{what} cannot be encrypted")]
    Failed { what: String },
}

impl SealError {
    /// Returns the words that say what to do.
    pub fn mend(&self) -> &'static str {
        match self {
            Self::NoKey { .. } => "name the file of this key under cluster.encryption, as key or among old_keys",
            Self::Plain { .. } => {
                "find out who wrote it; to use plain content all the same, set cluster.encryption.accept_plain to true"
            }
            Self::Changed { .. } => "do not use it; ask whoever runs the NATS server, and restore it from a copy",
            Self::Newer { .. } => "use the newest shelly-host of the cluster's hosts",
            Self::Failed { .. } => "try again",
        }
    }
}
