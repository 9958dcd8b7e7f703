//! One run of a program from its start to its end.

use std::{
    fmt, io,
    path::PathBuf,
    pin::pin,
    process::{Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use tokio::{select, sync::Semaphore, time::timeout, try_join};

use super::{PipeOutput, PipeOverflow, ProcessGroup, pipe::feed};
use crate::{
    error::{Fault, why_unreadable},
    limits,
};

/// The specification of a program run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessSpec {
    /// The executable file.
    pub program: PathBuf,
    /// The arguments, one word each; there is no shell.
    pub args: Vec<String>,
    /// The working folder.
    pub folder: PathBuf,
    /// The complete environment.
    pub environment: Vec<(String, String)>,
    /// The standard input; if empty, there is none.
    pub stdin: Vec<u8>,
    /// The wall time limit.
    pub time: Duration,
}

/// The way in which a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessExit {
    /// The program ended with this exit status.
    Status(i32),
    /// The program was ended by this signal, as in a crash.
    Signal(i32),
    /// The time limit expired, and the program was killed.
    Time,
}

/// The result of a run.
#[derive(Debug)]
pub struct ProcessOutput {
    /// The way in which it ended.
    pub exit: ProcessExit,
    /// The first [`limits::PROCESS_OUTPUT_BYTES`] of its standard output.
    pub stdout: Vec<u8>,
    /// The first [`limits::PROCESS_OUTPUT_BYTES`] of its standard error.
    pub stderr: Vec<u8>,
    /// `true` if it wrote more than that to one of them.
    pub is_cut: bool,
}

/// The reason for which a program did not run or its result is unknown.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ProcessError {
    /// All slots are taken.
    #[error("{most} programs are running already, which is the maximum; retry when some of them have ended")]
    Busy { most: usize },
    /// The program did not start.
    #[error("cannot start the program {}: {}", program.display(), why_unreadable(error))]
    Start { program: PathBuf, error: io::Error },
    /// The system cannot report the program's end.
    #[error("cannot wait for the program {}, which was started: {}", program.display(), why_unreadable(error))]
    Wait { program: PathBuf, error: io::Error },
}

impl ProcessError {
    /// Converts the error for a model or a plugin.
    pub fn fault(&self) -> Fault {
        let message = self.to_string();
        match self {
            Self::Busy { .. } => Fault::Unavailable { message, after: None },
            Self::Start { error, .. } if error.kind() == io::ErrorKind::ArgumentListTooLong => {
                Fault::TooLarge { message }
            }
            Self::Start { .. } | Self::Wait { .. } => Fault::Other { message },
        }
    }
}

/// Slots for concurrently running programs, [`limits::PROCESSES`] of them. Clones share the slots.
#[derive(Debug, Clone)]
pub struct ProcessSlots(Arc<Semaphore>);

impl Default for ProcessSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::PROCESSES)))
    }
}

impl ProcessSlots {
    /// Runs a program to its end, without a terminal and in its own session. Processes that it leaves in that session end
    /// with it; dropping the future kills all of them too.
    ///
    /// # Errors
    ///
    /// [`ProcessError`]. A failed, crashed or timed-out program is not an error; its result says so.
    pub async fn run(&self, job: ProcessSpec) -> Result<ProcessOutput, ProcessError> {
        let most = limits::PROCESSES;
        let permit = timeout(limits::PROCESS_PERMIT_WAIT, self.0.acquire()).await;
        let _permit = permit.ok().and_then(Result::ok).ok_or(ProcessError::Busy { most })?;
        let start = |error| ProcessError::Start { program: job.program.clone(), error };
        let wait = |error| ProcessError::Wait { program: job.program.clone(), error };

        let mut command = Command::new(&job.program);
        command.args(&job.args).current_dir(&job.folder).env_clear();
        command.envs(job.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(if job.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ProcessGroup::start_apart(&mut command).map_err(start)?;
        let child = process.child();
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());

        let most = limits::PROCESS_OUTPUT_BYTES;
        let (mut output, mut errors) = (PipeOutput::default(), PipeOutput::default());
        let (in_time, status) = {
            let written = async {
                match stdin {
                    Some(pipe) => feed(pipe, &job.stdin).await,
                    None => Ok(()),
                }
            };
            let read = async {
                let (Some(stdout), Some(stderr)) = (stdout, stderr) else { return Ok(()) };
                let output = output.listen(stdout, most, PipeOverflow::Forget);
                try_join!(output, errors.listen(stderr, most, PipeOverflow::Forget)).map(drop)
            };
            let mut pipes = pin!(async { try_join!(written, read).map(drop) });
            let mut are_closed = false;
            let ended = async {
                loop {
                    select! {
                        () = process.has_ended() => return Ok::<_, ProcessError>(()),
                        closed = &mut pipes, if !are_closed => {
                            closed.map_err(wait)?;
                            are_closed = true;
                        }
                    }
                }
            };
            let in_time = timeout(job.time, ended).await.ok().transpose()?.is_some();
            let status = process.stop().map_err(wait)?;
            if !are_closed {
                // The remaining output is in the pipes, which a process that has left the session may keep open.
                let _ = timeout(limits::PROCESS_GRACE, pipes).await;
            }
            (in_time, status)
        };
        let exit = if in_time { exit(status) } else { ProcessExit::Time };
        let is_cut = output.is_cut || errors.is_cut;
        Ok(ProcessOutput { exit, stdout: output.bytes, stderr: errors.bytes, is_cut })
    }
}

#[cfg(unix)]
fn exit(status: ExitStatus) -> ProcessExit {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Status(code),
        (None, signal) => ProcessExit::Signal(signal.unwrap_or_default()),
    }
}

#[cfg(not(unix))]
fn exit(status: ExitStatus) -> ProcessExit {
    ProcessExit::Status(status.code().unwrap_or_default())
}

impl ProcessOutput {
    /// Returns `true` if the program ended by itself with status 0.
    pub fn is_success(&self) -> bool {
        self.exit == ProcessExit::Status(0)
    }
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Time => f.write_str("stopped at the time limit"),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
