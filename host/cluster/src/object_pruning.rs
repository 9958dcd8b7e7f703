//! Removes objects that nothing refers to.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use async_nats::jetstream::{object_store::ObjectInfo, stream::Stream};
use shelly_core::{digest::Sha256Digest, limits};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, is_answer},
    object_storage::{ObjectStorage, age_of, is_part_name, objects_bucket},
    run_queue::RunQueue,
    run_streams::ScannedValue,
    unreadable_runs::UnreadableRuns,
};

/// The objects that the entries of runs name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunObjects {
    /// The config bundles, which name further objects.
    pub bundles: BTreeSet<Sha256Digest>,
    /// The input files.
    pub files: BTreeSet<Sha256Digest>,
    /// The runs whose entries cannot be read, such as those of a later version: what they name is not known.
    pub unreadable: UnreadableRuns,
}

/// The result of removing unused objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectPruning {
    /// The number of objects that were removed.
    pub removed: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The number of objects that stay.
    pub kept: usize,
}

impl RunObjects {
    /// Returns `true` if there are more than a host looks at.
    fn is_too_long(&self) -> bool {
        self.bundles.len() + self.files.len() > limits::CLUSTER_OBJECTS_LISTED
    }
}

impl RunQueue {
    /// Returns the objects that the entries of all runs name.
    ///
    /// # Errors
    ///
    /// [`ClusterError::TooLarge`] if they are more than [`limits::CLUSTER_OBJECTS_LISTED`], and if the server fails.
    pub async fn objects(&self) -> Result<RunObjects, ClusterError> {
        let shared = self.shared();
        let task = |handles: ClusterHandles| async move { handles.run_objects().await };
        shared.call("list the runs of", &shared.options().namespace, task).await
    }
}

impl ObjectStorage {
    /// Removes the objects that are older than this age, at least [`limits::CLUSTER_OBJECT_KEPT`], and that are not among
    /// those that are used.
    ///
    /// A run may be submitted at the same time. Whoever stores an object that is there already stores it again if it is
    /// older than half of that age, and an object that was stored again meanwhile is not removed.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails; some may be removed then.
    pub async fn remove_unused(
        &self,
        used: BTreeSet<Sha256Digest>,
        older_than: Duration,
    ) -> Result<ObjectPruning, ClusterError> {
        let shared = self.shared();
        let age = older_than.max(limits::CLUSTER_OBJECT_KEPT);
        let task = move |handles: ClusterHandles| async move {
            handles.prune_objects(&used, age, limits::CLUSTER_OBJECTS_LISTED).await
        };
        shared.call("remove objects of", &shared.options().namespace, task).await
    }
}

impl ClusterHandles {
    async fn run_objects(&self) -> Result<RunObjects, ClusterCallError> {
        let streams = self.run_streams().await?;
        let mut all = RunObjects::default();
        let mut each = |found: ScannedValue| {
            match self.open_run(&found.key, &found.value) {
                Ok(stored) => {
                    all.bundles.extend(stored.entry.spec.bundle);
                    all.files.extend(stored.entry.spec.files.iter().map(|file| file.digest));
                }
                Err(error) => all.unreadable.note(&found.key, &error),
            }
            !all.is_too_long()
        };
        self.scan(&streams.entries, 0, &mut each).await?;
        match all.is_too_long() {
            true => {
                let (count, most) = (all.bundles.len() + all.files.len(), limits::CLUSTER_OBJECTS_LISTED);
                Err(ClusterError::too_large("the list of objects that runs name", count, most).into())
            }
            false => Ok(all),
        }
    }

    /// Removes objects of at least this age that are not used, among the first `most` that the server has.
    pub(crate) async fn prune_objects(
        &self,
        used: &BTreeSet<Sha256Digest>,
        age: Duration,
        most: usize,
    ) -> Result<ObjectPruning, ClusterCallError> {
        let bucket = objects_bucket(&self.options.namespace);
        // Without the bucket, nobody has stored an object.
        let Ok(stream) = self.context.get_stream(format!("OBJ_{bucket}")).await else {
            return Ok(ObjectPruning::default());
        };
        let used: HashSet<String> = used.iter().flat_map(|digest| self.object_names(digest)).collect();
        let (mut pruning, mut from) = (ObjectPruning::default(), 1);
        // Another description may name the parts of an object that stays: so it is known first what stays.
        let (mut unused, mut kept_parts) = (Vec::new(), HashSet::new());
        let descriptions = format!("$O.{bucket}.M.>");
        for _ in 0..most {
            let next = self.retry(|| stream.get_first_raw_message_by_subject(&descriptions, from), is_answer).await;
            let message = match next {
                Ok(message) => message,
                Err(error) if is_answer(&error) => break,
                Err(error) => return Err(ClusterCallError::failed(error)),
            };
            from = message.sequence.saturating_add(1);
            // What is no description was put there by another program.
            let Ok(info) = serde_json::from_slice::<ObjectInfo>(&message.payload) else { continue };
            let is_old = age_of(message.time.unix_timestamp()).is_some_and(|since| since >= age);
            if !is_old || (used.contains(&info.name) && !info.deleted) {
                pruning.kept += 1;
                kept_parts.extend(Some(info.nuid).filter(|parts| is_part_name(parts)));
                continue;
            }
            // A server stores what is published at a subject with a wildcard. As a pattern it would be all descriptions.
            if !message.subject.as_str().contains(['*', '>']) {
                let parts = Some(info.nuid).filter(|parts| is_part_name(parts));
                let bytes = (!info.deleted).then_some(info.size as u64);
                unused.push((message.subject, message.sequence, parts, bytes));
            }
        }
        for (subject, sequence, parts, bytes) in unused {
            let parts = parts.filter(|parts| !kept_parts.contains(parts));
            self.remove_object(&stream, (&bucket, subject.as_str(), sequence), parts.as_deref()).await?;
            if let Some(bytes) = bytes {
                pruning.removed += 1;
                pruning.bytes = pruning.bytes.saturating_add(bytes);
            }
        }
        Ok(pruning)
    }

    /// Removes a description up to this sequence, and the parts of this name: one that was stored since stays.
    async fn remove_object(
        &self,
        stream: &Stream,
        (bucket, subject, sequence): (&str, &str, u64),
        parts: Option<&str>,
    ) -> Result<(), ClusterCallError> {
        let before = sequence.saturating_add(1);
        let purge = || stream.purge().sequence(before).filter(subject).into_future();
        self.retry(purge, |_| false).await.map_err(ClusterCallError::failed)?;
        let Some(parts) = parts else { return Ok(()) };
        let parts = format!("$O.{bucket}.C.{parts}");
        let purge = || stream.purge().filter(&parts).into_future();
        self.retry(purge, |_| false).await.map(drop).map_err(ClusterCallError::failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_used_objects_is_bounded() {
        let mut all = RunObjects { bundles: BTreeSet::from([Sha256Digest::of("bundle")]), ..RunObjects::default() };
        all.files.extend((1..limits::CLUSTER_OBJECTS_LISTED).map(|n| Sha256Digest::of(n.to_le_bytes())));
        assert!(!all.is_too_long());
        all.files.insert(Sha256Digest::of("one more"));
        assert!(all.is_too_long());
    }
}
