//! The person of a trial: answers questions, sends messages and cancels runs, by connections that have faults too.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use shelly_host::{
    cluster::{Cluster, ClusterError, RunCommand, RunReply},
    limits,
};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    model::ScriptedModel,
    tasks::{TaskKind, kind_of, note_for},
};

/// The pause between two looks at the runs.
const LOOK: Duration = Duration::from_millis(500);

/// The person, until it is dropped.
pub struct TrialPerson {
    state: Arc<TrialPersonState>,
    task: JoinHandle<()>,
}

struct TrialPersonState {
    cluster: Cluster,
    model: ScriptedModel,
    /// The runs that have not ended, as far as is known.
    open: Mutex<BTreeSet<String>>,
    /// The number of messages that were sent to each run, those included of which nobody knows whether they arrived.
    notes: Mutex<BTreeMap<String, usize>>,
    /// The runs that have said that they have a message: it is not lost then, whatever happens.
    told: Mutex<BTreeSet<String>>,
}

impl TrialPerson {
    /// Begins to look after the runs that this model is asked by.
    pub fn new(cluster: Cluster, model: ScriptedModel) -> Self {
        let state = TrialPersonState {
            cluster,
            model,
            open: Mutex::default(),
            notes: Mutex::default(),
            told: Mutex::default(),
        };
        let state = Arc::new(state);
        let task = tokio::spawn(look_after(Arc::clone(&state)));
        Self { state, task }
    }

    /// Tells the person which runs have not ended.
    pub fn set_open(&self, open: BTreeSet<String>) {
        *locked(&self.state.open) = open;
    }

    /// Returns the number of messages that were sent to each run.
    pub fn notes(&self) -> BTreeMap<String, usize> {
        locked(&self.state.notes).clone()
    }
}

impl Drop for TrialPerson {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Does what each open run needs until it is aborted. What is lost is done again: a question that comes again is answered
/// again.
async fn look_after(state: Arc<TrialPersonState>) {
    loop {
        let mut tasks = JoinSet::new();
        for run in state.model.runs(|kind| kind.is_answered() || matches!(kind, TaskKind::Cancel | TaskKind::Note)) {
            if !locked(&state.open).contains(&run) {
                continue;
            }
            let state = Arc::clone(&state);
            // Failures are those of the faults: the run is still there at the next look.
            tasks.spawn(async move { drop(timeout(limits::CLUSTER_CALL, state.look_at(&run)).await) });
        }
        while tasks.join_next().await.is_some() {}
        sleep(LOOK).await;
    }
}

impl TrialPersonState {
    async fn look_at(&self, run: &str) -> Result<(), ClusterError> {
        match kind_of(run) {
            TaskKind::Note => self.send_note(run).await,
            // The agent on the other worker has asked its question.
            TaskKind::Cancel if self.model.record(run).requests.contains_key(&(1, 0)) => {
                self.cluster.runs().cancel(run).await.map(drop)
            }
            TaskKind::Cancel => Ok(()),
            _ => self.answer(run).await,
        }
    }

    /// Sends a message to a run, unless it has one.
    async fn send_note(&self, run: &str) -> Result<(), ClusterError> {
        if locked(&self.told).contains(run) {
            return Ok(());
        }
        let message = RunCommand::Message { id: None, agent: None, text: note_for(run) };
        // Before it is sent: afterwards nobody knows, if this is ended in the middle.
        *locked(&self.notes).entry(run.to_owned()).or_default() += 1;
        if self.cluster.bus().ask(run, &message).await? == RunReply::Done {
            locked(&self.told).insert(run.to_owned());
        }
        Ok(())
    }

    /// Answers the open questions of a run, and of those that work for it.
    async fn answer(&self, run: &str) -> Result<(), ClusterError> {
        let bus = self.cluster.bus();
        let RunReply::Questions { questions } = bus.ask(run, &RunCommand::Questions).await? else { return Ok(()) };
        let asked = |question: &Value| Some((question["id"].as_u64()?, question["run"].as_str()?.to_owned()));
        for (question, attempt) in questions.iter().filter_map(asked) {
            let reply = json!({"chosen": ["blue"]});
            bus.ask(run, &RunCommand::answer(&question.to_string(), &attempt, reply)).await?;
        }
        Ok(())
    }
}

fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
