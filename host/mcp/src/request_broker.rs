//! Answers to the requests of one server, within their bounds.
#![expect(deprecated, reason = "the newest revision goes without these, and servers of all others have them")]

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
        ElicitResult, ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
        InputRequest, ListRootsResult, ProtocolVersion, Role, RootsCapabilities, SamplingCapability, SamplingMessage,
        SamplingMessageContentBlock,
    },
    service::{InboundStreamOrigin, RequestContext},
};
use serde::Serialize;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use super::{
    call_context::McpCallCx,
    client_features::{
        ElicitationRequest, ElicitationResult, McpClientFeatures, SamplingRequest, SamplingResult, ServerRequestOrigin,
    },
    filtered_transport::ConnectionTraffic,
};
use shelly_core::{
    chat::{self, Media, MediaData, Message, Part, StopReason},
    error::Fault,
    limits,
};

/// Answers the requests of one server, over all of its connections.
#[derive(Debug)]
pub(super) struct ServerRequestBroker {
    server: Arc<str>,
    asking: McpClientFeatures,
    /// The number of open requests of the server. The time limit of calls stands still while it is not zero.
    pub open: watch::Sender<usize>,
    minute: Mutex<(Option<Instant>, u32)>,
}

impl ServerRequestBroker {
    pub fn new(server: Arc<str>, asking: McpClientFeatures) -> Self {
        Self { server, asking, open: watch::Sender::new(0), minute: Mutex::default() }
    }

    pub fn asking(&self) -> &McpClientFeatures {
        &self.asking
    }

    /// Returns `true` if the server may sample or elicit, so that a call may take longer than its own limit.
    pub fn asks_people_or_models(&self) -> bool {
        self.asking.sampler.is_some() || self.asking.elicitor.is_some()
    }

    /// Returns the client's introduction: it declares only granted capabilities.
    pub fn introduction(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = self.asking.sampler.as_ref().map(|_| SamplingCapability::default());
        capabilities.elicitation = self.asking.elicitor.as_ref().map(|_| {
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = Some(FormElicitationCapability::default());
            elicitation
        });
        capabilities.roots = self.asking.roots.as_ref().map(|_| {
            let mut roots = RootsCapabilities::default();
            roots.list_changed = Some(true);
            roots
        });
        let us = Implementation::new("shelly-host", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    /// Answers a request that a server makes in place of a call's result.
    pub async fn answer(&self, call: &Arc<McpCallCx>, request: InputRequest) -> Result<Value, ErrorData> {
        match request {
            InputRequest::CreateMessage(request) => json(&self.sample(Some(Arc::clone(call)), request.params).await?),
            InputRequest::Elicitation(request) => json(&self.elicit(Some(Arc::clone(call)), request.params).await?),
            InputRequest::ListRoots(_) => json(&self.roots()?),
            _ => Err(ErrorData::invalid_params("unsupported kind of request", None)),
        }
    }

    async fn sample(
        &self,
        call: Option<Arc<McpCallCx>>,
        request: CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, ErrorData> {
        let sampler = self.asking.sampler.as_ref().ok_or_else(|| not_granted("call a model"))?;
        within_bytes(&request)?;
        let (request, asked) = (sampling(request)?, self.admit(call.as_deref())?);
        let sampling = sampler.sample(&asked, request);
        let SamplingResult { text, model, stop } = wait(call, limits::COMPLETION_TIME, sampling, &self.open).await?;
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text(text), model).with_stop_reason(match stop {
            StopReason::MaxTokens => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
            StopReason::StopSequence => CreateMessageResult::STOP_REASON_END_SEQUENCE,
            StopReason::Refusal => "refusal",
            _ => CreateMessageResult::STOP_REASON_END_TURN,
        }))
    }

    async fn elicit(
        &self,
        call: Option<Arc<McpCallCx>>,
        request: ElicitRequestParams,
    ) -> Result<ElicitResult, ErrorData> {
        let elicitor = self.asking.elicitor.as_ref().ok_or_else(|| not_granted("ask a person"))?;
        within_bytes(&request)?;
        let ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } = request else {
            return Err(ErrorData::invalid_params("only elicitation by forms is supported, not by pages", None));
        };
        let schema = serde_json::value::to_raw_value(&requested_schema).map_err(internal)?;
        let (question, asked) = (ElicitationRequest { message, schema }, self.admit(call.as_deref())?);
        let elicited = wait(call, limits::QUESTION_TIME, elicitor.elicit(&asked, question), &self.open);
        Ok(match elicited.await? {
            ElicitationResult::Accept(form) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(form.into_iter().collect()))
            }
            ElicitationResult::Decline => ElicitResult::new(ElicitationAction::Decline),
            ElicitationResult::Cancel => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    fn roots(&self) -> Result<ListRootsResult, ErrorData> {
        let roots = self.asking.roots.as_ref().ok_or_else(|| not_granted("list roots"))?.borrow();
        let root = |root: &super::McpRoot| {
            let wire_root = rmcp::model::Root::new(&root.uri);
            root.name.iter().fold(wire_root, |wire_root, name| wire_root.with_name(name))
        };
        Ok(ListRootsResult::new(roots.iter().take(limits::MCP_ROOTS).map(root).collect()))
    }

    /// Counts one more request of a call; fails if there is no call or a limit is reached.
    fn admit(&self, call: Option<&McpCallCx>) -> Result<ServerRequestOrigin, ErrorData> {
        let call = call.ok_or_else(|| refused("the request belongs to no known call"))?;
        if !call.may_ask() {
            return Err(refused(format!("one call can send at most {} requests", limits::MCP_ASKS_PER_CALL)));
        }
        if !self.has_room() {
            return Err(refused(format!("at most {} requests per minute are answered", limits::MCP_ASKS_PER_MINUTE)));
        }
        Ok(ServerRequestOrigin { server: Arc::clone(&self.server), run: call.run.clone(), call: call.call.clone() })
    }

    fn has_room(&self) -> bool {
        let (mut minute, now) = (self.minute.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        if minute.0.is_none_or(|since| now - since >= limits::MCP_ASK_WINDOW) {
            *minute = (Some(now), 0);
        }
        minute.1 += 1;
        minute.1 <= limits::MCP_ASKS_PER_MINUTE
    }
}

/// Waits for an answer, at most for `time` and as long as the call goes on.
async fn wait<T>(
    call: Option<Arc<McpCallCx>>,
    time: Duration,
    answer: impl Future<Output = Result<T, Fault>>,
    open: &watch::Sender<usize>,
) -> Result<T, ErrorData> {
    let _open = OpenRequestGuard::new(open);
    let over = async {
        match &call {
            Some(call) => call.over.cancelled().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        answer = tokio::time::timeout(time, answer) => match answer {
            Ok(answer) => answer.map_err(|fault| refused(fault.to_string())),
            Err(_) => Err(refused(format!("no answer within {time:?}"))),
        },
        () = over => Err(refused("the call has ended")),
    }
}

/// Counts a request as open until it is dropped.
struct OpenRequestGuard<'a>(&'a watch::Sender<usize>);

impl<'a> OpenRequestGuard<'a> {
    fn new(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|open| *open += 1);
        Self(open)
    }
}

impl Drop for OpenRequestGuard<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Converts a sampling request.
fn sampling(request: CreateMessageRequestParams) -> Result<SamplingRequest, ErrorData> {
    if request.tools.is_some_and(|tools| !tools.is_empty()) {
        return Err(ErrorData::invalid_params("sampling with tools is not supported", None));
    }
    let messages = request.messages.into_iter().map(|SamplingMessage { role, content, .. }| {
        let role = if role == Role::Assistant { chat::Role::Assistant } else { chat::Role::User };
        let parts = content.into_vec().into_iter().map(part).collect::<Result<_, _>>()?;
        Ok(Message { parts, ..Message::text(role, "", "") })
    });
    let hints = request.model_preferences.and_then(|preferences| preferences.hints).unwrap_or_default();
    Ok(SamplingRequest {
        system: request.system_prompt,
        messages: messages.collect::<Result<_, ErrorData>>()?,
        max_tokens: request.max_tokens,
        temperature: request.temperature,
        stop: request.stop_sequences.unwrap_or_default(),
        models: hints.into_iter().filter_map(|hint| hint.name).collect(),
    })
}

fn part(block: SamplingMessageContentBlock) -> Result<Part, ErrorData> {
    let media = |media_type: String, data: &str| {
        let bytes =
            STANDARD.decode(data).map_err(|_| ErrorData::invalid_params("a medium is not valid base64", None))?;
        Ok(Part::Media(Media { media_type, name: None, source: MediaData::Bytes(bytes.into()) }))
    };
    match block {
        SamplingMessageContentBlock::Text(text) => Ok(Part::Text(text.text)),
        SamplingMessageContentBlock::Image(image) => media(image.mime_type, &image.data),
        SamplingMessageContentBlock::Audio(audio) => media(audio.mime_type, &audio.data),
        _ => Err(ErrorData::invalid_params("sampling with tools is not supported", None)),
    }
}

fn within_bytes(request: &impl Serialize) -> Result<(), ErrorData> {
    let bytes = serde_json::to_vec(request).map_err(internal)?.len();
    let most = limits::MCP_ASK_BYTES;
    if bytes > most { Err(refused(format!("the request has {bytes} bytes, the maximum is {most}"))) } else { Ok(()) }
}

fn json(value: &impl Serialize) -> Result<Value, ErrorData> {
    serde_json::to_value(value).map_err(internal)
}

fn not_granted(what: &str) -> ErrorData {
    refused(format!("this server is not allowed to {what}"))
}

fn refused(why: impl Into<String>) -> ErrorData {
    ErrorData::invalid_request(why.into(), None)
}

fn internal(error: serde_json::Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Handles the server's requests on one connection.
pub(super) struct McpClientHandler {
    pub broker: Arc<ServerRequestBroker>,
    pub traffic: Arc<ConnectionTraffic>,
}

impl McpClientHandler {
    /// Returns the call to which a request belongs. Over pipes a request names no call: then the call must be
    /// unambiguous.
    fn call(&self, context: &RequestContext<RoleClient>) -> Option<Arc<McpCallCx>> {
        match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => self.traffic.call_of(id),
            Some(InboundStreamOrigin::Unassociated) | None => self.traffic.only_call(),
        }
    }

    /// Cancels the work when the server withdraws its request or the connection ends.
    async fn until_lost<T>(
        &self,
        context: RequestContext<RoleClient>,
        asking: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            answer = asking => answer,
            () = context.ct.cancelled() => Err(refused("the request was cancelled")),
            _ = self.traffic.patience.until_lost() => Err(refused("the connection is closed")),
        }
    }
}

impl ClientHandler for McpClientHandler {
    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let call = self.call(&context);
        self.until_lost(context, self.broker.sample(call, params)).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let call = self.call(&context);
        self.until_lost(context, self.broker.elicit(call, params)).await
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.broker.roots()
    }

    fn get_info(&self) -> ClientConfig {
        self.broker.introduction()
    }
}
