//! One request of the client over one connection.

use rmcp::{
    model::{ClientRequest, ErrorCode, ErrorData, RequestId, ServerResult},
    service::{PeerRequestOptions, ServiceError},
};
use tokio::sync::mpsc;

use super::{client::McpConnectionHandle, connection_monitor::DisconnectReason, error_text::shown};
use shelly_core::error::Fault;

/// The failure of a request.
pub(super) enum McpRequestError {
    /// The connection has ended: whether the request took effect is unknown.
    Lost(DisconnectReason),
    Fault(Fault),
}

impl McpConnectionHandle {
    /// Sends a request and waits for its answer. Dropping the future notifies the server of the cancellation.
    pub async fn exchange(&self, request: ClientRequest) -> Result<ServerResult, McpRequestError> {
        let patience = &self.traffic.patience;
        let lost = || McpRequestError::Lost(patience.ended().unwrap_or(DisconnectReason::Closed));
        let sent = self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let mut sent = sent.map_err(|_| lost())?;
        let mut awaited = RequestCancelGuard { id: Some(sent.id.clone()), cancelled: &self.cancelled };
        let answer = tokio::select! {
            biased;
            answer = &mut sent.rx => answer,
            _ = patience.until_lost() => return Err(lost()),
        };
        awaited.id = None;
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(ServiceError::McpError(error))) => Err(McpRequestError::Fault(fault_of(&error))),
            Ok(Err(error)) if error.is_authorization_required() => {
                let message = error.auth_challenge().unwrap_or_default().to_owned();
                Err(McpRequestError::Fault(Fault::Denied { message }))
            }
            // One request failed, not the connection.
            Ok(Err(ServiceError::TransportSend(error))) if patience.ended().is_none() => {
                Err(McpRequestError::Fault(Fault::Unavailable {
                    message: shown(&error.error.to_string()),
                    after: None,
                }))
            }
            Ok(Err(ServiceError::TransportClosed | ServiceError::TransportSend(_))) | Err(_) => Err(lost()),
            Ok(Err(error)) => Err(McpRequestError::Fault(Fault::other(shown(&error.to_string())))),
        }
    }
}

/// A request whose answer is awaited. A drop before the answer notifies the server of the cancellation.
struct RequestCancelGuard<'a> {
    id: Option<RequestId>,
    cancelled: &'a mpsc::Sender<RequestId>,
}

impl Drop for RequestCancelGuard<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // If the queue is full, a server that works in vain is the smaller harm.
            let _ = self.cancelled.try_send(id);
        }
    }
}

/// Converts a server's error to a [`Fault`] for the caller.
pub(super) fn fault_of(error: &ErrorData) -> Fault {
    let message = shown(&error.message);
    match error.code {
        ErrorCode::INVALID_PARAMS => Fault::Invalid { message },
        ErrorCode::METHOD_NOT_FOUND | ErrorCode::RESOURCE_NOT_FOUND => Fault::NotFound { message },
        _ => Fault::Other { message },
    }
}
