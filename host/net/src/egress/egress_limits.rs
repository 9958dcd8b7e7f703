use shelly_core::limits;

/// The limits on the requests of one plugin of one agent. Values above a ceiling are reduced to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EgressLimits {
    /// The number of requests per minute, including redirects; ceiling [`limits::EGRESS_REQUESTS_PER_MINUTE_CEILING`].
    pub requests_per_minute: u32,
    /// The number of concurrent requests and open bodies; ceiling [`limits::EGRESS_CONCURRENCY_CEILING`].
    pub concurrency: u32,
    /// The size of a request body in bytes; ceiling [`limits::EGRESS_REQUEST_BYTES_CEILING`].
    pub request_bytes: u64,
    /// The size of a decoded response body in bytes; ceiling [`limits::EGRESS_RESPONSE_BYTES_CEILING`].
    pub response_bytes: u64,
}

impl Default for EgressLimits {
    fn default() -> Self {
        Self {
            requests_per_minute: limits::EGRESS_REQUESTS_PER_MINUTE,
            concurrency: limits::EGRESS_CONCURRENCY,
            request_bytes: limits::EGRESS_REQUEST_BYTES,
            response_bytes: limits::EGRESS_RESPONSE_BYTES,
        }
    }
}

impl EgressLimits {
    /// Returns these limits, reduced to the ceilings.
    pub(super) fn below_ceilings(self) -> Self {
        Self {
            requests_per_minute: self.requests_per_minute.min(limits::EGRESS_REQUESTS_PER_MINUTE_CEILING),
            concurrency: self.concurrency.min(limits::EGRESS_CONCURRENCY_CEILING),
            request_bytes: self.request_bytes.min(limits::EGRESS_REQUEST_BYTES_CEILING),
            response_bytes: self.response_bytes.min(limits::EGRESS_RESPONSE_BYTES_CEILING),
        }
    }
}
