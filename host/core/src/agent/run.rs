//! Drives one run of an agent or team: middleware, attempts, events, journal.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{
    context::{GrantDecisions, RunOrigin, RunState, in_time},
    journal::{JournalRecord, PassedMiddleware, RecordedRun, RecordedRunEnd},
    middleware::{
        AfterRunDecision, BeforeRunDecision, MiddlewarePauses, RepeatedAttempt, RunMiddleware, RunOutcome, acted,
        may_replace_answers, stop_if_failed,
    },
    outcome::{RunAnswer, RunEnding, RunError},
    text::task_of,
};
use crate::{
    chat::{Chat, ChatChange, ChatEntry, ChatEntryRecord, Message},
    error::{Fault, seconds},
    event::{Event, MiddlewareAction},
    limits,
    model::{ModelMiddleware, Usage},
};

/// The properties of an agent or team that the code around its work needs.
#[derive(Clone, Copy)]
pub(crate) struct RunnerInfo<'a> {
    pub name: &'a Arc<str>,
    /// The text that is shown before its name.
    pub prefix: &'a Arc<str>,
    /// The name of its model, for people; empty if it has none.
    pub model: &'a str,
    /// The middleware around its runs, outermost first.
    pub middleware: &'a [Arc<dyn RunMiddleware>],
    /// The middleware around its requests to a model, outermost first.
    pub model_middleware: &'a [Arc<dyn ModelMiddleware>],
    /// The capabilities that its plugins were granted or denied.
    pub grants: Option<&'a GrantDecisions>,
}

impl RunnerInfo<'_> {
    /// Returns `true` if a middleware around its runs may replace the answer.
    pub fn may_replace_answers(&self) -> bool {
        may_replace_answers(self.middleware)
    }

    /// Returns the names of the middleware that withhold its replies until they are complete.
    fn withheld_by(&self) -> Vec<String> {
        let around_runs = self.middleware.iter().filter(|one| one.may_replace()).map(|one| one.name());
        let around_requests = self.model_middleware.iter().filter(|one| one.may_replace()).map(|one| one.name());
        around_runs.chain(around_requests).map(str::to_owned).collect()
    }
}

/// The work inside a run: the loop of an agent, or the steps of a team.
pub(crate) trait RunWork<'a>: Send {
    /// Puts the system prompt into the conversation. `recorded` is the state of a run that was interrupted.
    fn show_prompt(&self, run: &Run<'a>, prompt: String, recorded: Option<&RecordedRun>);

    /// Restores the state that an interrupted run had, apart from what [`Run`] holds.
    fn restore(&mut self, run: &mut Run<'a>, recorded: RecordedRun);

    /// Makes one attempt at an answer: adds the input and works. Turns, effects and time continue from the previous
    /// attempt. An interrupted attempt continues where it was.
    fn attempt<'r>(&'r mut self, run: &'r mut Run<'a>, input: Vec<Message>)
    -> BoxFuture<'r, Result<Message, RunError>>;

    /// Returns `true` if a turn or step is left in which a message could be read.
    fn has_turns(&self, run: &Run<'a>) -> bool;
}

/// One run with all its attempts: what it has done and spent so far.
pub(crate) struct Run<'a> {
    pub runner: RunnerInfo<'a>,
    pub me: Arc<RunState>,
    pub chat: &'a Chat,
    pub started: Instant,
    /// Turns of an agent, steps of a team.
    pub iterations: u32,
    pub usage: Usage,
    pub ending: RunEnding,
    /// The results that were recorded separately since the last record of the conversation: their size as messages, in
    /// bytes, by call id.
    pub recorded_results: HashMap<String, usize>,
    /// The middleware that had let the run pass before it was interrupted, outermost first.
    passed: VecDeque<PassedMiddleware>,
    /// Set if the list of middleware differs from the one of before the interruption, from some level on.
    has_other_middleware: bool,
    /// The remaining time for pauses that middleware requests before the current answer.
    pauses: MiddlewarePauses,
    /// The task, cut for display; `None` if only the conversation holds it.
    task: Option<String>,
    /// The newest message for which an event was emitted.
    newest_told: Option<u64>,
    /// Set after `RunStarted` was emitted and until `RunFinished` is.
    begun: bool,
}

impl<'a> Run<'a> {
    pub fn new(runner: RunnerInfo<'a>, me: Arc<RunState>, chat: &'a Chat) -> Self {
        if let Some(agent_group) = &me.agent_group {
            chat.count_in(agent_group.conversations());
        }
        Self {
            runner,
            me,
            chat,
            started: Instant::now(),
            iterations: 0,
            usage: Usage::default(),
            ending: RunEnding::Answered,
            recorded_results: HashMap::new(),
            passed: VecDeque::new(),
            has_other_middleware: false,
            pauses: MiddlewarePauses::default(),
            task: None,
            newest_told: None,
            begun: false,
        }
    }

    /// Performs the run from its first record to its last. `recorded` is the state of a run that was interrupted: it
    /// continues from there.
    pub async fn perform(
        &mut self,
        work: &mut dyn RunWork<'a>,
        prompt: String,
        recorded: Option<Box<RecordedRun>>,
        mut input: Vec<Message>,
    ) -> Result<RunAnswer, RunError> {
        if recorded.is_none() {
            self.write_beginning(&input, &prompt);
        }
        if let Some(log) = &self.me.log {
            self.me.handle.inbox.record(log);
        }
        work.show_prompt(self, prompt, recorded.as_deref());
        self.tell_from_here();
        self.task = task_of(&input);
        if let Some(mut recorded) = recorded {
            self.task = self.task.take().or_else(|| recorded.task.take());
            (self.iterations, self.usage) = (recorded.iterations, recorded.usage);
            self.started = Instant::now().checked_sub(recorded.elapsed).unwrap_or_else(Instant::now);
            self.passed = std::mem::take(&mut recorded.passed);
            input = recorded.input.take().unwrap_or(input);
            work.restore(self, *recorded);
        }
        self.through(work, input).await
    }

    /// Checks that the conversation of this run, and those of all agents together, are within their bounds.
    ///
    /// # Errors
    ///
    /// [`RunError::ChatFull`], [`RunError::ConversationsFull`].
    pub fn check_bytes(&self) -> Result<(), RunError> {
        if self.chat.snapshot().bytes() > limits::CHAT_BYTES {
            return Err(RunError::ChatFull);
        }
        match self.me.agent_group.as_ref().map(|agent_group| agent_group.conversations()) {
            Some(all) if all.is_exceeded() => Err(RunError::ConversationsFull(all.most())),
            _ => Ok(()),
        }
    }

    /// Marks every message that the conversation holds now as already reported.
    pub fn tell_from_here(&mut self) {
        self.newest_told = self.chat.snapshot().last().map(|entry| entry.id);
    }

    /// Works, and reports the start and the end. A panic of the work is an error of the run.
    async fn through(&mut self, work: &mut dyn RunWork<'a>, input: Vec<Message>) -> Result<RunAnswer, RunError> {
        let me = Arc::clone(&self.me);
        self.tell_start().await;
        let reply = tokio::select! {
            biased;
            () = me.handle.cancel.cancelled() => Err(RunError::Cancelled),
            reply = AssertUnwindSafe(self.until_done(work, input)).catch_unwind() => {
                reply.unwrap_or_else(|panic| Err(RunError::Crashed(said(&*panic))))
            }
        };
        me.dismiss().await;
        for message in me.handle.inbox.close() {
            // It came too late for this run; the next run in this conversation finds it.
            let _ = self.chat.append(message);
        }
        let reply = self.write_end(reply).await;
        self.tell_messages().await;
        self.tell_end(reply.as_ref().err()).await;
        let (ending, iterations, usage) = (std::mem::take(&mut self.ending), self.iterations, self.usage);
        Ok(RunAnswer { message: reply?, ending, iterations, usage, account: me.budget_account.spent() })
    }

    /// Repeats the work until there is an answer and no unread message for which a turn is left.
    async fn until_done(&mut self, work: &mut dyn RunWork<'a>, mut input: Vec<Message>) -> Result<Message, RunError> {
        loop {
            self.ending = RunEnding::Answered;
            self.pauses = MiddlewarePauses::default();
            let message = self.through_middleware(&mut *work, 0, input).await?;
            self.ending.report_as(&message);
            if self.ending == RunEnding::Answered && message.says_nothing() {
                return Err(RunError::Empty);
            }
            if !work.has_turns(self) {
                return Ok(message);
            }
            input = self.me.handle.inbox.close_if_empty();
            if input.is_empty() {
                return Ok(message);
            }
            let me = Arc::clone(&self.me);
            me.write(|| JournalRecord::WentOn { input: input.clone(), changes: self.changes() });
            me.forget_remote_tasks();
        }
    }

    /// Runs the work as the middleware at `level` sees it; beyond the last middleware is the loop.
    fn through_middleware<'r>(
        &'r mut self,
        work: &'r mut dyn RunWork<'a>,
        level: usize,
        input: Vec<Message>,
    ) -> BoxFuture<'r, Result<Message, RunError>> {
        let Some(middleware) = self.runner.middleware.get(level) else {
            self.passed.clear();
            // The attempt begins with the input.
            self.chat.hear_given();
            return work.attempt(self, input);
        };
        Box::pin(async move {
            let cx = self.me.cx.clone();
            let (name, then) = (middleware.name(), middleware.on_failure());
            let rejected = |fault| RunError::Rejected { by: name.into(), fault };
            let acted = async |action| acted(&cx, name, action).await;
            // The list of middleware may have changed since the interruption: each gets back only its own state.
            let position = self.passed.iter().position(|passed| passed.middleware == name);
            self.has_other_middleware |= position.map_or(!self.passed.is_empty(), |at| at > 0);
            let was_here = position.and_then(|at| self.passed.remove(at));
            if let Some(PassedMiddleware { state, .. }) = was_here.as_ref().filter(|_| self.has_other_middleware) {
                // The journal knows middleware by its level, which is another one now. Its attempts are counted anew after a
                // further interruption.
                self.me.write(|| {
                    let (middleware, state) = (name.to_owned(), state.clone());
                    JournalRecord::Passed { level, middleware, state, input: None }
                });
            }
            let mut input = input;
            let mut usage_before = was_here.as_ref().map(|passed| passed.usage);
            let (mut state, mut attempt) = match was_here {
                Some(passed) => (passed.state, passed.attempt),
                None => {
                    let decision = middleware.before(&cx, &input).await.and_then(BeforeRunDecision::bounded);
                    // A failed middleware that is skipped counts as one that let the run pass.
                    let pass = || BeforeRunDecision::Proceed { input: None, state: Vec::new() };
                    let (replaced, state) = match stop_if_failed(&cx, name, then, decision, pass).await? {
                        BeforeRunDecision::Proceed { input, state } => (input, state),
                        BeforeRunDecision::Answer(message) => {
                            acted(MiddlewareAction::Answer).await;
                            return Ok(message);
                        }
                        BeforeRunDecision::Reject(fault) => {
                            acted(MiddlewareAction::RejectInput).await;
                            return Err(rejected(fault));
                        }
                    };
                    self.me.write(|| {
                        let (middleware, state, input) = (name.to_owned(), state.clone(), replaced.clone());
                        JournalRecord::Passed { level, middleware, state, input }
                    });
                    if let Some(replaced) = replaced {
                        acted(MiddlewareAction::ReplaceInput).await;
                        input = replaced;
                    }
                    (state, 0)
                }
            };
            let limit = middleware.time_limit();
            loop {
                let (before, started) = (usage_before.take().unwrap_or(self.usage), Instant::now());
                let inner = self.through_middleware(&mut *work, level + 1, input);
                let inner = if middleware.recovers() { recovered(inner) } else { inner };
                let reply = match limit {
                    None => inner.await,
                    Some(limit) => tokio::time::timeout(limit, inner).await.unwrap_or_else(|_| {
                        let message = format!("the attempt took longer than {}", seconds(limit));
                        Err(rejected(Fault::Timeout { message }))
                    }),
                };
                if reply.is_err() {
                    // A control action of a rejected or failed attempt has no effect, whatever replaces its answer.
                    self.ending = RunEnding::Answered;
                }
                // A report to the next agent is no answer, and middleware must not judge it as one.
                let told = reply.as_ref().map_err(RunError::as_fault).cloned();
                let told = told.map(|message| message.with_ending(self.ending.word()));
                let outcome =
                    RunOutcome { reply: told, usage: self.usage - before, duration: started.elapsed(), attempt };
                let decision = middleware.after(&cx, &outcome, state).await.and_then(AfterRunDecision::bounded);
                match stop_if_failed(&cx, name, then, decision, || AfterRunDecision::Accept).await? {
                    AfterRunDecision::Accept => return reply,
                    AfterRunDecision::Replace(message) => {
                        acted(MiddlewareAction::Replace).await;
                        return Ok(message.with_ending(None));
                    }
                    AfterRunDecision::Reject(fault) => {
                        acted(MiddlewareAction::Reject).await;
                        return Err(rejected(fault));
                    }
                    AfterRunDecision::Retry { feedback, delay, state: kept } => {
                        state = kept;
                        if attempt == limits::MIDDLEWARE_RETRIES {
                            let message = format!("the middleware asked for more than {attempt} retries");
                            return Err(rejected(Fault::Exhausted { message }));
                        }
                        self.me.budget_account.check().map_err(RunError::Budget)?;
                        attempt += 1;
                        let repeated = RepeatedAttempt { attempts: attempt, ..RepeatedAttempt::default() };
                        let deadline = self.me.budget_account.deadline();
                        let pause = self.pauses.take(&cx, name, delay, deadline, repeated).await;
                        let feedback = feedback.map(|text| Message::note(name, text));
                        input = feedback.filter(|message| !message.says_nothing()).into_iter().collect();
                        let me = Arc::clone(&self.me);
                        me.write(|| {
                            let (state, input, changes) = (state.clone(), input.clone(), self.changes());
                            JournalRecord::Retried { level, attempt, state, input, changes }
                        });
                        me.forget_remote_tasks();
                        in_time(&self.me.budget_account, tokio::time::sleep(pause)).await?;
                    }
                }
            }
        })
    }

    /// Writes the beginning of the run to the journal.
    fn write_beginning(&self, input: &[Message], prompt: &str) {
        self.me.write(|| {
            let continues = self.me.log.as_ref().and_then(|log| log.continues);
            JournalRecord::Began {
                agent: Arc::clone(self.runner.name),
                instance: self.me.cx.agent.clone(),
                model: self.runner.model.to_owned(),
                depth: self.me.cx.depth,
                // A delegating run repeats the task when it is resumed.
                input: if self.me.run_origin.assignment().is_none() { input.to_vec() } else { Vec::new() },
                delegation_key: self.me.delegation_key.clone(),
                continues,
                side_chat: self.me.log.as_ref().and_then(|log| log.side_chat.clone()),
                prompt: prompt.into(),
                changes: match continues {
                    Some(_) => self.chat.take_changes(),
                    None => self.chat.record(),
                },
            }
        });
    }

    /// Writes the end of the run to the journal. For a run that a person started, waits until that record is on disk.
    async fn write_end(&mut self, reply: Result<Message, RunError>) -> Result<Message, RunError> {
        let me = Arc::clone(&self.me);
        let mark = me.write(|| {
            let outcome = RecordedRunEnd::of(&reply, &self.ending);
            let (iterations, usage, account) = (self.iterations, self.usage, self.me.budget_account.spent());
            JournalRecord::Ended { changes: self.changes(), outcome, iterations, usage, account }
        });
        if matches!(self.me.run_origin, RunOrigin::Person) {
            self.me.kept(mark).await?;
        }
        reply
    }

    /// Returns the changes of the conversation since the last call. Results that have a record of their own are only
    /// referenced.
    pub fn changes(&mut self) -> Vec<ChatChange> {
        let answered = |change: &ChatChange| {
            let ChatChange::Added(ChatEntryRecord { id, group: Some(group), message, .. }) = change else {
                return None;
            };
            let result = message.tool_results().next()?;
            let is_same = self.recorded_results.get(&result.call_id).is_some_and(|bytes| *bytes == message.bytes());
            is_same.then(|| ChatChange::Answered { id: *id, group: *group, call: result.call_id.clone() })
        };
        let changes = self.chat.take_changes().into_iter();
        let changes = changes.map(|change| answered(&change).unwrap_or(change)).collect();
        self.recorded_results.clear();
        changes
    }

    async fn tell_start(&mut self) {
        self.begun = true;
        let cx = &self.me.cx;
        if !cx.events.is_watched() {
            return;
        }
        let task = self.task.take().or_else(|| {
            let chat = self.chat.snapshot();
            task_of(chat.iter().map(|entry| &*entry.message))
        });
        let task = task.unwrap_or_default();
        let event = Event::RunStarted {
            agent: cx.agent.clone(),
            configured: Arc::clone(self.runner.name),
            parent_agent: self.me.run_origin.parent().cloned(),
            parent_call: self.me.run_origin.parent_call().cloned(),
            depth: cx.depth,
            prefix: Arc::clone(self.runner.prefix),
            model: self.runner.model.to_owned(),
            task,
        };
        cx.events.emit(event).await;
        if let Some(grants) = self.runner.grants {
            grants.tell(self.runner.name, self.runner.withheld_by(), cx).await;
        }
    }

    /// Emits an event for each message that came into the chat since the last call.
    pub async fn tell_messages(&mut self) {
        for event in self.new_messages() {
            self.me.cx.events.emit(event).await;
        }
    }

    fn new_messages(&mut self) -> Vec<Event> {
        if !self.me.cx.events.is_watched() {
            return Vec::new();
        }
        let now = self.chat.snapshot();
        let is_new = |id: u64| self.newest_told.is_none_or(|told| id > told);
        let mut new: Vec<_> = now.iter().rev().take_while(|entry| is_new(entry.id)).collect();
        new.reverse();
        self.newest_told = now.last().map(|entry| entry.id).max(self.newest_told);
        let added = |entry: &ChatEntry| {
            let message = (!self.runner.may_replace_answers()).then(|| Arc::clone(&entry.message));
            Event::MessageAdded { agent: self.me.cx.agent.clone(), role: entry.message.role, message }
        };
        new.into_iter().map(added).collect()
    }

    async fn tell_end(&mut self, error: Option<&RunError>) {
        self.begun = false;
        if !self.me.cx.events.is_watched() {
            return;
        }
        for event in self.end(error) {
            self.me.cx.events.emit(event).await;
        }
    }

    fn end(&self, error: Option<&RunError>) -> Vec<Event> {
        let (cx, account) = (&self.me.cx, self.me.budget_account.spent());
        let overspent = self.me.budget_account.overshoot().map(|over| {
            let message = format!("the charges exceed the budget by {over}");
            Event::Overspent { agent: cx.agent.clone(), message }
        });
        let finished = Event::RunFinished {
            agent: cx.agent.clone(),
            error: error.map(RunError::in_full),
            iterations: self.iterations,
            usage: self.usage,
            of_children: account.of_children.usage,
            duration: self.started.elapsed(),
        };
        overspent.into_iter().chain([finished]).collect()
    }
}

impl Drop for Run<'_> {
    /// Emits the last events of a cancelled run, as far as the event queue takes them at once. A run that is interrupted
    /// goes on when its session is resumed, and has no end.
    fn drop(&mut self) {
        if self.begun {
            let end = match self.me.cx.events.is_interrupted() {
                true => Vec::new(),
                false => self.end(Some(&RunError::Cancelled)),
            };
            self.new_messages().into_iter().chain(end).for_each(|event| self.me.cx.events.emit_now(event));
        }
    }
}

/// Turns a panic of `inner` into a [`RunError::Crashed`].
fn recovered<'a>(inner: BoxFuture<'a, Result<Message, RunError>>) -> BoxFuture<'a, Result<Message, RunError>> {
    let contained = AssertUnwindSafe(inner).catch_unwind();
    Box::pin(contained.map(|reply| reply.unwrap_or_else(|panic| Err(RunError::Crashed(said(&*panic))))))
}

/// Returns the message of a panic.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let mut text = text.unwrap_or("panic without a message").to_owned();
    text.truncate(text.floor_char_boundary(limits::ERROR_BYTES));
    text
}
