//! State that hosts share besides sessions, in one bucket for each kind.

mod bucket_kind;
mod cluster_bucket;
mod session_state;
#[cfg(test)]
mod state_tests;
mod stored_value;

pub use bucket_kind::ClusterBucketKind;
pub use cluster_bucket::ClusterBucket;
pub(crate) use session_state::purge_session_state;
