use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{
    pin, select,
    sync::{Notify, Semaphore},
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, Usage, config_parsers};
use crate::{
    bucket::StateBucket,
    error::Fault,
    event::{Event, ModelWait, RunCx},
    limits,
};

mod rate_amount;
mod shared_rate;
#[cfg(test)]
mod tests;

use rate_amount::{RateAmount, RateBounds};
use shared_rate::SharedRate;

/// The rate limits of a provider, per minute. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimitConfig {
    /// The limit of tokens sent per minute.
    #[serde(deserialize_with = "config_parsers::rate")]
    #[schemars(range(min = 1, max = limits::RATE_LIMIT_CEILING))]
    pub input_tpm: Option<u64>,
    /// The limit of tokens received per minute.
    #[serde(deserialize_with = "config_parsers::rate")]
    #[schemars(range(min = 1, max = limits::RATE_LIMIT_CEILING))]
    pub output_tpm: Option<u64>,
    /// The limit of requests per minute.
    #[serde(deserialize_with = "config_parsers::rate")]
    #[schemars(range(min = 1, max = limits::RATE_LIMIT_CEILING))]
    pub rpm: Option<u64>,
}

impl RateLimitConfig {
    fn limits(&self) -> RateBounds {
        RateBounds { requests: self.rpm, input: self.input_tpm, output: self.output_tpm }
    }
}

/// Formats the limits as `50 requests, 40000 tokens sent and 8000 tokens written a minute`.
impl fmt::Display for RateLimitConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { input_tpm, output_tpm, rpm } = self;
        let all = [(rpm, "requests"), (input_tpm, "tokens sent"), (output_tpm, "tokens written")];
        let named = all.iter().filter_map(|(limit, what)| limit.map(|limit| format!("{limit} {what}")));
        write!(f, "{} a minute", named.collect::<Vec<_>>().join(", "))
    }
}

/// A rate limiter over a window of one minute, shared by all models of a provider and all of their callers.
///
/// A request counts from its beginning, with its estimated tokens, which are replaced by the actual ones as soon as they are
/// known. A request that fails keeps its estimate. Requests are served in order of arrival. A request larger than a limit
/// proceeds when nothing else counts.
#[derive(Debug)]
pub struct ProviderRateLimiter {
    config: RateLimitConfig,
    counts_cache_reads: bool,
    /// Held by the next request until there is room; never held while a model works.
    turn: Semaphore,
    /// Notified when the available room may have changed.
    changed: Notify,
    minute: Mutex<RateWindow>,
    /// The part of the limits that this host has of several.
    shared: Option<Arc<SharedRate>>,
}

impl ProviderRateLimiter {
    /// Creates a limiter with an empty window. Tokens read from the vendor's cache count.
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
            shared: None,
        }
    }

    /// Shares the limits with all hosts that have a limiter for this provider in this bucket. While the bucket cannot be
    /// reached, each host holds the limits alone.
    pub fn shared_in(self, bucket: Arc<dyn StateBucket>, provider: &str) -> Self {
        Self { shared: Some(Arc::new(SharedRate::new(bucket, provider, self.config.limits()))), ..self }
    }

    /// Excludes tokens read from the vendor's cache, for vendors such as Anthropic that do not count them.
    pub fn without_cache_reads(self) -> Self {
        Self { counts_cache_reads: false, ..self }
    }

    /// Delays all further requests by this time, at most [`limits::RETRY_AFTER_CEILING`]. Called when the server reports
    /// that nothing is left of a limit.
    pub fn pause(&self, time: Duration) {
        let until = Instant::now() + time.min(limits::RETRY_AFTER_CEILING);
        let mut minute = self.minute();
        minute.paused_until = minute.paused_until.max(Some(until));
    }

    /// Waits until there is room for the request, and reserves it.
    async fn begin(&self, request: &CompletionRequest) -> RateReservation {
        // The semaphore is never closed.
        let _turn = self.turn.acquire().await;
        let (input, most) = (request.tokens(), request.max_output_tokens.map_or(u64::MAX, u64::from));
        let taken = loop {
            let until = match self.minute().take(&self.config, input, most) {
                Ok(taken) => break taken,
                Err(until) => until,
            };
            select! {
                () = sleep_until(until) => {}
                () = self.changed.notified() => {}
            }
        };
        if let Some(shared) = &self.shared {
            while let Err(wait) = shared.take(taken.amount).await {
                sleep(wait).await;
            }
        }
        taken
    }

    /// Replaces the reserved amounts by the actual ones.
    fn settle(&self, taken: &RateReservation, usage: &Usage) {
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = *usage;
        let cached = if self.counts_cache_reads { cache_read_tokens } else { 0 };
        let input = input_tokens.saturating_add(cache_write_tokens).saturating_add(cached);
        // Counts from a server are untrusted; one absurd value must not spoil the sums.
        let [input, output] = [input, output_tokens].map(|tokens| tokens.min(limits::RATE_LIMIT_CEILING));
        // Nor must it spoil the average reply: if each reply were estimated to fill a whole minute, requests would proceed
        // one at a time.
        let most = self.config.output_tpm.unwrap_or(limits::RATE_LIMIT_CEILING);
        let used = RateAmount { requests: 1, input, output };
        self.minute().settle(taken, used, most);
        if let Some(shared) = &self.shared {
            shared.settle(taken.amount, used);
        }
        self.changed.notify_one();
    }

    fn minute(&self) -> MutexGuard<'_, RateWindow> {
        self.minute.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The amounts reserved by a request, and the tick in which it began.
#[derive(Debug)]
struct RateReservation {
    tick: u64,
    amount: RateAmount,
}

/// The amounts that count at present.
#[derive(Debug)]
struct RateWindow {
    /// The beginning of the first [tick](limits::RATE_LIMIT_TICK).
    began: Instant,
    /// The amounts by tick, oldest first. All requests that began in one tick expire together, never too early.
    spent: VecDeque<(u64, RateAmount)>,
    sum: RateAmount,
    /// The average tokens of a reply, weighted towards recent replies.
    usual_reply: u64,
    paused_until: Option<Instant>,
}

impl RateWindow {
    /// Reserves room for a request, or returns the time of the next attempt.
    fn take(&mut self, config: &RateLimitConfig, input: u64, most_output: u64) -> Result<RateReservation, Instant> {
        let now = Instant::now();
        self.forget(now);
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Err(until);
        }
        let amount = RateAmount { requests: 1, input, output: self.usual_reply.min(most_output) };
        if self.sum.has_room(&amount, &config.limits()) {
            let tick = self.tick(now);
            self.count(tick, amount);
            return Ok(RateReservation { tick, amount });
        }
        // Finds the tick whose expiry makes enough room.
        let mut left = self.sum;
        let room = self.spent.iter().find(|(_, spent)| {
            left = left.minus(*spent);
            left.has_room(&amount, &config.limits())
        });
        let last = room.or(self.spent.back()).map_or_else(|| self.tick(now), |(tick, _)| *tick);
        Err(self.end(last))
    }

    /// Replaces a reservation by the actual amounts. For the average, a reply counts as at most `most` tokens.
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
            // The request took longer than a minute: its reservation has expired, and only the excess counts from now on.
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

    /// Removes expired amounts.
    fn forget(&mut self, now: Instant) {
        while let Some((_, spent)) = self.spent.front().copied().filter(|(tick, _)| self.end(*tick) <= now) {
            self.sum = self.sum.minus(spent);
            self.spent.pop_front();
        }
    }

    fn tick(&self, now: Instant) -> u64 {
        (now.saturating_duration_since(self.began).as_millis() / limits::RATE_LIMIT_TICK.as_millis()) as u64
    }

    /// Returns the time at which the amounts of this tick expire.
    fn end(&self, tick: u64) -> Instant {
        let tick_ends = limits::RATE_LIMIT_TICK.as_millis() as u64 * (tick + 1);
        self.began + Duration::from_millis(tick_ends) + limits::RATE_LIMIT_WINDOW
    }
}

/// A model within the limits of a [`ProviderRateLimiter`]. Requests wait for room and then run concurrently.
pub struct RateLimitedCompleter {
    model: Arc<dyn Completer>,
    limit: Arc<ProviderRateLimiter>,
}

impl RateLimitedCompleter {
    /// Wraps a model within `limit`, which other models may share.
    pub fn new(model: Arc<dyn Completer>, limit: Arc<ProviderRateLimiter>) -> Self {
        Self { model, limit }
    }

    /// Waits for room. Dropping the future leaves the queue.
    async fn begin(&self, cx: &RunCx, request: &CompletionRequest) -> Result<RateReservation, Fault> {
        let beginning = timeout(limits::RATE_LIMIT_WAIT, self.limit.begin(request));
        pin!(beginning);
        let begun = match timeout(limits::RATE_LIMIT_TOLD, &mut beginning).await {
            Ok(begun) => begun,
            Err(_) => {
                let detail = format!("waiting for the rate limit of {}", self.limit.config);
                tracing::info!(agent = %cx.agent, model = self.model.info().name, "{detail}");
                if cx.events.is_watched() {
                    let (agent, model) = (Arc::clone(&cx.agent), self.model.info().name.clone());
                    // Does not wait for event consumers, because this request may hold the turn that others wait for.
                    cx.events.emit_now(Event::ModelWaits { agent, model, wait: ModelWait::RateLimit, detail });
                }
                beginning.await
            }
        };
        if let Some(message) = self.limit.shared.as_ref().and_then(|shared| shared.take_warning()) {
            tracing::warn!(agent = %cx.agent, model = self.model.info().name, "{message}");
            cx.events.emit_now(Event::Warning { message });
        }
        begun.map_err(|_| {
            let (waited, limit) = (humantime::format_duration(limits::RATE_LIMIT_WAIT), self.limit.config);
            let message = format!(
                "the request has waited {waited} for the rate limit of {limit}; run fewer agents at once, or raise \
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
