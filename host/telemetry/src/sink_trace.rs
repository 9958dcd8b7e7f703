//! The identity of the trace of one sink, and of each span in it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shelly_core::{
    event::{Event, PropagatedSpan, RunSpans, SpanContext, SpanDestination, StreamEvent},
    hex, limits,
};

use crate::{
    span_propagation::SpanPropagation,
    trace_context::{TraceSampler, random_id},
};

/// The trace of the runs of one sink. The spans of it have ids that follow from the events with which they begin, so that
/// the run, which names its spans to other hosts, and the exporter, which reads events later, agree about them.
pub(crate) struct SinkTrace {
    trace_id: [u8; 16],
    is_sampled: bool,
    /// The span outside of this program that the runs belong to.
    outer: Option<PropagatedSpan>,
    seed: u64,
    propagation: SpanPropagation,
    open: Mutex<HashMap<Arc<str>, OpenSteps>>,
}

/// The open spans of one run.
struct OpenSteps {
    run: [u8; 8],
    chat: Option<[u8; 8]>,
    /// The tool calls by their ids, at most [`limits::TELEMETRY_OPEN_SPANS`].
    calls: Vec<(String, [u8; 8])>,
}

impl SinkTrace {
    /// Begins a trace, or takes part in that of `outer`.
    pub fn new(outer: Option<PropagatedSpan>, sampler: TraceSampler, propagation: SpanPropagation) -> Self {
        let context = outer.as_ref().map(|outer| outer.context);
        let trace_id = context.map_or_else(random_id, |context| context.trace_id);
        let is_sampled = sampler.is_sampled(trace_id, context);
        let (seed, open) = (u64::from_be_bytes(random_id()), Mutex::default());
        Self { trace_id, is_sampled, outer, seed, propagation, open }
    }

    /// Returns `true` if some destination is told of spans.
    pub fn is_propagated(&self) -> bool {
        self.propagation != SpanPropagation::None
    }

    /// Returns the identity of the span that begins with the event of this number. One event begins at most one span.
    pub fn span(&self, sequence: u64) -> SpanContext {
        // The finalizer of SplitMix64 is a bijection, so no two events of a sink have one id.
        let mut id = self.seed.wrapping_add(sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        id ^= id >> 31;
        // An id of zeros is none.
        let span_id = if id == 0 { [1; 8] } else { id.to_be_bytes() };
        SpanContext { trace_id: self.trace_id, span_id, is_sampled: self.is_sampled }
    }

    /// Returns the id of the span outside of this program that the runs belong to.
    pub fn outer_span(&self) -> Option<[u8; 8]> {
        self.outer.as_ref().map(|outer| outer.context.span_id)
    }

    /// Takes note of an event where it is emitted: from then on its span is open, or no longer is.
    pub fn note(&self, StreamEvent { sequence, run, event, .. }: &StreamEvent) {
        let Some(run) = run else { return };
        let span = || self.span(*sequence).span_id;
        match event {
            Event::RunStarted { .. } => {
                let mut open = self.open();
                if open.len() < limits::TELEMETRY_OPEN_SPANS {
                    open.insert(Arc::clone(run), OpenSteps { run: span(), chat: None, calls: Vec::new() });
                }
            }
            Event::RunFinished { .. } => drop(self.open().remove(run)),
            Event::ModelStarted { .. } => self.change(run, |steps| steps.chat = Some(span())),
            Event::ModelFinished { .. } => self.change(run, |steps| steps.chat = None),
            Event::ToolStarted { call, .. } => self.change(run, |steps| {
                if steps.calls.len() < limits::TELEMETRY_OPEN_SPANS {
                    steps.calls.push((call.clone(), span()));
                }
            }),
            Event::ToolFinished { call, .. } => self.change(run, |steps| {
                if let Some(at) = steps.calls.iter().position(|(open, _)| open == call) {
                    steps.calls.swap_remove(at);
                }
            }),
            _ => {}
        }
    }

    fn change(&self, run: &str, change: impl FnOnce(&mut OpenSteps)) {
        if let Some(steps) = self.open().get_mut(run) {
            change(steps);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Arc<str>, OpenSteps>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunSpans for SinkTrace {
    fn span_for(&self, run: &str, call: Option<&str>, destination: SpanDestination<'_>) -> Option<PropagatedSpan> {
        if !self.propagation.tells(destination) {
            return None;
        }
        let span_id = {
            let open = self.open();
            let steps = open.get(run)?;
            let of_call = call.and_then(|call| steps.calls.iter().find(|(open, _)| open == call));
            of_call.map(|(_, span)| *span).or(steps.chat).unwrap_or(steps.run)
        };
        let context = SpanContext { trace_id: self.trace_id, span_id, is_sampled: self.is_sampled };
        let state = self.outer.as_ref().and_then(|outer| outer.state.clone());
        Some(PropagatedSpan { context, state })
    }
}

impl fmt::Debug for SinkTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SinkTrace({})", hex::encode(self.trace_id))
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::SystemTime};

    use super::*;

    fn stream_event(sequence: u64, event: Event) -> StreamEvent {
        StreamEvent { sequence, time: SystemTime::now(), run: Some("r".into()), parent: None, event }
    }

    fn events() -> [Event; 4] {
        let started = Event::RunStarted {
            agent: "ada".into(),
            configured: "ada".into(),
            parent_agent: None,
            parent_call: None,
            depth: 0,
            prefix: "".into(),
            model: "m".into(),
            task: "the task".into(),
        };
        let asked = Event::ModelStarted {
            agent: "ada".into(),
            iteration: 0,
            tokens: 1,
            parts: Default::default(),
            window: None,
        };
        let called = Event::ToolStarted {
            agent: "ada".into(),
            call: "c".into(),
            tool: "t".into(),
            origin: "o".into(),
            arguments: String::new(),
        };
        let returned = Event::ToolFinished {
            agent: "ada".into(),
            call: "c".into(),
            tool: "t".into(),
            is_error: false,
            reason: None,
            bytes: 0,
            duration: Default::default(),
        };
        [started, asked, called, returned]
    }

    #[test]
    fn step_is_told_as_its_innermost_open_span() {
        let trace = SinkTrace::new(None, TraceSampler::default(), SpanPropagation::All);
        let told = |call: Option<&str>| {
            let span = trace.span_for("r", call, SpanDestination::McpProgram("files"));
            span.map(|span| span.context)
        };
        assert_eq!(told(None), None, "no run has begun");
        let mut of_events = Vec::new();
        for (sequence, event) in (1..).zip(events()) {
            trace.note(&stream_event(sequence, event));
            of_events.push((told(None), told(Some("c"))));
        }
        let [run, chat, call] = [1, 2, 3].map(|sequence| Some(trace.span(sequence)));
        assert_eq!(of_events, [(run, run), (chat, chat), (chat, call), (chat, chat)]);
        assert_eq!(trace.span_for("other", None, SpanDestination::McpProgram("files")), None);
    }

    #[test]
    fn unnamed_destinations_are_told_nothing() {
        let trace = SinkTrace::new(None, TraceSampler::default(), SpanPropagation::None);
        let [started, ..] = events();
        trace.note(&stream_event(1, started));
        assert!(!trace.is_propagated());
        assert_eq!(trace.span_for("r", None, SpanDestination::McpProgram("files")), None);
    }

    #[test]
    fn trace_of_another_host_goes_on_with_its_state() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
        let outer = PropagatedSpan::parse(Some(parent), Some("a=1")).unwrap();
        let trace = SinkTrace::new(Some(outer.clone()), TraceSampler::default(), SpanPropagation::All);
        let [started, ..] = events();
        trace.note(&stream_event(1, started));
        let told = trace.span_for("r", None, SpanDestination::McpProgram("files")).unwrap();
        assert_eq!((told.context.trace_id, told.state.as_deref()), (outer.context.trace_id, Some("a=1")));
        assert!(!told.context.is_sampled && told.context.span_id != outer.context.span_id);
    }

    #[test]
    fn spans_of_one_sink_have_different_ids() {
        let trace = SinkTrace::new(None, TraceSampler::default(), SpanPropagation::None);
        let ids: HashSet<_> = (0..10_000).map(|sequence| trace.span(sequence).span_id).collect();
        assert_eq!(ids.len(), 10_000);
        let other = SinkTrace::new(None, TraceSampler::default(), SpanPropagation::None);
        assert_ne!(trace.span(1).span_id, other.span(1).span_id);
    }
}
