//! A trial: servers, workers, a model, and runs that are submitted while faults happen.

use std::{
    future::Future,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};
use shelly_host::{
    cluster::{Cluster, ClusterError, ClusterOptions, RunCommand, RunEntry, RunPhase, RunReply, RunSpec},
    limits,
};
use tokio::time::{sleep, timeout};

use super::{
    disturbance::Disturbance,
    model::{AGENTS, ScriptedModel, TaskKind},
    plan::{BoxError, FaultPlan},
    proxy::{Proxy, ProxyMode},
    random::SeededRandom,
    servers::NatsServers,
    workers::Workers,
};

/// The namespace of the trial.
const NAMESPACE: &str = "faults";

/// The time for which a call of the trial itself is repeated while no server does it.
const RETRY: Duration = Duration::from_secs(120);

/// The time after the last fault within which all runs end.
const PATIENCE: Duration = Duration::from_secs(240);

/// The pause between two looks at the runs.
const LOOK: Duration = Duration::from_millis(500);

/// A trial.
pub struct Trial<'a> {
    pub plan: &'a FaultPlan,
    pub servers: NatsServers,
    pub model: ScriptedModel,
    /// The proxies of each worker, one for each server.
    pub links: Vec<Vec<Proxy>>,
    pub workers: Workers,
    /// The cluster as this process sees it, without proxies.
    pub cluster: Cluster,
    pub disturbances: Vec<(SystemTime, Disturbance)>,
}

impl<'a> Trial<'a> {
    /// Starts the servers and the model, and prepares the workers, with all files below this folder.
    pub fn prepare(plan: &'a FaultPlan, program: &Path, folder: &Path) -> Result<Self, BoxError> {
        let servers = NatsServers::start(program, folder, plan.servers, true)?;
        let model = ScriptedModel::start(plan.thinking)?;
        let link = |server: usize| Proxy::start(servers.port(server));
        let links_of = |_| (0..plan.servers).map(link).collect::<Result<Vec<_>, _>>();
        let links = (0..plan.workers).map(links_of).collect::<Result<Vec<_>, _>>()?;
        let config = |links: &Vec<Proxy>| {
            let urls: Vec<_> = links.iter().map(|link| format!("nats://127.0.0.1:{}", link.port())).collect();
            config_text(model.port(), &urls, plan)
        };
        let configs: Vec<_> = links.iter().map(config).collect();
        let workers = Workers::new(folder, &configs, plan.jobs)?;
        let options = ClusterOptions {
            servers: servers.urls(),
            replicas: plan.servers,
            lease: plan.lease,
            ..ClusterOptions::new("", NAMESPACE)
        };
        let cluster = Cluster::new(options);
        Ok(Self { plan, servers, model, links, workers, cluster, disturbances: Vec::new() })
    }

    /// Submits the runs, disturbs them, and returns their entries when all have ended.
    pub async fn run(&mut self) -> Result<Vec<RunEntry>, BoxError> {
        // Servers of a cluster elect their leaders first.
        repeated(|| self.cluster.connect()).await?;
        self.workers.start_all()?;
        let submitting = tokio::spawn(submit_runs(self.cluster.clone(), self.plan.specs(), self.plan.disturbed / 2));
        let asking = self.plan.specs().into_iter().map(|spec| spec.id);
        let asking: Vec<_> = asking.filter(|id| kind_of(id) == TaskKind::Ask).collect();
        let answering = tokio::spawn(answer_questions(self.cluster.clone(), asking));
        let (mut random, began) = (SeededRandom::new(self.plan.seed), Instant::now());
        let faults = Disturbance::of_servers(self.servers.count());
        while began.elapsed() < self.plan.disturbed && !self.has_ended().await {
            sleep(Duration::from_millis(300 + random.below(1_500) as u64)).await;
            let fault = faults[random.below(faults.len())];
            self.disturb(fault, &mut random).await?;
            self.servers.check()?;
            self.workers.restart_ended()?;
        }
        submitting.await??;
        let began = Instant::now();
        while !self.has_ended().await {
            if began.elapsed() > PATIENCE {
                return Err(format!("runs have not ended: {}", self.unfinished().await).into());
            }
            self.servers.check()?;
            self.workers.restart_ended()?;
            sleep(LOOK).await;
        }
        answering.abort();
        Ok(repeated(|| self.entries()).await?)
    }

    async fn entries(&self) -> Result<Vec<RunEntry>, ClusterError> {
        self.cluster.runs().list(limits::CLUSTER_RUNS_LISTED).await
    }

    /// Returns `true` if all runs have ended; `false` if that cannot be read.
    async fn has_ended(&self) -> bool {
        let entries = timeout(limits::CLUSTER_CALL, self.entries()).await;
        let Ok(Ok(entries)) = entries else { return false };
        entries.iter().filter(|entry| entry.ending().is_some()).count() == self.plan.runs
    }

    /// Returns the runs that have not ended, in words.
    async fn unfinished(&self) -> String {
        let Ok(entries) = self.entries().await else { return "the servers do not answer".into() };
        let unfinished = entries.iter().filter(|entry| entry.ending().is_none());
        let shown: Vec<_> = unfinished.take(10).map(|entry| format!("{}: {:?}", entry.spec.id, entry.phase)).collect();
        format!("{} of {} runs are there; {}", entries.len(), self.plan.runs, shown.join("; "))
    }

    /// Ends all faults that may still last, such as after a failure.
    pub fn heal(&mut self) {
        self.links.iter().flatten().for_each(|link| link.set(ProxyMode::Open));
        (0..self.servers.count()).for_each(|at| drop(self.servers.set_stopped(at, false)));
        (0..self.workers.count()).for_each(|at| drop(self.workers.set_stopped(at, false)));
    }
}

/// Returns the id of the run with this number.
pub fn run_id(number: usize) -> String {
    format!("r-{number}")
}

/// Returns the kind of the run with this id.
pub fn kind_of(id: &str) -> TaskKind {
    let number: usize = id.trim_start_matches("r-").parse().unwrap_or_default();
    TaskKind::ALL[number % TaskKind::ALL.len()]
}

impl FaultPlan {
    /// Returns the runs of the trial.
    fn specs(&self) -> Vec<RunSpec> {
        let spec = |number: usize| {
            let id = run_id(number);
            let task = kind_of(&id).task(&id, 0);
            RunSpec { agent: Some(AGENTS[0].into()), ..RunSpec::new(id.clone(), id, Some(task)) }
        };
        (0..self.runs).map(spec).collect()
    }
}

/// Returns the config of a worker that reaches the cluster by these URLs.
pub fn config_text(model_port: u16, urls: &[String], plan: &FaultPlan) -> String {
    let FaultPlan { servers, lease, .. } = plan;
    let model = format!(
        "{{name: local, kind: openai, base_url: 'http://127.0.0.1:{model_port}/v1', model: m, context_window: 32768, \
         retries: 0}}"
    );
    let exec = "toolboxes: [{name: exec, programs: [effect]}]";
    let delegates = "options: {max_delegation_depth: 3}";
    let keys = [format!("{exec}, {delegates}"), delegates.to_owned(), delegates.to_owned(), exec.to_owned()];
    let agent = |(name, keys): (&str, String)| {
        format!("  - {{name: {name}, description: Is the {name}., effects: [], {keys}}}\n")
    };
    let agents: String = AGENTS.into_iter().zip(keys).map(agent).collect();
    format!(
        "providers: [{model}]\nprograms: {{effect: {{command: mktemp, args: [['*']]}}}}\nagents:\n{agents}\
         cluster: {{nats: '{}', namespace: {NAMESPACE}, replicas: {servers}, lease: {}ms}}\n",
        urls.join(", "),
        lease.as_millis()
    )
}

/// Repeats a call of the trial itself while no server does it.
async fn repeated<T, F: Future<Output = Result<T, ClusterError>>>(
    mut call: impl FnMut() -> F,
) -> Result<T, ClusterError> {
    let began = Instant::now();
    loop {
        match call().await {
            Err(_) if began.elapsed() < RETRY => sleep(LOOK).await,
            done => return done,
        }
    }
}

/// Submits runs, spread over this time.
async fn submit_runs(cluster: Cluster, specs: Vec<RunSpec>, time: Duration) -> Result<(), ClusterError> {
    let pause = time / u32::try_from(specs.len().max(1)).unwrap_or(u32::MAX);
    for spec in specs {
        let queue = cluster.runs();
        repeated(|| queue.submit(spec.clone())).await?;
        sleep(pause).await;
    }
    Ok(())
}

/// Answers the questions of these runs until it is aborted. A question that comes again, after its answer was lost, is
/// answered again.
async fn answer_questions(cluster: Cluster, runs: Vec<String>) {
    loop {
        for run in &runs {
            // Failures are those of the faults: the question is still open at the next look.
            if let Ok(Some(RunEntry { phase: RunPhase::Running { .. }, .. })) = cluster.runs().entry(run).await {
                let _ = timeout(limits::CLUSTER_CALL, answer_run(&cluster, run)).await;
            }
        }
        sleep(LOOK).await;
    }
}

async fn answer_run(cluster: &Cluster, run: &str) -> Result<(), ClusterError> {
    let bus = cluster.bus();
    let RunReply::Questions { questions } = bus.ask(run, &RunCommand::Questions).await? else { return Ok(()) };
    for question in questions.iter().filter_map(|question: &Value| question["id"].as_u64()) {
        let reply = json!({"chosen": ["blue"]});
        bus.ask(run, &RunCommand::Answer { question: question.to_string(), reply }).await?;
    }
    Ok(())
}
