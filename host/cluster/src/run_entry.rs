//! The entry of a run: its spec, and where it is between being submitted and its end.

use std::{collections::BTreeSet, time::SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shelly_core::{
    capability::Usd,
    chat::Usage,
    error::{cut, legible},
    limits,
};

use super::{cluster_error::ClusterError, millis_since_epoch, run_spec::RunSpec};

/// The entry of a run, as the server has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEntry {
    /// The run as it was submitted.
    pub spec: RunSpec,
    /// The state of the run.
    pub phase: RunPhase,
    /// The number of times that a worker has taken the run, also if it declined it then.
    #[serde(default)]
    pub starts: u32,
    /// The number of workers that died with the run, or lost it.
    #[serde(default)]
    pub deaths: u32,
    /// `true` if the worker is to stop the run.
    #[serde(default)]
    pub cancel_requested: bool,
    /// Remarks of workers, at most [`limits::CLUSTER_RUN_WARNINGS`](shelly_core::limits::CLUSTER_RUN_WARNINGS).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The time of the first [refusal](super::TakenRun::decline) since a worker accepted the run.
    #[serde(default, with = "millis_since_epoch::option", skip_serializing_if = "Option::is_none")]
    pub declined: Option<SystemTime>,
    /// The number of refusals since then, at most [`limits::CLUSTER_DECLINE_OFFERS`]. A pause is between two of them, so it
    /// is a time that no host's clock changes.
    #[serde(default)]
    pub declines: u32,
    /// The number of all refusals. Each worker had taken the run, so that [`starts`](Self::starts) counts it too.
    #[serde(default)]
    pub all_declines: u32,
}

/// The state of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum RunPhase {
    /// The run waits for a worker.
    Queued {
        /// The reason for which a worker gave it back, such as a limit of the namespace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waits_for: Option<String>,
    },
    /// A worker has the run.
    Running {
        /// The id of the worker.
        worker: String,
        /// The number of this attempt, from 1: no two attempts have the same.
        attempt: u32,
        /// The time at which the worker took it, by the worker's clock.
        #[serde(with = "millis_since_epoch")]
        since: SystemTime,
    },
    /// The run has ended. This never changes.
    Ended(QueuedRunEnd),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueuedRunEnd {
    /// The kind of end.
    #[serde(rename = "end")]
    pub state: RunEndState,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The value of the answer, if the spec has a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The failure as a problem object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// The tokens of all attempts.
    #[serde(default)]
    pub usage: Usage,
    /// The cost of all attempts in US dollars; `None` if a price is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The tool calls of all attempts.
    #[serde(default)]
    pub tool_calls: u64,
    /// The time of the end, by the clock of whoever ended it.
    #[serde(with = "millis_since_epoch")]
    pub finished: SystemTime,
}

/// The kind of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunEndState {
    /// The run has an answer.
    Completed,
    /// The run failed.
    Failed,
    /// Somebody cancelled it.
    Cancelled,
    /// No worker accepts it, or it can never fit into the limits of the namespace.
    Refused,
    /// The run was given up: [`limits::CLUSTER_RUN_DEATHS`](shelly_core::limits::CLUSTER_RUN_DEATHS) workers died with it.
    Poisoned,
}

impl RunEntry {
    /// Returns the end of the run, if it has ended.
    pub fn ending(&self) -> Option<&QueuedRunEnd> {
        match &self.phase {
            RunPhase::Ended(ending) => Some(ending),
            RunPhase::Queued { .. } | RunPhase::Running { .. } => None,
        }
    }

    /// Returns the number of times that workers have taken the run and have not declined it.
    pub fn attempts(&self) -> u32 {
        self.starts.saturating_sub(self.refusals())
    }

    /// Returns the number of times that workers have declined the run.
    pub fn refusals(&self) -> u32 {
        // A worker of an earlier version does not count all of them.
        self.all_declines.max(self.declines)
    }
}

impl QueuedRunEnd {
    /// Creates an end of this kind at this time, without answer, error, usage and cost.
    pub fn new(state: RunEndState) -> Self {
        Self {
            state,
            answer: None,
            value: None,
            error: None,
            usage: Usage::default(),
            cost_usd: None,
            tool_calls: 0,
            finished: SystemTime::now(),
        }
    }

    /// Returns the cost of all attempts; `None` if a price is unknown, or if the number in the entry, which anybody in the
    /// namespace can write, is no amount.
    pub fn cost(&self) -> Option<Usd> {
        serde_json::from_value(json!(self.cost_usd?)).ok()
    }
}

/// The version of an entry's form.
pub(crate) const VERSION: u32 = 1;

/// The entry of a run in its stored form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    version: u32,
    /// Random for each write. A writer whose reply was lost recognizes its own write by the value, which no other writer
    /// writes.
    stamp: String,
    /// The value of the lease of the worker that took the run last. Worker ids are chosen by hosts and may be used twice;
    /// this is not.
    #[serde(default)]
    pub holder: String,
    pub entry: RunEntry,
}

/// The version of a stored entry, whatever else is in it.
#[derive(Deserialize)]
struct StoredVersion {
    version: u32,
}

impl StoredRun {
    /// Creates the entry of a run that is submitted.
    pub fn new(spec: RunSpec) -> Self {
        let entry = RunEntry {
            spec,
            phase: RunPhase::Queued { waits_for: None },
            starts: 0,
            deaths: 0,
            cancel_requested: false,
            warnings: Vec::new(),
            declined: None,
            declines: 0,
            all_declines: 0,
        };
        Self { version: VERSION, stamp: String::new(), holder: String::new(), entry }
    }

    /// Parses the entry of the run with this id.
    pub fn parse(id: &str, value: &[u8]) -> Result<Self, ClusterError> {
        let what = || format!("the entry of run {id}");
        if value.len() > limits::CLUSTER_RUN_BYTES {
            return Err(ClusterError::too_large(what(), value.len(), limits::CLUSTER_RUN_BYTES));
        }
        // The version is read first: a later version may have any other form.
        let invalid = |error: serde_json::Error| ClusterError::invalid(what(), error.to_string());
        let StoredVersion { version } = serde_json::from_slice(value).map_err(invalid)?;
        if version > VERSION {
            return Err(ClusterError::Newer { what: what(), version });
        }
        let stored: Self = serde_json::from_slice(value).map_err(invalid)?;
        let entry = &stored.entry;
        if entry.spec.id != id {
            return Err(ClusterError::invalid(what(), "it is that of another run"));
        }
        let has_short_warnings =
            entry.warnings.iter().all(|text| text.chars().count() <= limits::CLUSTER_REASON_CHARS + 1);
        if entry.warnings.len() > limits::CLUSTER_RUN_WARNINGS || !has_short_warnings {
            return Err(ClusterError::invalid(what(), "it has too many remarks, or too long ones"));
        }
        if matches!(&entry.phase, RunPhase::Running { worker, .. } if !RunSpec::is_id(worker)) {
            return Err(ClusterError::invalid(what(), "its worker has no valid id"));
        }
        entry.spec.check()?;
        Ok(stored)
    }

    /// Stamps the entry, and returns its bytes.
    pub fn stamped(&mut self, stamp: String) -> Vec<u8> {
        self.stamp = stamp;
        // Maps have text as keys, and numbers that JSON has: serialization cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns `true` if the holder of this lease has the run.
    pub fn is_held_by(&self, holder: &str) -> bool {
        self.holder == holder && matches!(self.entry.phase, RunPhase::Running { .. })
    }
}

impl RunEntry {
    /// Adds a remark, unless there are too many or it is there.
    pub(crate) fn add_warning(&mut self, warning: &str) {
        let warning = cut(warning, limits::CLUSTER_REASON_CHARS);
        if self.warnings.len() < limits::CLUSTER_RUN_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    /// Ends the run. What does not fit into the entry is left out, with a remark: the end itself is never lost.
    pub(crate) fn end(&mut self, mut ending: QueuedRunEnd) {
        let session = self.spec.session.clone();
        let json_bytes = |value: &Value| serde_json::to_vec(value).map_or(usize::MAX, |json| json.len());
        if let Some(answer) = &mut ending.answer
            && json_bytes(&Value::String(answer.clone())) > limits::CLUSTER_ANSWER_BYTES
        {
            // In JSON the line break has two bytes, and a text two quotes.
            answer.truncate(end_of_json(answer, limits::CLUSTER_ANSWER_BYTES - CUT.len() - 3));
            // Whoever is shown the answer alone sees it too.
            answer.push_str(CUT);
            self.add_warning(&format!("the answer is cut here; session {session} has all of it"));
        }
        for (what, value) in [("value of the answer", &mut ending.value), ("failure", &mut ending.error)] {
            if value.as_ref().is_some_and(|value| json_bytes(value) > limits::CLUSTER_VALUE_BYTES) {
                *value = None;
                self.add_warning(&format!("the {what} is left out here; session {session} has it"));
            }
        }
        self.phase = RunPhase::Ended(ending);
    }
}

/// The end of an answer that is cut.
const CUT: &str = "\n[cut here; the session has the whole answer]";

/// Returns the offset in a text up to which it has at most this many bytes in JSON.
fn end_of_json(text: &str, most: usize) -> usize {
    let mut bytes = 0;
    let mut is_beyond = |c: char| {
        bytes += match c {
            '"' | '\\' | '\u{8}' | '\u{c}' | '\n' | '\r' | '\t' => 2,
            // Such as `\u0001`.
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        bytes > most
    };
    text.char_indices().find(|(_, c)| is_beyond(*c)).map_or(text.len(), |(at, _)| at)
}

impl RunPhase {
    /// Returns the words for the wait for a run that asks for a worker with these labels.
    pub(crate) fn wait_words(&self, labels: &BTreeSet<String>) -> String {
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        match self {
            Self::Queued { .. } if labels.is_empty() => "waiting for a worker".into(),
            Self::Queued { .. } => format!("waiting for a worker with the labels {}", labels.join(", ")),
            Self::Running { worker, .. } => format!("at work on {worker}"),
            Self::Ended(_) => "ended".into(),
        }
    }
}

impl QueuedRunEnd {
    /// Returns the reason in the failure of a run, which its worker wrote.
    pub(crate) fn reason(&self) -> String {
        let error = self.error.as_ref();
        let text = |key: &str| error.and_then(|error| error[key].as_str()).filter(|text| !text.is_empty());
        let mut parts: Vec<&str> = ["message", "title"].into_iter().find_map(text).into_iter().collect();
        parts.extend(["detail", "reason"].into_iter().find_map(text));
        let causes = error.and_then(|error| error["causes"].as_array()).into_iter().flatten();
        parts.extend(causes.take(limits::CLUSTER_RUN_WARNINGS).filter_map(Value::as_str));
        match parts.is_empty() {
            true => "it has given no reason".into(),
            false => cut(&legible(&parts.join(": ")), limits::CLUSTER_REASON_CHARS),
        }
    }

    /// Creates an end of this kind with a failure that the cluster found.
    pub(crate) fn because(state: RunEndState, code: &str, detail: &str) -> Self {
        let detail = cut(detail, limits::CLUSTER_REASON_CHARS);
        let error =
            json!({ "type": "about:blank", "title": "the run ended without a worker", "code": code, "detail": detail });
        Self { error: Some(error), ..Self::new(state) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn stored() -> StoredRun {
        StoredRun::new(RunSpec::new("a", "s", Some("do it".into())))
    }

    fn ended(state: RunEndState) -> QueuedRunEnd {
        QueuedRunEnd { finished: UNIX_EPOCH, ..QueuedRunEnd::new(state) }
    }

    #[test]
    fn entry_is_read_as_it_was_written() {
        let phases = [
            RunPhase::Queued { waits_for: Some("room".into()) },
            RunPhase::Running { worker: "w".into(), attempt: 2, since: UNIX_EPOCH },
            RunPhase::Ended(QueuedRunEnd {
                answer: Some("42".into()),
                cost_usd: Some(0.5),
                ..ended(RunEndState::Completed)
            }),
        ];
        for phase in phases {
            let mut written = stored();
            written.entry.spec.submitted = UNIX_EPOCH;
            (written.entry.phase, written.entry.declined, written.entry.declines) = (phase, Some(UNIX_EPOCH), 3);
            written.entry.all_declines = 4;
            let bytes = written.stamped("0a".into());
            assert_eq!(StoredRun::parse("a", &bytes), Ok(written));
        }
    }

    #[test]
    fn declined_starts_are_no_attempts() {
        let mut entry = stored().entry;
        for (starts, declines, all_declines, attempts, refusals) in
            [(0, 0, 0, 0, 0), (3, 2, 2, 1, 2), (5, 0, 3, 2, 3), (3, 2, 0, 1, 2), (1, 0, 9, 0, 9)]
        {
            (entry.starts, entry.declines, entry.all_declines) = (starts, declines, all_declines);
            assert_eq!((entry.attempts(), entry.refusals()), (attempts, refusals), "{entry:?}");
        }
    }

    #[test]
    fn entry_that_is_none_is_refused_by_name() {
        let text = String::from_utf8(stored().stamped(String::new())).unwrap();
        let mut noisy = stored();
        noisy.entry.warnings = vec![String::new(); limits::CLUSTER_RUN_WARNINGS + 1];
        let mut other = stored();
        other.entry.phase = RunPhase::Running { worker: "a b".into(), attempt: 1, since: UNIX_EPOCH };
        for (value, why) in [
            (String::new(), "the entry of run a: "),
            ("{}".into(), "missing field"),
            (text.replace("\"version\":1", "\"version\":2,\"entry\":7,\"x\":1"), "has version 2"),
            (text.replace("\"id\":\"a\"", "\"id\":\"b\""), "another run"),
            (text.replace("\"session\":\"s\"", "\"session\":\"\""), "names no session"),
            (String::from_utf8(noisy.stamped(String::new())).unwrap(), "too many remarks"),
            (String::from_utf8(other.stamped(String::new())).unwrap(), "no valid id"),
            (" ".repeat(limits::CLUSTER_RUN_BYTES + 1), "more than"),
        ] {
            let refused = StoredRun::parse("a", value.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }

    #[test]
    fn end_that_is_too_large_is_cut_and_says_so() {
        let mut stored = stored();
        stored.entry.spec.task = Some("t".repeat(limits::CLUSTER_SPEC_BYTES - (1 << 10)));
        stored.entry.end(QueuedRunEnd {
            answer: Some("\u{1}".repeat(limits::CLUSTER_ANSWER_BYTES)),
            value: Some(Value::String("v".repeat(limits::CLUSTER_VALUE_BYTES))),
            error: Some(Value::String("e".repeat(limits::CLUSTER_VALUE_BYTES - 2))),
            ..ended(RunEndState::Completed)
        });
        let bytes = stored.stamped(String::new());
        assert!(bytes.len() <= limits::CLUSTER_RUN_BYTES, "{}", bytes.len());
        let read = StoredRun::parse("a", &bytes).unwrap().entry;
        let ending = read.ending().unwrap();
        assert!(ending.answer.is_some() && ending.value.is_none() && ending.error.is_some());
        assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
    }

    #[test]
    fn long_answer_is_cut_where_its_json_is_too_long() {
        for text in ["y", "é", "\"", "\n", "\u{1}", "y\u{1f600}"] {
            let mut entry = stored().entry;
            let answer = Some(text.repeat(limits::CLUSTER_ANSWER_BYTES));
            entry.end(QueuedRunEnd { answer, ..ended(RunEndState::Completed) });
            let answer = entry.ending().unwrap().answer.clone().unwrap();
            assert!(answer.starts_with(text) && answer.ends_with(CUT), "{text:?}");
            let bytes = serde_json::to_vec(&answer).unwrap().len();
            assert!((limits::CLUSTER_ANSWER_BYTES - 8..=limits::CLUSTER_ANSWER_BYTES).contains(&bytes), "{bytes}");
        }
        let mut entry = stored().entry;
        // The longest one that is whole, with its quotes.
        let answer = "y".repeat(limits::CLUSTER_ANSWER_BYTES - 2);
        entry.end(QueuedRunEnd { answer: Some(answer.clone()), ..ended(RunEndState::Completed) });
        assert_eq!((entry.ending().unwrap().answer.as_ref(), entry.warnings.len()), (Some(&answer), 0));
    }

    #[test]
    fn cost_that_is_no_amount_is_not_known() {
        let cost = |cost_usd| QueuedRunEnd { cost_usd, ..ended(RunEndState::Completed) }.cost();
        assert_eq!(cost(Some(0.5)).map(|usd| usd.to_string()).as_deref(), Some("$0.50"));
        for none in [None, Some(-0.5), Some(1e300), Some(f64::MIN)] {
            assert_eq!(cost(none), None, "{none:?}");
        }
    }

    #[test]
    fn remarks_are_bounded() {
        let mut entry = stored().entry;
        for n in 0..limits::CLUSTER_RUN_WARNINGS * 2 {
            entry.add_warning(&format!("{n}{}", "x".repeat(limits::CLUSTER_REASON_CHARS * 2)));
            entry.add_warning("the same");
        }
        assert_eq!(entry.warnings.len(), limits::CLUSTER_RUN_WARNINGS);
        assert_eq!(entry.warnings.iter().filter(|warning| *warning == "the same").count(), 1);
        assert!(entry.warnings.iter().all(|warning| warning.chars().count() <= limits::CLUSTER_REASON_CHARS + 1));
    }
}
