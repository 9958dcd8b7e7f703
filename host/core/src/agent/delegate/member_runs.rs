//! The runs of the team members in one step, side by side.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    sub_run::ParentRun,
    sub_run_attempts::{SubRunAttempts, SubRunCause},
};
use crate::{
    agent::{
        context::{RunState, Runner},
        journal::{ChosenMember, DelegationKey, DelegationState, SideChatRef},
        outcome::RunAnswer,
    },
    capability::{AllocationBounds, BudgetAllocation, RestoredAllocation},
    chat::{Chat, Message},
    error::Fault,
    tool::ToolBox,
};

/// The work of one member.
pub(crate) struct MemberRun {
    pub runner: Arc<dyn Runner>,
    /// Its name in the team.
    pub member: Arc<str>,
    /// The conversation to work in.
    pub chat: Chat,
    /// The relation of this chat to the team's; `None` if it is the team's chat.
    pub side_chat: Option<SideChatRef>,
    /// The messages that are new to this member.
    pub input: Vec<Message>,
    /// Tools that it has in addition to its own.
    pub tools: ToolBox,
    /// The instructions for all members of the team.
    pub instructions: Arc<str>,
    /// The number of failures that are followed by another attempt.
    pub retries: u32,
}

/// The budget allocations for the members of a step, with the state of their work from before the team was interrupted.
pub(crate) struct MemberAllocations(Vec<(BudgetAllocation, DelegationState)>);

impl MemberAllocations {
    /// Allocates an equal share for each of `count` members.
    pub fn new(me: &RunState, count: usize) -> Self {
        let shares = me.budget_account.share_out(count);
        Self(shares.into_iter().map(|share| (share, DelegationState::default())).collect())
    }

    /// Restores the allocations of a step that had begun when the team was interrupted.
    pub fn of_recorded(me: &RunState, step: u32, chosen: &[ChosenMember]) -> Self {
        let past_state = |position| {
            let log = me.log.as_ref()?;
            log.journal.take_delegation(&log.delegation_key(&DelegationKey::call_of_step(step), position))
        };
        let states: Vec<_> = (0..chosen.len()).map(|at| past_state(at).unwrap_or_default()).collect();
        let allocated = chosen.iter().zip(&states).map(|(chosen, past_state)| {
            // The cost of returned work is counted already, and its share is the others' again.
            let (bounds, spent) = match past_state.returned {
                Some(_) => (AllocationBounds::NOTHING, Default::default()),
                None => (chosen.bounds, past_state.spent),
            };
            RestoredAllocation { bounds, time: None, start: Instant::now(), spent }
        });
        let shares = me.budget_account.restore_allocations(&allocated.collect::<Vec<_>>());
        Self(shares.into_iter().zip(states).collect())
    }

    /// Returns the bounds of each allocation.
    pub fn bounds(&self) -> impl Iterator<Item = AllocationBounds> {
        self.0.iter().map(|(share, _)| share.bounds())
    }

    /// Returns `true` if this member had its input before the team was interrupted.
    pub fn has_input(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|(_, past_state)| past_state.has_input)
    }
}

/// The result of a member's work.
pub(crate) type MemberResult = Result<RunAnswer, MemberFailure>;

/// The reason why a member has no reply.
#[derive(Debug)]
pub(crate) enum MemberFailure {
    /// Another member has failed.
    Stopped,
    /// The member itself has failed.
    Of(Fault),
}

/// Starts the members side by side. The handles are in the order of `jobs`; `stop` ends them all.
pub(crate) fn begin_members(
    me: &Arc<RunState>,
    step: u32,
    jobs: Vec<MemberRun>,
    MemberAllocations(shares): MemberAllocations,
    stop: &CancellationToken,
) -> Vec<AbortOnDropHandle<MemberResult>> {
    let jobs = jobs.into_iter().zip(shares).enumerate();
    let spawn = |(at, (job, (share, past_state))): (usize, (MemberRun, (BudgetAllocation, DelegationState)))| {
        let MemberRun { runner, member, chat, side_chat, input, tools, instructions, retries } = job;
        let instance = me.member(&member);
        let may_work = me.agent_group.as_ref().map_or(Ok(()), |agent_group| agent_group.begin_member(&instance));
        let work = SubRunAttempts {
            parent_run: ParentRun::from(&**me),
            cause: SubRunCause::Step(step),
            position: at,
            // The bound of an agent holds across all runs that started it.
            permits: me.agent_group.as_ref().and_then(|agent_group| agent_group.registry.permits(runner.name())),
            runner,
            instance,
            name: member,
            depth: me.cx.depth,
            chat: Some(chat),
            side_chat,
            input,
            tools,
            team_instructions: instructions,
            retries,
            share,
            past_state,
        };
        let stop = stop.clone();
        me.spawned.spawn(async move {
            may_work.map_err(|error| MemberFailure::Of(Fault::Exhausted { message: error.to_string() }))?;
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(MemberFailure::Stopped),
                done = work.execute() => done.map_err(MemberFailure::Of),
            }
        })
    };
    jobs.map(spawn).collect()
}
