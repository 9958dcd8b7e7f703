use schemars::JsonSchema;
use serde::Serialize;

use super::StreamEvent;

/// The version of the stream of events. New events and new fields come within a version; everything else raises it.
pub const EVENT_STREAM_VERSION: u32 = 1;

/// The first line of a stream of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "event", rename = "stream_started")]
pub struct StreamStart<'a> {
    /// The version of the stream: readers refuse one that they do not know.
    pub version: u32,
    /// The version of the host.
    pub host: &'a str,
    /// The name of the session in which the run is recorded; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a str>,
}

/// One event as a line of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct StreamLine<'a> {
    /// The name of the session in which the run is recorded; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<&'a str>,
    /// The event with its place in the stream.
    #[serde(flatten)]
    pub event: &'a StreamEvent,
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::{json, to_value};

    use super::*;
    use crate::event::Event;

    #[test]
    fn stream_lines_name_their_session() {
        let start = StreamStart { version: EVENT_STREAM_VERSION, host: "0.1.0", session: None };
        assert_eq!(to_value(start).unwrap(), json!({"event": "stream_started", "version": 1, "host": "0.1.0"}));
        let start = StreamStart { session: Some("s"), ..start };
        assert_eq!(to_value(start).unwrap()["session"], "s");
        let missed = Event::Missed { count: 2 };
        let event = StreamEvent { sequence: 3, time: UNIX_EPOCH, run: Some("r".into()), parent: None, event: missed };
        let time = "1970-01-01T00:00:00.000Z";
        let json = json!({"session": "s", "sequence": 3, "time": time, "run": "r", "event": "missed", "count": 2});
        assert_eq!(to_value(StreamLine { session: Some("s"), event: &event }).unwrap(), json);
    }
}
