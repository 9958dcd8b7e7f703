//! A span that has begun.

use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::{
    common::v1::KeyValue,
    trace::v1::{
        Span, Status,
        span::{Event, SpanKind},
        status::StatusCode,
    },
};
use shelly_core::{error::cut, event::SpanContext, limits};

use crate::{attribute, conventions};

/// Returns a time in nanoseconds since 1970, the unit of the protocol.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// The time of an event, and the identity of the span that it begins, if it begins one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventMark {
    /// In nanoseconds since 1970.
    pub time: u64,
    pub span: SpanContext,
}

/// A span that has begun and not yet ended.
pub(crate) struct SpanDraft {
    context: SpanContext,
    span: Span,
}

impl SpanDraft {
    /// Begins a span of this identity, below `parent` if there is one.
    pub fn begin(name: String, kind: SpanKind, at: EventMark, parent: Option<[u8; 8]>) -> Self {
        let SpanContext { trace_id, span_id, is_sampled } = at.span;
        let span = Span {
            trace_id: trace_id.to_vec(),
            span_id: span_id.to_vec(),
            parent_span_id: parent.map(Vec::from).unwrap_or_default(),
            flags: u32::from(is_sampled),
            name,
            kind: kind.into(),
            start_time_unix_nano: at.time,
            ..Span::default()
        };
        Self { context: at.span, span }
    }

    /// Begins a span below this one.
    pub fn child(&self, name: String, kind: SpanKind, at: EventMark) -> Self {
        Self::begin(name, kind, at, Some(self.context.span_id))
    }

    /// Returns the identity of this span.
    pub fn context(&self) -> SpanContext {
        self.context
    }

    /// Returns the time at which it began.
    pub fn start(&self) -> u64 {
        self.span.start_time_unix_nano
    }

    pub fn set(&mut self, attribute: KeyValue) {
        self.span.attributes.push(attribute);
    }

    pub fn set_all(&mut self, attributes: impl IntoIterator<Item = KeyValue>) {
        self.span.attributes.extend(attributes);
    }

    /// Adds an event, unless the span has as many as it may have.
    pub fn add_event(&mut self, time: u64, name: &str, attributes: Vec<KeyValue>) {
        if self.span.events.len() >= limits::TELEMETRY_SPAN_EVENTS {
            self.span.dropped_events_count = self.span.dropped_events_count.saturating_add(1);
            return;
        }
        let event = Event { time_unix_nano: time, name: name.to_owned(), attributes, ..Event::default() };
        self.span.events.push(event);
    }

    /// Marks the span as failed; `kind` is one of few words, `message` says more. The first failure counts.
    pub fn fail(&mut self, kind: &str, message: &str) {
        if self.span.status.is_some() {
            return;
        }
        self.set(attribute::text(conventions::ERROR_TYPE, kind));
        let message = cut(message, limits::TELEMETRY_TEXT_CHARS);
        self.span.status = Some(Status { message, code: StatusCode::Error.into() });
    }

    /// Takes back that the span has failed: another attempt has succeeded.
    pub fn recover(&mut self) {
        if self.span.status.take().is_some() {
            self.span.attributes.retain(|attribute| attribute.key != conventions::ERROR_TYPE);
        }
    }

    /// Sets the time of the end, which is never before the start: the clock may have been set.
    pub fn end(&mut self, end: u64) {
        self.span.end_time_unix_nano = end.max(self.span.start_time_unix_nano);
    }

    /// Returns the span; `None` if its trace is not exported.
    pub fn into_span(self) -> Option<Span> {
        self.context.is_sampled.then_some(self.span)
    }
}
