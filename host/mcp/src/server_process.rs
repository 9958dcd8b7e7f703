//! An MCP server that runs as a child process.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    runtime::Handle,
    sync::oneshot,
    time::timeout,
};

use super::{McpError, McpStdioTarget};
use shelly_core::{
    error::{cut, why_unreadable},
    limits,
    process::ProcessGroup,
};
use shelly_net::Secret;

/// A running server program.
pub(super) struct ServerProcess {
    process: ProcessGroup,
    stderr: StderrTail,
    stderr_ended: oneshot::Receiver<()>,
}

/// The last lines of the program's standard error.
type StderrTail = Arc<Mutex<VecDeque<String>>>;

impl ServerProcess {
    /// Starts the program. Returns its standard output, its standard input and its handle.
    pub fn start(server: &Arc<str>, program: &McpStdioTarget) -> Result<(DuplexStream, DuplexStream, Self), McpError> {
        let failed = |error: std::io::Error| McpError::Start {
            server: Arc::clone(server),
            program: program.program.clone(),
            why: why_unreadable(&error),
        };
        let mut command = Command::new(&program.program);
        command.args(&program.arguments).current_dir(&program.folder).env_clear();
        command.envs(program.environment.iter().map(|(name, value)| (name, value.expose())));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if !program.folder.is_dir() {
            let why = format!("the working folder {} does not exist", program.folder.display());
            return Err(McpError::Start { server: Arc::clone(server), program: program.program.clone(), why });
        }
        let mut process = ProcessGroup::start(&mut command).map_err(failed)?;
        let child = process.child();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let (from_server, says) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
        let (to_server, hears) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
        carry_out(stdout, says);
        carry_in(hears, stdin);
        // `PATH` and `HOME` are no secrets, and appear in most error messages.
        let is_known = |name: &str| matches!(name, "PATH" | "HOME");
        let secrets = program.environment.iter().filter(|(name, _)| !is_known(name));
        let secrets = secrets.flat_map(|(_, value)| value.parts()).collect();
        let (tail, stderr_ended) = keep_tail(stderr, Arc::clone(server), secrets);
        Ok((from_server, to_server, Self { process, stderr: tail, stderr_ended }))
    }

    /// Waits for a while until the program ends by itself. The caller has closed its pipe.
    pub async fn wind_down(&mut self) {
        let _ = timeout(limits::MCP_CLOSE_TIME, self.process.has_ended()).await;
    }

    /// Stops the program and all that it has started. Returns its exit status if it ended by itself, and the last lines of
    /// its standard error.
    pub async fn stop(mut self) -> (Option<ExitStatus>, Vec<String>) {
        let by_itself = timeout(limits::SECRET_COMMAND_GRACE, self.process.has_ended()).await.is_ok();
        let status = self.process.stop().ok().filter(|_| by_itself);
        // A process that has left the group may hold the pipe open.
        let _ = timeout(limits::SECRET_COMMAND_GRACE, self.stderr_ended).await;
        let last = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect();
        (status, last)
    }
}

// Each pipe has a thread of its own: a blocking task of the runtime could keep this process from ending.

/// Copies the program's standard output; a slow reader slows it down.
fn carry_out(mut from: impl Read + Send + 'static, mut to: DuplexStream) {
    let runtime = Handle::current();
    thread::spawn(move || {
        let mut bytes = vec![0; limits::MCP_PIPE_BYTES];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if runtime.block_on(to.write_all(&bytes[..count])).is_err() {
                return;
            }
        }
    });
}

/// Copies the input of the program, and closes its pipe at the end.
fn carry_in(mut from: DuplexStream, mut to: impl Write + Send + 'static) {
    let runtime = Handle::current();
    thread::spawn(move || {
        let mut bytes = vec![0; limits::MCP_PIPE_BYTES];
        while let Ok(count @ 1..) = runtime.block_on(from.read(&mut bytes)) {
            if to.write_all(&bytes[..count]).and_then(|()| to.flush()).is_err() {
                return;
            }
        }
    });
}

/// Reads the program's standard error to the end, since a full pipe would block the program. The first lines go to the log,
/// the last ones are kept.
fn keep_tail(
    mut from: impl Read + Send + 'static,
    server: Arc<str>,
    secrets: Vec<Secret>,
) -> (StderrTail, oneshot::Receiver<()>) {
    let (tail, (ended, receiver)) = (StderrTail::default(), oneshot::channel());
    let kept = Arc::clone(&tail);
    thread::spawn(move || {
        let (mut bytes, mut line, mut logged) = (vec![0; limits::MCP_PIPE_BYTES], Vec::new(), 0);
        let mut end_line = |line: &mut Vec<u8>| {
            let text = String::from_utf8_lossy(line.trim_ascii()).into_owned();
            line.clear();
            if text.is_empty() {
                return;
            }
            let text = secrets.iter().fold(text, |text, secret| secret.blot(&text));
            let text = cut(&text, limits::MCP_STDERR_LINE_BYTES);
            if logged < limits::MCP_STDERR_LOGGED {
                logged += 1;
                tracing::debug!(%server, "{}", text.escape_debug());
            }
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == limits::MCP_STDERR_LINES {
                kept.pop_front();
            }
            kept.push_back(text);
        };
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            for byte in &bytes[..count] {
                match byte {
                    b'\n' => end_line(&mut line),
                    // The line is cut shorter only after the secrets are out of it: a part of one would stay.
                    byte if line.len() < 8 * limits::MCP_STDERR_LINE_BYTES => line.push(*byte),
                    _ => {}
                }
            }
        }
        end_line(&mut line);
        let _ = ended.send(());
    });
    (tail, receiver)
}
