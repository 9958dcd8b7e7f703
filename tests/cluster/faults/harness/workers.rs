//! The workers of a trial, each a process with a project folder and a state folder of its own.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use shelly_host::trust::UserKey;

use super::plan::BoxError;

/// The time within which a worker that is told to stop has given its runs back: it may wait for the server.
const DRAIN: Duration = Duration::from_secs(20);

/// The workers.
pub struct Workers {
    jobs: usize,
    slots: Vec<WorkerSlot>,
    has_labels: bool,
    /// The number of workers that ended by themselves, such as because no server was there when they began.
    ended: usize,
}

/// The place of a worker, which is started there again and again.
struct WorkerSlot {
    project: PathBuf,
    state: PathBuf,
    log: PathBuf,
    /// `None`: it was killed, and is not started again yet.
    child: Option<Child>,
}

impl Workers {
    /// Creates the places of workers with these configs, one for each. They share the key of one person, as the hosts of one
    /// operator do.
    pub fn new(folder: &Path, configs: &[String], jobs: usize) -> Result<Self, BoxError> {
        let mut slots = Vec::new();
        let mut first_key: Option<PathBuf> = None;
        for (at, config) in configs.iter().enumerate() {
            let place = folder.join(format!("worker-{at}"));
            let slot = WorkerSlot {
                project: place.join("project"),
                state: place.join("state"),
                log: folder.join(format!("worker-{at}.log")),
                child: None,
            };
            fs::create_dir_all(&slot.project)?;
            fs::write(slot.project.join("shelly.yaml"), config)?;
            let key = slot.state.join("shelly-host/session.key");
            match &first_key {
                Some(first) => {
                    fs::create_dir_all(slot.state.join("shelly-host"))?;
                    fs::copy(first, &key)?;
                }
                None => {
                    // The first mark creates the key.
                    UserKey::new(Some(key.clone())).mark("trial", b"")?;
                    first_key = Some(key);
                }
            }
            slots.push(slot);
        }
        Ok(Self { jobs, slots, has_labels: false, ended: 0 })
    }

    /// Gives the workers labels: where one dies, there is another with its labels.
    pub fn with_labels(mut self) -> Self {
        self.has_labels = true;
        self
    }

    /// Returns the labels of a worker.
    fn labels(&self, at: usize) -> &'static str {
        match at % 3 {
            0 if self.count() >= 3 => "east",
            1 if self.count() >= 3 => "west",
            _ => "east,west",
        }
    }

    /// Returns the number of workers.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of workers that ended by themselves.
    pub fn ended(&self) -> usize {
        self.ended
    }

    /// Returns the key with which the workers mark their sessions.
    pub fn key(&self) -> UserKey {
        UserKey::new(self.slots.first().map(|slot| slot.state.join("shelly-host/session.key")))
    }

    /// Returns the process id of a worker, if it runs.
    pub fn process_id(&self, at: usize) -> Option<u32> {
        self.slots[at].child.as_ref().map(Child::id)
    }

    /// Starts a worker.
    pub fn start(&mut self, at: usize) -> Result<(), BoxError> {
        let (labels, has_labels) = (self.labels(at), self.has_labels);
        let (slot, jobs) = (&mut self.slots[at], self.jobs.to_string());
        let log = File::options().create(true).append(true).open(&slot.log)?;
        let mut command = slot.command(&["worker", "--config", "shelly.yaml", "--jobs", &jobs]);
        if has_labels {
            command.args(["--labels", labels]);
        }
        slot.child = Some(command.stdout(Stdio::null()).stderr(log).spawn()?);
        Ok(())
    }

    /// Starts all workers that do not run.
    pub fn start_all(&mut self) -> Result<(), BoxError> {
        for at in 0..self.count() {
            if self.slots[at].child.is_none() {
                self.start(at)?;
            }
        }
        Ok(())
    }

    /// Starts those again that ended by themselves, as a supervisor does.
    pub fn restart_ended(&mut self) -> Result<(), BoxError> {
        for at in 0..self.count() {
            let ended = self.slots[at].child.as_mut().map(Child::try_wait).transpose()?.flatten();
            if ended.is_some() {
                self.ended += 1;
                self.start(at)?;
            }
        }
        Ok(())
    }

    /// Kills a worker without a chance to say anything to the server.
    pub fn kill(&mut self, at: usize) -> Result<(), BoxError> {
        if let Some(mut child) = self.slots[at].child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Tells a worker to stop, and waits until it has. Returns `false` if it had to be killed.
    pub fn drain(&mut self, at: usize) -> Result<bool, BoxError> {
        self.signal(at, Signal::TERM)?;
        let began = Instant::now();
        while began.elapsed() < DRAIN {
            let Some(child) = &mut self.slots[at].child else { return Ok(true) };
            if child.try_wait()?.is_some() {
                self.slots[at].child = None;
                return Ok(true);
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.kill(at)?;
        Ok(false)
    }

    /// Stops the process of a worker, whose connections stay, or lets it go on.
    pub fn set_stopped(&self, at: usize, is_stopped: bool) -> Result<(), BoxError> {
        self.signal(at, if is_stopped { Signal::STOP } else { Signal::CONT })
    }

    fn signal(&self, at: usize, signal: Signal) -> Result<(), BoxError> {
        if let Some(child) = &self.slots[at].child {
            kill_process(Pid::from_child(child), signal)?;
        }
        Ok(())
    }

    /// Runs a command of the program in the place of the first worker.
    pub fn run(&self, arguments: &[&str]) -> Result<Output, BoxError> {
        let slot = self.slots.first().ok_or("there is no worker")?;
        Ok(slot.command(arguments).output()?)
    }

    /// Returns the files that calls have made in all project folders: for each name without its random end, their number.
    pub fn effects(&self) -> Result<BTreeMap<String, usize>, BoxError> {
        let mut effects = BTreeMap::new();
        for slot in &self.slots {
            for entry in fs::read_dir(&slot.project)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                // RUN.DEPTH.STEP.RANDOM
                if let Some((name, _)) = name.rsplit_once('.').filter(|(name, _)| name.matches('.').count() == 2) {
                    *effects.entry(name.to_owned()).or_default() += 1;
                }
            }
        }
        Ok(effects)
    }
}

impl WorkerSlot {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
        command.args(arguments).current_dir(&self.project).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("SHELLY_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.env("XDG_STATE_HOME", &self.state).stdin(Stdio::null());
        command
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in self.slots.iter_mut().filter_map(|slot| slot.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
