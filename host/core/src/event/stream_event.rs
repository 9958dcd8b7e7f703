use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::Event;
use crate::limits;

/// One event with its place in the stream. Its JSON is that of the event with these fields beside it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StreamEvent {
    /// Counts the events of one sink, from 1; a reader that misses some sees the gap.
    pub sequence: u64,
    /// The time at which the event was emitted.
    #[serde(serialize_with = "serialize_time")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub time: SystemTime,
    /// The id of the run that the event is about; absent for those about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Arc<str>>,
    /// The id of the run that delegated that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<str>>,
    /// The event itself.
    #[serde(flatten)]
    pub event: Event,
}

/// Serializes a time as RFC 3339 in UTC with milliseconds.
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize_time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    // A clock that is set to a time that cannot be written must not end the stream.
    let time = (*time).clamp(UNIX_EPOCH, UNIX_EPOCH + limits::LAST_DATE);
    serializer.collect_str(&humantime::format_rfc3339_millis(time))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{json, to_value};

    use super::*;

    #[test]
    fn stream_event_is_one_flat_object() {
        let warning = Event::Warning { message: "m".into() };
        let event = StreamEvent { sequence: 7, time: UNIX_EPOCH, run: None, parent: None, event: warning };
        let json = json!({"sequence": 7, "time": "1970-01-01T00:00:00.000Z", "event": "warning", "message": "m"});
        assert_eq!(to_value(&event).unwrap(), json);
        let time = UNIX_EPOCH + Duration::from_micros(1_764_234_567_890_999);
        let event = StreamEvent { time, run: Some("r.1".into()), parent: Some("r".into()), ..event };
        let json = to_value(&event).unwrap();
        assert_eq!([&json["time"], &json["run"], &json["parent"]], ["2025-11-27T09:09:27.890Z", "r.1", "r"]);
        let early = StreamEvent { time: UNIX_EPOCH - Duration::from_secs(1), ..event.clone() };
        assert_eq!(to_value(&early).unwrap()["time"], "1970-01-01T00:00:00.000Z");
        let late = StreamEvent { time: UNIX_EPOCH + limits::LAST_DATE + Duration::from_secs(1), ..event };
        assert_eq!(to_value(&late).unwrap()["time"], "9999-12-31T23:59:59.000Z");
    }
}
