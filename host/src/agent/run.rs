//! One run of whatever runs: through the middleware around it to its work, and back; told of, and written down.

use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{
    GrantDecisions, RunAnswer, RunEnding, RunError, RunMiddleware,
    completion::in_time,
    delegate::RunState,
    effect::bounded_state,
    journal::{DelegationId, JournalRecord, PassedMiddleware, RecordedRun, RecordedRunEnd},
    run_middleware::{
        AfterRunDecision, BeforeRunDecision, MiddlewarePauses, RunOutcome, acted, may_replace_answers, stop_if_failed,
    },
    runner::RunOrigin,
};
use crate::{
    chat::{Chat, ChatChange, ChatEntry, ChatEntryRecord, Message, Role},
    error::{Fault, seconds},
    event::Event,
    limits,
    model::{ModelMiddleware, Usage},
};

/// What a run is of, as far as everything around its work must know it.
#[derive(Clone, Copy)]
pub(crate) struct RunnerInfo<'a> {
    pub name: &'a Arc<str>,
    /// What to show before its name.
    pub prefix: &'a Arc<str>,
    /// Its model, for people; empty if it has none.
    pub model: &'a str,
    /// What stands around its runs, outermost first.
    pub middleware: &'a [Arc<dyn RunMiddleware>],
    /// What stands around its requests to a model, outermost first.
    pub model_middleware: &'a [Arc<dyn ModelMiddleware>],
    /// What its plugins have got.
    pub grants: Option<&'a GrantDecisions>,
}

impl RunnerInfo<'_> {
    /// Whether something around its runs may put another message in place of the answer.
    pub fn may_replace_answers(&self) -> bool {
        may_replace_answers(self.middleware)
    }

    /// The names of those because of which its words are not shown before they are whole.
    fn withheld_by(&self) -> Vec<String> {
        let around_runs = self.middleware.iter().filter(|one| one.may_replace()).map(|one| one.name());
        let around_requests = self.model_middleware.iter().filter(|one| one.may_replace()).map(|one| one.name());
        around_runs.chain(around_requests).map(str::to_owned).collect()
    }
}

/// What goes on inside a run.
pub(crate) trait RunLoop<'a>: Send + Sized {
    /// One attempt at an answer: adds the input and works. What was begun goes on from the attempt before; one that was
    /// interrupted goes on where it was.
    fn attempt<'r>(run: &'r mut Run<'a, Self>, input: Vec<Message>) -> BoxFuture<'r, Result<Message, RunError>>;

    /// Whether there is anything left to read a message with.
    fn has_turns(run: &Run<'a, Self>) -> bool;
}

/// One run, all its attempts together: what it works on and what it has spent.
pub(crate) struct Run<'a, W: RunLoop<'a>> {
    pub shell: RunnerInfo<'a>,
    pub me: Arc<RunState>,
    pub chat: &'a Chat,
    pub work: W,
    pub started: Instant,
    /// Turns of a loop, steps of a team.
    pub iterations: u32,
    pub usage: Usage,
    pub ending: RunEnding,
    /// The results that stand in records of their own since the conversation was last written down: their bytes as messages.
    pub recorded: HashMap<String, usize>,
    /// The middleware that had let it pass before it was interrupted, outermost first.
    pub passed: VecDeque<PassedMiddleware>,
    /// The pauses that middlewares have asked for before the answer that is worked on.
    pauses: MiddlewarePauses,
    /// What it was given to do, cut for display; none where that stands in its conversation alone.
    task: Option<String>,
    /// The newest message that was told of.
    told: Option<u64>,
    /// Whether its beginning was told and its end was not.
    begun: bool,
}

impl<'a, W: RunLoop<'a>> Run<'a, W> {
    pub fn new(shell: RunnerInfo<'a>, me: Arc<RunState>, chat: &'a Chat, work: W) -> Self {
        if let Some(crew) = &me.crew {
            chat.count_in(crew.conversations());
        }
        Self {
            shell,
            me,
            chat,
            work,
            started: Instant::now(),
            iterations: 0,
            usage: Usage::default(),
            ending: RunEnding::Answered,
            recorded: HashMap::new(),
            passed: VecDeque::new(),
            pauses: MiddlewarePauses::default(),
            task: None,
            told: None,
            begun: false,
        }
    }

    /// Sees that its conversation, and those of all agents of the run together, hold no more than they may.
    ///
    /// # Errors
    ///
    /// [`RunError::ChatFull`], [`RunError::ConversationsFull`].
    pub fn check_bytes(&self) -> Result<(), RunError> {
        if self.chat.snapshot().bytes() > limits::CHAT_BYTES {
            return Err(RunError::ChatFull);
        }
        match self.me.crew.as_ref().map(|crew| crew.conversations()) {
            Some(all) if all.is_exceeded() => Err(RunError::ConversationsFull(all.most())),
            _ => Ok(()),
        }
    }

    /// What stands in its conversation now is known.
    pub fn tell_from_here(&mut self) {
        self.told = self.chat.snapshot().last().map(|entry| entry.id);
    }

    /// It was given this to do, before it was interrupted if it was.
    pub fn given(&mut self, input: &[Message], past: Option<&RecordedRun>) {
        self.task = task_of(input).or_else(|| past.and_then(|past| past.task.clone()));
    }

    /// From its beginning to its end.
    pub async fn through(&mut self, input: Vec<Message>) -> Result<RunAnswer, RunError> {
        let me = Arc::clone(&self.me);
        self.tell_start().await;
        let reply = tokio::select! {
            biased;
            () = me.badge.cancel.cancelled() => Err(RunError::Cancelled),
            reply = AssertUnwindSafe(self.until_done(input)).catch_unwind() => {
                reply.unwrap_or_else(|panic| Err(RunError::Crashed(said(&*panic))))
            }
        };
        me.dismiss().await;
        for message in me.badge.inbox.close() {
            // It came too late to be read; whoever reads on finds it.
            let _ = self.chat.append(message);
        }
        let reply = self.write_end(reply).await;
        self.tell_messages().await;
        self.tell_end(reply.as_ref().err()).await;
        let (ending, iterations, usage) = (std::mem::take(&mut self.ending), self.iterations, self.usage);
        Ok(RunAnswer { message: reply?, ending, iterations, usage, account: me.purse.spent() })
    }

    /// Until there is an answer and nobody has sent a message since that there is a turn left for.
    async fn until_done(&mut self, mut input: Vec<Message>) -> Result<Message, RunError> {
        loop {
            self.ending = RunEnding::Answered;
            self.pauses = MiddlewarePauses::default();
            let message = self.through_middleware(0, input).await?;
            self.ending.report_as(&message);
            if self.ending == RunEnding::Answered && message.says_nothing() {
                return Err(RunError::Empty);
            }
            if !W::has_turns(self) {
                return Ok(message);
            }
            input = self.me.badge.inbox.close_if_empty();
            if input.is_empty() {
                return Ok(message);
            }
            let me = Arc::clone(&self.me);
            me.write(|| JournalRecord::WentOn { input: input.clone(), changes: self.changes() });
        }
    }

    /// The run as the middleware at `level` sees it; beyond the last one is the loop.
    fn through_middleware(&mut self, level: usize, input: Vec<Message>) -> BoxFuture<'_, Result<Message, RunError>> {
        let Some(middleware) = self.shell.middleware.get(level) else {
            self.passed.clear();
            return W::attempt(self, input);
        };
        Box::pin(async move {
            let cx = self.me.cx.clone();
            let (name, then) = (middleware.name(), middleware.on_failure());
            let rejected = |fault| RunError::Rejected { by: name.into(), fault };
            let acted = async |action| acted(&cx, name, action).await;
            // There may be others now than when it was interrupted: each has what is its own.
            let was_here = self.passed.iter().position(|passed| passed.middleware == name);
            let was_here = was_here.and_then(|at| self.passed.remove(at));
            let mut input = input;
            let mut usage_before = was_here.as_ref().map(|passed| passed.usage);
            let (mut state, mut attempt) = match was_here {
                Some(passed) => (passed.state, passed.attempt),
                None => {
                    let decision = middleware.before(&cx, &input).await.and_then(BeforeRunDecision::bounded);
                    // One that failed is passed over as if it had let the run pass.
                    let pass = || BeforeRunDecision::Proceed { input: None, state: Vec::new() };
                    let (replaced, state) = match stop_if_failed(&cx, name, then, decision, pass).await? {
                        BeforeRunDecision::Proceed { input, state } => (input, state),
                        BeforeRunDecision::Answer(message) => {
                            acted("answer").await;
                            return Ok(message);
                        }
                        BeforeRunDecision::Reject(fault) => {
                            acted("reject-input").await;
                            return Err(rejected(fault));
                        }
                    };
                    self.me.write(|| {
                        let (middleware, state, input) = (name.to_owned(), state.clone(), replaced.clone());
                        JournalRecord::Passed { level, middleware, state, input }
                    });
                    if let Some(replaced) = replaced {
                        acted("replace-input").await;
                        input = replaced;
                    }
                    (state, 0)
                }
            };
            let limit = middleware.time_limit();
            loop {
                let (before, started) = (usage_before.take().unwrap_or(self.usage), Instant::now());
                let inner = self.through_middleware(level + 1, input);
                let inner = if middleware.recovers() { recovered(inner) } else { inner };
                let reply = match limit {
                    None => inner.await,
                    Some(limit) => tokio::time::timeout(limit, inner).await.unwrap_or_else(|_| {
                        let message = format!("it took longer than {}", seconds(limit));
                        Err(rejected(Fault::Timeout { message }))
                    }),
                };
                if reply.is_err() {
                    // What was rejected or failed has no effect, whatever stands in its place.
                    self.ending = RunEnding::Answered;
                }
                // What is said to whoever goes on is no answer, and is not to be judged as one.
                let told = reply.as_ref().map_err(RunError::as_fault).cloned();
                let told = told.map(|message| message.with_ending(self.ending.word()));
                let outcome =
                    RunOutcome { reply: told, usage: self.usage - before, duration: started.elapsed(), attempt };
                let decision = middleware.after(&cx, &outcome, state).await.and_then(AfterRunDecision::bounded);
                match stop_if_failed(&cx, name, then, decision, || AfterRunDecision::Accept).await? {
                    AfterRunDecision::Accept => return reply,
                    AfterRunDecision::Replace(message) => {
                        acted("replace").await;
                        return Ok(message.with_ending(None));
                    }
                    AfterRunDecision::Reject(fault) => {
                        acted("reject").await;
                        return Err(rejected(fault));
                    }
                    AfterRunDecision::Retry { feedback, delay, state: kept } => {
                        state = kept;
                        if attempt == limits::MIDDLEWARE_RETRIES {
                            let message = format!("it asked for more than {attempt} further attempts");
                            return Err(rejected(Fault::Exhausted { message }));
                        }
                        self.me.purse.check().map_err(RunError::Budget)?;
                        let pause = self.pauses.take(&cx, name, delay, self.me.purse.deadline()).await;
                        attempt += 1;
                        let feedback = feedback.map(|text| Message::note(name, text));
                        input = feedback.filter(|message| !message.says_nothing()).into_iter().collect();
                        let me = Arc::clone(&self.me);
                        me.write(|| {
                            let (state, input, changes) = (state.clone(), input.clone(), self.changes());
                            JournalRecord::Retried { level, attempt, state, input, changes }
                        });
                        in_time(&self.me.purse, tokio::time::sleep(pause)).await?;
                    }
                }
            }
        })
    }

    /// Writes down that it begins.
    pub fn write_beginning(&self, errand: Option<DelegationId>, input: &[Message], prompt: &str) {
        self.me.write(|| {
            let continues = self.me.log.as_ref().and_then(|log| log.continues);
            JournalRecord::Began {
                agent: Arc::clone(self.shell.name),
                instance: self.me.cx.agent.clone(),
                model: self.shell.model.to_owned(),
                depth: self.me.cx.depth,
                // Whoever delegated a task gives it again.
                input: if self.me.works_for.assignment().is_none() { input.to_vec() } else { Vec::new() },
                errand,
                continues,
                beside: self.me.log.as_ref().and_then(|log| log.beside.clone()),
                prompt: prompt.into(),
                changes: match continues {
                    Some(_) => self.chat.take_changes(),
                    None => self.chat.record(),
                },
            }
        });
    }

    /// Writes down how it ended, and waits until that is kept where somebody waits for its answer outside.
    pub async fn write_end(&mut self, reply: Result<Message, RunError>) -> Result<Message, RunError> {
        let me = Arc::clone(&self.me);
        let mark = me.write(|| {
            let outcome = RecordedRunEnd::of(&reply, &self.ending);
            let (iterations, usage, account) = (self.iterations, self.usage, self.me.purse.spent());
            JournalRecord::Ended { changes: self.changes(), outcome, iterations, usage, account }
        });
        if matches!(self.me.works_for, RunOrigin::Person) {
            self.me.kept(mark).await?;
        }
        reply
    }

    /// What has changed in the conversation since it was last written down. Results that stand in a record of their own are
    /// only named.
    pub fn changes(&mut self) -> Vec<ChatChange> {
        let answered = |change: &ChatChange| {
            let ChatChange::Added(ChatEntryRecord { id, group: Some(group), message, .. }) = change else {
                return None;
            };
            let result = message.tool_results().next()?;
            let is_same = self.recorded.get(&result.call_id).is_some_and(|bytes| *bytes == message.bytes());
            is_same.then(|| ChatChange::Answered { id: *id, group: *group, call: result.call_id.clone() })
        };
        let changes = self.chat.take_changes().into_iter();
        let changes = changes.map(|change| answered(&change).unwrap_or(change)).collect();
        self.recorded.clear();
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
            run: cx.run.clone(),
            agent: cx.agent.clone(),
            parent: self.me.works_for.parent().cloned(),
            depth: cx.depth,
            prefix: Arc::clone(self.shell.prefix),
            model: self.shell.model.to_owned(),
            task,
        };
        cx.events.emit(event).await;
        if let Some(grants) = self.shell.grants {
            grants.tell(self.shell.name, self.shell.withheld_by(), cx).await;
        }
    }

    /// Tells of the messages that came into the chat since it was last asked.
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
        let is_new = |id: u64| self.told.is_none_or(|told| id > told);
        let mut new: Vec<_> = now.iter().rev().take_while(|entry| is_new(entry.id)).collect();
        new.reverse();
        self.told = now.last().map(|entry| entry.id).max(self.told);
        let added = |entry: &ChatEntry| {
            let message = (!self.shell.may_replace_answers()).then(|| Arc::clone(&entry.message));
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
        let (cx, account) = (&self.me.cx, self.me.purse.spent());
        let overspent = self.me.purse.overshoot().map(|over| {
            let message = format!("{over} beyond its budget were charged");
            Event::Overspent { agent: cx.agent.clone(), message }
        });
        let finished = Event::RunFinished {
            run: cx.run.clone(),
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

impl<'a, W: RunLoop<'a>> Drop for Run<'a, W> {
    /// A run that is dropped is cancelled, and whoever watches is told if nothing else is in the way.
    fn drop(&mut self) {
        if self.begun {
            let last = self.new_messages().into_iter().chain(self.end(Some(&RunError::Cancelled)));
            last.for_each(|event| self.me.cx.events.emit_now(event));
        }
    }
}

/// Returns the newest message of a user that is no note, cut for display.
pub(super) fn task_of<'m>(
    messages: impl IntoIterator<Item = &'m Message, IntoIter: DoubleEndedIterator>,
) -> Option<String> {
    let is_task = |message: &&Message| message.role == Role::User && !message.is_note();
    let mut task = messages.into_iter().rev().find(is_task)?.text_content();
    task.truncate(task.floor_char_boundary(limits::TASK_SHOWN_BYTES));
    Some(task)
}

/// The same, with a panic as a failure.
fn recovered<'a>(inner: BoxFuture<'a, Result<Message, RunError>>) -> BoxFuture<'a, Result<Message, RunError>> {
    let contained = AssertUnwindSafe(inner).catch_unwind();
    Box::pin(contained.map(|reply| reply.unwrap_or_else(|panic| Err(RunError::Crashed(said(&*panic))))))
}

impl BeforeRunDecision {
    fn bounded(self) -> Result<Self, Fault> {
        match self {
            Self::Proceed { input, state } => Ok(Self::Proceed { input, state: bounded_state(state)? }),
            other => Ok(other),
        }
    }
}

impl AfterRunDecision {
    fn bounded(self) -> Result<Self, Fault> {
        match self {
            Self::Retry { feedback, delay, state } => Ok(Self::Retry { feedback, delay, state: bounded_state(state)? }),
            other => Ok(other),
        }
    }
}

/// What a panic said.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    let mut text = text.unwrap_or("it did not say why").to_owned();
    text.truncate(text.floor_char_boundary(limits::ERROR_BYTES));
    text
}
