use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{
    conversation_text::conversation_text,
    fixture::{CompletionFixture, EffectFixture, TrialConversation, tool_specs},
    model_query::{StepAnswer, StepModels, StepQueries, query_json},
    record::{TrialWatcher, recorded},
    step_log::{StepLog, contents_json, decision, messages_json, millis, reply_or_error, state_json},
    step_outcome::{StepTrial, not_of_kind},
};
use crate::{
    agent::{
        Effect, EffectAction, EffectEdit, EffectEditOutcome, EffectEditor, EffectInput, EffectPhase, Wake, check_edits,
    },
    capability::Power,
    chat::ChatSnapshot,
    error::{ErrorKind, Fault, Report},
    event::RunCx,
    model::CompletionRequest,
    plugin::{Plugin, PluginEffect, PluginKind},
};

/// Calls an effect for one step, and applies its edits to the conversation of the input as far as its powers allow.
pub(super) async fn effect_step(
    plugin: &Arc<Plugin>,
    input: EffectFixture,
    models: Option<&dyn StepModels>,
    watch: &mut TrialWatcher<'_>,
) -> Result<StepTrial, Report> {
    let effect = PluginEffect::new(plugin).ok_or_else(|| not_of_kind(plugin, PluginKind::Effect))?;
    let phase = phase(&effect, input.phase)?;
    let conversation = TrialConversation::new(input.messages, phase == EffectPhase::AfterModel)?;
    let (chat, tools) = (conversation.chat.snapshot(), tool_specs(input.tools)?);
    let estimated = || CompletionRequest::new(chat.clone(), Arc::clone(&tools)).tokens();
    let reply = reply_or_error(input.reply.map(CompletionFixture::completion), input.error)?;
    let mut moment = EffectInput {
        phase,
        iteration: input.iteration,
        request_tokens: input.request_tokens.unwrap_or_else(estimated),
        context_window: input.context_window,
        last_usage: input.last_usage.map(Into::into),
        run_usage: input.run_usage.into(),
        model_time: Duration::from_millis(input.model_ms),
        elapsed: Duration::from_millis(input.elapsed_ms),
        reply: None,
    };
    let (state, mut log) = (input.state.0, StepLog::default());
    let may_ask = effect.powers().contains(&Power::AskModel);
    let mut queries = StepQueries { models, granted: effect.models(), may_ask, asked: Vec::new() };
    let work = async |cx: RunCx| {
        let answer = queries.answered(&cx, state, reply, async |reply, state| {
            moment.reply = reply;
            let step = effect.eval(&cx, &moment, &chat, &tools, state).await?;
            Ok(match step.action {
                EffectAction::AskModel(query) => StepAnswer::Query(query, step.state),
                EffectAction::Edits(edits) => StepAnswer::End((edits, step.state, step.wake)),
            })
        });
        match answer.await? {
            StepAnswer::Query(query, state) => {
                log.set("decision", "ask-model");
                log.set("request", query_json(&query));
                log.set("state", state_json(&state));
            }
            StepAnswer::End((edits, state, wake)) => {
                check_edits(&edits)?;
                log.set("decision", "edits");
                log.set("edits", apply(&effect, &conversation, edits));
                log.set("state", state_json(&state));
                log.set("wake", wake.map(wake_json).unwrap_or_default());
                let (before, after) = (text(&chat), text(&conversation.chat.snapshot()));
                if before != after {
                    let after = conversation.chat.snapshot();
                    let messages: Vec<_> = after.iter().map(|entry| (*entry.message).clone()).collect();
                    log.set("messages", messages_json(&messages));
                }
                log.changed("conversation", before, after);
            }
        }
        Ok::<_, Fault>(())
    };
    let (outcome, record) = recorded(&input.run, watch, work).await;
    log.asked = queries.asked;
    Ok(log.end(outcome.err(), record))
}

/// Returns the phase in which the effect is called.
fn phase(effect: &PluginEffect, wanted: Option<EffectPhase>) -> Result<EffectPhase, Report> {
    let phases = effect.phases();
    match (wanted, phases.first()) {
        (None, Some(first)) => Ok(*first),
        (Some(wanted), _) if phases.contains(&wanted) => Ok(wanted),
        _ => {
            let known: Vec<_> = phases.iter().filter_map(|phase| json!(phase).as_str().map(str::to_owned)).collect();
            let message = format!("plugin `{}` is not called in this phase", effect.name());
            Err(Report::new(ErrorKind::Usage, message)
                .hint(format!("its plugin.toml names the phases {}; write one of them as `phase`", known.join(", "))))
        }
    }
}

fn text(chat: &ChatSnapshot) -> String {
    conversation_text(chat.iter().map(|entry| &*entry.message))
}

/// Applies the edits in order. Returns them as JSON, with the reason for each that is refused.
fn apply(effect: &PluginEffect, conversation: &TrialConversation, edits: Vec<EffectEdit>) -> Value {
    let mut editor = EffectEditor::new(effect, &conversation.chat);
    let mut written = Vec::new();
    for edit in edits {
        let mut json = edit_json(&edit);
        match editor.apply(edit) {
            Err(reason) => drop(json.insert("refused".into(), reason.into())),
            // The run ends here.
            Ok(EffectEditOutcome::Stopped { .. }) => {
                written.push(Value::Object(json));
                break;
            }
            Ok(EffectEditOutcome::Changed | EffectEditOutcome::Hidden(_)) => {}
        }
        written.push(Value::Object(json));
    }
    Value::Array(written)
}

fn edit_json(edit: &EffectEdit) -> Map<String, Value> {
    let facts = match edit {
        EffectEdit::Note(text) => json!({ "text": text }),
        EffectEdit::ReplaceResult { call_id, content } => json!({ "call": call_id, "content": contents_json(content) }),
        EffectEdit::Replace(replacement) => json!({
            "first": replacement.first,
            "last": replacement.last,
            "messages": messages_json(&replacement.messages),
        }),
        EffectEdit::HideTools(names) => json!({ "tools": names }),
        EffectEdit::Stop { code, message } => json!({ "code": code, "message": message }),
        EffectEdit::Unknown(kind) => json!({ "kind": kind }),
    };
    let mut json = decision(edit.kind().name(), facts);
    // Each edit is a part of one decision.
    if let Some(name) = json.remove("decision") {
        json.insert("edit".into(), name);
    }
    json
}

fn wake_json(wake: Wake) -> Value {
    let Wake { iteration, request_tokens, run_tokens, model_time } = wake;
    let model_ms = model_time.map(millis);
    json!({ "iteration": iteration, "request_tokens": request_tokens, "run_tokens": run_tokens, "model_ms": model_ms })
}
