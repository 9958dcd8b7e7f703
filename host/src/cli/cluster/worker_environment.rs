//! The parts of this host's environment that a worker combines with the configs of others.

use std::path::{Path, PathBuf};

use crate::{
    app::App,
    approval::{ApprovalBroker, ApprovalInbox, HeadlessPolicy, TrustedSubjects},
    cli::{config_path::parse_config_of, runner_args::RunnerArgs, trust},
    cluster_runs::BundleEnvironment,
    config::Config,
    error::Report,
    trust::TrustStore,
};

/// The environment of a worker, for configs of other hosts.
pub struct WorkerEnvironment {
    /// The options of the worker, without those that select its own config and plugins.
    pub runner: RunnerArgs,
}

impl WorkerEnvironment {
    /// Returns a broker, and its inbox, whose questions wait for somebody who watches the run; `None` if a policy answers.
    pub fn broker(&self) -> (ApprovalBroker, Option<ApprovalInbox>) {
        let policy = self.runner.approve.map_or(HeadlessPolicy::Never, HeadlessPolicy::from);
        let broker = ApprovalBroker::new(policy, TrustedSubjects::default());
        let inbox = if self.runner.approve.is_none() { broker.attend() } else { None };
        (broker, inbox)
    }
}

impl BundleEnvironment for WorkerEnvironment {
    fn config(&self, text: &str, root: PathBuf, agents: &Path) -> Result<Config, Report> {
        parse_config_of(text, root, agents)
    }

    fn app(&self, config: Config, plugins: &[PathBuf]) -> Result<(App, Option<ApprovalInbox>), Report> {
        let (broker, inbox) = self.broker();
        let runner = RunnerArgs { plugins: plugins.to_vec(), ..self.runner.clone() };
        Ok((runner.app(config, broker)?, inbox))
    }

    fn trust(&self) -> TrustStore {
        trust::store()
    }
}

/// Returns the name of this machine, for people.
pub fn host_name() -> String {
    let of_system = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = of_system.or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    let named: String = named.unwrap_or_default().chars().filter(|c| c.is_ascii_graphic()).take(48).collect();
    if named.is_empty() { "host".into() } else { named }
}
