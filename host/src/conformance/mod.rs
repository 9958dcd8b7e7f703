//! Plugins that attack the host, and what each must come to: the proof of the sandbox, for this host and for others.
//!
//! A [`AttackSuite`] is a list of [`Attack`]s: components with a sentence that says what each tries, what it is granted, and
//! the [`AttackVerdict`] that it must come to. [`run`] plays them, each in a place of its own and in a run of an agent that has
//! secrets to tell and a folder to lose, and looks at it from outside: what it has changed, what it has told, how long it
//! took. Before and after the suite the same process makes runs as they should be, and is measured. An attack with bounds on
//! the host is played in a process of its own, which is measured and ends with it.
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

/// What the suite came to.
#[derive(Debug, Serialize)]
pub struct ConformanceReport {
    /// Each attack, in the order of the suite.
    pub attacks: Vec<AttackResult>,
    /// What the process has, before and after.
    pub recovery: Vec<RecoveryCheck>,
    /// How long all of it took.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
}

impl ConformanceReport {
    /// Whether the host holds: every attack came to what it must, and nothing is less than before.
    pub fn ok(&self) -> bool {
        self.attacks.iter().all(|row| row.status == AttackStatus::Passed) && self.recovery.iter().all(|row| row.ok)
    }
}

/// What an attack came to.
#[derive(Debug, Serialize)]
pub struct AttackResult {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: PluginKind,
    /// What it tries.
    pub tries: String,
    /// How it may end.
    pub expected: Vec<AttackVerdict>,
    /// A text that the host's error must hold where it refuses the attack.
    pub names: Option<String>,
    /// How it ended; none if it did not.
    pub verdict: Option<AttackVerdict>,
    /// What that means.
    pub status: AttackStatus,
    /// What it got that it must not get.
    pub escapes: Vec<String>,
    /// What the host said of it, or it said itself: untrusted, cut.
    pub detail: String,
    /// The most memory that one of its calls had, bytes; 0 if none was made.
    #[serde(rename = "memory_bytes")]
    pub memory: usize,
    /// The most time that one of its calls was on the processor.
    #[serde(rename = "cpu_ms", serialize_with = "millis")]
    pub cpu: Duration,
    /// The time and memory that the host took for it; `None` if it was played in the process of the suite.
    pub host: Option<HostUsage>,
    /// How long it took, loading included.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
}

/// What the end of an attack means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttackStatus {
    /// It ended as it must.
    Passed,
    /// It ended in another way, and got nothing.
    Unexpected,
    /// It got something.
    Escaped,
    /// It could not be played.
    Failed,
}

impl AttackStatus {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Unexpected => "unexpected",
            Self::Escaped => "escaped",
            Self::Failed => "failed",
        }
    }
}

/// Milliseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

/// Plays all attacks. `show` is how the host shows an event to people: what comes of it is looked at, too. `program` plays
/// those that have a process of their own. `played` is told how many were played, as soon as one more was and those before it
/// in the suite.
///
/// Dropped before its end it leaves nothing behind once the tasks that it started have gone.
///
/// # Errors
///
/// A [`Report`], if the engine cannot be started, or a run as it should be fails.
pub async fn run(
    suite: &AttackSuite,
    show: EventFormatter,
    program: &HostProgram,
    mut played: impl FnMut(usize),
) -> Result<ConformanceReport, Report> {
    let started = Instant::now();
    let engine = Arc::new(PluginEngine::new(None)?);
    let normal = baseline::BaselinePlugin::new(&engine).await?;
    // Components are kept once they are made: the process is measured with them. One that cannot be made is told when it is
    // played.
    for attack in suite.attacks().iter().filter(|attack| attack.host.is_none()) {
        drop(attack.component());
        // All of them take seconds: whoever waits for the end may look whether it is still wanted.
        tokio::task::yield_now().await;
    }
    // The first time warms everything up.
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
            // On a task of its own, so that those that keep a core busy do not hold up the others.
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
