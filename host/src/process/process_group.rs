//! Programs that the host has started, with all that they start in turn.

use std::{
    io,
    process::{Child, Command, ExitStatus},
};

use tokio::time::sleep;

use crate::limits;

/// A program in a process group of its own. When this is dropped it is ended, and with it whatever it has started that is
/// still in its group, or, where it has one, in its session.
pub(crate) struct ProcessGroup {
    child: Child,
    has_session: bool,
    ended: bool,
}

impl ProcessGroup {
    /// Starts it in the session of this program: it can ask the person at its terminal. Its pipes are in
    /// [`ProcessGroup::child`].
    pub fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        Ok(Self { child: command.spawn()?, has_session: false, ended: false })
    }

    /// The same in a session of its own: it has no terminal, and what it starts is found wherever it has put it.
    pub fn start_apart(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt;
            // SAFETY: between fork and exec only what is safe in a signal handler may be called, and `setsid` is.
            unsafe {
                command.pre_exec(|| rustix::process::setsid().map(drop).map_err(io::Error::from));
            }
        }
        Ok(Self { child: command.spawn()?, has_session: cfg!(unix), ended: false })
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

    /// Waits until it has ended, and leaves it where it is: [`ProcessGroup::stop`] then says how, and ends what it has started.
    pub async fn has_ended(&mut self) {
        // Most programs that a tool runs are quick.
        let mut pause = limits::PROCESS_FIRST_PAUSE;
        while self.is_running() {
            sleep(pause).await;
            pause = (2 * pause).min(limits::PROCESS_PAUSE);
        }
    }

    #[cfg(unix)]
    fn is_running(&mut self) -> bool {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        // Without taking its number from it: its group is still to be ended.
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

    /// Ends it and what it has started, and says how it came to its end: its own, if it had come to one.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if !self.ended {
            // Before it is waited for: until then nobody else has its number.
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

/// Ends all that is left of a session, whatever groups it has made of itself.
#[cfg(target_os = "linux")]
fn kill_session(session: rustix::process::Pid) {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    // What was just being started at one look is there at the next.
    for _ in 0..limits::PROCESS_LOOKS {
        let Ok(all) = std::fs::read_dir("/proc") else { return };
        let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw);
        let mut is_empty = true;
        for pid in all.flatten().filter_map(number).filter(|pid| *pid != session) {
            if !is_alive_in(pid, session) {
                continue;
            }
            // Once it is held, its number cannot become somebody else's between the look and the signal.
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

/// Whether a process is of this session and has not ended.
#[cfg(target_os = "linux")]
fn is_alive_in(pid: rustix::process::Pid, session: rustix::process::Pid) -> bool {
    let Ok(stat) = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())) else { return false };
    let stat = String::from_utf8_lossy(&stat);
    // After its name, which may hold anything: its state, its parent, its group, its session.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    let is_alive = fields.next().is_some_and(|state| !matches!(state, "Z" | "X"));
    is_alive && fields.nth(2).and_then(|id| id.parse().ok()) == Some(session.as_raw_nonzero().get())
}
