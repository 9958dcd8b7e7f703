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

use super::{refused_tool::refused_tool, window_check};
use crate::{
    agent::{
        context::{AgentModels, RunState},
        journal::JournalRecord,
        outcome::RunError,
    },
    capability::{Price, Usd},
    event::{Event, RunCx},
    limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, DeltaTarget, ModelInfo, ReplyDelta, Usage},
};

/// A request to a model.
pub(crate) struct ModelRequest {
    /// The name of a model in the config; `None`: the agent's own model.
    pub model: Option<String>,
    pub request: CompletionRequest,
    /// Set if parts of the reply may be shown as they arrive.
    pub shown: bool,
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
    models: &'a AgentModels,
    mut asked: ModelRequest,
    usage: &'a mut Usage,
) -> impl Future<Output = Result<(Completion, Usd), RunError>> + Send + 'a {
    async move {
        let completer = models.get(asked.model.as_deref())?;
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
                    Some(tool) => (format!("{fault}; tool `{}` is left out for the rest of this run", tool.name), true),
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
