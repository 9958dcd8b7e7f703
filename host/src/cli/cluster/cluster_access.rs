//! The cluster that a config names, and the runs in it that a person means.

use std::path::PathBuf;

use clap::Args;

use crate::{
    app,
    cli::{config_path::read_config_silently, project_sessions::admit_cluster},
    cluster::{Cluster, RunEntry, RunSpec},
    config::Config,
    error::{ErrorKind, Report, cut, legible},
    limits,
};

/// The config whose cluster is meant.
#[derive(Args)]
pub struct ClusterConfigArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The namespace, of those that the config names (default: cluster.namespace).
    #[arg(long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// Trust the cluster that the config names for this command without asking; see shelly-host config trust.
    #[arg(long)]
    pub trust: bool,
}

impl ClusterConfigArgs {
    /// Returns `true` if the person has named the config, or consents to its cluster for this command.
    pub fn is_trusted(&self) -> bool {
        self.config.is_some() || self.trust
    }

    /// Reads the config and returns it with its cluster, to which the person has consented.
    pub fn open(&self) -> Result<(Config, Cluster), Report> {
        let config = read_config_silently(self.config.as_ref())?;
        let config = match &self.namespace {
            Some(namespace) => in_namespace(&config, namespace)?,
            None => config,
        };
        admit_cluster(&config, self.is_trusted())?;
        let cluster = cluster_of(&config)?;
        Ok((config, cluster))
    }
}

/// Returns the cluster of a config.
pub fn cluster_of(config: &Config) -> Result<Cluster, Report> {
    app::cluster_of(config).ok_or_else(no_cluster)
}

/// Reports that a config names no cluster.
pub fn no_cluster() -> Report {
    let hint = "write cluster: {nats: 'nats://HOST:4222', namespace: NAME} into it, or name another with --config";
    Report::new(ErrorKind::Usage, "the config names no cluster").hint(hint)
}

/// Returns the config with its cluster in this namespace, which is one of those that it names.
pub fn in_namespace(config: &Config, namespace: &str) -> Result<Config, Report> {
    config.in_namespace(namespace).ok_or_else(|| {
        let Some(cluster) = &config.cluster else { return no_cluster() };
        let shown = cut(&legible(namespace), limits::NAME_SHOWN_CHARS);
        let known = cluster.served_namespaces().join(", ");
        Report::new(ErrorKind::Usage, format!("the config names no namespace `{shown}`"))
            .hint(format!("use one of {known}, or add it under cluster.namespaces: [{{namespace: NAME}}]"))
    })
}

/// Returns the entry of a run: the one with this id, or the newest one in the session of this name.
pub async fn run_of(cluster: &Cluster, given: &str) -> Result<RunEntry, Report> {
    let runs = cluster.runs();
    if RunSpec::is_id(given)
        && let Some(entry) = runs.entry(given).await.map_err(|error| error.report())?
    {
        return Ok(entry);
    }
    // The newest comes first.
    let all = runs.list(limits::CLUSTER_RUNS_LISTED).await.map_err(|error| error.report())?;
    all.into_iter().find(|entry| entry.spec.session == given).ok_or_else(|| {
        let shown = cut(&legible(given), limits::NAME_SHOWN_CHARS);
        let namespace = &cluster.options().namespace;
        let what = format!("the queue of the namespace `{namespace}` has neither a run nor a session `{shown}`");
        let hint = "`shelly-host cluster runs` lists runs; another namespace of the config is named with --namespace";
        Report::new(ErrorKind::Usage, what).hint(hint)
    })
}

/// Parses a label.
pub fn label(text: &str) -> Result<String, String> {
    let most = limits::CLUSTER_LABEL_BYTES;
    match RunSpec::is_label(text) {
        true => Ok(text.to_owned()),
        false => Err(format!("a label has 1 to {most} of a-z, 0-9 and _")),
    }
}
