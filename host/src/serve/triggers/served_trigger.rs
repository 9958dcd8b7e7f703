use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use super::delivery_log::DeliveryLog;
use crate::{
    app::Environment,
    config::{MissedTimes, TriggerConfig, TriggerOverlap, WebhookConfig},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    files, limits,
    project::ProjectLayout,
    trigger::{CronSchedule, PathPattern, RenderedTask, TaskTemplate, TriggerSource, WebhookVerifier},
};

/// A trigger of the config, ready to fire, with its state.
pub(super) struct ServedTrigger {
    pub name: String,
    pub agent: Option<String>,
    pub template: TaskTemplate,
    pub overlap: TriggerOverlap,
    pub kind: ServedTriggerKind,
    state: Mutex<TriggerState>,
}

/// The event that fires a trigger, with what it takes to notice it.
#[expect(clippy::large_enum_variant, reason = "a config has few triggers, which live as long as the server")]
pub(super) enum ServedTriggerKind {
    Cron {
        schedule: CronSchedule,
        /// The fields and the zone, as they are shown and kept.
        shown: String,
        missed: MissedTimes,
    },
    Webhook {
        verifier: Box<WebhookVerifier>,
        deliveries: Mutex<DeliveryLog>,
    },
    Files {
        patterns: Vec<PathPattern>,
        shown: String,
        settle: Duration,
    },
}

impl ServedTriggerKind {
    /// Returns the kind of event that fires the trigger.
    pub fn source(&self) -> TriggerSource {
        match self {
            Self::Cron { .. } => TriggerSource::Cron,
            Self::Webhook { .. } => TriggerSource::Webhook,
            Self::Files { .. } => TriggerSource::Files,
        }
    }
}

/// The state of a trigger.
#[derive(Default)]
pub(super) struct TriggerState {
    pub at_work: u64,
    /// The firing that waits for the end of a run. No other begins before it.
    pub waiting: Option<WaitingFiring>,
    pub next: Option<SystemTime>,
    pub last: Option<TriggerFiring>,
    pub started: u64,
    pub skipped: u64,
    pub missed: u64,
    pub failed: u64,
}

/// A firing that waits.
pub(super) struct WaitingFiring {
    pub task: RenderedTask,
    /// The digest of the webhook that has fired.
    pub delivery: Option<Sha256Digest>,
    /// `true` if it waits until the host takes one more run, `false` if for the end of a run of its trigger.
    pub awaits_room: bool,
}

/// A firing that was to start a run.
#[derive(Debug, Clone)]
pub struct TriggerFiring {
    /// The time.
    pub time: SystemTime,
    /// The id of the run, if one began.
    pub run: Option<Arc<str>>,
    /// The reason why no run began.
    pub problem: Option<String>,
    /// The paths in the task for which the firing had no value.
    pub missing: Vec<String>,
}

/// A trigger at one point in time.
#[derive(Debug, Clone)]
pub struct TriggerSnapshot {
    /// The name.
    pub name: String,
    /// The key of the config that says what fires it: `cron`, `webhook` or `files`.
    pub kind: &'static str,
    /// The fields of cron with their zone, or the patterns of files.
    pub schedule: Option<String>,
    /// The agent or team of its runs; `None`: the one that runs if a request names none.
    pub agent: Option<String>,
    /// The next time, if it waits for one.
    pub next: Option<SystemTime>,
    /// The last firing that was to start a run.
    pub last: Option<TriggerFiring>,
    /// The number of its runs at work.
    pub at_work: u64,
    /// `true` if a firing waits for the end of a run: of the trigger, or of any if the host takes no more.
    pub is_queued: bool,
    /// The number of runs that it has started.
    pub started: u64,
    /// The number of firings for which nothing was done, since runs were at work.
    pub skipped: u64,
    /// The number of times that passed without a server.
    pub missed: u64,
    /// The number of runs that could not begin.
    pub failed: u64,
}

/// Formats a time in UTC, for a trigger without a time zone.
pub(super) fn utc_time(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(files::writable_date(time)).to_string()
}

impl ServedTrigger {
    /// Makes a trigger of the config ready. Its secret is taken from the environment.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the secret is missing or cannot be used, the webhooks that it has taken cannot be read, or the config
    /// was not checked.
    pub fn new(
        config: &TriggerConfig,
        environment: &Environment,
        layout: &ProjectLayout,
        now: SystemTime,
    ) -> Result<Self, Report> {
        const CHECK: &str = "shelly-host config check says more";
        let TriggerConfig { name, agent, webhook, files, .. } = config;
        let wrong = |key: &str, why: &dyn std::fmt::Display, hint: &str| {
            Report::new(ErrorKind::Usage, format!("triggers.{name}.{key}: {why}")).hint(hint)
        };
        let kind = match (webhook, files) {
            (Some(webhook), _) => {
                let WebhookConfig { secret, .. } = webhook;
                let unset = || {
                    let why = format!("the environment variable {} is not set", secret.env);
                    wrong("webhook.secret", &why, "set it to the secret that the sender has")
                };
                let value = environment(&secret.env).filter(|value| !value.is_empty()).ok_or_else(unset)?;
                let verifier = WebhookVerifier::new(webhook.scheme(), value.trim());
                let hint = "use the secret that the sender shows, or make one of 32 random bytes";
                let verifier = verifier.map_err(|error| wrong("webhook.secret", &error, hint))?;
                let deliveries = DeliveryLog::read(layout.clone(), name, now)?;
                ServedTriggerKind::Webhook { verifier: Box::new(verifier), deliveries: Mutex::new(deliveries) }
            }
            (None, Some(files)) => ServedTriggerKind::Files {
                patterns: files.patterns().map_err(|(_, error)| wrong("files", &error, CHECK))?,
                shown: files.paths.join(", "),
                settle: files.settle.unwrap_or(limits::TRIGGER_SETTLE),
            },
            (None, None) => {
                let zone = config.time_zone.as_deref().unwrap_or("UTC");
                ServedTriggerKind::Cron {
                    schedule: config.schedule().map_err(|error| wrong("cron", &error, CHECK))?,
                    shown: format!("{} {zone}", config.cron.as_deref().unwrap_or_default()),
                    missed: config.missed.unwrap_or_default(),
                }
            }
        };
        Ok(Self {
            name: name.clone(),
            agent: agent.clone(),
            template: config.template().map_err(|error| wrong("task", &error, CHECK))?,
            overlap: config.overlap.unwrap_or_default(),
            kind,
            state: Mutex::default(),
        })
    }

    /// Locks the state.
    pub fn state(&self) -> MutexGuard<'_, TriggerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of runs that may be at work at once.
    pub fn most_at_work(&self) -> u64 {
        match self.overlap {
            TriggerOverlap::Parallel(count) => count,
            TriggerOverlap::Skip | TriggerOverlap::Queue => 1,
        }
    }

    /// Formats a time for the task: in the zone of the schedule, or in UTC.
    pub fn shown_time(&self, time: SystemTime) -> String {
        match &self.kind {
            ServedTriggerKind::Cron { schedule, .. } => schedule.shown(time),
            _ => utc_time(time),
        }
    }

    /// Returns the trigger as it is now.
    pub fn snapshot(&self) -> TriggerSnapshot {
        let (kind, schedule) = match &self.kind {
            ServedTriggerKind::Cron { shown, .. } => ("cron", Some(shown.clone())),
            ServedTriggerKind::Webhook { .. } => ("webhook", None),
            ServedTriggerKind::Files { shown, .. } => ("files", Some(shown.clone())),
        };
        let state = self.state();
        TriggerSnapshot {
            name: self.name.clone(),
            kind,
            schedule,
            agent: self.agent.clone(),
            next: state.next,
            last: state.last.clone(),
            at_work: state.at_work,
            is_queued: state.waiting.is_some(),
            started: state.started,
            skipped: state.skipped,
            missed: state.missed,
            failed: state.failed,
        }
    }
}
