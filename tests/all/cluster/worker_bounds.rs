//! Bounds on how long a run waits, met by a worker in this process whose times are short.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::json;
use shelly_host::{
    app::{App, sessions_of},
    approval::{ApprovalBroker, ApprovalInbox, HeadlessPolicy, TrustedSubjects},
    cluster::{Cluster, ClusterOptions, NamespaceLimits, RunSpec},
    cluster_runs::{
        AcceptPolicy, BundleEnvironment, ClusterWorker, ClusterWorkerOptions, ServedNamespace, WorkerNotice,
    },
    config::Config,
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    limits,
    serve::hosted_runs::{RunHost, RunHostOptions},
    session::NewSession,
    trust::TrustStore,
};
use tokio::runtime::Runtime;

use super::{ClusterProject, PATIENCE};
use crate::serve::{ModelServer, says};

/// The environment of a worker that uses its own config alone.
struct OwnConfigAlone;

impl BundleEnvironment for OwnConfigAlone {
    fn config(&self, _: &str, _: PathBuf, _: &Path) -> Result<Config, Report> {
        Err(Report::new(ErrorKind::Bug, "the config of another host was read"))
    }

    fn app(&self, _: Config, _: &[PathBuf]) -> Result<(App, Option<ApprovalInbox>), Report> {
        Err(Report::new(ErrorKind::Bug, "the config of another host was used"))
    }

    fn trust(&self) -> TrustStore {
        TrustStore::new(None)
    }
}

/// The times of a worker.
struct WorkerTimes {
    decline: Duration,
    session_wait: Duration,
    retry: Duration,
}

impl Default for WorkerTimes {
    fn default() -> Self {
        Self {
            decline: limits::CLUSTER_DECLINE,
            session_wait: limits::CLUSTER_SESSION_WAIT,
            retry: limits::CLUSTER_RETRY,
        }
    }
}

/// A worker in this process.
struct LocalWorker {
    runtime: Runtime,
    worker: ClusterWorker,
    working: JoinHandle<Result<(), Report>>,
    notices: Arc<Mutex<Vec<WorkerNotice>>>,
}

impl LocalWorker {
    /// Starts a worker with the config of the project.
    fn start(project: &ClusterProject, times: &WorkerTimes) -> Self {
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let config = Config::read(&project.place.path().join("shelly.yaml")).unwrap();
        let cluster = project.cluster();
        let options = ClusterOptions { decline: times.decline, retry: times.retry, ..cluster.options().clone() };
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let plugins: Vec<PathBuf> = Vec::new();
        let app = App::new(config, &plugins, Some(cache), Arc::new(|_| None), broker).unwrap();
        let app = app.with_own_key(project.place.own_key());
        let of_worker = ClusterWorkerOptions {
            id: "local".into(),
            host: "here".into(),
            labels: BTreeSet::new(),
            jobs: 1,
            accept: AcceptPolicy::Own,
            session_wait: times.session_wait,
        };
        let host = RunHost::new(app, None, RunHostOptions::default());
        let environment = Arc::new(OwnConfigAlone) as Arc<dyn BundleEnvironment>;
        let served = ServedNamespace {
            cluster: Cluster::new(options),
            host,
            limits: NamespaceLimits::default(),
            cache: project.place.path().join("bundles"),
        };
        let notices = Arc::<Mutex<Vec<WorkerNotice>>>::default();
        let heard = Arc::clone(&notices);
        let hear = move |notice| heard.lock().unwrap().push(notice);
        let worker = ClusterWorker::new(vec![served], &environment, &of_worker, hear).unwrap();
        drop(entered);
        let (of_thread, handle) = (worker.clone(), runtime.handle().clone());
        let working = thread::spawn(move || handle.block_on(of_thread.work()));
        Self { runtime, worker, working, notices }
    }

    /// Waits until the operator was told this, and returns all that was told.
    fn wait_to_hear(&self, is_it: impl Fn(&WorkerNotice) -> bool) -> Vec<WorkerNotice> {
        let began = Instant::now();
        loop {
            let notices = self.notices.lock().unwrap().clone();
            if notices.iter().any(&is_it) {
                return notices;
            }
            assert!(began.elapsed() < PATIENCE, "{notices:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stops the worker, and waits until it has ended.
    fn stop(self) {
        self.worker.stop();
        self.working.join().unwrap().unwrap();
    }
}

#[test]
fn run_that_no_worker_accepts_ends_as_refused() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let decline = Duration::from_secs(1);
    let times = WorkerTimes { decline, ..WorkerTimes::default() };
    let began = Instant::now();
    let worker = LocalWorker::start(&project, &times);
    let bundle = Some(Sha256Digest::of("the config of another host"));
    let spec = RunSpec { bundle, ..RunSpec::new("foreign", "foreign", Some("Go.".into())) };
    worker.runtime.block_on(async { project.cluster().runs().submit(spec).await.unwrap() });
    let run = project.wait_until("foreign", "refused");
    assert!(began.elapsed() >= decline, "others had no time to take it: {run}");
    assert!(run["starts"].as_u64() >= Some(2), "it was offered again: {run}");
    let why = run["error"]["detail"].as_str().unwrap_or_default();
    assert!(why.contains("is not that of the worker"), "{run}");
    let attached = project.run(&["attach", "--config", "shelly.yaml", "foreign"]);
    let says = attached.stderr.contains("no worker accepts it") && attached.stderr.contains("--accept trusted");
    assert!(attached.code == 2 && says, "{}", attached.shown());
    worker.stop();
}

#[test]
fn run_waits_a_bounded_time_for_its_session() {
    let model = ModelServer::start(|_| says("Done."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let config = Config::read(&project.place.path().join("shelly.yaml")).unwrap();
    let store = sessions_of(&config, project.place.own_key());
    let new = NewSession { id: Some("busy".into()), agent: "helper".into(), ..NewSession::default() };
    let session = store.create(new).unwrap();
    let times = WorkerTimes { session_wait: Duration::from_millis(100), ..WorkerTimes::default() };
    let worker = LocalWorker::start(&project, &times);
    let runs = project.cluster().runs();
    let entry = || worker.runtime.block_on(async { runs.entry("late").await.unwrap().unwrap() });
    let spec = RunSpec::new("late", "busy", Some("Go.".into()));
    worker.runtime.block_on(async { runs.submit(spec).await.unwrap() });
    let began = Instant::now();
    // It goes back to the queue, so that the worker has room for others meanwhile.
    while entry().starts < 2 {
        assert!(began.elapsed() < PATIENCE, "{:?}", entry());
        thread::sleep(Duration::from_millis(50));
    }
    let waiting = entry();
    assert_eq!((waiting.warnings.len(), waiting.deaths), (1, 0), "{waiting:?}");
    assert!(waiting.warnings[0].contains("its session `busy` is in use by another process"), "{waiting:?}");
    worker.runtime.block_on(session.close()).unwrap();
    drop(session);
    assert_eq!(project.wait_until("late", "completed")["answer"], json!("Done."));
    worker.stop();
}

#[test]
fn operator_hears_of_an_outage_and_of_its_end() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let worker = LocalWorker::start(&project, &WorkerTimes { retry: Duration::ZERO, ..WorkerTimes::default() });
    let begun = worker.wait_to_hear(|notice| matches!(notice, WorkerNotice::TakesRuns { .. }));
    assert_eq!(begun, [WorkerNotice::TakesRuns { namespace: "team-a".into() }]);
    let listed = worker.runtime.block_on(async { project.cluster().workers().list().await.unwrap() });
    assert_eq!(listed.len(), 1, "it is announced when it says so: {listed:?}");
    let failure = format!("cannot take runs from nats://127.0.0.1:{}: ", project.port);
    let is_failure =
        |notice: &WorkerNotice| matches!(notice, WorkerNotice::Warning { message } if message.starts_with(&failure));
    project.server.set_stopped(true);
    worker.wait_to_hear(is_failure);
    project.server.set_stopped(false);
    let notices = worker.wait_to_hear(|notice| matches!(notice, WorkerNotice::Recovery { .. }));
    let message = format!("the server answers again: runs are taken from nats://127.0.0.1:{}", project.port);
    assert!(notices.contains(&WorkerNotice::Recovery { message }), "{notices:?}");
    worker.stop();
}
