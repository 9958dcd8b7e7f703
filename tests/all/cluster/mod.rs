//! Runs in the queue of a cluster, with a real NATS server, which `tests/cluster/nats-server.sh` gets, workers as processes
//! of their own, and a server that plays the model.

#[cfg(unix)]
mod accepted;
#[cfg(unix)]
mod accounts;
#[cfg(unix)]
mod attached_terminal;
#[cfg(unix)]
mod cluster_check;
#[cfg(unix)]
mod delegation;
#[cfg(unix)]
#[allow(dead_code, unused_imports, reason = "the benchmark of clusters uses more of it")]
#[path = "../../cluster/faults/harness/mod.rs"]
mod fault_harness;
#[cfg(unix)]
mod fault_trial;
#[cfg(unix)]
mod faults;
#[cfg(unix)]
mod housekeeping;
#[cfg(unix)]
mod lost_runs;
#[cfg(unix)]
mod namespaces;
pub mod nats_server;
#[cfg(unix)]
mod newer_versions;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod queue;
#[cfg(unix)]
mod shared_state;
#[cfg(unix)]
mod steering;
#[cfg(unix)]
mod walk;
#[cfg(unix)]
mod worker_bounds;

#[cfg(unix)]
use {
    crate::{
        serve::ModelServer,
        support::{Place, Ran},
    },
    nats_server::{NatsServer, free_port},
    serde_json::Value,
    shelly_host::cluster::{Cluster, ClusterOptions},
    std::{
        io::{BufRead, BufReader},
        process::{Child, Command, Stdio},
        sync::{Arc, Mutex},
        thread,
        time::{Duration, Instant},
    },
};

/// The time after which a test gives up: more than a lease and a takeover.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(120);

/// A project on a cluster of its own.
#[cfg(unix)]
struct ClusterProject {
    place: Place,
    port: u16,
    server: NatsServer,
}

#[cfg(unix)]
impl ClusterProject {
    /// Creates a project whose agent uses this model and has these further keys; `None` if there is no NATS server.
    fn new(model: &ModelServer, agent: &str, keys: &str) -> Option<Self> {
        let (place, port) = (Place::untrusted(), free_port());
        let server = NatsServer::start(&place, port)?;
        let project = Self { place, port, server };
        project.place.file("shelly.yaml", project.config(model, agent, keys));
        Some(project)
    }

    /// The config of a host of the cluster.
    fn config(&self, model: &ModelServer, agent: &str, keys: &str) -> String {
        let cluster = format!("nats: 'nats://127.0.0.1:{}', namespace: team-a{keys}", self.port);
        format!("{}cluster: {{{cluster}}}\n", model.config(agent))
    }

    /// Runs a command with the config, which is named, and so needs no consent.
    fn run(&self, arguments: &[&str]) -> Ran {
        run_in(&self.place, arguments)
    }

    /// Submits a run with this id.
    fn submit(&self, id: &str, arguments: &[&str]) {
        let ran = self.run(&[&["submit", "--config", "shelly.yaml", "--id", id], arguments].concat());
        assert!(ran.code == 0 && ran.stdout == format!("{id}\n"), "{}", ran.shown());
    }

    /// Waits until a run is as wanted, and returns it as `cluster runs` shows it.
    fn wait_for(&self, id: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let ran = self.run(&["cluster", "runs", "--config", "shelly.yaml", "--output", "json"]);
            let runs: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
            let run = runs.as_array().unwrap().iter().find(|run| run["run"] == *id).cloned().unwrap_or_default();
            if is_so(&run) {
                return run;
            }
            assert!(began.elapsed() < PATIENCE, "{runs:#}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until a run is in this state.
    fn wait_until(&self, id: &str, state: &str) -> Value {
        self.wait_for(id, |run| run["state"] == *state)
    }

    /// The cluster as the library sees it.
    fn cluster(&self) -> Cluster {
        Cluster::new(ClusterOptions::new(format!("nats://127.0.0.1:{}", self.port), "team-a"))
    }
}

#[cfg(unix)]
fn run_in(place: &Place, arguments: &[&str]) -> Ran {
    let mut command = place.command(arguments);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    place.ran(command.output().unwrap())
}

/// A worker as a process of its own.
#[cfg(unix)]
struct WorkerProcess {
    child: Child,
    said: Arc<Mutex<String>>,
}

#[cfg(unix)]
impl WorkerProcess {
    /// Starts a worker, and waits until it takes runs.
    fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::of(place.command(&[&["worker", "--config", "shelly.yaml"], arguments].concat()))
    }

    fn of(mut command: Command) -> Self {
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::<Mutex<String>>::default();
        let heard = Arc::clone(&said);
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                heard.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        let worker = Self { child, said };
        worker.wait_to_hear("takes runs of `team-");
        worker
    }

    /// Returns what it has said on standard error.
    fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    fn wait_to_hear(&self, words: &str) {
        self.wait_to_hear_one(&[words]);
    }

    /// Waits until it has said one of these.
    fn wait_to_hear_one(&self, words: &[&str]) {
        let began = Instant::now();
        while !words.iter().any(|words| self.said().contains(words)) {
            assert!(began.elapsed() < PATIENCE, "{}", self.said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills it without a chance to say anything to the server.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal, such as `-STOP`.
    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let kill = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(kill.success());
    }

    /// Sends SIGTERM, and returns the exit code.
    fn terminate(&mut self) -> i32 {
        self.signal("-TERM");
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

#[cfg(unix)]
impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
