//! Every first-party effect as the component that it is: tables of cases, one file an effect.

mod chance;
mod compact;
mod loop_detect;
mod made;
mod observation_mask;
mod offload;
mod progress;
mod reflection;
mod runs;
mod sliding_window;
mod stall_detect;
mod time_budget;
mod token_budget;
mod tool_scope;
mod trim_tool_results;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::Value;
use shelly_host::{
    agent::{Effect, EffectAction, EffectEdit, EffectInput, EffectPhase, EffectStep},
    capability::{Grant, KvScope},
    chat::{Chat, ChatSnapshot, Message, Part, Role, ToolCall, ToolResult, ToolResultContent, ToolSpec},
    error::Fault,
    event::RunCx,
    model::{Completion, Usage},
    plugin::{Limits, Plugin, PluginEffect, PluginEngine, PluginPackage, PluginSettings},
};

/// A plugin of ours with these params, granted all that it asks for.
pub async fn plugin(component: &str, params: Value) -> Arc<Plugin> {
    granted(component, params, |grant| grant).await
}

/// Loads the component with the grant that `change` makes of all that its manifest asks for.
pub async fn granted(component: &str, params: Value, change: impl FnOnce(Grant) -> Grant) -> Arc<Plugin> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let engine = ENGINE.get_or_init(|| Arc::new(PluginEngine::new(None).unwrap()));
    let package = Arc::new(PluginPackage::read(Path::new(component).parent().unwrap()).unwrap());
    let wants = package.manifest.wants.grant();
    let kv = if package.manifest.wants.kv { [KvScope::Run].into() } else { Default::default() };
    let settings = PluginSettings {
        grant: change(Grant { kv, ..wants }),
        params: serde_json::value::to_raw_value(&params).unwrap(),
        // A step of a large chat takes longer than a second where other programs work.
        limits: Limits { step_time: Duration::from_secs(20), ..Limits::default() },
        ..PluginSettings::new("helper", format!("agents.helper.effects.{}", package.manifest.id))
    };
    Arc::new(Plugin::load(engine, &package, &settings).await.unwrap())
}

/// The input of an effect and its state in the run: what the host keeps for it from one call to the next.
struct Stage {
    effect: PluginEffect,
    cx: RunCx,
    moment: EffectInput,
    tools: Arc<[Arc<ToolSpec>]>,
    state: Vec<u8>,
}

impl Stage {
    async fn of(component: &str, params: Value) -> Self {
        let plugin = plugin(component, params).await;
        let moment = EffectInput {
            phase: EffectPhase::BeforeModel,
            iteration: 1,
            request_tokens: 0,
            context_window: None,
            last_usage: None,
            run_usage: Usage::default(),
            model_time: Duration::ZERO,
            elapsed: Duration::ZERO,
            reply: None,
        };
        let effect = PluginEffect::new(&plugin).unwrap();
        Self { effect, cx: RunCx::new("helper").with_run("run"), moment, tools: [].into(), state: Vec::new() }
    }

    /// Calls it as a run does, and keeps its state. `request_tokens` is estimated if the moment has none.
    async fn step(&mut self, chat: &Chat) -> Result<EffectStep, Fault> {
        let chat: ChatSnapshot = chat.snapshot();
        let mut moment = self.moment.clone();
        if moment.request_tokens == 0 {
            moment.request_tokens = chat.tokens();
        }
        let step = self.effect.eval(&self.cx, &moment, &chat, &self.tools, self.state.clone()).await?;
        self.state.clone_from(&step.state);
        self.moment.reply = None;
        Ok(step)
    }

    /// The edits that it answers with; it must not ask.
    async fn edits(&mut self, chat: &Chat) -> Vec<EffectEdit> {
        match self.step(chat).await.unwrap().action {
            EffectAction::Edits(edits) => edits,
            EffectAction::AskModel(ask) => panic!("it asks: {ask:?}"),
        }
    }
}

/// A conversation: the task, and then what `turns` says: calls with their results, or texts of the model.
fn chat(task: &str, turns: &[Turn<'_>]) -> Chat {
    let chat = Chat::new();
    chat.set_system_prompt("helper", "Be helpful.".into());
    chat.append(Message::user(task)).unwrap();
    for (turn, said) in turns.iter().enumerate() {
        said.add(&chat, turn);
    }
    chat
}

/// One reply of a model, and what came of it.
enum Turn<'a> {
    /// A reply with this text.
    Says(&'a str),
    /// A person says this.
    Asked(&'a str),
    /// A reply with calls of tools: name, arguments, result, and whether that is an error.
    Calls(&'a [(&'a str, &'a str, &'a str, bool)]),
}

impl Turn<'_> {
    /// The ids of calls are `c`, the turn, `-` and the place of the call in its reply.
    fn add(&self, chat: &Chat, turn: usize) {
        match self {
            Self::Says(text) => chat.append(Message::text(Role::Assistant, "helper", *text)).unwrap(),
            Self::Asked(text) => chat.append(Message::user(*text)).unwrap(),
            Self::Calls(calls) => {
                let id = |at: usize| format!("c{turn}-{at}");
                let parts = calls.iter().enumerate().map(|(at, (name, arguments, ..))| {
                    Part::ToolCall(ToolCall {
                        id: id(at),
                        name: (*name).into(),
                        arguments: (*arguments).into(),
                        meta: Default::default(),
                    })
                });
                let reply = Message { parts: parts.collect(), ..Message::text(Role::Assistant, "helper", "") };
                let results = calls.iter().enumerate().map(|(at, (_, _, said, is_error))| ToolResult {
                    call_id: id(at),
                    content: vec![ToolResultContent::Text((*said).into())],
                    is_error: *is_error,
                });
                let results = results.collect();
                chat.reply(reply).answer(results);
            }
        }
    }
}
