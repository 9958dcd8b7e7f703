//! The end of a build before its time: its programs are killed.

use std::{
    io,
    process::{Child, Command, ExitStatus},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use shelly_core::{limits, process::ProcessGroup};

/// Ends a build from another thread. Clones end the same build.
#[derive(Clone, Default)]
pub struct BuildCancellation {
    state: Arc<Mutex<BuildCancellationState>>,
}

#[derive(Default)]
struct BuildCancellationState {
    is_cancelled: bool,
    /// The program that runs, with its descendants.
    running: Option<ProcessGroup>,
}

impl BuildCancellation {
    fn state(&self) -> MutexGuard<'_, BuildCancellationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the program that runs, with its descendants, and keeps the build from starting another one.
    pub fn cancel(&self) {
        let mut state = self.state();
        state.is_cancelled = true;
        // With the program its processes end; its status is of no use to anybody.
        state.running = None;
    }

    /// Returns `true` after [`cancel`](Self::cancel).
    pub fn is_cancelled(&self) -> bool {
        self.state().is_cancelled
    }

    /// Starts a program in a process group of its own and passes its process to `take`, for its pipes.
    ///
    /// # Errors
    ///
    /// The error of the system, or [`io::ErrorKind::Interrupted`] after [`cancel`](Self::cancel).
    pub(crate) fn start<T>(&self, command: &mut Command, take: impl FnOnce(&mut Child) -> T) -> io::Result<T> {
        let mut state = self.state();
        if state.is_cancelled {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut group = ProcessGroup::start(command)?;
        let taken = take(group.child());
        state.running = Some(group);
        Ok(taken)
    }

    /// Waits for the program to end.
    ///
    /// # Errors
    ///
    /// The error of the system, or [`io::ErrorKind::Interrupted`] if the program was killed.
    pub(crate) fn wait(&self) -> io::Result<ExitStatus> {
        loop {
            // The lock is not held during the pause.
            let ended = match &mut self.state().running {
                Some(group) => group.try_stop()?,
                None => return Err(io::ErrorKind::Interrupted.into()),
            };
            match ended {
                Some(status) => {
                    self.state().running = None;
                    return Ok(status);
                }
                None => thread::sleep(limits::PROCESS_PAUSE),
            }
        }
    }
}
