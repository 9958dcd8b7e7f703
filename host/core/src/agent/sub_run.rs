//! The work of a team member, or of an agent that is called as a tool, for its parent run: as many runs as it needs.

use std::sync::Arc;

use tokio::{sync::Semaphore, time::Instant};

use super::{
    AgentGroup, RunAnswer, Runner,
    completion::in_time,
    concurrency_permit::ConcurrencyPermit,
    delegate::{DelegationReport, RunState},
    journal::{DelegationId, DelegationState, JournalRecord, RecordedRun, RunJournal, SideChatRef},
    run_tasks::RunTasks,
    runner::{RunOrigin, RunParams},
};
use crate::{
    capability::{AllocationBounds, Budget, BudgetAllocation, Ceiling, RestoredAllocation},
    chat::{Chat, Message},
    error::Fault,
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
    pub tasks: RunTasks,
    pub log: Option<RunJournal>,
}

impl From<&RunState> for ParentRun {
    fn from(me: &RunState) -> Self {
        Self {
            cx: me.cx.clone(),
            agent_group: me.agent_group.clone(),
            ceiling: me.ceiling.clone(),
            tasks: me.tasks.clone(),
            log: me.log.clone(),
        }
    }
}

/// Work that a runner does for a parent run, with its retries.
pub(super) struct SubRun {
    pub parent_run: ParentRun,
    /// The id of the tool call, or `step-N` for the members of step N of a team.
    pub call: String,
    /// The position among the sub-runs of that call or step, from 0; with `call` it is unique in the parent run.
    pub task: usize,
    pub runner: Arc<dyn Runner>,
    /// The name by which the parent run refers to this agent.
    pub name: Arc<str>,
    /// The instance name of this agent.
    pub instance: Arc<str>,
    pub depth: u32,
    /// The conversation to work in; `None`: a new one that no later run continues.
    pub chat: Option<Chat>,
    /// The relation of this chat to the parent's chat; `None` if it is the parent's chat or a new one.
    pub beside: Option<SideChatRef>,
    /// The messages that are new to this agent.
    pub input: Vec<Message>,
    /// Tools that it has in addition to its own.
    pub tools: ToolBox,
    /// The instructions for all members of its team; empty outside a team.
    pub team_instructions: Arc<str>,
    /// The number of failures that are followed by another attempt.
    pub retries: u32,
    /// A semaphore from which it takes a permit, in addition to that of the group.
    pub places: Option<Arc<Semaphore>>,
    /// The budget allocation of this work.
    pub share: BudgetAllocation,
    /// The state from before the parent run was interrupted.
    pub past: DelegationState,
}

impl SubRun {
    /// Works until there is an answer, or until the retries are used up.
    pub async fn done(mut self) -> Result<RunAnswer, Fault> {
        let mut input = std::mem::take(&mut self.input);
        let mut attempt = 0;
        let done = loop {
            let before = self.before(attempt as usize);
            let done = self.attempt(std::mem::take(&mut input), before).await;
            match done {
                // An exhausted budget or bound stays exhausted at the next attempt.
                Err(fault) if attempt < self.retries && !matches!(fault, Fault::Exhausted { .. }) => attempt += 1,
                done => break done,
            }
        };
        let Self { parent_run, call, task, name, share, past, .. } = self;
        let account = share.settle();
        if past.returned.is_none()
            && let Some(log) = parent_run.log
        {
            let error = done.as_ref().err().map(ToString::to_string);
            let entry = DelegationReport { error, ..DelegationReport::of(&name) };
            log.write(&JournalRecord::Returned { call, task, entry, account, board: None });
        }
        done
    }

    /// Returns the recorded run of this attempt from before the parent run was interrupted.
    fn before(&self, attempt: usize) -> Option<(u64, Box<RecordedRun>)> {
        let run = *self.past.runs.get(attempt)?;
        self.parent_run.log.as_ref()?.journal.run(run).map(|past| (run, past))
    }

    async fn attempt(&self, input: Vec<Message>, before: Option<(u64, Box<RecordedRun>)>) -> Result<RunAnswer, Fault> {
        let ParentRun { cx, agent_group, ceiling, tasks, log: parent_journal } = &self.parent_run;
        if let Some((_, past)) = &before
            && past.ended.is_some()
        {
            return came_to(past);
        }
        let budget_account = self.share.budget_account();
        let Budget { tokens, usd, tool_calls, time } = self.runner.budget().meet(&budget_account.left());
        let (elapsed, spent) = before.as_ref().map(|(_, past)| (past.elapsed, past.spent)).unwrap_or_default();
        let start = Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now);
        let allocated = RestoredAllocation { bounds: AllocationBounds { tokens, usd, tool_calls }, time, start, spent };
        let own = budget_account.restore_allocations(&[allocated]).pop().expect("one share was asked for");
        let chat = self.conversation(before.as_ref().map(|(_, past)| &**past))?;
        let log = parent_journal.as_ref().map(|log| match &before {
            Some((run, _)) => RunJournal::of(&log.journal, *run),
            None => RunJournal::beside(&log.journal, &chat, self.beside.clone()),
        });
        let (waiting, past) = match before {
            Some((_, mut past)) => (std::mem::take(&mut past.inbox), Some(past)),
            None => (Vec::new(), None),
        };
        let instance = Arc::clone(&self.instance);
        let places =
            self.places.iter().chain(agent_group.iter().map(|agent_group| agent_group.places())).cloned().collect();
        let place =
            in_time(own.budget_account(), ConcurrencyPermit::take(places)).await.map_err(|error| error.as_fault())?;
        let start = Box::new(RunParams {
            handle: agent_group.as_ref().map(|agent_group| agent_group.enter(&instance, waiting)).unwrap_or_default(),
            cx: RunCx { agent: instance, depth: self.depth, ..cx.anew() },
            agent_group: agent_group.clone(),
            budget_account: Arc::clone(own.budget_account()),
            ceiling: ceiling.clone(),
            place,
            tasks: tasks.below(),
            run_origin: RunOrigin::Member(Arc::clone(&cx.agent)),
            more_tools: self.tools.clone(),
            team_instructions: Arc::clone(&self.team_instructions),
            errand: parent_journal.as_ref().map(|log| DelegationId {
                run: log.run,
                call: self.call.clone(),
                task: self.task,
            }),
            log,
            past,
        });
        let answer = self.runner.work(start, &chat, input).await;
        let _ = own.settle();
        // The same words as those read back from the journal.
        answer.map_err(|error| error.as_fault().saying(error.in_full()))
    }

    /// Returns the conversation for this attempt.
    fn conversation(&self, past: Option<&RecordedRun>) -> Result<Chat, Fault> {
        let log = self.parent_run.log.as_ref();
        let chat = match (&self.chat, past, log) {
            (Some(chat), ..) => chat.clone(),
            (None, Some(past), Some(log)) => {
                log.journal.chat(past).map_err(|error| Fault::other(format!("what it did is lost: {error}")))?
            }
            (None, _, Some(_)) => Chat::recorded(),
            (None, ..) => Chat::new(),
        };
        if past.is_none() {
            // An earlier run may have been cut off in the middle of its calls, and nobody continues it.
            chat.reopen().abandon("the run that made it was cut off");
        }
        Ok(chat)
    }
}

/// Returns the result of a run that had ended before its parent run was interrupted.
pub(super) fn came_to(past: &RecordedRun) -> Result<RunAnswer, Fault> {
    let (ended, account) = past.ended.clone().ok_or_else(|| Fault::other("it has not ended"))?;
    ended.into_answer(account).map_err(|((message, exhausted), _)| match exhausted {
        true => Fault::Exhausted { message },
        false => Fault::other(message),
    })
}
