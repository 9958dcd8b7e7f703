use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::function::PluginFunction;
use crate::{
    convert::{self, GuestMediaIndex, GuestPayload},
    loader::Plugin,
    runtime::CallSetup,
    store::{ChatView, ToolProgressThrottle},
};
use shelly_core::{
    chat::{ToolCall, ToolSpec},
    error::Fault,
    event::CalledFunction,
    limits,
    tool::{Tool, ToolConcurrency, ToolCx, ToolOutput},
};

/// A tool that is implemented by a plugin.
pub struct PluginTool {
    plugin: Arc<Plugin>,
    spec: Arc<ToolSpec>,
}

impl PluginTool {
    /// Creates the tool of a plugin with this description.
    pub fn new(plugin: &Arc<Plugin>, spec: &Arc<ToolSpec>) -> Self {
        Self { plugin: Arc::clone(plugin), spec: Arc::clone(spec) }
    }

    /// Returns all tools of a plugin, including the functions of a component that does not use the contract.
    pub fn all(plugin: &Arc<Plugin>) -> impl Iterator<Item = Arc<dyn Tool>> {
        let own = plugin.tools().iter().filter(|_| plugin.kinds.tool.is_some());
        own.map(move |spec| Arc::new(Self::new(plugin, spec)) as Arc<dyn Tool>).chain(PluginFunction::all(plugin))
    }
}

#[async_trait]
impl Tool for PluginTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn origin(&self) -> &str {
        self.plugin.id()
    }

    fn concurrency(&self) -> ToolConcurrency {
        self.plugin.concurrency(self.spec.hints)
    }

    fn time_limit(&self) -> Duration {
        // The call has a limit of its own; this one also covers waiting for permits and for a slow reader.
        limits::PLUGIN_PERMIT_WAIT + self.plugin.limits().tool_time * 2 + limits::READER_WAIT
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let Some(kind) = &self.plugin.kinds.tool else { return Err(Fault::other("the plugin has no tools")) };
        let wit = convert::tool_call_to_wit(call);
        let setup = CallSetup {
            function: CalledFunction::ToolCall,
            time: self.plugin.limits().tool_time,
            lane: self.plugin.lane(),
            input: wit.bytes(),
        };
        let content = self.plugin.executor.call(
            &cx.run,
            setup,
            |state| {
                state.http = self.plugin.http_client(&cx.run);
                state.programs = self.plugin.programs();
                state.progress = Some(ToolProgressThrottle { call: call.id.clone(), last_sent: None, waiting: None });
                if self.plugin.grant.chat {
                    let (chat, tools, powers) = (cx.chat.clone(), cx.tools.clone(), self.plugin.grant.powers.clone());
                    state.chat = ChatView { chat, tools, powers };
                }
            },
            async |store, instance| kind.call(store, instance, &wit).await,
        );
        let content = content.await?;
        if let Some(need) = convert::need(&content)? {
            return Ok(ToolOutput::Needs(need));
        }
        let seen = if self.plugin.grant.chat { GuestMediaIndex::in_chat(&cx.chat) } else { GuestMediaIndex::none() };
        convert::tool_output(content, &seen, |path| self.plugin.resolve(path))
    }
}
