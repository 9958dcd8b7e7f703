//! Programs that the host has started, with all their descendants.

use std::{
    io,
    process::{Child, Command, ExitStatus},
};

use tokio::time::sleep;

use crate::limits;

/// A program in its own process group. Dropping it kills the program and its descendants that are still in its group, or in
/// its session if it has its own.
pub struct ProcessGroup {
    child: Child,
    has_session: bool,
    ended: bool,
}

impl ProcessGroup {
    /// Starts the program in the session of this process, so that it can use the terminal. Its pipes are in
    /// [`ProcessGroup::child`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        Ok(Self { child: command.spawn()?, has_session: false, ended: false })
    }

    /// Starts the program in its own session: it has no terminal, and its descendants are found in whatever group they are.
    pub fn start_apart(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            // SAFETY: between fork and exec only async-signal-safe functions may be called, and `setsid` is one.
            unsafe {
                command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
            }
        }
        Ok(Self { child: command.spawn()?, has_session: cfg!(unix), ended: false })
    }

    /// Returns the program's process.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the program to end. Its descendants may go on.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                self.ended = true;
                return Ok(status);
            }
            sleep(limits::PROCESS_PAUSE).await;
        }
    }

    /// Waits until the program has ended, without reaping it: [`ProcessGroup::stop`] then returns its status and kills its
    /// descendants.
    pub async fn has_ended(&mut self) {
        // Most programs that a tool runs end quickly.
        let mut pause = limits::PROCESS_FIRST_PAUSE;
        while self.is_running() {
            sleep(pause).await;
            pause = (2 * pause).min(limits::PROCESS_PAUSE);
        }
    }

    /// Returns the status of a program that has ended, after killing its descendants; `None` while it runs.
    pub fn try_stop(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.is_running() { Ok(None) } else { self.stop().map(Some) }
    }

    #[cfg(unix)]
    fn is_running(&mut self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        // Does not reap the process: its id must stay reserved until the group is killed.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !self.ended && self.pid().is_some_and(|pid| matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
    }

    #[cfg(not(unix))]
    fn is_running(&mut self) -> bool {
        !self.ended && matches!(self.child.try_wait(), Ok(None))
    }

    #[cfg(unix)]
    fn pid(&self) -> Option<rustix::process::Pid> {
        i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw)
    }

    /// Kills the program and its descendants, and returns its exit status: its own, if it had ended by itself.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if !self.ended {
            // Before the process is reaped: until then its id cannot be reused.
            #[cfg(unix)]
            if let Some(pid) = self.pid() {
                let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
                #[cfg(target_os = "linux")]
                if self.has_session {
                    kill_session(pid);
                }
            }
            let _ = self.child.kill();
            self.ended = true;
        }
        self.child.wait()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.stop();
        }
    }
}

/// Kills all remaining processes of a session, in whatever process groups they are.
#[cfg(target_os = "linux")]
fn kill_session(session: rustix::process::Pid) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    // A process that was being started during one scan is found by the next.
    for _ in 0..limits::PROCESS_LOOKS {
        let Ok(all) = std::fs::read_dir("/proc") else { return };
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw);
        let mut is_empty = true;
        for pid in all.flatten().filter_map(number).filter(|pid| *pid != session) {
            if !is_alive_in(pid, session) {
                continue;
            }
            // The pidfd ensures that the signal reaches the checked process even if its id is reused.
            let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if is_alive_in(pid, session) {
                is_empty &= pidfd_send_signal(&held, Signal::KILL).is_err();
            }
        }
        if is_empty {
            return;
        }
    }
}

/// Returns `true` if a process belongs to this session and has not ended.
#[cfg(target_os = "linux")]
fn is_alive_in(pid: rustix::process::Pid, session: rustix::process::Pid) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())) else { return false };
    let stat = String::from_utf8_lossy(&stat);
    // After the name, which may hold any characters: state, parent, group, session.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let is_alive = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    is_alive && fields.nth(2).and_then(|id| id.parse().ok()) == Some(session.as_raw_nonzero().get())
}
