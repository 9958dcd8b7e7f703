use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    conversation_text::content_text,
    fixture::{ToolMiddlewareFixture, json_or_text, tool_contents},
    record::{TrialWatcher, recorded},
    step_log::{StepLog, check_after, contents_json, decision, state_json},
    step_outcome::{StepTrial, not_of_kind},
};
use crate::{
    error::{ErrorKind, Fault, Report},
    event::RunCx,
    plugin::{Plugin, PluginKind, PluginToolMiddleware},
    tool::{ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget},
};

/// Calls a tool middleware before a call, after it, or both.
pub(super) async fn tool_middleware_step(
    plugin: &Arc<Plugin>,
    input: ToolMiddlewareFixture,
    watch: &mut TrialWatcher<'_>,
) -> Result<StepTrial, Report> {
    let middleware =
        PluginToolMiddleware::new(plugin).ok_or_else(|| not_of_kind(plugin, PluginKind::ToolMiddleware))?;
    check_after(input.state.is_some(), input.outcome.is_some(), "`outcome`")?;
    let mut call = input.call.call();
    let target = ToolTarget { origin: input.target.origin, hints: input.target.hints };
    let outcome = match input.outcome {
        None => None,
        Some(outcome) if outcome.error.is_some() && (outcome.text.is_some() || !outcome.content.is_empty()) => {
            let message = "outcome: `error` stands beside content";
            return Err(Report::new(ErrorKind::Usage, message).hint("remove one of them"));
        }
        Some(outcome) => Some(match outcome.error {
            Some(error) => Err(Fault::from(error)),
            None => Ok(tool_contents(outcome.text, outcome.content)?),
        }),
    };
    let (mut state, mut log) = (input.state.map(|state| state.0), StepLog::default());
    let work = async |cx: RunCx| {
        if state.is_none() {
            let before = middleware.before(&cx, &call, &target).await?;
            log.set("before", before_json(&before));
            let ToolCallDecision { verdict, arguments, state: kept } = before;
            if let ToolCallVerdict::Allow | ToolCallVerdict::Ask { .. } = verdict {
                if let Some(arguments) = arguments {
                    log.changed("arguments", format!("{}\n", call.arguments), format!("{arguments}\n"));
                    call.arguments = arguments;
                }
                state = Some(kept);
            }
        }
        if let (Some(outcome), Some(state)) = (&outcome, state) {
            let content = middleware.after(&cx, &call, outcome.as_deref(), state).await?;
            let after = match &content {
                None => decision("keep", Value::Null),
                Some(content) => decision("replace", json!({ "content": contents_json(content) })),
            };
            log.set("after", after);
            if let (Some(new), Ok(old)) = (&content, outcome) {
                log.changed("result", content_text(old), content_text(new));
            }
        }
        Ok::<_, Fault>(())
    };
    let (done, record) = recorded(&input.run, watch, work).await;
    Ok(log.end(done.err(), record))
}

fn before_json(before: &ToolCallDecision) -> Map<String, Value> {
    let ToolCallDecision { verdict, arguments, state } = before;
    let mut json = match verdict {
        ToolCallVerdict::Allow => decision("allow", Value::Null),
        ToolCallVerdict::Ask { text, topic } => decision("ask", json!({ "text": text, "topic": topic })),
        ToolCallVerdict::Answer(content) => decision("answer", json!({ "content": contents_json(content) })),
        ToolCallVerdict::Deny(why) => decision("deny", json!({ "reason": why })),
    };
    if let Some(arguments) = arguments {
        json.insert("arguments".into(), json_or_text(arguments));
    }
    json.insert("state".into(), state_json(state));
    json
}
