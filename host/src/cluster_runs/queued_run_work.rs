//! The work on one run of the queue, from the moment at which this host has taken it.

use std::{pin::pin, sync::Arc};

use tokio::{
    task::spawn_blocking,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    bundle_folder::{BundleError, object},
    bundle_hosts::NotAccepted,
    queued_run_end::{end_of_failure, end_of_record, end_of_snapshot, passing_failure, with_spending},
    recorded_progress::{RecordedProgress, recorded_progress, sum},
    run_steering::SteeredRun,
    worker_state::ClusterWorkerState,
};
use crate::{
    agent::RunError,
    app::BoardSharing,
    capability::Ceiling,
    cluster::{
        ClusterError, JobSlot, QueuedRunContext, QueuedRunEnd, RunEndState, RunQueue, RunSpec, SpecFile, TakenRun,
        spent_by_runs_left,
    },
    error::{ErrorKind, Report},
    event::PropagatedSpan,
    limits,
    model::UsageTally,
    serve::hosted_runs::{HostedRun, HostedRunOutcome, RunHost, RunHostError, RunRequest, RunSnapshot, RunTarget},
    session::SessionError,
    task::{AnswerSchema, AttachedFile, TaskInput},
};

/// The reason why a run is dropped that this host has lost. Which of them it was, is not known here.
const LOST: &str =
    "another worker has it now, it was ended elsewhere, or no server was reached for longer than the lease";

/// The outcome of the work on a run.
enum QueuedRunOutcome {
    /// The run has ended.
    Ended(Box<QueuedRunEnd>),
    /// Another worker, or this one later, goes on with it.
    GivenBack,
    /// The session could not be written any more: this worker has lost the run.
    SessionLost(String),
    /// This host does not do such runs.
    Declined(String),
    /// Another worker has the run, or its session: nothing is written.
    Dropped(String),
}

/// A session as it is before a run goes on in it.
enum SessionState {
    /// Another process has it.
    InUse,
    /// Somebody else began it.
    NotOwn,
    /// The host cannot use what is there, for this reason.
    Unusable(String),
    /// No host can use what is there.
    Damaged(Report),
    /// Nobody has it.
    Free(RecordedProgress),
}

impl QueuedRunOutcome {
    fn ended(ending: QueuedRunEnd) -> Self {
        Self::Ended(Box::new(ending))
    }
}

/// Works on a run until it has ended, or until this host has to leave it to another one.
pub(super) async fn perform(worker: &ClusterWorkerState, taken: TakenRun, slot: JobSlot) {
    let (id, spec) = (taken.id().to_owned(), taken.entry().spec.clone());
    // The runs that it waits for go on while it does not.
    let left = worker.stop.child_token();
    let outcome = QueuedRunWork { worker, taken: &taken, spec: &spec, slot, left }.outcome().await;
    let status = &worker.status;
    let written = match outcome {
        QueuedRunOutcome::Ended(ending) => {
            status.note_end(ending.state);
            taken.finish(*ending).await
        }
        QueuedRunOutcome::GivenBack => {
            status.note_given_back();
            taken.give_back().await
        }
        QueuedRunOutcome::SessionLost(why) => {
            status.note_given_back();
            worker.warn(&format!("run {id} has lost its session: {why}"));
            taken.give_back_lost(&why).await.map(drop)
        }
        QueuedRunOutcome::Declined(why) => {
            status.note_declined();
            worker.warn(&format!("run {id} is not accepted: {why}"));
            taken.decline(&why).await.map(drop)
        }
        QueuedRunOutcome::Dropped(why) => {
            status.note_dropped();
            worker.warn(&format!("run {id} is dropped: {why}"));
            // As if this host had died with it.
            drop(taken);
            Ok(())
        }
    };
    if let Err(error) = written {
        worker.warn(&format!("run {id}: {}", error.report()));
    }
}

struct QueuedRunWork<'a> {
    worker: &'a ClusterWorkerState,
    taken: &'a TakenRun,
    spec: &'a RunSpec,
    /// Its place among the jobs of the worker.
    slot: JobSlot,
    /// Cancelled when this host leaves the run to another one.
    left: CancellationToken,
}

impl QueuedRunWork<'_> {
    async fn outcome(&self) -> QueuedRunOutcome {
        let host = match self.worker.hosts.host_of(self.spec).await {
            Ok(host) => host,
            Err(NotAccepted::Declined(why)) => return QueuedRunOutcome::Declined(why),
            Err(NotAccepted::Failed(report)) => return self.later(&report).await,
        };
        let failed =
            |report: &Report| QueuedRunOutcome::ended(end_of_failure(report, &UsageTally::default(), &host.secrets()));
        if let Some(parent) = self.parent_run()
            && has_ended(&self.worker.cluster.runs(), &parent).await
        {
            // Nobody waits for it any more.
            return QueuedRunOutcome::ended(QueuedRunEnd::new(RunEndState::Cancelled));
        }
        let ceiling = match host.app().parent_ceiling(self.spec.ceiling.as_ref()) {
            Ok(ceiling) => ceiling,
            // A later version of the host may know it.
            Err(why) => {
                return QueuedRunOutcome::Declined(format!("the bounds of its parent run cannot be kept: {why}"));
            }
        };
        let schema = match self.spec.schema.as_ref().map(AnswerSchema::new).transpose() {
            Ok(schema) => schema,
            Err(report) => return failed(&report),
        };
        let unusable = |why: String| {
            let report = Report::new(ErrorKind::Usage, "the files of the task cannot be used").cause(why);
            failed(&report.hint("submit the task again, with its files"))
        };
        let attachments = match self.attachments().await {
            Ok(Ok(attachments)) => attachments,
            Ok(Err(why)) => return unusable(why),
            // Without its key an object is not even found.
            Err(BundleError::Unusable(why)) if self.worker.cluster.options().encryption.is_some() => {
                return QueuedRunOutcome::Declined(format!(
                    "a file of the task cannot be read with the keys of the worker: {why}"
                ));
            }
            Err(BundleError::Unusable(why)) => return unusable(why),
            Err(BundleError::Failed(report)) => return self.later(&report).await,
        };
        let task = self.spec.task.clone().map(|text| TaskInput { text, attachments, schema: schema.clone() });
        let (run, before) = match self.begin(&host, task, schema.as_ref(), &ceiling).await {
            Ok(begun) => begun,
            Err(outcome) => return outcome,
        };
        let (bus, cancel) = (self.worker.cluster.bus(), CancellationToken::new());
        let steered = SteeredRun::start(&bus, &self.spec.id, &host, &run, &cancel).await;
        if let Err(error) = &steered {
            self.worker.warn(&format!("run {} cannot be watched: {}", self.spec.id, error.report()));
        }
        let _parent = self.parent_run().map(|parent| {
            let runs = self.worker.cluster.runs();
            AbortOnDropHandle::new(tokio::spawn(cancel_with_parent(runs, parent, cancel.clone())))
        });
        let Some(snapshot) = self.finished(&host, &run, &cancel).await else {
            return QueuedRunOutcome::Dropped(LOST.into());
        };
        // Whoever watches the run gets its last event before the end of its entry.
        if let Ok(steered) = steered {
            steered.finish().await;
        }
        self.outcome_of(&host, &snapshot, &before, schema.as_ref()).await
    }

    /// Gives the run back a moment later, because of something that may pass.
    async fn later(&self, report: &Report) -> QueuedRunOutcome {
        self.worker.warn(&format!("run {} goes back to the queue: {report}", self.spec.id));
        self.pause().await;
        QueuedRunOutcome::GivenBack
    }

    /// Waits for a moment, unless this host ends or the run is cancelled or lost.
    async fn pause(&self) {
        let (lost, cancelled) = (self.taken.lost(), self.taken.cancelled());
        tokio::select! {
            () = self.worker.stop.cancelled() => {}
            () = lost.cancelled() => {}
            () = cancelled.cancelled() => {}
            () = sleep(limits::CLUSTER_SESSION_PAUSE) => {}
        }
    }

    /// Gets the files of the task, of which there are at most [`limits::CLUSTER_SPEC_FILES`]. The inner error is the reason
    /// for which no worker can use them.
    async fn attachments(&self) -> Result<Result<Vec<AttachedFile>, String>, BundleError> {
        let total = self.spec.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        if total > limits::TASK_ATTACHED_BYTES {
            let most = limits::TASK_ATTACHED_BYTES;
            return Ok(Err(format!("the files have {total} bytes together, more than {most}")));
        }
        let mut attachments = Vec::new();
        for SpecFile { name, digest, bytes, .. } in &self.spec.files {
            let most = (*bytes).min(limits::ATTACHED_MEDIA_BYTES);
            let content = object(digest, most, self.worker.hosts.objects()).await?;
            match AttachedFile::of_bytes(name, content.to_vec()) {
                Ok(file) => attachments.push(file),
                Err(error) => return Ok(Err(error.to_string())),
            }
        }
        Ok(Ok(attachments))
    }

    /// Begins the run, or goes on with it where the journal ends, once no other process has its session. Returns it and what
    /// it has spent before.
    async fn begin(
        &self,
        host: &RunHost,
        task: Option<TaskInput>,
        schema: Option<&AnswerSchema>,
        ceiling: &Ceiling,
    ) -> Result<(Arc<HostedRun>, UsageTally), QueuedRunOutcome> {
        let give_up = Instant::now() + self.worker.options.session_wait;
        loop {
            if self.taken.lost().is_cancelled() {
                return Err(QueuedRunOutcome::Dropped(LOST.into()));
            }
            if self.taken.cancelled().is_cancelled() {
                return Err(QueuedRunOutcome::ended(QueuedRunEnd::new(RunEndState::Cancelled)));
            }
            if self.worker.stop.is_cancelled() {
                return Err(QueuedRunOutcome::GivenBack);
            }
            let (input, before) = match self.session_state(host, false).await {
                Err(report) => return Err(self.later(&report).await),
                Ok(SessionState::Unusable(why)) => return Err(self.declined_session(&why)),
                Ok(SessionState::Damaged(report)) => {
                    let ending = end_of_failure(&report, &UsageTally::default(), &host.secrets());
                    return Err(QueuedRunOutcome::ended(ending));
                }
                Ok(SessionState::NotOwn) => {
                    return Err(QueuedRunOutcome::Declined(format!(
                        "the session `{}` was not begun by the person of the worker; copy session.key to its host, or start \
                         it with --trust",
                        self.spec.session
                    )));
                }
                Ok(SessionState::InUse) if Instant::now() >= give_up => {
                    let what = format!("its session `{}` is in use by another process", self.spec.session);
                    // Everyone who looks at the run sees why it waits.
                    let _ = self.taken.warn(&what).await;
                    return Err(self.later(&Report::new(ErrorKind::Run, what)).await);
                }
                Ok(SessionState::InUse) => {
                    self.pause().await;
                    continue;
                }
                Ok(SessionState::Free(RecordedProgress::Ended { outcome, spent, tool_calls, left })) => {
                    let ending = end_of_record(&outcome, schema, (&spent, tool_calls), &host.secrets());
                    return Err(QueuedRunOutcome::ended(self.with_runs_left(ending, &spent, left).await));
                }
                Ok(SessionState::Free(RecordedProgress::NotBegun)) => (task.clone(), UsageTally::default()),
                Ok(SessionState::Free(RecordedProgress::Unfinished { spent })) => (None, spent),
            };
            let request = RunRequest {
                agent: self.spec.agent.clone(),
                model: self.spec.model.clone(),
                input,
                target: RunTarget::Named(self.spec.session.clone()),
                budget: self.spec.budget,
                queue_id: Some(self.spec.id.clone()),
                queued: QueuedRunContext {
                    run: Some(self.spec.id.clone()),
                    session: Some(self.spec.session.clone()),
                    bundle: self.spec.bundle,
                    priority: self.spec.priority,
                    depth: self.spec.parent.as_ref().map_or(0, |parent| parent.depth),
                    ceiling: ceiling.clone(),
                    slot: Some(self.slot.clone()),
                    left: self.left.clone(),
                },
                schema: schema.cloned(),
                outer_span: PropagatedSpan::parse(self.spec.traceparent.as_deref(), None),
                boards: self.boards(),
                ..RunRequest::default()
            };
            match host.begin(request) {
                Ok(run) => return Ok((run, before)),
                Err(RunHostError::Stopping) => return Err(QueuedRunOutcome::GivenBack),
                // A run of this host that has just ended still holds its place.
                Err(RunHostError::SessionInUse { .. } | RunHostError::Busy { .. }) if Instant::now() < give_up => {
                    self.pause().await;
                }
                Err(error) => return Err(self.later(&Report::new(ErrorKind::Run, error.to_string())).await),
            }
        }
    }

    /// Leaves the run to a worker that can use its session.
    fn declined_session(&self, why: &str) -> QueuedRunOutcome {
        QueuedRunOutcome::Declined(format!("the worker cannot use its session `{}`: {why}", self.spec.session))
    }

    /// Looks into the session of the run. `reads_all`: all of it is read, also if no worker had the run before.
    async fn session_state(&self, host: &RunHost, reads_all: bool) -> Result<SessionState, Report> {
        let (store, is_trusted) = (host.app().sessions(), host.options().is_trusted);
        let (session, id, has_task) = (self.spec.session.clone(), self.spec.id.clone(), self.spec.task.is_some());
        // No worker had it before, so that nothing of it is recorded.
        let is_first = self.taken.entry().starts <= 1;
        let look = move || -> Result<SessionState, SessionError> {
            // Also one that nobody can read yet: the worker that was about to create it may have died.
            if store.is_in_use(&session) {
                return Ok(SessionState::InUse);
            }
            if !store.contains(&session) {
                return Ok(SessionState::Free(RecordedProgress::NotBegun));
            }
            if !is_trusted && !store.is_own(&session)? {
                return Ok(SessionState::NotOwn);
            }
            if is_first && !reads_all {
                return Ok(SessionState::Free(RecordedProgress::NotBegun));
            }
            let recorded = recorded_progress(&store, &session, &id, has_task)?;
            Ok(SessionState::Free(if is_first { RecordedProgress::NotBegun } else { recorded }))
        };
        let looked = spawn_blocking(look).await;
        let looked = looked.map_err(|error| Report::new(ErrorKind::Bug, "the session was not read").cause(error))?;
        match looked {
            Err(error @ SessionError::Damaged { .. }) => Ok(SessionState::Damaged(error.report())),
            // Another worker may have the key, or a later version.
            Err(error) if error.is_unusable() => Ok(SessionState::Unusable(error.report().with_hint())),
            looked => looked.map_err(|error| error.report()),
        }
    }

    /// Waits until the run has ended; `None`: another worker has it, and it is dropped here.
    async fn finished(&self, host: &RunHost, run: &Arc<HostedRun>, cancel: &CancellationToken) -> Option<RunSnapshot> {
        let (lost, cancelled) = (self.taken.lost(), self.taken.cancelled());
        let mut finished = pin!(run.finished());
        let (mut is_stopping, mut cancel_again) = (false, None);
        loop {
            let again = async move {
                match cancel_again {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = lost.cancelled() => {
                    self.left.cancel();
                    run.abandon();
                    finished.as_mut().await;
                    return None;
                }
                snapshot = &mut finished => return Some(snapshot),
                () = self.worker.stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    host.shut_down().await;
                }
                // The first time is an orderly end, for which its agents wait a while themselves before they record it; the
                // second one drops what does not end.
                () = either(&cancelled, cancel), if cancel_again.is_none() => {
                    cancel_again = Some(Instant::now() + limits::CANCEL_GRACE * 2);
                    run.cancel();
                }
                () = again => {
                    cancel_again = Some(Instant::now() + limits::CLUSTER_SESSION_WAIT);
                    run.cancel();
                }
            }
        }
    }

    async fn outcome_of(
        &self,
        host: &RunHost,
        snapshot: &RunSnapshot,
        before: &UsageTally,
        schema: Option<&AnswerSchema>,
    ) -> QueuedRunOutcome {
        // Another process has the session, or the server was away for too long: the run goes on where it can be written. A
        // session that is full fails each time.
        if let Some(HostedRunOutcome::Failed { failure: Some(RunError::Unrecorded(why)), .. }) = &snapshot.outcome {
            self.pause().await;
            return match self.worker.stop.is_cancelled() {
                true => QueuedRunOutcome::GivenBack,
                false => QueuedRunOutcome::SessionLost(why.to_string()),
            };
        }
        // Another process had the session, or wrote the end, after this one had looked into it.
        if snapshot.error().is_some() && snapshot.agent.is_none() {
            match self.session_state(host, true).await {
                Ok(SessionState::Unusable(why)) => return self.declined_session(&why),
                Ok(SessionState::Free(RecordedProgress::Ended { outcome, spent, tool_calls, left })) => {
                    let ending = end_of_record(&outcome, schema, (&spent, tool_calls), &host.secrets());
                    return QueuedRunOutcome::ended(self.with_runs_left(ending, &spent, left).await);
                }
                Ok(SessionState::InUse) => {
                    let what = format!("its session `{}` is in use by another process", self.spec.session);
                    return self.later(&Report::new(ErrorKind::Run, what)).await;
                }
                // That may be over by now.
                Ok(_) | Err(_) => {
                    if let Some(report) = passing_failure(snapshot.outcome.as_ref()) {
                        return self.later(report).await;
                    }
                }
            }
        }
        for warning in snapshot.warnings.iter().take(limits::CLUSTER_RUN_WARNINGS) {
            // They are only shown.
            let _ = self.taken.warn(warning).await;
        }
        let Some(ending) = end_of_snapshot(snapshot, before, &host.secrets()) else {
            return QueuedRunOutcome::GivenBack;
        };
        // The journal says what a run without an answer has called, which its parent run is charged, and what others still
        // spend for it.
        let is_charged = snapshot.answer().is_none() && self.spec.parent.is_some();
        if !is_charged && !host.app().config.has_placed_agents() {
            return QueuedRunOutcome::ended(ending);
        }
        QueuedRunOutcome::ended(match self.recorded(host).await {
            Some(RecordedProgress::Ended { spent, tool_calls, left, .. }) => {
                self.with_runs_left(QueuedRunEnd { tool_calls, ..ending }, &spent, left).await
            }
            // It failed before it began.
            _ => ending,
        })
    }

    /// Reads the progress of the run from its session; `None` if that fails.
    async fn recorded(&self, host: &RunHost) -> Option<RecordedProgress> {
        let (store, session, id) = (host.app().sessions(), self.spec.session.clone(), self.spec.id.clone());
        let has_task = self.spec.task.is_some();
        let read = spawn_blocking(move || recorded_progress(&store, &session, &id, has_task)).await;
        read.ok()?.ok()
    }

    /// Returns an end with the cost of the runs on other workers that this one has left behind, which are told to end: a run
    /// that needs longer for it than its parent run waits is charged here. `spent` is what the journal counts without them.
    async fn with_runs_left(&self, ending: QueuedRunEnd, spent: &UsageTally, left: Vec<String>) -> QueuedRunEnd {
        if left.is_empty() {
            return ending;
        }
        let lost = self.taken.lost();
        let more = tokio::select! {
            () = self.worker.stop.cancelled() => return ending,
            () = lost.cancelled() => return ending,
            more = spent_by_runs_left(&self.worker.cluster, &self.spec.id, left) => more,
        };
        let tool_calls = ending.tool_calls.saturating_add(more.tool_calls);
        let spent = sum(spent, &UsageTally { completions: 0, usage: more.usage, usd: more.usd });
        with_spending(QueuedRunEnd { tool_calls, ..ending }, &spent)
    }

    /// Returns the boards of the recorded run that waits for this one.
    fn boards(&self) -> Option<BoardSharing> {
        let parent = self.spec.parent.as_ref().filter(|parent| !parent.session.is_empty())?;
        Some(BoardSharing { parent: Some(parent.session.clone()) })
    }

    /// Returns the id of the run that waits for this one, if that is a run of the queue.
    fn parent_run(&self) -> Option<String> {
        self.spec.parent.as_ref()?.run.clone()
    }
}

/// Returns `true` if a run has ended, or was removed since.
async fn has_ended(runs: &RunQueue, id: &str) -> bool {
    match runs.entry(id).await {
        Ok(entry) => entry.is_none_or(|entry| entry.ending().is_some()),
        Err(_) => false,
    }
}

/// Cancels a run when the run that waits for it has ended without it.
async fn cancel_with_parent(runs: RunQueue, parent: String, cancel: CancellationToken) {
    loop {
        match runs.ended(&parent).await {
            Ok(_) | Err(ClusterError::NotFound { .. }) => return cancel.cancel(),
            // The server may be away.
            Err(_) => sleep(limits::CLUSTER_TAKE_PAUSE).await,
        }
    }
}

/// Waits until one of two tokens is cancelled.
async fn either(first: &CancellationToken, second: &CancellationToken) {
    tokio::select! {
        () = first.cancelled() => {}
        () = second.cancelled() => {}
    }
}
