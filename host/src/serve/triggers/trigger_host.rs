use std::{
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use serde_json::Value;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    delivery_log::{DeliveryLog, DeliveryOutcome},
    served_trigger::{ServedTrigger, ServedTriggerKind, TriggerFiring, TriggerSnapshot, TriggerState, WaitingFiring},
    trial_firing::outside_values,
    trigger_memory::TriggerMemory,
};
use crate::{
    config::{Config, TriggerOverlap},
    digest::Sha256Digest,
    error::Report,
    json_values::count_json_values,
    limits,
    project::ProjectLayout,
    serve::hosted_runs::{HostedRun, RunHost, RunHostError, RunRequest, RunRoom},
    task::TaskInput,
    trigger::{FiringValues, RenderedTask, VerifiedDelivery, WebhookHead, WebhookRefusal, body_value, webhook_values},
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
    /// The firing waits for the end of a run: of the trigger, or of any if the host takes no more.
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
    /// The webhook is signed, and its body has more than [`limits::SERVE_BODY_VALUES`] values. Nothing was done.
    TooManyValues,
}

/// The source of a firing. It decides what happens to one that comes while the host takes no run.
#[derive(Debug, Clone, Copy)]
pub(super) enum FiringOrigin {
    /// The host itself, by its clock or by files. Nobody would repeat the firing, so it waits.
    Host,
    /// A client, who is told that it is refused; with the digest of its webhook, if it is one.
    Client(Option<Sha256Digest>),
}

impl FiringOrigin {
    fn delivery(self) -> Option<Sha256Digest> {
        match self {
            Self::Host => None,
            Self::Client(delivery) => delivery,
        }
    }
}

/// The end of the wait of a firing.
struct EndedWait {
    /// The digest of the webhook that has fired.
    delivery: Option<Sha256Digest>,
    /// The run that was started, if one was.
    run: Option<Arc<str>>,
}

impl TriggerHost {
    /// Makes the triggers of a config ready, whose runs `host` starts. None of them waits before [`TriggerHost::start`].
    ///
    /// # Errors
    ///
    /// A [`Report`] if one of them cannot be used, for instance because its secret is missing, or the file with the webhooks
    /// that it has taken is damaged.
    pub fn new(
        host: RunHost,
        clock: TriggerClock,
        warnings: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, Report> {
        let app = Arc::clone(host.app());
        let Config { triggers, root, .. } = &app.config;
        let (layout, now) = (ProjectLayout::new(root), clock());
        let served = triggers.iter().map(|config| ServedTrigger::new(config, &app.environment, &layout, now));
        let served = served.collect::<Result<Vec<_>, Report>>()?;
        let names: Vec<_> = triggers.iter().map(|config| config.name.as_str()).collect();
        let memory = TriggerMemory::read(layout, &names);
        let (warnings, tasks, stop) = (Arc::new(warnings), TaskTracker::new(), CancellationToken::new());
        Ok(Self(Arc::new(TriggerHostState { host, triggers: served, clock, memory, warnings, tasks, stop })))
    }

    /// Ends the waiting, and tells which firings start no run any more. Runs at work are ended by their host.
    pub fn stop(&self) {
        self.0.stop.cancel();
        for (at, trigger) in self.0.triggers.iter().enumerate() {
            if trigger.state().waiting.is_some() {
                self.warn(at, "a firing that waits starts no run, since the server stops");
            }
        }
    }

    /// Returns the triggers as they are now, in the order of the config.
    pub fn snapshots(&self) -> Vec<TriggerSnapshot> {
        self.0.triggers.iter().map(ServedTrigger::snapshot).collect()
    }

    /// Returns the values of a firing by hand, as the trigger of this name has them; `None` if there is no such trigger.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the trigger does not take these values.
    pub fn firing_values(
        &self,
        name: &str,
        payload: Option<Value>,
        event: Option<&str>,
    ) -> Option<Result<Value, Report>> {
        let trigger = self.0.triggers.iter().find(|trigger| trigger.name == name)?;
        Some(outside_values(name, trigger.kind.source(), payload, event))
    }

    /// Fires a trigger by its name, with these values in the place of those of a webhook; `None` if there is no such
    /// trigger.
    pub fn fire_named(&self, name: &str, outside: Value) -> Option<FiringOutcome> {
        let at = self.0.triggers.iter().position(|trigger| trigger.name == name)?;
        Some(self.fire(at, outside, FiringOrigin::Client(None)))
    }

    /// Checks the headers of a webhook before its body is read; `None` if no trigger of this name has one.
    ///
    /// # Errors
    ///
    /// A [`WebhookRefusal`] if they have no signature.
    pub fn check_head(&self, name: &str, header: WebhookHead<'_>) -> Option<Result<(), WebhookRefusal>> {
        let trigger = self.0.triggers.iter().find(|trigger| trigger.name == name)?;
        let ServedTriggerKind::Webhook { verifier, .. } = &trigger.kind else { return None };
        Some(verifier.check_head(header))
    }

    /// Takes a webhook for a trigger; `None` if no trigger of this name has one. It blocks, and must be called in a runtime.
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
        let ServedTriggerKind::Webhook { verifier, deliveries } = &self.0.triggers[at].kind else { return None };
        let verified = verifier.verify(header, body, (self.0.clock)());
        Some(verified.map(|delivery| match count_json_values(body) > limits::SERVE_BODY_VALUES {
            true => HookOutcome::TooManyValues,
            false => self.deliver(at, deliveries, &delivery, body),
        }))
    }

    fn deliver(
        &self,
        at: usize,
        deliveries: &Mutex<DeliveryLog>,
        delivery: &VerifiedDelivery,
        body: &[u8],
    ) -> HookOutcome {
        // The lock is held until the firing is noted: a repetition that comes at the same time finds it.
        let mut known = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = known.find(delivery) {
            return HookOutcome::Repeated(run);
        }
        let (event, id) = (delivery.event.as_deref(), delivery.id.as_deref());
        let outside = webhook_values(Some(body_value(body)), event, id);
        let outcome = self.fire(at, outside, FiringOrigin::Client(Some(delivery.digest)));
        let taken = match &outcome {
            FiringOutcome::Started(run) => Some(DeliveryOutcome::Started(Arc::clone(run.id()))),
            FiringOutcome::Queued => Some(DeliveryOutcome::Waits),
            FiringOutcome::Skipped => Some(DeliveryOutcome::Skipped),
            // The sender may try again.
            FiringOutcome::Refused(_) => None,
        };
        if let Some(Err(why)) = taken.map(|taken| known.add(delivery, taken, (self.0.clock)())) {
            self.warn_unkept(at, &why);
        }
        HookOutcome::Fired(outcome)
    }

    /// Fires a trigger with these values from outside.
    pub(super) fn fire(&self, at: usize, outside: Value, origin: FiringOrigin) -> FiringOutcome {
        let trigger = &self.0.triggers[at];
        let time = trigger.shown_time((self.0.clock)());
        let values = FiringValues { time, trigger: trigger.name.clone(), outside };
        let mut state = trigger.state();
        // Nobody would start a run for a firing that begins to wait now.
        if self.0.stop.is_cancelled() {
            return self.refuse(at, &mut state, Vec::new(), RunHostError::Stopping);
        }
        if let Some(waiting) = state.waiting.as_mut().filter(|waiting| waiting.awaits_room) {
            return match (origin, &trigger.kind) {
                (FiringOrigin::Client(_), _) => {
                    let most = self.0.host.options().max_runs;
                    self.refuse(at, &mut state, Vec::new(), RunHostError::Busy { most })
                }
                (FiringOrigin::Host, ServedTriggerKind::Files { .. }) => {
                    // It names the files of the one that waits too.
                    waiting.task = trigger.template.render(&values);
                    FiringOutcome::Queued
                }
                (FiringOrigin::Host, _) => {
                    state.skipped += 1;
                    FiringOutcome::Skipped
                }
            };
        }
        let is_queue = trigger.overlap == TriggerOverlap::Queue;
        if state.at_work < trigger.most_at_work() {
            let task = trigger.template.render(&values);
            return match self.begin(at, &mut state, &task, None) {
                Ok(run) => FiringOutcome::Started(run),
                Err(RunHostError::Busy { .. }) if is_queue || matches!(origin, FiringOrigin::Host) => {
                    self.wait_for_room(at, &mut state, task, origin.delivery());
                    FiringOutcome::Queued
                }
                Err(error) => self.refuse(at, &mut state, task.missing, error),
            };
        }
        if is_queue && state.waiting.is_none() {
            let task = trigger.template.render(&values);
            state.waiting = Some(WaitingFiring { task, delivery: origin.delivery(), awaits_room: false });
            return FiringOutcome::Queued;
        }
        state.skipped += 1;
        FiringOutcome::Skipped
    }

    /// Starts a run of a trigger. `room`: the right to do so, for a firing that has waited for it.
    fn begin(
        &self,
        at: usize,
        state: &mut TriggerState,
        task: &RenderedTask,
        room: Option<RunRoom>,
    ) -> Result<Arc<HostedRun>, RunHostError> {
        let input = Some(TaskInput { text: task.text.clone(), attachments: Vec::new(), schema: None });
        let request = RunRequest { agent: self.0.triggers[at].agent.clone(), input, ..RunRequest::default() };
        let run = match room {
            Some(room) => self.0.host.begin_in(room, request)?,
            None => self.0.host.begin(request)?,
        };
        if !task.missing.is_empty() {
            let missing = task.missing.join(", ");
            self.warn(at, &format!("its task has empty values, since the firing has no {missing}"));
        }
        let (time, missing) = ((self.0.clock)(), task.missing.clone());
        state.last = Some(TriggerFiring { time, run: Some(Arc::clone(run.id())), problem: None, missing });
        (state.at_work, state.started) = (state.at_work + 1, state.started + 1);
        let (host, begun) = (self.clone(), Arc::clone(&run));
        drop(self.0.tasks.spawn(async move { host.await_end(at, &begun).await }));
        Ok(run)
    }

    /// Notes that a firing has started no run.
    fn refuse(&self, at: usize, state: &mut TriggerState, missing: Vec<String>, error: RunHostError) -> FiringOutcome {
        let (time, problem) = ((self.0.clock)(), Some(error.to_string()));
        state.last = Some(TriggerFiring { time, run: None, problem, missing });
        state.failed += 1;
        self.warn(at, &format!("no run was started: {error}"));
        FiringOutcome::Refused(error)
    }

    /// Lets a firing wait until the host takes one more run.
    fn wait_for_room(&self, at: usize, state: &mut TriggerState, task: RenderedTask, delivery: Option<Sha256Digest>) {
        let most = self.0.host.options().max_runs;
        self.warn(at, &format!("its firing waits, since {}", RunHostError::Busy { most }));
        state.waiting = Some(WaitingFiring { task, delivery, awaits_room: true });
        let host = self.clone();
        drop(self.0.tasks.spawn(async move { host.await_room(at).await }));
    }

    /// Waits until the host takes one more run, and starts that of the firing that waits for it.
    async fn await_room(&self, at: usize) {
        let room = tokio::select! {
            biased;
            () = self.0.stop.cancelled() => return,
            room = timeout(limits::TRIGGER_ROOM_TIME, self.0.host.room()) => room,
        };
        let ended = {
            let mut state = self.0.triggers[at].state();
            let Some(waiting) = state.waiting.take() else { return };
            match room {
                Ok(room) => self.begin_waiting(at, &mut state, waiting, Some(room)),
                Err(_) => {
                    let most = self.0.host.options().max_runs;
                    self.refuse(at, &mut state, waiting.task.missing, RunHostError::Busy { most });
                    Some(EndedWait { delivery: waiting.delivery, run: None })
                }
            }
        };
        self.note_end_of_wait(at, ended).await;
    }

    /// Waits for the end of a run, and starts the next one if a firing waits.
    async fn await_end(&self, at: usize, run: &HostedRun) {
        let snapshot = run.finished().await;
        let could_not_begin = snapshot.error().filter(|_| snapshot.agent.is_none());
        let ended = {
            let mut state = self.0.triggers[at].state();
            state.at_work = state.at_work.saturating_sub(1);
            if let Some(report) = could_not_begin {
                state.failed += 1;
                if let Some(last) = state.last.as_mut().filter(|last| last.run.as_ref() == Some(run.id())) {
                    (last.run, last.problem) = (None, Some(report.to_string()));
                }
                self.warn(at, &format!("its run could not begin: {report}"));
            }
            let is_next = state.waiting.as_ref().is_some_and(|waiting| !waiting.awaits_room);
            let next = if is_next && !self.0.stop.is_cancelled() { state.waiting.take() } else { None };
            next.and_then(|waiting| self.begin_waiting(at, &mut state, waiting, None))
        };
        self.note_end_of_wait(at, ended).await;
    }

    /// Starts the run of a firing that has waited; `None`: it waits again, as the host takes no run.
    fn begin_waiting(
        &self,
        at: usize,
        state: &mut TriggerState,
        waiting: WaitingFiring,
        room: Option<Result<RunRoom, RunHostError>>,
    ) -> Option<EndedWait> {
        let WaitingFiring { task, delivery, .. } = waiting;
        let run = match room.transpose().and_then(|room| self.begin(at, state, &task, room)) {
            Ok(run) => Some(Arc::clone(run.id())),
            Err(RunHostError::Busy { .. }) => {
                self.wait_for_room(at, state, task, delivery);
                return None;
            }
            Err(error) => {
                self.refuse(at, state, task.missing, error);
                None
            }
        };
        Some(EndedWait { delivery, run })
    }

    /// Keeps the end of a wait over restarts of the server.
    async fn note_end_of_wait(&self, at: usize, ended: Option<EndedWait>) {
        let Some(EndedWait { delivery, run }) = ended else { return };
        if let Some(digest) = delivery {
            let host = self.clone();
            let kept = tokio::task::spawn_blocking(move || match &host.0.triggers[at].kind {
                ServedTriggerKind::Webhook { deliveries, .. } => {
                    let mut known = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
                    known.end_wait(&digest, run, (host.0.clock)())
                }
                _ => Ok(()),
            });
            if let Ok(Err(why)) = kept.await {
                self.warn_unkept(at, &why);
            }
        }
        self.keep_time_of_wait(at).await;
    }

    fn warn_unkept(&self, at: usize, why: &str) {
        self.warn(at, &format!("its webhook is not kept, so that it may be taken again after a restart: {why}"));
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
