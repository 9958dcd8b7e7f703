use std::collections::VecDeque;

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use serde_json::{Map, Value};

use super::{ag_ui_event::AgUiEvent, event_translation::AgUiTranslation};
use crate::{
    net::http_server::SseFrame,
    serve::{
        hosted_runs::{RunEventReader, RunEventStep, RunHost},
        http_api::conversations::{RunLease, text_of_run},
    },
};

/// The events of a run for a user interface. Dropping it cancels the run.
pub struct AgUiStream {
    host: RunHost,
    lease: RunLease,
    reader: RunEventReader,
    translation: AgUiTranslation,
    waiting: VecDeque<AgUiEvent>,
    is_over: bool,
}

impl AgUiStream {
    /// Returns the events of a run that has begun; `state` is that of the interface.
    pub fn frames(
        host: RunHost,
        lease: RunLease,
        translation: AgUiTranslation,
        state: Map<String, Value>,
    ) -> BoxStream<'static, SseFrame> {
        let (reader, waiting) = (lease.run().events_after(0), translation.begin(state).into());
        stream::unfold(Self { host, lease, reader, translation, waiting, is_over: false }, Self::next).boxed()
    }

    async fn next(mut self) -> Option<(SseFrame, Self)> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                let data = String::from_utf8_lossy(&self.host.clean_json(&event)).into();
                return Some((SseFrame { event: None, id: None, data }, self));
            }
            if self.is_over {
                return None;
            }
            match self.reader.next().await {
                RunEventStep::Event(record) => self.waiting.extend(self.translation.take(&record.event)),
                RunEventStep::Gap { .. } => {}
                // The interface read too slowly; it gets the whole answer.
                RunEventStep::Behind { .. } | RunEventStep::End => {
                    self.is_over = true;
                    let run = self.lease.run().finished().await;
                    let answer = match run.answer() {
                        Some(_) => Some(text_of_run(&self.host, self.lease.run(), &run).await),
                        None => None,
                    };
                    self.waiting.extend(self.translation.end(&run, answer.as_deref()));
                }
            }
        }
    }
}
