use std::time::Duration;

use tokio::sync::watch;
use url::Url;

use super::{
    rate::RateLimits,
    request_header::AuthHeader,
    retry::{Retries, RetryObserver},
    secret::Secret,
};
use shelly_core::limits;

/// A request to an HTTP server with a JSON API, with its time limits.
pub struct HttpRequest {
    /// The address of the request.
    pub url: Url,
    /// The credential; `None`: an anonymous request.
    pub auth: Option<AuthHeader>,
    /// Headers in addition to those of every request, by name; `accept` takes the place of the usual one. Their values may be
    /// credentials too.
    pub headers: Vec<(String, Secret)>,
    /// The number of further attempts, and the pauses before them.
    pub retries: Retries,
    /// `true` if it does no harm when the server processes the request twice. Otherwise the request is sent again only after
    /// a definite refusal: no connection was made, or a response other than that of a gateway (502, 504, 520 to 527) says
    /// so.
    pub repeatable: bool,
    /// The time limit from the first attempt to the end of the reply.
    pub total: Duration,
    /// The longest silence in the middle of a reply. The beginning of a reply is limited by `total` alone, because a model
    /// may think, or still be loading.
    pub idle: Duration,
    /// A channel for the rate limits that each response reports, including failed ones.
    pub heard: Option<watch::Sender<RateLimits>>,
    /// The observer of the pauses before further attempts.
    pub observer: RetryObserver,
}

impl HttpRequest {
    /// Creates a request with the time limits of a completion and the default retries of the host.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            auth: None,
            headers: Vec::new(),
            retries: Retries::default(),
            repeatable: true,
            total: limits::COMPLETION_TIME,
            idle: limits::STREAM_IDLE_TIME,
            heard: None,
            observer: RetryObserver::default(),
        }
    }
}
