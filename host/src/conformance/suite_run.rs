use std::{sync::Arc, time::Instant};

use futures_util::{StreamExt, stream};

use super::{
    AttackResult, AttackSuite, ConformanceReport, EventFormatter, HostProgram, attack_process, baseline, play::play,
};
use crate::{error::Report, limits, plugin::PluginEngine};

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
            playing.spawn(async move { play(&attack, &engine, &show).await });
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
    let position = |row: &AttackResult| suite.attacks().iter().position(|attack| attack.name == row.name);
    attacks.sort_by_cached_key(position);
    Ok(ConformanceReport { attacks, recovery, duration: started.elapsed() })
}
