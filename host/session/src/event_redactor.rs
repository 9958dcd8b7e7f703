use std::{collections::BTreeMap, sync::Arc};

use super::{SecretStream, Secrets};
use shelly_core::{
    chat::ReplyDelta,
    event::{Event, StreamEvent},
};

/// Redacts replies that are shown as they arrive: text that may begin a credential is held back until it is known to be
/// none.
#[derive(Default)]
pub struct EventRedactor(BTreeMap<(Arc<str>, ReplyTextKind), SecretStream>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReplyTextKind {
    Text,
    Thinking,
}

impl EventRedactor {
    /// Takes an event, and returns the events to show now. They bear the number of the event, so numbers never decrease; a
    /// piece whose whole text is held back becomes an empty one, as a gap would mean that an event was missed.
    pub fn pass_numbered(&mut self, secrets: &Secrets, event: &StreamEvent) -> Vec<StreamEvent> {
        numbered(self.pass(secrets, &event.event), event)
    }

    /// Takes an event, and returns the events to show now, with these credentials replaced in replies. Text that may begin a
    /// credential is held back until the next piece decides.
    pub fn pass(&mut self, secrets: &Secrets, event: &Event) -> Vec<Event> {
        use ReplyTextKind::{Text, Thinking};
        let (agent, ends, piece) = match event {
            Event::ModelDelta { agent, delta: ReplyDelta::Text(text) } => (agent, &[Thinking][..], Some((Text, text))),
            Event::ModelDelta { agent, delta: ReplyDelta::Thinking(text) } => {
                (agent, &[Text][..], Some((Thinking, text)))
            }
            Event::ModelDelta { agent, delta: ReplyDelta::ToolCall(_) }
            | Event::ModelStarted { agent, .. }
            | Event::ModelFinished { agent, .. }
            | Event::ModelFailed { agent, .. }
            | Event::RunFinished { agent, .. } => (agent, &[Thinking, Text][..], None),
            other => return vec![other.clone()],
        };
        let mut events: Vec<_> = ends.iter().filter_map(|kind| self.end(agent, *kind)).collect();
        match piece {
            None => events.push(event.clone()),
            Some((kind, text)) => {
                let stream = self.0.entry((Arc::clone(agent), kind)).or_insert_with(|| secrets.stream());
                events.extend(shown(agent, kind, stream.push(text)));
            }
        }
        events
    }

    /// Ends the text of one agent and kind. Returns the text that was held back, if there is any.
    fn end(&mut self, agent: &Arc<str>, kind: ReplyTextKind) -> Option<Event> {
        let mut stream = self.0.remove(&(Arc::clone(agent), kind))?;
        shown(agent, kind, stream.finish())
    }
}

fn shown(agent: &Arc<str>, kind: ReplyTextKind, text: String) -> Option<Event> {
    let delta = match kind {
        ReplyTextKind::Text => ReplyDelta::Text,
        ReplyTextKind::Thinking => ReplyDelta::Thinking,
    };
    (!text.is_empty()).then(|| Event::ModelDelta { agent: Arc::clone(agent), delta: delta(text) })
}

/// Returns what is shown of an event in its place in the stream; an empty piece if nothing is.
fn numbered(mut shown: Vec<Event>, event: &StreamEvent) -> Vec<StreamEvent> {
    let StreamEvent { sequence, time, run, parent, event } = event;
    if shown.is_empty()
        && let Event::ModelDelta { agent, delta } = event
    {
        let delta = match delta {
            ReplyDelta::Thinking(_) => ReplyDelta::Thinking(String::new()),
            ReplyDelta::Text(_) | ReplyDelta::ToolCall(_) | ReplyDelta::Usage(_) => ReplyDelta::Text(String::new()),
        };
        shown.push(Event::ModelDelta { agent: Arc::clone(agent), delta });
    }
    let place =
        |event| StreamEvent { sequence: *sequence, time: *time, run: run.clone(), parent: parent.clone(), event };
    shown.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn every_event_has_a_line_with_its_number() {
        let secrets = Secrets::new([("KEY", "sk-12345")]);
        let mut pieces = EventRedactor::default();
        let agent: Arc<str> = "a".into();
        let text = |text: &str| Event::ModelDelta { agent: Arc::clone(&agent), delta: ReplyDelta::Text(text.into()) };
        let (usage, of_children) = Default::default();
        let end = Event::RunFinished {
            agent: Arc::clone(&agent),
            error: None,
            iterations: 1,
            usage,
            of_children,
            duration: Default::default(),
        };
        let mut printed = Vec::new();
        for (event, sequence) in [text("A s"), text("k-12"), end.clone()].into_iter().zip(1..) {
            let event = StreamEvent { sequence, time: UNIX_EPOCH, run: None, parent: None, event };
            let shown = pieces.pass(&secrets, &event.event);
            printed.extend(numbered(shown, &event).into_iter().map(|line| (line.sequence, line.event)));
        }
        assert_eq!(printed, [(1, text("A ")), (2, text("")), (3, text("sk-12")), (3, end)]);
    }

    #[test]
    fn credential_split_over_deltas_is_redacted() {
        let secrets = Secrets::new([("KEY", "sk-12345")]);
        let mut pieces = EventRedactor::default();
        let piece = |agent: &str, delta| Event::ModelDelta { agent: agent.into(), delta };
        let (text, thought) =
            (|text: &str| ReplyDelta::Text(text.into()), |text: &str| ReplyDelta::Thinking(text.into()));
        let failed = |agent: &str| Event::ModelFailed {
            agent: agent.into(),
            model: "m".into(),
            reason: "gone".into(),
            again: true,
        };
        for (event, expected) in [
            (piece("a", text("It is s")), vec![piece("a", text("It is "))]),
            (piece("b", text("so")), vec![piece("b", text("so"))]),
            (piece("a", text("k-12")), vec![]),
            (piece("a", text("345.")), vec![piece("a", text("[secret KEY]."))]),
            (piece("a", thought("sk-")), vec![]),
            (piece("a", text("12345")), vec![piece("a", thought("sk-")), piece("a", text("12345"))]),
            (piece("b", text("sk-123")), vec![]),
            (failed("a"), vec![failed("a")]),
            (failed("b"), vec![piece("b", text("sk-123")), failed("b")]),
        ] {
            assert_eq!(pieces.pass(&secrets, &event), expected, "{event:?}");
        }
        assert!(pieces.0.is_empty());
    }
}
