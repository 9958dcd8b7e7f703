use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use serde::Deserialize;
use tokio::{
    pin, select,
    sync::{Notify, Semaphore},
    time::{Instant, sleep_until, timeout},
};

use super::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, Usage, config_parsers};
use crate::{
    error::Fault,
    event::{Event, ModelWait, RunCx},
    limits,
};

#[cfg(test)]
mod tests;

/// How much a provider may be asked in a minute. What is not named is not bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitConfig {
    /// Tokens of requests a minute.
    #[serde(deserialize_with = "config_parsers::rate")]
    pub input_tpm: Option<u64>,
    /// Tokens of replies a minute.
    #[serde(deserialize_with = "config_parsers::rate")]
    pub output_tpm: Option<u64>,
    /// Requests a minute.
    #[serde(deserialize_with = "config_parsers::rate")]
    pub rpm: Option<u64>,
}

/// `50 requests, 40000 tokens sent and 8000 tokens written a minute`.
impl fmt::Display for RateLimitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input_tpm, output_tpm, rpm } = self;
        let all = [(rpm, "requests"), (input_tpm, "tokens sent"), (output_tpm, "tokens written")];
        let named = all.iter().filter_map(|(limit, what)| limit.map(|limit| format!("{limit} {what}")));
        write!(f, "{} a minute", named.collect::<Vec<_>>().join(", "))
    }
}

/// What was asked of a provider in the last minute, and what may still be. One for all of its models and all who ask them.
///
/// A request counts from when it begins, with what it is estimated to use; what it did use takes the place of that as soon as
/// it is known. One that fails counts as it was estimated. Whoever comes first goes first. What is larger than a limit goes
/// when nothing else counts.
#[derive(Debug)]
pub struct ProviderRateLimiter {
    config: RateLimitConfig,
    counts_cache_reads: bool,
    /// Held by the one that goes next, until there is room; never while a model works.
    turn: Semaphore,
    /// Room may have come, or gone.
    changed: Notify,
    minute: Mutex<RateWindow>,
}

impl ProviderRateLimiter {
    /// Nothing was asked yet. Tokens that come from the vendor's cache count.
    pub fn new(config: RateLimitConfig) -> Self {
        let minute = RateWindow {
            began: Instant::now(),
            spent: VecDeque::new(),
            sum: RateAmount::default(),
            usual_reply: limits::RATE_LIMIT_FIRST_REPLY,
            paused_until: None,
        };
        Self {
            config,
            counts_cache_reads: true,
            turn: Semaphore::new(1),
            changed: Notify::new(),
            minute: Mutex::new(minute),
        }
    }

    /// The same for a vendor that does not count what comes from its cache, as Anthropic.
    pub fn without_cache_reads(self) -> Self {
        Self { counts_cache_reads: false, ..self }
    }

    /// Begins no request for so long, at most [`limits::RETRY_AFTER_CEILING`]: for when the server has said that nothing is
    /// left.
    pub fn pause(&self, time: Duration) {
        let until = Instant::now() + time.min(limits::RETRY_AFTER_CEILING);
        let mut minute = self.minute();
        minute.paused_until = minute.paused_until.max(Some(until));
    }

    /// Waits until there is room for the request, and takes it.
    async fn begin(&self, request: &CompletionRequest) -> RateReservation {
        // It is never closed.
        let _turn = self.turn.acquire().await;
        let (input, most) = (request.tokens(), request.max_output_tokens.map_or(u64::MAX, u64::from));
        loop {
            let until = match self.minute().take(&self.config, input, most) {
                Ok(taken) => return taken,
                Err(until) => until,
            };
            select! {
                () = sleep_until(until) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Puts what was used in place of what was taken.
    fn settle(&self, taken: &RateReservation, usage: &Usage) {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = *usage;
        let cached = if self.counts_cache_reads { cache_read_tokens } else { 0 };
        let input = input_tokens.saturating_add(cache_write_tokens).saturating_add(cached);
        // What a server counts is untrusted; one absurd figure must not spoil the sums.
        let [input, output] = [input, output_tokens].map(|tokens| tokens.min(limits::RATE_LIMIT_CEILING));
        // Nor the average of replies: what is estimated to take a minute's room each goes one by one.
        let most = self.config.output_tpm.unwrap_or(limits::RATE_LIMIT_CEILING);
        self.minute().settle(taken, RateAmount { requests: 1, input, output }, most);
        self.changed.notify_one();
    }

    fn minute(&self) -> MutexGuard<'_, RateWindow> {
        self.minute.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RateAmount {
    requests: u64,
    input: u64,
    output: u64,
}

impl RateAmount {
    fn with(self, other: Self, add: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            requests: add(self.requests, other.requests),
            input: add(self.input, other.input),
            output: add(self.output, other.output),
        }
    }

    fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// Whether there is room for `need` beside it. Where nothing counts, there is room for everything.
    fn has_room(&self, need: &Self, config: &RateLimitConfig) -> bool {
        [
            (self.requests, need.requests, config.rpm),
            (self.input, need.input, config.input_tpm),
            (self.output, need.output, config.output_tpm),
        ]
        .into_iter()
        .all(|(used, need, limit)| limit.is_none_or(|limit| used == 0 || used.saturating_add(need) <= limit))
    }
}

/// What a request has taken, and when.
#[derive(Debug)]
struct RateReservation {
    tick: u64,
    amount: RateAmount,
}

/// What counts at this moment.
#[derive(Debug)]
struct RateWindow {
    /// The beginning of the first [tick](limits::RATE_LIMIT_TICK).
    began: Instant,
    /// By tick, the oldest first. What began in one tick ends to count together, not before its time.
    spent: VecDeque<(u64, RateAmount)>,
    sum: RateAmount,
    /// Tokens of a reply on average, the newest ones most.
    usual_reply: u64,
    paused_until: Option<Instant>,
}

impl RateWindow {
    /// Takes room for a request, or says when to look again.
    fn take(&mut self, config: &RateLimitConfig, input: u64, most_output: u64) -> Result<RateReservation, Instant> {
        let now = Instant::now();
        self.forget(now);
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Err(until);
        }
        let amount = RateAmount { requests: 1, input, output: self.usual_reply.min(most_output) };
        if self.sum.has_room(&amount, config) {
            let tick = self.tick(now);
            self.count(tick, amount);
            return Ok(RateReservation { tick, amount });
        }
        // What has to end to count until there is room.
        let mut left = self.sum;
        let room = self.spent.iter().find(|(_, spent)| {
            left = left.minus(*spent);
            left.has_room(&amount, config)
        });
        let last = room.or(self.spent.back()).map_or_else(|| self.tick(now), |(tick, _)| *tick);
        Err(self.end(last))
    }

    /// A reply counts for at most `most` in what is usual.
    fn settle(&mut self, taken: &RateReservation, used: RateAmount, most: u64) {
        self.usual_reply = (self.usual_reply * 7 + used.output.min(most)).div_ceil(8);
        let now = Instant::now();
        self.forget(now);
        match self.spent.binary_search_by_key(&taken.tick, |(tick, _)| *tick) {
            Ok(at) => {
                let spent = &mut self.spent[at].1;
                *spent = spent.minus(taken.amount).plus(used);
                self.sum = self.sum.minus(taken.amount).plus(used);
            }
            // It took longer than a minute: what was taken counts no more, and what it used beyond that counts from now.
            Err(_) => self.count(self.tick(now), used.minus(taken.amount)),
        }
    }

    fn count(&mut self, tick: u64, amount: RateAmount) {
        match self.spent.back_mut() {
            Some((last, spent)) if *last == tick => *spent = spent.plus(amount),
            _ => self.spent.push_back((tick, amount)),
        }
        self.sum = self.sum.plus(amount);
    }

    /// Leaves out what counts no more.
    fn forget(&mut self, now: Instant) {
        while let Some((_, spent)) = self.spent.front().copied().filter(|(tick, _)| self.end(*tick) <= now) {
            self.sum = self.sum.minus(spent);
            self.spent.pop_front();
        }
    }

    fn tick(&self, now: Instant) -> u64 {
        (now.saturating_duration_since(self.began).as_millis() / limits::RATE_LIMIT_TICK.as_millis()) as u64
    }

    /// When what began in this tick counts no more.
    fn end(&self, tick: u64) -> Instant {
        let tick_ends = limits::RATE_LIMIT_TICK.as_millis() as u64 * (tick + 1);
        self.began + Duration::from_millis(tick_ends) + limits::RATE_LIMIT_WINDOW
    }
}

/// A model that is asked no more than its [`ProviderRateLimiter`] allows. Requests wait for room and then go side by side.
pub struct RateLimitedCompleter {
    model: Arc<dyn Completer>,
    limit: Arc<ProviderRateLimiter>,
}

impl RateLimitedCompleter {
    /// The model within `limit`, which it may share with others.
    pub fn new(model: Arc<dyn Completer>, limit: Arc<ProviderRateLimiter>) -> Self {
        Self { model, limit }
    }

    /// Waits for room. Dropping it leaves the queue.
    async fn begin(&self, cx: &RunCx, request: &CompletionRequest) -> Result<RateReservation, Fault> {
        let beginning = timeout(limits::RATE_LIMIT_WAIT, self.limit.begin(request));
        pin!(beginning);
        let begun = match timeout(limits::RATE_LIMIT_TOLD, &mut beginning).await {
            Ok(begun) => begun,
            Err(_) => {
                let detail = format!("waits for its rate limit of {}", self.limit.config);
                tracing::info!(agent = %cx.agent, model = self.model.info().name, "{detail}");
                if cx.events.is_watched() {
                    let (agent, model) = (Arc::clone(&cx.agent), self.model.info().name.clone());
                    // Without waiting for whoever reads it: others wait for the turn that this one may have.
                    cx.events.emit_now(Event::ModelWaits { agent, model, wait: ModelWait::RateLimit, detail });
                }
                beginning.await
            }
        };
        begun.map_err(|_| {
            let (waited, limit) = (humantime::format_duration(limits::RATE_LIMIT_WAIT), self.limit.config);
            let message = format!(
                "the request has waited {waited} for the rate limit of {limit}; let fewer agents work at once, or raise \
                 `rate_limit` if the provider allows more"
            );
            Fault::RateLimited { message, after: None }
        })
    }
}

#[async_trait]
impl Completer for RateLimitedCompleter {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let taken = self.begin(cx, request).await?;
        let reply = self.model.complete(cx, request, sink).await;
        match &reply {
            Ok(completion) => self.limit.settle(&taken, &completion.usage),
            Err(Fault::RateLimited { after: Some(after), .. }) => self.limit.pause(*after),
            Err(_) => {}
        }
        reply
    }
}
