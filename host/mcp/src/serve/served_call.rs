//! A tool call in progress for a client.

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::{
    call_notifier::CallNotifier,
    client_call_slots::ClientCallPermit,
    client_elicitor::{ClientElicitor, PendingElicitation, ask},
    server_setup::{McpToolCaller, ServedCallContext},
};
use crate::Elicitor;
use shelly_core::{
    chat::{ToolCall, ToolResult},
    event::{EventSink, EventStream, PropagatedSpan},
    limits,
};

/// A call with its events and its questions to a person.
pub(super) struct ServedCall {
    id: String,
    making: BoxFuture<'static, ToolResult>,
    events: EventStream,
    questions: mpsc::Receiver<PendingElicitation>,
    /// `None` while the call is parked until its client comes back.
    permit: Option<ClientCallPermit>,
}

/// The state in which [`ServedCall::drive`] leaves a call.
pub(super) enum ServedCallOutcome {
    Done(ToolResult),
    /// The call waits for a person, whom the client asks between two requests.
    Asks(PendingElicitation),
}

/// The way in which a client asks a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElicitationMode {
    Never,
    /// While the call runs.
    Meanwhile,
    /// Between two requests.
    Between,
}

impl ServedCall {
    /// Creates a call of a client, which is part of the span `outer`. Nothing runs before it is [driven](Self::drive).
    pub fn begin(
        (run, outer): (Arc<str>, Option<PropagatedSpan>),
        caller: Arc<dyn McpToolCaller>,
        (name, arguments): (String, String),
        asks: ElicitationMode,
        permit: ClientCallPermit,
    ) -> Self {
        let (person, questions) = ClientElicitor::new();
        let person = (asks != ElicitationMode::Never).then(|| Arc::new(person) as Arc<dyn Elicitor>);
        let (sink, events) = EventSink::channel();
        if let Some(outer) = outer {
            sink.set_outer_span(outer);
        }
        let id = run.to_string();
        let call = ToolCall { id: id.clone(), name, arguments, meta: Vec::new() };
        let making = ServedCallContext { run, events: sink, person };
        let making = async move { McpToolCaller::call(&*caller, making, call).await }.boxed();
        Self { id, making, events, questions, permit: Some(permit) }
    }

    /// Gives a parked call a new permit.
    pub fn go_on(&mut self, permit: ClientCallPermit) {
        self.permit = Some(permit);
    }

    /// Returns the permit: the call is parked until its client comes back.
    pub fn release_permit(&mut self) {
        self.permit = None;
    }

    /// Runs the call until it ends or asks a question, and notifies the client of its progress.
    pub async fn drive(&mut self, notes: &mut CallNotifier, asks: ElicitationMode) -> ServedCallOutcome {
        let mut asking = FuturesUnordered::new();
        let (mut has_events, mut may_ask) = (true, true);
        let result = loop {
            tokio::select! {
                biased;
                event = self.events.next(), if has_events => match event {
                    Some(event) => notes.tell(&self.id, event).await,
                    None => has_events = false,
                },
                question = self.questions.recv(), if may_ask => match (question, asks) {
                    (Some(question), ElicitationMode::Between) => return ServedCallOutcome::Asks(question),
                    (Some(question), _) => asking.push(ask(notes.peer.clone(), question)),
                    (None, _) => may_ask = false,
                },
                Some(()) = asking.next() => {}
                result = &mut self.making => break result,
            }
        };
        // Sends the events from right before the end.
        for _ in 0..limits::EVENT_QUEUE {
            let Some(Some(event)) = self.events.next().now_or_never() else { break };
            notes.tell(&self.id, event).await;
        }
        ServedCallOutcome::Done(result)
    }
}
