use std::{collections::VecDeque, sync::Arc};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};

use super::{
    chat_reply::{ChatChunkDelta, ChatCompletionChunk, ChatCompletionHead},
    run_ending::AnswerEnding,
};
use crate::{
    net::http_server::SseFrame,
    serve::{
        hosted_runs::RunSnapshot,
        http_api::conversations::{AnswerPiece, AnswerReader, AnswerStep},
    },
};

/// A chat completion that is sent in pieces.
pub struct ChatCompletionStream {
    reader: AnswerReader,
    head: ChatCompletionHead,
    includes_usage: bool,
    /// The data of the events that are to be sent next.
    waiting: VecDeque<Arc<str>>,
    is_over: bool,
}

impl ChatCompletionStream {
    /// Returns the events of a completion.
    pub fn frames(
        reader: AnswerReader,
        head: ChatCompletionHead,
        includes_usage: bool,
    ) -> BoxStream<'static, SseFrame> {
        let mut chunks = Self { reader, head, includes_usage, waiting: VecDeque::new(), is_over: false };
        chunks.push(ChatChunkDelta {
            role: Some("assistant"),
            content: Some(String::new()),
            ..ChatChunkDelta::default()
        });
        stream::unfold(chunks, Self::next).boxed()
    }

    async fn next(mut self) -> Option<(SseFrame, Self)> {
        loop {
            if let Some(data) = self.waiting.pop_front() {
                return Some((SseFrame { event: None, id: None, data }, self));
            }
            if self.is_over {
                return None;
            }
            match self.reader.next().await {
                AnswerStep::Piece(piece) => self.push(delta_of(piece)),
                AnswerStep::End { rest, run } => self.end(rest, &run),
            }
        }
    }

    fn end(&mut self, rest: Option<String>, run: &RunSnapshot) {
        self.is_over = true;
        if let Some(rest) = rest {
            self.push(delta_of(AnswerPiece::Text(rest)));
        }
        let ending = match AnswerEnding::of(run) {
            Ok(ending) => ending,
            Err(error) => {
                let data = String::from_utf8_lossy(&error.data(self.reader.host())).into();
                self.waiting.push_back(data);
                return;
            }
        };
        let finish_reason = Some(ending.finish_reason());
        let last = match ending {
            AnswerEnding::Refused(words) => ChatChunkDelta { refusal: Some(words), ..ChatChunkDelta::default() },
            AnswerEnding::Complete | AnswerEnding::CutShort => ChatChunkDelta::default(),
        };
        let data = self.data(&ChatCompletionChunk::delta(&self.head, last, finish_reason, self.includes_usage));
        self.waiting.push_back(data);
        if self.includes_usage {
            let data = self.data(&ChatCompletionChunk::usage(&self.head, run.usage().into()));
            self.waiting.push_back(data);
        }
        self.waiting.push_back("[DONE]".into());
    }

    fn push(&mut self, delta: ChatChunkDelta) {
        let data = self.data(&ChatCompletionChunk::delta(&self.head, delta, None, self.includes_usage));
        self.waiting.push_back(data);
    }

    /// Returns a chunk as the data of an event.
    fn data(&self, chunk: &ChatCompletionChunk<'_>) -> Arc<str> {
        String::from_utf8_lossy(&self.reader.host().clean_json(chunk)).into()
    }
}

fn delta_of(piece: AnswerPiece) -> ChatChunkDelta {
    match piece {
        AnswerPiece::Text(text) => ChatChunkDelta { content: Some(text), ..ChatChunkDelta::default() },
        AnswerPiece::Thinking(text) => ChatChunkDelta { reasoning_content: Some(text), ..ChatChunkDelta::default() },
    }
}
