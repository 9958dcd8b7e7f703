//! Runs as they are submitted.

use std::{collections::BTreeSet, time::SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shelly_core::{
    capability::Budget,
    digest::Sha256Digest,
    error::{acts_on_terminal, cut, legible},
    limits,
};
use shelly_session::SessionStore;

use super::{cluster_error::ClusterError, millis_since_epoch};

/// A run that is submitted to the queue of a namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The id of the run: lower case letters, digits and hyphens, at most [`limits::CLUSTER_RUN_ID_BYTES`].
    pub id: String,
    /// The session that the run writes.
    pub session: String,
    /// The agent or team that the run begins with; `None`: that of the config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model instead of the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The task; `None`: the session's unfinished run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Files that go with the task, whose bytes are in the [`ObjectStorage`](super::ObjectStorage).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SpecFile>,
    /// The JSON Schema of the answer's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// The config bundle in the [`ObjectStorage`](super::ObjectStorage); `None`: the worker's own config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<Sha256Digest>,
    /// Labels that the worker must have: [words](Self::is_label), at most [`limits::CLUSTER_RUN_LABELS`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// The priority.
    #[serde(default)]
    pub priority: RunPriority,
    /// The amounts that the run may spend.
    #[serde(default)]
    pub budget: Budget,
    /// The run and the call of which this run is a delegated task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunParent>,
    /// The bounds of the capabilities of the run, in a form that the program defines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Value>,
    /// The W3C trace context of whoever submitted the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The person or host that submitted the run. It is only shown: anyone may claim any name.
    #[serde(default)]
    pub submitter: String,
    /// The time of submission by the submitter's clock.
    #[serde(with = "millis_since_epoch")]
    pub submitted: SystemTime,
}

/// A file that goes with a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecFile {
    /// The name without a folder.
    pub name: String,
    /// The media type.
    pub media_type: String,
    /// The digest, by which the [`ObjectStorage`](super::ObjectStorage) has the bytes.
    pub digest: Sha256Digest,
    /// The size in bytes.
    pub bytes: u64,
}

/// The priority of a run among the runs that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunPriority {
    /// Taken before all others.
    High,
    /// Taken before those of low priority.
    #[default]
    Normal,
    /// Taken when nothing else waits, and now and then when something does.
    Low,
}

/// The run and the call of which a run is a delegated task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunParent {
    /// The id of the parent run; `None`: it is no run of the queue, such as one that a person started at a terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The session of the parent run; empty if it has none.
    pub session: String,
    /// The message in the parent run's chat that gave the task.
    pub call: String,
    /// The delegation depth of this run: at least 1 for a delegated task, 0 for an agent that was not delegated to.
    #[serde(default)]
    pub depth: u32,
}

impl RunPriority {
    /// All priorities, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Returns the word for this priority, as it is in subjects and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    /// Parses the word for a priority.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.word() == word)
    }
}

impl RunSpec {
    /// Creates the spec of a run with this task: no labels, normal priority, no budget, the worker's own config.
    pub fn new(id: impl Into<String>, session: impl Into<String>, task: Option<String>) -> Self {
        Self {
            id: id.into(),
            session: session.into(),
            agent: None,
            model: None,
            task,
            files: Vec::new(),
            schema: None,
            bundle: None,
            labels: BTreeSet::new(),
            priority: RunPriority::default(),
            budget: Budget::default(),
            parent: None,
            ceiling: None,
            traceparent: None,
            submitter: String::new(),
            submitted: SystemTime::now(),
        }
    }

    /// Returns `true` if this can be the id of a run.
    pub fn is_id(id: &str) -> bool {
        (1..=limits::CLUSTER_RUN_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    }

    /// Returns `true` if this can be a label: lower case letters, digits and underscores, at most
    /// [`limits::CLUSTER_LABEL_BYTES`].
    pub fn is_label(label: &str) -> bool {
        (1..=limits::CLUSTER_LABEL_BYTES).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    }

    /// Checks what does not need the server: the id, the labels, and the sizes of everything.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Invalid`] or [`ClusterError::TooLarge`], which name the part.
    pub fn check(&self) -> Result<(), ClusterError> {
        for (what, id) in
            [("run", Some(&self.id)), ("parent run", self.parent.as_ref().and_then(|parent| parent.run.as_ref()))]
        {
            if let Some(id) = id.filter(|id| !Self::is_id(id)) {
                return Err(not_an_id(what, id));
            }
        }
        check_labels(&self.labels, limits::CLUSTER_RUN_LABELS)?;
        if self.parent.as_ref().is_some_and(|parent| parent.depth > limits::DELEGATION_DEPTH_CEILING) {
            let most = limits::DELEGATION_DEPTH_CEILING;
            return Err(ClusterError::invalid(self.place(), format!("its delegation depth is more than {most}")));
        }
        self.check_names()?;
        if self.files.len() > limits::CLUSTER_SPEC_FILES {
            let most = limits::CLUSTER_SPEC_FILES;
            return Err(ClusterError::invalid(self.place(), format!("more than {most} files go with the task")));
        }
        for file in &self.files {
            let is_plain =
                !file.name.is_empty() && file.name != "." && file.name != ".." && !file.name.contains(['/', '\\']);
            if !is_plain || file.name.chars().any(acts_on_terminal) {
                return Err(ClusterError::invalid(self.place(), "the name of a file has a folder or is none"));
            }
            if file.bytes > limits::CLUSTER_OBJECT_BYTES {
                let (bytes, most) = (file.bytes, limits::CLUSTER_OBJECT_BYTES);
                return Err(ClusterError::TooLarge { what: format!("a file of {}", self.place()), bytes, most });
            }
        }
        let bytes = serde_json::to_vec(self).map_or(usize::MAX, |json| json.len());
        match bytes > limits::CLUSTER_SPEC_BYTES {
            true => Err(ClusterError::too_large(self.place(), bytes, limits::CLUSTER_SPEC_BYTES)),
            false => Ok(()),
        }
    }

    fn check_names(&self) -> Result<(), ClusterError> {
        let parent = self.parent.as_ref();
        let names = [
            ("session", Some(&self.session)),
            ("agent", self.agent.as_ref()),
            ("model", self.model.as_ref()),
            ("traceparent", self.traceparent.as_ref()),
            ("submitter", Some(&self.submitter)),
            ("session of the parent run", parent.map(|parent| &parent.session)),
            ("call of the parent run", parent.map(|parent| &parent.call)),
        ];
        let names = names.into_iter().filter_map(|(part, name)| Some((part, name?)));
        let files =
            self.files.iter().flat_map(|file| [("file", &file.name), ("media type of a file", &file.media_type)]);
        for (part, name) in names.chain(files) {
            if name.len() > limits::CLUSTER_SPEC_NAME_BYTES {
                let what = format!("the {part} of {}", self.place());
                return Err(ClusterError::too_large(what, name.len(), limits::CLUSTER_SPEC_NAME_BYTES));
            }
        }
        // They become parts of subjects and keys. A parent run that is not recorded has no session.
        let of_parent = parent.map(|parent| parent.session.as_str()).filter(|session| !session.is_empty());
        match [Some(self.session.as_str()), of_parent].into_iter().flatten().all(SessionStore::is_name) {
            true => Ok(()),
            false => {
                let most = limits::SESSION_NAME_BYTES;
                let form = format!("a name has 1 to {most} of A-Z a-z 0-9 . _ - and does not begin with . or -");
                Err(ClusterError::invalid(self.place(), format!("it names no session: {form}")))
            }
        }
    }

    /// Returns the words for this run in errors.
    fn place(&self) -> String {
        format!("run {}", self.id)
    }

    /// Returns `true` if the other spec is the same run: only the time, the person and the trace may differ.
    pub(crate) fn is_same_run(&self, other: &Self) -> bool {
        let plain = |spec: &Self| {
            let (submitted, submitter) = (SystemTime::UNIX_EPOCH, String::new());
            Self { submitted, submitter, traceparent: None, ..spec.clone() }
        };
        plain(self) == plain(other)
    }

    /// Returns the name of the queue of runs with this priority and these labels.
    pub(crate) fn queue_name(&self) -> QueueName {
        QueueName { priority: self.priority, labels: self.labels.clone() }
    }
}

/// Returns the error for a text that is not the id of a run or worker.
pub(crate) fn not_an_id(what: &str, id: &str) -> ClusterError {
    let most = limits::CLUSTER_RUN_ID_BYTES;
    let reason = format!("an id has 1 to {most} lower case letters, digits and hyphens");
    ClusterError::invalid(format!("{what} `{}`", legible(&cut(id, most))), reason)
}

/// Checks labels and their number.
pub(crate) fn check_labels(labels: &BTreeSet<String>, most: usize) -> Result<(), ClusterError> {
    if let Some(label) = labels.iter().find(|label| !RunSpec::is_label(label)) {
        let bytes = limits::CLUSTER_LABEL_BYTES;
        let reason = format!("a label has 1 to {bytes} lower case letters, digits and underscores");
        return Err(ClusterError::invalid(format!("label `{}`", legible(&cut(label, bytes))), reason));
    }
    match labels.len() > most {
        true => Err(ClusterError::invalid("labels", format!("there are more than {most} of them"))),
        false => Ok(()),
    }
}

/// A priority and a set of labels: the runs that have both are one queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueName {
    pub priority: RunPriority,
    pub labels: BTreeSet<String>,
}

/// Stands in subjects for no labels.
const NO_LABELS: &str = "-";

impl QueueName {
    /// Returns the two parts of a subject for the priority and the labels, with a separator between them.
    pub fn text(&self, separator: char) -> String {
        let labels: Vec<&str> = self.labels.iter().map(String::as_str).collect();
        let labels = if labels.is_empty() { NO_LABELS.to_owned() } else { labels.join("+") };
        format!("{}{separator}{labels}", self.priority.word())
    }

    /// Parses what [`QueueName::text`] returns.
    pub fn parse(text: &str, separator: char) -> Option<Self> {
        let (priority, words) = text.split_once(separator)?;
        let labels: BTreeSet<String> = match words {
            NO_LABELS => BTreeSet::new(),
            words => words.split('+').map(str::to_owned).collect(),
        };
        let name = Self { priority: RunPriority::parse(priority)?, labels };
        let is_one = name.labels.iter().all(|label| RunSpec::is_label(label)) && name.text(separator) == text;
        is_one.then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(id: &str) -> RunSpec {
        RunSpec::new(id, "s", Some("do it".into()))
    }

    fn labels(words: &[&str]) -> BTreeSet<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn ids_and_labels_are_short_words() {
        for (id, is_one) in [("a-1", true), ("", false), ("A", false), ("a.b", false), ("a_b", false), ("*", false)] {
            assert_eq!(RunSpec::is_id(id), is_one, "{id}");
        }
        for (label, is_one) in [("gpu_2", true), ("", false), ("GPU", false), ("a-b", false), ("a+b", false)] {
            assert_eq!(RunSpec::is_label(label), is_one, "{label}");
        }
        for (more, is_one) in [(0, true), (1, false)] {
            assert_eq!(RunSpec::is_id(&"a".repeat(limits::CLUSTER_RUN_ID_BYTES + more)), is_one);
            assert_eq!(RunSpec::is_label(&"a".repeat(limits::CLUSTER_LABEL_BYTES + more)), is_one);
        }
    }

    #[test]
    fn spec_beyond_a_bound_is_refused_by_name() {
        let file = || SpecFile {
            name: "a.txt".into(),
            media_type: "text/plain".into(),
            digest: Sha256Digest::of(b""),
            bytes: 0,
        };
        let many: Vec<String> = (0..=limits::CLUSTER_RUN_LABELS).map(|n| format!("l{n}")).collect();
        let parent = RunParent { run: Some("No".into()), session: "s".into(), call: "c".into(), depth: 1 };
        let unnamed = RunParent { run: None, session: "a*".into(), ..parent.clone() };
        let deep = RunParent { run: None, depth: limits::DELEGATION_DEPTH_CEILING + 1, ..parent.clone() };
        for (wrong, why) in [
            (RunSpec { id: "A".into(), ..spec("a") }, "run `A`"),
            (RunSpec { parent: Some(parent), ..spec("a") }, "parent run `No`"),
            (RunSpec { parent: Some(deep), ..spec("a") }, "its delegation depth is more than 16"),
            (RunSpec { labels: labels(&["x y"]), ..spec("a") }, "label `x y`"),
            (RunSpec { labels: many.into_iter().collect(), ..spec("a") }, "labels: there are more than 4"),
            (RunSpec { session: String::new(), ..spec("a") }, "it names no session"),
            (RunSpec { session: "a".repeat(limits::SESSION_NAME_BYTES + 1), ..spec("a") }, "it names no session"),
            (RunSpec { session: "a/b".into(), ..spec("a") }, "it names no session"),
            (RunSpec { parent: Some(unnamed), ..spec("a") }, "it names no session"),
            (
                RunSpec { agent: Some("a".repeat(limits::CLUSTER_SPEC_NAME_BYTES + 1)), ..spec("a") },
                "the agent of run a has 257 bytes",
            ),
            (RunSpec { files: vec![file(); limits::CLUSTER_SPEC_FILES + 1], ..spec("a") }, "more than 64 files"),
            (RunSpec { files: vec![SpecFile { name: "../a".into(), ..file() }], ..spec("a") }, "has a folder"),
            (
                RunSpec { files: vec![SpecFile { bytes: limits::CLUSTER_OBJECT_BYTES + 1, ..file() }], ..spec("a") },
                "a file of run a has",
            ),
            (RunSpec { task: Some("x".repeat(limits::CLUSTER_SPEC_BYTES)), ..spec("a") }, "run a has"),
        ] {
            let refused = wrong.check().unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        assert_eq!(RunSpec { files: vec![file(); limits::CLUSTER_SPEC_FILES], ..spec("a") }.check(), Ok(()));
    }

    #[test]
    fn spec_is_read_as_it_was_written() {
        let mut written = spec("a");
        written.labels = labels(&["gpu", "eu"]);
        written.priority = RunPriority::Low;
        written.budget.tokens = Some(7);
        written.bundle = Some(Sha256Digest::of(b"bundle"));
        let read: RunSpec = serde_json::from_slice(&serde_json::to_vec(&written).unwrap()).unwrap();
        assert!(read.is_same_run(&written) && read.priority == RunPriority::Low && read.budget == written.budget);
        let later = RunSpec { submitted: SystemTime::now(), submitter: "bob".into(), ..written.clone() };
        assert!(later.is_same_run(&written));
        assert!(!RunSpec { task: None, ..later }.is_same_run(&written));
    }

    #[test]
    fn queue_name_is_read_as_it_was_written() {
        for words in [&[][..], &["eu"], &["eu", "gpu_2"]] {
            for priority in RunPriority::ALL {
                let name = QueueName { priority, labels: labels(words) };
                assert_eq!(QueueName::parse(&name.text('.'), '.'), Some(name.clone()));
                assert_eq!(QueueName::parse(&name.text('_'), '_'), Some(name));
            }
        }
        for text in ["", "high", "high.", "urgent.-", "high.b+a", "high.a+a", "high.A", "high.a.b", "high.+"] {
            assert_eq!(QueueName::parse(text, '.'), None, "{text}");
        }
    }
}
