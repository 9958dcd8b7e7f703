//! Works on the runs of a cluster.

use std::{net::SocketAddr, path::PathBuf, pin::pin, sync::Arc};

use clap::{Args, ValueEnum};
use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    cluster_access::{cluster_of, in_namespace, label, no_cluster},
    worker_environment::{WorkerEnvironment, host_name},
};
use crate::{
    app::{self, App},
    approval::{ApprovalInbox, TrustedSubjects},
    capability::{Budget, Usd},
    cli::{
        ask::{self, ApprovalModeArg},
        host_environment::cache_base,
        http_access, launch,
        render::{self, DIM, PLAIN, RunOutputFormat, name, tell, warn},
        runner_args::{self, RunnerArgs},
        secrets, signals, trust,
    },
    cluster_runs::{
        AcceptPolicy, BundleEnvironment, ClusterWorker, ClusterWorkerOptions, ServedNamespace, WorkerHttp, WorkerNotice,
    },
    config::{ClusterConfig, Config},
    error::{ErrorKind, Report},
    limits,
    net::http_server::{AccessPolicy, HttpServer},
    serve::hosted_runs::{RunHost, RunHostOptions},
};

/// Work on the runs in the queue of the cluster that the config names, in its namespace and in those under `namespaces`.
///
/// Runs are prepared and recorded as those of `shelly-host run`, with the files, programs and credentials of this host. If a
/// worker dies, the next one goes on with its runs where their journals end. On a signal the worker takes no more runs, and
/// gives those at work back; a second signal ends it at once. Questions of agents wait for shelly-host attach. Of several
/// namespaces with runs that wait, the one with the fewest at work here gets the next free place.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host worker
  shelly-host worker --jobs 8 --labels gpu,eu
  shelly-host worker --namespace team-a --namespace team-b
  shelly-host worker --accept trusted --approve granted --max-cost 0.50
  shelly-host worker --listen :9464

Standard output is not used.")]
pub struct WorkerArgs {
    /// The config file (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// A namespace whose runs are done; repeatable. Without this option all that the config names.
    #[arg(long, value_name = "NAME")]
    namespace: Vec<String>,
    /// The number of runs at work at once, of all namespaces together.
    #[arg(long, value_name = "N", value_parser = jobs, default_value_t = limits::CLUSTER_WORKER_JOBS)]
    jobs: usize,
    /// The labels that runs may ask for, separated by commas.
    #[arg(long, value_name = "LABELS", value_delimiter = ',', value_parser = label)]
    labels: Vec<String>,
    /// The runs that are accepted, by the config that they bring. Another worker can take the others.
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = AcceptArg::Own)]
    accept: AcceptArg,
    /// Answers requests for consent and questions of agents in this way, without asking. Without this option they wait for
    /// shelly-host attach.
    #[arg(long, value_name = "WHEN", value_enum)]
    approve: Option<ApprovalModeArg>,
    /// Trust the project's config and permissions without asking; see shelly-host config trust. Also go on with sessions
    /// that were not begun by you, and accept the current tools of MCP servers.
    #[arg(long)]
    trust: bool,
    /// The maximum cost of one run in US dollars, including all of its sub-runs. A run can have a smaller one.
    #[arg(long, value_name = "USD", value_parser = runner_args::cost)]
    max_cost: Option<Usd>,
    /// Serve GET /healthz and GET /metrics at this address of this machine, such as :9464; port 0 picks a free port.
    #[arg(long, value_name = "ADDR", value_parser = http_access::address::<9_464>)]
    listen: Option<SocketAddr>,
}

/// The runs that a worker accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AcceptArg {
    /// Those with the same config and plugins as here.
    Own,
    /// Those whose config names nothing that you have not trusted for this project.
    Trusted,
    /// All, because everybody who can reach the namespace is trusted. Sessions of others are gone on with too.
    Any,
}

impl From<AcceptArg> for AcceptPolicy {
    fn from(accept: AcceptArg) -> Self {
        match accept {
            AcceptArg::Own => Self::Own,
            AcceptArg::Trusted => Self::Trusted,
            AcceptArg::Any => Self::Any,
        }
    }
}

/// Parses the number of runs at work at once.
fn jobs(text: &str) -> Result<usize, String> {
    let most = limits::CLUSTER_WORKER_JOBS_CEILING;
    let jobs = text.parse().ok().filter(|jobs| (1..=most).contains(jobs));
    jobs.ok_or_else(|| format!("the number of runs must be 1 to {most}"))
}

impl WorkerArgs {
    pub fn execute(self) -> u8 {
        let failed = |report: &Report| render::failed(report, RunOutputFormat::Text);
        let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return failed(&Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error)),
        };
        let ended = runtime.block_on(self.run());
        // A guest in a computation yields within a tick; nothing else is waited for.
        runtime.shutdown_background();
        ended.unwrap_or_else(|report| failed(&report))
    }

    async fn run(self) -> Result<u8, Report> {
        // One listener covers the whole command: a signal between two of them would be lost.
        let interrupt = signals::ended();
        tokio::pin!(interrupt);
        let policy = AccessPolicy { token: None, hosts: Vec::new(), origins: Vec::new() };
        // A wrong address is reported before anything else is done.
        if let Some(address) = self.listen.filter(|address| !http_access::is_loopback(*address)) {
            let what = format!("health and metrics are for this machine alone, and others can reach {address}");
            return Err(
                Report::new(ErrorKind::Usage, what).hint("listen at --listen :9464, and read them on this machine")
            );
        }
        let listener = match self.listen {
            Some(address) => Some(http_access::listen(address, &policy, "--listen").await?),
            None => None,
        };
        let runner = self.runner();
        let config = runner.read_config()?;
        let namespaces = self.namespaces(&config)?;
        let environment =
            WorkerEnvironment { runner: RunnerArgs { config: None, plugins: Vec::new(), ..runner.clone() } };
        let (broker, inbox) = environment.broker();
        let app = runner.app(config.clone(), broker.clone())?;
        let standing = app.standing(&trust::store(), runner.config.is_some())?;
        let trusted = tokio::select! {
            biased;
            code = &mut interrupt => return Ok(code),
            trusted = trust::admitted(&standing, self.trust, ask::is_attended()) => trusted?,
        };
        broker.trust(trusted.clone());
        secrets::hide(app.secrets());
        launch::remember_session(&config.root, runner.config.as_deref());
        let options = self.worker_options()?;
        let (mut apps, mut own_inbox) = (Vec::new(), Some(inbox));
        let mut served = Vec::new();
        for namespace in &namespaces {
            let (app, inbox) = match own_inbox.take_if(|_| config.is_in_namespace(namespace)) {
                Some(inbox) => (app.clone(), inbox),
                None => app_of(namespace, (&app, &config), &environment, &runner, &trusted)?,
            };
            served.push(self.served(&app, inbox, &runner)?);
            apps.push(app);
        }
        let (id, environment) = (options.id.clone(), Arc::new(environment) as Arc<dyn BundleEnvironment>);
        let worker = ClusterWorker::new(served, &environment, &options, move |notice| show_notice(&id, &notice))?;
        let stop = CancellationToken::new();
        let serving = listener.map(|(listener, address)| {
            tell(&format!("health and metrics at http://{address}\n"));
            let server = HttpServer::new(policy, Arc::new(WorkerHttp::new(worker.status())));
            tokio::spawn(server.serve(listener, stop.clone(), limits::SERVE_STOP_GRACE))
        });
        let mut working = pin!(worker.work());
        let code = tokio::select! {
            biased;
            code = &mut interrupt => code,
            ended = &mut working => return ended.map(|()| 0),
        };
        worker.stop();
        tell("draining\n");
        working.await?;
        stop.cancel();
        if let Some(serving) = serving {
            let _ = timeout(limits::SERVE_STOP_GRACE, serving).await;
        }
        let closing = apps.iter().map(|app| async move { tokio::join!(app.settled(), app.close_servers()) });
        let _ = timeout(limits::CANCEL_GRACE, join_all(closing)).await;
        // The apps of all namespaces share it.
        if let Some(warning) = app.telemetry_flush().finish().await {
            warn(&warning);
        }
        tell("stopped\n");
        Ok(code)
    }

    fn runner(&self) -> RunnerArgs {
        RunnerArgs {
            config: self.config.clone(),
            plugins: self.plugins.clone(),
            approve: self.approve,
            trust: self.trust,
            max_cost: self.max_cost,
            ..RunnerArgs::default()
        }
    }

    /// Returns the namespaces whose runs are done, each once.
    fn namespaces(&self, config: &Config) -> Result<Vec<String>, Report> {
        cluster_of(config)?;
        let all: Vec<String> = config.cluster.iter().flat_map(ClusterConfig::served_namespaces).collect();
        if self.namespace.is_empty() {
            return Ok(all);
        }
        let unknown = self.namespace.iter().find(|namespace| !all.contains(namespace));
        if let Some(unknown) = unknown {
            in_namespace(config, unknown)?;
        }
        Ok(all.into_iter().filter(|namespace| self.namespace.contains(namespace)).collect())
    }

    /// Returns the namespace of an app as the worker does its runs.
    fn served(&self, app: &App, inbox: Option<ApprovalInbox>, runner: &RunnerArgs) -> Result<ServedNamespace, Report> {
        let cluster = app.cluster().cloned().ok_or_else(no_cluster)?;
        let cache = cache_base().ok_or_else(|| {
            let what = "there is no folder for the configs of other hosts";
            Report::new(ErrorKind::Usage, what).hint("set SHELLY_CACHE_DIR, or HOME")
        })?;
        Ok(ServedNamespace {
            host: RunHost::new(app.clone(), inbox, self.host_options(runner, &app.config)),
            limits: app::namespace_limits(&app.config),
            cache: cache.join("bundles").join(&cluster.options().namespace),
            cluster,
        })
    }

    fn host_options(&self, runner: &RunnerArgs, config: &Config) -> RunHostOptions {
        RunHostOptions {
            launch: runner.named().to_options(&config.root),
            budget: Budget { usd: self.max_cost, ..Budget::default() },
            is_trusted: self.trust || self.accept == AcceptArg::Any,
            // Those that wait for runs on other workers are no jobs.
            max_runs: self.jobs + limits::CLUSTER_WAITING_RUNS,
            ..RunHostOptions::default()
        }
    }

    fn worker_options(&self) -> Result<ClusterWorkerOptions, Report> {
        if self.labels.len() > limits::CLUSTER_WORKER_LABELS {
            let what = format!("a worker has at most {} labels", limits::CLUSTER_WORKER_LABELS);
            return Err(Report::new(ErrorKind::Usage, what).hint("name fewer with --labels"));
        }
        Ok(ClusterWorkerOptions {
            id: worker_id(),
            host: host_name(),
            labels: self.labels.iter().cloned().collect(),
            jobs: self.jobs,
            accept: self.accept.into(),
            session_wait: limits::CLUSTER_SESSION_WAIT,
        })
    }
}

/// Returns the app for a further namespace, with a broker and connections of its own, and the inbox of its questions.
fn app_of(
    namespace: &str,
    (app, config): (&App, &Config),
    environment: &WorkerEnvironment,
    runner: &RunnerArgs,
    trusted: &TrustedSubjects,
) -> Result<(App, Option<ApprovalInbox>), Report> {
    let (broker, inbox) = environment.broker();
    let further = runner.app(in_namespace(config, namespace)?, broker.clone())?.beside(app);
    // The facts of the config are those of all namespaces.
    broker.trust(trusted.clone());
    Ok((further, inbox))
}

/// Shows what the worker with this id tells its operator.
fn show_notice(id: &str, notice: &WorkerNotice) {
    match notice {
        WorkerNotice::TakesRuns { namespace } => tell(&format!(
            "worker {} takes runs of `{}`{DIM}; Ctrl-C gives back those at work{PLAIN}\n",
            name(id),
            name(namespace)
        )),
        WorkerNotice::Recovery { message } => tell(&format!("{}\n", name(message))),
        WorkerNotice::Warning { message } => warn(message),
    }
}

/// Returns the id of a new worker: the name of its host and random digits.
fn worker_id() -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let host: String = host_name().chars().map(plain).collect();
    let mut chance = [0; 4];
    // Without random bytes the process id alone tells the workers of a host apart.
    let _ = getrandom::fill(&mut chance);
    let digits = u32::from_le_bytes(chance) ^ std::process::id();
    format!("{}-{digits:08x}", host.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::RunSpec;

    #[test]
    fn worker_ids_are_valid_and_differ() {
        let (first, second) = (worker_id(), worker_id());
        assert!(RunSpec::is_id(&first) && first != second, "{first} {second}");
        assert!(jobs("0").is_err() && jobs("1").is_ok());
        assert!(jobs(&(limits::CLUSTER_WORKER_JOBS_CEILING + 1).to_string()).is_err());
    }
}
