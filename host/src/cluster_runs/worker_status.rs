//! The counts of a worker, for Prometheus and for whoever keeps it running.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};

use crate::{
    cluster::RunEndState,
    net::http_server::{
        CrossOriginRules, HttpService, RouteAccess, ServedRequest, ServedResponse, bytes_response, text_response,
    },
};

/// The content type of the metrics.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The counts of a worker from its start on.
#[derive(Debug, Default)]
pub struct WorkerStatus {
    /// The runs at work of each namespace.
    at_work: Mutex<BTreeMap<String, u64>>,
    is_draining: AtomicBool,
    taken: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    given_back: AtomicU64,
    declined: AtomicU64,
    dropped: AtomicU64,
}

impl WorkerStatus {
    pub(super) fn set_at_work(&self, namespace: &str, count: usize) {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.insert(namespace.to_owned(), count as u64);
    }

    pub(super) fn set_draining(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    pub(super) fn note_taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_end(&self, state: RunEndState) {
        let count = match state {
            RunEndState::Completed => &self.completed,
            RunEndState::Cancelled => &self.cancelled,
            RunEndState::Failed | RunEndState::Refused | RunEndState::Poisoned => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_given_back(&self) {
        self.given_back.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_declined(&self) {
        self.declined.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counts in the text format of Prometheus.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        let mut metric = |name: &str, kind: &str, help: &str, samples: &[(&str, u64)]| {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        };
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner).clone();
        metric("shelly_worker_runs", "gauge", "Runs at work.", &[("", at_work.values().sum::<u64>())]);
        // No namespace has a character that a label would have to escape.
        let labelled = |(namespace, count): (&String, &u64)| (format!("{{namespace=\"{namespace}\"}}"), *count);
        let labelled: Vec<_> = at_work.iter().map(labelled).collect();
        let of_namespaces: Vec<_> = labelled.iter().map(|(labels, count)| (labels.as_str(), *count)).collect();
        metric("shelly_worker_namespace_runs", "gauge", "Runs at work, by namespace.", &of_namespaces);
        let is_draining = u64::from(self.is_draining.load(Ordering::Relaxed));
        metric("shelly_worker_draining", "gauge", "1 if the worker takes no more runs.", &[("", is_draining)]);
        metric(
            "shelly_worker_runs_taken_total",
            "counter",
            "Runs taken out of the queue.",
            &[("", count(&self.taken))],
        );
        let left = [
            ("{outcome=\"completed\"}", count(&self.completed)),
            ("{outcome=\"failed\"}", count(&self.failed)),
            ("{outcome=\"cancelled\"}", count(&self.cancelled)),
            ("{outcome=\"given_back\"}", count(&self.given_back)),
            ("{outcome=\"declined\"}", count(&self.declined)),
            ("{outcome=\"dropped\"}", count(&self.dropped)),
        ];
        let help = "Runs that the worker has no more, by outcome.";
        metric("shelly_worker_runs_left_total", "counter", help, &left);
        text
    }
}

/// The health and the metrics of a worker over HTTP: `GET /healthz` and `GET /metrics`.
pub struct WorkerHttp(Arc<WorkerStatus>);

impl WorkerHttp {
    /// Creates the service for a worker with this status.
    pub fn new(status: Arc<WorkerStatus>) -> Self {
        Self(status)
    }

    fn answer(&self, request: &ServedRequest) -> ServedResponse {
        match (request.method(), request.path()) {
            (&Method::GET, "/healthz") if self.0.is_draining.load(Ordering::Relaxed) => {
                text_response(StatusCode::SERVICE_UNAVAILABLE, "draining")
            }
            (&Method::GET, "/healthz") => text_response(StatusCode::OK, "ok"),
            (&Method::GET, "/metrics") => bytes_response(StatusCode::OK, CONTENT_TYPE, self.0.metrics()),
            (_, "/healthz" | "/metrics") => text_response(StatusCode::METHOD_NOT_ALLOWED, "use GET"),
            _ => text_response(StatusCode::NOT_FOUND, "there is only /healthz and /metrics"),
        }
    }
}

impl HttpService for WorkerHttp {
    fn access(&self, _method: &Method, _path: &str) -> RouteAccess {
        // Nothing here is about a run or a person.
        RouteAccess::Public
    }

    fn handle(&self, request: ServedRequest) -> BoxFuture<'_, ServedResponse> {
        Box::pin(async move { self.answer(&request) })
    }

    fn cross_origin(&self) -> CrossOriginRules {
        CrossOriginRules { methods: "GET", request_headers: "", exposed_headers: "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_count_runs_by_their_outcome() {
        let status = WorkerStatus::default();
        (0..3).for_each(|_| status.note_taken());
        status.note_end(RunEndState::Completed);
        status.note_declined();
        status.set_at_work("team-a", 1);
        status.set_at_work("team-b", 2);
        let text = status.metrics();
        for line in [
            "shelly_worker_runs 3",
            "shelly_worker_namespace_runs{namespace=\"team-b\"} 2",
            "shelly_worker_draining 0",
            "shelly_worker_runs_taken_total 3",
            "shelly_worker_runs_left_total{outcome=\"completed\"} 1",
            "shelly_worker_runs_left_total{outcome=\"declined\"} 1",
            "shelly_worker_runs_left_total{outcome=\"dropped\"} 0",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}: {text}");
        }
        status.set_draining();
        assert!(status.metrics().contains("shelly_worker_draining 1"));
    }
}
