use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    conversation_text::conversation_text,
    fixture::{MessageFixture, RunMiddlewareFixture, messages_of},
    record::{TrialWatcher, recorded},
    step_log::{StepLog, check_after, decision, messages_json, millis, rejection, reply_or_error, state_json},
    step_outcome::{StepTrial, not_of_kind},
};
use crate::{
    agent::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome},
    chat::Message,
    error::{ErrorKind, Fault, Report},
    event::RunCx,
    plugin::{Plugin, PluginKind, PluginRunMiddleware},
};

/// Calls a run middleware before a run, after it, or both.
pub(super) async fn run_middleware_step(
    plugin: &Arc<Plugin>,
    input: RunMiddlewareFixture,
    watch: &mut TrialWatcher<'_>,
) -> Result<StepTrial, Report> {
    let middleware = PluginRunMiddleware::new(plugin).ok_or_else(|| not_of_kind(plugin, PluginKind::RunMiddleware))?;
    check_after(input.state.is_some(), input.outcome.is_some(), "`outcome`")?;
    let task = messages_of(input.messages)?;
    if task.iter().any(Message::is_paired) {
        let message = "messages: the input of a run has neither calls nor results";
        return Err(Report::new(ErrorKind::Usage, message).hint("remove `calls` and `results`"));
    }
    let outcome = match input.outcome {
        None => None,
        Some(outcome) => {
            let reply = reply_or_error(outcome.reply.map(MessageFixture::reply), outcome.error)?;
            let reply = reply.ok_or_else(|| {
                Report::new(ErrorKind::Usage, "outcome: there is no outcome").hint("write `reply` or `error` below it")
            })?;
            let (usage, attempt) = (outcome.usage.into(), outcome.attempt);
            Some(RunOutcome { reply, usage, duration: Duration::ZERO, attempt })
        }
    };
    let (mut state, mut log) = (input.state.map(|state| state.0), StepLog::default());
    let work = async |cx: RunCx| {
        if state.is_none() {
            let before = middleware.before(&cx, &task).await?;
            log.set("before", before_json(&before));
            match before {
                BeforeRunDecision::Proceed { input: changed, state: kept } => {
                    state = Some(kept);
                    if let Some(changed) = changed {
                        log.changed("task", conversation_text(&task), conversation_text(&changed));
                    }
                }
                BeforeRunDecision::Answer(_) | BeforeRunDecision::Reject(_) => {}
            }
        }
        if let (Some(outcome), Some(state)) = (&outcome, state) {
            let after = middleware.after(&cx, outcome, state).await?;
            log.set("after", after_json(&after));
            if let (AfterRunDecision::Replace(new), Ok(reply)) = (&after, &outcome.reply) {
                log.changed("reply", conversation_text([reply]), conversation_text([new]));
            }
        }
        Ok::<_, Fault>(())
    };
    let (done, record) = recorded(&input.run, watch, work).await;
    Ok(log.end(done.err(), record))
}

fn before_json(before: &BeforeRunDecision) -> Map<String, Value> {
    match before {
        BeforeRunDecision::Proceed { input, state } => {
            decision("proceed", json!({ "messages": input.as_deref().map(messages_json), "state": state_json(state) }))
        }
        BeforeRunDecision::Answer(message) => decision("answer", json!({ "reply": MessageFixture::from(message) })),
        BeforeRunDecision::Reject(fault) => rejection(fault),
    }
}

fn after_json(after: &AfterRunDecision) -> Map<String, Value> {
    match after {
        AfterRunDecision::Accept => decision("accept", Value::Null),
        AfterRunDecision::Replace(message) => decision("replace", json!({ "reply": MessageFixture::from(message) })),
        AfterRunDecision::Reject(fault) => rejection(fault),
        AfterRunDecision::Retry { feedback, delay, state } => {
            decision("retry", json!({ "feedback": feedback, "delay_ms": millis(*delay), "state": state_json(state) }))
        }
    }
}
