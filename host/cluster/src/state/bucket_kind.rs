//! The buckets of a namespace.

use std::time::Duration;

use shelly_core::limits;

/// The kinds of state that have a bucket each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterBucketKind {
    /// The key-value stores of plugins.
    Kv,
    /// Notes and reflections.
    Notes,
    /// Blackboards and task boards.
    Boards,
    /// The requests and tokens of the last minute, by provider.
    Rates,
}

impl ClusterBucketKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kv => "kv",
            Self::Notes => "notes",
            Self::Boards => "boards",
            Self::Rates => "rates",
        }
    }

    /// Returns the name of the bucket in a namespace.
    pub(super) fn bucket(self, namespace: &str) -> String {
        format!("shelly-{namespace}-{}", self.name())
    }

    /// Returns the time after which entries end by themselves; zero: never.
    pub(super) fn max_age(self) -> Duration {
        match self {
            Self::Rates => limits::RATE_SHARE_KEPT,
            Self::Kv | Self::Notes | Self::Boards => Duration::ZERO,
        }
    }
}
