//! A conformance suite of hostile plugins, which tests the sandbox of this host and of others.
//!
//! An [`AttackSuite`] is a list of [`Attack`]s: components, each with a sentence that says what it tries, its grant, and
//! the expected [`AttackVerdict`]. [`run`] plays each attack in a fixture of its own, in a run of an agent that has secrets
//! and files. It observes the attack from outside: its changes, its output, the time it took. Before and after the attacks
//! that share its process, the suite makes baseline runs and measures the process. An attack with bounds on the host is
//! played in a process of its own, which is measured and ends with it.
//!
//! The format of a suite is described in `docs/conformance.md`.

mod attack;
mod attack_process;
mod attack_run;
mod baseline;
mod embedded;
mod escapes;
mod fixture;
mod guest;
mod link_swapper;
mod observer;
mod suite;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize, Serializer};

pub use attack::{Attack, AttackVerdict, HostBounds};
pub use attack_process::{HostProgram, HostUsage, play_alone};
pub use baseline::{PLACES, RecoveryCheck};
pub use guest::component_of;
pub use observer::EventFormatter;
pub use suite::AttackSuite;

use crate::{
    error::Report,
    limits,
    plugin::{PluginEngine, PluginKind},
};

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

/// Serializes a duration in milliseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

/// Plays all attacks. `show` formats an event for people as the host does; its output is checked too. `program` plays the
/// attacks that have a process of their own, after all others. `played` is called with the number of attacks finished so
/// far; an attack counts once those before it have finished too.
///
/// Dropping the future leaves nothing behind once the tasks that it started have ended.
///
/// # Errors
///
/// A [`Report`], if the engine cannot be started or a baseline run fails.
pub async fn run(
    suite: &AttackSuite,
    show: EventFormatter,
    program: &HostProgram,
    mut played: impl FnMut(usize),
) -> Result<ConformanceReport, Report> {
    let started = Instant::now();
    let engine = Arc::new(PluginEngine::new(None)?);
    let normal = baseline::BaselinePlugin::new(&engine).await?;
    // Components stay in memory once they are built: the baseline is measured with them. One that cannot be built is
    // reported when it is played.
    for attack in suite.attacks().iter().filter(|attack| attack.host.is_none()) {
        drop(attack.component());
        // Building takes seconds: the caller may cancel in between.
        tokio::task::yield_now().await;
    }
    // Warms up.
    normal.measure().await?;
    let before = normal.measure().await?;
    let mut done = 0;
    played(done);
    let mut count = |_: &AttackResult| {
        done += 1;
        played(done);
    };
    let together = suite.attacks().iter().filter(|attack| attack.host.is_none()).cloned().map(|attack| {
        let (engine, show) = (Arc::clone(&engine), Arc::clone(&show));
        async move {
            // In a task of its own, so that an attack that keeps a core busy does not hold up the others.
            let mut playing = tokio::task::JoinSet::new();
            playing.spawn(async move { attack_run::play(&attack, &engine, &show).await });
            playing.join_next().await
        }
    });
    let together = stream::iter(together).buffered(limits::CONFORMANCE_AT_ONCE);
    let together = together.filter_map(async |row| {
        row.map(|row| row.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())))
    });
    let mut attacks: Vec<AttackResult> = together.inspect(&mut count).collect().await;
    let recovery = normal.measure_after(&before).await?;
    let alone = suite.attacks().iter().filter_map(|attack| Some((attack, attack.host?)));
    let alone = alone.map(|(attack, bounds)| attack_process::play(attack, bounds, program));
    let alone: Vec<AttackResult> =
        stream::iter(alone).buffered(limits::CONFORMANCE_HOSTS).inspect(&mut count).collect().await;
    attacks.extend(alone);
    let place = |row: &AttackResult| suite.attacks().iter().position(|attack| attack.name == row.name);
    attacks.sort_by_cached_key(place);
    Ok(ConformanceReport { attacks, recovery, duration: started.elapsed() })
}
