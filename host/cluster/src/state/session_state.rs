//! Entries of a session in the buckets.

use shelly_core::bucket::bucket_key_part;

use super::bucket_kind::ClusterBucketKind;
use crate::connection::{ClusterCallError, ClusterHandles};

/// Removes what belongs to a session from the buckets of plugins and boards, if they exist.
pub(crate) async fn purge_session_state(handles: &ClusterHandles, id: &str) -> Result<(), ClusterCallError> {
    for kind in [ClusterBucketKind::Kv, ClusterBucketKind::Boards] {
        let Ok(store) = handles.context.get_key_value(kind.bucket(&handles.options.namespace)).await else { continue };
        let subject = format!("{}session.{}.>", store.prefix, bucket_key_part(id));
        let purged = handles.retry(|| store.stream.purge().filter(&subject).into_future(), |_| false).await;
        purged.map_err(ClusterCallError::failed)?;
    }
    Ok(())
}
