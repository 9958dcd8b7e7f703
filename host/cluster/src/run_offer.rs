//! A run that the server offers to a worker.

use std::{fmt, future::Future, sync::Arc};

use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterConnection},
    run_taking::{FoundRun, OfferedMessage, WorkerIdentity},
    taken_run::TakenRun,
};

/// A run that the server offers to a worker.
#[derive(Debug)]
pub enum RunOffer {
    /// The worker has the run.
    Taken(Box<TakenRun>),
    /// The worker that had the run seems to have died.
    Left(Box<LeftRun>),
}

/// A run whose worker seems to have died. If this is dropped, the server offers the run again after the lease.
pub struct LeftRun {
    connection: Arc<ClusterConnection>,
    worker: WorkerIdentity,
    message: OfferedMessage,
}

impl RunOffer {
    /// Creates the offer of a run that this worker has found.
    pub(crate) fn new(connection: Arc<ClusterConnection>, worker: WorkerIdentity, found: FoundRun) -> Self {
        match found {
            FoundRun::Taken(taken) => {
                let (entry, held) = *taken;
                Self::Taken(Box::new(TakenRun::new(connection, entry, held)))
            }
            FoundRun::Left(message) => Self::Left(Box::new(LeftRun { connection, worker, message: *message })),
        }
    }

    /// Returns the run if the worker has it.
    pub(crate) fn taken(self) -> Option<TakenRun> {
        match self {
            Self::Taken(run) => Some(*run),
            Self::Left(_) => None,
        }
    }
}

impl LeftRun {
    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        self.message.id()
    }

    /// Takes the run, after its worker had the time to come back, which is less than half of a lease. Returns `None` if it
    /// came back, if another worker has the run, and if the run has ended; also a moment after `abandoned` is cancelled, unless
    /// the run was just taken: then the server offers it again at once. If the returned future is dropped, a run that was
    /// just taken is given back.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails: then the run is offered again after the lease.
    pub async fn take(self, abandoned: &CancellationToken) -> Result<Option<TakenRun>, ClusterError> {
        let Self { connection, worker, message } = self;
        let namespace = connection.handles().options.namespace.clone();
        let (of_task, abandoned) = (Arc::clone(&connection), abandoned.clone());
        let task = async move {
            let taken = of_task.handles().take_left(&worker, message, &abandoned).await?;
            Ok(taken.map(|taken| RunOffer::new(of_task, worker, FoundRun::Taken(taken))))
        };
        let taken = run_take_task(&connection, task).await;
        taken
            .map(|offer| offer.and_then(RunOffer::taken))
            .map_err(|error| error.in_cluster("take a run of", &namespace))
    }
}

impl fmt::Debug for LeftRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeftRun").field("id", &self.id()).finish_non_exhaustive()
    }
}

/// Does a task that takes a run on the runtime of the connection, and returns its result.
///
/// The task is not ended in the middle: between the change of the entry and its result, that would be a death. A run that
/// nobody waits for any more is given back.
pub(crate) async fn run_take_task(
    connection: &ClusterConnection,
    task: impl Future<Output = Result<Option<RunOffer>, ClusterCallError>> + Send + 'static,
) -> Result<Option<RunOffer>, ClusterCallError> {
    let (sender, receiver) = oneshot::channel();
    let task = connection.spawn(async move {
        // A run that nobody receives is given back when it is dropped.
        let _ = sender.send(task.await.map(UnclaimedOffer));
    });
    drop(task.map(AbortOnDropHandle::detach));
    let ended = || Err(ClusterCallError::Failed("the connection has ended".into()));
    receiver.await.unwrap_or_else(|_| ended()).map(UnclaimedOffer::claim)
}

/// An offer on its way from the task that took it to the worker.
struct UnclaimedOffer(Option<RunOffer>);

impl UnclaimedOffer {
    fn claim(mut self) -> Option<RunOffer> {
        self.0.take()
    }
}

impl Drop for UnclaimedOffer {
    fn drop(&mut self) {
        if let Some(run) = self.0.take().and_then(RunOffer::taken) {
            run.give_back_alone();
        }
    }
}
