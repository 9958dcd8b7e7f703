//! One request to the model: within the budget, observed, and paid for.

use std::{
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use futures_util::{FutureExt, future::Either};
use tokio::time::Instant;

use super::{
    Agent, RunError, agent_loop::AgentRun, delegate::RunState, journal::JournalRecord, model_middleware_chain,
    refused_tool::refused_tool, window_check,
};
use crate::{
    capability::{BudgetAccount, NameSet, Price, Usd},
    chat::Part,
    error::Fault,
    event::{Event, RunCx},
    limits,
    model::{
        Completer, Completion, CompletionRequest, DeltaSink, DeltaTarget, ModelInfo, ReplyDelta, StopReason, Usage,
    },
    tool::ToolBox,
};

/// A reply of the model, with its cost and duration.
pub(crate) struct ModelReply {
    pub completion: Completion,
    pub cost: Usd,
    pub took: Duration,
}

/// The facts of a reply for its event.
#[derive(Clone)]
pub(crate) struct ModelReplySummary {
    pub model: String,
    pub stop: StopReason,
    pub usage: Usage,
    calls: usize,
    took: Duration,
}

impl ModelReplySummary {
    pub fn of(completion: &Completion, took: Duration) -> Self {
        let calls = completion.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        let Completion { model, stop, usage, .. } = completion;
        Self { model: model.clone(), stop: stop.clone(), usage: *usage, calls, took }
    }
}

impl AgentRun<'_> {
    pub(crate) async fn complete(&mut self, tools: &ToolBox, iteration: u32) -> Result<ModelReply, RunError> {
        let (agent, cx) = (self.work.agent, &self.me.cx);
        let request = CompletionRequest::new(self.chat.snapshot(), tools.specs());
        let watched = cx.events.is_watched();
        if watched {
            let tokens = request.tokens();
            cx.events.emit(Event::ModelStarted { agent: cx.agent.clone(), iteration, tokens }).await;
        }
        // A reply that a middleware may still replace must not be shown before.
        let shown = watched && !self.shell.may_replace_answers() && !agent.may_replace_replies();
        let started = Instant::now();
        let asked = ask(&self.me, agent, ModelRequest { model: None, request, shown }, &mut self.usage);
        let outcome = in_time(&self.me.budget_account, asked).await;
        let took = started.elapsed();
        self.work.model_time += took;
        let (completion, cost) = outcome??;
        self.work.last_usage = Some(completion.usage);
        Ok(ModelReply { completion, cost, took })
    }

    /// Emits the event of a reply.
    pub(crate) async fn tell_reply(&self, replied: ModelReplySummary, iteration: u32) {
        let cx = &self.me.cx;
        if cx.events.is_watched() {
            let ModelReplySummary { model, stop, calls, usage, took: duration } = replied;
            let agent = cx.agent.clone();
            let event = Event::ModelFinished { agent, iteration, model, stop, calls, usage, duration };
            cx.events.emit(event).await;
        }
    }

    /// Returns the error for a reply that was cut off: if the budget cut it, the model is not to blame.
    pub(crate) fn why_cut(&self) -> RunError {
        let request = CompletionRequest::new(self.chat.snapshot(), self.work.tools.specs());
        let price = self.work.agent.completer.info().price.as_ref();
        self.me.budget_account.clamp(None, request.tokens(), price).map_or_else(RunError::Budget, |_| RunError::Cut)
    }
}

/// A request to a model.
pub(crate) struct ModelRequest {
    /// The name of a model in the config; `None`: the agent's own model.
    pub model: Option<String>,
    pub request: CompletionRequest,
    /// Set if parts of the reply may be shown as they arrive.
    pub shown: bool,
}

/// Sends a request through all middleware around requests, and pays for every reply. Returns the reply and its cost. The
/// usage is added to `usage`.
pub(crate) async fn ask(
    me: &RunState,
    agent: &Agent,
    asked: ModelRequest,
    usage: &mut Usage,
) -> Result<(Completion, Usd), RunError> {
    match agent.model_middleware.is_empty() {
        true => send(me, agent, asked, usage).await,
        false => model_middleware_chain::ask(me, agent, asked, usage).await,
    }
}

/// Sends a request. A reply that breaks off in the middle, for a transient reason, is requested again. Retries before a
/// reply has begun cost nothing and are left to the [`Completer`]; but the cost of a broken reply is paid here, and the
/// next attempt may only cost what is left. If a vendor refuses the schema of a tool, the request is repeated without that
/// tool, which is left out for the rest of the run.
#[expect(
    clippy::manual_async_fn,
    reason = "an `async fn` has room for its arguments twice, and every agent at work pays for it"
)]
pub(crate) fn send<'a>(
    me: &'a RunState,
    agent: &'a Agent,
    mut asked: ModelRequest,
    usage: &'a mut Usage,
) -> impl Future<Output = Result<(Completion, Usd), RunError>> + Send + 'a {
    async move {
        let completer = agent.model(asked.model.as_deref())?;
        let mut pauses = pauses(completer.info());
        loop {
            let watcher = Arc::new(DeltaForwarder::new(&me.cx, asked.shown));
            let reply = attempt(me, completer, &asked.request, &watcher, usage).await;
            let Err(RunError::Model(fault)) = &reply else { return reply };
            let refused = refused_tool(fault, &asked.request.tools).filter(|tool| me.leave_out_tool(&tool.name));
            let pause =
                if watcher.has_begun() && fault.is_transient() { pauses.next(fault.retry_after()) } else { None };
            if me.cx.events.is_watched() {
                let (agent, model) = (me.cx.agent.clone(), completer.info().name.clone());
                let (reason, again) = match &refused {
                    Some(tool) => (format!("{fault}; the tool `{}` is left out of this run", tool.name), true),
                    None => (fault.to_string(), pause.is_some()),
                };
                me.cx.events.emit(Event::ModelFailed { agent, model, reason, again }).await;
            }
            match (refused, pause) {
                (Some(tool), _) => asked.request.leave_out(&tool.name),
                (None, Some(pause)) => tokio::time::sleep(pause).await,
                (None, None) => return reply,
            }
        }
    }
}

/// Returns the pauses before a broken reply is requested again: as long as those before failed requests are repeated, and
/// no more of them than the model's own `retries` allow.
fn pauses(info: &ModelInfo) -> CompletionBackoff {
    let most = info.retries.map_or(limits::BROKEN_REPLIES, |retries| retries.min(limits::BROKEN_REPLIES));
    let drawn = ExponentialBuilder::new()
        .with_min_delay(limits::FIRST_RETRY_PAUSE)
        .with_max_delay(limits::RETRY_PAUSE)
        .with_max_times(most)
        .with_jitter()
        .build();
    CompletionBackoff(drawn)
}

struct CompletionBackoff(ExponentialBackoff);

impl CompletionBackoff {
    /// Returns the next pause, if there is one. `asked` is the pause that the server requested.
    fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let asked = asked.unwrap_or_default();
        let drawn = self.0.next()?;
        (asked <= limits::RETRY_AFTER_CEILING).then(|| asked + drawn)
    }
}

/// Sends one request within the budget, and pays for it in any case.
async fn attempt(
    me: &RunState,
    completer: &dyn Completer,
    request: &CompletionRequest,
    watcher: &Arc<DeltaForwarder>,
    usage: &mut Usage,
) -> Result<(Completion, Usd), RunError> {
    let price = completer.info().price;
    window_check::check(completer.info(), request)?;
    let mut request = request.clone();
    request.max_output_tokens = me
        .budget_account
        .clamp(request.max_output_tokens, request.tokens(), price.as_ref())
        .map_err(RunError::Budget)?;
    let mut bill = CompletionCostGuard { me, price, usage, watcher: Arc::clone(watcher), is_wasted: true };
    let sink = DeltaSink::new(watcher.clone());
    let completion = completer.complete(&me.cx, &request, &sink).await;
    let completion = completion.map_err(|fault| window_check::refused(completer.info(), &request, fault))?;
    // The usage in the reply overrides earlier reports.
    watcher.used(completion.usage);
    bill.is_wasted = false;
    let cost = bill.cost();
    Ok((completion, cost))
}

impl Agent {
    /// Returns the model of this name; `None`: the agent's own.
    fn model(&self, name: Option<&str>) -> Result<&dyn Completer, RunError> {
        match name.filter(|name| *name != self.completer.info().name) {
            None => Ok(&*self.completer),
            Some(name) => self.models.get(name).map(|model| &**model).ok_or_else(|| {
                let message = format!("the agent has no model `{}`", name.escape_debug());
                RunError::Model(Fault::NotFound { message })
            }),
        }
    }

    /// Checks that a request may be sent to the model `name` if the models `granted` are allowed.
    pub(crate) fn check_model(&self, name: &str, granted: &NameSet) -> Result<(), Fault> {
        let own = &self.completer.info().name;
        if name == own || granted.contains(name) && self.models.contains_key(name) {
            return Ok(());
        }
        let name = name.escape_debug();
        let message = format!(
            "the model `{name}` was not granted: name it under `models` of the plugin's entry in the config; `{own}` is \
             the agent's own"
        );
        Err(Fault::Denied { message })
    }

    /// Returns `true` if a middleware around its requests may replace a reply.
    fn may_replace_replies(&self) -> bool {
        self.model_middleware.iter().any(|middleware| middleware.may_replace())
    }
}

/// Charges the budget when dropped. A reply that was cut off costs the usage that was reported until then.
struct CompletionCostGuard<'a> {
    me: &'a RunState,
    price: Option<Price>,
    usage: &'a mut Usage,
    watcher: Arc<DeltaForwarder>,
    /// Set if the request led to no reply.
    is_wasted: bool,
}

impl CompletionCostGuard<'_> {
    fn cost(&self) -> Usd {
        self.price.as_ref().map(|price| price.of(&self.watcher.usage())).unwrap_or_default()
    }
}

impl Drop for CompletionCostGuard<'_> {
    fn drop(&mut self) {
        let used = self.watcher.usage();
        if used == Usage::default() {
            return;
        }
        *self.usage += used;
        let cost = self.cost();
        self.me.pay(&used, cost);
        if self.is_wasted {
            self.me.write(|| JournalRecord::Wasted { usage: used, cost });
        }
    }
}

/// Runs `work` until the time of the budget ends.
pub(crate) fn in_time<T>(
    budget_account: &BudgetAccount,
    work: impl Future<Output = T>,
) -> impl Future<Output = Result<T, RunError>> {
    // Not `async`: an async function would hold the work twice, and every running agent pays for that.
    match budget_account.deadline() {
        None => Either::Left(work.map(Ok)),
        Some(deadline) => Either::Right(tokio::time::timeout_at(deadline, work).map(|done| {
            done.map_err(|_| budget_account.check().map_or_else(RunError::Budget, |()| RunError::Cancelled))
        })),
    }
}

/// Emits events for the parts of a reply, if they may be shown, and keeps the reported usage.
struct DeltaForwarder {
    cx: RunCx,
    shown: bool,
    usage: Mutex<Usage>,
    begun: AtomicBool,
}

impl DeltaForwarder {
    fn new(cx: &RunCx, shown: bool) -> Self {
        Self { cx: cx.clone(), shown, usage: Mutex::default(), begun: AtomicBool::new(false) }
    }

    /// Returns `true` if part of the reply has arrived.
    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self, usage: Usage) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }
}

#[async_trait]
impl DeltaTarget for DeltaForwarder {
    async fn take(&self, delta: ReplyDelta) {
        self.begun.store(true, Ordering::Relaxed);
        if let ReplyDelta::Usage(usage) = delta {
            self.used(usage);
        }
        if self.shown {
            self.cx.events.emit(Event::ModelDelta { agent: self.cx.agent.clone(), delta }).await;
        }
    }
}
