//! Triggers: listing them, firing them by hand, and webhooks.

use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{
    problem::{ApiResult, Problem},
    request_bodies::{FireTriggerBody, read_json},
    run_routes,
    views::{TriggerFiredView, TriggerOutcomeView, TriggerView, TriggersView},
};
use crate::{
    limits,
    net::http_server::ServedRequest,
    serve::{
        hosted_runs::RunHost,
        triggers::{FiringOutcome, HookOutcome, TriggerHost},
    },
};

pub(super) fn list(host: &RunHost, triggers: Option<&TriggerHost>) -> ApiResult {
    let triggers = triggers.map(TriggerHost::snapshots).unwrap_or_default().into_iter().map(TriggerView::of).collect();
    Ok(run_routes::json(host, StatusCode::OK, &TriggersView { triggers }))
}

/// Fires a trigger. A body is taken in the place of that of a webhook, so that its task can be tried without a signature.
pub(super) async fn fire(
    host: &RunHost,
    triggers: Option<&TriggerHost>,
    name: &str,
    request: &mut ServedRequest,
) -> ApiResult {
    let mut outside = Value::Null;
    if request.body_bytes() != Some(0) {
        let FireTriggerBody { payload, event } = read_json(request, limits::TRIGGER_BODY_BYTES).await?;
        if payload.is_some() || event.is_some() {
            outside = json!({ "body": payload, "event": event });
        }
    }
    let fired = triggers.and_then(|triggers| triggers.fire_named(name, outside));
    answer(host, name, fired.ok_or_else(|| no_trigger(triggers))?)
}

pub(super) async fn receive(
    host: &RunHost,
    triggers: Option<&TriggerHost>,
    hooks: &Semaphore,
    name: &str,
    request: &mut ServedRequest,
) -> ApiResult {
    // Whoever sends it is not known yet: small bodies need no permit, so that strangers who send theirs slowly keep no
    // sender out.
    let is_small = request.body_bytes().is_some_and(|bytes| bytes <= limits::TRIGGER_SMALL_BODY_BYTES);
    let permit = if is_small { None } else { hooks.try_acquire().ok() };
    if !is_small && permit.is_none() {
        return Err(Problem::too_many("several large webhooks are being received"));
    }
    let body = request.read_body(limits::TRIGGER_BODY_BYTES).await?;
    let header = |name: &str| request.header(name).map(str::to_owned);
    let received = triggers.and_then(|triggers| triggers.receive(name, &header, &body));
    let received = received.ok_or_else(|| Problem::not_found("there is no such webhook"))?;
    match received {
        Ok(HookOutcome::Fired(outcome)) => answer(host, name, outcome),
        Ok(HookOutcome::Repeated(run)) => {
            let (trigger, run) = (name.to_owned(), run.map(|run| run.to_string()));
            let view = TriggerFiredView { trigger, outcome: TriggerOutcomeView::Repeated, run };
            Ok(run_routes::json(host, StatusCode::OK, &view))
        }
        Err(refusal) => Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", refusal.to_string())
            .mend("sign the body with the secret of the trigger, as its config says")),
    }
}

fn answer(host: &RunHost, name: &str, outcome: FiringOutcome) -> ApiResult {
    let (outcome, run) = match outcome {
        FiringOutcome::Started(run) => (TriggerOutcomeView::Started, Some(run.id().to_string())),
        FiringOutcome::Queued => (TriggerOutcomeView::Queued, None),
        FiringOutcome::Skipped => (TriggerOutcomeView::Skipped, None),
        FiringOutcome::Refused(error) => return Err(error.into()),
    };
    Ok(run_routes::json(host, StatusCode::ACCEPTED, &TriggerFiredView { trigger: name.to_owned(), outcome, run }))
}

fn no_trigger(triggers: Option<&TriggerHost>) -> Box<Problem> {
    let problem = Problem::not_found("there is no such trigger");
    match triggers {
        Some(_) => problem.mend("GET /api/v1/triggers lists them"),
        None => problem.mend("start the server with --triggers"),
    }
}
