//! A reply put together from its pieces, whatever wire they come over.

use serde::de::IgnoredAny;

use super::{
    incoming_reply::{ReplySource, too_large},
    printed_calls::{PrintedCallFilter, PrintedTextRemainder},
    think_tags::{ThinkSplit, ThinkTags},
    tool_names::ToolNames,
};
use crate::{
    chat::{Part, ThinkingPart, ToolCall, UNREAD_CALL},
    error::Fault,
    limits,
    model::{Completion, DeltaSink, ReplyDelta, StopReason, Usage},
};

/// What has come of a reply so far. Pieces go to whoever watches as they come.
pub struct ReplyAssembly<'a> {
    names: &'a ToolNames,
    sink: &'a DeltaSink,
    pieces: Vec<ReplyPiece>,
    /// The piece that grows.
    at: usize,
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    model: Option<String>,
    bytes: usize,
    /// Grows with all that moves the reply on.
    progress: u64,
    think_tags: Option<ThinkTags>,
    printed: Option<PrintedCallFilter<'a>>,
    /// Text that is in the reply, and has yet to be shown.
    unsent: String,
    /// Why the text is no call though it looks like one.
    doubt: Option<String>,
}

/// About as many bytes are a token.
const BYTES_PER_TOKEN: usize = 4;

/// A piece of the reply, in the model's order.
enum ReplyPiece {
    Text(String),
    Thinking(ThinkingPart),
    /// One of the calls.
    Call(usize),
    /// The place of one that has yet to come: it belongs to none before.
    Break,
}

impl<'a> ReplyAssembly<'a> {
    /// Nothing has come yet. `names` are those of the tools that were sent.
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

    /// Takes calls of offered tools, and thoughts, out of the text where the model printed them there.
    pub fn reading_text(self, calls: bool, thoughts: bool) -> Self {
        let printed = (calls && self.names.offers_any()).then(|| PrintedCallFilter::new(self.names));
        Self { printed, think_tags: thoughts.then(ThinkTags::default), ..self }
    }

    /// Adds text to the piece of text that grows, or begins one.
    ///
    /// # Errors
    ///
    /// As all that adds: [`Fault::TooLarge`] beyond [`limits::REPLY_BYTES`] in all.
    pub async fn text(&mut self, text: String) -> Result<(), Fault> {
        // Some of it may be held back for now.
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

    /// Something else than text comes next: what was held back as a call comes before it, and is none.
    fn interrupt(&mut self) -> Result<(), Fault> {
        let held = self.printed.as_mut().map(PrintedCallFilter::interrupt).unwrap_or_default();
        self.add_text(&held)
    }

    /// Adds to the thought that grows, or begins one.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`].
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

    /// Adds to what the vendor wants back with the thought that grows, or begins a thought without words.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`].
    pub fn seal(&mut self, opaque: &str) -> Result<(), Fault> {
        self.interrupt()?;
        self.grow(opaque.len())?;
        match self.pieces.get_mut(self.at) {
            Some(ReplyPiece::Thinking(thought)) => thought.opaque.get_or_insert_default().push_str(opaque),
            _ => self.begin(ReplyPiece::Thinking(ThinkingPart { text: String::new(), opaque: Some(opaque.into()) })),
        }
        Ok(())
    }

    /// What comes next begins a piece of its own. Returns its place, for wires whose pieces grow in turns.
    pub fn split(&mut self) -> usize {
        self.push(ReplyPiece::Break);
        self.at
    }

    /// What comes next belongs to the piece at this place.
    pub fn return_to(&mut self, place: usize) {
        self.at = place;
    }

    /// Begins a tool call that the server reports: none is looked for in the text any more. Returns its number, by which it
    /// is added to.
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

    /// Grows with each text, thought, call and count of usage; what else comes moves the reply on by nothing.
    pub fn progress(&self) -> u64 {
        self.progress
    }

    /// The call of this number as it stands.
    pub fn call(&self, at: usize) -> &ToolCall {
        &self.calls[at]
    }

    /// Gives a call its id if it has none.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`].
    pub fn call_id(&mut self, at: usize, id: String) -> Result<(), Fault> {
        self.grow(id.len())?;
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        Ok(())
    }

    /// Gives a call its name, as the vendor writes it, if it has none.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`].
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

    /// Adds to the arguments of a call.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`].
    pub fn arguments(&mut self, at: usize, piece: &str) -> Result<(), Fault> {
        self.grow(piece.len())?;
        self.calls[at].arguments.push_str(piece);
        Ok(())
    }

    /// Puts a fact beside a call, such as what the vendor wants back with it.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`].
    pub fn call_fact(&mut self, at: usize, key: &str, value: String) -> Result<(), Fault> {
        self.grow(key.len() + value.len())?;
        self.calls[at].meta.push((key.into(), value));
        Ok(())
    }

    /// What has been used so far, which takes the place of what was said before.
    pub async fn usage(&mut self, usage: Usage) {
        if self.usage != Some(usage) {
            self.usage = Some(usage);
            self.progress += 1;
            self.sink.emit(ReplyDelta::Usage(usage)).await;
        }
    }

    /// The model that answers, as the vendor names it; the first name counts.
    pub fn model(&mut self, source: &ReplySource<'_>, model: &str) {
        if self.model.is_none() && !model.is_empty() {
            self.model = Some(source.word(model));
        }
    }

    /// Counts about the tokens that came, of a reply whose server did not come to say how many they are.
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

    /// The text is at its end; what was cut by a bound may look like a call and be none.
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

    /// The reply, if it is one. Where the model has ended its turn with calls, it waits for their results.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] for a tool call without a name, and for one that was broken off.
    pub async fn finish(mut self, stop: StopReason, source: &ReplySource<'_>) -> Result<Completion, Fault> {
        self.end_text(matches!(stop, StopReason::EndTurn | StopReason::ToolCalls)).await?;
        let stop = if stop == StopReason::EndTurn && !self.calls.is_empty() { StopReason::ToolCalls } else { stop };
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(source.unavailable("sent a tool call without a name"));
        }
        // Servers have many words for giving up: what a call lacks then must not be taken for no arguments.
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

    /// Puts a piece where one was to come, else at the end.
    fn begin(&mut self, piece: ReplyPiece) {
        match self.pieces.get_mut(self.at) {
            Some(place @ ReplyPiece::Break) => *place = piece,
            _ => self.push(piece),
        }
    }

    fn push(&mut self, piece: ReplyPiece) {
        self.at = self.pieces.len();
        // Counted where the next bytes come.
        self.bytes += limits::REPLY_PIECE_BYTES;
        self.pieces.push(piece);
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.progress += bytes as u64;
        self.bytes += bytes;
        if self.bytes > limits::REPLY_BYTES { Err(too_large()) } else { Ok(()) }
    }
}

/// No arguments at all are an empty object.
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
    async fn a_call_that_was_broken_off_is_none_without_arguments() {
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
