//! One task of a batch: it is given to its agent, and its result is written as a line.

use std::{
    panic::AssertUnwindSafe,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use super::{
    batch_costs::BatchCosts,
    batch_name::BatchName,
    batch_progress::BatchProgressBar,
    schema_cache::SchemaCache,
    session_room::{has_session, no_room},
    task_index::TaskState,
    task_line::BatchTask,
    task_result::{TaskResult, answer_text, cost, milliseconds, stop_word},
};
use crate::{
    agent::RunAnswer,
    app::{App, PendingWork, PreparedRun, Recording, RunSession, SessionCloser, explain},
    cli::{
        launch::LaunchFlags,
        panic_report::bug,
        run_id::run_id,
        session_target::{CompletedSession, SessionTarget},
    },
    error::{ErrorKind, Report},
    event::{Event, EventSink, RunCx},
    model::UsageTally,
    session::SessionStore,
    task::{AttachedFile, TaskInput},
};

/// Runs tasks. All of them share one app: its plugins, models, rate limits and servers.
pub(super) struct TaskRunner {
    pub app: App,
    /// The agent or team of tasks that name none.
    pub agent: Option<String>,
    /// The options of the command line, with the model of tasks that name none.
    pub flags: LaunchFlags,
    /// The sessions of the project, and the name of the batch; `None`: nothing is recorded.
    pub sessions: Option<(SessionStore, BatchName)>,
    /// `true` if the person goes on with sessions that somebody else may have made.
    pub is_trusted: bool,
    pub schemas: SchemaCache,
    pub progress: Arc<BatchProgressBar>,
    pub costs: BatchCosts,
}

/// A task that has ended.
pub(super) struct FinishedTask {
    /// Its line of the results file.
    pub result_line: String,
    /// The failure; `None` if the task was answered.
    pub failure: Option<Report>,
}

/// The outcome of a task.
#[derive(Default)]
struct TaskOutcome {
    answer: Option<RunAnswer>,
    error: Option<Report>,
    stop: &'static str,
    agent: Option<String>,
    model: Option<String>,
    session: Option<String>,
    spent: UsageTally,
}

impl TaskRunner {
    /// Runs a task to its end. Its failure is a result.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no room for a session of this task: other tasks would fail alike, and the task is as if it had
    /// not begun.
    pub async fn run(&self, task: BatchTask, state: TaskState) -> Result<FinishedTask, Report> {
        let started = Instant::now();
        let worked = AssertUnwindSafe(self.work(&task, state)).catch_unwind().await;
        let outcome = match worked.unwrap_or_else(|panic| Err(bug(&*panic))) {
            Ok(outcome) => outcome,
            Err(report) => {
                self.check_room(&task, state)?;
                TaskOutcome { error: Some(report), stop: "not_begun", ..TaskOutcome::default() }
            }
        };
        self.costs.end(task.line_number, outcome.spent.usd);
        Ok(self.finished(&task, &outcome, started.elapsed()))
    }

    /// Checks that the task has a session, or can get one.
    fn check_room(&self, task: &BatchTask, state: TaskState) -> Result<(), Report> {
        match &self.sessions {
            Some((store, batch_name)) if !has_session(store, &batch_name.session_name(task, state.failures)) => {
                store.check_room(1).map_err(|full| no_room(&full))
            }
            _ => Ok(()),
        }
    }

    /// Returns the result of a task.
    fn finished(&self, task: &BatchTask, outcome: &TaskOutcome, took: Duration) -> FinishedTask {
        let answer = outcome.answer.as_ref().map(answer_text);
        // The schema was read before the task began.
        let schema = task.answer_schema(&self.schemas).ok().flatten();
        let value = schema.zip(answer.as_deref()).and_then(|(schema, answer)| schema.value_of(answer).ok());
        let result = TaskResult {
            id: &task.id,
            answer,
            value,
            stop: outcome.stop,
            error: outcome.error.as_ref(),
            agent: outcome.agent.as_deref(),
            model: outcome.model.as_deref(),
            turns: outcome.answer.as_ref().map_or(0, |answer| answer.iterations),
            usage: outcome.spent.usage,
            cost_usd: cost(&outcome.spent),
            duration_ms: milliseconds(took),
            session: outcome.session.as_deref(),
        };
        FinishedTask { result_line: result.line(), failure: outcome.error.clone() }
    }

    /// Prepares the run of a task and performs it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the run cannot begin. The failure of a run is an outcome.
    async fn work(&self, task: &BatchTask, state: TaskState) -> Result<TaskOutcome, Report> {
        task.check(&self.schemas)?;
        let recording = self.recording(task, state);
        if let Recording::Existing { id, .. } = &recording
            && let Some(ended) = self.answered_before(id)
        {
            return Ok(ended);
        }
        let input = self.input(task).await?;
        let agent = task.agent.as_deref().or(self.agent.as_deref());
        let model = task.model.as_deref().or(self.flags.model.as_deref());
        let mut prepared = self.app.agent(agent, model, recording).await?;
        self.costs.begin(task.line_number, Arc::clone(&prepared.agent_group));
        let session = prepared.session.take();
        let left_out = session.iter().flat_map(|session| session.changed.iter().chain(&session.warnings));
        prepared.warnings.iter().chain(left_out).for_each(|warning| self.progress.note_warning(warning));
        if let Some(schema) = &input.schema {
            prepared.entrant = schema.enforce_on(prepared.entrant);
        }
        let work = pending_work(session.as_ref(), input);
        let name = session.as_ref().map(|session| session.journal.id().to_owned());
        let agents = Arc::clone(&prepared.agent_group);
        let chat = session.as_ref().map(|session| session.chat.clone()).unwrap_or_default();
        let outcome = {
            let cx = RunCx::new(Arc::clone(prepared.entrant.runner().name()))
                .with_run(run_id())
                .with_events(self.events(&prepared, session.as_ref()));
            let mut working = pin!(work.run(&prepared, &cx, &chat));
            // Declared after the run so that it is dropped first: a cancelled run records nothing more.
            let closing = SessionCloser(session);
            let outcome = working.as_mut().await;
            if let Some(session) = &closing.0 {
                // A failed write has ended the run already.
                let _ = session.journal.close().await;
            }
            outcome
        };
        let stop = stop_word(outcome.as_ref().map(|answer| &answer.ending));
        let (answer, error) = match outcome {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(explain(&prepared, &error))),
        };
        let agent = Some(prepared.entrant.runner().name().to_string());
        let (model, spent) = (Some(prepared.model.model), agents.ledger().total());
        Ok(TaskOutcome { answer, error, stop, agent, model, session: name, spent })
    }

    /// Reads the files of a task.
    async fn input(&self, task: &BatchTask) -> Result<TaskInput, Report> {
        let (text, schema) = (task.text.clone(), task.answer_schema(&self.schemas)?);
        let paths = task.attachments.clone();
        let attachments = match paths.is_empty() {
            true => Vec::new(),
            false => {
                let read = move || AttachedFile::read_all(&paths);
                let lost = |error| Report::new(ErrorKind::Bug, "the attached files were not read").cause(error);
                tokio::task::spawn_blocking(read).await.map_err(lost)??
            }
        };
        Ok(TaskInput { text, attachments, schema })
    }

    /// Returns where the run of a task is recorded: in the session of an earlier start, or in a new one.
    fn recording(&self, task: &BatchTask, state: TaskState) -> Recording {
        let Some((store, batch_name)) = &self.sessions else { return Recording::Off };
        let id = batch_name.session_name(task, state.failures);
        if has_session(store, &id) {
            return Recording::Existing { id, up_to_damage: false, is_trusted: self.is_trusted };
        }
        let mut flags = self.flags.clone();
        flags.model = task.model.clone().or(flags.model);
        let options = flags.to_options(&self.app.config.root);
        Recording::New { id: Some(id), title: task.text.clone(), follows: None, options }
    }

    /// Returns the outcome of a session that was answered before its result could be written down.
    fn answered_before(&self, id: &str) -> Option<TaskOutcome> {
        let target = SessionTarget::There { id: id.to_owned(), up_to_damage: false };
        // A session that cannot be read is reported when it is opened.
        let CompletedSession { header, agents, answer } = target.over(&self.app.config, true).ok()??;
        Some(TaskOutcome {
            stop: stop_word(Ok(&answer.ending)),
            answer: Some(answer),
            error: None,
            agent: Some(header.agent),
            model: Some(header.model),
            session: Some(header.id),
            spent: agents.total(),
        })
    }

    /// Returns the sink for the events of a run: they go to its session and to telemetry, and warnings are noted to be shown.
    fn events(&self, prepared: &PreparedRun, session: Option<&RunSession>) -> EventSink {
        let (events, progress) = (EventSink::new(), Arc::clone(&self.progress));
        self.app.observe(&events, prepared, session);
        events.tap(Arc::new(move |event| {
            if let Event::Warning { message } = &event.event {
                progress.note_warning(message);
            }
        }));
        events
    }
}

/// Returns the work that is left in a session, or all of it.
fn pending_work(session: Option<&RunSession>, input: TaskInput) -> PendingWork {
    match session {
        Some(session) if session.is_unfinished => PendingWork::Finish(Vec::new()),
        // It failed before its result could be written down; the conversation has the task.
        Some(session) if session.has_failed => PendingWork::Begin(Vec::new()),
        _ => PendingWork::Begin(vec![input.into_message()]),
    }
}
