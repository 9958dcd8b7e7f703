//! The work of the members of a team in one step, side by side.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    RunAnswer, Runner,
    delegate::RunState,
    journal::{ChosenMember, DelegationId, DelegationState, SideChatRef},
    sub_run::{ParentRun, SubRun},
};
use crate::{
    capability::{AllocationBounds, BudgetAllocation, RestoredAllocation},
    chat::{Chat, Message},
    error::Fault,
    tool::ToolBox,
};

/// A member that is to work.
pub(crate) struct MemberRun {
    pub runner: Arc<dyn Runner>,
    /// Its name in the team.
    pub member: Arc<str>,
    /// In which conversation.
    pub chat: Chat,
    /// How that goes with the one that the team shares; none: it is that one.
    pub beside: Option<SideChatRef>,
    /// What is new to it.
    pub input: Vec<Message>,
    /// Tools that it has beside its own.
    pub tools: ToolBox,
    /// What all members of the team are told.
    pub instructions: Arc<str>,
    /// How often it may fail before that counts.
    pub retries: u32,
}

/// What stands for a call in the name of a member's work.
fn call_of(step: u32) -> String {
    format!("step-{step}")
}

/// What may be spent on the members of a step, and what is known of their work from before the team was interrupted.
pub(crate) struct MemberAllocations(Vec<(BudgetAllocation, DelegationState)>);

impl MemberAllocations {
    /// An equal share for each of these many.
    pub fn new(me: &RunState, count: usize) -> Self {
        let shares = me.purse.share_out(count);
        Self(shares.into_iter().map(|share| (share, DelegationState::default())).collect())
    }

    /// Those of a step that had begun when the team was interrupted.
    pub fn of_the_past(me: &RunState, step: u32, chosen: &[ChosenMember]) -> Self {
        let past = |task| {
            let log = me.log.as_ref()?;
            log.journal.errand(&DelegationId { run: log.run, call: call_of(step), task })
        };
        let pasts: Vec<_> = (0..chosen.len()).map(|at| past(at).unwrap_or_default()).collect();
        let carved = chosen.iter().zip(&pasts).map(|(chosen, past)| RestoredAllocation {
            bounds: chosen.bounds,
            time: None,
            start: Instant::now(),
            // What has returned is counted already.
            spent: if past.returned.is_some() { Default::default() } else { past.spent },
        });
        let shares = me.purse.carve_exactly(&carved.collect::<Vec<_>>());
        Self(shares.into_iter().zip(pasts).collect())
    }

    /// How much each is.
    pub fn bounds(&self) -> impl Iterator<Item = AllocationBounds> {
        self.0.iter().map(|(share, _)| share.bounds())
    }

    /// Whether this one has begun its work before the team was interrupted: then it has heard what it hears.
    pub fn has_begun(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|(_, past)| !past.runs.is_empty())
    }
}

/// What a member's work came to; the failure, where it was stopped because of another one's.
pub(crate) type MemberResult = Result<RunAnswer, MemberFailure>;

/// Why a member has no reply.
#[derive(Debug)]
pub(crate) enum MemberFailure {
    /// Another one has failed.
    Stopped,
    /// It has failed itself.
    Of(Fault),
}

/// Sets members to work side by side. What each came to comes in the order of the jobs; `stop` ends them all.
pub(crate) fn begin(
    me: &Arc<RunState>,
    step: u32,
    jobs: Vec<MemberRun>,
    MemberAllocations(shares): MemberAllocations,
    stop: &CancellationToken,
) -> Vec<AbortOnDropHandle<MemberResult>> {
    let jobs = jobs.into_iter().zip(shares).enumerate();
    let spawn = |(at, (job, (share, past))): (usize, (MemberRun, (BudgetAllocation, DelegationState)))| {
        let MemberRun { runner, member, chat, beside, input, tools, instructions, retries } = job;
        let instance = me.member(&member);
        let may_work = me.crew.as_ref().map_or(Ok(()), |crew| crew.begin_member(&instance));
        let work = SubRun {
            employer: ParentRun::from(&**me),
            call: call_of(step),
            task: at,
            // As many of one agent work at once as may, whoever started them.
            places: me.crew.as_ref().and_then(|crew| crew.registry.places(runner.name())),
            runner,
            instance,
            name: member,
            depth: me.cx.depth,
            chat: Some(chat),
            beside,
            input,
            tools,
            team_instructions: instructions,
            retries,
            share,
            past,
        };
        let stop = stop.clone();
        me.tasks.spawn(async move {
            may_work.map_err(|error| MemberFailure::Of(Fault::Exhausted { message: error.to_string() }))?;
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(MemberFailure::Stopped),
                done = work.done() => done.map_err(MemberFailure::Of),
            }
        })
    };
    jobs.map(spawn).collect()
}
