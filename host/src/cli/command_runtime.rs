use super::{compile_progress::with_compile_progress, signals};
use crate::error::{ErrorKind, Report};

/// The runtime for commands that wait for single operations.
pub struct CommandRuntime(tokio::runtime::Runtime);

/// Starts the runtime of a command.
///
/// # Errors
///
/// A [`Report`] if the system refuses it.
pub fn runtime() -> Result<CommandRuntime, Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map(CommandRuntime)
        .map_err(|error| Report::new(ErrorKind::Bug, "cannot start the async runtime").cause(error))
}

impl CommandRuntime {
    /// Waits for `work`, and shows at a terminal what is compiled meanwhile. A signal drops the work, and with it the programs that
    /// it has started, and ends the process.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let interrupt = signals::ended();
        let done = self.0.block_on(async {
            tokio::select! {
                biased;
                code = interrupt => Err(code),
                done = with_compile_progress(work) => Ok(done),
            }
        });
        done.unwrap_or_else(|code| signals::exit(code))
    }
}
