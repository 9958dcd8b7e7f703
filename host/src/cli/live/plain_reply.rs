use std::io::Write;

use crate::{chat::Role, cli::secrets::without_secrets, event::Event, model::ReplyDelta};

/// Writes the replies of the entry agent as plain text as they come, for a standard output that is no terminal.
pub struct PlainReply<W> {
    output: W,
    /// The text of the reply so far.
    reply: String,
    /// The reply that was written whole, if no other followed it.
    whole: Option<String>,
    /// `true` if something was written before this reply.
    is_later: bool,
}

impl<W: Write> PlainReply<W> {
    /// Creates a writer that has written nothing.
    pub fn new(output: W) -> Self {
        Self { output, reply: String::new(), whole: None, is_later: false }
    }

    /// Writes what an event of the entry agent adds to its reply. A closed output is no error: its reader wants no more.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::ModelDelta { delta: ReplyDelta::Text(text), .. } => self.write(text),
            Event::ModelFailed { .. } => self.end(),
            Event::MessageAdded { role: Role::Assistant, message: Some(message), .. } => {
                let text = message.text_content();
                // What is written has no credentials; the message still has them.
                let shown = without_secrets(&text);
                if self.reply.is_empty() && !text.trim().is_empty() {
                    self.write(&shown);
                }
                let is_whole = self.reply == shown;
                self.end();
                self.whole = is_whole.then_some(text);
            }
            _ => {}
        }
    }

    /// Returns the last reply, if it was written whole.
    pub fn finish(mut self) -> Option<String> {
        self.end();
        self.whole
    }

    fn write(&mut self, text: &str) {
        if self.reply.is_empty() && self.is_later {
            let _ = self.output.write_all(b"\n");
        }
        (self.is_later, self.whole) = (true, None);
        self.reply.push_str(text);
        let _ = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
    }

    fn end(&mut self) {
        if !self.reply.is_empty() && !self.reply.ends_with('\n') {
            let _ = self.output.write_all(b"\n").and_then(|()| self.output.flush());
        }
        self.reply.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::live::events_for_tests::{message, reply_failed, text};

    fn delta(piece: &str) -> Event {
        text("a", piece)
    }

    fn added(whole: &str) -> Event {
        message("a", whole)
    }

    #[test]
    fn replies_are_written_as_they_come() {
        for (events, written, whole) in [
            (vec![delta("Four"), delta(".")], "Four.\n", None),
            (vec![delta("Four"), delta("."), added("Four.")], "Four.\n", Some("Four.")),
            (vec![added("Four.\n")], "Four.\n", Some("Four.\n")),
            (
                vec![delta("I look."), added("I look."), delta("Four."), added("Four.")],
                "I look.\n\nFour.\n",
                Some("Four."),
            ),
            (vec![delta("Fo"), reply_failed("a"), delta("Four."), added("Four.")], "Fo\n\nFour.\n", Some("Four.")),
            (vec![delta("Four."), added("Five.")], "Four.\n", None),
            (vec![added("")], "", Some("")),
        ] {
            let mut output = Vec::new();
            let mut reply = PlainReply::new(&mut output);
            events.iter().for_each(|event| reply.show(event));
            assert_eq!(reply.finish().as_deref(), whole, "{events:?}");
            assert_eq!(String::from_utf8(output).unwrap(), written, "{events:?}");
        }
    }
}
