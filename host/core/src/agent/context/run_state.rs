use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    AgentGroup, AgentRunOptions, AllocatedCalls, CallerContext, DelegatedChildren, InteractionMode, RunParams,
};
use crate::{
    agent::{
        journal::{JournalPosition, JournalRecord, RemoteTaskRecord},
        outcome::RunError,
    },
    capability::{Ceiling, Usd},
    chat::Usage,
    event::{RunCaller, RunCallerState, RunCx},
    limits,
};

/// The state of one run, shared with its tools. Dereferences to the parameters with which the run was started.
pub(crate) struct RunState {
    /// The agent's name in the registry.
    pub agent: Arc<str>,
    pub options: AgentRunOptions,
    params: RunParams,
    /// The agent for its tools; `None` for a team.
    pub caller: Option<CallerContext>,
    /// The tasks that it has delegated.
    pub children: DelegatedChildren,
    /// The calls of the last reply that run agents and have a share of the budget.
    pub allocated_calls: AllocatedCalls,
    /// Serializes the completions that its tools request: each may cost all that is left of the budget.
    pub sampling: tokio::sync::Mutex<()>,
    /// The usage of completions that its tools requested, since it was last taken.
    by_tools: Mutex<Usage>,
    /// The tasks that it gave to agents of other hosts before it was interrupted.
    remote_tasks: Mutex<Vec<RemoteTaskRecord>>,
    /// The tools that the model's vendor has refused; they are left out from then on.
    refused_tools: Mutex<Vec<String>>,
}

impl Deref for RunState {
    type Target = RunParams;

    fn deref(&self) -> &RunParams {
        &self.params
    }
}

impl RunCallerState for RunState {
    fn begin_wait(&self) {
        self.permit.begin_wait();
    }

    fn end_wait(&self) {
        self.permit.end_wait();
    }
}

impl RunState {
    /// Creates the state of a run of `agent`, which passes on no more than `delegable`.
    pub fn new(
        agent: &Arc<str>,
        options: &AgentRunOptions,
        delegable: &Ceiling,
        params: RunParams,
        caller: Option<CallerContext>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let mut params = params;
            params.ceiling = params.ceiling.meet(delegable);
            params.cx.caller = RunCaller::new(me.clone());
            Self {
                agent: Arc::clone(agent),
                options: options.clone(),
                params,
                caller,
                children: DelegatedChildren::default(),
                allocated_calls: AllocatedCalls::default(),
                sampling: tokio::sync::Mutex::default(),
                by_tools: Mutex::default(),
                remote_tasks: Mutex::default(),
                refused_tools: Mutex::default(),
            }
        })
    }

    /// Returns the run to which a tool's context belongs, with what the tool may use of the agent; `None` if no agent works
    /// in it, or none does any more.
    pub fn of_caller(cx: &RunCx) -> Option<Arc<Self>> {
        cx.caller.get::<Self>()
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

    /// Restores the tasks that it gave to agents of other hosts before it was interrupted.
    pub fn restore_remote_tasks(&self, tasks: Vec<RemoteTaskRecord>) {
        *self.remote_tasks.lock().unwrap_or_else(PoisonError::into_inner) = tasks;
    }

    /// Forgets the tasks that it gave to agents of other hosts before it was interrupted: it does not wait for their ends any
    /// more.
    pub fn forget_remote_tasks(&self) {
        self.restore_remote_tasks(Vec::new());
    }

    /// Returns the task that it gave after this message of its conversation, before it was interrupted.
    pub fn remote_task(&self, entry: u64) -> Option<RemoteTaskRecord> {
        let tasks = self.remote_tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().find(|task| task.entry == entry).cloned()
    }

    /// Counts what a task has cost that another host did, and records it: both or neither is seen after an interruption.
    pub fn end_remote_task(&self, given: RemoteTaskRecord) -> Option<JournalPosition> {
        let spent = given.spent.unwrap_or_default();
        let mut tasks = self.remote_tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = tasks.iter_mut().find(|there| there.message == given.message) {
            there.clone_from(&given);
        }
        drop(tasks);
        let mark = self.write(|| JournalRecord::GaveRemoteTask { given });
        self.budget_account.charge_child(spent);
        if let Some(agent_group) = &self.agent_group {
            agent_group.record(&self.cx.agent, spent.usage, spent.usd);
        }
        mark
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

    /// Counts what was spent on the delegations of a call before the run was interrupted, as far as nobody continues them.
    pub fn charge_abandoned(&self, call: &str) {
        if let (Some(log), Some(recorded)) = (&self.log, self.children.recorded_call(call)) {
            let keys = (0..recorded.tasks.len()).map(|position| log.delegation_key(call, position)).collect();
            self.budget_account.charge_child(log.journal.take_spent(keys));
        }
    }

    /// Returns the group, if this run may delegate.
    pub fn delegates_to(&self) -> Option<&Arc<AgentGroup>> {
        self.agent_group.as_ref().filter(|_| self.cx.depth < self.options.max_delegation_depth)
    }

    /// Returns `true` if reports carry delegation ids: its children may ask, and it answers by id.
    pub fn tells_ids(&self) -> bool {
        self.options.interaction != InteractionMode::Blocking
    }

    /// Drops the children that still wait for an answer, and waits until nothing works for this run and all spending is
    /// counted; at most [`limits::CANCEL_GRACE`].
    pub async fn dismiss(&self) {
        self.children.dismiss();
        let _ = tokio::time::timeout(limits::CANCEL_GRACE, self.spawned.gone()).await;
    }
}
