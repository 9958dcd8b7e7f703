use futures_util::StreamExt;
use http::{HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    agent_cards::{A2A_PATH, AgentDirectory, has_agent},
    task_operations::{OperationResult, TaskOperations},
};
use crate::{
    a2a::{
        A2aError, A2aErrorKind, A2aOperation, CARD_PATH, MEDIA_TYPE, RpcRequest, VERSION_HEADER, agent_of_segment,
        check_version, rpc_error, rpc_result, wire::AgentCard,
    },
    capability::HttpGrant,
    digest::Sha256Digest,
    json_values::count_json_values,
    limits,
    net::http_server::{ServedRequest, ServedResponse, SseFrame, bytes_response, event_stream},
    serve::hosted_runs::RunHost,
};

/// The part of a path before the id of an address that is told of a task.
const PUSH_CONFIG: &str = "/pushNotificationConfigs/";

/// The time for which a client may use a card without asking for it again.
const CARD_CACHE: &str = "max-age=60";

/// The fields of parameters that are numbers, and those that are flags: a query has only texts.
const NUMBERS: [&str; 2] = ["historyLength", "pageSize"];
const FLAGS: [&str; 1] = ["includeArtifacts"];
/// All fields of parameters that a query may have.
const QUERY_FIELDS: [&str; 8] = [
    "tenant",
    "contextId",
    "status",
    "pageSize",
    "pageToken",
    "historyLength",
    "statusTimestampAfter",
    "includeArtifacts",
];

/// The endpoint for clients of the Agent2Agent protocol, as a part of the HTTP API.
pub struct A2aService {
    host: RunHost,
    operations: TaskOperations,
    options: A2aOptions,
    /// One permit for each large body that may be read.
    bodies: Semaphore,
}

/// The options of the endpoint.
#[derive(Debug, Clone, Default)]
pub struct A2aOptions {
    /// The URL under which clients reach the server, for agent cards; `None`: the scheme of the request, and the host that
    /// the client names.
    pub url: Option<String>,
    /// `true` if clients must show a bearer token.
    pub requires_token: bool,
    /// The addresses to which clients may have updates of tasks sent.
    pub push: HttpGrant,
}

/// The way in which a client has sent its request, and gets its answer.
enum RequestBinding {
    /// JSON-RPC, with the id of the request.
    JsonRpc(Value),
    HttpJson,
}

impl A2aService {
    /// Returns the endpoint to these runs. Its streams end when `stop` is cancelled.
    pub fn new(host: RunHost, options: A2aOptions, stop: CancellationToken) -> Self {
        let operations = TaskOperations::new(host.clone(), options.push.clone(), stop);
        Self { host, operations, options, bodies: Semaphore::new(limits::SERVE_RUN_BODIES) }
    }

    /// Returns `true` for a path of this endpoint.
    pub fn serves(path: &str) -> bool {
        path == CARD_PATH || path.strip_prefix(A2A_PATH).is_some_and(|below| below.starts_with('/'))
    }

    /// Returns `true` for a request that needs no token: those for agent cards, which say how to get further.
    pub fn is_public(method: &Method, path: &str) -> bool {
        let agent = path.strip_suffix(CARD_PATH).and_then(|path| path.strip_prefix(A2A_PATH)?.strip_prefix('/'));
        let is_card = path == CARD_PATH || agent.is_some_and(|agent| !agent.is_empty() && !agent.contains('/'));
        *method == Method::GET && is_card
    }

    /// Answers a request to a path of this endpoint.
    pub async fn handle(&self, mut request: ServedRequest) -> ServedResponse {
        let path = request.path().to_owned();
        if path == CARD_PATH {
            return self.answer_card(&request, |directory| directory.entry_card());
        }
        let below = path.strip_prefix(A2A_PATH).and_then(|below| below.strip_prefix('/')).unwrap_or_default();
        let (segment, below) = below.split_once('/').unwrap_or((below, ""));
        let agent = agent_of_segment(segment).filter(|agent| has_agent(&self.host, agent));
        let Some(agent) = agent else {
            let error = "there is no such agent; the agent card at /.well-known/agent-card.json lists the agents";
            return self.refuse(&RequestBinding::HttpJson, &A2aError::new(A2aErrorKind::MethodNotFound, error));
        };
        match below {
            "" => self.answer_rpc(&agent, &mut request).await,
            _ if CARD_PATH.strip_prefix('/') == Some(below) => {
                self.answer_card(&request, |directory| directory.agent_card(&agent))
            }
            _ => self.answer_path(&agent, below, &mut request).await,
        }
    }

    /// Answers with an agent card.
    fn answer_card(
        &self,
        request: &ServedRequest,
        card: impl FnOnce(&AgentDirectory<'_>) -> AgentCard,
    ) -> ServedResponse {
        if *request.method() != Method::GET {
            return not_allowed("GET");
        }
        // The access policy has checked the name of the host.
        let of_client = || format!("{}://{}", request.scheme(), request.header(header::HOST).unwrap_or("localhost"));
        let base = self.options.url.clone().unwrap_or_else(of_client);
        let directory = AgentDirectory::new(&self.host, base.trim_end_matches('/'), self.options.requires_token);
        let card = card(&directory.with_push(!self.options.push.is_empty()));
        let bytes = self.host.clean_json(&serde_json::to_value(card).unwrap_or_default());
        let tag = format!("\"{}\"", Sha256Digest::of(&bytes).hex());
        let is_known = request.header(header::IF_NONE_MATCH) == Some(tag.as_str());
        let mut response = match is_known {
            true => bytes_response(StatusCode::NOT_MODIFIED, "application/json", Vec::new()),
            false => bytes_response(StatusCode::OK, "application/json", bytes),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CARD_CACHE));
        headers.insert(header::VARY, HeaderValue::from_static("host"));
        if let Ok(tag) = HeaderValue::try_from(tag) {
            headers.insert(header::ETAG, tag);
        }
        response
    }

    /// Answers a request of JSON-RPC.
    async fn answer_rpc(&self, agent: &str, request: &mut ServedRequest) -> ServedResponse {
        if *request.method() != Method::POST {
            return not_allowed("POST");
        }
        let body = match self.read_body(request).await {
            Ok(body) => body,
            Err(refused) => return *refused,
        };
        let parsed = RpcRequest::parse(&body);
        drop(body);
        let RpcRequest { id, method, params } = match parsed {
            Ok(parsed) => parsed,
            Err((id, error)) => return self.refuse(&RequestBinding::JsonRpc(id), &error),
        };
        let binding = RequestBinding::JsonRpc(id);
        let known = check_version(version(request).as_deref()).and_then(|()| {
            let unknown = || A2aError::new(A2aErrorKind::MethodNotFound, "there is no such method in version 1.0");
            A2aOperation::of_name(&method).ok_or_else(unknown)
        });
        match known {
            Ok(operation) => self.perform(agent, operation, params, binding, request).await,
            Err(error) => self.refuse(&binding, &error),
        }
    }

    /// Answers a request of HTTP+JSON. `below` is the path below the address of the agent.
    async fn answer_path(&self, agent: &str, below: &str, request: &mut ServedRequest) -> ServedResponse {
        let binding = RequestBinding::HttpJson;
        if let Err(error) = check_version(version(request).as_deref()) {
            return self.refuse(&binding, &error);
        }
        let Some((operation, task)) = A2aOperation::of_path(request.method().as_str(), below) else {
            let error = A2aError::new(A2aErrorKind::MethodNotFound, "there is no such method and path");
            return self.refuse(&binding, &error);
        };
        let mut params = query_params(request);
        if *request.method() == Method::POST && request.body_bytes() != Some(0) {
            let body = match self.read_body(request).await {
                Ok(body) => body,
                Err(refused) => return *refused,
            };
            match serde_json::from_slice(&body) {
                Ok(Value::Object(body)) => params.extend(body),
                _ => return self.refuse(&binding, &A2aError::invalid_params("the body is no JSON object")),
            }
        }
        if let Some(task) = task {
            let field = if operation.is_about_push_notifications() { "taskId" } else { "id" };
            params.insert(field.into(), task.into());
        }
        if let Some((_, config)) = below.split_once(PUSH_CONFIG) {
            params.insert("id".into(), config.into());
        }
        self.perform(agent, operation, Value::Object(params), binding, request).await
    }

    async fn perform(
        &self,
        agent: &str,
        operation: A2aOperation,
        params: Value,
        binding: RequestBinding,
        request: &mut ServedRequest,
    ) -> ServedResponse {
        match self.operations.perform(agent, operation, params, request.outer_span()).await {
            Ok(OperationResult::Value(value)) => {
                let body = self.host.clean_json(&binding.result(&value));
                bytes_response(StatusCode::OK, binding.content_type(), body)
            }
            Ok(OperationResult::Updates(updates)) => {
                request.listen();
                let host = self.host.clone();
                let frames = updates.map(move |value| {
                    let data = String::from_utf8_lossy(&host.clean_json(&binding.result(&value))).into();
                    SseFrame { event: None, id: None, data }
                });
                event_stream(frames.boxed())
            }
            Err(error) => self.refuse(&binding, &error),
        }
    }

    /// Reads a body that says that it is JSON. A web page of another site cannot send that without being asked for consent.
    async fn read_body(&self, request: &mut ServedRequest) -> Result<bytes::Bytes, Box<ServedResponse>> {
        let refused = |status: StatusCode, message: String| {
            let error = A2aError::new(A2aErrorKind::InvalidRequest, message);
            Box::new(bytes_response(status, "application/json", self.host.clean_json(&error.to_status())))
        };
        let kind = request.header(header::CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !["application/json", MEDIA_TYPE].iter().any(|json| kind.eq_ignore_ascii_case(json)) {
            let message = "the body is not declared as JSON; send the header `content-type: application/json`";
            return Err(refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, message.into()));
        }
        // Small bodies need no turn, so that clients who send theirs slowly hold up nobody. The semaphore is never closed.
        let is_small = request.body_bytes().is_some_and(|bytes| bytes <= limits::SERVE_BODY_BYTES as u64);
        let _turn = if is_small { None } else { self.bodies.acquire().await.ok() };
        let body = request.read_body(limits::SERVE_RUN_BODY_BYTES).await;
        let body = body.map_err(|error| refused(error.status(), error.to_string()))?;
        if count_json_values(&body) > limits::SERVE_BODY_VALUES {
            let message =
                format!("the body has more than {} values; send the data as a file", limits::SERVE_BODY_VALUES);
            return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Ok(body)
    }

    fn refuse(&self, binding: &RequestBinding, error: &A2aError) -> ServedResponse {
        let (status, body) = match binding {
            RequestBinding::JsonRpc(id) => (StatusCode::OK, rpc_error(id, error)),
            RequestBinding::HttpJson => {
                let status = StatusCode::from_u16(error.kind.http_status());
                (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), error.to_status())
            }
        };
        bytes_response(status, binding.content_type(), self.host.clean_json(&body))
    }

    /// Returns the operations, for tests.
    #[cfg(test)]
    pub(super) fn operations(&self) -> &TaskOperations {
        &self.operations
    }
}

impl RequestBinding {
    fn content_type(&self) -> &'static str {
        match self {
            Self::JsonRpc(_) => "application/json",
            Self::HttpJson => MEDIA_TYPE,
        }
    }

    fn result(&self, value: &Value) -> Value {
        match self {
            Self::JsonRpc(id) => rpc_result(id, value),
            Self::HttpJson => value.clone(),
        }
    }
}

/// Returns the version of the protocol that a client speaks, in a header or in the query.
fn version(request: &ServedRequest) -> Option<String> {
    request.header(VERSION_HEADER).map(str::to_owned).or_else(|| request.query_value("A2A-Version"))
}

/// Returns the parameters in a query. A value that is no number or flag where one is expected stays a text, which is
/// refused.
fn query_params(request: &ServedRequest) -> Map<String, Value> {
    let typed = |name: &str, text: String| {
        let number = || text.parse::<u32>().ok().filter(|_| NUMBERS.contains(&name)).map(Value::from);
        let flag = || text.parse::<bool>().ok().filter(|_| FLAGS.contains(&name)).map(Value::from);
        number().or_else(flag).unwrap_or_else(|| Value::from(text.clone()))
    };
    let given = QUERY_FIELDS.iter().filter_map(|name| Some((*name, request.query_value(name)?)));
    given.map(|(name, text)| (name.to_owned(), typed(name, text))).collect()
}

fn not_allowed(allowed: &'static str) -> ServedResponse {
    let error =
        A2aError::new(A2aErrorKind::MethodNotFound, format!("the path does not have this method; use {allowed}"));
    let body = serde_json::to_vec(&error.to_status()).unwrap_or_default();
    let mut response = bytes_response(StatusCode::METHOD_NOT_ALLOWED, "application/json", body);
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
