//! Elicitation of the person behind a client.

use async_trait::async_trait;
use rmcp::{
    Peer, RoleServer,
    model::{ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ServerRequest},
    service::PeerRequestOptions,
};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::{ElicitationRequest, ElicitationResult, Elicitor, ServerRequestOrigin};
use shelly_core::{error::Fault, limits};

/// A question on its way to a client.
#[derive(Debug)]
pub(super) struct PendingElicitation {
    pub form: ElicitationRequest,
    pub answer: oneshot::Sender<ElicitationResult>,
}

/// Sends the questions of one call to its client.
pub(super) struct ClientElicitor(mpsc::Sender<PendingElicitation>);

impl ClientElicitor {
    /// Returns an elicitor and the receiver of its questions.
    pub fn new() -> (Self, mpsc::Receiver<PendingElicitation>) {
        let (sender, questions) = mpsc::channel(1);
        (Self(sender), questions)
    }
}

#[async_trait]
impl Elicitor for ClientElicitor {
    async fn elicit(&self, _: &ServerRequestOrigin, form: ElicitationRequest) -> Result<ElicitationResult, Fault> {
        let gone = || Fault::Unavailable { message: "the client can no longer be asked".into(), after: None };
        let (answer, answered) = oneshot::channel();
        self.0.send(PendingElicitation { form, answer }).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())
    }
}

/// Returns the request that shows a form to a person.
pub(super) fn request(form: &ElicitationRequest) -> Result<ElicitRequest, Fault> {
    let requested_schema = serde_json::from_str(form.schema.get());
    let requested_schema = requested_schema.map_err(|error| Fault::invalid(format!("invalid form: {error}")))?;
    let (meta, message) = (None, form.message.clone());
    Ok(ElicitRequest::new(ElicitRequestParams::FormElicitationParams { meta, message, requested_schema }))
}

/// Parses a client's answer; `None` if it is invalid.
pub(super) fn answered(answer: Value) -> Option<ElicitationResult> {
    serde_json::from_value(answer).ok().map(elicited)
}

fn elicited(result: ElicitResult) -> ElicitationResult {
    match result.action {
        ElicitationAction::Accept => match result.content {
            Some(Value::Object(form)) => ElicitationResult::Accept(form.into_iter().collect()),
            _ => ElicitationResult::Accept(Default::default()),
        },
        ElicitationAction::Decline => ElicitationResult::Decline,
        ElicitationAction::Cancel => ElicitationResult::Cancel,
        _ => ElicitationResult::Cancel,
    }
}

/// Asks a client over its own connection, as in the revisions with a handshake. The request is cancelled when the caller no
/// longer waits for the answer or after [`limits::QUESTION_TIME`]. An invalid answer or none counts as
/// [`ElicitationResult::Cancel`].
pub(super) async fn ask(peer: Peer<RoleServer>, question: PendingElicitation) {
    let PendingElicitation { form, mut answer } = question;
    let asked = async {
        let request = ServerRequest::ElicitRequest(request(&form).ok()?);
        peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await.ok()
    };
    let Some(mut handle) = asked.await else {
        let _ = answer.send(ElicitationResult::Cancel);
        return;
    };
    let result = tokio::select! {
        result = &mut handle.rx => Some(result),
        () = answer.closed() => None,
        () = tokio::time::sleep(limits::QUESTION_TIME) => None,
    };
    match result {
        Some(Ok(Ok(ClientResult::ElicitResult(result)))) => drop(answer.send(elicited(result))),
        Some(_) => drop(answer.send(ElicitationResult::Cancel)),
        None => {
            let _ = handle.cancel(Some("the answer is no longer needed".into())).await;
        }
    }
}
