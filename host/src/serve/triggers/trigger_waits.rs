//! The waiting of triggers: for times, and for changes of files.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{
    file_watch::FileSnapshot,
    served_trigger::{ServedTriggerKind, TriggerFiring},
    trigger_host::{FiringOrigin, FiringOutcome, TriggerHost},
};
use crate::{config::MissedTimes, limits};

impl TriggerHost {
    /// Starts to wait for times and for changes of files. It must be called in a runtime.
    pub fn start(&self) {
        for (at, trigger) in self.0.triggers.iter().enumerate() {
            let host = self.clone();
            match &trigger.kind {
                ServedTriggerKind::Cron { .. } => drop(self.0.tasks.spawn(keep_time(host, at))),
                ServedTriggerKind::Files { .. } => drop(self.0.tasks.spawn(async move { host.watch_files(at).await })),
                ServedTriggerKind::Webhook { .. } => {}
            }
        }
    }

    /// Fires a trigger whenever its files have changed and then stay the same for some time. What changes while a run of it
    /// is at work fires nothing: most of it is the work of that run.
    async fn watch_files(&self, at: usize) {
        let trigger = &self.0.triggers[at];
        let ServedTriggerKind::Files { settle, .. } = &trigger.kind else { return };
        let Some(mut fired) = self.look(at).await else { return };
        let (mut seen, mut told, mut since) = (fired.clone(), fired.clone(), tokio::time::Instant::now());
        let mut known = trigger.state().started;
        while self.pause(limits::TRIGGER_FILE_LOOK).await {
            let (is_at_work, started) = {
                let state = trigger.state();
                (state.at_work > 0, state.started)
            };
            if is_at_work {
                continue;
            }
            let Some(now) = self.look(at).await else { return };
            if started != known {
                // Files that had changed before its run began, and are not named in its task, are left for the next firing.
                fired = now.clone().without_changes(&told, &seen);
                (known, told, seen, since) = (started, fired.clone(), now, tokio::time::Instant::now());
                continue;
            }
            if now != seen {
                (seen, since) = (now, tokio::time::Instant::now());
                continue;
            }
            if seen == told || since.elapsed() < *settle {
                continue;
            }
            told.clone_from(&seen);
            let mut names = seen.changes_since(&fired);
            names.truncate(limits::TRIGGER_FILES_NAMED);
            // Names that wait are told again with those that come to them.
            let waits = !names.is_empty()
                && matches!(self.fire(at, json!({ "files": names }), FiringOrigin::Host), FiringOutcome::Queued);
            if !waits && trigger.state().waiting.is_none() {
                fired.clone_from(&seen);
            }
        }
    }

    /// Keeps the time of a schedule whose firing waits no more.
    pub(super) async fn keep_time_of_wait(&self, at: usize) {
        if let ServedTriggerKind::Cron { shown, missed: MissedTimes::Once, .. } = &self.0.triggers[at].kind {
            keep_unless_waiting(self, at, shown, (self.0.clock)()).await;
        }
    }

    /// Looks at the files of a trigger; `None` if they cannot be watched, which is told.
    async fn look(&self, at: usize) -> Option<FileSnapshot> {
        let host = self.clone();
        let looked = tokio::task::spawn_blocking(move || match &host.0.triggers[at].kind {
            ServedTriggerKind::Files { patterns, .. } => FileSnapshot::of(&host.0.host.app().config.root, patterns),
            _ => Ok(FileSnapshot::default()),
        });
        match looked.await.ok()? {
            Ok(snapshot) => Some(snapshot),
            Err(error) => {
                let what = format!("its files are not watched: {error}; name fewer folders");
                self.0.triggers[at].state().last = Some(TriggerFiring {
                    time: (self.0.clock)(),
                    run: None,
                    problem: Some(what.clone()),
                    missing: Vec::new(),
                });
                self.warn(at, &what);
                None
            }
        }
    }
}

/// Fires a trigger at the times of its schedule, until the triggers end or no time comes any more.
async fn keep_time(host: TriggerHost, at: usize) {
    let trigger = &host.0.triggers[at];
    let ServedTriggerKind::Cron { schedule, shown, missed } = &trigger.kind else { return };
    let mut after = (host.0.clock)();
    if *missed == MissedTimes::Once {
        let last = host.0.memory.last(&trigger.name, shown);
        if last.and_then(|last| schedule.next_after(last)).is_some_and(|next| next <= after) {
            trigger.state().missed += 1;
            let _ = host.fire(at, Value::Null, FiringOrigin::Host);
        }
        keep_unless_waiting(&host, at, shown, after).await;
    }
    loop {
        let next = schedule.next_after(after);
        trigger.state().next = next;
        let Some(next) = next else { return };
        if !wait_until(&host, next).await {
            return;
        }
        let now = (host.0.clock)();
        after = now.max(next);
        if now.duration_since(next).is_ok_and(|late| late > limits::TRIGGER_LATE) {
            trigger.state().missed += 1;
            if *missed == MissedTimes::Skip {
                host.warn(at, &format!("the time {} was missed, and is skipped", schedule.shown(next)));
                continue;
            }
        }
        let _ = host.fire(at, Value::Null, FiringOrigin::Host);
        if *missed == MissedTimes::Once {
            keep_unless_waiting(&host, at, shown, after).await;
        }
    }
}

/// Waits until the clock has reached a time. The clock is looked at again and again, as it may be set. Returns `false` if
/// the triggers end.
async fn wait_until(host: &TriggerHost, time: SystemTime) -> bool {
    loop {
        let left = time.duration_since((host.0.clock)()).unwrap_or_default();
        if left == Duration::ZERO {
            return !host.0.stop.is_cancelled();
        }
        if !host.pause(left.min(limits::TRIGGER_CLOCK_LOOK)).await {
            return false;
        }
    }
}

/// Keeps the time up to which nothing was missed. A firing that waits is made up for if the server ends before its run
/// begins.
async fn keep_unless_waiting(host: &TriggerHost, at: usize, schedule: &str, time: SystemTime) {
    let waits = host.0.triggers[at].state().waiting.is_some();
    if !waits {
        keep(host, at, schedule, time).await;
    }
}

/// Keeps the time up to which nothing was missed.
async fn keep(host: &TriggerHost, at: usize, schedule: &str, time: SystemTime) {
    let (keeper, schedule) = (host.clone(), schedule.to_owned());
    let kept = tokio::task::spawn_blocking(move || keeper.0.memory.keep(&keeper.0.triggers[at].name, &schedule, time));
    if let Ok(Err(why)) = kept.await {
        host.warn(at, &format!("its last time is not kept, so that missed ones are not made up for: {why}"));
    }
}
