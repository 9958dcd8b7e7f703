//! A trial: servers, workers, a model, and runs that are submitted while faults happen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    future::Future,
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use shelly_host::{
    capability::Budget,
    cluster::{Cluster, ClusterError, ClusterOptions, RunEntry, RunPhase, RunSpec},
    limits,
};
use tokio::time::{sleep, timeout};

use super::{
    config::NAMESPACE,
    disturbance::Disturbance,
    model::ScriptedModel,
    person::TrialPerson,
    plan::{BoxError, FaultPlan},
    proxy::{Proxy, ProxyMode},
    random::SeededRandom,
    servers::NatsServers,
    tasks::{AGENTS, kind_of, run_id},
    workers::Workers,
};

/// The tokens that each run may spend.
const BUDGET: u64 = 1_000_000;

/// The time for which a call of the trial itself is repeated while no server does it.
const RETRY: Duration = Duration::from_secs(120);

/// The time after the last fault within which another run ends, as long as there are some.
const PATIENCE: Duration = Duration::from_secs(240);

/// The time after the last end within which nothing is left of the runs but their entries and sessions.
const SETTLE: Duration = Duration::from_secs(90);

/// The pause between two looks at the runs.
const LOOK: Duration = Duration::from_millis(500);

/// The time between two lines that say how far the trial is.
const PROGRESS: Duration = Duration::from_secs(10);

/// A trial.
pub struct Trial<'a> {
    pub plan: &'a FaultPlan,
    pub servers: NatsServers,
    pub model: ScriptedModel,
    /// The proxies of each worker, one for each server, and after them those of the person.
    pub links: Vec<Vec<Proxy>>,
    pub workers: Workers,
    /// The cluster as this process sees it, without proxies.
    pub cluster: Cluster,
    pub disturbances: Vec<(SystemTime, Disturbance)>,
    /// The faults that this system does not allow, and why.
    pub left_out: Vec<String>,
    /// The reason for which no server has a disk of its own.
    pub no_disk: Option<String>,
    /// The time at which each run was first seen to have ended, by the clock of this process.
    pub ended: BTreeMap<String, SystemTime>,
    /// The messages that were sent to runs, by run.
    pub notes: BTreeMap<String, usize>,
    pub log: File,
    pub began: Instant,
    person: Cluster,
    told: Instant,
}

impl<'a> Trial<'a> {
    /// Starts the servers and the model, and prepares the workers, with all files below this folder.
    pub fn prepare(plan: &'a FaultPlan, program: &Path, folder: &Path) -> Result<Self, BoxError> {
        let (servers, no_disk) = NatsServers::start_with_disk(program, folder, plan.servers)?;
        let model = ScriptedModel::start(plan.thinking)?;
        let link = |server: usize| Proxy::start(servers.port(server));
        let links_of = |_| (0..plan.servers).map(link).collect::<Result<Vec<_>, _>>();
        let links = (0..=plan.workers).map(links_of).collect::<Result<Vec<_>, _>>()?;
        let urls = |links: &Vec<Proxy>| -> Vec<String> {
            links.iter().map(|link| format!("nats://127.0.0.1:{}", link.port())).collect()
        };
        let config = |links: &Vec<Proxy>| super::config::config_text(model.port(), &urls(links), plan);
        let configs: Vec<_> = links[..plan.workers].iter().map(config).collect();
        let mut workers = Workers::new(folder, &configs, plan.jobs)?;
        if plan.has_places {
            workers = workers.with_labels();
        }
        let cluster = |servers: Vec<String>| {
            let (replicas, lease) = (plan.servers, plan.lease);
            Cluster::new(ClusterOptions { servers, replicas, lease, ..ClusterOptions::new("", NAMESPACE) })
        };
        Ok(Self {
            plan,
            person: cluster(urls(&links[plan.workers])),
            cluster: cluster(servers.urls()),
            servers,
            model,
            links,
            workers,
            disturbances: Vec::new(),
            left_out: Vec::new(),
            no_disk,
            ended: BTreeMap::new(),
            notes: BTreeMap::new(),
            log: File::create(folder.join("trial.log"))?,
            began: Instant::now(),
            told: Instant::now(),
        })
    }

    /// Submits the runs, disturbs them, and returns all entries when all have ended: theirs, and those of the runs that they
    /// have begun.
    pub async fn run(&mut self) -> Result<Vec<RunEntry>, BoxError> {
        // Servers of a cluster elect their leaders first.
        repeated(|| self.cluster.connect()).await?;
        self.workers.start_all()?;
        let specs = self.plan.specs();
        // Those that come last are disturbed too.
        let submitting = tokio::spawn(submit_runs(self.cluster.clone(), specs, self.plan.disturbed * 4 / 5));
        let person = TrialPerson::new(self.person.clone(), self.model.clone());
        let (mut random, began, mut deck) = (SeededRandom::new(self.plan.seed), Instant::now(), Vec::new());
        let faults = self.faults();
        while began.elapsed() < self.plan.disturbed && !self.has_ended(&person).await {
            sleep(Duration::from_millis(300 + random.below(1_500) as u64)).await;
            // Each fault comes once before one comes again.
            if deck.is_empty() {
                deck.clone_from(&faults);
            }
            let fault = deck.swap_remove(random.below(deck.len()));
            self.disturb(fault, &mut random).await?;
            self.servers.check()?;
            self.workers.restart_ended()?;
        }
        submitting.await??;
        let (mut count, mut changed) = (self.ended.len(), Instant::now());
        while !self.has_ended(&person).await {
            if self.ended.len() > count {
                (count, changed) = (self.ended.len(), Instant::now());
            }
            if changed.elapsed() > PATIENCE {
                return Err(format!("runs have not ended: {}", self.unfinished().await).into());
            }
            self.servers.check()?;
            self.workers.restart_ended()?;
            sleep(LOOK).await;
        }
        self.notes = person.notes();
        self.settle().await?;
        Ok(repeated(|| self.entries()).await?)
    }

    /// Waits until nothing is reserved any more and the queue is empty: a worker that died after the end of its run leaves
    /// that to the next one.
    async fn settle(&mut self) -> Result<(), BoxError> {
        let (counters, runs, began) = (self.cluster.counters(), self.cluster.runs(), Instant::now());
        loop {
            let reserved = repeated(|| counters.reserved()).await?.runs;
            let depths = repeated(|| runs.depths()).await?;
            let queued: u64 = depths.iter().map(|queue| queue.waiting + queue.taken).sum();
            if (reserved, queued) == (0, 0) {
                return Ok(());
            }
            if began.elapsed() > SETTLE {
                return Err(format!("all runs have ended, but {reserved} are reserved and {queued} queued").into());
            }
            self.workers.restart_ended()?;
            sleep(LOOK).await;
        }
    }

    async fn entries(&self) -> Result<Vec<RunEntry>, ClusterError> {
        self.cluster.runs().list(limits::CLUSTER_RUNS_LISTED).await
    }

    /// Returns `true` if all runs have ended; `false` if that cannot be read.
    async fn has_ended(&mut self, person: &TrialPerson) -> bool {
        let entries = timeout(limits::CLUSTER_CALL, self.entries()).await;
        let Ok(Ok(entries)) = entries else { return false };
        let (now, mut submitted, mut at_work, mut open) = (SystemTime::now(), 0, 0, BTreeSet::new());
        for entry in &entries {
            submitted += usize::from(entry.spec.parent.is_none());
            at_work += usize::from(matches!(entry.phase, RunPhase::Running { .. }));
            match entry.ending() {
                Some(_) => {
                    self.ended.entry(entry.spec.id.clone()).or_insert(now);
                }
                None => {
                    open.insert(entry.spec.id.clone());
                }
            }
        }
        let has_ended = submitted == self.plan.runs && open.is_empty();
        if self.plan.shows_progress && (has_ended || self.told.elapsed() >= PROGRESS) {
            self.told = Instant::now();
            eprintln!(
                "{:5} s: {submitted} of {} runs submitted, {} further ones begun by them, {at_work} at work, {} waiting, \
                 {} faults",
                self.began.elapsed().as_secs(),
                self.plan.runs,
                entries.len() - submitted,
                open.len() - at_work,
                self.disturbances.len()
            );
        }
        person.set_open(open);
        has_ended
    }

    /// Returns the runs that have not ended, in words.
    async fn unfinished(&self) -> String {
        let Ok(entries) = self.entries().await else { return "the servers do not answer".into() };
        let unfinished = entries.iter().filter(|entry| entry.ending().is_none());
        let shown: Vec<_> = unfinished.take(10).map(|entry| format!("{}: {:?}", entry.spec.id, entry.phase)).collect();
        format!("{} entries of {} runs and those that they began; {}", entries.len(), self.plan.runs, shown.join("; "))
    }

    /// Ends all faults that may still last, such as after a failure.
    pub fn heal(&mut self) {
        self.links.iter().flatten().for_each(|link| link.set(ProxyMode::Open));
        let _ = self.servers.set_disk_full(false);
        (0..self.servers.count()).for_each(|at| drop(self.servers.set_stopped(at, false)));
        (0..self.workers.count()).for_each(|at| drop(self.workers.set_stopped(at, false)));
    }
}

impl FaultPlan {
    /// Returns the runs of the trial.
    fn specs(&self) -> Vec<RunSpec> {
        let spec = |number: usize| {
            let id = run_id(number);
            let task = kind_of(&id).task(&id, 0);
            // Enough for all of it: what is set aside for agents on other workers is a part of it.
            let budget = Budget { tokens: Some(BUDGET), ..Budget::default() };
            RunSpec { agent: Some(AGENTS[0].into()), budget, ..RunSpec::new(id.clone(), id, Some(task)) }
        };
        (0..self.runs).map(spec).collect()
    }
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
        let spec = RunSpec { submitted: SystemTime::now(), ..spec };
        let queue = cluster.runs();
        repeated(|| queue.submit(spec.clone())).await?;
        sleep(pause).await;
    }
    Ok(())
}
