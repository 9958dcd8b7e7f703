//! The data that events of runs become.

use opentelemetry_proto::tonic::{
    common::v1::{AnyValue, KeyValue, any_value::Value},
    logs::v1::LogRecord,
    trace::v1::Span,
};
use shelly_core::limits;

use crate::{
    message_content::Redactor,
    metric_set::{Instrument, Labels, Measurement},
    observed_run::ObservedRun,
    span_draft::SpanDraft,
};

/// Spans that have ended, log records and measurements.
#[derive(Default)]
pub(crate) struct RecordedTelemetry {
    pub spans: Vec<Span>,
    pub logs: Vec<LogRecord>,
    pub measurements: Vec<Measurement>,
    /// Spans that were not begun, because too many were open.
    pub dropped: u64,
}

impl RecordedTelemetry {
    /// Adds a span that ends now, in nanoseconds since 1970.
    pub fn end(&mut self, mut span: SpanDraft, now: u64) {
        span.end(now);
        self.add(span);
    }

    /// Adds a span whose end is set, if its trace is exported.
    pub fn add(&mut self, span: SpanDraft) {
        self.spans.extend(span.into_span());
    }

    pub fn measure(&mut self, instrument: &'static Instrument, labels: Labels, value: f64) {
        self.measurements.push(Measurement { instrument, labels, value });
    }

    /// Returns `true` if another span may be opened beside this many; otherwise counts one that is not.
    pub fn may_open(&mut self, open: usize) -> bool {
        let may_open = open < limits::TELEMETRY_OPEN_SPANS;
        self.dropped += u64::from(!may_open);
        may_open
    }

    /// Replaces credentials in every text. Models, vendors and plugins choose names too, such as that of a tool. Texts that
    /// are cut have passed the redactor before, since half a credential would not be found.
    pub fn clean(&mut self, redact: &Redactor) {
        for span in &mut self.spans {
            span.name = redact(&span.name);
            clean_attributes(&mut span.attributes, redact);
            for event in &mut span.events {
                clean_attributes(&mut event.attributes, redact);
            }
            if let Some(status) = &mut span.status {
                status.message = redact(&status.message);
            }
        }
        for log in &mut self.logs {
            log.body.iter_mut().for_each(|body| clean_value(body, redact));
            clean_attributes(&mut log.attributes, redact);
        }
        for (_, value) in self.measurements.iter_mut().flat_map(|measurement| &mut measurement.labels) {
            *value = redact(value);
        }
    }
}

fn clean_attributes(attributes: &mut [KeyValue], redact: &Redactor) {
    attributes.iter_mut().flat_map(|attribute| &mut attribute.value).for_each(|value| clean_value(value, redact));
}

fn clean_value(value: &mut AnyValue, redact: &Redactor) {
    match &mut value.value {
        Some(Value::StringValue(text)) => *text = redact(text),
        Some(Value::ArrayValue(list)) => list.values.iter_mut().for_each(|value| clean_value(value, redact)),
        // The other kinds hold no text, or are not made here.
        _ => {}
    }
}

/// The facts and settings by which events are recorded.
pub(crate) struct RecordingContext {
    pub run: ObservedRun,
    /// `true` if messages, arguments and results are recorded.
    pub has_content: bool,
}

impl RecordingContext {
    pub fn redact(&self) -> &Redactor {
        &self.run.redact
    }
}
