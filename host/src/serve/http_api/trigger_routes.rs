//! Triggers: listing them, firing them by hand, and webhooks.

use http::{HeaderMap, StatusCode};
use tokio::{sync::Semaphore, task::spawn_blocking};

use super::{
    problem::{ApiResult, Problem},
    request_bodies::{FireTriggerBody, read_json, too_many_values},
    run_routes,
    views::{TriggerFiredView, TriggerOutcomeView, TriggerView, TriggersView},
};
use crate::{
    error::{ErrorKind, Report},
    limits,
    net::http_server::ServedRequest,
    serve::{
        hosted_runs::{RunHost, RunHostError},
        triggers::{FiringOutcome, HookOutcome, TriggerHost},
    },
    trigger::WebhookRefusal,
};

/// The reason why a firing has started no run, for its sender.
const SKIPPED: &str = "no run is started, as the trigger has as many at work as it may have; this firing is not kept for \
                       later, and need not be sent again";
/// The reason why a webhook that has come before starts no other run.
const REPEATED: &str = "this webhook has come before, and starts no other run";

pub(super) fn list(host: &RunHost, triggers: Option<&TriggerHost>) -> ApiResult {
    let triggers = triggers.map(TriggerHost::snapshots).unwrap_or_default().into_iter().map(TriggerView::of).collect();
    Ok(run_routes::json(host, StatusCode::OK, &TriggersView { triggers }))
}

/// Fires a trigger. A body is taken in the place of that of a webhook or of the names of files, so that its task can be
/// tried without a signature or a change.
pub(super) async fn fire(
    host: &RunHost,
    triggers: Option<&TriggerHost>,
    name: &str,
    request: &mut ServedRequest,
) -> ApiResult {
    let mut body = FireTriggerBody { payload: None, event: None };
    if request.body_bytes() != Some(0) {
        body = read_json(request, limits::TRIGGER_BODY_BYTES).await?;
    }
    let FireTriggerBody { payload, event } = body;
    let outside = triggers.and_then(|triggers| triggers.firing_values(name, payload, event.as_deref()));
    let outside = outside.ok_or_else(|| no_trigger(triggers))?.map_err(|report| Problem::unprocessable(&report))?;
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
    let (triggers, headers) = (triggers.cloned().ok_or_else(no_webhook)?, request.headers().clone());
    // Whoever sends it is not known yet. Nothing is read without a signature, and then only so much in a bounded time.
    triggers.check_head(name, &|name: &str| header_value(&headers, name)).ok_or_else(no_webhook)?.map_err(unsigned)?;
    // Small bodies need no permit, so that strangers who send theirs slowly keep no sender out.
    let is_small = request.body_bytes().is_some_and(|bytes| bytes <= limits::TRIGGER_SMALL_BODY_BYTES);
    let permit = if is_small { None } else { hooks.try_acquire().ok() };
    if !is_small && permit.is_none() {
        return Err(Problem::too_many("several large webhooks are being received"));
    }
    let body = request.read_body(limits::TRIGGER_BODY_BYTES).await?;
    // What was taken is written to a file.
    let hook = name.to_owned();
    let receive = move || triggers.receive(&hook, &|name: &str| header_value(&headers, name), &body);
    let received = spawn_blocking(receive).await;
    let received = received
        .map_err(|_| Problem::internal(&Report::new(ErrorKind::Bug, "the webhook was not received")))?
        .ok_or_else(no_webhook)?;
    match received {
        // Not 429: it is not this sender who asks too often.
        Ok(HookOutcome::Fired(FiringOutcome::Refused(error @ RunHostError::Busy { .. }))) => {
            Err(Problem::unavailable(error.to_string()).mend("send the webhook again when a run has ended"))
        }
        Ok(HookOutcome::Fired(outcome)) => answer(host, name, outcome),
        Ok(HookOutcome::Repeated(run)) => {
            let (trigger, run) = (name.to_owned(), run.map(|run| run.to_string()));
            let view = TriggerFiredView { trigger, outcome: TriggerOutcomeView::Repeated, run, reason: Some(REPEATED) };
            Ok(run_routes::json(host, StatusCode::OK, &view))
        }
        Ok(HookOutcome::TooManyValues) => Err(too_many_values().mend("let its sender send less")),
        Err(refusal) => Err(unsigned(refusal)),
    }
}

fn no_webhook() -> Box<Problem> {
    Problem::not_found("there is no such webhook")
}

fn unsigned(refusal: WebhookRefusal) -> Box<Problem> {
    let mend = match refusal {
        WebhookRefusal::Unsigned => {
            "send the headers that `signature` of the trigger asks for, and sign with its secret"
        }
        WebhookRefusal::Signature => {
            "sign the very bytes of the body with the secret of the trigger, as its config says"
        }
        WebhookRefusal::Time => "sign it anew, and check the clocks of the sender and of this machine",
    };
    Problem::new(StatusCode::FORBIDDEN, "forbidden", refusal.to_string()).mend(mend)
}

/// Returns the answer to a firing: 202 if a run begins now or later, 200 if it was taken and none begins. A sender takes
/// both for success, so it neither repeats the webhook nor gives it up.
fn answer(host: &RunHost, name: &str, outcome: FiringOutcome) -> ApiResult {
    let (status, outcome, run, reason) = match outcome {
        FiringOutcome::Started(run) => {
            (StatusCode::ACCEPTED, TriggerOutcomeView::Started, Some(run.id().to_string()), None)
        }
        FiringOutcome::Queued => (StatusCode::ACCEPTED, TriggerOutcomeView::Queued, None, None),
        FiringOutcome::Skipped => (StatusCode::OK, TriggerOutcomeView::Skipped, None, Some(SKIPPED)),
        FiringOutcome::Refused(error) => return Err(error.into()),
    };
    Ok(run_routes::json(host, status, &TriggerFiredView { trigger: name.to_owned(), outcome, run, reason }))
}

/// Returns the value of a header; `None` if there is none, there are several, or it is no visible ASCII text.
fn header_value(headers: &HeaderMap, name: &str) -> Option<String> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(one), None) => one.to_str().ok().map(str::to_owned),
        _ => None,
    }
}

fn no_trigger(triggers: Option<&TriggerHost>) -> Box<Problem> {
    let problem = Problem::not_found("there is no such trigger");
    match triggers {
        Some(_) => problem.mend("GET /api/v1/triggers lists them"),
        None => problem.mend("start the server with --triggers"),
    }
}
