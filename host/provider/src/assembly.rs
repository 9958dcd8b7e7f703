//! Assembly of a reply from its pieces, independent of the wire format.

use serde::de::IgnoredAny;

use super::{
    incoming_reply::{ReplySource, too_large},
    printed_calls::{PrintedCallFilter, PrintedTextRemainder},
    think_tags::{ThinkSplit, ThinkTags},
    tool_names::ToolNames,
};
use shelly_core::{
    chat::{Part, ThinkingPart, ToolCall, UNREAD_CALL},
    error::Fault,
    limits,
    model::{Completion, DeltaSink, ReplyDelta, StopReason, Usage},
};

/// A reply under assembly. Deltas go to the sink as the pieces arrive.
pub struct ReplyAssembly<'a> {
    names: &'a ToolNames,
    sink: &'a DeltaSink,
    pieces: Vec<ReplyPiece>,
    /// The index of the piece that grows.
    at: usize,
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    model: Option<String>,
    bytes: usize,
    /// A counter that grows with everything that advances the reply.
    progress: u64,
    think_tags: Option<ThinkTags>,
    printed: Option<PrintedCallFilter<'a>>,
    /// Text that is in the reply and has not been emitted yet.
    unsent: String,
    /// The reason why text that looks like a call is not one.
    doubt: Option<String>,
}

/// The approximate number of bytes in a token.
const BYTES_PER_TOKEN: usize = 4;

/// A piece of the reply, in the order in which the model wrote them.
enum ReplyPiece {
    Text(String),
    Thinking(ThinkingPart),
    /// An index into the calls.
    Call(usize),
    /// A placeholder for a piece that has not arrived yet; keeps new content apart from the piece before it.
    Break,
}

impl<'a> ReplyAssembly<'a> {
    /// Creates an empty reply. `names` are the names of the tools that the request offered.
    pub fn new(names: &'a ToolNames, sink: &'a DeltaSink) -> Self {
        Self {
            names,
            sink,
            pieces: Vec::new(),
            at: 0,
            calls: Vec::new(),
            usage: None,
            model: None,
            bytes: 0,
            progress: 0,
            think_tags: None,
            printed: None,
            unsent: String::new(),
            doubt: None,
        }
    }

    /// Enables the search for calls of offered tools, and for thoughts, that the model printed in the text.
    pub fn reading_text(self, calls: bool, thoughts: bool) -> Self {
        let printed = (calls && self.names.offers_any()).then(|| PrintedCallFilter::new(self.names));
        Self { printed, think_tags: thoughts.then(ThinkTags::default), ..self }
    }

    /// Appends text to the growing piece if it is text; otherwise begins a text piece.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply exceeds [`limits::REPLY_BYTES`] in all, as for every method that adds to it.
    pub async fn text(&mut self, text: String) -> Result<(), Fault> {
        // Counts now, because some of the text may be held back.
        self.progress += text.len() as u64;
        let text = match &mut self.think_tags {
            Some(tags) => {
                let ThinkSplit { thought, text } = tags.take(&text)?;
                self.thinking(thought).await?;
                text
            }
            None => text,
        };
        let text = match &mut self.printed {
            Some(printed) => printed.take(&text)?,
            None => text,
        };
        self.add_text(&text)?;
        self.show_text().await;
        Ok(())
    }

    fn add_text(&mut self, text: &str) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        match self.pieces.get_mut(self.at) {
            Some(ReplyPiece::Text(before)) => before.push_str(text),
            _ => self.begin(ReplyPiece::Text(text.to_owned())),
        }
        self.unsent.push_str(text);
        Ok(())
    }

    async fn show_text(&mut self) {
        if !self.unsent.is_empty() {
            self.sink.emit(ReplyDelta::Text(std::mem::take(&mut self.unsent))).await;
        }
    }

    /// Ends the search for the printed call under way because something other than text follows: its text is not a call, and
    /// goes into the reply first.
    fn interrupt(&mut self) -> Result<(), Fault> {
        let held = self.printed.as_mut().map(PrintedCallFilter::interrupt).unwrap_or_default();
        self.add_text(&held)
    }

    /// Appends to the growing piece if it is a thought; otherwise begins a thought.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply grows too large.
    pub async fn thinking(&mut self, text: String) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.interrupt()?;
        self.show_text().await;
        self.add_thought(&text)?;
        self.sink.emit(ReplyDelta::Thinking(text)).await;
        Ok(())
    }

    fn add_thought(&mut self, text: &str) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        match self.pieces.get_mut(self.at) {
            Some(ReplyPiece::Thinking(before)) => before.text.push_str(text),
            _ => self.begin(ReplyPiece::Thinking(ThinkingPart { text: text.to_owned(), opaque: None })),
        }
        Ok(())
    }

    /// Appends to the opaque state that the vendor expects back with the growing thought, or begins a thought without words.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply grows too large.
    pub fn seal(&mut self, opaque: &str) -> Result<(), Fault> {
        self.interrupt()?;
        self.grow(opaque.len())?;
        match self.pieces.get_mut(self.at) {
            Some(ReplyPiece::Thinking(thought)) => thought.opaque.get_or_insert_default().push_str(opaque),
            _ => self.begin(ReplyPiece::Thinking(ThinkingPart { text: String::new(), opaque: Some(opaque.into()) })),
        }
        Ok(())
    }

    /// Begins a new piece for whatever follows. Returns its index, for wire formats whose pieces grow in turns.
    pub fn split(&mut self) -> usize {
        self.push(ReplyPiece::Break);
        self.at
    }

    /// Makes the piece at this index the growing one.
    pub fn return_to(&mut self, place: usize) {
        self.at = place;
    }

    /// Begins a tool call that the server reports; from then on no printed calls or thoughts are looked for in the text.
    /// Returns the index of the call.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] beyond [`limits::CALLS_IN_REPLY`].
    pub fn begin_call(&mut self) -> Result<usize, Fault> {
        if let Some(mut tags) = self.think_tags.take() {
            let ThinkSplit { thought, text } = tags.finish();
            self.add_thought(&thought)?;
            self.add_text(&text)?;
        }
        self.interrupt()?;
        self.printed = None;
        self.push_call()
    }

    fn push_call(&mut self) -> Result<usize, Fault> {
        let at = self.calls.len();
        if at == limits::CALLS_IN_REPLY {
            let message = format!("the reply has more than {} tool calls", limits::CALLS_IN_REPLY);
            return Err(Fault::TooLarge { message });
        }
        self.progress += 1;
        self.calls.push(ToolCall { id: String::new(), name: String::new(), arguments: String::new(), meta: vec![] });
        self.push(ReplyPiece::Call(at));
        Ok(at)
    }

    /// Returns a counter that grows with each text, thought, call and change of usage. Nothing else advances the reply.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// Returns the call at this index in its current state.
    pub fn call(&self, at: usize) -> &ToolCall {
        &self.calls[at]
    }

    /// Sets the id of a call unless it has one.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply grows too large.
    pub fn call_id(&mut self, at: usize, id: String) -> Result<(), Fault> {
        self.grow(id.len())?;
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        Ok(())
    }

    /// Sets the name of a call, as the vendor writes it, unless it has one.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply grows too large.
    pub async fn call_name(&mut self, at: usize, name: String) -> Result<(), Fault> {
        self.grow(name.len())?;
        self.show_text().await;
        let call = &mut self.calls[at];
        if call.name.is_empty() && !name.is_empty() {
            call.name = self.names.host(name);
            self.sink.emit(ReplyDelta::ToolCall(call.name.clone())).await;
        }
        Ok(())
    }

    /// Appends to the arguments of a call.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply grows too large.
    pub fn arguments(&mut self, at: usize, piece: &str) -> Result<(), Fault> {
        self.grow(piece.len())?;
        self.calls[at].arguments.push_str(piece);
        Ok(())
    }

    /// Attaches metadata to a call, such as a value that the vendor expects back with it.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if the reply grows too large.
    pub fn call_fact(&mut self, at: usize, key: &str, value: String) -> Result<(), Fault> {
        self.grow(key.len() + value.len())?;
        self.calls[at].meta.push((key.into(), value));
        Ok(())
    }

    /// Sets the usage so far, which replaces an earlier report.
    pub async fn usage(&mut self, usage: Usage) {
        if self.usage != Some(usage) {
            self.usage = Some(usage);
            self.progress += 1;
            self.sink.emit(ReplyDelta::Usage(usage)).await;
        }
    }

    /// Sets the name of the model that answers, as the vendor writes it; only the first name counts.
    pub fn model(&mut self, source: &ReplySource<'_>, model: &str) {
        if self.model.is_none() && !model.is_empty() {
            self.model = Some(source.word(model));
        }
    }

    /// Estimates the output tokens if the server reported no usage.
    pub async fn estimate_usage(&mut self) {
        if self.usage.is_none() {
            let bytes = self.pieces.iter().map(|piece| match piece {
                ReplyPiece::Text(text) => text.len(),
                ReplyPiece::Thinking(thought) => thought.text.len(),
                ReplyPiece::Call(at) => self.calls[*at].name.len() + self.calls[*at].arguments.len(),
                ReplyPiece::Break => 0,
            });
            let output_tokens = u64::try_from(bytes.sum::<usize>().div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
            self.usage(Usage { output_tokens, ..Usage::default() }).await;
        }
    }

    /// Handles the end of the text. In a reply that a limit cut off, text that looks like a call is not taken for one.
    async fn end_text(&mut self, is_whole: bool) -> Result<(), Fault> {
        if let Some(mut tags) = self.think_tags.take() {
            let ThinkSplit { thought, text } = tags.finish();
            self.thinking(thought).await?;
            self.text(text).await?;
        }
        self.show_text().await;
        let Some(mut printed) = self.printed.take() else { return Ok(()) };
        let rest = match is_whole {
            true => printed.finish(),
            false => PrintedTextRemainder { text: printed.interrupt(), ..PrintedTextRemainder::default() },
        };
        self.add_text(&rest.text)?;
        self.show_text().await;
        self.doubt = rest.doubt;
        for call in rest.calls {
            let at = self.push_call()?;
            self.call_id(at, call.id)?;
            self.arguments(at, &call.arguments)?;
            self.call_name(at, call.name).await?;
        }
        Ok(())
    }

    /// Returns the finished reply. If the model ended its turn with calls, the stop reason is [`StopReason::ToolCalls`].
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] for a tool call without a name, and for a tool call that was broken off.
    pub async fn finish(mut self, stop: StopReason, source: &ReplySource<'_>) -> Result<Completion, Fault> {
        self.end_text(matches!(stop, StopReason::EndTurn | StopReason::ToolCalls)).await?;
        let stop = if stop == StopReason::EndTurn && !self.calls.is_empty() { StopReason::ToolCalls } else { stop };
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(source.unavailable("sent a tool call without a name"));
        }
        // Servers have many stop reasons for giving up: an incomplete call must not be taken for one without arguments.
        if let (StopReason::Other(why), Some(call)) = (&stop, self.calls.last())
            && serde_json::from_str::<IgnoredAny>(&call.arguments).is_err()
        {
            return Err(source.unavailable(&format!("stopped in the middle of a tool call: {why}")));
        }
        let mut calls: Vec<_> = self.calls.into_iter().map(Some).collect();
        let part = |piece| match piece {
            ReplyPiece::Text(text) => Some(Part::Text(text)),
            ReplyPiece::Thinking(thought) => Some(Part::Thinking(thought)),
            ReplyPiece::Call(at) => calls[at].take().map(|call| Part::ToolCall(with_arguments(call))),
            ReplyPiece::Break => None,
        };
        Ok(Completion {
            parts: self.pieces.into_iter().filter_map(part).collect(),
            stop,
            usage: self.usage.unwrap_or_default(),
            model: self.model.unwrap_or_else(|| source.model.into()),
            meta: self.doubt.map(|why| (UNREAD_CALL.to_owned(), why)).into_iter().collect(),
        })
    }

    /// Fills the placeholder at the current index; without one, appends the piece.
    fn begin(&mut self, piece: ReplyPiece) {
        match self.pieces.get_mut(self.at) {
            Some(place @ ReplyPiece::Break) => *place = piece,
            _ => self.push(piece),
        }
    }

    fn push(&mut self, piece: ReplyPiece) {
        self.at = self.pieces.len();
        // Only counted here; the next call of `grow` checks the limit.
        self.bytes += limits::REPLY_PIECE_BYTES;
        self.pieces.push(piece);
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.progress += bytes as u64;
        self.bytes += bytes;
        if self.bytes > limits::REPLY_BYTES { Err(too_large()) } else { Ok(()) }
    }
}

/// Replaces absent arguments by an empty object.
fn with_arguments(mut call: ToolCall) -> ToolCall {
    if call.arguments.trim().is_empty() {
        call.arguments = "{}".into();
    }
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: ReplySource<'_> = ReplySource { origin: "host", model: "m", secrets: &[] };

    #[tokio::test]
    async fn many_small_pieces_are_too_large() {
        let (names, sink) = (ToolNames::default(), DeltaSink::none());
        let mut assembly = ReplyAssembly::new(&names, &sink);
        let outcome = loop {
            if let Err(fault) = assembly.text("a".into()).await {
                break fault;
            }
            if let Err(fault) = assembly.thinking("b".into()).await {
                break fault;
            }
        };
        assert!(matches!(outcome, Fault::TooLarge { .. }));
        assert!(assembly.pieces.len() <= limits::REPLY_BYTES / limits::REPLY_PIECE_BYTES + 1);
    }

    #[tokio::test]
    async fn truncated_call_is_not_taken_for_one_without_arguments() {
        let (names, sink) = (ToolNames::default(), DeltaSink::none());
        let gave_up = || StopReason::Other("abort".into());
        for (arguments, stop, is_call) in [
            ("", StopReason::ToolCalls, true),
            ("", gave_up(), false),
            ("{\"path\":", gave_up(), false),
            ("{}", gave_up(), true),
        ] {
            let mut assembly = ReplyAssembly::new(&names, &sink);
            let at = assembly.begin_call().unwrap();
            assembly.calls[at].name = "read".into();
            assembly.arguments(at, arguments).unwrap();
            let finished = assembly.finish(stop, &SOURCE).await;
            assert_eq!(finished.is_ok(), is_call, "{arguments}: {finished:?}");
            assert!(is_call || matches!(finished, Err(Fault::Unavailable { .. })));
        }
    }
}
