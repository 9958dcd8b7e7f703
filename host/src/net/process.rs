//! Programs that the host has started, with all that they start in turn.

use std::{
    io,
    process::{Child, Command, ExitStatus},
};

use tokio::time::sleep;

use crate::limits;

/// A program in a process group of its own. When this is dropped it is ended, and with it whatever it has started that is
/// still in its group.
pub(crate) struct Process {
    child: Child,
    ended: bool,
}

impl Process {
    /// Starts it. Its pipes are in [`Process::child`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        Ok(Self { child: command.spawn()?, ended: false })
    }

    /// The program itself.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for its end. What it has started may go on.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            sleep(limits::PROCESS_PAUSE).await;
        }
    }

    /// Waits until it has ended, and leaves it where it is: [`Process::stop`] then says how, and ends what it has started.
    pub async fn has_ended(&mut self) {
        while self.is_running() {
            sleep(limits::PROCESS_PAUSE).await;
        }
    }

    #[cfg(unix)]
    fn is_running(&mut self) -> bool {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        // Without taking its number from it: its group is still to be ended.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        !self.ended && pid.is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
    }

    #[cfg(not(unix))]
    fn is_running(&mut self) -> bool {
        !self.ended && matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it and what it has started, and says how it came to its end: its own, if it had come to one.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if !self.ended {
            // Before it is waited for: until then nobody else has its number.
            #[cfg(unix)]
            if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = self.child.kill();
            self.ended = true;
        }
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stop();
        }
    }
}
