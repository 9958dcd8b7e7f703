//! Assembly of a model's reply while it arrives.

use crate::{
    sink::{self, Delta},
    text,
    types::{Completion, Error, Part, StopReason, Thinking, ToolCall, Usage},
};

/// The maximum size of a reply in bytes, with texts, thinking and calls together; the host's bound is the same.
const MOST_BYTES: usize = 16 << 20;

/// The number of bytes that each part counts in addition to its text: a server may alternate between a letter of text and
/// a letter of thinking.
const PIECE: usize = 64;

/// The maximum number of tool calls of a reply: more than an agent answers.
const MOST_CALLS: usize = 1_024;

/// The maximum number of characters of a model's name and of a stop reason.
const MOST_WORD: usize = 256;

/// The maximum number of bytes that the sink takes at once.
const MOST_EMITTED: usize = 64 << 10;

/// A model's reply that is assembled while it arrives. Each piece is emitted to [`sink`] when it is added, so that the
/// emitted pieces equal the returned reply. Bounds: 16 MiB, 1,024 tool calls ([`Error::TooLarge`]).
///
/// ```
/// use shelly_plugin::{Error, Part, Streamed, types::StopReason};
///
/// fn reply() -> Result<shelly_plugin::types::Completion, Error> {
///     let mut reply = Streamed::new("small");
///     reply.text("Let me ")?;
///     reply.text("see:")?;
///     reply.call(String::new(), "read_file", r#"{"path":"a.txt"}"#)?;
///     reply.finish(StopReason::ToolCalls)
/// }
///
/// assert_eq!(reply().unwrap().parts[0], Part::from("Let me see:"));
/// ```
#[derive(Debug)]
pub struct Streamed {
    parts: Vec<Part>,
    /// The calls that arrive in pieces: the vendor's number of each call, and its index in `parts`.
    open: Vec<(u64, usize)>,
    calls: usize,
    usage: Usage,
    model: String,
    bytes: usize,
}

impl Streamed {
    /// Creates an empty reply of this model.
    pub fn new(model: &str) -> Streamed {
        let (parts, open, usage) = (Vec::new(), Vec::new(), Usage::default());
        Streamed { parts, open, calls: 0, usage, model: model.to_owned(), bytes: 0 }
    }

    /// Adds text.
    pub fn text(&mut self, piece: &str) -> Result<(), Error> {
        if piece.is_empty() {
            return Ok(());
        }
        self.grow(piece.len())?;
        match self.parts.last_mut() {
            Some(Part::Text(before)) => before.push_str(piece),
            _ => self.push(Part::from(piece)),
        }
        emit(piece, Delta::Text);
        Ok(())
    }

    /// Adds thinking.
    pub fn thinking(&mut self, piece: &str) -> Result<(), Error> {
        if piece.is_empty() {
            return Ok(());
        }
        self.grow(piece.len())?;
        match self.parts.last_mut() {
            Some(Part::Thinking(before)) => before.text.push_str(piece),
            _ => self.push(Part::Thinking(Thinking { text: piece.to_owned(), opaque: None })),
        }
        emit(piece, Delta::Thinking);
        Ok(())
    }

    /// Adds data that the vendor expects back with the thinking, such as its signature. Without thinking before it, a
    /// part with empty thinking is added.
    pub fn seal(&mut self, piece: &str) -> Result<(), Error> {
        self.grow(piece.len())?;
        match self.parts.last_mut() {
            Some(Part::Thinking(before)) => before.opaque.get_or_insert_default().push_str(piece),
            _ => self.push(Part::Thinking(Thinking { text: String::new(), opaque: Some(piece.to_owned()) })),
        }
        Ok(())
    }

    /// Adds a complete tool call. A call without an id gets one that is unique in the reply.
    pub fn call(&mut self, id: String, name: &str, arguments: impl Into<String>) -> Result<(), Error> {
        let arguments = arguments.into();
        self.grow(id.len() + name.len() + arguments.len())?;
        self.begin(id, arguments)?;
        self.name(self.parts.len() - 1, name);
        Ok(())
    }

    /// Adds a piece of a tool call. The first piece with a number begins the call. The first non-empty id and the first
    /// non-empty name count; arguments are concatenated.
    pub fn call_piece(&mut self, number: u64, id: &str, name: &str, arguments: &str) -> Result<(), Error> {
        self.grow(id.len() + name.len() + arguments.len())?;
        let found = self.open.iter().rev().find(|(open, _)| *open == number).map(|(_, at)| *at);
        let at = match found {
            Some(at) => at,
            None => {
                self.begin(String::new(), String::new())?;
                self.open.push((number, self.parts.len() - 1));
                self.parts.len() - 1
            }
        };
        if let Part::ToolCall(call) = &mut self.parts[at] {
            if call.id.is_empty() {
                id.clone_into(&mut call.id);
            }
            call.arguments.push_str(arguments);
        }
        self.name(at, name);
        Ok(())
    }

    /// Reports the total usage so far, which replaces the earlier report. It is charged even if the reply fails.
    pub fn usage(&mut self, usage: Usage) {
        if self.usage != usage {
            self.usage = usage;
            sink::emit(&Delta::Usage(usage));
        }
    }

    /// Sets the model that answers, as the vendor names it.
    pub fn model(&mut self, name: &str) {
        if !name.is_empty() {
            self.model = text::short(name, MOST_WORD);
        }
    }

    /// Returns `true` if the reply has tool calls. Some vendors do not report this in their stop reason.
    pub fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Returns the whole reply. Call this only after the server has signalled the end; before that the reply is
    /// incomplete. Calls without arguments get `{}`. A call without a name is [`Error::Unavailable`].
    pub fn finish(mut self, stop: StopReason) -> Result<Completion, Error> {
        let mut number = 0;
        for part in &mut self.parts {
            let Part::ToolCall(call) = part else { continue };
            number += 1;
            if call.name.is_empty() {
                return Err(Error::unavailable("the server sent a tool call without a name"));
            }
            if call.id.is_empty() {
                // The host assigns its own ids to calls; these only have to differ.
                call.id = format!("call-{number}");
            }
            if call.arguments.trim().is_empty() {
                "{}".clone_into(&mut call.arguments);
            }
        }
        let stop = match stop {
            StopReason::Other(word) => StopReason::Other(text::short(&word, MOST_WORD)),
            stop => stop,
        };
        Ok(Completion { parts: self.parts, stop, usage: self.usage, model: self.model, meta: Vec::new() })
    }

    fn begin(&mut self, id: String, arguments: String) -> Result<(), Error> {
        if self.calls == MOST_CALLS {
            return Err(Error::TooLarge(format!("the reply has more than {MOST_CALLS} tool calls")));
        }
        self.calls += 1;
        self.push(Part::ToolCall(ToolCall { id, name: String::new(), arguments, meta: Vec::new() }));
        Ok(())
    }

    fn name(&mut self, at: usize, name: &str) {
        if let Part::ToolCall(call) = &mut self.parts[at]
            && call.name.is_empty()
            && !name.is_empty()
        {
            name.clone_into(&mut call.name);
            emit(name, Delta::ToolCall);
        }
    }

    fn push(&mut self, part: Part) {
        // `grow` checks the bound when the next bytes arrive.
        self.bytes += PIECE;
        self.parts.push(part);
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        if self.bytes <= MOST_BYTES {
            return Ok(());
        }
        Err(Error::TooLarge(format!("the reply has more than {MOST_BYTES} bytes")))
    }
}

/// Emits a text in as many pieces as the sink's bound requires.
fn emit(mut text: &str, delta: fn(String) -> Delta) {
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(MOST_EMITTED));
        sink::emit(&delta(piece.to_owned()));
        text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> Part {
        Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: Vec::new() })
    }

    fn thought(text: &str, opaque: Option<&str>) -> Part {
        Part::Thinking(Thinking { text: text.into(), opaque: opaque.map(Into::into) })
    }

    #[test]
    fn streamed_parts_equal_the_returned_parts() {
        let _ = sink::emitted();
        let mut reply = Streamed::new("asked");
        let usage = Usage { input_tokens: 3, ..Usage::default() };
        for piece in ["Hm", "", "."] {
            reply.thinking(piece).unwrap();
        }
        reply.seal("si").unwrap();
        reply.seal("gned").unwrap();
        let long = "ä".repeat(40_000);
        reply.text("So: ").unwrap();
        reply.text(&long).unwrap();
        reply.usage(usage);
        reply.usage(usage);
        reply.model("");
        reply.model("answering");
        reply.call(String::new(), "read", "").unwrap();
        reply.call("c".into(), "list", "{\"a\":1}").unwrap();
        reply.text("Done.").unwrap();
        assert!(reply.has_calls());
        let completion = reply.finish(StopReason::ToolCalls).unwrap();
        let expected = [
            thought("Hm.", Some("signed")),
            format!("So: {long}").into(),
            call("call-1", "read", "{}"),
            call("c", "list", "{\"a\":1}"),
            "Done.".into(),
        ];
        assert_eq!(completion.parts, expected);
        assert_eq!((completion.usage, &*completion.model), (usage, "answering"));
        let text = |text: &str| Delta::Text(text.into());
        let (first, rest) = long.split_at(MOST_EMITTED);
        let expected = [
            Delta::Thinking("Hm".into()),
            Delta::Thinking(".".into()),
            text("So: "),
            text(first),
            text(rest),
            Delta::Usage(usage),
            Delta::ToolCall("read".into()),
            Delta::ToolCall("list".into()),
            text("Done."),
        ];
        assert_eq!(sink::emitted(), expected);
    }

    #[test]
    fn streamed_call_pieces_are_assembled_by_number() {
        let mut reply = Streamed::new("m");
        for (number, id, name, arguments) in [
            (0, "a", "read", ""),
            (1, "", "", "{\"b\""),
            (0, "x", "y", "{\"a\":"),
            (1, "b", "list", ":2}"),
            (0, "", "", "1}"),
        ] {
            reply.call_piece(number, id, name, arguments).unwrap();
        }
        let parts = reply.finish(StopReason::ToolCalls).unwrap().parts;
        assert_eq!(parts, [call("a", "read", "{\"a\":1}"), call("b", "list", "{\"b\":2}")]);
        let mut nameless = Streamed::new("m");
        nameless.call_piece(0, "a", "", "{}").unwrap();
        assert!(matches!(nameless.finish(StopReason::ToolCalls), Err(Error::Unavailable(_))));
    }

    #[test]
    fn streamed_reply_size_and_call_count_are_bounded() {
        let endless = |step: fn(&mut Streamed) -> Result<(), Error>| {
            let mut reply = Streamed::new("m");
            while step(&mut reply).is_ok() {
                let _ = sink::emitted();
            }
            reply
        };
        let long = endless(|reply| reply.text(&"a".repeat(1 << 20)));
        assert!(matches!(&long.parts[..], [Part::Text(text)] if text.len() >= MOST_BYTES - (1 << 20) - PIECE));
        let many = endless(|reply| reply.text("a").and(reply.thinking("b")));
        assert!(many.parts.len() <= MOST_BYTES / PIECE + 1);
        assert_eq!(endless(|reply| reply.call(String::new(), "a", "{}")).calls, MOST_CALLS);
        assert_eq!(endless(|reply| reply.call_piece(reply.calls as u64, "", "a", "")).calls, MOST_CALLS);
        let mut word = Streamed::new("m");
        word.model(&"m".repeat(1_000));
        let completion = word.finish(StopReason::Other("o".repeat(1_000))).unwrap();
        assert!(completion.model.len() < 300 && matches!(completion.stop, StopReason::Other(word) if word.len() < 300));
    }
}
