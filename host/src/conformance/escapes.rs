//! The escapes of an attack, found from outside after its run.

use std::sync::Arc;

use super::{
    attack::Attack,
    attack_run::{AttackRun, DONE, INSTRUCTIONS, TEAM_TOKENS, TURNS},
    baseline,
    fixture::{AttackFixture, STREAMED},
    observer::AttackObserver,
};
use crate::{agent::RunError, capability::Power, chat::ToolSpec, limits, model::ScriptedCompleter, plugin::PluginKind};

/// Returns the escapes of an attack's run.
pub fn of(attack: &Attack, stage: &AttackFixture, played: &AttackRun, seen: &AttackObserver) -> Vec<String> {
    [of_run(attack, stage, played), of_requests(attack, stage, played), of_passing(attack, played, seen)].concat()
}

/// Checks the run.
fn of_run(attack: &Attack, stage: &AttackFixture, played: &AttackRun) -> Vec<String> {
    let mut escapes = Vec::new();
    let powers = attack.given().powers;
    let mut must = |ok: bool, otherwise: &str| {
        if !ok {
            escapes.push(otherwise.to_owned());
        }
    };
    if let Some(Err(error)) = &played.ended {
        must(!matches!(error, RunError::Crashed(_)), "the run of the agent crashed");
        must(
            !matches!(error, RunError::Stopped { .. }) || powers.contains(&Power::Stop),
            "the run was stopped without the power `stop`",
        );
        must(error.in_full().len() <= 2 * limits::ERROR_BYTES, "an error exceeds its size limit");
    }
    let (then, now) = (stage.chat().snapshot(), played.chat.snapshot());
    must(now.check().is_ok(), "the conversation has a call without a result, or a result without a call");
    let has_lookup = |specs: &[Arc<ToolSpec>]| specs.iter().any(|spec| spec.name == baseline::LOOKUP);
    let saw_all_tools = played.requests.iter().all(|request| request.tools.is_empty() || has_lookup(&request.tools));
    let may_hide = powers.contains(&Power::HideTools) || may_rewrite_requests(attack);
    must(saw_all_tools || may_hide, "a tool was hidden");
    if !powers.contains(&Power::Rewrite) && !powers.contains(&Power::EditResults) {
        let mut there = now.iter().map(|entry| &entry.message.parts);
        let kept = then.iter().all(|entry| there.any(|parts| *parts == entry.message.parts));
        must(kept, "the conversation was changed");
    }
    if played.ended.is_some() && !powers.contains(&Power::SystemPrompt) {
        let prompts = now.iter().filter(|entry| entry.message.role == crate::chat::Role::System);
        let first = now.system_prompt().unwrap_or_default();
        must(
            prompts.count() <= 1 && (first.is_empty() || first.contains(INSTRUCTIONS)),
            "the instructions were changed",
        );
    }
    let is_streamed = |entry: &crate::chat::ChatEntry| entry.message.text_content().contains(STREAMED);
    must(!now.iter().any(is_streamed), "text that was only streamed is in the conversation");
    let is_its_note = |entry: &crate::chat::ChatEntry| entry.message.sender == attack.name;
    must(powers.contains(&Power::Note) || !now.iter().any(is_its_note), "a note was added without the power `note`");
    let asks = if powers.contains(&Power::AskModel) { limits::ASKS_IN_A_ROW * TURNS } else { 0 };
    let most = match attack.kind {
        PluginKind::RunMiddleware => attack.calls + 1 + limits::MIDDLEWARE_RETRIES,
        PluginKind::ModelMiddleware => (attack.calls + 1) * (1 + limits::MIDDLEWARE_RETRIES),
        // Each reply uses some tokens; the last one may exceed the budget.
        PluginKind::Coordinator => u32::try_from(TEAM_TOKENS / tokens_of_a_reply().max(1) + 1).unwrap_or(u32::MAX),
        _ => attack.calls + 1 + asks,
    };
    must(
        played.team_requests == 0 || powers.contains(&Power::AskModel),
        "the model of the team was called without the power `ask-model`",
    );
    must(played.requests.len() <= most as usize, "the model was called more often than allowed");
    must(played.other_requests == 0 || attack.given().models, "a model was called that was not granted");
    escapes
}

/// Returns the tokens that a scripted reply uses.
fn tokens_of_a_reply() -> u64 {
    ScriptedCompleter::text(DONE).map_or(0, |reply| reply.usage.total())
}

/// Returns `true` if the attack may change requests. It must see all of a request for that: parts that it may not see are
/// blank, and it would write the blanks back.
fn may_rewrite_requests(attack: &Attack) -> bool {
    let powers = attack.given().powers;
    let needs = [Power::Rewrite, Power::SeeMessages, Power::SeeArguments, Power::SeeResults];
    attack.kind == PluginKind::ModelMiddleware && needs.iter().all(|power| powers.contains(power))
}

/// Checks the requests that were sent, and the answer, if the attack is a model middleware.
fn of_requests(attack: &Attack, stage: &AttackFixture, played: &AttackRun) -> Vec<String> {
    let mut escapes = Vec::new();
    if attack.kind != PluginKind::ModelMiddleware {
        return escapes;
    }
    let mut must = |ok: bool, otherwise: &str| {
        if !ok {
            escapes.push(otherwise.to_owned());
        }
    };
    let (then, powers) = (stage.chat().snapshot(), attack.given().powers);
    for request in &played.requests {
        must(request.messages.check().is_ok(), "a request was sent that has a call without a result");
        let is_known = |spec: &Arc<ToolSpec>| played.tools.contains(&spec.name);
        must(request.tools.iter().all(is_known), "a tool was offered that the agent does not have");
        let mut there = request.messages.iter().map(|entry| &entry.message.parts);
        let kept = then.iter().all(|entry| there.any(|parts| *parts == entry.message.parts));
        must(kept || may_rewrite_requests(attack), "a request was changed without permission");
    }
    if let Some(Ok(answer)) = &played.ended {
        let may_speak = powers.contains(&Power::Rewrite) || powers.contains(&Power::Answer);
        must(may_speak || answer.message.text_content() == DONE, "the answer is not that of the model");
        let most = tokens_of_a_reply().saturating_mul((played.requests.len() + played.other_requests) as u64);
        must(answer.usage.total() <= most, "tokens were counted that no model used");
    }
    escapes
}

/// Checks that no request and no call went past a middleware that did not let it pass.
fn of_passing(attack: &Attack, played: &AttackRun, seen: &AttackObserver) -> Vec<String> {
    let mut escapes = Vec::new();
    let mut at_most = |there: usize, passed: usize, otherwise: &str| {
        if there > passed {
            escapes.push(otherwise.to_owned());
        }
    };
    match attack.kind {
        PluginKind::ModelMiddleware => {
            let passed = seen.came_back("model-middleware.before") * (1 + limits::MIDDLEWARE_RETRIES as usize);
            at_most(played.requests.len(), passed, "a request was sent that the middleware did not pass on");
        }
        PluginKind::ToolMiddleware => {
            let (before, after) = ("tool-middleware.before", "tool-middleware.after");
            at_most(played.lookups, seen.came_back(before), "a call was made that the middleware did not pass on");
            let now = played.chat.snapshot();
            let results = now.iter().flat_map(|entry| entry.message.tool_results());
            let found = results.filter(|result| result.text() == baseline::FOUND).count();
            at_most(found, seen.came_back(after), "a result was shown that the middleware did not pass on");
            at_most(played.lookups * usize::from(seen.was_asked()), 0, "a call was made that a person had declined");
        }
        _ => {}
    }
    escapes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        chat::{Chat, Message, Part, Role, ToolCall, ToolResult, ToolResultContent},
        conformance::AttackSuite,
    };

    /// Returns a conversation in which [`baseline::LOOKUP`] was called with this result.
    fn chat(result: &str) -> Chat {
        let call = ToolCall { id: "c".into(), name: baseline::LOOKUP.into(), arguments: "{}".into(), meta: vec![] };
        let chat = Chat::new();
        let parts = vec![Part::ToolCall(call)];
        let asked = Message { sender: "victim".into(), role: Role::Assistant, parts, meta: vec![] };
        let content = vec![ToolResultContent::Text(result.into())];
        chat.reply(asked).answer(vec![ToolResult { call_id: "c".into(), content, is_error: false }]);
        chat
    }

    #[test]
    fn bypassed_middleware_is_detected() {
        let suite = AttackSuite::embedded().unwrap();
        let request = || crate::model::CompletionRequest::new(Default::default(), [].into());
        let (call, shown) = (
            "a call was made that the middleware did not pass on",
            "a result was shown that the middleware did not pass on",
        );
        let sent = "a request was sent that the middleware did not pass on";
        // No call of the middleware has returned.
        for (name, requests, lookups, result, says) in [
            ("tool-middleware-before-traps", 2, 0, "no", &[][..]),
            ("tool-middleware-before-traps", 2, 1, "no", &[call]),
            ("tool-middleware-after-traps", 2, 0, baseline::FOUND, &[shown]),
            ("model-middleware-before-traps", 0, 0, "no", &[]),
            ("model-middleware-before-traps", 1, 0, "no", &[sent]),
        ] {
            let attack = suite.attacks().iter().find(|attack| attack.name == name).unwrap();
            let played = AttackRun {
                loaded: Ok(()),
                ended: None,
                faults: vec![],
                chat: chat(result),
                requests: (0..requests).map(|_| request()).collect(),
                other_requests: 0,
                team_requests: 0,
                tools: Default::default(),
                lookups,
            };
            assert_eq!(of_passing(attack, &played, &AttackObserver::default()), says, "{name}");
        }
    }
}
