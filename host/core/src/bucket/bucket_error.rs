use crate::limits;

/// The reason for which an operation on a bucket failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum BucketError {
    #[error("the cluster does not answer: {reason}")]
    Unavailable { reason: String },
    #[error("the entry has {bytes} bytes, the maximum in a cluster is {}", limits::BUCKET_VALUE_BYTES)]
    TooLarge { bytes: usize },
    #[error("the key `{}` is not one of a bucket", key.escape_debug())]
    BadKey { key: String },
    /// The value is none of this program. Whoever knows its revision can replace it.
    #[error("the entry `{}` in the cluster is damaged: {reason}; remove it from the bucket", key.escape_debug())]
    Damaged { key: String, revision: u64, reason: String },
    #[error("the entry `{key}` was changed by others {} times in a row; retry", limits::BUCKET_ATTEMPTS)]
    Busy { key: String },
    #[error("there are more than {} keys in the cluster; remove some", limits::BUCKET_KEYS)]
    TooManyKeys,
}
