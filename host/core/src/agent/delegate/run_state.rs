use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    delegate_tools::DelegateCall,
    delegation::{DelegateQuestion, Delegation, DelegationRequest, QuestionRoute, instance_name},
    delegation_report::{DelegationReport, PendingQuestion},
};
use crate::{
    agent::{
        AgentGroup, AgentRunOptions, InteractionMode, RunError,
        agent_group::AgentHandle,
        concurrency_permit::ConcurrencyPermit,
        journal::{
            DelegatedTask, DelegationState, JournalPosition, JournalRecord, RecordedDelegateCall, RecordedQuestion,
            RecordedToolCall, RunJournal,
        },
        run_tasks::RunTasks,
        runner::{RunOrigin, RunParams},
    },
    capability::{BudgetAccount, BudgetAllocation, Ceiling, RestoredAllocation, Usd},
    chat::{ToolCall, Usage},
    event::RunCx,
    limits,
    tool::{ToolBox, current_call},
};

/// The state of one run, shared with its tools.
pub struct RunState {
    /// The agent's name in the registry.
    pub agent: Arc<str>,
    pub options: AgentRunOptions,
    pub cx: RunCx,
    pub agent_group: Option<Arc<AgentGroup>>,
    pub budget_account: Arc<BudgetAccount>,
    /// The upper bound on what the agents that this run starts may do.
    pub ceiling: Ceiling,
    pub handle: AgentHandle,
    pub place: ConcurrencyPermit,
    pub run_origin: RunOrigin,
    /// Tools that it has in this run in addition to its own.
    pub more_tools: ToolBox,
    /// The instructions for all members of the team in which it works.
    pub team_instructions: Arc<str>,
    pub tasks: RunTasks,
    /// The journal of the run, if there is one.
    pub log: Option<RunJournal>,
    /// The children that wait for an answer, by the id of their delegation; `None` when the run is over.
    parked: Mutex<Option<HashMap<String, ParkedDelegation>>>,
    /// The number of tasks that it has delegated; the id of the newest contains it.
    delegations: AtomicU32,
    /// The tasks that it had delegated when it was interrupted, by the id of the call; unset if it never was.
    before: OnceLock<HashMap<String, RecordedDelegateCall>>,
    /// The usage of completions that its tools requested, since it was last taken.
    by_tools: Mutex<Usage>,
    /// The tools that the model's vendor has refused; they are left out from then on.
    refused_tools: Mutex<Vec<String>>,
}

/// A task that an agent works on. Dropping it stops the agent.
struct ChildDelegation {
    /// The id of the delegation.
    id: String,
    agent: String,
    /// The number of questions that the agent has asked.
    questions_put: usize,
    work: AbortOnDropHandle<DelegationReport>,
    /// The questions of the agent; `None` if it may not ask.
    questions: Option<mpsc::Receiver<DelegateQuestion>>,
    /// Stops all tasks of its call, if they are to fail together.
    stop: Option<CancellationToken>,
    /// The id of the call, and the position of the task in it.
    of: (String, usize),
    /// The answer to a question that the agent asked before it was interrupted. It asks again if it did not receive the
    /// answer.
    owed: Option<UndeliveredAnswer>,
}

/// A task of a call that is about to start, with its state from before the run was interrupted.
struct PendingDelegation {
    at: usize,
    order: DelegationRequest,
    /// The id of the delegation.
    id: String,
    /// The instance name of the agent that works on it first.
    instance: Arc<str>,
    past: DelegationState,
}

/// A child that waited for an answer when the run was interrupted.
struct InterruptedQuestion {
    id: String,
    question: String,
    /// The number of questions that it had asked before that one.
    earlier: usize,
}

struct UndeliveredAnswer {
    question: String,
    answer: String,
}

/// A child that waits for an answer.
struct ParkedDelegation {
    child: ChildDelegation,
    question: ParkedQuestion,
}

enum ParkedQuestion {
    /// The child has asked.
    Open(DelegateQuestion),
    /// The child had asked this before it was interrupted, and asks again.
    Before(String),
}

/// The next event of a child.
enum ChildProgress {
    Done(DelegationReport),
    Asked(ChildDelegation, DelegateQuestion),
}

impl ChildDelegation {
    async fn next(mut self) -> ChildProgress {
        loop {
            let asked = open_question(self.questions.as_mut());
            tokio::select! {
                biased;
                Some(asked) = asked => match self.owed.take() {
                    Some(owed) if owed.question == asked.call => {
                        let _ = asked.answer.send(owed.answer);
                    }
                    _ => return ChildProgress::Asked(self, asked),
                },
                entry = &mut self.work => {
                    return ChildProgress::Done(entry.unwrap_or_else(|_| DelegationReport::failed(&self.agent, "the agent crashed")));
                }
            }
        }
    }
}

/// Returns the next question that still waits. An agent whose question timed out goes on without the answer.
async fn open_question(questions: Option<&mut mpsc::Receiver<DelegateQuestion>>) -> Option<DelegateQuestion> {
    let questions = questions?;
    loop {
        let asked = questions.recv().await?;
        if !asked.answer.is_closed() {
            return Some(asked);
        }
    }
}

impl RunState {
    /// Creates the state of a run of `agent`, which passes on no more than `delegable`.
    pub fn new(agent: &Arc<str>, options: &AgentRunOptions, delegable: &Ceiling, start: RunParams) -> Self {
        let (parked, delegations) = (Mutex::new(Some(HashMap::new())), AtomicU32::new(0));
        let RunParams {
            cx,
            agent_group,
            budget_account,
            ceiling,
            handle,
            place,
            tasks,
            run_origin,
            more_tools,
            team_instructions,
            log,
            ..
        } = start;
        let ceiling = ceiling.meet(delegable);
        let before = OnceLock::new();
        Self {
            agent: Arc::clone(agent),
            options: options.clone(),
            cx,
            agent_group,
            budget_account,
            ceiling,
            handle,
            place,
            tasks,
            run_origin,
            more_tools,
            team_instructions,
            log,
            parked,
            delegations,
            before,
            by_tools: Mutex::default(),
            refused_tools: Mutex::default(),
        }
    }

    /// Returns the instance name of a member of this team.
    pub fn member(&self, name: &str) -> Arc<str> {
        format!("{}/{name}", self.cx.agent).into()
    }

    /// Returns the tools that the model's vendor has refused so far.
    pub fn refused_tools(&self) -> Vec<String> {
        self.refused_tools.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leaves a tool out from now on. Returns `false` if [`limits::REFUSED_TOOLS`] were left out before.
    pub fn leave_out_tool(&self, name: &str) -> bool {
        let mut refused = self.refused_tools.lock().unwrap_or_else(PoisonError::into_inner);
        let is_room = refused.len() < limits::REFUSED_TOOLS;
        if is_room {
            refused.push(name.into());
        }
        is_room
    }

    /// Adds the usage of a completion that a tool requested.
    pub fn used_by_tools(&self, usage: Usage) {
        *self.by_tools.lock().unwrap_or_else(PoisonError::into_inner) += usage;
    }

    /// Takes the usage of completions that its tools requested since the last call.
    pub fn take_used_by_tools(&self) -> Usage {
        std::mem::take(&mut *self.by_tools.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a record, if there is a journal.
    pub fn write(&self, record: impl FnOnce() -> JournalRecord) -> Option<JournalPosition> {
        self.log.as_ref().map(|log| log.write(&record()))
    }

    /// Waits until all records up to this mark would survive a loss of power.
    pub async fn kept(&self, mark: Option<JournalPosition>) -> Result<(), RunError> {
        match self.log.as_ref().zip(mark) {
            Some((log, mark)) => log.journal.recorder().kept(mark).await.map_err(RunError::Unrecorded),
            None => Ok(()),
        }
    }

    /// Returns an error if the journal of the run can no longer be written.
    pub fn check_log(&self) -> Result<(), RunError> {
        let lost = self.log.as_ref().and_then(|log| log.journal.recorder().lost());
        lost.map_or(Ok(()), |lost| Err(RunError::Unrecorded(lost)))
    }

    /// Charges a completion to the budget and to the ledger.
    pub fn pay(&self, usage: &Usage, cost: Usd) {
        self.budget_account.charge(usage, cost);
        if let Some(agent_group) = &self.agent_group {
            agent_group.record(&self.cx.agent, *usage, cost);
        }
    }

    /// Returns the group, if this run may delegate.
    pub fn delegates_to(&self) -> Option<&Arc<AgentGroup>> {
        self.agent_group.as_ref().filter(|_| self.cx.depth < self.options.max_delegation_depth)
    }

    /// Returns the delegated task of this call, if the call began before the run was interrupted.
    pub fn given_before(&self, call: &str) -> Option<&DelegatedTask> {
        self.before.get()?.get(call)?.tasks.first()
    }

    /// Runs agents on these tasks, all at once. Returns a report for each task, in order, once all have ended or asked.
    /// Work that the call had begun before the run was interrupted continues.
    pub(super) async fn delegate(
        self: &Arc<Self>,
        agent_group: &Arc<AgentGroup>,
        delegation: DelegateCall,
    ) -> Vec<DelegationReport> {
        let call = current_call().map(|call| call.call).unwrap_or_default();
        let children = self.children(agent_group, &call, delegation, |_| true, CancellationToken::new());
        self.place.wait_for(self.gather(children)).await
    }

    /// Starts those tasks of a call that are `wanted`. `stop` ends them, if they are to fail together.
    fn children(
        self: &Arc<Self>,
        agent_group: &Arc<AgentGroup>,
        call: &str,
        DelegateCall { orders, fail_fast }: DelegateCall,
        wanted: impl Fn(usize) -> bool,
        stop: CancellationToken,
    ) -> Vec<ChildDelegation> {
        let before = self.before.get().and_then(|before| before.get(call));
        let given = |at: usize| before.and_then(|before| before.tasks.get(at));
        let past = |at: usize| {
            let log = self.log.as_ref().filter(|_| before.is_some())?;
            log.journal.errand(&log.errand(call, at))
        };
        let orders = orders.into_iter().enumerate().filter(|(at, _)| wanted(*at));
        let task = |(at, order): (usize, DelegationRequest)| PendingDelegation {
            id: given(at).and_then(|given| given.id.clone()).unwrap_or_else(|| self.next_delegation()),
            // Named here, so that the numbers follow the order of the tasks.
            instance: given(at)
                .map_or_else(|| instance_name(agent_group, &order.agent, &order.task), |given| given.instance.clone()),
            past: past(at).unwrap_or_default(),
            at,
            order,
        };
        let tasks: Vec<_> = orders.map(task).collect();
        // A returned task needs no share.
        let due = tasks.iter().filter(|task| task.past.returned.is_none());
        let shares = match before {
            None => self.budget_account.allocate(&due.map(|task| task.order.budget).collect::<Vec<_>>()),
            Some(_) => {
                let allocated = |task: &PendingDelegation| RestoredAllocation {
                    bounds: given(task.at).map(|given| given.bounds).unwrap_or_default(),
                    time: task.order.budget.time,
                    start: Instant::now(),
                    spent: task.past.spent,
                };
                self.budget_account.restore_allocations(&due.map(allocated).collect::<Vec<_>>())
            }
        };
        if before.is_none() {
            self.write(|| {
                let delegated = |(task, share): (&PendingDelegation, &BudgetAllocation)| DelegatedTask {
                    id: Some(task.id.clone()),
                    agent: task.order.agent.as_str().into(),
                    instance: task.instance.clone(),
                    bounds: share.bounds(),
                };
                JournalRecord::Delegated {
                    call: call.into(),
                    tasks: tasks.iter().zip(&shares).map(delegated).collect(),
                }
            });
        }
        let mut shares = shares.into_iter();
        let child = |task: PendingDelegation| {
            let of = (call.to_owned(), task.at);
            let (id, agent) = (task.id.clone(), task.order.agent.clone());
            let (work, questions) = match task.past.returned {
                Some((entry, board)) => {
                    agent_group.settle(board);
                    (self.tasks.spawn(async { entry }), None)
                }
                None => {
                    let share = shares.next().expect("one was carved for each that has not returned");
                    let (errand, questions) = self.errand(agent_group, call, task, share, stop.clone());
                    (self.tasks.spawn(errand.run()), questions)
                }
            };
            let stop = fail_fast.then(|| stop.clone());
            ChildDelegation { id, agent, questions_put: 0, work, questions, stop, of, owed: None }
        };
        tasks.into_iter().map(child).collect()
    }

    /// Returns a task that is ready to run, and the receiver of its questions if it may ask.
    fn errand(
        &self,
        agent_group: &Arc<AgentGroup>,
        call: &str,
        PendingDelegation { at, order, instance, past, .. }: PendingDelegation,
        share: BudgetAllocation,
        stop: CancellationToken,
    ) -> (Box<Delegation>, Option<mpsc::Receiver<DelegateQuestion>>) {
        let (sender, questions) = order.asks.then(|| mpsc::channel(1)).unzip();
        let errand = Delegation {
            agent_group: Arc::clone(agent_group),
            by: Arc::clone(&self.agent),
            cx: self.cx.clone(),
            hand_overs: match self.options.max_handoffs {
                0 => limits::HAND_OVERS,
                most => most,
            },
            instance,
            order,
            share,
            ceiling: self.ceiling.clone(),
            asker: sender.map_or(QuestionRoute::Context, QuestionRoute::Parent),
            question_time: self.options.question_timeout,
            stop,
            tasks: self.tasks.clone(),
            log: self.log.as_ref().map(|log| (log.clone(), log.errand(call, at))),
            before: past.runs,
        };
        (Box::new(errand), questions)
    }

    /// Restores the delegations of an interrupted run. `calls` is the recorded state of the calls of its last reply: those
    /// without a result are repeated, and restore their children themselves.
    pub fn restore_delegations(
        self: &Arc<Self>,
        parked: BTreeMap<String, Vec<RecordedQuestion>>,
        delegated: HashMap<String, RecordedDelegateCall>,
        calls: &HashMap<String, Box<RecordedToolCall>>,
        open: &[ToolCall],
    ) {
        let number = |id: &String| id.strip_prefix("d-").and_then(|number| number.parse().ok());
        let tasks = delegated.values().flat_map(|delegated| &delegated.tasks);
        let ids = tasks.filter_map(|task| task.id.as_ref()).chain(parked.keys());
        self.delegations.store(ids.filter_map(number).max().unwrap_or(0), Ordering::Relaxed);
        let is_open = |call: &str| {
            open.iter().any(|open| open.id == call) && calls.get(call).is_none_or(|call| call.ended.is_none())
        };
        let waits =
            |parking: &RecordedQuestion| !is_open(&parking.call) && parking.answered_by.as_deref().is_none_or(is_open);
        // Grouped by call, since the tasks of one call may fail together, and then by task.
        let mut waiting: BTreeMap<String, BTreeMap<usize, InterruptedQuestion>> = BTreeMap::new();
        let mut parked: Vec<_> = parked.into_iter().collect();
        parked.sort_by_key(|(id, _)| number(id));
        for (id, questions) in parked {
            // A child that was answered, and asked again before the answering call had its result, waits with its first
            // question: that call is repeated, and then reaches the second question.
            let Some((earlier, parking)) = questions.into_iter().enumerate().find(|(_, parking)| waits(parking)) else {
                continue;
            };
            let tasks = waiting.entry(parking.call).or_default();
            tasks.entry(parking.task).or_insert(InterruptedQuestion { id, question: parking.question, earlier });
        }
        let _ = self.before.set(delegated);
        let Some(agent_group) = self.delegates_to().filter(|_| !waiting.is_empty()) else { return };
        for (call, mut tasks) in waiting {
            let given = self.before.get().and_then(|before| before.get(&call));
            let Some(delegation) = given.and_then(|given| DelegateCall::read(self, &given.arguments)) else { continue };
            let (stop, log) = (CancellationToken::new(), self.log.as_ref());
            let has_failed = |at: &usize| log.is_some_and(|log| log.journal.has_failed(&log.errand(&call, *at)));
            if delegation.fail_fast
                && (0..delegation.orders.len()).filter(|at| !tasks.contains_key(at)).any(|at| has_failed(&at))
            {
                stop.cancel();
            }
            for child in self.children(agent_group, &call, delegation, |at| tasks.contains_key(&at), stop) {
                let waits = tasks.remove(&child.of.1);
                if let (Some(InterruptedQuestion { id, question, earlier }), Some(parked)) =
                    (waits, self.parked().as_mut())
                {
                    let child = ChildDelegation { id: id.clone(), questions_put: earlier + 1, ..child };
                    parked.insert(id, ParkedDelegation { child, question: ParkedQuestion::Before(question) });
                }
            }
        }
    }

    /// Answers questions of parked children. Returns their next reports; the other children keep waiting.
    pub(super) async fn answer(&self, answers: Vec<(String, String)>) -> Result<Vec<DelegationReport>, String> {
        let children = {
            let mut parked = self.parked();
            let Some(parked) = parked.as_mut() else { return Err("this run is over".into()) };
            let mut seen = std::collections::HashSet::new();
            if let Some((id, _)) = answers.iter().find(|(id, _)| !parked.contains_key(id) || !seen.insert(id.clone())) {
                let mut waiting: Vec<_> = parked.keys().map(String::as_str).collect();
                waiting.sort_unstable();
                let waiting = if waiting.is_empty() { "none".into() } else { waiting.join(", ") };
                return Err(format!(
                    "no question of a delegation `{id}` waits, or it is there twice; waiting: {waiting}"
                ));
            }
            let mut children = Vec::with_capacity(answers.len());
            let by = current_call().map(|call| call.call).unwrap_or_default();
            for (delegation, answer) in answers {
                let Some(ParkedDelegation { mut child, question }) = parked.remove(&delegation) else { continue };
                self.write(|| JournalRecord::Answered { delegation, by: by.clone(), answer: answer.clone() });
                let in_time = match question {
                    ParkedQuestion::Open(asked) => asked.answer.send(answer).is_ok(),
                    ParkedQuestion::Before(question) => {
                        child.owed = Some(UndeliveredAnswer { question, answer });
                        true
                    }
                };
                children.push((child, in_time));
            }
            children
        };
        let (children, in_time): (Vec<_>, Vec<_>) = children.into_iter().unzip();
        let mut entries = self.place.wait_for(self.gather(children)).await;
        for (entry, _) in entries.iter_mut().zip(in_time).filter(|(_, in_time)| !in_time) {
            entry.warn("its question had timed out: it went on without your answer".into());
        }
        Ok(entries)
    }

    async fn gather(&self, children: Vec<ChildDelegation>) -> Vec<DelegationReport> {
        let mut entries = Vec::with_capacity(children.len());
        let of_children: Vec<_> = children.iter().map(|child| (child.id.clone(), child.stop.clone())).collect();
        let mut working: FuturesUnordered<_> =
            children.into_iter().enumerate().map(async |(at, child)| (at, child.next().await)).collect();
        while let Some((at, next)) = working.next().await {
            let (id, stop) = &of_children[at];
            let entry = match next {
                ChildProgress::Done(entry) => {
                    DelegationReport { delegation_id: self.tells_ids().then(|| id.clone()), ..entry }
                }
                ChildProgress::Asked(child, asked) => self.park(child, asked),
            };
            if let Some(stop) = stop
                && entry.has_failed()
            {
                stop.cancel();
            }
            entries.push((at, entry));
        }
        entries.sort_unstable_by_key(|(at, _)| *at);
        entries.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Returns an id for one more delegation. Ids follow the order of the tasks.
    fn next_delegation(&self) -> String {
        format!("d-{}", self.delegations.fetch_add(1, Ordering::Relaxed).saturating_add(1))
    }

    /// Returns `true` if reports carry delegation ids: its children may ask, and it answers by id.
    fn tells_ids(&self) -> bool {
        self.options.interaction != InteractionMode::Blocking
    }

    fn park(&self, mut child: ChildDelegation, asked: DelegateQuestion) -> DelegationReport {
        let ((call, task), id) = (child.of.clone(), child.id.clone());
        let question_id = match child.questions_put {
            0 => id.replacen('d', "q", 1),
            earlier => format!("{}.{}", id.replacen('d', "q", 1), earlier + 1),
        };
        child.questions_put += 1;
        let question = PendingQuestion { id: question_id, agent: asked.by.clone(), content: asked.question.clone() };
        self.write(|| JournalRecord::Parked { call, task, delegation: id.clone(), question: asked.call.clone() });
        let entry = DelegationReport {
            delegation_id: Some(id.clone()),
            pending_question: Some(question),
            ..DelegationReport::of(&child.agent)
        };
        if let Some(parked) = self.parked().as_mut() {
            parked.insert(id, ParkedDelegation { child, question: ParkedQuestion::Open(asked) });
        }
        entry
    }

    /// Drops the children that still wait for an answer, and waits until nothing works for this run and all spending is
    /// counted; at most [`limits::CANCEL_GRACE`].
    pub async fn dismiss(&self) {
        drop(self.parked().take());
        let _ = tokio::time::timeout(limits::CANCEL_GRACE, self.tasks.gone()).await;
    }

    fn parked(&self) -> MutexGuard<'_, Option<HashMap<String, ParkedDelegation>>> {
        // No code panics in the middle of a change.
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
