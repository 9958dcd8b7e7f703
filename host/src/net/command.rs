//! Programs that print a credential: run without a shell, for a bounded time, with bounded output.

use std::{
    io::{self, Read},
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use tokio::{sync::oneshot, time::timeout};

use super::process::Process;
use crate::limits;

/// What a program came to.
pub(super) struct Output {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Empty if it succeeded.
    pub stderr: Vec<u8>,
}

pub(super) enum Failure {
    /// It did not begin, or cannot be waited for.
    Io(io::Error),
    /// It was ended after its time.
    Time,
    /// It printed more than may be.
    TooMuch,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs a program to its end. It has this process's environment, no input, and the root folder to work in, so that it
/// does the same wherever it is called from. At most `most` bytes of its output may come, in at most `time`; dropping
/// the future, or the end of either, ends it and what it has started.
pub(super) async fn run(program: &str, arguments: &[String], most: u64, time: Duration) -> Result<Output, Failure> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Ok(here) = Path::new(".").canonicalize()
        && let Some(root) = here.ancestors().last()
    {
        command.current_dir(root);
    }
    let mut running = Process::start(&mut command)?;
    let stdout = reader(running.child().stdout.take(), most.saturating_add(1), Beyond::HangUp);
    let stderr = reader(running.child().stderr.take(), most, Beyond::Forget);
    let whole = async {
        let stdout = stdout.await.unwrap_or_default();
        if stdout.len() as u64 > most {
            return Err(Failure::TooMuch);
        }
        let status = running.end().await?;
        if status.success() {
            return Ok(Output { status, stdout, stderr: Vec::new() });
        }
        // What it has started may go on and hold its pipe.
        let stderr = timeout(limits::SECRET_COMMAND_GRACE, stderr).await.ok().and_then(Result::ok).unwrap_or_default();
        Ok(Output { status, stdout, stderr })
    };
    timeout(time, whole).await.unwrap_or(Err(Failure::Time))
}

/// What a reader does with what is beyond its bound.
#[derive(PartialEq, Eq)]
enum Beyond {
    HangUp,
    Forget,
}

/// The first `most` bytes of a pipe, by a thread of its own: one of the runtime's could keep the process from ending.
fn reader(pipe: Option<impl Read + Send + 'static>, most: u64, beyond: Beyond) -> oneshot::Receiver<Vec<u8>> {
    let (sender, receiver) = oneshot::channel();
    thread::spawn(move || {
        let (Some(mut pipe), mut bytes) = (pipe, Vec::new()) else { return };
        // What came before an error is what there is.
        let _ = pipe.by_ref().take(most).read_to_end(&mut bytes);
        if beyond == Beyond::Forget {
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        let _ = sender.send(bytes);
    });
    receiver
}
