use std::{
    sync::{Arc, PoisonError},
    time::SystemTime,
};

use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    served_trigger::{ServedTrigger, ServedTriggerKind, TriggerFiring, TriggerSnapshot, TriggerState},
    trigger_memory::TriggerMemory,
};
use crate::{
    config::{Config, TriggerOverlap},
    error::{Report, cut},
    limits,
    project::ProjectLayout,
    serve::hosted_runs::{HostedRun, RunHost, RunHostError, RunRequest},
    task::TaskInput,
    trigger::{FiringValues, RenderedTask, VerifiedDelivery, WebhookHead, WebhookRefusal},
};

/// The clock of triggers: that of the machine, or one of a test.
pub type TriggerClock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Takes the warnings of triggers, of which nobody waits for an answer.
type WarningSink = Arc<dyn Fn(&str) + Send + Sync>;

/// The triggers of a server. Clones share them.
#[derive(Clone)]
pub struct TriggerHost(pub(super) Arc<TriggerHostState>);

pub(super) struct TriggerHostState {
    pub host: RunHost,
    pub triggers: Vec<ServedTrigger>,
    pub clock: TriggerClock,
    pub memory: TriggerMemory,
    warnings: WarningSink,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

/// The outcome of a firing.
#[derive(Clone)]
pub enum FiringOutcome {
    /// A run was started. It may still be unable to begin.
    Started(Arc<HostedRun>),
    /// The firing waits for the end of a run.
    Queued,
    /// Nothing was done, since as many runs are at work as the trigger may have.
    Skipped,
    /// No run can be started now.
    Refused(RunHostError),
}

/// The outcome of a webhook.
#[derive(Clone)]
pub enum HookOutcome {
    /// The webhook has fired the trigger.
    Fired(FiringOutcome),
    /// The webhook has come before, and started this run if any.
    Repeated(Option<Arc<str>>),
}

impl TriggerHost {
    /// Makes the triggers of a config ready, whose runs `host` starts. None of them waits before [`TriggerHost::start`].
    ///
    /// # Errors
    ///
    /// A [`Report`] if one of them cannot be used, for instance because its secret is missing.
    pub fn new(
        host: RunHost,
        clock: TriggerClock,
        warnings: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, Report> {
        let app = Arc::clone(host.app());
        let Config { triggers, root, .. } = &app.config;
        let served = triggers.iter().map(|config| ServedTrigger::new(config, &app.environment));
        let served = served.collect::<Result<Vec<_>, Report>>()?;
        let names: Vec<_> = triggers.iter().map(|config| config.name.as_str()).collect();
        let memory = TriggerMemory::read(ProjectLayout::new(root), &names);
        let (warnings, tasks, stop) = (Arc::new(warnings), TaskTracker::new(), CancellationToken::new());
        Ok(Self(Arc::new(TriggerHostState { host, triggers: served, clock, memory, warnings, tasks, stop })))
    }

    /// Ends the waiting. Runs at work are ended by their host.
    pub fn stop(&self) {
        self.0.stop.cancel();
    }

    /// Returns the triggers as they are now, in the order of the config.
    pub fn snapshots(&self) -> Vec<TriggerSnapshot> {
        self.0.triggers.iter().map(ServedTrigger::snapshot).collect()
    }

    /// Fires a trigger by its name, with these values in the place of those of a webhook; `None` if there is no such trigger.
    pub fn fire_named(&self, name: &str, outside: Value) -> Option<FiringOutcome> {
        let at = self.0.triggers.iter().position(|trigger| trigger.name == name)?;
        Some(self.fire(at, outside))
    }

    /// Takes a webhook for a trigger; `None` if no trigger of this name has one.
    ///
    /// # Errors
    ///
    /// A [`WebhookRefusal`] if it is not signed as it must be. Nothing in it is looked at before.
    pub fn receive(
        &self,
        name: &str,
        header: WebhookHead<'_>,
        body: &[u8],
    ) -> Option<Result<HookOutcome, WebhookRefusal>> {
        let at = self.0.triggers.iter().position(|trigger| trigger.name == name)?;
        let ServedTriggerKind::Webhook(verifier) = &self.0.triggers[at].kind else { return None };
        Some(verifier.verify(header, body, (self.0.clock)()).map(|delivery| self.deliver(at, delivery, body)))
    }

    fn deliver(&self, at: usize, delivery: VerifiedDelivery, body: &[u8]) -> HookOutcome {
        // The lock is held until the firing is noted: a repetition that comes at the same time finds it.
        let mut known = self.0.triggers[at].deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = known.find(&delivery) {
            return HookOutcome::Repeated(run);
        }
        let body = serde_json::from_slice(body).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(body);
            Value::from(cut(&text, limits::TRIGGER_VALUE_CHARS))
        });
        let outside = json!({"body": body, "event": delivery.event, "delivery": delivery.id});
        let outcome = self.fire(at, outside);
        match &outcome {
            FiringOutcome::Started(run) => known.add(delivery, Some(Arc::clone(run.id()))),
            FiringOutcome::Queued | FiringOutcome::Skipped => known.add(delivery, None),
            // The sender may try again.
            FiringOutcome::Refused(_) => {}
        }
        HookOutcome::Fired(outcome)
    }

    /// Fires a trigger with these values from outside.
    pub(super) fn fire(&self, at: usize, outside: Value) -> FiringOutcome {
        let trigger = &self.0.triggers[at];
        let time = trigger.shown_time((self.0.clock)());
        let values = FiringValues { time, trigger: trigger.name.clone(), outside };
        let mut state = trigger.state();
        if state.at_work < trigger.most_at_work() {
            return self.begin(at, &mut state, &values);
        }
        if trigger.overlap == TriggerOverlap::Queue && state.queued.is_none() {
            state.queued = Some(values);
            return FiringOutcome::Queued;
        }
        state.skipped += 1;
        FiringOutcome::Skipped
    }

    fn begin(&self, at: usize, state: &mut TriggerState, values: &FiringValues) -> FiringOutcome {
        let trigger = &self.0.triggers[at];
        let RenderedTask { text, missing } = trigger.template.render(values);
        if !missing.is_empty() {
            self.warn(at, &format!("its task has empty values, since the firing has no {}", missing.join(", ")));
        }
        let input = Some(TaskInput { text, attachments: Vec::new(), schema: None });
        let begun = self.0.host.begin(RunRequest { agent: trigger.agent.clone(), input, ..RunRequest::default() });
        let run = begun.as_ref().ok().map(|run| Arc::clone(run.id()));
        let problem = begun.as_ref().err().map(ToString::to_string);
        state.last = Some(TriggerFiring { time: (self.0.clock)(), run, problem, missing });
        match begun {
            Ok(run) => {
                (state.at_work, state.started) = (state.at_work + 1, state.started + 1);
                let (host, begun) = (self.clone(), Arc::clone(&run));
                drop(self.0.tasks.spawn(async move { host.await_end(at, &begun).await }));
                FiringOutcome::Started(run)
            }
            Err(error) => {
                state.failed += 1;
                self.warn(at, &format!("no run was started: {error}"));
                FiringOutcome::Refused(error)
            }
        }
    }

    /// Waits for the end of a run, and starts the next one if a firing waits.
    async fn await_end(&self, at: usize, run: &HostedRun) {
        let ended = run.finished().await;
        let could_not_begin = ended.error().filter(|_| ended.agent.is_none());
        let mut state = self.0.triggers[at].state();
        state.at_work = state.at_work.saturating_sub(1);
        if let Some(report) = could_not_begin {
            state.failed += 1;
            if let Some(last) = state.last.as_mut().filter(|last| last.run.as_ref() == Some(run.id())) {
                (last.run, last.problem) = (None, Some(report.to_string()));
            }
            self.warn(at, &format!("its run could not begin: {report}"));
        }
        if let Some(values) = state.queued.take()
            && !self.0.stop.is_cancelled()
        {
            let _ = self.begin(at, &mut state, &values);
        }
    }

    /// Waits; returns `false` if the triggers end.
    pub(super) async fn pause(&self, time: std::time::Duration) -> bool {
        tokio::select! {
            biased;
            () = self.0.stop.cancelled() => false,
            () = tokio::time::sleep(time) => true,
        }
    }

    pub(super) fn warn(&self, at: usize, what: &str) {
        (self.0.warnings)(&format!("the trigger `{}`: {what}", self.0.triggers[at].name));
    }
}
