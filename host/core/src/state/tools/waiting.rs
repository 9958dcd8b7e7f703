//! Tools that wait: for a change, or for the server of a board that several hosts have.

use std::{future::Future, time::Duration};

use tokio::task::spawn_blocking;

use crate::{
    error::{self, Fault},
    limits,
};

/// Returns the wall time limit of a tool that waits: the maximum wait, and time to report that nothing happened.
pub(super) fn wait_limit() -> Duration {
    limits::SHARED_WAIT + limits::SHARED_WAIT_GRACE
}

/// Waits as long as the model asks; `what` begins the error message after a timeout.
pub(super) async fn wait<R>(seconds: Option<u64>, what: String, future: impl Future<Output = R>) -> Result<R, Fault> {
    let most = limits::SHARED_WAIT.as_secs();
    let seconds = seconds.unwrap_or(most);
    if !(1..=most).contains(&seconds) {
        return Err(Fault::invalid(format!("`timeout_seconds` is {seconds}; use 1 to {most}")));
    }
    let time = Duration::from_secs(seconds);
    let in_vain = |_| {
        let message = format!("{what} within {}; do something else, or wait again", error::seconds(time));
        Fault::Timeout { message }
    };
    tokio::time::timeout(time, future).await.map_err(in_vain)
}

/// Makes a change of a board. That of a shared one waits for the server, on a thread that may wait.
pub(super) async fn change<R: Send + 'static>(
    is_shared: bool,
    change: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Fault> {
    match is_shared {
        true => spawn_blocking(change).await.map_err(|error| Fault::other(format!("the change has stopped: {error}"))),
        false => Ok(change()),
    }
}
