use std::{
    env,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::support::Place;

/// A NATS server on this port.
pub struct NatsServer(Child);

impl NatsServer {
    /// Starts a server; `None` if there is no program for it.
    pub fn start(place: &Place, port: u16) -> Option<Self> {
        Self::start_with(place, port, "")
    }

    /// Starts a server with more lines in its config.
    pub fn start_with(place: &Place, port: u16, more: &str) -> Option<Self> {
        let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/nats/bin/nats-server");
        let program = env::var_os("SHELLY_NATS_SERVER").map_or(built, PathBuf::from);
        if !program.is_file() {
            eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one");
            return None;
        }
        let store = place.path().join("nats");
        let config =
            format!("host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: \"{}\" }}\n{more}", store.display());
        let config = place.file("nats.conf", config);
        let mut command = Command::new(program);
        let command = command.arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn().unwrap());
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "the server does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    /// Stops the process of the server, whose connections stay, or lets it go on.
    #[cfg(unix)]
    pub fn set_stopped(&self, is_stopped: bool) {
        let signal = if is_stopped { "-STOP" } else { "-CONT" };
        assert!(Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap().success());
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a port on which nobody listens.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
