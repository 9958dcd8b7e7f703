//! Makes spans, log records and measurements of the events of one sink.

use std::{collections::HashMap, sync::Arc};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use shelly_core::{
    chat::Usage,
    event::{Event, SpanContext, StreamEvent},
};

use crate::{
    attribute, conventions,
    metric_set::{PLUGIN_CALLS, PLUGIN_CPU},
    open_run::OpenRunSpan,
    recorded::{RecordedTelemetry, RecordingContext},
    run_event::{count_denial, log_record},
    sink_trace::SinkTrace,
    span_draft::{EventMark, SpanDraft, nanoseconds},
};

/// Records the events of one sink: a run that a person has started, with all that work for it.
pub(crate) struct RunRecorder {
    cx: RecordingContext,
    trace: Arc<SinkTrace>,
    runs: HashMap<Arc<str>, OpenRunSpan>,
    /// The span of the first run, below which a run belongs whose parent is not known.
    root: Option<SpanContext>,
    /// The time of the newest event, in nanoseconds since 1970.
    newest: u64,
    out: RecordedTelemetry,
}

impl RunRecorder {
    pub fn new(cx: RecordingContext, trace: Arc<SinkTrace>) -> Self {
        Self { cx, trace, runs: HashMap::new(), root: None, newest: 0, out: RecordedTelemetry::default() }
    }

    /// Takes the next event.
    pub fn record(&mut self, next: &StreamEvent) {
        let StreamEvent { sequence, time, run, parent, event } = next;
        let now = nanoseconds(*time);
        let at = EventMark { time: now, span: self.trace.span(*sequence) };
        self.newest = now;
        self.measure(event);
        let of_run = run.as_ref().and_then(|run| self.runs.get(run));
        let span = of_run.map(OpenRunSpan::context).or(self.root);
        self.out.logs.extend(log_record(now, event, span, &self.cx));
        let Some(run) = run else { return };
        match event {
            Event::RunStarted { configured: agent, parent_call, depth, model, .. } => {
                let above = (parent.as_ref(), parent_call.as_deref());
                if let Some(span) = self.begin_span(run, above, agent, at) {
                    self.runs.insert(Arc::clone(run), OpenRunSpan::begin(span, agent, model, *depth, &self.cx));
                }
            }
            Event::RunFinished { error, iterations, usage, .. } => {
                if let Some(open) = self.runs.remove(run) {
                    open.finish(now, (error.as_deref(), *iterations, usage), &self.cx, &mut self.out);
                }
            }
            event => {
                if let Some(open) = self.runs.get_mut(run) {
                    open.record(at, event, &self.cx, &mut self.out);
                }
            }
        }
    }

    /// Ends the spans that are still open: their runs were dropped, or their last events were missed.
    pub fn end(&mut self) {
        for (_, open) in std::mem::take(&mut self.runs) {
            let end = (Some("the end of the run was not seen"), 0, &Usage::default());
            open.finish(self.newest, end, &self.cx, &mut self.out);
        }
    }

    /// Returns what was recorded since the last call, without credentials.
    pub fn take(&mut self) -> RecordedTelemetry {
        let mut recorded = std::mem::take(&mut self.out);
        recorded.clean(self.cx.redact());
        recorded
    }

    /// Begins the span of a run: below its parent, or the parent's call for which it works, or as the first of a trace.
    /// `None`: too many are open.
    fn begin_span(
        &mut self,
        run: &Arc<str>,
        (parent, call): (Option<&Arc<str>>, Option<&str>),
        agent: &str,
        at: EventMark,
    ) -> Option<SpanDraft> {
        if !self.out.may_open(self.runs.len()) {
            return None;
        }
        let name = OpenRunSpan::span_name(agent);
        let mut span = match parent.and_then(|parent| self.runs.get(parent)) {
            Some(parent) => parent.begin_child(agent, call, at),
            None => {
                let above = self.root.map(|root| root.span_id).or_else(|| self.trace.outer_span());
                SpanDraft::begin(name, SpanKind::Internal, at, above)
            }
        };
        span.set(attribute::text(conventions::RUN_ID, &**run));
        self.root.get_or_insert(span.context());
        Some(span)
    }

    fn measure(&mut self, event: &Event) {
        count_denial(event, &mut self.out);
        if let Event::PluginCall { plugin, function, outcome, cpu, .. } = event {
            let mut labels = vec![
                (conventions::PLUGIN_NAME, plugin.to_string()),
                (conventions::PLUGIN_FUNCTION, function.name().to_owned()),
            ];
            self.out.measure(&PLUGIN_CPU, labels.clone(), cpu.as_secs_f64());
            labels.push((conventions::PLUGIN_OUTCOME, outcome.name().to_owned()));
            self.out.measure(&PLUGIN_CALLS, labels, 1.0);
        }
    }
}

#[cfg(test)]
mod tests;
