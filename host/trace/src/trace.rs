use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::Value;

use super::{
    assembler::TraceAssembler,
    lines::TraceLines,
    spans::{RunEnd, RunSpan, TracePart},
    trace_event::TraceEvent,
};
use shelly_core::{chat::Usage, digest::Sha256Digest, error::cut, limits};
use shelly_session::{SessionError, SessionHeader};

/// The runs and steps of a session, without the contents of its messages.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The header of the session's journal.
    pub header: SessionHeader,
    /// `true` if the events of the session were recorded; otherwise the trace follows from the journal alone.
    pub is_recorded: bool,
    /// The runs, in the order in which they began.
    pub runs: Vec<TraceRun>,
    /// Warnings, and notes on what is missing, in order.
    pub notes: Vec<String>,
    /// The number of runs and steps beyond the limits, which are left out.
    pub left_out: u64,
}

/// A run and its steps.
#[derive(Debug, Clone)]
pub struct TraceRun {
    /// The run.
    pub span: Arc<RunSpan>,
    /// Its requests and calls, in the order in which they began.
    pub steps: Vec<TraceStep>,
    /// The positions of the runs that worked for it, in the order in which they began.
    pub children: Vec<usize>,
    /// The position of the interrupted run that it continues. The sums of a run that has ended include those of that one.
    pub continues: Option<usize>,
    /// The position of the run that continues it.
    pub continued_by: Option<usize>,
}

/// A request to a model, or a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceStep {
    /// The number among the steps of its run.
    pub number: u32,
    /// The kind of the step.
    pub kind: TraceStepKind,
    /// The model or the tool.
    pub name: String,
    /// The arguments of a call, cut.
    pub arguments: String,
    /// A digest of the whole arguments of a call, in which neither spaces nor the order of keys count.
    pub arguments_digest: Option<Sha256Digest>,
    /// The time at which it began.
    pub started: SystemTime,
    /// The time that it took; `None` if it did not end.
    pub duration: Option<Duration>,
    /// The tokens of a request.
    pub usage: Usage,
    /// The cost of a request in US dollars, if it is known.
    pub usd: Option<f64>,
    /// The failure, cut.
    pub error: Option<String>,
}

/// The kind of a [`TraceStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceStepKind {
    /// A request to a model.
    Request,
    /// A tool call.
    Call,
}

/// The sums of a trace, or of a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TraceTotals {
    /// The runs. One that was interrupted and continued is one run.
    pub runs: u64,
    /// The turns.
    pub turns: u64,
    /// The tokens.
    pub usage: Usage,
    /// The cost in US dollars, as far as prices are known.
    pub usd: f64,
    /// The calls.
    pub calls: u64,
    /// The calls that failed.
    pub failed_calls: u64,
    /// The time from the beginning of the first run to the end of the last one.
    pub duration: Duration,
}

impl Trace {
    /// Reads a trace. Contents of messages are read and dropped one by one.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the journal is damaged where an event refers to it, or the disk fails.
    pub fn read(mut lines: TraceLines) -> Result<Self, SessionError> {
        let (mut assembler, mut builder) = (TraceAssembler::default(), TraceBuilder::default());
        while let Some(line) = lines.next() {
            if let Some(event) = TraceEvent::parse(&line?) {
                builder.is_continuation = lines.is_continuation();
                assembler.add(event).into_iter().for_each(|part| builder.add(part));
            }
        }
        assembler.finish().into_iter().for_each(|part| builder.add(part));
        let damaged = lines.damaged_events();
        if damaged > 0 {
            builder.notes.push(format!("{damaged} damaged events were left out"));
        }
        let TraceBuilder { runs, notes, left_out, .. } = builder;
        let (header, is_recorded) = (lines.header().clone(), lines.is_recorded());
        Ok(Self { header, is_recorded, runs, notes, left_out }.in_order())
    }

    /// Returns the positions of the runs that a person started.
    pub fn roots(&self) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).filter(move |at| self.runs[*at].span.parent.is_none())
    }

    /// Iterates over all runs from each root down, each with its level below the root.
    pub fn tree(&self) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut left: Vec<_> = self.roots().map(|at| (at, 0)).collect();
        left.reverse();
        while let Some((at, level)) = left.pop() {
            found.push((at, level));
            left.extend(self.runs[at].children.iter().rev().map(|child| (*child, level + 1)));
        }
        found
    }

    /// Returns the sums of all runs.
    pub fn totals(&self) -> TraceTotals {
        let mut totals = TraceTotals::default();
        let mut of_runs: Vec<_> = self.runs.iter().map(TraceRun::totals).collect();
        for (at, run) in self.runs.iter().enumerate() {
            // Turns go on counting, and the end of a run tells what all its attempts have used.
            let Some(before) = run.continues else { continue };
            let TraceTotals { turns, usage, usd, .. } = of_runs[before];
            of_runs[before] = TraceTotals { runs: 0, turns: 0, usage: Usage::default(), usd: 0.0, ..of_runs[before] };
            of_runs[at].turns = of_runs[at].turns.max(turns);
            if run.span.end == RunEnd::Open {
                of_runs[at].usage += usage;
                of_runs[at].usd += usd;
            }
        }
        for of_run in of_runs {
            totals.runs += of_run.runs;
            totals.turns += of_run.turns;
            totals.usage += of_run.usage;
            totals.usd += of_run.usd;
            totals.calls += of_run.calls;
            totals.failed_calls += of_run.failed_calls;
        }
        let started = self.runs.iter().map(|run| run.span.started).min();
        let ended = self.runs.iter().map(|run| run.span.ended).max();
        if let (Some(started), Some(ended)) = (started, ended) {
            totals.duration = ended.duration_since(started).unwrap_or_default();
        }
        totals
    }

    fn in_order(mut self) -> Self {
        for run in &mut self.runs {
            run.steps.sort_by_key(|step| step.number);
        }
        self
    }
}

impl TraceRun {
    /// Returns the sums of this run alone. A run that has not ended has those of its steps.
    pub fn totals(&self) -> TraceTotals {
        let requests = self.steps.iter().filter(|step| step.kind == TraceStepKind::Request);
        let (mut usage, mut usd) = (Usage::default(), 0.0);
        for request in requests {
            usage += request.usage;
            usd += request.usd.unwrap_or_default();
        }
        let calls = self.steps.iter().filter(|step| step.kind == TraceStepKind::Call);
        let (span, has_ended) = (&self.span, self.span.end != RunEnd::Open);
        TraceTotals {
            runs: 1,
            turns: span.iterations.into(),
            usage: if has_ended { span.usage } else { usage },
            usd: if has_ended { span.usd.unwrap_or(usd) } else { usd },
            calls: calls.clone().count() as u64,
            failed_calls: calls.filter(|call| call.error.is_some()).count() as u64,
            duration: span.duration(),
        }
    }

    /// Returns the number of calls of each tool, by name.
    pub fn calls_by_tool(&self) -> BTreeMap<&str, u64> {
        let mut calls = BTreeMap::new();
        for step in self.steps.iter().filter(|step| step.kind == TraceStepKind::Call) {
            *calls.entry(&*step.name).or_default() += 1;
        }
        calls
    }
}

#[derive(Default)]
struct TraceBuilder {
    runs: Vec<TraceRun>,
    /// The position of each run, by id.
    positions: HashMap<Arc<str>, usize>,
    /// The position of the newest run of each instance.
    newest: HashMap<Arc<str>, usize>,
    /// Set if a run that begins now continues an interrupted one of its instance.
    is_continuation: bool,
    steps: usize,
    notes: Vec<String>,
    left_out: u64,
}

impl TraceBuilder {
    fn add(&mut self, part: TracePart) {
        match part {
            TracePart::Began(span) => self.begin(span),
            TracePart::Ended(span) => {
                if let Some(at) = self.positions.get(&span.id) {
                    self.runs[*at].span = span;
                }
            }
            TracePart::Request(request) => {
                let request = *request;
                let duration = request.stop.as_ref().map(|_| request.duration());
                let step = TraceStep {
                    number: request.step,
                    kind: TraceStepKind::Request,
                    name: request.model,
                    arguments: String::new(),
                    arguments_digest: None,
                    started: request.started,
                    duration,
                    usage: request.usage,
                    usd: request.usd,
                    error: request.error,
                };
                self.add_step(&request.run.id, step);
            }
            TracePart::Call(call) => {
                let call = *call;
                let error = match call.ended {
                    Some(_) => call.is_error.then(|| call.reason.clone().unwrap_or_else(|| "failed".into())),
                    None => Some("there is no result".into()),
                };
                let step = TraceStep {
                    number: call.step,
                    kind: TraceStepKind::Call,
                    duration: call.ended.map(|_| call.duration()),
                    arguments_digest: Some(digest_of(&call.arguments)),
                    arguments: cut(&call.arguments, limits::SESSION_CALL_CHARS),
                    name: call.tool,
                    started: call.started,
                    usage: Usage::default(),
                    usd: None,
                    error,
                };
                self.add_step(&call.run.id, step);
            }
            TracePart::Note(note) if self.notes.len() < limits::TRACE_FAILURES_SHOWN => self.notes.push(note),
            TracePart::Note(_) => self.left_out += 1,
        }
    }

    fn begin(&mut self, span: Arc<RunSpan>) {
        if self.runs.len() >= limits::TRACE_RUNS {
            self.left_out += 1;
            return;
        }
        let at = self.runs.len();
        if let Some(parent) = span.parent.as_ref().and_then(|parent| self.positions.get(parent)) {
            self.runs[*parent].children.push(at);
        }
        self.positions.insert(Arc::clone(&span.id), at);
        let before = self.newest.insert(Arc::clone(&span.agent), at);
        let continues = before.filter(|before| self.is_continuation && self.runs[*before].span.end == RunEnd::Open);
        if let Some(before) = continues {
            self.runs[before].continued_by = Some(at);
        }
        self.runs.push(TraceRun { span, steps: Vec::new(), children: Vec::new(), continues, continued_by: None });
    }

    fn add_step(&mut self, run: &Arc<str>, step: TraceStep) {
        match self.positions.get(run) {
            Some(at) if self.steps < limits::TRACE_STEPS => {
                self.steps += 1;
                self.runs[*at].steps.push(step);
            }
            _ => self.left_out += 1,
        }
    }
}

/// Returns a digest of JSON in which neither spaces nor the order of keys count; of a text that is no JSON, of the text.
fn digest_of(arguments: &str) -> Sha256Digest {
    let value = serde_json::from_str::<Value>(arguments);
    value.map_or_else(|_| Sha256Digest::of(arguments.trim()), |value| Sha256Digest::of(sorted(&value)))
}

/// Returns JSON with the keys of its objects sorted.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<_, _> = members.iter().map(|(key, value)| (key, sorted(value))).collect();
            let members = members.into_iter().map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(sorted).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ignores_spaces_and_the_order_of_keys() {
        for (one, other, is_same) in [
            (r#"{"a":1,"b":[{"c":"x","d":null}]}"#, r#"{ "b": [{"d":null, "c":"x"}], "a": 1 }"#, true),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            ("{\"a\":", " {\"a\": ", true),
            ("not json", " not json\n", true),
        ] {
            assert_eq!(digest_of(one) == digest_of(other), is_same, "{one} {other}");
        }
    }

    #[test]
    fn runs_and_steps_beyond_the_bounds_are_counted() {
        let mut builder = TraceBuilder::default();
        for number in 0..=limits::TRACE_RUNS {
            builder.begin(crate::tests::run_span(&number.to_string(), RunEnd::Open));
        }
        assert_eq!((builder.runs.len(), builder.left_out), (limits::TRACE_RUNS, 1));
        let step = TraceStep {
            number: 0,
            kind: TraceStepKind::Call,
            name: String::new(),
            arguments: String::new(),
            arguments_digest: None,
            started: SystemTime::UNIX_EPOCH,
            duration: None,
            usage: Usage::default(),
            usd: None,
            error: None,
        };
        for _ in 0..=limits::TRACE_STEPS {
            builder.add_step(&"0".into(), step.clone());
        }
        builder.add_step(&"unknown".into(), step);
        assert_eq!((builder.runs[0].steps.len(), builder.left_out), (limits::TRACE_STEPS, 3));
        for _ in 0..=limits::TRACE_FAILURES_SHOWN {
            builder.add(TracePart::Note(String::new()));
        }
        assert_eq!((builder.notes.len(), builder.left_out), (limits::TRACE_FAILURES_SHOWN, 4));
    }
}
