//! Runs that are put into the queue.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

use crate::{
    capability::Budget,
    chat::MediaData,
    cluster::{Cluster, RunPriority, RunSpec, SpecFile, Submission},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    limits,
    task::AttachedFile,
};

/// A run that is to be put into the queue.
#[derive(Debug, Clone)]
pub struct RunSubmission {
    /// Its id. A second run of the same id and content is the first one.
    pub id: String,
    /// The session; `None`: one with the id of the run.
    pub session: Option<String>,
    /// The agent or team; `None`: that of the config.
    pub agent: Option<String>,
    /// The model; `None`: that of each agent.
    pub model: Option<String>,
    /// The task; `None`: the interrupted run of the session goes on.
    pub task: Option<String>,
    /// The files of the task.
    pub attachments: Vec<AttachedFile>,
    /// The JSON Schema of the answer.
    pub schema: Option<Value>,
    /// The config bundle, which is uploaded already; `None`: the config of the worker.
    pub bundle: Option<Sha256Digest>,
    /// The labels that the worker must have.
    pub labels: BTreeSet<String>,
    /// The priority.
    pub priority: RunPriority,
    /// The most that it may spend.
    pub budget: Budget,
    /// The person or host that submits it, as others are shown it.
    pub submitter: String,
}

impl RunSubmission {
    /// Returns the session that the run will write.
    pub fn session(&self) -> &str {
        self.session.as_deref().unwrap_or(&self.id)
    }

    /// Uploads the files of the task and puts the run into the queue.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be submitted, or another run has its id.
    pub async fn submit(self, cluster: &Cluster) -> Result<Submission, Report> {
        let spec = RunSpec::new(self.id.clone(), self.session(), self.task.clone());
        let mut spec = RunSpec {
            agent: self.agent,
            model: self.model,
            schema: self.schema,
            bundle: self.bundle,
            labels: self.labels,
            priority: self.priority,
            budget: self.budget,
            submitter: self.submitter,
            ..spec
        };
        // Before anything is uploaded.
        spec.check().map_err(|error| error.report())?;
        if self.attachments.len() > limits::CLUSTER_SPEC_FILES {
            let what = format!("the task has more than {} files", limits::CLUSTER_SPEC_FILES);
            return Err(Report::new(ErrorKind::Usage, what).hint("split the task"));
        }
        for attachment in self.attachments {
            let (name, media_type, content) = content_of(attachment);
            let bytes = content.len() as u64;
            let digest = cluster.objects().put(content).await.map_err(|error| error.report())?;
            spec.files.push(SpecFile { name, media_type, digest, bytes });
        }
        cluster.runs().submit(spec).await.map_err(|error| error.report())
    }
}

/// Returns the name, the media type and the bytes of an attached file.
fn content_of(file: AttachedFile) -> (String, String, Bytes) {
    match file {
        AttachedFile::Text { name, text } => (name, "text/plain".into(), text.into()),
        AttachedFile::Media(media) => {
            let bytes = match media.source {
                MediaData::Bytes(bytes) => Bytes::copy_from_slice(&bytes),
                // A file of a task is never an address.
                MediaData::Url(_) => Bytes::new(),
            };
            (media.name.unwrap_or_else(|| "file".into()), media.media_type, bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attached_file_is_the_same_on_the_other_host() {
        for (name, bytes) in [("a.txt", b"text".to_vec()), ("b.pdf", b"%PDF-1.7".to_vec())] {
            let file = AttachedFile::of_bytes(name, bytes.clone()).unwrap();
            let (there, _, content) = content_of(file.clone());
            assert_eq!((there.as_str(), content.to_vec()), (name, bytes));
            assert_eq!(AttachedFile::of_bytes(&there, content.to_vec()).unwrap(), file);
        }
    }
}
