use std::sync::Arc;

use crate::{
    approval::ApprovalBroker,
    builtin::{ChangeApprovalPolicy, ConfirmedTool, EscalationContext, FileChangeTool, GrantPrompter, UnsavedNotes},
    capability::{FileAccess, Grant, Power, PromptableCapability},
    change::ChangeApplier,
    config::ChangesUse,
    plugin::Plugin,
    tool::Tool,
};

/// Makes the tools that a plugin gives to one agent, with what is asked before their calls.
pub(super) struct PluginToolMaker {
    pub agent: Arc<str>,
    /// The context in which the tools ask for missing grants.
    pub escalation: EscalationContext,
    pub broker: ApprovalBroker,
    /// Applies the file changes that the tools propose.
    pub applier: ChangeApplier,
    /// Asks a person before each call.
    pub confirm: bool,
    /// Handling of file changes that the tools propose.
    pub changes: ChangesUse,
}

impl PluginToolMaker {
    /// Returns the tools of a plugin.
    pub fn tools(&self, plugin: &Arc<Plugin>) -> Vec<Arc<dyn Tool>> {
        let digest = plugin.package().named_digest();
        let tools = GrantPrompter::tools(plugin, self.escalation.clone()).map(|tool| {
            let tool = self.with_notes(tool, plugin);
            let tool: Arc<dyn Tool> = match self.confirm {
                true => Arc::new(ConfirmedTool::new(tool, self.broker.clone(), &*self.agent, digest.as_str())),
                false => tool,
            };
            match plugin.grant().powers.contains(&Power::ProposeFiles) {
                true => self.changing(tool, plugin, &digest),
                false => tool,
            }
        });
        tools.collect()
    }

    /// Wraps a tool of a plugin that has folders so that its results say what the person has not saved in an editor.
    fn with_notes(&self, tool: Arc<dyn Tool>, plugin: &Arc<Plugin>) -> Arc<dyn Tool> {
        if self.applier.editor().is_none() || plugin.grant().files.is_empty() {
            return tool;
        }
        let plugin = Arc::clone(plugin);
        let resolve = Arc::new(move |path: &str| plugin.named_files(path));
        Arc::new(UnsavedNotes::new(tool, self.applier.clone(), resolve))
    }

    /// Wraps a tool of a plugin so that the changes that it proposes are applied.
    fn changing(&self, tool: Arc<dyn Tool>, plugin: &Plugin, digest: &str) -> Arc<dyn Tool> {
        let asks = match self.changes {
            ChangesUse::Ask => ChangeApprovalPolicy::All,
            ChangesUse::Apply => ChangeApprovalPolicy::Remarkable,
        };
        let (applier, broker) = (self.applier.clone(), self.broker.clone());
        let changing = FileChangeTool::new(tool, applier, broker, &*self.agent, digest, asks);
        let Grant { files, kv, http, programs, .. } = plugin.grant();
        let writes = files.iter().any(|(_, access)| access == FileAccess::Write);
        let sends = !http.is_empty() || plugin.settings().ask.contains(&PromptableCapability::Http);
        let is_pure = !writes && kv.is_empty() && !sends && programs.is_empty();
        Arc::new(if is_pure { changing.pure() } else { changing })
    }
}
