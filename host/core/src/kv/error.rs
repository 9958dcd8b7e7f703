use std::path::PathBuf;

use crate::{error::Fault, limits};

/// The reason for which a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum KvError {
    #[error("the key has {bytes} bytes; use 1 to {}", limits::KV_KEY_BYTES)]
    BadKey { bytes: usize },
    #[error("the value has {bytes} bytes, the maximum is {}; split it", limits::KV_VALUE_BYTES)]
    ValueTooLarge { bytes: usize },
    #[error(
        "with this write the store would have {would} bytes of keys and values, its quota is {most}; remove some \
         entries"
    )]
    Full { would: u64, most: u64 },
    #[error("the store has reached its quota of {most} keys; remove some entries")]
    TooManyKeys { most: usize },
    #[error(
        "all stores in memory together have reached their maximum of {most} bytes; remove some entries, or retry when \
         other runs have ended"
    )]
    NoMemory { most: usize },
    #[error("the key-value store {} is damaged at byte {at}: {reason}; to begin with an empty store, move the file \
             away (the plugin loses its content)", path.display())]
    Damaged { path: PathBuf, at: u64, reason: &'static str },
    #[error("another process has locked the key-value store {} for {} seconds; retry when that process has ended", path.display(), limits::KV_LOCK_TIME.as_secs())]
    InUse { path: PathBuf },
    #[error("cannot {what} the key-value store {}: {reason}", path.display())]
    Disk { what: &'static str, path: PathBuf, reason: String },
    #[error("cannot use a key-value store in the cluster: {reason}")]
    Cluster { reason: String },
}

impl KvError {
    /// Returns `true` for errors that only the operator can fix: the store is damaged, in use or inaccessible.
    pub fn is_of_operator(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::InUse { .. } | Self::Disk { .. } | Self::Cluster { .. })
    }

    /// Converts the error for the user of the store, without the path of the store on this machine.
    pub fn fault(&self) -> Fault {
        let unavailable = |why: &str| Fault::Unavailable {
            message: format!("the key-value store is unavailable: {why}; the operator was told its path"),
            after: None,
        };
        let message = self.to_string();
        match self {
            Self::BadKey { .. } => Fault::Invalid { message },
            Self::ValueTooLarge { .. } => Fault::TooLarge { message },
            Self::Full { .. } | Self::TooManyKeys { .. } | Self::NoMemory { .. } => Fault::Exhausted { message },
            Self::Damaged { .. } => unavailable("its file is damaged"),
            Self::InUse { .. } => unavailable("another process has locked it"),
            Self::Disk { .. } => unavailable("disk error"),
            Self::Cluster { .. } => Fault::Unavailable {
                message:
                    "the key-value store is unavailable: the cluster does not answer, or has a damaged entry; the \
                          operator was told the reason"
                        .into(),
                after: None,
            },
        }
    }
}
