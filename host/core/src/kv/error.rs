use std::path::PathBuf;

use crate::{error::Fault, limits};

/// The reason for which a store operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum KvError {
    #[error("a key has 1 to {} bytes, and this one has {bytes}", limits::KV_KEY_BYTES)]
    BadKey { bytes: usize },
    #[error("a value has at most {} bytes, and this one has {bytes}: divide it", limits::KV_VALUE_BYTES)]
    ValueTooLarge { bytes: usize },
    #[error(
        "the quota of this store is {most} bytes of keys and values, and with this write it would hold {would}: remove some"
    )]
    Full { would: u64, most: u64 },
    #[error("the quota of this store is {most} keys: remove some")]
    TooManyKeys { most: usize },
    #[error(
        "all stores in memory together hold at most {most} bytes: remove some, or try again when other runs have ended"
    )]
    NoMemory { most: usize },
    #[error("the key-value store {} is damaged at byte {at}: {reason}; it is left as it is: to begin \
         with an empty store move the file away, and what it holds is lost to the plugin", path.display())]
    Damaged { path: PathBuf, at: u64, reason: &'static str },
    #[error("another process has not let go of the key-value store {} for {} seconds", path.display(), limits::KV_LOCK_TIME.as_secs())]
    InUse { path: PathBuf },
    #[error("cannot {what} the key-value store {}: {reason}", path.display())]
    Disk { what: &'static str, path: PathBuf, reason: String },
}

impl KvError {
    /// Returns `true` for errors that only the operator can fix: the store is damaged, in use or inaccessible.
    pub fn is_of_operator(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::InUse { .. } | Self::Disk { .. })
    }

    /// Converts the error for the user of the store, without the path of the store on this machine.
    pub fn fault(&self) -> Fault {
        let unavailable = |why: &str| Fault::Unavailable {
            message: format!("the key-value store cannot be used: {why}; the operator is told where it is"),
            after: None,
        };
        let message = self.to_string();
        match self {
            Self::BadKey { .. } => Fault::Invalid { message },
            Self::ValueTooLarge { .. } => Fault::TooLarge { message },
            Self::Full { .. } | Self::TooManyKeys { .. } | Self::NoMemory { .. } => Fault::Exhausted { message },
            Self::Damaged { .. } => unavailable("it is damaged"),
            Self::InUse { .. } => unavailable("another process does not let go of it"),
            Self::Disk { .. } => unavailable("the disk says no"),
        }
    }
}
