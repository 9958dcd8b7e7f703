use std::sync::{Arc, LazyLock, OnceLock};

use futures_util::{FutureExt, future::BoxFuture};
use http::{Method, StatusCode};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    ag_ui::{self, AG_UI_PREFIX},
    event_routes,
    idempotency::IdempotencyKeys,
    listing_routes, metrics,
    openai::{self, OPENAI_PREFIX, OpenAiError, StoredResponses},
    openapi_document::openapi_document,
    page,
    problem::{ApiResult, Problem},
    question_routes,
    routes::{self, ApiAction},
    run_routes, session_event_routes, session_routes, trigger_routes,
};
use crate::{
    limits,
    mcp::serve::{McpHttpService, PATH as MCP_PATH},
    net::http_server::{
        AccessDenied, CrossOriginRules, HttpService, RouteAccess, ServedRequest, ServedResponse, bytes_response,
        json_response,
    },
    serve::{a2a::A2aService, hosted_runs::RunHost, triggers::TriggerHost},
};

/// The description of the API, which is the same for all servers of this release.
static OPENAPI: LazyLock<String> = LazyLock::new(|| openapi_document().to_string());

/// The HTTP API to the runs of a host, and, if they are there, the endpoints for MCP clients and for agents of other hosts.
pub struct HttpApi {
    host: RunHost,
    keys: IdempotencyKeys,
    responses: StoredResponses,
    /// One permit for each body that starts a run and may be read.
    bodies: Semaphore,
    /// One permit for each stream of the events of a session that may be read.
    session_streams: Arc<Semaphore>,
    /// Cancelled when the server ends, which ends the streams of events.
    stop: CancellationToken,
    mcp: Option<McpHttpService>,
    a2a: Option<A2aService>,
    triggers: Option<TriggerHost>,
    /// One permit for each webhook whose body may be read.
    hooks: Semaphore,
    connections: OnceLock<Box<dyn Fn() -> usize + Send + Sync>>,
}

impl HttpApi {
    /// Returns the API to these runs. Its streams of events end when `stop` is cancelled.
    pub fn new(host: RunHost, mcp: Option<McpHttpService>, stop: CancellationToken) -> Self {
        let (keys, responses) = (IdempotencyKeys::default(), StoredResponses::default());
        let connections = OnceLock::new();
        let [bodies, hooks] = [limits::SERVE_RUN_BODIES, limits::TRIGGER_BODIES].map(Semaphore::new);
        let session_streams = Arc::new(Semaphore::new(limits::SERVE_SESSION_STREAMS));
        let (a2a, triggers) = (None, None);
        Self { host, keys, responses, bodies, session_streams, stop, mcp, a2a, triggers, hooks, connections }
    }

    /// Serves these triggers too.
    pub fn with_triggers(self, triggers: Option<TriggerHost>) -> Self {
        Self { triggers, ..self }
    }

    /// Returns this API with the endpoint for agents of other hosts.
    pub fn with_a2a(self, a2a: A2aService) -> Self {
        Self { a2a: Some(a2a), ..self }
    }

    /// Sets the function that counts the open connections. Only the first call has an effect.
    pub fn count_connections(&self, count: impl Fn() -> usize + Send + Sync + 'static) {
        let _ = self.connections.set(Box::new(count));
    }

    async fn answer(&self, mut request: ServedRequest) -> ServedResponse {
        match &self.mcp {
            Some(mcp) if request.path() == MCP_PATH => return mcp.handle(request).await,
            _ => {}
        }
        if request.path().starts_with(OPENAI_PREFIX) {
            return openai::answer(&self.host, &self.responses, &self.bodies, &mut request).await;
        }
        match &self.a2a {
            Some(a2a) if A2aService::serves(request.path()) => return a2a.handle(request).await,
            _ => {}
        }
        self.respond(&mut request).await.unwrap_or_else(|problem| self.refuse(&problem))
    }

    async fn respond(&self, request: &mut ServedRequest) -> ApiResult {
        let (host, path) = (&self.host, request.path().to_owned());
        if path.starts_with(AG_UI_PREFIX) {
            return ag_ui::start(host, &self.bodies, request).await;
        }
        if let Some(problem) = switched_off(&path) {
            return Err(problem);
        }
        let (route, arguments) = routes::find(request.method().as_str(), &path)?;
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        match route.action {
            ApiAction::Page => Ok(page::page()),
            ApiAction::Health => listing_routes::health(host),
            ApiAction::Metrics => {
                let connections = self.connections.get().map_or(0, |count| count());
                Ok(bytes_response(StatusCode::OK, metrics::CONTENT_TYPE, metrics::metrics(host, connections)))
            }
            ApiAction::OpenApi => Ok(json_response(StatusCode::OK, OPENAPI.as_str())),
            ApiAction::StartRun => run_routes::start(host, &self.keys, &self.bodies, request).await,
            ApiAction::ListRuns => run_routes::list(host),
            ApiAction::ShowRun => run_routes::show(host, argument(0)),
            ApiAction::CancelRun => run_routes::cancel(host, argument(0)),
            ApiAction::SendMessage => run_routes::send(host, argument(0), request).await,
            ApiAction::WatchRun => event_routes::watch(host, argument(0), request, &self.stop),
            ApiAction::ListQuestions => question_routes::list(host, request),
            ApiAction::AnswerQuestion => question_routes::answer(host, argument(0), request).await,
            ApiAction::ListSessions => session_routes::list(host, request.query_value("limit")).await,
            ApiAction::ShowSession => session_routes::show(host, argument(0)).await,
            ApiAction::ReadSessionEvents => {
                let after = request.query_value("after");
                session_event_routes::read(host, &self.session_streams, argument(0), after).await
            }
            ApiAction::ReadAttachment => session_routes::attachment(host, argument(0), argument(1)).await,
            ApiAction::ListAgents => listing_routes::agents(host),
            ApiAction::ListPlugins => listing_routes::plugins(host).await,
            ApiAction::ListTriggers => trigger_routes::list(host, self.triggers.as_ref()),
            ApiAction::FireTrigger => trigger_routes::fire(host, self.triggers.as_ref(), argument(0), request).await,
            ApiAction::ReceiveWebhook => {
                trigger_routes::receive(host, self.triggers.as_ref(), &self.hooks, argument(0), request).await
            }
        }
    }

    fn refuse(&self, problem: &Problem) -> ServedResponse {
        problem.response(|problem| self.host.clean_json(problem))
    }
}

impl HttpService for HttpApi {
    fn access(&self, method: &Method, path: &str) -> RouteAccess {
        let is_card = self.a2a.is_some() && A2aService::is_public(method, path);
        if is_card || routes::is_public(path) { RouteAccess::Public } else { RouteAccess::Token }
    }

    fn handle(&self, request: ServedRequest) -> BoxFuture<'_, ServedResponse> {
        self.answer(request).boxed()
    }

    fn cross_origin(&self) -> CrossOriginRules {
        CrossOriginRules {
            methods: "GET, POST, DELETE",
            request_headers: "authorization, content-type, accept, last-event-id, idempotency-key, mcp-session-id, \
                              mcp-protocol-version, mcp-method, mcp-name, a2a-version, a2a-extensions, \
                              openai-organization, openai-project, \
                              x-stainless-arch, x-stainless-helper-method, x-stainless-lang, x-stainless-os, \
                              x-stainless-package-version, x-stainless-poll-helper, x-stainless-retry-count, \
                              x-stainless-runtime, x-stainless-runtime-version, x-stainless-timeout",
            exposed_headers: "location, retry-after, mcp-session-id, www-authenticate, x-request-id, x-should-retry",
        }
    }

    fn deny(&self, path: &str, denied: AccessDenied) -> ServedResponse {
        match path.starts_with(OPENAI_PREFIX) {
            true => Box::<OpenAiError>::from(denied).response(&self.host),
            false => self.refuse(&Box::<Problem>::from(denied)),
        }
    }
}

/// Returns the refusal of a path at which this server would answer if it was started with another option.
fn switched_off(path: &str) -> Option<Box<Problem>> {
    let (title, mend) = match path {
        MCP_PATH => ("this server serves no MCP clients", "start it with --mcp"),
        path if A2aService::serves(path) => ("this server serves no agents of other hosts", "start it with --a2a"),
        _ => return None,
    };
    Some(Problem::not_found(title).mend(mend))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;

    use super::*;
    use crate::serve::hosted_runs::testing::SilentHost;

    #[test]
    fn endpoint_that_is_switched_off_names_its_option() {
        for (path, option) in [
            ("/mcp", Some("--mcp")),
            ("/a2a/ada", Some("--a2a")),
            ("/.well-known/agent-card.json", Some("--a2a")),
            ("/api/v1/runs", None),
            ("/mcp/x", None),
        ] {
            let problem = switched_off(path);
            assert_eq!(problem.is_some(), option.is_some(), "{path}");
            let (Some(problem), Some(option)) = (problem, option) else { continue };
            assert!(problem.status() == StatusCode::NOT_FOUND && problem.sentence().ends_with(option), "{path}");
        }
    }

    #[tokio::test]
    async fn large_bodies_are_read_a_few_at_a_time() {
        let silent = SilentHost::new(1).await;
        let api = HttpApi::new(silent.host.clone(), None, CancellationToken::new());
        let large = Some(limits::SERVE_BODY_BYTES as u64 + 1);
        let mut turns = Vec::new();
        for _ in 0..limits::SERVE_RUN_BODIES {
            turns.push(run_routes::body_turn(&api.bodies, large).await.unwrap());
        }
        // A body whose size is not declared may be large.
        for bytes in [large, None] {
            assert!(poll!(pin!(run_routes::body_turn(&api.bodies, bytes))).is_pending());
        }
        assert!(
            run_routes::body_turn(&api.bodies, Some(limits::SERVE_BODY_BYTES as u64)).await.is_none(),
            "needs no turn"
        );
        turns.pop();
        assert!(run_routes::body_turn(&api.bodies, large).await.is_some());
    }
}
