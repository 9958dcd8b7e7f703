//! Sandboxed effects, and conversations on which each of them has something to do.

use std::{error::Error, path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json};
use shelly_host::{
    agent::{EffectInput, EffectPhase},
    capability::Grant,
    chat::{Chat, ChatSnapshot, Message, Part, Role, ToolCall, ToolResult},
    model::Usage,
    plugin::{Plugin, PluginEffect, PluginEngine, PluginPackage, PluginSettings},
};

include!(concat!(env!("OUT_DIR"), "/guests.rs"));

/// Effects that act in the turn that is measured.
pub fn effects() -> [(&'static str, Value); 5] {
    [
        (plugin::LOOP_DETECT, json!({"threshold": 3})),
        (plugin::STALL_DETECT, json!({"window": 6})),
        (plugin::REFLECTION, json!({"failure_threshold": 2})),
        (plugin::PROGRESS, json!({"interval": 1})),
        (plugin::TOKEN_BUDGET, json!({"max_tokens": 1_000_000, "warn_threshold": 0.5})),
    ]
}

/// Makes an effect ready, with all that it asks for but folders.
pub async fn load(engine: &Arc<PluginEngine>, component: &str, params: &Value) -> Result<PluginEffect, Box<dyn Error>> {
    let package = Arc::new(PluginPackage::read(Path::new(component).parent().ok_or("a plugin has a folder")?)?);
    let settings = PluginSettings {
        grant: Grant { files: Default::default(), ..package.manifest.wants.grant() },
        params: serde_json::value::to_raw_value(params)?,
        ..PluginSettings::new("bench", "bench")
    };
    let plugin = Arc::new(Plugin::load(engine, &package, &settings).await?);
    Ok(PluginEffect::new(&plugin).ok_or("it is an effect")?)
}

/// The turn in which all of [`effects`] act on such a conversation.
pub fn moment(chat: &ChatSnapshot) -> EffectInput {
    EffectInput {
        phase: EffectPhase::BeforeModel,
        iteration: 9,
        request_tokens: chat.tokens(),
        context_window: None,
        last_usage: None,
        run_usage: Usage { input_tokens: 600_000, ..Usage::default() },
        model_time: Duration::ZERO,
        elapsed: Duration::ZERO,
        reply: None,
    }
}

/// A conversation of so many messages that ends with the same failing call, over and over.
pub fn chat_of(messages: usize) -> Chat {
    let chat = Chat::new();
    chat.set_system_prompt("worker", "You are worker.".into());
    chat.append(Message::user("Begin.")).expect("it has no calls");
    let pairs = messages / 2 - 1;
    for n in 0..pairs {
        let is_last = n + 8 >= pairs;
        let arguments = if is_last { "{}".into() } else { format!(r#"{{"n":{n}}}"#) };
        let call = ToolCall { id: format!("old_{n}"), name: "echo".into(), arguments, meta: vec![] };
        let (sender, meta) = ("worker".into(), vec![]);
        let message = Message { sender, role: Role::Assistant, parts: vec![Part::ToolCall(call)], meta };
        let open = chat.reply(message);
        let result = ToolResult { is_error: is_last, ..ToolResult::error(format!("old_{n}"), "it is not there") };
        open.answer(vec![result]);
    }
    chat
}
