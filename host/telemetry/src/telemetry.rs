//! Telemetry of this process: reads the events of runs in the background, and exports what they become.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use shelly_core::{
    error::count,
    event::{Event, EventSink, EventStream, RunSpans, StreamEvent},
    limits,
};
use shelly_net::HttpClient;
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    exporter::{Exporter, TelemetryLosses},
    observed_run::ObservedRun,
    recorded::RecordingContext,
    run_recorder::RunRecorder,
    sink_trace::SinkTrace,
    telemetry_settings::TelemetrySettings,
};

/// The telemetry of this process. Clones share one exporter, and dropping the last one ends its tasks. It never delays a
/// run: events are read in the background, queues are bounded, and what does not fit is dropped and counted.
#[derive(Clone, Default)]
pub struct Telemetry(Option<Arc<TelemetryTasks>>);

/// The tasks in the background, and what they share.
struct TelemetryTasks {
    exporter: Arc<Exporter>,
    /// Each reads the events of one sink.
    readers: Mutex<JoinSet<()>>,
    /// Started with the first reader.
    worker: Mutex<Option<AbortOnDropHandle<()>>>,
    /// Cancelled when readers should read what is there and end.
    stop_reading: CancellationToken,
    /// Cancelled when the worker should export what is there and end.
    stop_exporting: CancellationToken,
}

impl Telemetry {
    /// Creates telemetry that exports nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Creates telemetry that exports to the endpoints of `settings`. Nothing runs before the first sink is observed.
    pub fn new(settings: TelemetrySettings, client: HttpClient) -> Self {
        if settings.is_off() {
            return Self::off();
        }
        Self(Some(Arc::new(TelemetryTasks {
            exporter: Arc::new(Exporter::new(settings, client)),
            readers: Mutex::new(JoinSet::new()),
            worker: Mutex::new(None),
            stop_reading: CancellationToken::new(),
            stop_exporting: CancellationToken::new(),
        })))
    }

    /// Returns `true` if something is exported.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records the events of a sink from now on. Outside of a tokio runtime it does nothing.
    pub fn observe(&self, events: &EventSink, run: ObservedRun) {
        let (Some(tasks), Ok(runtime)) = (&self.0, Handle::try_current()) else { return };
        let settings = &tasks.exporter.settings;
        let outer = events.outer_span().or(settings.parent.as_ref()).cloned();
        // A span that is not exported is of no use to others.
        let propagation = settings.traces.as_ref().map(|_| settings.propagation.clone()).unwrap_or_default();
        let trace = Arc::new(SinkTrace::new(outer, settings.sampler, propagation));
        if trace.is_propagated() {
            let tapped = Arc::clone(&trace);
            events.tap(Arc::new(move |event: &StreamEvent| tapped.note(event)));
            events.set_spans(Arc::clone(&trace) as Arc<dyn RunSpans>);
        }
        let recorder = RunRecorder::new(RecordingContext { run, has_content: settings.content }, trace);
        let reading = read(Arc::clone(&tasks.exporter), events.observe(), recorder, tasks.stop_reading.clone());
        let mut readers = tasks.readers.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended are forgotten here: a chat has a sink for each message.
        while readers.try_join_next().is_some() {}
        readers.spawn_on(reading, &runtime);
        drop(readers);
        tasks.worker.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| {
            let (exporter, stop) = (Arc::clone(&tasks.exporter), tasks.stop_exporting.clone());
            AbortOnDropHandle::new(runtime.spawn(async move { exporter.export(stop).await }))
        });
    }

    /// Exports what is left, for at most [`limits::TELEMETRY_FLUSH_TIME`], and ends the tasks. Returns what was not
    /// exported, since the start of this process; later calls return the same.
    pub async fn finish(&self) -> TelemetryLosses {
        let Some(tasks) = &self.0 else { return TelemetryLosses::default() };
        let deadline = Instant::now() + limits::TELEMETRY_FLUSH_TIME;
        tasks.stop_reading.cancel();
        let mut readers = std::mem::take(&mut *tasks.readers.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = timeout_at(deadline, async { while readers.join_next().await.is_some() {} }).await;
        tasks.stop_exporting.cancel();
        let worker = tasks.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            // Dropped at the deadline, and thereby aborted.
            let _ = timeout_at(deadline, worker).await;
        }
        tasks.exporter.losses()
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Telemetry({})", if self.is_on() { "on" } else { "off" })
    }
}

impl TelemetryLosses {
    /// Returns a message about the losses; `None` if there are none.
    pub fn warning(&self) -> Option<String> {
        let Self { spans, logs, events, has_lost_metrics, reason } = self;
        let lost = [
            (*spans > 0).then(|| count(*spans, "span", "spans")),
            (*logs > 0).then(|| count(*logs, "log record", "log records")),
            (*events > 0).then(|| count(*events, "event", "events")),
            has_lost_metrics.then(|| "the last metrics".to_owned()),
        ];
        let lost: Vec<_> = lost.into_iter().flatten().collect();
        let reason = reason.as_deref().unwrap_or("the run was faster than the export");
        (!lost.is_empty()).then(|| format!("telemetry is incomplete: not exported: {}: {reason}", lost.join(", ")))
    }
}

/// Reads the events of one sink until it is dropped, or until `stop` and no event waits.
async fn read(exporter: Arc<Exporter>, mut events: EventStream, mut recorder: RunRecorder, stop: CancellationToken) {
    loop {
        let next = tokio::select! {
            biased;
            next = events.next() => next,
            () = stop.cancelled() => None,
        };
        let Some(next) = next else { break };
        if let Event::Missed { count } = next.event {
            exporter.note_missed(count);
        }
        recorder.record(&next);
        exporter.take(recorder.take());
    }
    recorder.end();
    exporter.take(recorder.take());
}

#[cfg(test)]
mod tests;
