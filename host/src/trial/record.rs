use std::{collections::BTreeMap, time::Duration};

use serde::{Serialize, Serializer};

use super::fixture::RunFixture;
use crate::{
    event::{Event, EventSink, LogLevel, PluginCallOutcome, RunCx},
    limits,
    model::ReplyDelta,
};

/// A callback for the events of a trial as they happen.
pub type TrialWatcher<'a> = dyn FnMut(&Event) + 'a;

/// The log of a plugin in one trial, and what its calls have used.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TrialRecord {
    /// The entries of the plugin's log, in order.
    pub log: Vec<TrialLogEntry>,
    /// Warnings of the host about what the plugin did.
    pub warnings: Vec<String>,
    /// The use of time, memory and imports.
    pub figures: TrialFigures,
    /// The pieces of a streamed reply, at most [`limits::TRIAL_CHUNKS`].
    #[serde(skip)]
    pub chunks: Vec<ReplyDelta>,
    /// The number of further pieces.
    #[serde(skip)]
    pub more_chunks: u64,
}

/// An entry of a plugin's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialLogEntry {
    /// The severity.
    pub level: LogLevel,
    /// The text.
    pub message: String,
}

/// The use of time, memory and imports by the calls of one trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TrialFigures {
    /// The number of calls of exported functions.
    pub calls: u32,
    /// The outcome of the last call; `None` without a call.
    pub outcome: Option<PluginCallOutcome>,
    /// Wall time of all calls.
    #[serde(rename = "duration_ms", serialize_with = "millis")]
    pub duration: Duration,
    /// Processor time of all calls.
    #[serde(rename = "cpu_ms", serialize_with = "millis")]
    pub cpu: Duration,
    /// The largest linear memory of a call, in bytes.
    pub memory: usize,
    /// Calls of imported functions, as the limit `host_calls_per_second` counts them.
    pub host_calls: u64,
    /// Calls of imported functions by interface.
    pub imports: BTreeMap<&'static str, u64>,
    /// Bytes that the plugin received.
    pub bytes_in: usize,
    /// Bytes that the plugin returned.
    pub bytes_out: usize,
}

impl TrialFigures {
    /// Returns `true` if the plugin did not survive its last call: it crashed, timed out or exceeded a limit.
    pub fn is_crash(&self) -> bool {
        self.outcome.is_some_and(PluginCallOutcome::is_crash)
    }
}

impl TrialRecord {
    /// Adds an event.
    fn add(&mut self, event: Event) {
        match event {
            Event::PluginLog { level, message, .. } => self.log.push(TrialLogEntry { level, message }),
            Event::Warning { message } => self.warnings.push(message),
            // Empty pieces would not be bounded by what the plugin may return.
            Event::ModelDelta { delta: ReplyDelta::Text(text) | ReplyDelta::Thinking(text), .. } if text.is_empty() => {
            }
            Event::ModelDelta { delta, .. } if self.chunks.len() < limits::TRIAL_CHUNKS => self.chunks.push(delta),
            Event::ModelDelta { .. } => self.more_chunks += 1,
            Event::PluginCall { outcome, duration, cpu, memory, host_calls, imports, bytes_in, bytes_out, .. } => {
                let figures = &mut self.figures;
                (figures.calls, figures.outcome) = (figures.calls + 1, Some(outcome));
                (figures.duration, figures.cpu) = (figures.duration + duration, figures.cpu + cpu);
                figures.memory = figures.memory.max(memory);
                figures.host_calls += host_calls;
                imports.iter().for_each(|one| *figures.imports.entry(one.interface).or_default() += one.calls);
                (figures.bytes_in, figures.bytes_out) = (figures.bytes_in + bytes_in, figures.bytes_out + bytes_out);
            }
            _ => {}
        }
    }
}

/// Does `work` in the context of a run, and records its events. `work` must not keep the context, whose end is that of the
/// record.
pub(super) async fn recorded<T>(
    run: &RunFixture,
    watch: &mut TrialWatcher<'_>,
    work: impl AsyncFnOnce(RunCx) -> T,
) -> (T, TrialRecord) {
    let (events, mut stream) = EventSink::channel();
    let cx = RunCx { depth: run.depth, ..RunCx::new(run.agent.as_str()) };
    let cx = cx.with_run(run.run.as_str()).with_events(events);
    let reading = async {
        let mut record = TrialRecord::default();
        while let Some(event) = stream.next_event().await {
            watch(&event);
            record.add(event);
        }
        record
    };
    tokio::join!(work(cx), reading)
}

/// Serializes a duration as milliseconds with a fraction: a sandboxed call takes microseconds.
fn millis<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_micros() as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::event::{CalledFunction, ImportCalls};

    #[tokio::test]
    async fn calls_of_one_trial_are_added_up() {
        let call = |outcome, memory, calls: &[(&'static str, u64)]| Event::PluginCall {
            agent: "trial".into(),
            plugin: "p".into(),
            function: CalledFunction::ToolCall,
            outcome,
            duration: Duration::from_micros(1_500),
            cpu: Duration::from_micros(500),
            memory,
            host_calls: 3,
            imports: calls.iter().map(|(interface, calls)| ImportCalls { interface, calls: *calls }).collect(),
            bytes_in: 1,
            bytes_out: 2,
            given: Default::default(),
        };
        let log =
            Event::PluginLog { agent: "a".into(), plugin: "p".into(), level: LogLevel::Warn, message: "hm".into() };
        let events = [
            call(PluginCallOutcome::Ok, 9, &[("kv", 2)]),
            log,
            call(PluginCallOutcome::Limit, 7, &[("kv", 1), ("log", 4)]),
        ];
        let mut watched = 0;
        let work = async |cx: RunCx| {
            for event in events {
                cx.events.emit(event).await;
            }
            (cx.run.to_string(), cx.agent.to_string(), cx.depth)
        };
        let run = RunFixture { depth: 2, ..RunFixture::default() };
        let (of_run, record) = recorded(&run, &mut |_| watched += 1, work).await;
        assert_eq!((of_run, watched), (("trial".into(), "trial".into(), 2), 3));
        assert!(record.figures.is_crash());
        let figures = json!({
            "calls": 2, "outcome": "limit", "duration_ms": 3.0, "cpu_ms": 1.0, "memory": 9, "host_calls": 6,
            "imports": {"kv": 3, "log": 4}, "bytes_in": 2, "bytes_out": 4,
        });
        let log = json!([{"level": "warn", "message": "hm"}]);
        assert_eq!(json!(record), json!({"log": log, "warnings": [], "figures": figures}));
    }

    #[tokio::test]
    async fn listed_chunks_are_bounded_and_the_rest_is_counted() {
        let work = async |cx: RunCx| {
            for at in 0..limits::TRIAL_CHUNKS + 3 {
                let text = if at == 1 { String::new() } else { "x".into() };
                cx.events.emit(Event::ModelDelta { agent: "a".into(), delta: ReplyDelta::Text(text) }).await;
            }
        };
        let ((), record) = recorded(&RunFixture::default(), &mut |_| {}, work).await;
        assert_eq!((record.chunks.len(), record.more_chunks), (limits::TRIAL_CHUNKS, 2), "an empty one says nothing");
    }
}
