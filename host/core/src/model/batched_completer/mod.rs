use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use tokio::{
    pin,
    runtime::Handle,
    select,
    sync::{Notify, oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    BatchConfig, BatchId, BatchResults, BatchState, BatchSubmitter, Completer, Completion, CompletionRequest,
    DeltaSink, ModelInfo,
};
use crate::{
    error::Fault,
    event::{Event, ModelWait, RunCx},
    limits,
};

#[cfg(test)]
mod tests;

/// A model whose requests are sent in batches: slower by minutes, and at a lower price.
///
/// A request waits [`BatchConfig::window`] for others, from any caller. A request whose batch fails, takes longer than
/// [`BatchConfig::timeout`] or ends without its result is sent to the model itself, concurrently with other such requests. A
/// caller that stops waiting is removed from a batch that is not yet submitted. A submitted batch without waiting callers is
/// cancelled.
///
/// No deltas of a reply are shown before it is whole, unless the request is sent directly in the end. Replies from a batch
/// are counted at the model's regular price; a vendor with a batch discount bills less than is counted.
pub struct BatchedCompleter {
    model: Arc<dyn Completer>,
    broker: Arc<BatchQueue>,
    /// The batch that still accepts requests.
    open: Mutex<Option<(Arc<PendingBatch>, WeakShared<BatchAnswersFuture>)>>,
}

impl BatchedCompleter {
    /// Wraps a model whose requests go through `submitter` if possible. Wrappers such as a rate limit belong into `model`,
    /// because batches have limits of their own.
    pub fn new(model: Arc<dyn Completer>, submitter: Arc<dyn BatchSubmitter>, config: BatchConfig) -> Self {
        let broker = BatchQueue { submitter, config, errands: TaskTracker::new() };
        Self { model, broker: Arc::new(broker), open: Mutex::default() }
    }

    /// Waits for the cancellation of batches without waiting callers, for at most twice [`limits::BATCH_CANCEL_TIME`]. Call
    /// it before the program ends.
    pub async fn settled(&self) {
        self.broker.errands.close();
        // Each cancellation that takes longer logs that itself.
        let _ = timeout(2 * limits::BATCH_CANCEL_TIME, self.broker.errands.wait()).await;
    }

    /// Returns a slot in the batch that still accepts requests, or in a new one.
    fn join(&self, request: &CompletionRequest) -> BatchSlot {
        let mut open = lock(&self.open);
        if let Some((group, answers)) = &*open
            && let Some(answers) = answers.upgrade()
            && let Some(id) = group.add(request, self.broker.config.max_size)
        {
            return BatchSlot { group: Arc::clone(group), id, answers };
        }
        let group = Arc::new(PendingBatch::default());
        let id = group.add(request, self.broker.config.max_size).unwrap_or_default();
        let answers = answer(Arc::clone(&self.broker), Arc::clone(&group)).boxed().shared();
        *open = answers.downgrade().map(|answers| (Arc::clone(&group), answers));
        BatchSlot { group, id, answers }
    }

    /// Returns the reply from a batch, or the reason why there is none.
    async fn in_batch(&self, cx: &RunCx, request: &CompletionRequest) -> Result<Completion, String> {
        let mut seat = self.join(request);
        let mut news = seat.group.news.subscribe();
        let mut is_submitted = false;
        let answers = loop {
            select! {
                biased;
                Ok(()) = news.changed() => {
                    let BatchProgress { batch, size, done } = news.borrow_and_update().clone();
                    let batch = batch.map(|batch| batch.to_string()).unwrap_or_default();
                    let (wait, detail) = match std::mem::replace(&mut is_submitted, true) {
                        false => (ModelWait::BatchSubmitted, format!("submitted: {size} requests in batch {batch}")),
                        true => (ModelWait::BatchPolling, format!("{done} of {size} requests in batch {batch} done")),
                    };
                    self.tell(cx, wait, detail).await;
                }
                answers = &mut seat.answers => break answers,
            }
        };
        let mut found = lock(answers.as_ref().as_ref().map_err(String::clone)?);
        match found.remove(&name(seat.id)) {
            Some(Ok(completion)) => Ok(completion),
            Some(Err(fault)) => Err(fault.to_string()),
            None => Err("the batch ended without a result for this request".into()),
        }
    }

    async fn tell(&self, cx: &RunCx, wait: ModelWait, detail: String) {
        if cx.events.is_watched() {
            let (agent, model) = (Arc::clone(&cx.agent), self.model.info().name.clone());
            cx.events.emit(Event::ModelWaits { agent, model, wait, detail }).await;
        }
    }
}

#[async_trait]
impl Completer for BatchedCompleter {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        match self.in_batch(cx, request).await {
            Ok(completion) => {
                self.tell(cx, ModelWait::BatchCompleted, "answered in a batch".into()).await;
                Ok(completion)
            }
            Err(why) => {
                self.tell(cx, ModelWait::BatchFallback, format!("sent directly: {why}")).await;
                self.model.complete(cx, request, sink).await
            }
        }
    }
}

/// The outcome of a batch: results by id, or the reason why there are none.
type BatchAnswers = Arc<Result<Mutex<HashMap<String, Result<Completion, Fault>>>, String>>;

/// A future that all waiting callers poll: it makes progress while one of them does, and is dropped with the last one.
type BatchAnswersFuture = BoxFuture<'static, BatchAnswers>;

/// The requests collected for one batch.
#[derive(Default)]
struct PendingBatch {
    gathered: Mutex<PendingBatchState>,
    full: Notify,
    news: watch::Sender<BatchProgress>,
}

#[derive(Default)]
struct PendingBatchState {
    /// The number of ids assigned.
    ids: usize,
    wanted: BTreeMap<usize, CompletionRequest>,
    is_closed: bool,
}

/// The state of a batch, published to the waiting callers.
#[derive(Clone, Default)]
struct BatchProgress {
    batch: Option<BatchId>,
    size: usize,
    done: u64,
}

impl PendingBatch {
    /// Adds a request and returns its id in this batch; `None` if the batch is closed.
    fn add(&self, request: &CompletionRequest, most: usize) -> Option<usize> {
        let mut gathered = lock(&self.gathered);
        if gathered.is_closed {
            return None;
        }
        let id = gathered.ids;
        gathered.ids += 1;
        gathered.wanted.insert(id, request.clone());
        if gathered.wanted.len() >= most {
            gathered.is_closed = true;
            self.full.notify_one();
        }
        Some(id)
    }

    /// Closes the batch and returns the requests that a caller still waits for.
    fn close(&self) -> Arc<[(String, CompletionRequest)]> {
        let mut gathered = lock(&self.gathered);
        gathered.is_closed = true;
        std::mem::take(&mut gathered.wanted).into_iter().map(|(id, request)| (name(id), request)).collect()
    }
}

/// The slot of one request in a batch, given up when it is dropped.
struct BatchSlot {
    group: Arc<PendingBatch>,
    id: usize,
    answers: Shared<BatchAnswersFuture>,
}

impl Drop for BatchSlot {
    fn drop(&mut self) {
        lock(&self.group.gathered).wanted.remove(&self.id);
    }
}

/// Returns the name of a request in its batch.
fn name(id: usize) -> String {
    format!("request-{id}")
}

/// Collects requests for a while, submits them and waits for the results.
async fn answer(broker: Arc<BatchQueue>, group: Arc<PendingBatch>) -> BatchAnswers {
    // The batch is submitted when it is full or the time is over.
    let _ = timeout(broker.config.window, group.full.notified()).await;
    let results = timeout(broker.config.timeout, broker.results(&group)).await;
    let results = results.map_err(|_| format!("the batch took longer than {}", shown(broker.config.timeout)));
    Arc::new(results.and_then(|results| results.map_err(|fault| fault.to_string())).map(|results| {
        let mut found = HashMap::new();
        for (id, result) in results {
            found.entry(id).or_insert(result);
        }
        Mutex::new(found)
    }))
}

fn shown(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(time)
}

/// The queue through which batches are submitted.
struct BatchQueue {
    submitter: Arc<dyn BatchSubmitter>,
    config: BatchConfig,
    /// Tasks of bounded duration that outlive their callers.
    errands: TaskTracker,
}

impl BatchQueue {
    /// Submits the requests and waits for the results.
    async fn results(self: &Arc<Self>, group: &PendingBatch) -> Result<BatchResults, Fault> {
        let requests = group.close();
        let mut batch = self.submit(Arc::clone(&requests)).await?;
        group.news.send_modify(|news| {
            *news = BatchProgress { batch: Some(batch.id.clone()), size: requests.len(), done: 0 };
        });
        let (mut pause, mut failures) = (self.config.poll_interval, 0);
        loop {
            sleep(pause).await;
            match self.look(&mut batch, &requests, group).await {
                Ok(Some(results)) => return Ok(results),
                Ok(None) => failures = 0,
                Err(fault) if may_pass(&fault) && failures < limits::BATCH_POLL_FAILURES => {
                    tracing::debug!(batch = %batch.id, %fault, "cannot poll the batch");
                    failures += 1;
                    pause = pause.max(fault.retry_after().unwrap_or_default());
                }
                Err(fault) => return Err(fault),
            }
            pause = (pause * 3 / 2).min(limits::BATCH_POLL_CEILING);
        }
    }

    /// Returns the results if the batch has ended.
    async fn look(
        &self,
        batch: &mut SubmittedBatch,
        requests: &[(String, CompletionRequest)],
        group: &PendingBatch,
    ) -> Result<Option<BatchResults>, Fault> {
        if !batch.has_ended {
            match self.submitter.poll(&batch.id).await? {
                BatchState::Ended => batch.has_ended = true,
                BatchState::Working { done } => {
                    group.news.send_if_modified(|news| std::mem::replace(&mut news.done, done) != done);
                    return Ok(None);
                }
            }
        }
        self.submitter.results(&batch.id, requests).await.map(Some)
    }

    /// Submits requests, in a task that outlives its caller for a while: a batch can only be cancelled once its id is known.
    async fn submit(self: &Arc<Self>, requests: Arc<[(String, CompletionRequest)]>) -> Result<SubmittedBatch, Fault> {
        let (mut to, submitted) = oneshot::channel();
        let broker = Arc::clone(self);
        self.errands.spawn(async move {
            let submitting = broker.submitter.submit(&requests);
            pin!(submitting);
            let id = select! {
                id = &mut submitting => id,
                () = to.closed() => match timeout(limits::BATCH_CANCEL_TIME, submitting).await {
                    Ok(id) => id,
                    Err(_) => return tracing::warn!("a batch without waiting requests may have been submitted"),
                },
            };
            let broker = Arc::clone(&broker);
            // If nobody receives the batch, it is dropped and thereby cancelled.
            let _ = to.send(id.map(|id| SubmittedBatch { broker, id, has_ended: false, runtime: Handle::current() }));
        });
        let lost = |_| Fault::other("the submission of the batch was aborted");
        submitted.await.map_err(lost)?
    }
}

/// Returns `true` if the same call may succeed later.
fn may_pass(fault: &Fault) -> bool {
    fault.is_transient() || matches!(fault, Fault::Timeout { .. })
}

/// A batch that the vendor is working on. Cancelled when it is dropped before it has ended.
struct SubmittedBatch {
    broker: Arc<BatchQueue>,
    id: BatchId,
    has_ended: bool,
    /// Stored because the batch may be dropped outside a runtime.
    runtime: Handle,
}

impl Drop for SubmittedBatch {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (submitter, id) = (Arc::clone(&self.broker.submitter), self.id.clone());
        let cancel = async move {
            match timeout(limits::BATCH_CANCEL_TIME, submitter.cancel(&id)).await {
                Ok(Ok(())) => tracing::debug!(batch = %id, "cancelled"),
                Ok(Err(fault)) => tracing::warn!(batch = %id, %fault, "cannot cancel the batch"),
                Err(_) => tracing::warn!(batch = %id, "cancelling the batch timed out"),
            }
        };
        self.broker.errands.spawn_on(cancel, &self.runtime);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
