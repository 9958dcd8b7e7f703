//! Signals that end a command: Ctrl-C, SIGTERM, and SIGHUP when the terminal goes away.
//!
//! A thread watches them from the first line of `main` on, so that none is lost while a command reads plugin folders or
//! compiles. A command that can end in an orderly way waits for [`ended`].

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::sync::watch;

use super::{
    chat::restore_and_leave,
    render::{self, RunOutputFormat},
    wanted_output::wanted_output,
};
use crate::{limits, model::Ledger};

/// The exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 128 + 2;

/// The exit code for the first signal that came.
static SIGNALLED: LazyLock<watch::Sender<Option<u8>>> = LazyLock::new(|| watch::Sender::new(None));

/// The number of futures of [`ended`] that have not seen a signal yet.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Watches signals until the process ends. Returns once the handlers are installed. If no command waits in [`ended`], a
/// signal ends the process at once. If one waits but has not noticed the signal within [`limits::CANCEL_GRACE`], because
/// it is reading or compiling, the process ends then. A second signal after that ends it at once. If no thread can be
/// started, signals keep their default effect.
pub fn watch() {
    let (ready, watched) = std::sync::mpsc::sync_channel(1);
    let watching = move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let signals = EndSignals::listen();
            let _ = ready.send(());
            let Some(mut signals) = signals else { return };
            let code = signals.next().await;
            // Read before the command is told, after which it no longer waits.
            let is_awaited = WAITING.load(Ordering::SeqCst) > 0;
            SIGNALLED.send_replace(Some(code));
            if is_awaited {
                tokio::time::sleep(limits::CANCEL_GRACE).await;
                if WAITING.load(Ordering::SeqCst) == 0 {
                    // The command has noticed and ends by itself; a second signal does not wait for it.
                    signals.next().await;
                }
            }
            exit(code);
        });
    };
    if thread::Builder::new().name("signals".into()).spawn(watching).is_ok() {
        // An error means that the thread ended without watching.
        let _ = watched.recv();
    }
}

/// Prints that the command is cancelled, and ends the process with this exit code. It ends after [`limits::CANCEL_GRACE`]
/// even if nobody reads its output.
pub fn exit(code: u8) -> ! {
    restore_and_leave();
    let (tell_done, done) = std::sync::mpsc::sync_channel(1);
    let telling = move || {
        render::cancelled(code, &Ledger::new(), None, wanted_output().unwrap_or(RunOutputFormat::Text));
        let _ = tell_done.send(());
    };
    if thread::Builder::new().name("cancelled".into()).spawn(telling).is_ok() {
        let _ = done.recv_timeout(limits::CANCEL_GRACE);
    }
    std::process::exit(i32::from(code))
}

/// Returns a future of the exit code for the first signal that ends a command, including one that came before. From this
/// call until the future is ready or dropped, a signal leaves the command [`limits::CANCEL_GRACE`] to end by itself.
pub fn ended() -> impl Future<Output = u8> {
    let waiting = WaitingCommand::new();
    async move {
        // The sender is never dropped.
        let code = SIGNALLED.subscribe().wait_for(Option::is_some).await.ok().and_then(|code| *code);
        drop(waiting);
        match code {
            Some(code) => code,
            None => std::future::pending().await,
        }
    }
}

/// Counts a command that waits for a signal.
struct WaitingCommand;

impl WaitingCommand {
    fn new() -> Self {
        WAITING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for WaitingCommand {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(unix)]
struct EndSignals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` if the parent process wants it ignored.
    hang_up: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl EndSignals {
    /// Installs the handlers; `None` if that fails.
    fn listen() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hang_up = match is_ignored(HANG_UP) {
            true => None,
            false => signal(SignalKind::hangup()).ok(),
        };
        Some(Self {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
            hang_up,
        })
    }

    /// Waits for a signal. Returns its exit code.
    async fn next(&mut self) -> u8 {
        let Self { interrupt, terminate, hang_up } = self;
        let hang_up = async {
            match hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupt.recv() => INTERRUPTED,
            _ = terminate.recv() => 128 + TERM,
            _ = hang_up => 128 + HANG_UP,
        }
    }
}

#[cfg(unix)]
const TERM: u8 = 15;
#[cfg(unix)]
const HANG_UP: u8 = 1;

#[cfg(not(unix))]
struct EndSignals;

#[cfg(not(unix))]
impl EndSignals {
    fn listen() -> Option<Self> {
        Some(Self)
    }

    async fn next(&mut self) -> u8 {
        match tokio::signal::ctrl_c().await {
            Ok(()) => INTERRUPTED,
            Err(_) => std::future::pending().await,
        }
    }
}

/// Returns `true` if the parent process wants the signal ignored, as `nohup` does, so that it stays ignored. Returns
/// `true` also if that cannot be determined.
#[cfg(unix)]
fn is_ignored(number: u8) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_none_or(|mask| mask & (1 << (number - 1)) != 0)
}

/// Returns the signals that a process ignores according to its status, one bit each.
#[cfg(unix)]
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn ignored_signals_are_read_from_process_status() {
        for (status, mask) in [
            ("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n", Some(0x1001)),
            ("SigIgn:\t0000000000001000\n", Some(0x1000)),
            ("SigIgn:\tx\n", None),
            ("", None),
        ] {
            assert_eq!(super::ignored(status), mask, "{status}");
        }
    }
}
