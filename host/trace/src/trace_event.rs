//! Lines of the stream of events, read back.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Deserializer, de::Error};

use shelly_core::chat::{Message, Role, StopReason, Usage};

/// An event of a session. Unknown events and members are ignored, as readers of the stream must.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TraceEvent {
    /// The number of the line.
    pub sequence: u64,
    /// The time of the event; `None` for lines without one.
    #[serde(default, deserialize_with = "rfc3339")]
    pub time: Option<SystemTime>,
    /// The id of the run that the event is about.
    #[serde(default)]
    pub run: Option<Arc<str>>,
    /// The id of the run that delegated that run.
    #[serde(default)]
    pub parent: Option<Arc<str>>,
    /// The content of the event.
    #[serde(flatten)]
    pub kind: TraceEventKind,
}

/// The content of a [`TraceEvent`], as far as a trace needs it. The fields are those of
/// [`Event`](shelly_core::event::Event).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of the events of the host")]
pub enum TraceEventKind {
    /// The first line of the events of one sink.
    StreamStarted {
        #[serde(default)]
        version: u32,
        #[serde(default)]
        host: String,
    },
    /// A run has begun.
    RunStarted {
        agent: Arc<str>,
        #[serde(default)]
        configured: Option<Arc<str>>,
        #[serde(default)]
        parent_agent: Option<Arc<str>>,
        #[serde(default)]
        parent_call: Option<String>,
        #[serde(default)]
        depth: u32,
        #[serde(default)]
        model: String,
        #[serde(default)]
        task: String,
    },
    /// A message was added to a conversation.
    MessageAdded {
        role: Role,
        #[serde(default)]
        message: Option<Arc<Message>>,
    },
    /// A request goes to a model.
    ModelStarted {
        #[serde(default)]
        iteration: u32,
    },
    /// A request failed.
    ModelFailed {
        #[serde(default)]
        reason: String,
        #[serde(default)]
        again: bool,
    },
    /// A reply is complete.
    ModelFinished {
        #[serde(default)]
        iteration: u32,
        model: String,
        stop: StopReason,
        #[serde(default)]
        usage: Usage,
        #[serde(default, rename = "duration_ms", deserialize_with = "millis")]
        duration: Duration,
        #[serde(default)]
        usd: Option<f64>,
    },
    /// A tool call begins.
    ToolStarted {
        call: String,
        tool: String,
        #[serde(default)]
        origin: String,
        #[serde(default)]
        arguments: String,
    },
    /// A tool call has its result.
    ToolFinished {
        call: String,
        tool: String,
        is_error: bool,
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        bytes: u64,
        #[serde(default, rename = "duration_ms", deserialize_with = "millis")]
        duration: Duration,
    },
    /// A condition that needs attention.
    Warning { message: String },
    /// Events are missing.
    Missed { count: u64 },
    /// A run has ended.
    RunFinished {
        #[serde(default)]
        error: Option<String>,
        #[serde(default)]
        iterations: u32,
        #[serde(default)]
        usage: Usage,
        #[serde(default)]
        of_children: Usage,
        #[serde(default, rename = "duration_ms", deserialize_with = "millis")]
        duration: Duration,
        #[serde(default)]
        usd: Option<f64>,
        #[serde(default)]
        of_children_usd: Option<f64>,
    },
    /// Any other event.
    #[serde(other)]
    Other,
}

impl TraceEvent {
    /// Parses a line; `None` if it is not an event.
    pub fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

fn rfc3339<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SystemTime>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| humantime::parse_rfc3339(&text).map_err(D::Error::custom)).transpose()
}

/// Reads milliseconds. A value of strangers may be negative, or more than a duration holds.
fn millis<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    const PER_SECOND: f64 = 1_000.0;
    f64::deserialize(from).map(|millis| Duration::try_from_secs_f64(millis / PER_SECOND).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::{json, to_value};

    use super::*;
    use shelly_core::event::{Event, StreamEvent};

    #[test]
    fn events_of_the_host_are_read_back() {
        let read = |event: Event| {
            let time = UNIX_EPOCH + Duration::from_millis(1_500);
            let event = StreamEvent { sequence: 3, time, run: Some("r.1".into()), parent: Some("r".into()), event };
            let read = TraceEvent::parse(&serde_json::to_string(&event).unwrap()).unwrap();
            assert_eq!((read.sequence, read.time, read.run.as_deref()), (3, Some(time), Some("r.1")));
            read.kind
        };
        let agent: Arc<str> = "ada".into();
        let usage = Usage { input_tokens: u64::MAX, output_tokens: 2, ..Usage::default() };
        let duration = Duration::from_micros(2_500);
        let finished = Event::ModelFinished {
            agent: agent.clone(),
            iteration: 2,
            model: "m".into(),
            stop: StopReason::Other("odd".into()),
            calls: 1,
            usage,
            duration,
        };
        let stop = StopReason::Other("odd".into());
        let expected =
            TraceEventKind::ModelFinished { iteration: 2, model: "m".into(), stop, usage, duration, usd: None };
        assert_eq!(read(finished), expected);
        let message = Arc::new(Message::user("Hi."));
        let added = Event::MessageAdded { agent: agent.clone(), role: Role::User, message: Some(Arc::clone(&message)) };
        assert_eq!(read(added), TraceEventKind::MessageAdded { role: Role::User, message: Some(message) });
        let (error, of_children) = (Some("no".to_owned()), Usage::default());
        let ended = Event::RunFinished { agent, error: error.clone(), iterations: 4, usage, of_children, duration };
        let (usd, of_children_usd) = (None, None);
        let expected =
            TraceEventKind::RunFinished { error, iterations: 4, usage, of_children, duration, usd, of_children_usd };
        assert_eq!(read(ended), expected);
    }

    #[test]
    fn unknown_events_and_members_are_ignored() {
        let parse = |value: serde_json::Value| TraceEvent::parse(&to_value(value).unwrap().to_string());
        let event = parse(json!({"sequence": 1, "event": "not_yet_known", "x": [1]})).unwrap();
        assert_eq!((event.kind, event.time), (TraceEventKind::Other, None));
        let event = parse(json!({"sequence": 1, "event": "missed", "count": 2, "more": {}})).unwrap();
        assert_eq!(event.kind, TraceEventKind::Missed { count: 2 });
        for wrong in [json!(1), json!({"event": "missed"}), json!({"sequence": 1}), json!({"sequence": 1, "event": 2})]
        {
            assert_eq!(parse(wrong.clone()), None, "{wrong}");
        }
        let far = json!({"sequence": 1, "event": "run_finished", "agent": "a", "duration_ms": -1e300});
        assert!(matches!(parse(far).unwrap().kind, TraceEventKind::RunFinished { duration: Duration::ZERO, .. }));
    }
}
