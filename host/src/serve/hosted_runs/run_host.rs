use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use serde::{Serialize, de::IgnoredAny};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::{
    sync::CancellationToken,
    task::{AbortOnDropHandle, TaskTracker},
};

use super::{
    HostedQuestion, HostedRun, HostedRunState, QuestionReply, RunEventReader, RunHostError, RunHostOptions,
    RunLineReader, RunRequest, RunTarget, hosted_run::HostedRunEnd, run_event_file::RunFileSpace,
    run_events::RunEvents, run_questions::RunQuestions, run_work::HostedRunWork,
};
use crate::{
    app::{App, DEFAULT_AGENT},
    approval::ApprovalInbox,
    config::RunnerConfig,
    event::new_id,
    limits,
    model::UsageTally,
    session::Secrets,
};

/// Hosts the runs that clients start. Clones share the runs.
///
/// At most [`RunHostOptions::max_runs`] are at work at once. The newest [`limits::SERVE_RUNS_ENDED`] that have ended are
/// remembered with their events, or as many as may be at work, if that is more: when all end together, their clients
/// still read their ends.
#[derive(Clone)]
pub struct RunHost(Arc<RunHostState>);

struct RunHostState {
    app: Arc<App>,
    options: Arc<RunHostOptions>,
    runs: Mutex<RunTable>,
    questions: Arc<RunQuestions>,
    /// One permit for each run that may be at work.
    permits: Arc<Semaphore>,
    /// One permit for each stream of events that may be read.
    watchers: Arc<Semaphore>,
    /// The space for events that have left memory.
    files: RunFileSpace,
    tasks: TaskTracker,
    stop: CancellationToken,
    secrets: Arc<RwLock<Secrets>>,
    _declining: AbortOnDropHandle<()>,
}

/// The right to start one more run.
pub struct RunRoom(OwnedSemaphorePermit);

/// The runs, in the order in which they began.
#[derive(Default)]
struct RunTable {
    runs: VecDeque<Arc<HostedRun>>,
    totals: RunTotals,
}

/// Counts over all runs of a host, from its start on.
#[derive(Debug, Clone, Default)]
pub struct RunTotals {
    /// The number of runs that have ended in each state.
    pub ended: [u64; HostedRunState::ALL.len()],
    /// The usage of runs that have ended, without that of earlier runs of their sessions.
    pub spent: UsageTally,
    /// The number of events of runs that no reader can read any more, as there was no space for them.
    pub dropped_events: u64,
}

impl RunHost {
    /// Creates a host without runs. Questions of agents wait in `inbox` for an answer; without one the policy of the app's
    /// broker answers. It must be called in a runtime.
    pub fn new(app: App, inbox: Option<ApprovalInbox>, options: RunHostOptions) -> Self {
        let questions = Arc::new(RunQuestions::new(inbox, options.question_time));
        let declining = Arc::clone(&questions);
        let secrets = Arc::new(RwLock::new(app.secrets()));
        Self(Arc::new(RunHostState {
            app: Arc::new(app),
            permits: Arc::new(Semaphore::new(options.max_runs)),
            watchers: Arc::new(Semaphore::new(limits::SERVE_WATCHERS)),
            files: RunFileSpace::new(limits::SERVE_RUN_FILES_BYTES),
            options: Arc::new(options),
            runs: Mutex::default(),
            questions,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            secrets,
            _declining: AbortOnDropHandle::new(tokio::spawn(async move { declining.decline_late().await })),
        }))
    }

    /// Returns the app.
    pub fn app(&self) -> &Arc<App> {
        &self.0.app
    }

    /// Returns the options.
    pub fn options(&self) -> &RunHostOptions {
        &self.0.options
    }

    /// Returns the credentials that are known by now, which no client is sent.
    pub fn secrets(&self) -> Secrets {
        self.0.secrets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a value as JSON, without credentials.
    pub fn clean_json(&self, value: &impl Serialize) -> Vec<u8> {
        let json = serde_json::to_vec(value).unwrap_or_default();
        self.secrets().clean_json(json, |json| serde_json::from_slice::<IgnoredAny>(json).is_ok())
    }

    /// Returns the name of the agent or team of requests that name none.
    pub fn entry_agent(&self) -> &str {
        let named = self.0.options.agent.as_deref();
        named.or_else(|| self.0.app.config.entry().ok().map(RunnerConfig::name)).unwrap_or(DEFAULT_AGENT)
    }

    /// Starts a run, and waits until it has begun: its agents are built, and its session is open. If the future is
    /// dropped, the run goes on.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if the run could not begin.
    pub async fn start(&self, request: RunRequest) -> Result<Arc<HostedRun>, RunHostError> {
        self.check_session(&request.target).await?;
        let run = self.begin(request)?;
        run.begun().await?;
        Ok(run)
    }

    /// Checks whether another process works in the session of a run. The sessions are read on a thread that may block.
    /// One that is taken later is refused when the run is prepared.
    ///
    /// # Errors
    ///
    /// [`RunHostError::SessionInUse`].
    pub async fn check_session(&self, target: &RunTarget) -> Result<(), RunHostError> {
        let RunTarget::Named(name) = target else { return Ok(()) };
        let (store, name) = (self.0.app.sessions(), name.clone());
        let in_use = tokio::task::spawn_blocking(move || {
            // A name that no session can have is refused when the run is prepared.
            store.resolve(&name).ok().filter(|id| store.is_in_use(id))
        });
        match in_use.await {
            Ok(Some(id)) => Err(RunHostError::SessionInUse { id }),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Starts a run without waiting until it has begun. It reads no session: see [`Self::check_session`]. It must be
    /// called in a runtime.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if no run can be started now, or another run of this host works in the session.
    pub fn begin(&self, request: RunRequest) -> Result<Arc<HostedRun>, RunHostError> {
        let host = &self.0;
        if host.stop.is_cancelled() {
            return Err(RunHostError::Stopping);
        }
        let most = host.options.max_runs;
        let permit = Arc::clone(&host.permits).try_acquire_owned().map_err(|_| RunHostError::Busy { most })?;
        self.begin_in(RunRoom(permit), request)
    }

    /// Waits until one more run can be started. Those who wait have their turn before any run that begins without waiting.
    ///
    /// # Errors
    ///
    /// [`RunHostError::Stopping`].
    pub async fn room(&self) -> Result<RunRoom, RunHostError> {
        tokio::select! {
            biased;
            () = self.0.stop.cancelled() => Err(RunHostError::Stopping),
            permit = Arc::clone(&self.0.permits).acquire_owned() => {
                permit.map(RunRoom).map_err(|_| RunHostError::Stopping)
            }
        }
    }

    /// Does the same as [`Self::begin`], in the room that the caller has.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if the host ends, or another run of this host works in the session.
    pub fn begin_in(&self, room: RunRoom, request: RunRequest) -> Result<Arc<HostedRun>, RunHostError> {
        let (host, RunRoom(permit)) = (&self.0, room);
        if host.stop.is_cancelled() {
            return Err(RunHostError::Stopping);
        }
        let task = request.input.as_ref().map(|input| input.text.as_str()).unwrap_or_default();
        let events = RunEvents::new(&host.files);
        let run = Arc::new(HostedRun::new(new_id("run").into(), task, &request.target, events));
        {
            // Of two runs that begin at once in one session, the second one finds the first.
            let mut table = host.table();
            if let RunTarget::Named(id) = &request.target
                && table.runs.iter().any(|other| other.works_in(id))
            {
                return Err(RunHostError::SessionInUse { id: id.clone() });
            }
            table.runs.push_back(Arc::clone(&run));
        }
        let (learned, known) = (Arc::clone(&host.secrets), Arc::clone(&host.secrets));
        let work = HostedRunWork {
            app: Arc::clone(&host.app),
            options: Arc::clone(&host.options),
            stop: host.stop.clone(),
            learn: Arc::new(move |secrets| *learned.write().unwrap_or_else(PoisonError::into_inner) = secrets),
            secrets: Arc::new(move || known.read().unwrap_or_else(PoisonError::into_inner).clone()),
        };
        let (host, hosted) = (self.clone(), Arc::clone(&run));
        self.0.tasks.spawn(async move {
            let end = work.perform(&hosted, request).await;
            // Whoever learns of the end can start another run.
            drop(permit);
            let remembered = limits::SERVE_RUNS_ENDED.max(host.0.options.max_runs);
            host.0.table().end(&hosted, end, remembered);
        });
        Ok(run)
    }

    /// Returns the runs, the newest first.
    pub fn runs(&self) -> Vec<Arc<HostedRun>> {
        self.0.table().runs.iter().rev().cloned().collect()
    }

    /// Returns a run.
    ///
    /// # Errors
    ///
    /// [`RunHostError::NoRun`].
    pub fn run(&self, id: &str) -> Result<Arc<HostedRun>, RunHostError> {
        let runs = self.0.table();
        let run = runs.runs.iter().find(|run| &**run.id() == id).cloned();
        run.ok_or_else(|| RunHostError::NoRun { id: id.to_owned() })
    }

    /// Returns a reader of the events in memory of a run after this sequence, and a permit that it holds as long as it
    /// reads.
    ///
    /// # Errors
    ///
    /// [`RunHostError::TooManyWatchers`].
    pub fn watch(&self, run: &HostedRun, after: u64) -> Result<(RunEventReader, OwnedSemaphorePermit), RunHostError> {
        let permit = Arc::clone(&self.0.watchers).try_acquire_owned().map_err(|_| RunHostError::TooManyWatchers)?;
        Ok((run.events_after(after), permit))
    }

    /// Returns a reader of the events of a run after this sequence as JSON, those that have left memory too, and a
    /// permit that it holds as long as it reads.
    ///
    /// # Errors
    ///
    /// [`RunHostError::TooManyWatchers`].
    pub fn watch_lines(
        &self,
        run: &HostedRun,
        after: u64,
    ) -> Result<(RunLineReader, OwnedSemaphorePermit), RunHostError> {
        let permit = Arc::clone(&self.0.watchers).try_acquire_owned().map_err(|_| RunHostError::TooManyWatchers)?;
        Ok((run.lines_after(after), permit))
    }

    /// Returns the number of streams of events that are read.
    pub fn watchers(&self) -> usize {
        limits::SERVE_WATCHERS - self.0.watchers.available_permits()
    }

    /// Returns the open questions, in the order in which they were asked.
    pub fn questions(&self) -> Vec<HostedQuestion> {
        self.0.questions.open()
    }

    /// Answers an open question.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if it is not open, or expects another answer.
    pub fn answer(&self, id: u64, reply: &QuestionReply) -> Result<(), RunHostError> {
        self.0.questions.answer(id, reply, |question, words| {
            // The answer holds also if the agent has ended.
            if let Ok(run) = self.run(&question.run) {
                let _ = run.send(Some(&question.from), words);
            }
        })
    }

    /// Returns the counts over all runs.
    pub fn totals(&self) -> RunTotals {
        let table = self.0.table();
        let mut totals = table.totals.clone();
        totals.dropped_events += table.runs.iter().map(|run| run.events.lost()).sum::<u64>();
        totals
    }

    /// Ends the host: no run begins any more, and those at work are interrupted as by a crash, so that their sessions can
    /// be resumed. Returns once they have ended, or after [`limits::SERVE_INTERRUPT_TIME`].
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        let _ = timeout(limits::SERVE_INTERRUPT_TIME, self.0.tasks.wait()).await;
    }

    /// Returns `true` once the host ends.
    pub fn is_stopping(&self) -> bool {
        self.0.stop.is_cancelled()
    }
}

impl RunHostState {
    fn table(&self) -> MutexGuard<'_, RunTable> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunTable {
    /// Records the end of a run. One that never began is forgotten: its client is told why. Forgets the oldest of those
    /// that have ended, if there are too many.
    fn end(&mut self, ended: &Arc<HostedRun>, end: HostedRunEnd, remembered: usize) {
        ended.end(end);
        let snapshot = ended.snapshot();
        if snapshot.agent.is_none() {
            self.runs.retain(|run| !Arc::ptr_eq(run, ended));
            return;
        }
        if let Some(at) = HostedRunState::ALL.iter().position(|state| *state == snapshot.state()) {
            self.totals.ended[at] += 1;
        }
        self.totals.spent += snapshot.spent();
        let has_ended = |run: &&Arc<HostedRun>| run.state().has_ended();
        while self.runs.iter().filter(has_ended).count() > remembered {
            let Some(at) = self.runs.iter().position(|run| run.state().has_ended()) else { return };
            let Some(oldest) = self.runs.remove(at) else { return };
            self.totals.dropped_events += oldest.events.lost();
        }
    }
}
