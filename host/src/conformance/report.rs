use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{RecoveryCheck, attack::AttackVerdict};
use crate::plugin::PluginKind;

/// The result of a suite.
#[derive(Debug, Serialize)]
pub struct ConformanceReport {
    /// The results, in the order of the suite.
    pub attacks: Vec<AttackResult>,
    /// The measurements of the process, before and after.
    pub recovery: Vec<RecoveryCheck>,
    /// The duration of the whole suite.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
}

impl ConformanceReport {
    /// Returns `true` if the host passes: every attack ended as expected, and the process is as good as before.
    pub fn ok(&self) -> bool {
        self.attacks.iter().all(|row| row.status == AttackStatus::Passed) && self.recovery.iter().all(|row| row.ok)
    }
}

/// The result of one attack.
#[derive(Debug, Serialize)]
pub struct AttackResult {
    /// The attack's name.
    pub name: String,
    /// The kind of the plugin.
    pub kind: PluginKind,
    /// The sentence that says what it tries.
    pub tries: String,
    /// The verdicts that pass.
    pub expected: Vec<AttackVerdict>,
    /// A text that the host's error must contain where it refuses the attack.
    pub names: Option<String>,
    /// The verdict; `None` if the attack did not end.
    pub verdict: Option<AttackVerdict>,
    /// The rating of the verdict.
    pub status: AttackStatus,
    /// The effects that it must not have had.
    pub escapes: Vec<String>,
    /// A message of the host or the attack: untrusted, cut.
    pub detail: String,
    /// The peak memory of its largest call, in bytes; 0 if none was made.
    #[serde(rename = "memory_bytes")]
    pub memory: usize,
    /// The processor time of its longest call.
    #[serde(rename = "cpu_ms", serialize_with = "millis")]
    pub cpu: Duration,
    /// The time and memory that the host used for it; `None` if it was played in the process of the suite.
    pub host: Option<HostUsage>,
    /// The duration, loading included.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
}

/// The rating of an attack's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackStatus {
    /// The attack ended as expected.
    Passed,
    /// The attack ended in another way, but did not escape.
    Unexpected,
    /// The attack escaped.
    Escaped,
    /// The attack could not be played.
    Failed,
}

impl AttackStatus {
    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unexpected => "unexpected",
            Self::Escaped => "escaped",
            Self::Failed => "failed",
        }
    }
}

/// The time and memory that the host used for an attack in a process of its own.
#[derive(Debug, Clone, Serialize)]
pub struct HostUsage {
    /// The wall time from the idle host to the verdict, or to the end of the process.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// The bound on `duration`.
    #[serde(rename = "duration_bound_ms", serialize_with = "millis")]
    pub duration_bound: Duration,
    /// The peak memory of the idle host, in bytes; `None` if the system does not report it.
    pub idle_bytes: Option<u64>,
    /// The peak memory of the host and its child processes, together, in bytes.
    pub peak_bytes: Option<u64>,
    /// The bound on the growth from `idle_bytes` to `peak_bytes`.
    pub growth_bound_bytes: u64,
}

impl HostUsage {
    /// Returns the bytes by which the host grew; `None` if the system does not report them.
    pub fn growth(&self) -> Option<u64> {
        Some(self.peak_bytes?.saturating_sub(self.idle_bytes?))
    }
}

/// Serializes a duration in milliseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}
