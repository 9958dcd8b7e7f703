use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt, stream};
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    A2aErrorKind, A2aOperation, PROTOCOL_VERSION, VERSION_HEADER,
    wire::{A2aTask, SendMessageParams, SendMessageResult, TaskIdParams, TaskQueryParams, TaskStreamItem},
};
use shelly_core::{
    error::{Fault, cut, legible},
    event::StepSpan,
    json_values::count_json_values,
    limits,
};
use shelly_net::{
    ByteStream,
    egress::{CredentialUse, Egress, EgressRequest, EgressRequestBody, EgressResponse, EgressResponseBody},
    sse::SseEventStream,
};

/// The server of an agent of another host. Clones share its connections and the numbers of its requests.
#[derive(Clone)]
pub(crate) struct RemoteClient {
    /// The name of the agent in the config, for messages.
    name: Arc<str>,
    egress: Egress,
    url: Url,
    tenant: Arc<str>,
    /// The step that works on the task.
    span: Option<StepSpan>,
    /// The id of the next request.
    next: Arc<AtomicU64>,
}

/// The updates of a task as they come.
pub(crate) struct RemoteStream {
    client: RemoteClient,
    events: SseEventStream,
    id: u64,
    /// The number of items so far.
    count: usize,
}

impl RemoteClient {
    pub fn new(name: &Arc<str>, egress: &Egress, (url, tenant): (&Url, &str), span: Option<StepSpan>) -> Self {
        Self {
            name: Arc::clone(name),
            egress: egress.clone(),
            url: url.clone(),
            tenant: tenant.into(),
            span,
            next: Arc::new(AtomicU64::new(1)),
        }
    }

    /// Sends a message, and returns at once.
    pub async fn send(&self, mut params: SendMessageParams) -> Result<SendMessageResult, Fault> {
        params.tenant = self.tenant.to_string();
        params.configuration.return_immediately = true;
        self.call(A2aOperation::SendMessage, &params).await
    }

    /// Sends a message, and returns the updates of its task.
    pub async fn send_streaming(&self, mut params: SendMessageParams) -> Result<RemoteStream, Fault> {
        params.tenant = self.tenant.to_string();
        let (id, request) = self.request(A2aOperation::SendStreamingMessage, &params, limits::A2A_TASK_TIME)?;
        let request = EgressRequest { idle: Some(limits::A2A_STREAM_IDLE), ..request };
        let mut response = self.exchange(request).await?;
        let kind = response.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_slice());
        if !kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with(b"text/event-stream")) {
            // An error comes as a single answer.
            let body = self.read(&mut response, limits::A2A_REPLY_BYTES).await?;
            let result = self.result(id, A2aOperation::SendStreamingMessage, &body)?;
            return Err(self.invalid(&format!("it has answered with no stream: {}", shown(&result.to_string()))));
        }
        let events = SseEventStream::new(bytes_of(response.body), limits::A2A_REPLY_BYTES);
        Ok(RemoteStream { client: self.clone(), events, id, count: 0 })
    }

    /// Returns a task as it is now.
    pub async fn task(&self, id: &str) -> Result<A2aTask, Fault> {
        let params = TaskQueryParams { tenant: self.tenant.to_string(), id: id.to_owned(), history_length: Some(0) };
        self.call(A2aOperation::GetTask, &params).await
    }

    /// Cancels a task.
    pub async fn cancel(&self, id: &str) -> Result<(), Fault> {
        let params = TaskIdParams { tenant: self.tenant.to_string(), id: id.to_owned() };
        self.call::<Value>(A2aOperation::CancelTask, &params).await.map(drop)
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        operation: A2aOperation,
        params: &(impl Serialize + Sync),
    ) -> Result<T, Fault> {
        let (id, request) = self.request(operation, params, limits::A2A_REQUEST_TIME)?;
        let mut response = self.exchange(request).await?;
        let body = self.read(&mut response, limits::A2A_REPLY_BYTES).await?;
        let result = self.result(id, operation, &body)?;
        serde_json::from_value(result).map_err(|error| self.invalid(&shown(&error.to_string())))
    }

    fn request(
        &self,
        operation: A2aOperation,
        params: &impl Serialize,
        time: Duration,
    ) -> Result<(u64, EgressRequest), Fault> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": operation.name(), "params": params });
        let body = serde_json::to_vec(&call).map_err(|error| Fault::invalid(error.to_string()))?;
        let accept = if operation.is_streaming() { "text/event-stream, application/json" } else { "application/json" };
        let headers = [("content-type", "application/json"), ("accept", accept), (VERSION_HEADER, PROTOCOL_VERSION)];
        let request = EgressRequest {
            method: "POST".into(),
            url: self.url.to_string(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).into(),
            // The only credential that there is, if it is for this server.
            credential: CredentialUse::Any,
            follow: false,
            timeout: Some(time),
            idle: None,
            span: self.span.clone(),
            body: EgressRequestBody::Bytes(body.into()),
        };
        Ok((id, request))
    }

    /// Sends a request. A status other than 200 is a fault.
    async fn exchange(&self, request: EgressRequest) -> Result<EgressResponse, Fault> {
        let response = self.egress.send(request).await.map_err(|failure| failure.fault)?;
        check_status(&self.name, response.status)?;
        Ok(response)
    }

    async fn read(&self, response: &mut EgressResponse, most: usize) -> Result<Vec<u8>, Fault> {
        read_body(&mut response.body, most).await.map_err(|fault| fault.with_context(self.place()))
    }

    /// Returns the result in an answer to the request with this id.
    fn result(&self, id: u64, operation: A2aOperation, body: &[u8]) -> Result<Value, Fault> {
        if count_json_values(body) > limits::A2A_REPLY_VALUES {
            let most = limits::A2A_REPLY_VALUES;
            let message = format!("{} has sent more than {most} values at once", self.place());
            return Err(Fault::TooLarge { message });
        }
        let answer = serde_json::from_slice(body).map_err(|error| self.invalid(&format!("it is not JSON: {error}")))?;
        let Value::Object(mut answer) = answer else { return Err(self.invalid("the answer is no object")) };
        if let Some(error) = answer.remove("error").filter(|error| !error.is_null()) {
            return Err(self.refused(operation, &error));
        }
        if answer.get("id").and_then(Value::as_u64) != Some(id) {
            return Err(self.invalid("the answer is for another request"));
        }
        answer.remove("result").ok_or_else(|| self.invalid("the answer has no result"))
    }

    fn refused(&self, operation: A2aOperation, error: &Value) -> Fault {
        let kind = A2aErrorKind::of_code(error["code"].as_i64().unwrap_or_default());
        let said = shown(error["message"].as_str().unwrap_or("no reason"));
        let message = format!("{} has refused `{}`: {said}", self.place(), operation.name());
        match kind {
            A2aErrorKind::TaskNotFound => Fault::NotFound { message },
            A2aErrorKind::InvalidParams | A2aErrorKind::InvalidRequest | A2aErrorKind::VersionNotSupported => {
                Fault::invalid(message)
            }
            _ => Fault::other(message),
        }
    }

    /// Reports an answer that is none.
    pub fn invalid(&self, why: &str) -> Fault {
        Fault::other(format!("{} has answered in a form that cannot be used: {why}", self.place()))
    }

    /// Returns the words for this server in messages.
    pub fn place(&self) -> String {
        place(&self.name)
    }
}

impl RemoteStream {
    /// Returns the next item; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<TaskStreamItem>, Fault> {
        self.events.note_progress(self.count as u64);
        let Some(event) = self.events.next().await? else { return Ok(None) };
        self.count += 1;
        if self.count > limits::A2A_STREAM_ITEMS {
            let most = limits::A2A_STREAM_ITEMS;
            let message = format!("{} has sent more than {most} updates of one task", self.client.place());
            return Err(Fault::TooLarge { message });
        }
        let result = self.client.result(self.id, A2aOperation::SendStreamingMessage, event.data.as_bytes())?;
        let item = serde_json::from_value(result);
        item.map(Some).map_err(|error| self.client.invalid(&shown(&error.to_string())))
    }
}

/// Fetches the card of an agent.
pub(crate) async fn fetch_card(name: &str, egress: &Egress, url: &Url) -> Result<Vec<u8>, Fault> {
    let request = EgressRequest {
        method: "GET".into(),
        url: url.to_string(),
        headers: vec![("accept".into(), b"application/json".to_vec())],
        credential: CredentialUse::Any,
        follow: false,
        timeout: Some(limits::A2A_REQUEST_TIME),
        ..EgressRequest::default()
    };
    let mut response = egress.send(request).await.map_err(|failure| failure.fault)?;
    check_status(name, response.status)?;
    read_body(&mut response.body, limits::A2A_CARD_BYTES).await.map_err(|fault| fault.with_context(place(name)))
}

/// Returns a fault for any status but 200.
fn check_status(name: &str, status: u16) -> Result<(), Fault> {
    let place = place(name);
    Err(match status {
        200 => return Ok(()),
        300..=399 => Fault::Denied {
            message: format!("{place} redirects to another address, which is not followed; correct `remote.card`"),
        },
        401 | 403 => Fault::Denied {
            message: format!("{place} has refused the request (status {status}); check `remote.credential`"),
        },
        429 => Fault::RateLimited { message: format!("{place} takes no more requests now"), after: None },
        502..=504 => Fault::Unavailable { message: format!("{place} is not there (status {status})"), after: None },
        _ => Fault::other(format!("{place} has answered with the status {status}")),
    })
}

/// Reads a body of at most so many bytes.
async fn read_body(body: &mut EgressResponseBody, most: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.chunk().await? {
        if bytes.len() + chunk.len() > most {
            return Err(Fault::TooLarge { message: format!("the answer has more than {most} bytes") });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Returns the bytes of a body as a stream.
fn bytes_of(body: EgressResponseBody) -> ByteStream {
    stream::try_unfold(body, |mut body| async move {
        let chunk = body.chunk().await?;
        Ok(chunk.map(|chunk| (chunk.to_vec(), body)))
    })
    .boxed()
}

fn place(name: &str) -> String {
    format!("the remote agent `{name}`")
}

/// Returns a text of the other host as it may be shown.
pub(crate) fn shown(text: &str) -> String {
    cut(&legible(text), limits::A2A_SHOWN_CHARS)
}
