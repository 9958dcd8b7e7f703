//! An agent that a worker runs, in the place of a model.

use std::{
    collections::{BTreeSet, HashSet},
    future::pending,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use futures_util::{StreamExt, future::BoxFuture};
use serde_json::json;
use shelly_core::{
    agent::{RemoteTaskOwner, budget_left, ceiling_of, journal::RemoteTaskRecord, record_remote_task, remote_task},
    approval::ApprovalBroker,
    capability::{Budget, Usd},
    chat::{ChatSnapshot, MediaData, Part, Role, StopReason, Usage},
    digest::Sha256Digest,
    error::{Fault, legible},
    event::{Event, ModelWait, RunCx, SpanDestination},
    limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::task::TaskTracker;

use super::{
    child_question::ChildQuestion,
    child_run_guard::{ChildRunGuard, spent},
    child_runs::ChildRuns,
    cluster_error::ClusterError,
    connection::random_token,
    queued_run_context::QueuedRunContext,
    run_bus::{RunCommand, RunReply},
    run_entry::{QueuedRunEnd, RunEndState, RunPhase},
    run_spec::{RunParent, RunSpec, SpecFile},
};

/// An agent that a worker of the cluster runs, in the place of a model: an agent on it puts its task into the queue as a run
/// of its own, and answers with the answer of that run.
///
/// So a run of it is like any other: it has a budget, a journal, and parents that delegate to it. What the run on the worker
/// has spent is charged once, as what a child has spent, by the record in the journal that says so.
pub struct PlacedAgentModel {
    options: PlacedAgentOptions,
    info: ModelInfo,
}

/// The options of an agent that a worker runs.
pub struct PlacedAgentOptions {
    /// The name of the agent or team in the config.
    pub name: String,
    /// The labels that the worker must have.
    pub labels: BTreeSet<String>,
    /// The model instead of the agent's own.
    pub model: Option<String>,
    /// The cluster.
    pub runs: Arc<dyn ChildRuns>,
    /// The run of the queue in which the agent is asked.
    pub parent: QueuedRunContext,
    /// The session of the run in which the agent is asked, which is set when the run is recorded.
    pub session: Arc<OnceLock<String>>,
    /// The root of the project, to which folders in the ceiling are relative.
    pub root: PathBuf,
    /// The person or host that submits the runs, as others are shown it.
    pub submitter: String,
    /// Puts the questions of the agent to a person.
    pub broker: ApprovalBroker,
    /// Runs the cancellations of runs whose parent runs are gone. Each ends within [`limits::CANCEL_GRACE`].
    pub cancellations: TaskTracker,
}

/// A run on a worker for one task.
struct ChildRun<'a> {
    model: &'a PlacedAgentModel,
    cx: &'a RunCx,
    /// The record of the task, without its cost until that is charged.
    given: RemoteTaskRecord,
    /// The id of the run.
    id: String,
    guard: ChildRunGuard,
}

/// The search for a worker while a run is queued.
struct WorkerSearch {
    next: Instant,
    /// The time since which no worker has the labels.
    missing: Option<Instant>,
    is_told: bool,
}

/// The messages that were passed on to a run during a wait for it.
struct PassedMessages {
    /// Random digits; `None`: there are no random bytes, and messages have no ids.
    of_wait: Option<String>,
    count: u64,
}

impl PassedMessages {
    /// Returns the id of the next message, which is the same until it is passed on.
    fn next_id(&self, text: &str) -> Option<String> {
        let of_wait = self.of_wait.as_ref()?;
        Some(Sha256Digest::of(json!([of_wait, self.count, text]).to_string()).hex())
    }
}

impl PlacedAgentModel {
    /// Creates the model. Nothing is sent before its first request.
    pub fn new(options: PlacedAgentOptions) -> Self {
        let mut info = ModelInfo::named(options.name.as_str());
        info.model = format!("worker:{}", options.name);
        // A run that failed is not submitted again: what it did is not undone.
        info.retries = Some(0);
        Self { options, info }
    }

    /// The key of the metadata of a reply that has the session in which the agent worked.
    fn session_key(&self) -> String {
        format!("cluster.session.{}", self.options.name)
    }

    /// Returns the session of the conversation so far, in which the agent goes on; `None`: there is none.
    fn session(&self, messages: &ChatSnapshot) -> Option<String> {
        let key = self.session_key();
        let meta = messages.iter().rev().flat_map(|entry| &entry.message.meta);
        meta.into_iter().find(|(name, _)| *name == key).map(|(_, session)| session.clone())
    }

    /// Returns the words for the agent in errors.
    fn place(&self) -> String {
        let labels: Vec<_> = self.options.labels.iter().map(String::as_str).collect();
        match labels.is_empty() {
            true => format!("the agent `{}` on another worker", self.options.name),
            false => format!("the agent `{}` on a worker with the labels {}", self.options.name, labels.join(", ")),
        }
    }

    fn fault(&self, doing: &str, error: &ClusterError) -> Fault {
        Fault::other(format!("{}: cannot {doing}: {}", self.place(), error.report().with_hint()))
    }

    /// Names a new run for a task and records it, before it is submitted: a parent run that is resumed elsewhere finds it.
    async fn name_run(&self, cx: &RunCx, entry: u64) -> Result<RemoteTaskRecord, Fault> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Fault::other(format!("there are no random bytes: {error}")))?;
        let message = shelly_core::hex::encode(random);
        let task = Some(self.id(cx, entry, &message));
        let given = RemoteTaskRecord { entry, message, task, spent: None, passed_on: 0 };
        record_remote_task(cx, given.clone()).await?;
        Ok(given)
    }

    /// Returns the session of the run in which the agent is asked; `None`: it is not recorded.
    fn parent_session(&self) -> Option<&str> {
        self.options.session.get().or(self.options.parent.session.as_ref()).map(String::as_str)
    }

    /// Returns the id of the run for a task. It depends on the session, so that a copy of the parent's session has children
    /// of its own.
    fn id(&self, cx: &RunCx, entry: u64, message: &str) -> String {
        let of = json!([self.parent_session(), cx.agent, entry, message]).to_string();
        let mut digits = Sha256Digest::of(of).hex();
        digits.truncate(32);
        format!("child-{digits}")
    }

    async fn work(&self, cx: &RunCx, request: &CompletionRequest) -> Result<(String, String), Fault> {
        let wait = match &self.options.parent.slot {
            None => None,
            Some(slot) => Some(slot.begin_wait().ok_or_else(|| {
                let most = limits::CLUSTER_WAITING_RUNS;
                let what = format!("{most} runs of this worker wait for others already; do the task without it");
                Fault::other(format!("{}: {what}", self.place()))
            })?),
        };
        let ended = cx.wait_for_others(self.run_of_task(cx, request)).await;
        if let Some(wait) = wait {
            wait.end().await;
        }
        let (ending, session) = ended?;
        self.answer(ending).map(|answer| (answer, session))
    }

    /// Finds the run for the task of a request or submits it, and waits for its end. Returns the end and the session of the
    /// run.
    async fn run_of_task(&self, cx: &RunCx, request: &CompletionRequest) -> Result<(QueuedRunEnd, String), Fault> {
        let runs = &self.options.runs;
        let entry = request.messages.last().map(|entry| entry.id).unwrap_or_default();
        let recorded = remote_task(cx, entry).filter(|given| {
            let is_own = |id: &String| *id == self.id(cx, entry, &given.message);
            given.task.as_ref().is_some_and(is_own)
        });
        let mut is_recorded = recorded.is_some();
        let mut given = match recorded {
            Some(given) => given,
            None => self.name_run(cx, entry).await?,
        };
        loop {
            let id = given.task.clone().unwrap_or_default();
            let known = match is_recorded {
                true => runs.entry(&id).await.map_err(|error| self.fault("find its run", &error))?,
                false => None,
            };
            let mut child = ChildRun {
                model: self,
                cx,
                id,
                guard: ChildRunGuard {
                    runs: Arc::clone(runs),
                    cancellations: self.options.cancellations.clone(),
                    owner: RemoteTaskOwner::of(cx),
                    parent: self.options.parent.clone(),
                    given: Some(given.clone()),
                },
                given,
            };
            let ending = known.as_ref().and_then(|entry| entry.ending());
            // One that has failed is not: the parent run may have been interrupted before it heard of that.
            let is_over = match ending {
                // It was cancelled when the parent run was.
                Some(ending) => ending.state == RunEndState::Cancelled,
                // Its cost is known and its entry is gone: so is its answer.
                None => known.is_none() && child.given.spent.is_some(),
            };
            if is_over {
                child.end(ending);
                given = self.name_run(cx, entry).await?;
                is_recorded = false;
                continue;
            }
            let session = match &known {
                Some(known) => known.spec.session.clone(),
                None => child.submit(request).await?,
            };
            let ending = child.wait().await?;
            child.end(Some(&ending));
            return Ok((ending, session));
        }
    }

    /// Returns the answer of a run that has ended.
    fn answer(&self, ending: QueuedRunEnd) -> Result<String, Fault> {
        let (place, why) = (self.place(), ending.reason());
        match ending.state {
            RunEndState::Completed => match ending.answer.filter(|answer| !answer.trim().is_empty()) {
                Some(answer) => Ok(answer),
                None => Err(Fault::other(format!("{place} has ended without an answer"))),
            },
            RunEndState::Failed => Err(Fault::other(format!("{place} has failed: {why}"))),
            RunEndState::Cancelled => Err(Fault::other(format!("{place} was cancelled by somebody else"))),
            RunEndState::Refused => Err(Fault::Denied { message: format!("no worker accepts {place}: {why}") }),
            RunEndState::Poisoned => Err(Fault::other(format!("too many workers died with {place}: {why}"))),
        }
    }
}

#[async_trait]
impl Completer for PlacedAgentModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
        let worked = timeout(limits::CLUSTER_CHILD_TIME, self.work(cx, request)).await;
        let (answer, session) = worked.map_err(|_| {
            let hours = limits::CLUSTER_CHILD_TIME.as_secs() / 3_600;
            Fault::Timeout { message: format!("{} has no answer after {hours} hours", self.place()) }
        })??;
        Ok(Completion {
            parts: vec![Part::Text(answer)],
            stop: StopReason::EndTurn,
            // It is charged as that of a child.
            usage: Usage::default(),
            model: self.info.model.clone(),
            meta: vec![(self.session_key(), session)],
        })
    }
}

impl ChildRun<'_> {
    /// Submits the run. Returns its session.
    async fn submit(&self, request: &CompletionRequest) -> Result<String, Fault> {
        let PlacedAgentOptions { name, labels, model, runs, parent, root, submitter, .. } = &self.model.options;
        let session = self.model.session(&request.messages).unwrap_or_else(|| self.id.clone());
        let (task, files) = self.task(request).await?;
        let ceiling = ceiling_of(self.cx).to_json(root).map_err(|why| {
            let message = format!("{}: its bounds cannot be sent: {why}", self.model.place());
            Fault::Denied { message }
        })?;
        let span = self.cx.events.step_span().and_then(|step| step.span_for(SpanDestination::Worker));
        let of_parent = RunParent {
            run: parent.run.clone(),
            session: self.model.parent_session().map(shortened).unwrap_or_default(),
            call: self.given.entry.to_string(),
            depth: self.cx.depth,
        };
        let spec = RunSpec {
            agent: Some(name.clone()),
            model: model.clone(),
            files,
            bundle: parent.bundle,
            labels: labels.clone(),
            priority: parent.priority,
            budget: spec_budget(budget_left(self.cx))?,
            parent: Some(of_parent),
            ceiling: Some(ceiling),
            traceparent: span.map(|span| span.context.to_string()),
            submitter: shortened(submitter),
            ..RunSpec::new(self.id.clone(), session.clone(), Some(task))
        };
        let submitted = match spec.check() {
            Ok(()) => runs.submit(spec).await,
            Err(error) => Err(error),
        };
        match submitted {
            Ok(_) => Ok(session),
            Err(ClusterError::TooLarge { what, bytes, most }) => {
                let message =
                    format!("{what} has {bytes} bytes, more than {most}; shorten the task, or give it in files");
                Err(Fault::TooLarge { message })
            }
            Err(error) => Err(self.model.fault("submit its run", &error)),
        }
    }

    /// Returns the messages that this agent was given since its last reply, as a task with files.
    async fn task(&self, request: &CompletionRequest) -> Result<(String, Vec<SpecFile>), Fault> {
        let messages = &request.messages;
        let mut newest: Vec<_> =
            messages.iter().rev().take_while(|entry| entry.message.role != Role::Assistant).collect();
        newest.reverse();
        let (mut texts, mut files) = (Vec::new(), Vec::new());
        let given = newest.into_iter().filter(|entry| entry.message.role == Role::User);
        for part in given.flat_map(|entry| &entry.message.parts) {
            match part {
                Part::Text(text) => texts.push(text.clone()),
                Part::Media(media) => match &media.source {
                    MediaData::Url(url) => texts.push(url.clone()),
                    MediaData::Bytes(_) if files.len() == limits::CLUSTER_SPEC_FILES => {
                        let most = limits::CLUSTER_SPEC_FILES;
                        return Err(Fault::TooLarge {
                            message: format!("the task has more than {most} files; split it"),
                        });
                    }
                    MediaData::Bytes(bytes) => {
                        let content = bytes::Bytes::copy_from_slice(bytes);
                        let stored = self.model.options.runs.store(content).await;
                        let digest = stored.map_err(|error| self.model.fault("send a file of its task", &error))?;
                        files.push(SpecFile {
                            name: file_name(media.name.as_deref().unwrap_or_default(), files.len()),
                            media_type: media.media_type.clone(),
                            digest,
                            bytes: bytes.len() as u64,
                        });
                    }
                },
                _ => {}
            }
        }
        let task = texts.join("\n\n");
        match task.trim().is_empty() {
            true => Err(Fault::invalid("there is no task for the agent on another worker")),
            false => Ok((task, files)),
        }
    }

    /// Waits for the end of the run. Meanwhile its questions are asked here.
    async fn wait(&self) -> Result<QueuedRunEnd, Fault> {
        let PlacedAgentOptions { runs, broker, .. } = &self.model.options;
        let (mut failures, mut answered) = (0, HashSet::new());
        let mut asking: Option<BoxFuture<'_, RunCommand>> = None;
        let mut search =
            WorkerSearch { next: Instant::now() + limits::CLUSTER_PLACE_CHECK, missing: None, is_told: false };
        let mut look_at = Instant::now() + limits::CLUSTER_QUESTION_PAUSE;
        let mut phase = RunPhase::Queued { waits_for: None };
        let mut messages = PassedMessages { of_wait: random_token().ok(), count: 0 };
        let mut told = String::new();
        loop {
            let mut entries = match runs.watch(&self.id).await {
                Ok(entries) => entries,
                Err(ClusterError::NotFound { .. }) => {
                    let place = self.model.place();
                    return Err(Fault::other(format!(
                        "the result of {place} is lost: its run was removed from the queue"
                    )));
                }
                Err(error) => {
                    failures += 1;
                    if failures >= limits::CLUSTER_CHILD_FAILURES {
                        return Err(self.model.fault("wait for its end", &error));
                    }
                    sleep(limits::CLUSTER_TAKE_PAUSE).await;
                    continue;
                }
            };
            loop {
                let answer = async {
                    match &mut asking {
                        Some(asking) => asking.await,
                        None => pending().await,
                    }
                };
                tokio::select! {
                    entry = entries.next() => match entry {
                        Some(Ok(entry)) => {
                            failures = 0;
                            match entry.phase {
                                RunPhase::Ended(ending) => return Ok(ending),
                                other => {
                                    if attempt_of(&other) != attempt_of(&phase) {
                                        // Nobody waits for an answer to the attempt that is over.
                                        asking = None;
                                    }
                                    phase = other;
                                    self.tell_wait(&phase, &mut told).await;
                                }
                            }
                        }
                        // It is watched again.
                        Some(Err(_)) | None => break,
                    },
                    answer = answer => {
                        asking = None;
                        // If a worker lost the run meanwhile, the next one refuses it, and asks its own question.
                        let sent = runs.ask(&self.id, &answer).await;
                        if !matches!(sent, Ok(_) | Err(ClusterError::TooLarge { .. })) {
                            // The question is asked once. A worker whose reply alone was lost refuses the second answer.
                            asking = Some(Box::pin(async move {
                                sleep(limits::CLUSTER_QUESTION_PAUSE).await;
                                answer
                            }));
                        } else {
                            // The question was told instead.
                            told.clear();
                            self.tell_wait(&phase, &mut told).await;
                        }
                    }
                    () = sleep_until(look_at) => {
                        look_at = Instant::now() + limits::CLUSTER_QUESTION_PAUSE;
                        if matches!(phase, RunPhase::Running { .. }) {
                            self.pass_messages_on(&mut messages).await;
                        }
                        match &phase {
                            RunPhase::Queued { .. } => self.look_for_worker(&mut search).await?,
                            RunPhase::Running { worker, attempt, .. } if asking.is_none() => {
                                search.missing = None;
                                let of_attempt = format!("{worker} {attempt}");
                                let Some(question) = self.open_question(&of_attempt, &mut answered).await? else { continue };
                                asking = Some(Box::pin(async move {
                                    let answer = broker.ask(self.cx, question.question.clone()).await;
                                    // A question that nobody can be asked is declined.
                                    let reply = question.reply(answer.ok().flatten());
                                    RunCommand::answer(&question.id, &question.attempt, reply)
                                }));
                            }
                            RunPhase::Running { .. } | RunPhase::Ended(_) => {}
                        }
                    }
                }
            }
            // The run is watched again, as often as the server ends the watch.
            sleep(limits::CLUSTER_RETRY_PAUSE).await;
        }
    }

    /// Emits the event that says what the request waits for, unless that was told last.
    async fn tell_wait(&self, phase: &RunPhase, told: &mut String) {
        let detail = phase.wait_words(&self.model.options.labels);
        if *told != detail {
            told.clone_from(&detail);
            let (agent, model) = (Arc::clone(&self.cx.agent), self.model.info.model.clone());
            self.cx.events.emit(Event::ModelWaits { agent, model, wait: ModelWait::Worker, detail }).await;
        }
    }

    /// Passes on what this agent was told meanwhile. What the run does not take is its next task.
    async fn pass_messages_on(&self, passed: &mut PassedMessages) {
        let Some(owner) = &self.guard.owner else { return };
        for message in owner.waiting_messages() {
            let text = message.text_content();
            let command = RunCommand::Message { id: passed.next_id(&text), agent: None, text };
            // If its reply alone was lost, the worker recognizes it by its id when it is sent again.
            let Ok(RunReply::Done) = self.model.options.runs.ask(&self.id, &command).await else { return };
            passed.count += 1;
            owner.pass_on(RemoteTaskRecord { passed_on: 1, ..self.given.clone() });
        }
    }

    /// Returns the first open question of the run that was not answered yet. Each worker numbers its own.
    async fn open_question(
        &self,
        of_attempt: &str,
        answered: &mut HashSet<(String, String)>,
    ) -> Result<Option<ChildQuestion>, Fault> {
        let PlacedAgentOptions { name, runs, .. } = &self.model.options;
        // A worker that does not answer is asked again a moment later.
        let Ok(RunReply::Questions { questions }) = runs.ask(&self.id, &RunCommand::Questions).await else {
            return Ok(None);
        };
        let mut questions = questions.iter().filter_map(|question| ChildQuestion::read(name, question));
        let key = |question: &ChildQuestion| (of_attempt.to_owned(), question.id.clone());
        let Some(question) = questions.find(|question| !answered.contains(&key(question))) else {
            return Ok(None);
        };
        if answered.len() >= limits::CLUSTER_CHILD_QUESTIONS {
            let message = format!("{} has asked more than {} questions", self.model.place(), answered.len());
            return Err(Fault::Exhausted { message });
        }
        answered.insert(key(&question));
        Ok(Some(question))
    }

    /// Looks now and then for a worker that can take the run, and gives up after [`limits::CLUSTER_PLACE_WAIT`] without one.
    async fn look_for_worker(&self, search: &mut WorkerSearch) -> Result<(), Fault> {
        if Instant::now() < search.next {
            return Ok(());
        }
        search.next = Instant::now() + limits::CLUSTER_PLACE_CHECK;
        let PlacedAgentOptions { labels, runs, .. } = &self.model.options;
        // Without a list nothing is known.
        let Ok(workers) = runs.workers().await else { return Ok(()) };
        if workers.iter().any(|worker| worker.takes(labels)) {
            search.missing = None;
            return Ok(());
        }
        let since = *search.missing.get_or_insert_with(Instant::now);
        let place = self.model.place();
        if since.elapsed() >= limits::CLUSTER_PLACE_WAIT {
            let seconds = limits::CLUSTER_PLACE_WAIT.as_secs();
            let message =
                format!("no worker was there for {place} in {seconds} s; do the task without it, or try later");
            return Err(Fault::Unavailable { message, after: None });
        }
        if !search.is_told {
            search.is_told = true;
            let labels: Vec<_> = labels.iter().map(String::as_str).collect();
            let option = if labels.is_empty() { String::new() } else { format!(" --labels {}", labels.join(",")) };
            let message = format!("no worker is there for {place}; start one with `shelly-host worker{option}`");
            self.cx.events.emit(Event::Warning { message }).await;
        }
        Ok(())
    }

    /// Charges what the run has cost, unless that is done, and leaves it alone from now on.
    fn end(&mut self, ending: Option<&QueuedRunEnd>) {
        self.guard.given = None;
        if let (Some(owner), Some(ending), None) = (&self.guard.owner, ending, self.given.spent) {
            self.given.spent = Some(spent(ending));
            owner.charge(self.given.clone());
        }
    }
}

/// Returns the worker that has a run, and the number of its attempt; `None`: no worker has it.
fn attempt_of(phase: &RunPhase) -> Option<(&str, u32)> {
    match phase {
        RunPhase::Running { worker, attempt, .. } => Some((worker.as_str(), *attempt)),
        RunPhase::Queued { .. } | RunPhase::Ended(_) => None,
    }
}

/// Returns what is left of a budget as the budget of a run, which has no amount of 0.
fn spec_budget(left: Budget) -> Result<Budget, Fault> {
    let time = left.time.map(|time| time.min(limits::BUDGET_TIME));
    let used_up = [
        ("tokens", left.tokens == Some(0)),
        ("money", left.usd == Some(Usd::ZERO)),
        ("tool calls", left.tool_calls == Some(0)),
        ("time", time.is_some_and(|time| time.as_millis() == 0)),
    ];
    match used_up.into_iter().find(|(_, is_used_up)| *is_used_up) {
        Some((what, _)) => {
            let message =
                format!("the budget has no {what} left for an agent on another worker; finish with what you have");
            Err(Fault::Exhausted { message })
        }
        None => Ok(Budget { time, ..left }),
    }
}

/// Returns the plain name of a file of a task.
fn file_name(name: &str, at: usize) -> String {
    let plain: String = legible(name).chars().map(|c| if matches!(c, '/' | '\\') { '_' } else { c }).collect();
    match plain.as_str() {
        "" | "." | ".." => format!("file-{}", at + 1),
        plain => shortened(plain),
    }
}

/// Returns a name as a spec can have it.
fn shortened(name: &str) -> String {
    let mut name = name.to_owned();
    name.truncate(name.floor_char_boundary(limits::CLUSTER_SPEC_NAME_BYTES));
    name
}

#[cfg(test)]
mod tests;
