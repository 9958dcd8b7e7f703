use std::{
    io::Read,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::Notify, time::timeout};

use crate::{
    error::{ErrorKind, Report},
    limits,
};

/// A command that the person runs by their own hand. It has no input, and its output is shown when it ends.
pub struct ShellCommand {
    child: Arc<Mutex<Child>>,
    output: tokio::task::JoinHandle<ShellOutput>,
    /// Told once the command was killed.
    killed: Arc<Notify>,
}

/// The end of a command.
#[derive(Debug)]
pub struct ShellOutput {
    /// Standard output and standard error, as they came.
    pub text: String,
    /// Set if the output was longer than is kept.
    pub is_cut: bool,
    /// The exit code, or the signal that ended it, in words; `None` for success.
    pub failure: Option<String>,
}

impl ShellCommand {
    /// Starts a command in the person's shell.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the shell cannot be started.
    pub fn start(command: &str) -> Result<Self, Report> {
        let cannot = |error: std::io::Error| Report::new(ErrorKind::Run, "cannot run the command").cause(error);
        let (reader, writer) = std::io::pipe().map_err(cannot)?;
        let mut shell = shell(command);
        shell.stdin(Stdio::null()).stdout(writer.try_clone().map_err(cannot)?).stderr(writer);
        let child = Arc::new(Mutex::new(shell.spawn().map_err(cannot)?));
        // Its copies of the pipe are closed with it: the end of the command ends the output.
        drop(shell);
        let ended = Arc::clone(&child);
        let output = tokio::task::spawn_blocking(move || read_to_end(reader, &ended));
        Ok(Self { child, output, killed: Arc::default() })
    }

    /// Waits for its end: the command and every program that still has its output. Cancel safe.
    pub async fn end(&mut self) -> ShellOutput {
        let Self { output, killed, .. } = self;
        let ended = tokio::select! {
            ended = &mut *output => ended.map_err(|error| error.to_string()),
            () = killed.notified() => match timeout(limits::CANCEL_GRACE, &mut *output).await {
                Ok(ended) => ended.map_err(|error| error.to_string()),
                // A program that has left the group of the command keeps the output open.
                Err(_) => Err("a program that it has started still runs".into()),
            },
        };
        ended.unwrap_or_else(|failure| ShellOutput { text: String::new(), is_cut: false, failure: Some(failure) })
    }

    /// Ends the command, with the programs of its process group, also those that have outlived the shell. Does nothing once all
    /// of them have closed the output.
    pub fn kill(&self) {
        if self.output.is_finished() {
            return;
        }
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(unix)]
        if let Ok(id) = i32::try_from(child.id())
            && let Some(group) = rustix::process::Pid::from_raw(id)
        {
            // No other group gets this number as long as a program is in this one.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = child.kill();
        self.killed.notify_one();
    }
}

impl Drop for ShellCommand {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(unix)]
fn shell(command: &str) -> Command {
    use std::os::unix::process::CommandExt;
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let mut shell = Command::new(shell);
    shell.arg("-c").arg(command).process_group(0);
    shell
}

#[cfg(not(unix))]
fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd");
    shell.arg("/C").arg(command);
    shell
}

/// Reads the output up to its maximum, and skips the rest until the command ends.
fn read_to_end(mut reader: impl Read, child: &Mutex<Child>) -> ShellOutput {
    let (mut bytes, mut is_cut, mut piece) = (Vec::new(), false, [0; 8 << 10]);
    while let Ok(read @ 1..) = reader.read(&mut piece) {
        let kept = read.min(limits::CHAT_SHELL_OUTPUT_BYTES - bytes.len());
        bytes.extend_from_slice(&piece[..kept]);
        is_cut |= kept < read;
    }
    let failure = match wait_for_end(child) {
        Ok(status) if status.success() => None,
        Ok(status) => Some(status.to_string()),
        Err(error) => Some(error.to_string()),
    };
    ShellOutput { text: String::from_utf8_lossy(&bytes).into_owned(), is_cut, failure }
}

/// Waits for the end of a program. The lock is free in between, so that it can be killed.
pub fn wait_for_end(child: &Mutex<Child>) -> std::io::Result<ExitStatus> {
    loop {
        if let Some(status) = child.lock().unwrap_or_else(PoisonError::into_inner).try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(limits::CHAT_SHELL_WAIT);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_and_failure_of_a_command_are_returned() {
        let mut done = ShellCommand::start("echo out; echo err >&2; exit 3").unwrap();
        let output = done.end().await;
        assert_eq!((output.text.as_str(), output.is_cut), ("out\nerr\n", false));
        assert_eq!(output.failure.as_deref(), Some("exit status: 3"));
        let mut long = ShellCommand::start("head -c 300000 /dev/zero").unwrap();
        let output = long.end().await;
        assert_eq!((output.text.len(), output.is_cut, output.failure), (limits::CHAT_SHELL_OUTPUT_BYTES, true, None));
    }

    #[tokio::test]
    async fn killed_command_ends_with_its_programs() {
        let mut running = ShellCommand::start("sleep 1000 | cat").unwrap();
        running.kill();
        assert!(running.end().await.failure.is_some());
        // Its shell has ended, but a program that it has started has the output.
        let mut left = ShellCommand::start("sleep 1000 & exit 0").unwrap();
        wait_for_end(&left.child).unwrap();
        left.kill();
        assert_eq!(left.end().await.failure, None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn killed_command_does_not_wait_for_programs_of_other_groups() {
        let folder = tempfile::tempdir().unwrap();
        let is_up = folder.path().join("up").display().to_string();
        // The shell ends once the program is in a session of its own.
        let command = format!("setsid sh -c 'echo $$ >{is_up}; sleep 60' & until [ -s {is_up} ]; do :; done; exit 0");
        let mut escaped = ShellCommand::start(&command).unwrap();
        wait_for_end(&escaped.child).unwrap();
        escaped.kill();
        assert!(escaped.end().await.failure.unwrap().contains("still runs"));
        // The runtime ends only once nobody has the output any more.
        let session = std::fs::read_to_string(&is_up).unwrap().trim().parse().unwrap();
        let session = rustix::process::Pid::from_raw(session).unwrap();
        rustix::process::kill_process_group(session, rustix::process::Signal::KILL).unwrap();
    }
}
