//! One request to the model: within the budget, watched, and paid for.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt, future::Either};
use tokio::time::Instant;

use super::{RunError, delegate::Instance, journal::Record, runner::Run};
use crate::{
    capability::{Price, Purse, Usd},
    chat::Part,
    error::Fault,
    event::{Event, RunCx},
    model::{Completer, Completion, CompletionRequest, Delta, DeltaSink, DeltaTarget, StopReason, Usage},
    tool::ToolBox,
};

/// A reply of the model, and what it took.
pub(super) struct Replied {
    pub completion: Completion,
    pub cost: Usd,
    pub took: Duration,
}

/// A reply as it is told of.
#[derive(Clone)]
pub(super) struct Told {
    pub model: String,
    pub stop: StopReason,
    pub usage: Usage,
    calls: usize,
    took: Duration,
}

impl Told {
    pub fn of(completion: &Completion, took: Duration) -> Self {
        let calls = completion.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        let Completion { model, stop, usage, .. } = completion;
        Self { model: model.clone(), stop: stop.clone(), usage: *usage, calls, took }
    }
}

impl Run<'_> {
    pub(super) async fn complete(&mut self, tools: &ToolBox, iteration: u32) -> Result<Replied, RunError> {
        let (agent, cx) = (self.agent, &self.me.cx);
        let info = agent.completer.info();
        let mut request = CompletionRequest::new(self.chat.snapshot(), tools.specs());
        let tokens = request.tokens();
        request.max_output_tokens = self.me.purse.clamp(None, tokens, info.price.as_ref()).map_err(RunError::Budget)?;
        let watched = cx.events.is_watched();
        if watched {
            cx.events.emit(Event::ModelStarted { agent: cx.agent.clone(), iteration, tokens }).await;
        }
        // What a middleware may still replace must not be seen before it did.
        let shown = watched && agent.middleware.is_empty();
        let started = Instant::now();
        let asked = ask(&self.me, &*agent.completer, &request, shown, &mut self.usage);
        let outcome = in_time(&self.me.purse, asked).await;
        let took = started.elapsed();
        self.model_time += took;
        let (completion, cost) = outcome?.map_err(RunError::Model)?;
        self.last_usage = Some(completion.usage);
        Ok(Replied { completion, cost, took })
    }

    /// Tells of a reply.
    pub(super) async fn tell_reply(&self, replied: Told, iteration: u32) {
        let cx = &self.me.cx;
        if cx.events.is_watched() {
            let Told { model, stop, calls, usage, took: duration } = replied;
            let agent = cx.agent.clone();
            let event = Event::ModelFinished { agent, iteration, model, stop, calls, usage, duration };
            cx.events.emit(event).await;
        }
    }

    /// Why a reply was cut off: where the budget did it, it is no fault of the model.
    pub(super) fn why_cut(&self) -> RunError {
        let request = CompletionRequest::new(self.chat.snapshot(), self.tools.specs());
        let price = self.agent.completer.info().price.as_ref();
        self.me.purse.clamp(None, request.tokens(), price).map_or_else(RunError::Budget, |_| RunError::Cut)
    }
}

/// Asks a model, and pays for it whatever becomes of it: the reply, and what it cost. What was used is added to `usage`.
pub(super) async fn ask(
    me: &Instance,
    completer: &dyn Completer,
    request: &CompletionRequest,
    shown: bool,
    usage: &mut Usage,
) -> Result<(Completion, Usd), Fault> {
    let watcher = Arc::new(Watcher { cx: me.cx.clone(), shown, usage: Mutex::default() });
    let mut bill = Bill { me, price: completer.info().price, usage, watcher: Arc::clone(&watcher), is_wasted: true };
    let sink = DeltaSink::new(watcher.clone());
    let completion = completer.complete(&me.cx, request, &sink).await?;
    // What the reply says counts, whatever was told before.
    watcher.used(completion.usage);
    bill.is_wasted = false;
    let cost = bill.cost();
    Ok((completion, cost))
}

/// Paid when it goes away: a reply that was cut off has cost what was told of it until then.
struct Bill<'a> {
    me: &'a Instance,
    price: Option<Price>,
    usage: &'a mut Usage,
    watcher: Arc<Watcher>,
    /// Whether no reply came of it.
    is_wasted: bool,
}

impl Bill<'_> {
    fn cost(&self) -> Usd {
        self.price.as_ref().map(|price| price.of(&self.watcher.usage())).unwrap_or_default()
    }
}

impl Drop for Bill<'_> {
    fn drop(&mut self) {
        let used = self.watcher.usage();
        if used == Usage::default() {
            return;
        }
        *self.usage += used;
        let cost = self.cost();
        self.me.pay(&used, cost);
        if self.is_wasted {
            self.me.write(|| Record::Wasted { usage: used, cost });
        }
    }
}

/// Does `work` unless the time of the budget ends before.
pub(super) fn in_time<T>(purse: &Purse, work: impl Future<Output = T>) -> impl Future<Output = Result<T, RunError>> {
    // Not `async`: that would have room for the work twice, and every agent at work pays for it.
    match purse.deadline() {
        None => Either::Left(work.map(Ok)),
        Some(deadline) => Either::Right(
            tokio::time::timeout_at(deadline, work)
                .map(|done| done.map_err(|_| purse.check().map_or_else(RunError::Budget, |()| RunError::Cancelled))),
        ),
    }
}

/// Tells of the pieces of a reply, where they may be seen, and remembers what they cost.
struct Watcher {
    cx: RunCx,
    shown: bool,
    usage: Mutex<Usage>,
}

impl Watcher {
    fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn used(&self, usage: Usage) {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
    }
}

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: Delta) {
        if let Delta::Usage(usage) = delta {
            self.used(usage);
        }
        if self.shown {
            self.cx.events.emit(Event::ModelDelta { agent: self.cx.agent.clone(), delta }).await;
        }
    }
}
