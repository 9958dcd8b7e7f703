//! The use of plugins that were built again while the chat runs.
//!
//! When nothing else runs, each such plugin is tried, and the chat uses it from then on if the agent works with it. An agent
//! that is answering a message keeps the plugins with which it began, except that its tool calls go to the newest build.

use std::{io::Write, sync::Arc};

use super::{
    chat_loop::ChatLoop,
    plugin_adoption::PluginAdoption,
    plugin_development::{DevelopedProject, DevelopmentProgress, PluginDevelopment},
    running_step::RunningStep,
};
use crate::{
    cli::render::{DIM, PLAIN, YELLOW, failure_text, name},
    error::{Report, count},
};

impl<W: Write> ChatLoop<W> {
    /// Watches these projects from now on, and uses their plugins whenever they are built again.
    pub fn develop(&mut self, projects: Vec<DevelopedProject>) {
        self.development = Some(PluginDevelopment::watch(projects));
    }

    /// Handles an event of a watched project: a new build waits until nothing runs, and a failure is shown.
    pub(super) fn show_development(&mut self, progress: DevelopmentProgress) {
        match progress {
            DevelopmentProgress::Built(rebuild) => {
                if let (RunningStep::Message { .. }, Some(development)) = (&self.step, &mut self.development) {
                    development.replace_tools(Arc::clone(&self.app), &rebuild);
                }
                self.rebuilds.retain(|older| older.id != rebuild.id);
                self.rebuilds.push(rebuild);
                if matches!(self.step, RunningStep::None) {
                    self.adopt_rebuilds();
                }
            }
            DevelopmentProgress::ToolsReplaced { id, tools } => {
                let tools = count(tools as u64, "tool is", "tools are");
                let line = format!(
                    "plugin {} rebuilt: {tools} called in it from now on; the next message uses all of it",
                    name(&id)
                );
                self.screen.print(&format!("{DIM}{line}{PLAIN}\n"));
            }
            DevelopmentProgress::Failed { id, report } => self.keep_plugin(&id, "was not built again", &report),
        }
    }

    /// Begins to try the plugins that were built again. Returns `false` if there are none.
    pub(super) fn adopt_rebuilds(&mut self) -> bool {
        if self.rebuilds.is_empty() {
            return false;
        }
        let (app, rebuilds) = (Arc::clone(&self.app), std::mem::take(&mut self.rebuilds));
        let (agent, model) = (self.args.agent.clone(), self.args.model.clone());
        let tried = async move { PluginAdoption::of(app, rebuilds, agent.as_deref(), model.as_deref()).await };
        let task = tokio::spawn(tried);
        self.begin(RunningStep::Adoption { task });
        true
    }

    /// Ends the trial of new builds: uses those that work, and shows why the others do not. Returns the exit code if the
    /// person leaves the chat.
    pub(super) fn end_adoption(&mut self, adoption: Result<PluginAdoption, Report>) -> Option<u8> {
        match adoption {
            Ok(PluginAdoption { app, facts, outcomes }) => {
                self.app = app;
                for (rebuild, outcome) in outcomes {
                    match outcome {
                        Ok(()) => self.screen.print(&format!("{DIM}{}{PLAIN}\n", rebuild.text())),
                        Err(report) => {
                            self.keep_plugin(&rebuild.id, "was rebuilt and cannot be used", &report);
                            let how =
                                "a chat reads its config at its start: after a change, start it again with --continue";
                            self.screen.print(&format!("{DIM}{how}{PLAIN}\n"));
                        }
                    }
                }
                facts.into_iter().for_each(|facts| self.use_facts(facts));
            }
            Err(report) => self.fail(&report.hint("save a file of the project to have its plugin built again")),
        }
        self.end_step()
    }

    /// Shows why the chat does not use the newest build of a plugin.
    fn keep_plugin(&mut self, id: &str, what: &str, report: &Report) {
        let line = format!("plugin {} {what}; the chat keeps the one before", name(id));
        self.screen.print(&format!("{YELLOW}{line}{PLAIN}\n{}", failure_text(report)));
    }
}
