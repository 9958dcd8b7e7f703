use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use super::rate_amount::{RateAmount, RateBounds};
use crate::{
    bucket::{BucketError, StateBucket, change_entry, short_key_part},
    limits,
};

/// The part that this host has of limits which several hosts share. It takes more than a request needs, so that most
/// requests do not wait for the server, and gives back what it did not use when it takes the next part.
#[derive(Debug)]
pub(super) struct SharedRate {
    bucket: Arc<dyn StateBucket>,
    key: String,
    provider: String,
    limits: RateBounds,
    part: Mutex<RatePart>,
}

/// The part of a host.
#[derive(Debug, Default)]
struct RatePart {
    /// The amounts that may still be used, and those that were used in excess.
    left: RateAmount,
    debt: RateAmount,
    /// The second since 1970 after which the part may not be used. It counts from then on for a minute.
    until: u64,
    /// The time until which the server is not asked, because it did not answer.
    away_until: Option<Instant>,
    is_warned: bool,
    warning: Option<String>,
}

/// The amounts that all hosts have taken, by the last second in which they may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SharedRateWindow {
    /// The amounts: requests, tokens sent, tokens written.
    seconds: BTreeMap<u64, (u64, u64, u64)>,
}

impl SharedRateWindow {
    /// Reads a window at this second; what is none is empty. Seconds that are over, or that no host may name yet, are left
    /// out.
    fn parse(bytes: Option<&[u8]>, now: u64) -> Self {
        let mut window: Self = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        let (minute, ahead) = (limits::RATE_LIMIT_WINDOW.as_secs(), 2 * limits::RATE_SHARE_TIME.as_secs());
        window.seconds.retain(|second, _| second.saturating_add(minute) > now && *second <= now.saturating_add(ahead));
        window
    }

    fn amounts(&self) -> impl Iterator<Item = (u64, RateAmount)> {
        // Counts of other hosts are untrusted; one absurd value must not spoil the sums.
        let bounded = |amount: u64| amount.min(limits::RATE_LIMIT_CEILING);
        self.seconds.iter().map(move |(second, (requests, input, output))| {
            let amount = RateAmount { requests: bounded(*requests), input: bounded(*input), output: bounded(*output) };
            (*second, amount)
        })
    }

    fn sum(&self) -> RateAmount {
        self.amounts().fold(RateAmount::default(), |sum, (_, amount)| sum.plus(amount))
    }

    fn change(&mut self, second: u64, change: impl FnOnce(RateAmount) -> RateAmount) {
        let (requests, input, output) = self.seconds.get(&second).copied().unwrap_or_default();
        let RateAmount { requests, input, output } = change(RateAmount { requests, input, output });
        self.seconds.insert(second, (requests, input, output));
    }

    /// Returns the seconds to wait until there may be room for `need`.
    fn wait(&self, need: &RateAmount, limits: &RateBounds, now: u64) -> u64 {
        let mut left = self.sum();
        let room = self.amounts().find(|(_, amount)| {
            left = left.minus(*amount);
            left.has_room(need, limits)
        });
        room.map_or(1, |(second, _)| (second + limits::RATE_LIMIT_WINDOW.as_secs()).saturating_sub(now)).max(1)
    }
}

impl RatePart {
    /// Uses the part for a request; returns `false` if it has not enough.
    fn use_for(&mut self, need: RateAmount, now: u64) -> bool {
        let may = now <= self.until && self.debt == RateAmount::default() && self.left.covers(need);
        if may {
            self.left = self.left.minus(need);
        }
        may
    }
}

impl SharedRate {
    pub fn new(bucket: Arc<dyn StateBucket>, provider: &str, limits: RateBounds) -> Self {
        let key = format!("provider.{}", short_key_part(provider));
        Self { bucket, key, provider: provider.to_owned(), limits, part: Mutex::default() }
    }

    /// Takes the amounts of a request, or returns the time of the next attempt. Without an answer of the server the request
    /// begins.
    pub async fn take(self: &Arc<Self>, amount: RateAmount) -> Result<(), Duration> {
        let need = amount.limited(&self.limits);
        {
            let mut part = self.part();
            let is_away = part.away_until.is_some_and(|until| Instant::now() < until);
            if is_away || part.use_for(need, seconds()) {
                return Ok(());
            }
        }
        let this = Arc::clone(self);
        let asked = tokio::task::spawn_blocking(move || this.take_part(need, seconds()));
        match timeout(limits::RATE_SHARE_WAIT, asked).await {
            Ok(Ok(Ok(None))) => Ok(()),
            Ok(Ok(Ok(Some(wait)))) => Err(Duration::from_secs(wait).min(limits::RATE_SHARE_POLL)),
            Ok(Ok(Err(error))) => {
                self.go_on_alone(&error.to_string());
                Ok(())
            }
            Ok(Err(_)) | Err(_) => {
                self.go_on_alone("the server did not answer in time");
                Ok(())
            }
        }
    }

    /// Replaces the amounts of a request by those that it used.
    pub fn settle(&self, taken: RateAmount, used: RateAmount) {
        let (taken, used) = (taken.limited(&self.limits), used.limited(&self.limits));
        let mut part = self.part();
        part.left = part.left.plus(taken.minus(used));
        let more = used.minus(taken);
        part.debt = part.debt.plus(more.minus(part.left));
        part.left = part.left.minus(more);
    }

    /// Returns the warning that this host holds the limits alone, once.
    pub fn take_warning(&self) -> Option<String> {
        self.part().warning.take()
    }

    /// Takes a part from which the request is served. Returns the seconds to wait if there is no room.
    fn take_part(&self, need: RateAmount, now: u64) -> Result<Option<u64>, BucketError> {
        let (back, debt, until) = {
            let mut part = self.part();
            (std::mem::take(&mut part.left), std::mem::take(&mut part.debt), part.until)
        };
        let next = now + limits::RATE_SHARE_TIME.as_secs();
        let taken = change_entry(&*self.bucket, &self.key, |there| {
            let mut window = SharedRateWindow::parse(there, now);
            if window.seconds.contains_key(&until) {
                window.change(until, |amount| amount.minus(back));
            }
            if debt != RateAmount::default() {
                window.change(now, |amount| amount.plus(debt));
            }
            let sum = window.sum();
            let granted = sum.has_room(&need, &self.limits).then(|| need.plus(self.more(sum.plus(need))));
            let wait = window.wait(&need, &self.limits, now);
            if let Some(granted) = granted {
                window.change(next, |amount| amount.plus(granted));
            }
            // Numbers always serialize.
            let bytes = serde_json::to_vec(&window).unwrap_or_default();
            Ok::<_, BucketError>((Some(bytes), granted.ok_or(wait)))
        });
        let mut part = self.part();
        match taken {
            Ok(Ok(granted)) => {
                part.left = part.left.plus(granted.minus(need));
                part.until = next;
                Ok(None)
            }
            Ok(Err(wait)) => Ok(Some(wait)),
            Err(error) => {
                (part.left, part.debt) = (part.left.plus(back), part.debt.plus(debt));
                Err(error)
            }
        }
    }

    /// Returns the amounts that are taken beyond those of a request, if `used` are in use with it.
    fn more(&self, used: RateAmount) -> RateAmount {
        let of = |used: u64, limit: Option<u64>| {
            limit.map_or(0, |limit| (limit / limits::RATE_SHARE_PARTS).min(limit.saturating_sub(used)))
        };
        RateAmount {
            requests: of(used.requests, self.limits.requests),
            input: of(used.input, self.limits.input),
            output: of(used.output, self.limits.output),
        }
    }

    fn go_on_alone(&self, reason: &str) {
        let mut part = self.part();
        part.away_until = Some(Instant::now() + limits::RATE_SHARE_AWAY);
        if !part.is_warned {
            part.is_warned = true;
            part.warning = Some(format!(
                "the rate limit of the provider `{}` is held by this host alone, since the cluster cannot be asked: \
                 {reason}; other hosts do the same, so the provider may refuse requests",
                self.provider.escape_debug()
            ));
        }
    }

    fn part(&self) -> MutexGuard<'_, RatePart> {
        self.part.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::MemoryBucket;

    fn host(bucket: &MemoryBucket, requests: u64) -> Arc<SharedRate> {
        let limits = RateBounds { requests: Some(requests), ..RateBounds::default() };
        Arc::new(SharedRate::new(Arc::new(bucket.clone()), "openai", limits))
    }

    fn requests(requests: u64) -> RateAmount {
        RateAmount { requests, ..RateAmount::default() }
    }

    /// Begins one request at this second; an error has the seconds to wait.
    fn begin(host: &SharedRate, now: u64) -> Result<(), u64> {
        if host.part().use_for(requests(1), now) {
            return Ok(());
        }
        host.take_part(requests(1), now).unwrap().map_or(Ok(()), Err)
    }

    #[test]
    fn hosts_together_stay_within_the_limit() {
        let bucket = MemoryBucket::new();
        let hosts: Vec<_> = (0..3).map(|_| host(&bucket, 40)).collect();
        let mut began = Vec::new();
        for now in 1_000..1_300 {
            for host in &hosts {
                for _ in 0..2 {
                    if begin(host, now).is_ok() {
                        began.push(now);
                    }
                }
            }
        }
        for from in 1_000..1_240 {
            let in_minute = began.iter().filter(|at| (from..from + 60).contains(*at)).count();
            assert!(in_minute <= 40, "{in_minute} requests in the minute from {from}");
        }
        assert!(began.len() >= 120, "{} requests in five minutes", began.len());
    }

    #[test]
    fn part_of_a_host_saves_calls_and_is_given_back() {
        let bucket = MemoryBucket::new();
        let (one, other) = (host(&bucket, 100), host(&bucket, 100));
        begin(&one, 1_000).unwrap();
        bucket.set_away(true);
        for _ in 0..10 {
            begin_within(&one, 1_000);
        }
        assert!(!one.part().use_for(requests(1), 1_000), "the part is used up");
        bucket.set_away(false);
        begin(&other, 1_001).unwrap();
        begin(&other, 1_030).unwrap();
        let window = SharedRateWindow::parse(bucket.get("provider.openai").unwrap().map(|e| e.value).as_deref(), 1_030);
        assert_eq!(window.sum(), requests(11 + 1 + 11), "what was not used of a part counts no more");
    }

    fn begin_within(host: &SharedRate, now: u64) {
        assert!(host.part().use_for(requests(1), now), "it needs no server");
    }

    #[test]
    fn request_waits_for_the_oldest_of_another_host() {
        let bucket = MemoryBucket::new();
        let (one, other) = (host(&bucket, 1), host(&bucket, 1));
        begin(&one, 1_000).unwrap();
        let wait = begin(&other, 1_010).unwrap_err();
        assert_eq!(wait, limits::RATE_SHARE_TIME.as_secs() + 50);
        assert_eq!(begin(&other, 1_010 + wait), Ok(()));
    }

    #[test]
    fn used_tokens_replace_the_estimate() {
        let bucket = MemoryBucket::new();
        let limits = RateBounds { output: Some(1_000), ..RateBounds::default() };
        let host = SharedRate::new(Arc::new(bucket.clone()), "p", limits);
        let output = |output| RateAmount { requests: 1, output, input: 7 };
        assert_eq!(host.take_part(output(300).limited(&limits), 1_000), Ok(None));
        host.settle(output(300), output(900));
        assert_eq!(host.part().debt, RateAmount { requests: 0, output: 500, input: 0 }, "a part has 100 more");
        assert!(host.take_part(output(300).limited(&limits), 1_001).unwrap().is_some(), "900 of 1000 are used");
        assert_eq!(host.part().debt, RateAmount::default(), "the others know it");
    }

    #[test]
    fn garbage_in_the_bucket_blocks_nobody() {
        for garbage in
            ["", "[]", r#"{"seconds":{"99999999999":[9,9,9]}}"#, r#"{"seconds":{"18446744073709551615":[1,1,1]}}"#]
        {
            let bucket = MemoryBucket::new();
            bucket.write("provider.openai", None, Some(garbage.as_bytes())).unwrap();
            assert_eq!(begin(&host(&bucket, 5), 1_000), Ok(()), "{garbage}");
        }
        let bucket = MemoryBucket::new();
        let huge = format!(r#"{{"seconds":{{"1000":[{0},{0},{0}]}}}}"#, u64::MAX);
        bucket.write("provider.openai", None, Some(huge.as_bytes())).unwrap();
        assert_eq!(begin(&host(&bucket, 5), 1_010), Err(50), "a minute at most");
    }

    #[tokio::test]
    async fn request_begins_without_the_server_and_warns_once() {
        let bucket = MemoryBucket::new();
        bucket.set_away(true);
        let host = host(&bucket, 1);
        for _ in 0..3 {
            assert_eq!(host.take(requests(1)).await, Ok(()));
        }
        let warning = host.take_warning().unwrap();
        assert!(warning.contains("`openai` is held by this host alone"), "{warning}");
        host.go_on_alone("again");
        assert_eq!(host.take_warning(), None);
    }
}
