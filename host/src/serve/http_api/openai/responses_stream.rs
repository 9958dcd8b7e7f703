use std::collections::VecDeque;

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Value, json};

use super::{
    responses_reply::{OpenAiResponse, ResponseEnd, ResponseHead, ResponseItem, ResponsePart, ResponseStatus},
    run_ending::AnswerEnding,
};
use crate::{
    net::http_server::SseFrame,
    serve::{
        hosted_runs::RunSnapshot,
        http_api::conversations::{AnswerPiece, AnswerReader, AnswerStep},
    },
};

/// A response that is sent in pieces.
pub struct ResponseStream {
    reader: AnswerReader,
    events: ResponseEvents,
    is_over: bool,
}

/// The events of a response that are to be sent next, and the items that they have told of.
struct ResponseEvents {
    head: ResponseHead,
    sequence: u64,
    waiting: VecDeque<(&'static str, Value)>,
    done: Vec<ResponseItem>,
    open: Option<OpenResponseItem>,
}

/// An item of which not all was sent.
struct OpenResponseItem {
    is_reasoning: bool,
    id: String,
    text: String,
}

impl ResponseStream {
    /// Returns the events of a response.
    pub fn frames(reader: AnswerReader, head: ResponseHead) -> BoxStream<'static, SseFrame> {
        stream::unfold(Self { reader, events: ResponseEvents::new(head), is_over: false }, Self::next).boxed()
    }

    async fn next(mut self) -> Option<(SseFrame, Self)> {
        loop {
            if let Some((kind, event)) = self.events.waiting.pop_front() {
                let data = String::from_utf8_lossy(&self.reader.host().clean_json(&event)).into();
                return Some((SseFrame { event: Some(kind), id: None, data }, self));
            }
            if self.is_over {
                return None;
            }
            match self.reader.next().await {
                AnswerStep::Piece(piece) => self.events.add(piece),
                AnswerStep::End { rest, run } => {
                    self.is_over = true;
                    self.events.end(rest, &run);
                }
            }
        }
    }
}

impl ResponseEvents {
    fn new(head: ResponseHead) -> Self {
        let mut events = Self { head, sequence: 0, waiting: VecDeque::new(), done: Vec::new(), open: None };
        let response = json!({ "response": OpenAiResponse::in_progress(&events.head) });
        events.push("response.created", response.clone());
        events.push("response.in_progress", response);
        events
    }

    /// Adds an event with these fields.
    fn push(&mut self, kind: &'static str, mut fields: Value) {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        self.waiting.push_back((kind, fields));
    }

    fn add(&mut self, piece: AnswerPiece) {
        let (is_reasoning, delta) = match piece {
            AnswerPiece::Text(text) => (false, text),
            AnswerPiece::Thinking(text) => (true, text),
        };
        if self.open.as_ref().is_none_or(|open| open.is_reasoning != is_reasoning) {
            self.close(ResponseStatus::Completed);
            self.open(is_reasoning);
        }
        let index = self.done.len();
        let Some(open) = &mut self.open else { return };
        open.text.push_str(&delta);
        let id = open.id.clone();
        match is_reasoning {
            true => self.push(
                "response.reasoning_summary_text.delta",
                json!({ "item_id": id, "output_index": index, "summary_index": 0, "delta": delta }),
            ),
            false => self.push(
                "response.output_text.delta",
                json!({ "item_id": id, "output_index": index, "content_index": 0, "delta": delta, "logprobs": [] }),
            ),
        }
    }

    /// Begins an item.
    fn open(&mut self, is_reasoning: bool) {
        let index = self.done.len();
        let item = match is_reasoning {
            true => ResponseItem::reasoning(&self.head.run, index, Vec::new()),
            false => ResponseItem::message(&self.head.run, index, ResponseStatus::InProgress, Vec::new()),
        };
        let id = item.id().to_owned();
        self.push("response.output_item.added", json!({ "output_index": index, "item": item }));
        match is_reasoning {
            true => {
                let part = ResponsePart::SummaryText { text: String::new() };
                let fields = json!({ "item_id": id, "output_index": index, "summary_index": 0, "part": part });
                self.push("response.reasoning_summary_part.added", fields);
            }
            false => {
                let part = ResponsePart::text(String::new());
                let fields = json!({ "item_id": id, "output_index": index, "content_index": 0, "part": part });
                self.push("response.content_part.added", fields);
            }
        }
        self.open = Some(OpenResponseItem { is_reasoning, id, text: String::new() });
    }

    /// Ends the open item, if there is one.
    fn close(&mut self, status: ResponseStatus) {
        let Some(OpenResponseItem { is_reasoning, id, text }) = self.open.take() else { return };
        let index = self.done.len();
        let item = match is_reasoning {
            true => {
                let part = ResponsePart::SummaryText { text: text.clone() };
                let place = json!({ "item_id": id, "output_index": index, "summary_index": 0 });
                self.push("response.reasoning_summary_text.done", with(&place, "text", json!(text)));
                self.push("response.reasoning_summary_part.done", with(&place, "part", json!(part)));
                ResponseItem::reasoning(&self.head.run, index, vec![part])
            }
            false => {
                let part = ResponsePart::text(text.clone());
                let place = json!({ "item_id": id, "output_index": index, "content_index": 0 });
                let done = with(&with(&place, "text", json!(text)), "logprobs", json!([]));
                self.push("response.output_text.done", done);
                self.push("response.content_part.done", with(&place, "part", json!(part)));
                ResponseItem::message(&self.head.run, index, status, vec![part])
            }
        };
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.done.push(item);
    }

    /// Adds the words with which the model declined, as an item of its own.
    fn refuse(&mut self, words: &str) {
        let index = self.done.len();
        let part = ResponsePart::Refusal { refusal: words.to_owned() };
        let begun = ResponseItem::message(&self.head.run, index, ResponseStatus::InProgress, Vec::new());
        let item = ResponseItem::message(&self.head.run, index, ResponseStatus::Completed, vec![part.clone()]);
        let place = json!({ "item_id": item.id(), "output_index": index, "content_index": 0 });
        self.push("response.output_item.added", json!({ "output_index": index, "item": begun }));
        self.push("response.content_part.added", with(&place, "part", json!(part)));
        self.push("response.refusal.delta", with(&place, "delta", json!(words)));
        self.push("response.refusal.done", with(&place, "refusal", json!(words)));
        self.push("response.content_part.done", with(&place, "part", json!(part)));
        self.push("response.output_item.done", json!({ "output_index": index, "item": item }));
        self.done.push(item);
    }

    fn end(&mut self, rest: Option<String>, run: &RunSnapshot) {
        if let Some(rest) = rest {
            self.add(AnswerPiece::Text(rest));
        }
        let ending = AnswerEnding::of(run);
        let is_whole = matches!(ending, Ok(AnswerEnding::Complete | AnswerEnding::Refused(_)));
        self.close(if is_whole { ResponseStatus::Completed } else { ResponseStatus::Incomplete });
        let answered = |status| ResponseEnd { status, error: None, usage: Some(run.usage().into()) };
        let end = match ending {
            Ok(AnswerEnding::Complete) => answered(ResponseStatus::Completed),
            Ok(AnswerEnding::CutShort) => answered(ResponseStatus::Incomplete),
            Ok(AnswerEnding::Refused(words)) => {
                self.refuse(&words);
                answered(ResponseStatus::Completed)
            }
            Err(error) => ResponseEnd::without_answer(run, error.message),
        };
        let kind = end.status.event();
        let response = OpenAiResponse::new(&self.head, std::mem::take(&mut self.done), end);
        self.push(kind, json!({ "response": response }));
    }
}

/// Returns these fields with one more.
fn with(fields: &Value, name: &str, value: Value) -> Value {
    let mut fields = fields.clone();
    fields[name] = value;
    fields
}
