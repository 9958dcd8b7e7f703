//! Events as they are written: without what the journal holds already.

use std::time::SystemTime;

use serde::{Serialize, de::IgnoredAny};

use super::{Secrets, event_facts::EventFacts, line_format::members, message_place::MessagePlace};
use shelly_core::{
    event::{EVENT_STREAM_VERSION, Event, StreamEvent, serialize_time},
    limits,
};

/// The name of the first event of each sink.
pub(super) const STREAM_STARTED: &str = "stream_started";

/// The members that a recorded event has beside those of the event.
#[derive(Default, Serialize)]
struct RecordedMembers {
    /// The place of the message in the journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<MessagePlace>,
    /// The bytes of a message that is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_bytes: Option<usize>,
    /// The cost of a reply, or of a whole run, in US dollars; absent if no price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    usd: Option<f64>,
    /// The cost of the runs that worked for a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    of_children_usd: Option<f64>,
}

/// Returns the members of a line for this event, without its number; `None` if it is not recorded.
pub(super) fn event_members(event: &StreamEvent, facts: &mut EventFacts, secrets: &Secrets) -> Option<Vec<u8>> {
    let mut extra = RecordedMembers::default();
    let mut written = None;
    match &event.event {
        // A reply is in the journal as a whole.
        Event::ModelDelta { .. } => return None,
        Event::MessageAdded { agent, role, message: Some(message) } => {
            extra.recorded = facts.place_of(agent, message);
            let bytes = message.bytes();
            let is_too_long = bytes > limits::SESSION_EVENT_MESSAGE_BYTES;
            if extra.recorded.is_none() && is_too_long {
                extra.omitted_bytes = Some(bytes);
            }
            if extra.recorded.is_some() || is_too_long {
                let event_alone = Event::MessageAdded { agent: agent.clone(), role: *role, message: None };
                let (run, parent) = (event.run.clone(), event.parent.clone());
                written = Some(StreamEvent { run, parent, event: event_alone, ..*event });
            }
        }
        Event::ModelFinished { agent, .. } => extra.usd = dollars(facts.cost(agent).reply),
        Event::RunFinished { agent, .. } => {
            let cost = facts.cost(agent);
            (extra.usd, extra.of_children_usd) = (dollars(cost.own), dollars(cost.of_children));
            facts.finish(agent);
        }
        _ => {}
    }
    // An event holds only text and numbers, so serialization cannot fail.
    let json = serde_json::to_vec(written.as_ref().unwrap_or(event)).ok()?;
    let mut line = without_sequence(&json).to_vec();
    let extra = serde_json::to_vec(&extra).ok()?;
    if members(&extra).is_empty() {
        return Some(cleaned(line, secrets));
    }
    line.push(b',');
    line.extend_from_slice(members(&extra));
    Some(cleaned(line, secrets))
}

/// Returns the members of the line with which the events of one sink begin.
pub(super) fn stream_members() -> Vec<u8> {
    #[derive(Serialize)]
    struct RecordedStreamStart {
        #[serde(serialize_with = "serialize_time")]
        time: SystemTime,
        event: &'static str,
        version: u32,
        host: &'static str,
    }
    let (event, host) = (STREAM_STARTED, env!("CARGO_PKG_VERSION"));
    let start = RecordedStreamStart { time: SystemTime::now(), event, version: EVENT_STREAM_VERSION, host };
    serde_json::to_vec(&start).map(|json| members(&json).to_vec()).unwrap_or_default()
}

/// Returns the members of an event of the session itself, which is about no run.
pub(super) fn own_members(event: Event) -> Vec<u8> {
    let event = StreamEvent { sequence: 0, time: SystemTime::now(), run: None, parent: None, event };
    serde_json::to_vec(&event).map(|json| without_sequence(&json).to_vec()).unwrap_or_default()
}

/// Returns the members of an event without its number, which comes first: the events of a session are counted anew.
fn without_sequence(json: &[u8]) -> &[u8] {
    let all = members(json);
    memchr::memchr(b',', all).map_or(all, |end| &all[end + 1..])
}

/// Returns the members without secrets.
fn cleaned(members: Vec<u8>, secrets: &Secrets) -> Vec<u8> {
    let is_valid = |members: &[u8]| {
        let object = [&b"{"[..], members, b"}"].concat();
        serde_json::from_slice::<IgnoredAny>(&object).is_ok()
    };
    secrets.clean_json(members, is_valid)
}

/// Returns a cost in dollars; `None` if it is zero, since a price may be unknown.
fn dollars(pico: u64) -> Option<f64> {
    const PICO: f64 = 1e12;
    (pico > 0).then_some(pico as f64 / PICO)
}
