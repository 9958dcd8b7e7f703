//! Limits on the rate and concurrency of requests.

use std::{
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use shelly_core::{error::Fault, limits};

/// The permits of all plugins of the process.
static ALL: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(limits::EGRESS_CONCURRENCY_OF_ALL)));

/// Counts requests as they begin, and limits the concurrent ones.
#[derive(Debug)]
pub(super) struct EgressThrottle {
    rate: EgressRateLimiter,
    here: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

/// The permit of a running request.
#[derive(Debug)]
pub(super) struct EgressPermit {
    _here: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl EgressThrottle {
    pub fn new(requests_per_minute: u32, concurrency: u32) -> Self {
        let here = Arc::new(Semaphore::new(concurrency as usize));
        Self { rate: EgressRateLimiter::new(requests_per_minute), here, all: ALL.clone() }
    }

    /// Replaces the permits shared by all plugins.
    #[cfg(test)]
    pub fn among(self, all: Arc<Semaphore>) -> Self {
        Self { all, ..self }
    }

    /// Counts a request.
    pub fn count(&self) -> Result<(), Fault> {
        self.rate.count().map_err(|after| Fault::RateLimited {
            message: format!(
                "more than {} requests per minute (limit `http_requests_per_minute`); wait {:.1} seconds",
                self.rate.most,
                after.as_secs_f32()
            ),
            after: Some(after),
        })
    }

    /// Returns a permit if one is available. Does not wait, because a caller could wait for a permit that it holds itself.
    pub fn acquire(&self) -> Result<EgressPermit, Fault> {
        let none = |message: String| Fault::RateLimited { message, after: None };
        let here = self.here.clone().try_acquire_owned().map_err(|_| {
            none("too many requests at once (limit `http_concurrency`); read or drop an open body".into())
        })?;
        let all = self.all.clone().try_acquire_owned();
        let all = all.map_err(|_| none("all plugins together have too many requests at once; retry later".into()))?;
        Ok(EgressPermit { _here: here, _all: all })
    }
}

/// A leaky bucket: at most `most` requests in any window, plus those that began in the window before.
#[derive(Debug)]
struct EgressRateLimiter {
    most: u32,
    /// The time at which all counted requests would be over if they were evenly spaced.
    over: Mutex<Option<Instant>>,
}

impl EgressRateLimiter {
    fn new(most: u32) -> Self {
        Self { most, over: Mutex::default() }
    }

    /// Counts a request, or returns the time to wait.
    fn count(&self) -> Result<(), Duration> {
        let window = limits::EGRESS_RATE_WINDOW;
        let each = window.checked_div(self.most).unwrap_or(window + window);
        let (now, mut over) = (Instant::now(), self.over.lock().unwrap_or_else(PoisonError::into_inner));
        let next = over.map_or(now, |over| over.max(now)) + each;
        match (next - now).checked_sub(window).filter(|wait| !wait.is_zero()) {
            Some(wait) => Err(wait),
            None => {
                *over = Some(next);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn egress_rate_allows_burst_then_even_spacing() {
        for most in [1, 7, 600, 60_000] {
            let rate = EgressRateLimiter::new(most);
            assert!((0..most).all(|_| rate.count().is_ok()), "{most}");
            let wait = rate.count().unwrap_err();
            let each = limits::EGRESS_RATE_WINDOW / most;
            assert!(wait <= each && wait + Duration::from_micros(1) > each - each / 100, "{most}: {wait:?}");
            tokio::time::advance(wait).await;
            assert!(rate.count().is_ok() && rate.count().is_err(), "{most}");
            tokio::time::advance(limits::EGRESS_RATE_WINDOW * 2).await;
            assert!((0..most).all(|_| rate.count().is_ok()) && rate.count().is_err(), "{most}");
        }
        assert!(EgressRateLimiter::new(0).count().is_err());
    }

    #[test]
    fn egress_permits_are_limited_per_plugin_and_globally() {
        let all = Arc::new(Semaphore::new(3));
        let one = EgressThrottle::new(1, 2).among(all.clone());
        let two = EgressThrottle::new(1, 9).among(all);
        let mut held = vec![one.acquire().unwrap(), one.acquire().unwrap()];
        let fault = one.acquire().unwrap_err();
        assert!(matches!(&fault, Fault::RateLimited { message, after: None } if message.contains("http_concurrency")));
        held.push(two.acquire().unwrap());
        let fault = two.acquire().unwrap_err();
        assert!(matches!(&fault, Fault::RateLimited { message, after: None } if message.contains("all plugins")));
        held.clear();
        assert!(one.acquire().is_ok() && two.acquire().is_ok());
    }
}
