//! Agents and teams that workers of the cluster run.

use std::sync::Arc;

use serde_json::Value;

use super::{App, ResolvedModel};
use crate::{
    capability::Ceiling,
    cluster::{PlacedAgentModel, PlacedAgentOptions, QueuedRunContext},
    config::{AgentConfig, ProviderKind},
    error::{ErrorKind, Report},
    plugin,
};

impl App {
    /// Sets the run of the queue that is prepared with this app.
    pub fn with_queued_run(mut self, queued: QueuedRunContext) -> Self {
        self.queued = queued;
        self
    }

    /// Parses the bounds that a parent run on another host sets. Folders of the project are those of this host.
    ///
    /// # Errors
    ///
    /// The reason why this host cannot keep them.
    pub fn parent_ceiling(&self, written: Option<&Value>) -> Result<Ceiling, String> {
        let root = plugin::resolved(&self.config.root);
        written.map_or_else(|| Ok(Ceiling::default()), |written| Ceiling::from_json(written, &root))
    }

    /// Returns this app as it prepares a run of the agent or team `name`: those with `place` are left to workers. A worker
    /// runs the one that it was given itself. Returns `None` if there are none.
    pub(super) fn placed(&self, name: Option<&str>) -> Option<Self> {
        let entry = match name {
            Some(name) => Some(name),
            None => self.config.entry().ok().map(|who| who.name()),
        };
        let here = entry.filter(|_| self.queued.run.is_some());
        let config = self.config.placed(here)?;
        // The runs of those agents find the boards of the session on the server.
        let board_sharing = Some(self.board_sharing.clone().unwrap_or_default());
        let (whole, recorded_session) = (Some(Arc::new(self.clone())), Some(Arc::default()));
        Some(Self { config, whole, board_sharing, recorded_session, ..self.clone() })
    }

    /// Returns the app with all that its config has, also of agents that are left to workers.
    pub(super) fn whole(&self) -> &Self {
        self.whole.as_deref().unwrap_or(self)
    }

    /// Returns an agent that workers with these labels run, in the place of a model. Nothing is sent before it gets a task.
    /// `model` is the model that the command line names.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the config names no cluster, which a checked config does.
    pub(super) fn placed_agent(
        &self,
        agent: &AgentConfig,
        labels: &[String],
        model: Option<&str>,
    ) -> Result<ResolvedModel, Report> {
        let source = placed_source(&agent.place());
        let cluster = self.cluster_connection.clone().ok_or_else(|| {
            Report::new(ErrorKind::Usage, format!("{source}: there is no cluster")).hint("name one under `cluster`")
        })?;
        let completer = PlacedAgentModel::new(PlacedAgentOptions {
            name: agent.name.clone(),
            labels: labels.iter().cloned().collect(),
            model: model.map(str::to_owned),
            runs: Arc::new(cluster),
            parent: self.queued.clone(),
            session: self.recorded_session.clone().unwrap_or_default(),
            root: plugin::resolved(&self.config.root),
            submitter: self.queued.run.as_ref().map(|run| format!("run {run}")).unwrap_or_default(),
            broker: self.broker.clone(),
            cancellations: self.cancellations.clone(),
        });
        Ok(ResolvedModel { completer: Arc::new(completer), source, kind: ProviderKind::Plugin })
    }
}

/// Returns the source of an agent that workers run, for hints. `place` is its position in the config.
pub(super) fn placed_source(place: &str) -> String {
    format!("{place}.place in the config")
}
