use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use super::{
    conversation_text::conversation_text,
    fixture::{CompletionFixture, ModelMiddlewareFixture, RequestFixture},
    record::{TrialWatcher, recorded},
    step_log::{StepLog, check_after, decision, millis, rejection, reply_or_error, state_json},
    step_outcome::{StepTrial, not_of_kind},
};
use crate::{
    app::{GRANT_OPTION, LONE_RUN},
    chat::Message,
    error::{Fault, Report},
    event::RunCx,
    model::{Completion, CompletionRequest, ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict},
    plugin::{Plugin, PluginKind, PluginModelMiddleware},
};

/// Calls a model middleware before a request, after it, or both.
pub(super) async fn model_middleware_step(
    plugin: &Arc<Plugin>,
    input: ModelMiddlewareFixture,
    watch: &mut TrialWatcher<'_>,
) -> Result<StepTrial, Report> {
    let middleware =
        PluginModelMiddleware::new(plugin).ok_or_else(|| not_of_kind(plugin, PluginKind::ModelMiddleware))?;
    let reply = reply_or_error(input.reply.map(CompletionFixture::completion), input.error)?;
    check_after(input.state.is_some(), reply.is_some(), "`reply` or `error`")?;
    let mut model = input.request.model.clone().unwrap_or_else(|| LONE_RUN.into());
    let mut request = input.request.request()?;
    let (mut state, mut log) = (input.state.map(|state| state.0), StepLog::default());
    let work = async |cx: RunCx| {
        if state.is_none() {
            let digest = OnceLock::new();
            let before = middleware.before(&cx, &ModelRequestAttempt::new(&model, &request, 0, &digest)).await?;
            log.set("before", before_json(&before));
            if let RequestVerdict::Proceed { model: other, request: changed, state: kept } = before {
                check_model(&middleware, other.as_deref(), &model)?;
                if let Some(changed) = &changed {
                    log.changed("request", request_text(&request), request_text(changed));
                }
                (model, request) = (other.unwrap_or_else(|| model.clone()), changed.unwrap_or_else(|| request.clone()));
                state = Some(kept);
            }
        }
        if let (Some(reply), Some(state)) = (&reply, state) {
            let digest = OnceLock::new();
            let sending = ModelRequestAttempt::new(&model, &request, input.attempt, &digest);
            let after = middleware.after(&cx, &sending, reply.as_ref(), state).await?;
            log.set("after", after_json(&after));
            match (&after, reply) {
                (ReplyVerdict::Replace(new), Ok(reply)) => log.changed("reply", reply_text(reply), reply_text(new)),
                (ReplyVerdict::Retry { model: other, .. }, _) => check_model(&middleware, other.as_deref(), &model)?,
                _ => {}
            }
        }
        Ok::<_, Fault>(())
    };
    let (done, record) = recorded(&input.run, watch, work).await;
    Ok(log.end(done.err(), record))
}

/// Refuses a model to which the middleware may not send requests.
fn check_model(middleware: &PluginModelMiddleware, other: Option<&str>, own: &str) -> Result<(), Fault> {
    match other {
        Some(other) if other != own && !middleware.models().contains(other) => {
            let other = other.escape_debug();
            let message =
                format!("the model `{other}` is not granted; grant it with {GRANT_OPTION} 'models: [{other}]'");
            Err(Fault::Denied { message })
        }
        _ => Ok(()),
    }
}

fn request_text(request: &CompletionRequest) -> String {
    let tools = request.tools.iter().map(|tool| format!("tool {}\n", tool.name)).collect::<String>();
    conversation_text(request.messages.iter().map(|entry| &*entry.message)) + &tools
}

fn reply_text(reply: &Completion) -> String {
    let message: Message = reply.clone().into_message(LONE_RUN);
    conversation_text([&message])
}

fn before_json(before: &RequestVerdict) -> Map<String, Value> {
    match before {
        RequestVerdict::Proceed { model, request, state } => decision(
            "proceed",
            json!({
                "model": model,
                "request": request.as_ref().map(RequestFixture::from),
                "state": state_json(state),
            }),
        ),
        RequestVerdict::Answer(reply) => decision("answer", json!({ "reply": CompletionFixture::from(reply) })),
        RequestVerdict::Reject(fault) => rejection(fault),
    }
}

fn after_json(after: &ReplyVerdict) -> Map<String, Value> {
    match after {
        ReplyVerdict::Accept => decision("accept", Value::Null),
        ReplyVerdict::Replace(reply) => decision("replace", json!({ "reply": CompletionFixture::from(reply) })),
        ReplyVerdict::Reject(fault) => rejection(fault),
        ReplyVerdict::Retry { model, delay, state } => {
            decision("retry", json!({ "model": model, "delay_ms": millis(*delay), "state": state_json(state) }))
        }
    }
}
