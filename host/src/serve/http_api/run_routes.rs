//! Starting, showing and cancelling runs, and sending messages to them.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    idempotency::IdempotencyKeys,
    problem::{ApiResult, Problem},
    request_bodies::{MessageBody, NewRunBody, parse_json, read_json, read_json_bytes},
    views::{DoneView, RunView, RunsView, StartedRunView},
};
use crate::{
    limits,
    net::http_server::{ServedRequest, ServedResponse, json_response},
    serve::hosted_runs::{HostedRun, RunHost, RunRequest},
};

/// The header with which a client repeats a request safely.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Returns an answer of JSON, without credentials.
pub(super) fn json(host: &RunHost, status: StatusCode, view: &impl serde::Serialize) -> ServedResponse {
    json_response(status, host.clean_json(view))
}

/// Waits for the turn of a body of this size. Small bodies need none, so that clients who send theirs slowly hold up
/// nobody.
pub(super) async fn body_turn(bodies: &Semaphore, bytes: Option<u64>) -> Option<SemaphorePermit<'_>> {
    let is_small = bytes.is_some_and(|bytes| bytes <= limits::SERVE_BODY_BYTES as u64);
    // The semaphore is never closed.
    if is_small { None } else { bodies.acquire().await.ok() }
}

pub(super) async fn start(
    host: &RunHost,
    keys: &IdempotencyKeys,
    bodies: &Semaphore,
    request: &mut ServedRequest,
) -> ApiResult {
    let key = request.header(IDEMPOTENCY_KEY).map(str::to_owned);
    if key.is_none() && request.has_header(IDEMPOTENCY_KEY) {
        return Err(Problem::bad_request("there are several idempotency keys, or the key is not visible ASCII text"));
    }
    let (run, is_new) = {
        let _turn = body_turn(bodies, request.body_bytes()).await;
        let body = read_json_bytes(request, limits::SERVE_RUN_BODY_BYTES).await?;
        let outer_span = request.outer_span();
        let wanted = RunRequest { outer_span, ..parse_json::<NewRunBody>(&body)?.into_request()? };
        let known = match &key {
            Some(key) => keys.find((key, &body), host)?,
            None => None,
        };
        match (known, &key) {
            (Some(run), _) => (run, false),
            (None, key) => {
                // Before the keys are locked: the sessions may be on a server that is away.
                host.check_session(&wanted.target).await?;
                match key {
                    Some(key) => keys.begin((key, &body), host, || host.begin(wanted))?,
                    None => (host.begin(wanted)?, true),
                }
            }
        }
    };
    run.begun().await?;
    let view = StartedRunView { run: run.id().to_string(), session: run.session() };
    let mut response = json(host, if is_new { StatusCode::CREATED } else { StatusCode::OK }, &view);
    if let Ok(location) = HeaderValue::try_from(format!("/api/v1/runs/{}", run.id())) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

pub(super) fn list(host: &RunHost) -> ApiResult {
    let questions = host.questions();
    let runs = host.runs().iter().map(|run| RunView::listed(run.snapshot(), &questions)).collect();
    Ok(json(host, StatusCode::OK, &RunsView { runs }))
}

pub(super) fn show(host: &RunHost, id: &str) -> ApiResult {
    let run = host.run(id)?;
    Ok(view(host, StatusCode::OK, &run))
}

pub(super) fn cancel(host: &RunHost, id: &str) -> ApiResult {
    let run = host.run(id)?;
    if run.state().has_ended() {
        return Ok(view(host, StatusCode::OK, &run));
    }
    run.cancel();
    Ok(view(host, StatusCode::ACCEPTED, &run))
}

pub(super) async fn send(host: &RunHost, id: &str, request: &mut ServedRequest) -> ApiResult {
    let run = host.run(id)?;
    let MessageBody { text, agent } = read_json(request, limits::SERVE_BODY_BYTES).await?;
    if text.trim().is_empty() {
        return Err(Problem::bad_request("the message is empty"));
    }
    run.send_recorded(agent.as_deref(), &text).await?;
    Ok(json(host, StatusCode::ACCEPTED, &DoneView {}))
}

fn view(host: &RunHost, status: StatusCode, run: &Arc<HostedRun>) -> ServedResponse {
    json(host, status, &RunView::of(run.snapshot(), &host.questions()))
}
