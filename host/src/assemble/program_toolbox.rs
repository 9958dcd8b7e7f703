//! Toolboxes of agents that run programs: `exec` and `git`.

use std::sync::Arc;

use super::{App, run_resources::chosen};
use crate::{
    approval::ApprovalBroker,
    builtin::{ExecPolicy, GitRepository, exec_tools, git_tools},
    capability::{CapabilityDecision, Ceiling, Grant, NameSet},
    config::{AgentConfig, GIT_PROGRAM, HostToolbox, HostToolboxUse, ToolboxUse},
    error::Report,
    process::{AllowedPrograms, ExecContext},
    tool::ToolBox,
};

/// Returns the programs that the toolboxes of an agent run, as grants name them.
pub(crate) fn of_toolboxes(agent: &AgentConfig) -> NameSet {
    let uses = agent.toolboxes.iter().filter_map(ToolboxUse::own).filter_map(of_toolbox);
    uses.fold(NameSet::default(), |all, one| all.join(&one))
}

/// Returns the programs that a toolbox runs; `None` if it runs none.
fn of_toolbox(uses: &HostToolboxUse) -> Option<NameSet> {
    match (uses.name, &uses.programs) {
        (HostToolbox::Exec, Some(names)) => Some(names.iter().cloned().collect()),
        (HostToolbox::Exec, None) => Some(NameSet::all()),
        (HostToolbox::Git, _) => Some([GIT_PROGRAM.to_owned()].into_iter().collect()),
        (HostToolbox::Ask | HostToolbox::State | HostToolbox::Tasks | HostToolbox::Notes, _) => None,
    }
}

/// A toolbox of an agent that runs programs.
#[derive(Clone)]
pub(crate) struct ProgramToolbox {
    uses: HostToolboxUse,
    programs: AllowedPrograms,
    repository: GitRepository,
    broker: ApprovalBroker,
}

impl App {
    /// Returns warnings about programs of the config that cannot be found.
    pub(crate) fn missing_programs(&self) -> impl Iterator<Item = String> {
        self.programs
            .missing()
            .map(|(name, why)| format!("programs.{}: {why}; calls of it will fail", name.escape_debug()))
    }

    /// Returns the toolbox if it runs programs.
    pub(crate) fn running(&self, uses: &HostToolboxUse) -> Option<ProgramToolbox> {
        of_toolbox(uses)?;
        let ground = self.programs.ground().clone();
        let folder = self.config.root.join(&self.config.git.work_dir);
        let repository = GitRepository::new(ExecContext { root: folder, ..ground });
        Some(ProgramToolbox {
            uses: uses.clone(),
            programs: self.programs.clone(),
            repository,
            broker: self.broker.clone(),
        })
    }
}

impl ProgramToolbox {
    /// Returns the toolbox's name.
    pub fn name(&self) -> &'static str {
        self.uses.name.name()
    }

    /// Returns the tools that a ceiling leaves, and a decision with its rule for each program. If no program is allowed
    /// there are no tools. `place` is the toolbox's position in the config.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the config selects a tool that the toolbox does not have.
    pub fn under(
        &self,
        agent: &str,
        ceiling: &Ceiling,
        place: &str,
    ) -> Result<(ToolBox, Vec<CapabilityDecision>), Report> {
        let mut decisions = Vec::new();
        let mut is_allowed = |programs: NameSet, line: String| {
            let withheld = ceiling.withheld(&Grant { programs, ..Grant::default() });
            let decision = |allowed, rule: Arc<str>| CapabilityDecision {
                plugin: self.name().into(),
                capability: line.clone(),
                allowed,
                rule,
            };
            match withheld.is_empty() {
                true => decisions.push(decision(true, place.into())),
                false => decisions.extend(withheld.iter().map(|(rule, _)| decision(false, Arc::clone(rule)))),
            }
            withheld.is_empty()
        };
        let mut is_one_allowed =
            |name: &str| is_allowed([name.to_owned()].into_iter().collect(), format!("programs: [{name}]"));
        let tools = match (self.uses.name, &self.uses.programs) {
            (HostToolbox::Git, _) => {
                is_one_allowed(GIT_PROGRAM).then(|| git_tools(self.broker.clone(), self.repository.clone()))
            }
            (_, Some(names)) => {
                let allowed: Vec<_> = names.iter().filter(|name| is_one_allowed(name)).collect();
                let programs = self.programs.only(|name| allowed.iter().any(|allowed| *allowed == name));
                (!allowed.is_empty()).then(|| exec_tools(self.broker.clone(), ExecPolicy::Named(programs)))
            }
            (_, None) => is_allowed(NameSet::all(), "programs: ['*']".into())
                .then(|| exec_tools(self.broker.clone(), ExecPolicy::Asked(self.programs.ground().clone()))),
        };
        let tools = tools.map(|tools| chosen(agent, &self.uses, tools)).transpose()?;
        Ok((tools.unwrap_or_default(), decisions))
    }
}
