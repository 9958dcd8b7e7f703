//! Removes from the server of a cluster the entries of old runs, and what no run needs any more.

use std::time::Duration;

use super::config_bundle::ConfigBundle;
use crate::{
    cluster::{Cluster, ClusterError, ObjectPruning, RunObjects, UnreadableRuns},
    error::{Report, count},
    limits,
};

/// The result of removing what is old.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPruning {
    /// The number of entries of runs that were removed.
    pub runs: usize,
    /// The objects.
    pub objects: ObjectPruning,
    /// The reason for which no object was looked at, if so.
    pub skipped: Option<String>,
    /// The runs whose entries cannot be read here, which stay.
    pub unreadable: UnreadableRuns,
}

impl ClusterPruning {
    /// Removes the entries of runs that ended longer ago than this, and then the config bundles, plugins and input
    /// files that no entry names. An object that is younger than [`limits::CLUSTER_OBJECT_KEPT`] stays: a run that
    /// needs it may be on its way. If it is not known what all runs need, all objects stay.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the server fails.
    pub async fn of(cluster: &Cluster, older_than: Duration) -> Result<Self, Report> {
        let runs = cluster.runs().remove_ended(older_than).await.map_err(|error| error.report())?;
        let mut unreadable = UnreadableRuns::default();
        let (objects, skipped) = match remove_unused(cluster, &mut unreadable).await? {
            Ok(objects) => (objects, None),
            Err(reason) => (ObjectPruning::default(), Some(reason)),
        };
        Ok(Self { runs, objects, skipped, unreadable })
    }
}

/// Removes the objects that no run needs; the inner error is the reason for which that is not known. Notes the runs whose
/// entries cannot be read.
async fn remove_unused(
    cluster: &Cluster,
    unreadable: &mut UnreadableRuns,
) -> Result<Result<ObjectPruning, String>, Report> {
    let report = |error: ClusterError| error.report();
    let found = match cluster.runs().objects().await {
        Err(error @ ClusterError::TooLarge { .. }) => return Ok(Err(error.to_string())),
        found => found.map_err(report)?,
    };
    let RunObjects { bundles, files, unreadable: not_read } = found;
    *unreadable = not_read;
    if unreadable.total() > 0 {
        let runs = count(unreadable.total() as u64, "run", "runs");
        return Ok(Err(format!("{runs} cannot be read here, and may need any of them")));
    }
    let objects = cluster.objects();
    if cluster.options().encryption.is_some() {
        // An object under a key that is not here has another name: it would look like one that no run needs.
        for digest in bundles.iter().chain(&files) {
            if !objects.is_stored(digest).await.map_err(report)? {
                let reason = "is not there, or is encrypted with a key that this host does not have";
                return Ok(Err(format!("the object {digest}, which a run needs, {reason}")));
            }
        }
    }
    let mut used = files;
    for digest in bundles {
        used.insert(digest);
        let list = match objects.get(&digest, limits::CLUSTER_BUNDLE_BYTES).await {
            // Its runs cannot begin either.
            Err(ClusterError::NotFound { .. }) => continue,
            Err(error @ (ClusterError::TooLarge { .. } | ClusterError::Invalid { .. } | ClusterError::Sealed(_))) => {
                return Ok(Err(error.to_string()));
            }
            list => list.map_err(report)?,
        };
        match ConfigBundle::parse(&list) {
            Ok(bundle) => used.extend(bundle.objects()),
            Err(reason) => return Ok(Err(reason)),
        }
    }
    objects.remove_unused(used, limits::CLUSTER_OBJECT_KEPT).await.map(Ok).map_err(report)
}
