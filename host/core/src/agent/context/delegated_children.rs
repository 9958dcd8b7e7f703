use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{AgentCall, AgentCalls, DelegateQuestion};
use crate::agent::journal::{DelegatedTask, DelegationReport, QuestionResult, RecordedDelegateCall};

/// The tasks that a run has delegated: their ids, those that wait for an answer, and those from before an interruption.
#[derive(Default)]
pub(crate) struct DelegatedChildren {
    /// The number of tasks that it has delegated; the id of the newest contains it.
    count: AtomicU32,
    /// The names of the tasks of the last reply.
    planned: Mutex<PlannedDelegations>,
    parked: Mutex<ParkedChildren>,
    /// The calls that had delegated when the run was interrupted, by their id; unset if it never was.
    recorded: OnceLock<HashMap<String, RecordedDelegateCall>>,
}

/// The names of the tasks of a reply, by its calls; without those that have them already.
#[derive(Default)]
struct PlannedDelegations {
    /// The message with the reply.
    reply: Option<u64>,
    by_call: HashMap<String, Vec<DelegationNames>>,
}

/// The names of one delegation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DelegationNames {
    /// The agent that works on it first, and the text of its task.
    task: (String, String),
    /// The id by which the delegating agent answers questions.
    pub id: String,
    /// The instance name of that agent.
    pub instance: Arc<str>,
}

/// The children that wait for an answer, by the id of their delegation.
enum ParkedChildren {
    Waiting(HashMap<String, ParkedDelegation>),
    /// The run is over.
    Dismissed,
}

impl Default for ParkedChildren {
    fn default() -> Self {
        Self::Waiting(HashMap::new())
    }
}

/// A task that an agent works on. Dropping it stops the agent.
pub(crate) struct ChildDelegation {
    /// The id of the delegation.
    pub id: String,
    pub agent: String,
    /// The number of questions that the agent has asked.
    pub questions_put: usize,
    pub work: AbortOnDropHandle<DelegationReport>,
    /// The questions of the agent; `None` if it may not ask.
    pub questions: Option<mpsc::Receiver<DelegateQuestion>>,
    /// Stops all tasks of its call, if they are to fail together.
    pub stop: Option<CancellationToken>,
    /// The id of the call.
    pub call: String,
    /// The position of the task in the call.
    pub position: usize,
    /// The answer to a question that the agent asked before it was interrupted. It asks again if it did not receive the
    /// answer.
    pub owed: Option<UndeliveredAnswer>,
    /// The reason why the newest answer did not reach the agent.
    pub late: Option<&'static str>,
}

pub(crate) struct UndeliveredAnswer {
    /// The id of the call that asked.
    asking_call: String,
    answer: String,
}

/// A child that waits for an answer.
pub(crate) struct ParkedDelegation {
    pub child: ChildDelegation,
    pub question: ParkedQuestion,
}

pub(crate) enum ParkedQuestion {
    /// The child has asked.
    Open(DelegateQuestion),
    /// The child had asked this before it was interrupted. It asks again unless its call had a result.
    Recorded { asking_call: String, result: Option<QuestionResult> },
}

/// The next event of a child.
pub(crate) enum ChildProgress {
    Done(DelegationReport),
    Asked(ChildDelegation, DelegateQuestion),
}

impl ChildDelegation {
    /// Answers the question of the child, or notes why the answer came too late.
    pub fn answer(&mut self, question: ParkedQuestion, answer: String) {
        match question {
            ParkedQuestion::Open(question) => self.answer_open(question, answer),
            ParkedQuestion::Recorded { asking_call, result: None } => {
                self.owed = Some(UndeliveredAnswer { asking_call, answer });
            }
            // The call that answers is repeated, and had answered before.
            ParkedQuestion::Recorded { result: Some(QuestionResult::Answer), .. } => {}
            ParkedQuestion::Recorded { result: Some(QuestionResult::Error), .. } => self.late = Some(TIMED_OUT),
        }
    }

    fn answer_open(&mut self, DelegateQuestion { answer: waiting, timed_out, .. }: DelegateQuestion, answer: String) {
        let why = || if timed_out.load(Ordering::Relaxed) { TIMED_OUT } else { ENDED };
        self.late = waiting.send(answer).err().map(|_| why());
    }

    /// Waits until the child has ended or asks.
    pub async fn next(mut self) -> ChildProgress {
        loop {
            let next_question = next_question(self.questions.as_mut());
            tokio::select! {
                biased;
                // An answer is owed to one question; another one may come before it.
                Some(question) = next_question => match self.owed.take_if(|owed| owed.asking_call == question.call) {
                    Some(owed) => self.answer_open(question, owed.answer),
                    // An agent whose question timed out goes on without the answer.
                    None if question.answer.is_closed() => {}
                    None => return ChildProgress::Asked(self, question),
                },
                report = &mut self.work => {
                    let crashed = |_| DelegationReport::failed(&self.agent, "the agent crashed");
                    let mut report = report.unwrap_or_else(crashed);
                    // The report of an agent that was stopped says so. Whether it had ended before the answer came, or only
                    // then, is chance.
                    let is_stopped = self.stop.as_ref().is_some_and(CancellationToken::is_cancelled);
                    let late = self.late.or(self.owed.as_ref().map(|_| ENDED));
                    if let Some(why) = late.filter(|_| !is_stopped) {
                        report.warn(why.into());
                    }
                    return ChildProgress::Done(report);
                }
            }
        }
    }
}

const TIMED_OUT: &str = "the agent's question had timed out; the agent continued without your answer";

const ENDED: &str = "the agent had ended before your answer arrived";

async fn next_question(questions: Option<&mut mpsc::Receiver<DelegateQuestion>>) -> Option<DelegateQuestion> {
    questions?.recv().await
}

impl DelegatedChildren {
    /// Returns an id for one more delegation. Ids follow the order of the tasks.
    pub fn next_id(&self) -> String {
        format!("d-{}", self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }

    /// Returns the names for the tasks of a call, given with their agents. All calls of the reply are named when the first of
    /// them begins, so that the numbers follow the order of the calls in it. `instance` names the instance of an agent for a
    /// task.
    pub fn names(
        &self,
        reply: &AgentCalls,
        call: &str,
        tasks: impl Iterator<Item = (String, String)>,
        instance: impl Fn(&str, &str) -> Arc<str>,
    ) -> Vec<DelegationNames> {
        let named = |task: (String, String)| {
            let instance = instance(&task.0, &task.1);
            DelegationNames { task, id: self.next_id(), instance }
        };
        let mut planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if reply.reply.is_none() || planned.reply != reply.reply {
            let names = |call: &AgentCall| (call.id.clone(), call.tasks.iter().cloned().map(named).collect());
            *planned = PlannedDelegations { reply: reply.reply, by_call: reply.calls.iter().map(names).collect() };
        }
        let mut there = planned.by_call.remove(call).unwrap_or_default().into_iter();
        let names = |task: (String, String)| match there.next() {
            // Middleware may have changed the task since.
            Some(names) if names.task != task => {
                DelegationNames { instance: instance(&task.0, &task.1), task, id: names.id }
            }
            Some(names) => names,
            None => named(task),
        };
        tasks.map(names).collect()
    }

    /// Returns the number in an id.
    pub fn number(id: &str) -> Option<u32> {
        id.strip_prefix("d-").and_then(|number| number.parse().ok())
    }

    /// Restores the calls that had delegated when the run was interrupted. `ids` are all ids of delegations so far.
    pub fn restore<'a>(&self, recorded: HashMap<String, RecordedDelegateCall>, ids: impl Iterator<Item = &'a String>) {
        let of_tasks = recorded.values().flat_map(|call| &call.tasks).filter_map(|task| task.id.as_deref());
        let newest = of_tasks.filter_map(Self::number).max();
        let newest = newest.max(ids.filter_map(|id| Self::number(id)).max());
        self.count.store(newest.unwrap_or(0), Ordering::Relaxed);
        // A run is restored once.
        let _ = self.recorded.set(recorded);
    }

    /// Returns the recorded state of this call, if it had delegated before the run was interrupted.
    pub fn recorded_call(&self, call: &str) -> Option<&RecordedDelegateCall> {
        self.recorded.get()?.get(call)
    }

    /// Returns the delegated task of this call, if the call began before the run was interrupted.
    pub fn recorded_task(&self, call: &str) -> Option<&DelegatedTask> {
        self.recorded_call(call)?.tasks.first()
    }

    /// Lets a child wait for an answer. Dropped if the run is over.
    pub fn park(&self, id: String, child: ParkedDelegation) {
        if let ParkedChildren::Waiting(parked) = &mut *self.parked() {
            parked.insert(id, child);
        }
    }

    /// Takes the parked children of these ids, all or none, in their order.
    ///
    /// # Errors
    ///
    /// The text for the model if one of them does not wait, or is named twice.
    pub fn take<'a>(&self, ids: impl Iterator<Item = &'a str> + Clone) -> Result<Vec<ParkedDelegation>, String> {
        let mut parked = self.parked();
        let ParkedChildren::Waiting(parked) = &mut *parked else { return Err("this run has ended".into()) };
        let mut seen = std::collections::HashSet::new();
        if let Some(id) = ids.clone().find(|id| !parked.contains_key(*id) || !seen.insert(*id)) {
            let mut waiting: Vec<_> = parked.keys().map(String::as_str).collect();
            waiting.sort_unstable();
            let waiting = if waiting.is_empty() { "none".into() } else { waiting.join(", ") };
            return Err(format!(
                "delegation `{id}` has no open question, or is listed twice; delegations with an open question: \
                 {waiting}"
            ));
        }
        Ok(ids.filter_map(|id| parked.remove(id)).collect())
    }

    /// Drops the children that still wait for an answer, and lets no further ones wait.
    pub fn dismiss(&self) {
        // Dropped after the lock is released.
        let _children = std::mem::replace(&mut *self.parked(), ParkedChildren::Dismissed);
    }

    fn parked(&self) -> MutexGuard<'_, ParkedChildren> {
        // No code panics in the middle of a change.
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
