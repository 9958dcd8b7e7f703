//! Runs of the queue: how many workers do in a second, how soon another one goes on, and what a run that waits takes.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use shelly_host::{
    cluster::{Cluster, ClusterOptions, RunEntry, RunSpec},
    limits,
};
use tokio::{runtime::Runtime, time::sleep};

use super::{
    folder,
    harness::{BoxError, FaultPlan, NatsServers, ScriptedModel, TaskKind, Workers, config_text},
    kib, memory_of,
};

/// The time after which a measurement gives up.
const PATIENCE: Duration = Duration::from_secs(600);

/// The pause between two looks at what is measured.
const LOOK: Duration = Duration::from_millis(20);

/// The submitters at once.
const SUBMITTERS: usize = 8;

/// One server, workers that are not started yet, and a model.
struct Figures {
    runtime: Runtime,
    servers: NatsServers,
    model: ScriptedModel,
    workers: Workers,
    cluster: Cluster,
    _folder: tempfile::TempDir,
}

impl Figures {
    fn new(program: &Path, plan: &FaultPlan) -> Result<Self, BoxError> {
        let folder = folder()?;
        let servers = NatsServers::start(program, folder.path(), 1, true)?;
        let model = ScriptedModel::start(plan.thinking)?;
        let config = config_text(model.port(), &servers.urls(), plan);
        let workers = Workers::new(folder.path(), &vec![config; plan.workers], plan.jobs)?;
        let options =
            ClusterOptions { lease: plan.lease, servers: servers.urls(), ..ClusterOptions::new("", "faults") };
        let cluster = Cluster::new(options);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(cluster.connect())?;
        Ok(Self { runtime, servers, model, workers, cluster, _folder: folder })
    }

    /// Submits a run with this id.
    fn submit(&self, kind: TaskKind, id: &str) -> Result<(), BoxError> {
        Ok(self.runtime.block_on(submit(&self.cluster, kind, id.to_owned()))?)
    }

    fn entry(&self, id: &str) -> Result<RunEntry, BoxError> {
        let entry = self.runtime.block_on(self.cluster.runs().entry(id))?;
        entry.ok_or_else(|| format!("there is no run {id}").into())
    }

    /// Waits until something is so.
    fn wait_until(&self, what: &str, mut is_so: impl FnMut(&Self) -> Result<bool, BoxError>) -> Result<(), BoxError> {
        let began = Instant::now();
        while !is_so(self)? {
            if began.elapsed() > PATIENCE {
                return Err(format!("gave up to wait until {what}").into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits until a run has its answer.
    fn wait_for_answer(&self, id: &str) -> Result<(), BoxError> {
        self.wait_until("a run has ended", |figures| Ok(figures.entry(id)?.ending().is_some()))?;
        match self.entry(id)?.ending().and_then(|ending| ending.answer.clone()) {
            Some(_) => Ok(()),
            None => Err(format!("run {id} has no answer").into()),
        }
    }
}

async fn submit(cluster: &Cluster, kind: TaskKind, id: String) -> Result<(), shelly_host::cluster::ClusterError> {
    let task = kind.task(&id, 0);
    let spec = RunSpec { agent: Some("lead".into()), ..RunSpec::new(id.clone(), id, Some(task)) };
    cluster.runs().submit(spec).await.map(drop)
}

fn plan(workers: usize, jobs: usize) -> FaultPlan {
    FaultPlan {
        workers,
        jobs,
        servers: 1,
        thinking: Duration::ZERO,
        lease: limits::CLUSTER_LEASE,
        has_places: false,
        ..FaultPlan::short()
    }
}

/// Measures the runs a second of 1, 2 and 4 workers.
pub fn measure_rate(program: &Path, smoke: bool) -> Result<(), BoxError> {
    let runs = if smoke { 4 } else { 400 };
    println!("\n| {runs} runs of four requests, a model that answers at once | runs a second |\n|---|---|");
    for workers in [1, 2, 4] {
        let mut figures = Figures::new(program, &plan(workers, limits::CLUSTER_WORKER_JOBS))?;
        figures.workers.start_all()?;
        // Each has its first run before the clock starts.
        for number in 0..workers * limits::CLUSTER_WORKER_JOBS {
            figures.submit(TaskKind::Look, &format!("first-{number}"))?;
        }
        (0..workers * limits::CLUSTER_WORKER_JOBS)
            .try_for_each(|number| figures.wait_for_answer(&format!("first-{number}")))?;
        let began = Instant::now();
        figures.runtime.block_on(rate(&figures.cluster, runs))?;
        println!("| {workers} workers | {:.1} |", runs as f64 / began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Submits runs, several at once, and waits until the queue is empty.
async fn rate(cluster: &Cluster, runs: usize) -> Result<(), BoxError> {
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|first| {
            let cluster = cluster.clone();
            tokio::spawn(async move {
                for number in (first..runs).step_by(SUBMITTERS) {
                    submit(&cluster, TaskKind::Look, format!("r-{number}")).await?;
                }
                Ok::<_, shelly_host::cluster::ClusterError>(())
            })
        })
        .collect();
    for submitter in submitters {
        submitter.await??;
    }
    // The entry is written before the message is acknowledged.
    loop {
        let depths = cluster.runs().depths().await?;
        if depths.iter().all(|depth| depth.waiting + depth.taken == 0) {
            break;
        }
        sleep(LOOK).await;
    }
    Ok(())
}

/// Measures the time from the death of a worker to the next request elsewhere.
pub fn measure_takeover(program: &Path, smoke: bool) -> Result<(), BoxError> {
    let (rounds, leases) = if smoke { (1, [2, 2]) } else { (3, [30, 5]) };
    println!("\n| from the death of a host to the next step elsewhere | each of {rounds} |\n|---|---|");
    for seconds in leases {
        let mut times = Vec::new();
        for round in 0..rounds {
            let lease = Duration::from_secs(seconds);
            let thinking = Duration::from_millis(2_000);
            let mut figures = Figures::new(program, &FaultPlan { lease, thinking, ..plan(2, 1) })?;
            let id = format!("r-{round}");
            figures.workers.start(0)?;
            figures.submit(TaskKind::Effect, &id)?;
            figures.wait_until("a step is made", |figures| Ok(figures.model.record(&id).requests.len() > 1))?;
            figures.workers.start(1)?;
            // It is there before the first one dies.
            figures.wait_until("both workers are there", |figures| {
                Ok(figures.runtime.block_on(figures.cluster.workers().list())?.len() == 2)
            })?;
            let died = Instant::now();
            figures.workers.kill(0)?;
            figures.wait_until("the run goes on", |figures| {
                Ok(figures.model.record(&id).newest.is_some_and(|newest| newest > died))
            })?;
            times.push(format!("{:.1?}", died.elapsed()));
        }
        println!("| a lease of {seconds} s | {} |", times.join(", "));
    }
    Ok(())
}

/// Measures the memory of runs that wait for an answer to a question.
pub fn measure_waiting(program: &Path, smoke: bool) -> Result<(), BoxError> {
    let runs = if smoke { 2 } else { 100 };
    let mut figures = Figures::new(program, &plan(1, runs))?;
    figures.workers.start(0)?;
    figures.submit(TaskKind::Look, "first")?;
    figures.wait_for_answer("first")?;
    let memory = |figures: &Figures| {
        let worker = figures.workers.process_id(0).and_then(memory_of);
        (worker, figures.servers.process_ids().first().and_then(|id| memory_of(*id)))
    };
    let before = memory(&figures);
    for number in 0..runs {
        figures.submit(TaskKind::Ask, &format!("r-{number}"))?;
    }
    figures.wait_until("all have asked", |figures| {
        Ok((0..runs).all(|number| !figures.model.record(&format!("r-{number}")).requests.is_empty()))
    })?;
    // The question follows the reply.
    figures.runtime.block_on(async { sleep(Duration::from_secs(2)).await });
    let after = memory(&figures);
    let of_each = |(before, after): (Option<u64>, Option<u64>)| Some(after?.saturating_sub(before?) / runs as u64);
    println!("\n| memory of a run that waits for an answer, of {runs} | |\n|---|---|");
    println!("| in its worker | {} |", kib(of_each((before.0, after.0))));
    println!("| in the server | {} |", kib(of_each((before.1, after.1))));
    Ok(())
}
