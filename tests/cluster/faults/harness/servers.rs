//! The NATS servers of a trial: one, or three that replicate.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use super::{plan::BoxError, small_disk::SmallDisk, wall_clock};

/// The time within which a server listens.
const START: Duration = Duration::from_secs(30);

/// The bytes that a server may store that is at its bound: less than it has, and more than nothing, which means no bound.
const FULL: u64 = 4_096;

/// The servers, whose files survive their end.
pub struct NatsServers {
    program: PathBuf,
    folder: PathBuf,
    ports: Vec<u16>,
    route_ports: Vec<u16>,
    syncs_always: bool,
    children: Vec<Option<Child>>,
    /// The disk of the last server, if it has one of its own.
    disk: Option<SmallDisk>,
    /// The seconds by which the clocks of all servers are ahead.
    ahead: i64,
}

impl NatsServers {
    /// Returns the program, which `tests/cluster/nats-server.sh` gets; `None` if it is not there.
    pub fn program() -> Option<PathBuf> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/nats/bin/nats-server");
        let program = env::var_os("SHELLY_NATS_SERVER").map_or(built, PathBuf::from);
        program.is_file().then_some(program)
    }

    /// Starts so many servers with their files below this folder. `syncs_always`: an answer means that the data is on the
    /// disk.
    pub fn start(program: &Path, folder: &Path, count: usize, syncs_always: bool) -> Result<Self, BoxError> {
        Self::prepare(program, folder, count, syncs_always)?.started()
    }

    /// Starts servers whose last one has a small disk of its own, if this system allows it; with the reason otherwise.
    pub fn start_with_disk(program: &Path, folder: &Path, count: usize) -> Result<(Self, Option<String>), BoxError> {
        let mut servers = Self::prepare(program, folder, count, true)?;
        let disk = SmallDisk::mount(&servers.store(count - 1));
        let missing = disk.as_ref().err().map(ToString::to_string);
        servers.disk = disk.ok();
        Ok((servers.started()?, missing))
    }

    fn prepare(program: &Path, folder: &Path, count: usize, syncs_always: bool) -> Result<Self, BoxError> {
        let ports = free_ports(count * 2)?;
        let (ports, route_ports) = ports.split_at(count);
        Ok(Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            ports: ports.to_vec(),
            route_ports: route_ports.to_vec(),
            syncs_always,
            children: (0..count).map(|_| None).collect(),
            disk: None,
            ahead: 0,
        })
    }

    fn started(mut self) -> Result<Self, BoxError> {
        (0..self.count()).try_for_each(|at| self.spawn(at, false))?;
        (0..self.count()).try_for_each(|at| self.wait_until_it_listens(at))?;
        Ok(self)
    }

    /// Returns the number of servers.
    pub fn count(&self) -> usize {
        self.ports.len()
    }

    /// Returns the port for clients of a server.
    pub fn port(&self, at: usize) -> u16 {
        self.ports[at]
    }

    /// Returns the URLs of all servers.
    pub fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("nats://127.0.0.1:{port}")).collect()
    }

    /// Returns the process ids of the servers that run.
    pub fn process_ids(&self) -> Vec<u32> {
        self.children.iter().flatten().map(Child::id).collect()
    }

    /// Returns the folder with the files of a server.
    pub fn store(&self, at: usize) -> PathBuf {
        self.folder.join(format!("nats-{at}"))
    }

    /// Kills a server without a chance to store anything.
    pub fn kill(&mut self, at: usize) -> Result<(), BoxError> {
        if let Some(mut child) = self.children[at].take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Starts a server that was killed, and waits until it listens. `is_full`: it may store no more.
    pub fn restart(&mut self, at: usize, is_full: bool) -> Result<(), BoxError> {
        self.spawn(at, is_full)?;
        self.wait_until_it_listens(at)?;
        match self.ahead {
            0 => Ok(()),
            ahead => self.set_clock(at, ahead),
        }
    }

    /// Lets the clocks of all servers jump ahead by so many seconds. They stay there, also of servers that begin again.
    pub fn jump_ahead(&mut self, seconds: i64) -> Result<(), BoxError> {
        self.ahead += seconds;
        (0..self.count()).try_for_each(|at| self.set_clock(at, self.ahead))
    }

    fn set_clock(&self, at: usize, ahead: i64) -> Result<(), BoxError> {
        self.children[at].as_ref().map_or(Ok(()), |child| wall_clock::set_ahead(child.id(), ahead))
    }

    /// Returns the server with a disk of its own.
    pub fn on_disk(&self) -> Option<usize> {
        self.disk.as_ref().map(|_| self.count() - 1)
    }

    /// Leaves the disk without room, or gives it back.
    pub fn set_disk_full(&self, is_full: bool) -> Result<(), BoxError> {
        match (&self.disk, is_full) {
            (Some(disk), true) => disk.fill(),
            (Some(disk), false) => disk.free(),
            (None, _) => Ok(()),
        }
    }

    /// Stops the process of a server, whose connections stay, or lets it go on.
    pub fn set_stopped(&self, at: usize, is_stopped: bool) -> Result<(), BoxError> {
        if let Some(child) = &self.children[at] {
            kill_process(Pid::from_child(child), if is_stopped { Signal::STOP } else { Signal::CONT })?;
        }
        Ok(())
    }

    /// Fails if a server has ended by itself.
    pub fn check(&mut self) -> Result<(), BoxError> {
        for (at, child) in self.children.iter_mut().enumerate() {
            if let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                return Err(format!("server {at} has ended by itself: {status}").into());
            }
        }
        Ok(())
    }

    fn spawn(&mut self, at: usize, is_full: bool) -> Result<(), BoxError> {
        let path = self.folder.join(format!("nats-{at}.conf"));
        fs::write(&path, self.config(at, is_full))?;
        let mut command = match &self.disk {
            Some(disk) if self.on_disk() == Some(at) => disk.command(&self.program),
            _ => Command::new(&self.program),
        };
        let command = command.arg("-c").arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children[at] = Some(command.spawn()?);
        Ok(())
    }

    fn config(&self, at: usize, is_full: bool) -> String {
        let (port, store, log) = (self.ports[at], self.store(at), self.folder.join(format!("nats-{at}.log")));
        let sync = if self.syncs_always { ", sync_interval: always" } else { "" };
        let room = if is_full { format!(", max_file_store: {FULL}") } else { String::new() };
        let mut config = format!(
            "server_name: n{at}\nhost: 127.0.0.1\nport: {port}\nlog_file: \"{}\"\n\
             jetstream {{ store_dir: \"{}\"{sync}{room} }}\n",
            log.display(),
            store.display()
        );
        if self.count() > 1 {
            let routes: Vec<_> = self.route_ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
            // Clients are told of no other server, so that none gets past its proxies.
            config.push_str(&format!(
                "cluster {{ name: faults, host: 127.0.0.1, port: {}, no_advertise: true, routes: [{}] }}\n",
                self.route_ports[at],
                routes.join(", ")
            ));
        }
        config
    }

    fn wait_until_it_listens(&mut self, at: usize) -> Result<(), BoxError> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.ports[at])).is_err() {
            self.check()?;
            if began.elapsed() > START {
                return Err(format!("server {at} does not listen").into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for NatsServers {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns so many ports on which nobody listens.
fn free_ports(count: usize) -> Result<Vec<u16>, BoxError> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port());
    Ok(listeners.iter().map(port).collect::<Result<_, _>>()?)
}
