//! A server for tests, which `tests/cluster/nats-server.sh` gets. Where it is not there, each test says so and does nothing.

#[cfg(test)]
pub(crate) use tests::{NatsServer, record, with};

#[cfg(test)]
mod tests {
    use std::{
        env, fs,
        net::{TcpListener, TcpStream},
        path::{Path, PathBuf},
        process::{Child, Command, Stdio},
        sync::{
            Arc, Mutex,
            atomic::{AtomicU64, Ordering},
        },
        thread,
        time::{Duration, Instant},
    };

    use shelly_core::{agent::journal::JournalRecord, event::AnsweredBy};

    use crate::{
        Cluster, ClusterEncryption, ClusterOptions, ContentKey,
        connection::{ClusterCallError, ClusterHandles},
    };

    /// Returns a record of a session with this text.
    pub(crate) fn record(text: &str) -> JournalRecord {
        JournalRecord::Decided {
            agent: "ada".into(),
            question: text.to_owned(),
            outcome: "allowed".into(),
            by: AnsweredBy::Person,
        }
    }

    /// Runs a task with the handles of the connection.
    pub(crate) async fn with<T, F>(cluster: &Cluster, task: impl FnOnce(ClusterHandles) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        cluster.shared.call("test", "the server", task).await.unwrap()
    }

    /// A server of its own, whose files survive its end.
    pub(crate) struct NatsServer {
        program: PathBuf,
        folder: tempfile::TempDir,
        port: u16,
        child: Mutex<Option<Child>>,
        namespaces: AtomicU64,
    }

    impl NatsServer {
        /// Starts a server; `None` if there is no program for it.
        pub(crate) fn start() -> Option<Arc<Self>> {
            Self::start_with(|_| String::new())
        }

        /// Starts a server with more lines in its config, which may name files in the folder that is given.
        pub(crate) fn start_with(more: impl FnOnce(&Path) -> String) -> Option<Arc<Self>> {
            let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/nats/bin/nats-server");
            let program = env::var_os("SHELLY_NATS_SERVER").map_or(built, PathBuf::from);
            if !program.is_file() {
                eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one");
                return None;
            }
            let folder = tempfile::tempdir().unwrap();
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let config = format!(
                "host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: \"{}\", sync_interval: always }}\n{}",
                folder.path().join("store").display(),
                more(folder.path())
            );
            fs::write(folder.path().join("nats.conf"), config).unwrap();
            let server = Self { program, folder, port, child: Mutex::default(), namespaces: AtomicU64::new(0) };
            server.run();
            Some(Arc::new(server))
        }

        /// Starts the program, and waits until it listens.
        pub(crate) fn run(&self) {
            let mut command = Command::new(&self.program);
            command.arg("-c").arg(self.folder.path().join("nats.conf"));
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            *self.child.lock().unwrap() = Some(child);
            let began = Instant::now();
            while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
                assert!(began.elapsed() < Duration::from_secs(20), "the server does not listen");
                thread::sleep(Duration::from_millis(20));
            }
        }

        /// Kills the server without a chance to store anything.
        pub(crate) fn kill(&self) {
            if let Some(mut child) = self.child.lock().unwrap().take() {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }

        /// Stops the process of the server, whose connections stay, or lets it go on.
        pub(crate) fn set_stopped(&self, is_stopped: bool) {
            let pid = self.child.lock().unwrap().as_ref().unwrap().id().to_string();
            let signal = if is_stopped { "-STOP" } else { "-CONT" };
            assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        }

        pub(crate) fn port(&self) -> u16 {
            self.port
        }

        pub(crate) fn folder(&self) -> &Path {
            self.folder.path()
        }

        /// Returns the options for a namespace of its own.
        pub(crate) fn options(&self) -> ClusterOptions {
            let namespace = format!("t{}", self.namespaces.fetch_add(1, Ordering::Relaxed));
            ClusterOptions::new(format!("nats://127.0.0.1:{}", self.port), namespace)
        }

        /// Returns these options with keys of these names, the first of which encrypts. They are created at the first use.
        pub(crate) fn encrypted(&self, options: ClusterOptions, keys: &[&str]) -> ClusterOptions {
            let paths: Vec<_> = keys.iter().map(|name| self.folder.path().join(format!("{name}.key"))).collect();
            for path in paths.iter().filter(|path| !path.exists()) {
                ContentKey::create(path).unwrap();
            }
            let encryption =
                ClusterEncryption { key: paths[0].clone(), old_keys: paths[1..].to_vec(), accept_plain: false };
            ClusterOptions { encryption: Some(encryption), ..options }
        }

        /// Returns a namespace of its own, whose leases end after this time.
        pub(crate) fn cluster(&self, lease: Duration) -> Cluster {
            Cluster::new(ClusterOptions { lease, ..self.options() })
        }
    }

    impl Drop for NatsServer {
        fn drop(&mut self) {
            self.kill();
        }
    }
}
