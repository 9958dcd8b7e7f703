use std::sync::Arc;

use crate::{
    chat::ReplyDelta,
    event::{Event, StreamEvent},
};

/// A piece of an answer that is being said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerPiece {
    /// More of the text.
    Text(String),
    /// More of the thoughts.
    Thinking(String),
}

/// The text that the agent of a run has said to the client so far.
///
/// An agent may say something in each of its turns. The texts of its turns are paragraphs of one text, the last of
/// which is the answer. A text that broke off stays, as it was sent, and the repeated one follows it.
#[derive(Debug, Default)]
pub struct SaidText {
    /// The text of the turn.
    turn: String,
    /// `true` if text was sent before this turn.
    has_said: bool,
    /// `true` if the text of turns is kept back until the answer is there.
    is_held: bool,
}

impl SaidText {
    /// Keeps the texts of all turns back: only the answer is said. Thoughts are not kept back.
    pub fn held() -> Self {
        Self { is_held: true, ..Self::default() }
    }

    /// Takes an event of a run with this id. Returns the piece to send, if there is one.
    pub fn take(&mut self, run: &Arc<str>, event: &StreamEvent) -> Option<AnswerPiece> {
        if event.run.as_ref() != Some(run) {
            // Of an agent that works for the run, which speaks to its agent.
            return None;
        }
        match &event.event {
            Event::ModelDelta { delta: ReplyDelta::Thinking(text), .. } if !text.is_empty() => {
                Some(AnswerPiece::Thinking(text.clone()))
            }
            Event::ModelDelta { delta: ReplyDelta::Text(text), .. } if !text.is_empty() && !self.is_held => {
                let begins = self.begin();
                self.turn.push_str(text);
                Some(AnswerPiece::Text(format!("{begins}{text}")))
            }
            Event::ModelStarted { .. } | Event::ModelFailed { .. } => {
                self.has_said |= !self.turn.is_empty();
                self.turn.clear();
                None
            }
            _ => None,
        }
    }

    /// Returns the part of the answer that was not said.
    pub fn rest(&mut self, answer: &str) -> Option<String> {
        let rest = match answer.strip_prefix(self.turn.as_str()) {
            Some(rest) => rest.to_owned(),
            None if self.turn.trim() == answer.trim() => return None,
            None => {
                self.has_said = true;
                self.turn.clear();
                answer.to_owned()
            }
        };
        let begins = self.begin();
        self.turn.push_str(&rest);
        (!rest.trim().is_empty()).then(|| format!("{begins}{rest}"))
    }

    /// Returns the text of the turn.
    pub fn turn(&self) -> &str {
        &self.turn
    }

    /// Returns the break before the first text of a turn.
    fn begin(&self) -> &'static str {
        if self.has_said && self.turn.is_empty() { "\n\n" } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn event(run: &str, event: Event) -> StreamEvent {
        StreamEvent { sequence: 1, time: UNIX_EPOCH, run: Some(run.into()), parent: None, event }
    }

    fn text(text: &str) -> Event {
        Event::ModelDelta { agent: "a".into(), delta: ReplyDelta::Text(text.into()) }
    }

    fn failed() -> Event {
        Event::ModelFailed { agent: "a".into(), model: "m".into(), reason: "gone".into(), again: true }
    }

    /// Returns the text that a client reads of a run with these events and this answer.
    fn read(mut said: SaidText, events: Vec<Event>, answer: &str) -> String {
        let run: Arc<str> = "r".into();
        let mut read = String::new();
        for one in events {
            if let Some(AnswerPiece::Text(text)) = said.take(&run, &event("r", one)) {
                read.push_str(&text);
            }
        }
        read + &said.rest(answer).unwrap_or_default()
    }

    #[test]
    fn text_ends_with_the_whole_answer() {
        let live = SaidText::default;
        for (said, events, answer, expected) in [
            (live(), vec![text("Fo"), text("ur.")], "Four.", "Four."),
            (live(), vec![text("Fo")], "Four.", "Four."),
            (live(), vec![], "Four.", "Four."),
            (live(), vec![text("Four.\n")], "Four.", "Four.\n"),
            (live(), vec![text("Let me see."), failed(), text("Four.")], "Four.", "Let me see.\n\nFour."),
            (live(), vec![text("Fi"), failed()], "Four.", "Fi\n\nFour."),
            (live(), vec![text("Five.")], "Four.", "Five.\n\nFour."),
            (live(), vec![failed(), text(""), text("Four.")], "Four.", "Four."),
            (live(), vec![text("Four.")], "", "Four."),
            (SaidText::held(), vec![text("Let me see."), failed(), text("4")], "4", "4"),
        ] {
            assert_eq!(read(said, events.clone(), answer), expected, "{events:?}");
        }
    }

    #[test]
    fn only_the_agent_of_the_run_speaks() {
        let (run, mut said): (Arc<str>, _) = ("r".into(), SaidText::default());
        assert_eq!(said.take(&run, &event("r.1", text("for the agent"))), None);
        assert_eq!(said.take(&run, &StreamEvent { run: None, ..event("r", text("for nobody")) }), None);
        let thought = Event::ModelDelta { agent: "a".into(), delta: ReplyDelta::Thinking("hm".into()) };
        assert_eq!(said.take(&run, &event("r", thought)), Some(AnswerPiece::Thinking("hm".into())));
        assert_eq!(said.take(&run, &event("r", text("hi"))), Some(AnswerPiece::Text("hi".into())));
        assert_eq!(said.turn(), "hi");
    }
}
