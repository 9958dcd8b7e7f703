//! Signals that end a run as Ctrl-C does.

/// Waits for Ctrl-C, for SIGTERM, or for the terminal to go away. Returns the exit code: what shells give a program that
/// this signal ended.
pub async fn ended() -> u8 {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => INTERRUPTED,
        code = others() => code,
    }
}

/// The exit code after Ctrl-C.
pub const INTERRUPTED: u8 = 128 + 2;

#[cfg(unix)]
async fn others() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    const TERM: u8 = 15;
    const HANG_UP: u8 = 1;
    let of = async |number: u8| {
        if let Ok(mut signal) = signal(SignalKind::from_raw(number.into()))
            && signal.recv().await.is_some()
        {
            return number;
        }
        // It cannot be listened for: then it ends this program as it ends any other.
        std::future::pending().await
    };
    let hang_up = async {
        match is_ignored(HANG_UP) {
            true => std::future::pending().await,
            false => of(HANG_UP).await,
        }
    };
    tokio::select! {
        number = of(TERM) => 128 + number,
        number = hang_up => 128 + number,
    }
}

#[cfg(not(unix))]
async fn others() -> u8 {
    std::future::pending().await
}

/// Whether whoever started this wants the signal ignored, as `nohup` does: that stays so. Where it cannot be told it is left
/// alone, too.
#[cfg(unix)]
fn is_ignored(number: u8) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status).is_none_or(|mask| mask & (1 << (number - 1)) != 0)
}

/// The signals that a process ignores, as its status says it, one bit each.
#[cfg(unix)]
fn ignored(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read() {
        for (status, mask) in [
            ("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000002\n", Some(0x1001)),
            ("SigIgn:\t0000000000001000\n", Some(0x1000)),
            ("SigIgn:\tx\n", None),
            ("", None),
        ] {
            assert_eq!(ignored(status), mask, "{status}");
        }
    }
}
