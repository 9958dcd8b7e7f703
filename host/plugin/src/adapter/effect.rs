use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::run_context::run_context;
use crate::{
    bindings::exports::effect as wit,
    convert::{self, GuestMediaIndex, GuestPayload},
    loader::Plugin,
    metering::Lane,
    runtime::CallSetup,
    store::ChatView,
};
use shelly_core::{
    agent::{Effect, EffectAction, EffectEdit, EffectInput, EffectPhase, EffectStep, OnFailure, Wake},
    capability::{NameSet, Powers},
    chat::{ChatSnapshot, MessageReplacement, ToolSpec},
    digest::Sha256Digest,
    error::Fault,
    event::{CalledFunction, RunCx},
    limits,
};

/// An effect that is implemented by a plugin.
pub struct PluginEffect {
    plugin: Arc<Plugin>,
    setup: String,
}

impl PluginEffect {
    /// Creates the effect of a plugin; `None` if the plugin has none.
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin
            .kinds
            .effect
            .is_some()
            .then(|| Self { setup: digest(&plugin.executor.config), plugin: Arc::clone(plugin) })
    }
}

#[async_trait]
impl Effect for PluginEffect {
    fn name(&self) -> &str {
        self.plugin.id()
    }

    fn phases(&self) -> &[EffectPhase] {
        &self.plugin.package.manifest.phases
    }

    fn powers(&self) -> &Powers {
        &self.plugin.grant.powers
    }

    fn models(&self) -> &NameSet {
        &self.plugin.grant.models
    }

    fn on_failure(&self) -> OnFailure {
        self.plugin.on_failure
    }

    fn setup(&self) -> Option<&str> {
        Some(&self.setup)
    }

    async fn eval(
        &self,
        cx: &RunCx,
        input: &EffectInput,
        chat: &ChatSnapshot,
        tools: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        let Some(kind) = &self.plugin.kinds.effect else { return Err(Fault::other("the plugin has no effect")) };
        let wit_input = input_to_wit(cx, input, chat);
        let setup = CallSetup {
            function: CalledFunction::EffectEval,
            time: self.plugin.limits().step_time,
            lane: Lane::Step,
            input: wit_input.bytes() + state.len(),
        };
        let step = self.plugin.executor.call(
            cx,
            setup,
            |store| {
                let (chat, tools, powers) = (chat.clone(), tools.clone(), self.plugin.grant.powers.clone());
                store.chat = ChatView { chat, tools, powers };
            },
            async |store, instance| kind.eval(store, instance, &wit_input, &state).await,
        );
        let step = step.await?;
        let reply = input.reply.as_ref().and_then(|reply| reply.as_ref().ok());
        let seen = GuestMediaIndex::in_chat_and(chat, reply.map_or(&[], |completion| &completion.parts));
        Ok(EffectStep { state: step.state, action: action(step.action, &seen)?, wake: next_call(step.next_call) })
    }
}

/// Returns a digest of the params that does not depend on the order of their keys.
fn digest(params: &str) -> String {
    let sorted =
        serde_json::from_str::<serde_json::Value>(params).map_or_else(|_| params.into(), |all| all.to_string());
    Sha256Digest::of(sorted).hex()
}

fn input_to_wit(cx: &RunCx, input: &EffectInput, chat: &ChatSnapshot) -> wit::EffectInput {
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    wit::EffectInput {
        cx: run_context(cx),
        phase: match input.phase {
            EffectPhase::BeforeModel => wit::Phase::BeforeModel,
            EffectPhase::AfterModel => wit::Phase::AfterModel,
        },
        iteration: input.iteration,
        messages: u32::try_from(chat.len()).unwrap_or(u32::MAX),
        request_tokens: input.request_tokens,
        context_window: input.context_window,
        last_usage: input.last_usage.map(convert::usage_to_wit),
        run_usage: convert::usage_to_wit(input.run_usage),
        model_ms: millis(input.model_time),
        elapsed_ms: millis(input.elapsed),
        reply: input.reply.as_ref().map(convert::reply_to_wit),
    }
}

/// Converts the time of the next call. `None` is the next phase; conditions without a value never hold.
fn next_call(next_call: wit::NextCall) -> Option<Wake> {
    match next_call {
        wit::NextCall::NextPhase => None,
        wit::NextCall::When(wake) => Some(Wake {
            iteration: wake.iteration,
            request_tokens: wake.request_tokens,
            run_tokens: wake.run_tokens,
            model_time: wake.model_ms.map(Duration::from_millis),
        }),
        wit::NextCall::Never => Some(Wake::default()),
    }
}

fn action(action: wit::Action, seen: &GuestMediaIndex<'_>) -> Result<EffectAction, Fault> {
    match action {
        wit::Action::Edits(edits) => {
            edits.into_iter().map(|one| edit(one, seen)).collect::<Result<_, _>>().map(EffectAction::Edits)
        }
        wit::Action::AskModel(ask) => Ok(EffectAction::AskModel(Box::new(convert::ask(ask, seen)?))),
    }
}

fn edit(edit: wit::Edit, seen: &GuestMediaIndex<'_>) -> Result<EffectEdit, Fault> {
    Ok(match edit {
        wit::Edit::Note(text) => EffectEdit::Note(text),
        wit::Edit::ReplaceResult(new) => {
            EffectEdit::ReplaceResult { call_id: new.call_id, content: convert::content(new.content, seen)? }
        }
        wit::Edit::Replace(wit::Replacement { first, last, messages }) => {
            let messages = messages.into_iter().map(|one| convert::message(one, seen)).collect::<Result<_, _>>()?;
            EffectEdit::Replace(MessageReplacement { first, last, messages })
        }
        wit::Edit::HideTools(names) => EffectEdit::HideTools(names),
        wit::Edit::Stop(stop) => EffectEdit::Stop {
            code: convert::bounded(stop.code, 100),
            message: convert::bounded(stop.message, limits::ERROR_BYTES),
        },
        wit::Edit::Other(opaque) => EffectEdit::Unknown(convert::bounded(opaque.kind, 100)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_digest_ignores_key_order() {
        let same = [r#"{"a": 1, "b": {"c": 2, "d": 3}}"#, r#"{"b":{"d":3,"c":2},"a":1}"#].map(digest);
        assert_eq!(same[0], same[1]);
        assert_ne!(same[0], digest(r#"{"a": 1, "b": {"c": 3, "d": 2}}"#));
    }
}
