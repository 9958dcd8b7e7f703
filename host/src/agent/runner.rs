use std::{
    any::Any,
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use super::{
    Agent, RunError,
    completion::in_time,
    crew::Badge,
    delegate::{self, Assignment, Instance},
    effect::{Effects, bounded_state},
    journal::{CallPast, ErrandId, Journal, Log, Passed, Record, RunPast},
    middleware::{AfterDecision, BeforeDecision, Outcome, acted, stop_if_failed},
    place::Place,
    prompt,
    react::At,
    sampled,
    tasks::Tasks,
};
use crate::{
    capability::{Account, Ceiling, Purse},
    chat::{Chat, Entry, Message, Role},
    error::{Fault, seconds},
    event::{Event, RunCx},
    limits,
    model::Usage,
    tool::{Completed, HandOver, ToolBox},
};

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The final message: the answer, or what the agent reported when it ended its task or handed it over.
    pub message: Message,
    /// How it ended.
    pub ending: Ending,
    /// Turns of the loop, all attempts together.
    pub iterations: u32,
    /// Tokens of all completions of this agent, those that its effects asked for included.
    pub usage: Usage,
    /// All that was spent: by this agent, and by those that it delegated to.
    pub account: Account,
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Ending {
    /// With a reply that calls no tool.
    #[default]
    Answered,
    /// The agent said that its task has ended.
    Completed(Completed),
    /// The agent wants another one to go on.
    HandedOver(HandOver),
}

impl Ending {
    /// All that the agent says to whoever gets its task back.
    pub(super) fn report(&self) -> String {
        match self {
            Self::Answered => String::new(),
            Self::Completed(completed) => completed.in_full(),
            Self::HandedOver(to) => format!("{}\n\n{}", to.reason, to.context),
        }
    }

    /// Says it as middleware left it: if that changed anything, in its words alone.
    fn report_as(&mut self, message: &Message) {
        let text = message.text_content();
        if text == self.report() {
            return;
        }
        match self {
            Self::Answered => {}
            Self::Completed(completed) => *completed = Completed { summary: text, ..Completed::bare(completed.status) },
            Self::HandedOver(to) => (to.context, to.reason) = (text, String::new()),
        }
    }
}

/// What a run is begun with.
pub(super) struct Start {
    pub cx: RunCx,
    pub purse: Arc<Purse>,
    /// What it was started under.
    pub ceiling: Ceiling,
    pub badge: Badge,
    pub place: Place,
    pub tasks: Tasks,
    /// None for one that a person started.
    pub assignment: Option<Arc<Assignment>>,
    /// Where what happens is written down, if it is.
    pub log: Option<Log>,
    /// Whom it works for.
    pub errand: Option<ErrandId>,
    /// What it was when it was interrupted; none for one that begins.
    pub past: Option<Box<RunPast>>,
}

/// One run of an agent, all its attempts together: what it works on and what it has spent.
pub(super) struct Run<'a> {
    pub agent: &'a Agent,
    pub me: Arc<Instance>,
    pub chat: &'a Chat,
    pub tools: ToolBox,
    /// What each source had when the tools were last put together.
    pub of_sources: Vec<ToolBox>,
    pub effects: Effects<'a>,
    pub started: Instant,
    pub iterations: u32,
    pub usage: Usage,
    pub last_usage: Option<Usage>,
    pub model_time: Duration,
    pub ending: Ending,
    /// Where it goes on.
    pub at: At,
    /// What is known of the calls of the last reply from before it was interrupted.
    pub calls: HashMap<String, Box<CallPast>>,
    /// The results that stand in records of their own since the conversation was last written down: their bytes as messages.
    pub recorded: HashMap<String, usize>,
    /// The middleware that had let it pass before it was interrupted, outermost first.
    pub passed: VecDeque<Passed>,
    /// The newest message that was told of.
    told: Option<u64>,
    /// Whether its beginning was told and its end was not.
    begun: bool,
}

impl Agent {
    /// Works on `input` in `chat` until there is an answer. The system prompt is put in front of the chat, or brought up
    /// to date. Dropping the future cancels the run and all that work for it; the chat stays valid.
    ///
    /// # Errors
    ///
    /// [`RunError`]; the chat stays valid and holds what was done.
    pub async fn run(&self, cx: &RunCx, chat: &Chat, input: Vec<Message>) -> Result<Answer, RunError> {
        let purse = Purse::new(&self.budget, Instant::now());
        self.run_on(cx, chat, input, &purse).await
    }

    /// The same, spending from `purse`: for runs that share one budget. What [`Agent::budget`] says is not looked at.
    ///
    /// # Errors
    ///
    /// As [`Agent::run`].
    pub async fn run_on(
        &self,
        cx: &RunCx,
        chat: &Chat,
        input: Vec<Message>,
        purse: &Arc<Purse>,
    ) -> Result<Answer, RunError> {
        let _turn = chat.turn().await;
        let log = self.journal().map(|journal| Log::main(journal, chat));
        self.run_as(self.start(cx, purse, log, None, Vec::new()), chat, input).await
    }

    /// The start of a run of a person.
    pub(super) fn start(
        &self,
        cx: &RunCx,
        purse: &Arc<Purse>,
        log: Option<Log>,
        past: Option<Box<RunPast>>,
        waiting: Vec<Message>,
    ) -> Box<Start> {
        let badge = self.crew.as_ref().map(|crew| crew.enter(&cx.agent, waiting)).unwrap_or_default();
        let (cx, purse, place, tasks) = (cx.anew(), Arc::clone(purse), Place::free(), Tasks::default());
        let ceiling = Ceiling::default();
        Box::new(Start { cx, purse, ceiling, badge, place, tasks, assignment: None, log, errand: None, past })
    }

    pub(super) fn journal(&self) -> Option<&Arc<Journal>> {
        self.crew.as_ref().and_then(|crew| crew.journal.as_ref())
    }

    pub(super) async fn run_as(
        &self,
        mut start: Box<Start>,
        chat: &Chat,
        input: Vec<Message>,
    ) -> Result<Answer, RunError> {
        let (past, errand) = (start.past.take(), start.errand.take());
        let me = Arc::new(Instance::new(self, *start));
        sampled::begin(self, &me);
        let of_sources = self.of_sources();
        let tools = delegate::equip(self, &me).await;
        let prompt = prompt::system_prompt(self, &me, &tools);
        if past.is_none() {
            me.write(|| self.beginning((&me, errand), chat, &input, &prompt));
        }
        if let Some(log) = &me.log {
            me.badge.inbox.record(log);
        }
        match &self.crew {
            // Once it has had a turn, it is as its effects have left it.
            _ if past.as_ref().is_some_and(|past| past.iterations > 0) && chat.has_edited_prompt() => {}
            Some(crew) => chat.share_system_prompt(crew.share_prompt(&self.name, prompt)),
            None => chat.set_system_prompt(&self.name, prompt),
        }
        let mut run = Run::new(self, Arc::clone(&me), chat, tools);
        run.of_sources = of_sources;
        let input = match past {
            Some(past) => run.restore(*past, input),
            None => input,
        };
        run.tell_start(&input).await;
        let reply = tokio::select! {
            biased;
            () = me.badge.cancel.cancelled() => Err(RunError::Cancelled),
            reply = AssertUnwindSafe(run.until_done(input)).catch_unwind() => {
                reply.unwrap_or_else(|panic| Err(RunError::Crashed(said(&*panic))))
            }
        };
        me.dismiss().await;
        for message in me.badge.inbox.close() {
            // It came too late to be read; whoever reads on finds it.
            let _ = chat.append(message);
        }
        let reply = run.write_end(reply).await;
        run.tell_messages().await;
        run.tell_end(reply.as_ref().err()).await;
        let (ending, iterations, usage) = (std::mem::take(&mut run.ending), run.iterations, run.usage);
        Ok(Answer { message: reply?, ending, iterations, usage, account: me.purse.spent() })
    }
}

impl<'a> Run<'a> {
    fn new(agent: &'a Agent, me: Arc<Instance>, chat: &'a Chat, tools: ToolBox) -> Self {
        Self {
            agent,
            me,
            chat,
            tools,
            of_sources: Vec::new(),
            effects: Effects::new(&agent.effects),
            started: Instant::now(),
            iterations: 0,
            usage: Usage::default(),
            last_usage: None,
            model_time: Duration::ZERO,
            ending: Ending::Answered,
            at: At::Turn,
            calls: HashMap::new(),
            recorded: HashMap::new(),
            passed: VecDeque::new(),
            told: chat.snapshot().last().map(|entry| entry.id),
            begun: false,
        }
    }

    /// Until there is an answer and nobody has sent a message since that there is a turn left for.
    async fn until_done(&mut self, mut input: Vec<Message>) -> Result<Message, RunError> {
        loop {
            self.ending = Ending::Answered;
            let message = self.through_middleware(0, input).await?;
            self.ending.report_as(&message);
            if self.ending == Ending::Answered && message.says_nothing() {
                return Err(RunError::Empty);
            }
            if !self.has_turns() {
                return Ok(message);
            }
            input = self.me.badge.inbox.close_if_empty();
            if input.is_empty() {
                return Ok(message);
            }
            let me = Arc::clone(&self.me);
            me.write(|| Record::WentOn { input: input.clone(), changes: self.changes() });
        }
    }

    /// The run as the middleware at `level` sees it; beyond the last one is the loop.
    fn through_middleware(&mut self, level: usize, input: Vec<Message>) -> BoxFuture<'_, Result<Message, RunError>> {
        let agent = self.agent;
        let Some(middleware) = agent.middleware.get(level) else {
            self.passed.clear();
            return Box::pin(self.attempt(input));
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
                    let decision = middleware.before(&cx, &input).await.and_then(BeforeDecision::bounded);
                    // One that failed is passed over as if it had let the run pass.
                    let pass = || BeforeDecision::Proceed { input: None, state: Vec::new() };
                    let (replaced, state) = match stop_if_failed(&cx, name, then, decision, pass).await? {
                        BeforeDecision::Proceed { input, state } => (input, state),
                        BeforeDecision::Answer(message) => {
                            acted("answer").await;
                            return Ok(message);
                        }
                        BeforeDecision::Reject(fault) => {
                            acted("reject-input").await;
                            return Err(rejected(fault));
                        }
                    };
                    self.me.write(|| {
                        let (middleware, state, input) = (name.to_owned(), state.clone(), replaced.clone());
                        Record::Passed { level, middleware, state, input }
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
                    self.ending = Ending::Answered;
                }
                let told = reply.as_ref().map_err(RunError::as_fault).cloned();
                let outcome = Outcome { reply: told, usage: self.usage - before, duration: started.elapsed(), attempt };
                let decision = middleware.after(&cx, &outcome, state).await.and_then(AfterDecision::bounded);
                match stop_if_failed(&cx, name, then, decision, || AfterDecision::Accept).await? {
                    AfterDecision::Accept => return reply,
                    AfterDecision::Replace(message) => {
                        acted("replace").await;
                        return Ok(message);
                    }
                    AfterDecision::Reject(fault) => {
                        acted("reject").await;
                        return Err(rejected(fault));
                    }
                    AfterDecision::Retry { feedback, delay, state: kept } => {
                        state = kept;
                        if attempt == limits::MIDDLEWARE_RETRIES {
                            let message = format!("it asked for more than {attempt} further attempts");
                            return Err(rejected(Fault::Exhausted { message }));
                        }
                        self.me.purse.check().map_err(RunError::Budget)?;
                        acted("retry").await;
                        attempt += 1;
                        let feedback = feedback.map(|text| Message::note(name, text));
                        input = feedback.filter(|message| !message.says_nothing()).into_iter().collect();
                        let me = Arc::clone(&self.me);
                        me.write(|| {
                            let (state, input, changes) = (state.clone(), input.clone(), self.changes());
                            Record::Retried { level, attempt, state, input, changes }
                        });
                        let pause = tokio::time::sleep(delay.min(limits::MIDDLEWARE_DELAY));
                        in_time(&self.me.purse, pause).await?;
                    }
                }
            }
        })
    }

    async fn tell_start(&mut self, input: &[Message]) {
        self.begun = true;
        let cx = &self.me.cx;
        if !cx.events.is_watched() {
            return;
        }
        let is_task = |message: &&Message| message.role == Role::User && !message.is_note();
        let task = input.iter().rev().find(is_task).map(Message::text_content).or_else(|| {
            // Of a run that goes on it stands in the conversation.
            let chat = self.chat.snapshot();
            chat.iter().rev().map(|entry| &*entry.message).find(is_task).map(Message::text_content)
        });
        let mut task = task.unwrap_or_default();
        task.truncate(task.floor_char_boundary(limits::TASK_SHOWN_BYTES));
        let event = Event::RunStarted {
            run: cx.run.clone(),
            agent: cx.agent.clone(),
            parent: self.me.assignment.as_ref().map(|assignment| assignment.by.clone()),
            depth: cx.depth,
            prefix: self.agent.prefix.clone(),
            model: self.agent.completer.info().model.clone(),
            task,
        };
        cx.events.emit(event).await;
        self.agent.grants.tell(&self.agent.name, cx).await;
    }

    /// Tells of the messages that came into the chat since it was last asked.
    pub(super) async fn tell_messages(&mut self) {
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
        let added = |entry: &Entry| {
            let message = (!self.agent.may_replace_answers()).then(|| Arc::clone(&entry.message));
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

impl Drop for Run<'_> {
    /// A run that is dropped is cancelled, and whoever watches is told if nothing else is in the way.
    fn drop(&mut self) {
        if self.begun {
            let last = self.new_messages().into_iter().chain(self.end(Some(&RunError::Cancelled)));
            last.for_each(|event| self.me.cx.events.emit_now(event));
        }
    }
}

/// The same, with a panic as a failure.
fn recovered<'a>(inner: BoxFuture<'a, Result<Message, RunError>>) -> BoxFuture<'a, Result<Message, RunError>> {
    let contained = AssertUnwindSafe(inner).catch_unwind();
    Box::pin(contained.map(|reply| reply.unwrap_or_else(|panic| Err(RunError::Crashed(said(&*panic))))))
}

impl Agent {
    /// Whether something around its runs may put another message in place of the answer.
    pub(super) fn may_replace_answers(&self) -> bool {
        self.middleware.iter().any(|middleware| middleware.may_replace())
    }
}

impl BeforeDecision {
    fn bounded(self) -> Result<Self, Fault> {
        match self {
            Self::Proceed { input, state } => Ok(Self::Proceed { input, state: bounded_state(state)? }),
            other => Ok(other),
        }
    }
}

impl AfterDecision {
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
