//! One run for a parent run: of a team member, of an agent that is called as a tool, or of an agent with a delegated task.

use std::sync::Arc;

use tokio::{sync::Semaphore, time::Instant};

use crate::{
    agent::{
        context::{AgentGroup, ConcurrencyPermit, RunOrigin, RunParams, RunState, RunTasks, Runner},
        journal::{DelegationKey, RecordedFailure, RecordedRun, RunJournal, SideChatRef},
        outcome::{RunAnswer, RunError},
    },
    capability::{AllocationBounds, Budget, BudgetAccount, BudgetAllocation, BudgetUsage, Ceiling, RestoredAllocation},
    chat::{Chat, ChatEditError, Message},
    event::RunCx,
    tool::ToolBox,
};

/// The part of a run that its sub-runs need. It does not keep the parent run alive: when the parent is dropped, its
/// sub-runs are cancelled.
#[derive(Clone)]
pub(super) struct ParentRun {
    pub cx: RunCx,
    pub agent_group: Option<Arc<AgentGroup>>,
    pub ceiling: Ceiling,
    pub spawned: RunTasks,
    pub log: Option<RunJournal>,
}

impl From<&RunState> for ParentRun {
    fn from(me: &RunState) -> Self {
        Self {
            cx: me.cx.clone(),
            agent_group: me.agent_group.clone(),
            ceiling: me.ceiling.clone(),
            spawned: me.spawned.clone(),
            log: me.log.clone(),
        }
    }
}

impl ParentRun {
    /// Returns the recorded run that was the `at`th of these from before the parent run was interrupted.
    pub fn past_run(&self, runs: &[u64], at: usize) -> Option<(u64, Box<RecordedRun>)> {
        let run = *runs.get(at)?;
        self.log.as_ref()?.journal.take_run(run).map(|recorded| (run, recorded))
    }

    /// Returns what those of these runs have spent that had not ended before the parent run was interrupted, and that nobody
    /// has continued.
    pub fn spent_by_interrupted(&self, runs: &[u64]) -> BudgetUsage {
        let interrupted = (0..runs.len()).filter_map(|at| self.past_run(runs, at));
        let interrupted = interrupted.filter(|(_, recorded)| recorded.ended.is_none());
        interrupted.fold(BudgetUsage::default(), |mut sum, (run, recorded)| {
            sum += self.spent_by_abandoned(run, &recorded);
            sum
        })
    }

    /// Returns what a run that was taken from the journal and is not continued after all has spent, with those that worked for
    /// it.
    pub fn spent_by_abandoned(&self, run: u64, recorded: &RecordedRun) -> BudgetUsage {
        self.log.as_ref().map(|log| log.journal.spent_by_abandoned(run, recorded)).unwrap_or_default()
    }

    /// Takes the permits that a run for this parent needs: those of its agent, and one of the group.
    pub fn take_permit(&self, of_agent: Option<&Arc<Semaphore>>) -> impl Future<Output = ConcurrencyPermit> + use<> {
        let of_group = self.agent_group.iter().map(|agent_group| agent_group.permits());
        ConcurrencyPermit::take(of_agent.into_iter().chain(of_group).cloned().collect())
    }
}

/// The conversation of a sub-run.
pub(super) enum SubRunConversation {
    /// A new one that no later run continues.
    New,
    /// One that may have had earlier runs, and its relation to the parent's chat; `None` if it is the parent's.
    Shared(Chat, Option<SideChatRef>),
}

/// One run for a parent run.
pub(super) struct SubRun<'a> {
    pub parent_run: &'a ParentRun,
    pub runner: &'a dyn Runner,
    /// The instance name of the agent.
    pub instance: &'a Arc<str>,
    pub depth: u32,
    /// The upper bound on what the agents that it starts may do.
    pub ceiling: &'a Ceiling,
    pub run_origin: RunOrigin,
    pub delegation_key: Option<DelegationKey>,
    pub conversation: SubRunConversation,
    /// Tools that it has in addition to its own.
    pub tools: ToolBox,
    /// The instructions for all members of its team; empty outside a team.
    pub team_instructions: Arc<str>,
    /// The run and its state from before the parent run was interrupted.
    pub recorded: Option<(u64, Box<RecordedRun>)>,
}

/// The reason why a sub-run has no answer.
pub(super) enum SubRunFailure {
    /// The recorded changes make no valid conversation.
    Lost(ChatEditError),
    Run(RunError),
}

impl SubRun<'_> {
    /// Allocates all that is left of the share, within the agent's own budget. The share belongs to the piece of work, which may
    /// have several runs, one after the other; this allocation belongs to one of them, and gives back what the run does not spend.
    pub fn allocate(&self, share: &Arc<BudgetAccount>) -> BudgetAllocation {
        let Budget { tokens, usd, tool_calls, time } = self.runner.budget().meet(&share.left());
        let recorded = self.recorded.as_ref().map(|(_, recorded)| (recorded.elapsed, recorded.spent));
        let (elapsed, spent) = recorded.unwrap_or_default();
        let start = Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now);
        let allocated = RestoredAllocation { bounds: AllocationBounds { tokens, usd, tool_calls }, time, start, spent };
        share.restore_allocations(&[allocated]).pop().expect("one share was asked for")
    }

    /// Runs the agent from its first record to its last. Gives back what is left of the allocation when it has ended.
    pub fn execute(
        self,
        own: BudgetAllocation,
        permit: ConcurrencyPermit,
        input: Vec<Message>,
    ) -> impl Future<Output = Result<RunAnswer, SubRunFailure>> + Send {
        // Prepared outside of the future, which every working agent pays for.
        let (runner, prepared) = (self.runner, self.prepare_sub_run(&own, permit));
        async move {
            let (params, chat) = prepared.map_err(SubRunFailure::Lost)?;
            let answer = runner.work(params, &chat, input).await;
            let _ = own.settle();
            answer.map_err(SubRunFailure::Run)
        }
    }

    /// Returns the parameters of the run, with its conversation.
    fn prepare_sub_run(
        self,
        own: &BudgetAllocation,
        permit: ConcurrencyPermit,
    ) -> Result<(Box<RunParams>, Chat), ChatEditError> {
        let ParentRun { cx, agent_group, spawned, log: parent_journal, .. } = self.parent_run;
        let recorded_run = self.recorded.as_ref().map(|(_, recorded)| &**recorded);
        let (chat, is_shared, side_chat) = match (self.conversation, recorded_run, parent_journal) {
            (SubRunConversation::Shared(chat, side_chat), ..) => (chat, true, side_chat),
            (SubRunConversation::New, Some(recorded), Some(log)) => (log.journal.chat(recorded)?, false, None),
            (SubRunConversation::New, _, Some(_)) => (Chat::recorded(), false, None),
            (SubRunConversation::New, ..) => (Chat::new(), false, None),
        };
        if is_shared && recorded_run.is_none() {
            // An earlier run may have been cut off in the middle of its calls, and nobody continues it.
            chat.reopen().abandon("the run with this call was cut off");
        }
        let log = parent_journal.as_ref().map(|log| match &self.recorded {
            Some((run, _)) => RunJournal::of(&log.journal, *run),
            None if is_shared => RunJournal::in_shared_chat(&log.journal, &chat, side_chat),
            None => RunJournal::below(&log.journal),
        });
        let (waiting, recorded) = match self.recorded {
            Some((_, mut recorded)) => (std::mem::take(&mut recorded.inbox), Some(recorded)),
            None => (Vec::new(), None),
        };
        let join = |agent_group: &Arc<AgentGroup>| agent_group.join(self.instance, waiting);
        let params = RunParams {
            cx: RunCx { agent: Arc::clone(self.instance), depth: self.depth, ..cx.of_new_run() },
            agent_group: agent_group.clone(),
            budget_account: Arc::clone(own.budget_account()),
            ceiling: self.ceiling.clone(),
            handle: agent_group.as_ref().map(join).unwrap_or_default(),
            permit,
            spawned: spawned.below(),
            run_origin: self.run_origin,
            more_tools: self.tools,
            team_instructions: self.team_instructions,
            log,
            delegation_key: self.delegation_key,
            recorded,
        };
        Ok((Box::new(params), chat))
    }
}

/// Takes the result of a run that had ended before its parent run was interrupted; `None` if it had not.
pub(super) fn take_recorded_answer(recorded: &mut RecordedRun) -> Option<Result<RunAnswer, RecordedFailure>> {
    recorded.ended.take().map(|(ended, account)| ended.into_answer(account))
}
