//! Programs that print a credential: run without a shell, with limits on time and output.

use std::{
    io,
    path::Path,
    pin::pin,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use futures_util::future::{Either, select};
use tokio::time::timeout;

use shelly_core::{
    limits,
    process::{PipeOutput, PipeOverflow, ProcessGroup},
};

/// The result of a program that has ended.
pub(super) struct SecretCommandOutput {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    /// Empty if the program succeeded.
    pub stderr: Vec<u8>,
}

pub(super) enum SecretCommandError {
    /// The program could not be started or awaited.
    Io(io::Error),
    /// The program exceeded its time and was killed.
    Time,
    /// The program printed too much.
    TooMuch,
}

impl From<io::Error> for SecretCommandError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Runs a program to its end. It gets this process's environment, no input, and the root folder as working directory, so
/// that its result does not depend on the caller's directory. It may print at most `most` bytes within `time`. Exceeding
/// either, or dropping the future, kills it and its children.
pub(super) async fn run(
    program: &str,
    arguments: &[String],
    most: u64,
    time: Duration,
) -> Result<SecretCommandOutput, SecretCommandError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Ok(here) = Path::new(".").canonicalize()
        && let Some(root) = here.ancestors().last()
    {
        command.current_dir(root);
    }
    let mut running = ProcessGroup::start(&mut command)?;
    let child = running.child();
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut said, mut complained) = (PipeOutput::default(), PipeOutput::default());
    let whole = async {
        let going = async {
            said.listen(stdout, most, PipeOverflow::HangUp).await?;
            if said.is_cut { Err(SecretCommandError::TooMuch) } else { Ok(running.end().await?) }
        };
        let complaining = complained.listen(stderr, most, PipeOverflow::Forget);
        match select(pin!(going), pin!(complaining)).await {
            Either::Left((Ok(status), complaining)) if !status.success() => {
                // A child process may continue and keep the pipe open.
                let _ = timeout(limits::SECRET_COMMAND_GRACE, complaining).await;
                Ok(status)
            }
            Either::Left((status, _)) => status,
            Either::Right((_, going)) => going.await,
        }
    };
    let status = timeout(time, whole).await.unwrap_or(Err(SecretCommandError::Time))?;
    let stderr = if status.success() { Vec::new() } else { complained.bytes };
    Ok(SecretCommandOutput { status, stdout: said.bytes, stderr })
}
