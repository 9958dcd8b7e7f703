//! Detects a standard output that was closed when the program was started.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the program was started without a standard output, as by `>&-` in a shell. Output is then lost
/// without an error.
pub fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Checks before the runtime of the language starts, which opens /dev/null in place of a closed standard output.
/// Afterwards that cannot be told from a /dev/null that the user chose.
#[cfg(target_os = "linux")]
mod before_main {
    use std::{os::fd::BorrowedFd, sync::atomic::Ordering};

    // SAFETY: the loader calls each entry of `.init_array` once, before `main`, on the only thread. The function makes one
    // system call and stores to an atomic, neither of which needs what the runtime sets up, and it cannot panic.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK: extern "C" fn() = look;

    extern "C" fn look() {
        // SAFETY: the number is only passed to the system, which reports if nothing is open under it.
        let stdout = unsafe { BorrowedFd::borrow_raw(1) };
        let is_closed = rustix::io::fcntl_getfd(stdout) == Err(rustix::io::Errno::BADF);
        crate::cli::stdout::WAS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
}
