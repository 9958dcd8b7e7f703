//! Sends what was recorded to the endpoints.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse},
        metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse},
        trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse},
    },
    common::v1::InstrumentationScope,
    logs::v1::{LogRecord, ResourceLogs, ScopeLogs},
    metrics::v1::{ResourceMetrics, ScopeMetrics},
    resource::v1::Resource,
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use shelly_core::{
    error::{Fault, cut},
    limits,
};
use shelly_net::HttpClient;
use tokio::{
    sync::Notify,
    time::{Instant, MissedTickBehavior, interval_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    attribute,
    conventions::{SCHEMA_URL, SIGNAL},
    export_queue::ExportQueue,
    metric_set::{DROPPED, MetricSet},
    recorded::RecordedTelemetry,
    span_draft::nanoseconds,
    telemetry_settings::TelemetrySettings,
};

/// The queues, and the way out of them.
pub(crate) struct Exporter {
    pub settings: TelemetrySettings,
    client: HttpClient,
    resource: Resource,
    spans: ExportQueue<Span>,
    logs: ExportQueue<LogRecord>,
    metrics: Mutex<MetricSet>,
    /// Events that this process was too slow to read.
    missed: AtomicU64,
    /// Exports of metrics that failed since the last one that did not.
    failed_metrics: AtomicU64,
    /// The reason for which the last failed export failed.
    failure: Mutex<Option<String>>,
    /// Notified when there is enough for a request.
    batch_is_full: Notify,
}

/// The data that was not exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TelemetryLosses {
    /// Spans.
    pub spans: u64,
    /// Log records.
    pub logs: u64,
    /// Events of runs, each of which may have become any data.
    pub events: u64,
    /// `true` if the last values of metrics were not exported.
    pub has_lost_metrics: bool,
    /// The reason for which an export failed, if one did.
    pub reason: Option<String>,
}

impl Exporter {
    pub fn new(settings: TelemetrySettings, client: HttpClient) -> Self {
        let attributes = settings.resource.iter().map(|(key, value)| attribute::text(key, value.as_str())).collect();
        Self {
            resource: Resource { attributes, ..Resource::default() },
            settings,
            client,
            spans: ExportQueue::new(),
            logs: ExportQueue::new(),
            metrics: Mutex::new(MetricSet::new(nanoseconds(SystemTime::now()))),
            missed: AtomicU64::new(0),
            failed_metrics: AtomicU64::new(0),
            failure: Mutex::new(None),
            batch_is_full: Notify::new(),
        }
    }

    /// Takes what was recorded. Nothing waits here.
    pub fn take(&self, recorded: RecordedTelemetry) {
        let RecordedTelemetry { spans, logs, measurements, dropped } = recorded;
        let mut is_full = false;
        if self.settings.traces.is_some() && (dropped > 0 || !spans.is_empty()) {
            self.spans.note_dropped(dropped);
            is_full |= self.spans.add(spans);
        }
        if self.settings.logs.is_some() && !logs.is_empty() {
            is_full |= self.logs.add(logs);
        }
        if self.settings.metrics.is_some() && !measurements.is_empty() {
            let mut metrics = self.metrics();
            measurements.into_iter().for_each(|measurement| metrics.record(measurement));
        }
        if is_full {
            self.batch_is_full.notify_one();
        }
    }

    /// Counts events that could not be read in time.
    pub fn note_missed(&self, count: u64) {
        self.missed.fetch_add(count, Ordering::Relaxed);
    }

    /// Exports again and again until `stop`, and then what is left.
    pub async fn export(&self, stop: CancellationToken) {
        let pause = |time: Duration| {
            let mut pause = interval_at(Instant::now() + time, time);
            pause.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pause
        };
        let mut batches = pause(limits::TELEMETRY_BATCH_PAUSE);
        let mut metrics = pause(limits::TELEMETRY_METRICS_PAUSE);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.batch_is_full.notified() => self.export_waiting().await,
                _ = batches.tick() => self.export_waiting().await,
                _ = metrics.tick() => self.export_metrics().await,
            }
        }
        tokio::join!(self.export_waiting(), self.export_metrics());
    }

    /// Returns what was not exported, up to now.
    pub fn losses(&self) -> TelemetryLosses {
        TelemetryLosses {
            spans: self.spans.not_exported(),
            logs: self.logs.not_exported(),
            events: self.missed.load(Ordering::Relaxed),
            has_lost_metrics: self.failed_metrics.load(Ordering::Relaxed) > 0,
            reason: self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    async fn export_waiting(&self) {
        tokio::join!(self.export_spans(), self.export_logs());
    }

    /// Exports the spans that wait. After a failure the rest waits for the next time.
    async fn export_spans(&self) {
        let Some(target) = &self.settings.traces else { return };
        loop {
            let spans = self.spans.take_batch();
            let count = spans.len() as u64;
            if count == 0 {
                return;
            }
            let scope_spans = ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA_URL.to_owned() };
            let resource_spans = ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: vec![scope_spans],
                schema_url: SCHEMA_URL.to_owned(),
            };
            let request = ExportTraceServiceRequest { resource_spans: vec![resource_spans] };
            match target.send(&self.client, &request).await {
                Ok(response) => {
                    let response = target.parse::<ExportTraceServiceResponse>(&response);
                    let partial = response.and_then(|response| response.partial_success).unwrap_or_default();
                    let rejected = self.rejected(partial.rejected_spans, partial.error_message);
                    self.spans.note_sent(count.saturating_sub(rejected));
                }
                Err(fault) => return self.note_failure(&fault),
            }
        }
    }

    /// Exports the log records that wait. After a failure the rest waits for the next time.
    async fn export_logs(&self) {
        let Some(target) = &self.settings.logs else { return };
        loop {
            let log_records = self.logs.take_batch();
            let count = log_records.len() as u64;
            if count == 0 {
                return;
            }
            let scope_logs = ScopeLogs { scope: Some(scope()), log_records, schema_url: SCHEMA_URL.to_owned() };
            let resource_logs = ResourceLogs {
                resource: Some(self.resource.clone()),
                scope_logs: vec![scope_logs],
                schema_url: SCHEMA_URL.to_owned(),
            };
            let request = ExportLogsServiceRequest { resource_logs: vec![resource_logs] };
            match target.send(&self.client, &request).await {
                Ok(response) => {
                    let response = target.parse::<ExportLogsServiceResponse>(&response);
                    let partial = response.and_then(|response| response.partial_success).unwrap_or_default();
                    let rejected = self.rejected(partial.rejected_log_records, partial.error_message);
                    self.logs.note_sent(count.saturating_sub(rejected));
                }
                Err(fault) => return self.note_failure(&fault),
            }
        }
    }

    /// Exports the values of all metrics. The next export has them again, so that nothing is lost if one fails.
    async fn export_metrics(&self) {
        let Some(target) = &self.settings.metrics else { return };
        let metrics = {
            let mut metrics = self.metrics();
            let lost = [
                ("traces", self.spans.lost()),
                ("logs", self.logs.lost()),
                ("events", self.missed.load(Ordering::Relaxed)),
            ];
            for (signal, count) in lost.into_iter().filter(|(_, count)| *count > 0) {
                metrics.set(&DROPPED, vec![(SIGNAL, signal.to_owned())], count as f64);
            }
            if metrics.is_empty() {
                return;
            }
            metrics.to_metrics(nanoseconds(SystemTime::now()))
        };
        let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics, schema_url: SCHEMA_URL.to_owned() };
        let resource_metrics = ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics: vec![scope_metrics],
            schema_url: SCHEMA_URL.to_owned(),
        };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] };
        // An export that is cut off has failed.
        self.failed_metrics.fetch_add(1, Ordering::Relaxed);
        match target.send(&self.client, &request).await {
            Ok(response) => {
                let response = target.parse::<ExportMetricsServiceResponse>(&response);
                let partial = response.and_then(|response| response.partial_success).unwrap_or_default();
                if self.rejected(partial.rejected_data_points, partial.error_message) == 0 {
                    self.failed_metrics.store(0, Ordering::Relaxed);
                }
            }
            Err(fault) => self.note_failure(&fault),
        }
    }

    /// Returns the number of items that a server has rejected, and notes its reason.
    fn rejected(&self, count: i64, message: String) -> u64 {
        let count = u64::try_from(count).unwrap_or(0);
        if count > 0 {
            let message = cut(&message, limits::TELEMETRY_TEXT_CHARS);
            self.note_failure(&Fault::other(format!("the collector rejected data: {message}")));
        }
        count
    }

    fn note_failure(&self, fault: &Fault) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault.to_string());
    }

    fn metrics(&self) -> MutexGuard<'_, MetricSet> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "shelly-host".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}
