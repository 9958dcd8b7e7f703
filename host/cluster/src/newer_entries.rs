//! Counts entries that a later version has written, which this one leaves alone.

use bytes::Bytes;
use serde::Deserialize;

use super::{
    cluster::Cluster,
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles},
    encryption::{SealKind, SealPlace},
    run_entry,
    run_streams::ScannedValue,
    seal_error::SealError,
    session_entry, worker_registry,
};

/// The number of entries that a later version of this program has written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NewerEntries {
    /// The runs: no worker of this version takes them.
    pub runs: usize,
    /// The workers.
    pub workers: usize,
    /// The sessions: they are listed without their content.
    pub sessions: usize,
}

impl Cluster {
    /// Returns the number of entries that a later version has written.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn newer_entries(&self) -> Result<NewerEntries, ClusterError> {
        let task = |handles: ClusterHandles| async move { handles.newer_entries().await };
        self.shared.call("read the versions in", &self.options().namespace, task).await
    }
}

impl ClusterHandles {
    async fn newer_entries(&self) -> Result<NewerEntries, ClusterCallError> {
        let mut newer = NewerEntries::default();
        let (streams, workers) = (self.run_streams().await?, self.workers().await?);
        let parts = [
            (&streams.entries, Some(SealKind::Run), run_entry::VERSION, &mut newer.runs),
            (workers, None, worker_registry::VERSION, &mut newer.workers),
            (&self.entries, Some(SealKind::Session), session_entry::VERSION, &mut newer.sessions),
        ];
        for (store, sealed, known, count) in parts {
            let mut each = |found: ScannedValue| {
                let opened = match sealed {
                    Some(kind) => self.seals.open(SealPlace::new(kind, &found.key), &found.value),
                    None => Ok(found.value),
                };
                *count += usize::from(is_newer(&opened, known));
                true
            };
            self.scan(store, 0, &mut each).await?;
        }
        Ok(newer)
    }
}

/// Returns `true` if this is what a later version has written. What cannot be read for another reason is not.
fn is_newer(opened: &Result<Bytes, SealError>, known: u32) -> bool {
    #[derive(Deserialize)]
    struct EntryVersion {
        version: u32,
    }
    match opened {
        Ok(value) => serde_json::from_slice::<EntryVersion>(value).is_ok_and(|entry| entry.version > known),
        Err(error) => matches!(error, SealError::Newer { .. }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_versions_are_newer() {
        for (value, is_so) in [
            (r#"{"version":2,"another":"form"}"#, true),
            (r#"{"version":1}"#, false),
            ("{}", false),
            ("garbage", false),
        ] {
            assert_eq!(is_newer(&Ok(Bytes::from_static(value.as_bytes())), 1), is_so, "{value}");
        }
        let what = String::new();
        assert!(is_newer(&Err(SealError::Newer { what: what.clone(), version: 2 }), 1));
        assert!(!is_newer(&Err(SealError::Plain { what }), 1));
    }
}
