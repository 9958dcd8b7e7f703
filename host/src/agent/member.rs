//! The work of the members of a team in one step, side by side.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Answer, Runner,
    delegate::Instance,
    journal::{BesideId, Chosen, ErrandId, ErrandPast},
    stint::{Employer, Stint},
};
use crate::{
    capability::{Bounds, Carved, Share},
    chat::{Chat, Message},
    error::Fault,
    tool::ToolBox,
};

/// A member that is to work.
pub(crate) struct Job {
    pub runner: Arc<dyn Runner>,
    /// Its name in the team.
    pub member: Arc<str>,
    /// In which conversation.
    pub chat: Chat,
    /// How that goes with the one that the team shares; none: it is that one.
    pub beside: Option<BesideId>,
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
pub(crate) struct Shares(Vec<(Share, ErrandPast)>);

impl Shares {
    /// An equal share for each of these many.
    pub fn new(me: &Instance, count: usize) -> Self {
        let shares = me.purse.share_out(count);
        Self(shares.into_iter().map(|share| (share, ErrandPast::default())).collect())
    }

    /// Those of a step that had begun when the team was interrupted.
    pub fn of_the_past(me: &Instance, step: u32, chosen: &[Chosen]) -> Self {
        let past = |task| {
            let log = me.log.as_ref()?;
            log.journal.errand(&ErrandId { run: log.run, call: call_of(step), task })
        };
        let pasts: Vec<_> = (0..chosen.len()).map(|at| past(at).unwrap_or_default()).collect();
        let carved = chosen.iter().zip(&pasts).map(|(chosen, past)| Carved {
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
    pub fn bounds(&self) -> impl Iterator<Item = Bounds> {
        self.0.iter().map(|(share, _)| share.bounds())
    }

    /// Whether this one has begun its work before the team was interrupted: then it has heard what it hears.
    pub fn has_begun(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|(_, past)| !past.runs.is_empty())
    }
}

/// What a member's work came to; the failure, where it was stopped because of another one's.
pub(crate) type Done = Result<Answer, Failed>;

/// Why a member has no reply.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Another one has failed.
    Stopped,
    /// It has failed itself.
    Of(Fault),
}

/// Sets members to work side by side. What each came to comes in the order of the jobs; `stop` ends them all.
pub(crate) fn begin(
    me: &Arc<Instance>,
    step: u32,
    jobs: Vec<Job>,
    Shares(shares): Shares,
    stop: &CancellationToken,
) -> Vec<AbortOnDropHandle<Done>> {
    let jobs = jobs.into_iter().zip(shares).enumerate();
    let spawn = |(at, (job, (share, past))): (usize, (Job, (Share, ErrandPast)))| {
        let Job { runner, member, chat, beside, input, tools, instructions, retries } = job;
        let instance = me.member(&member);
        let may_work = me.crew.as_ref().map_or(Ok(()), |crew| crew.begin_member(&instance));
        let work = Stint {
            employer: Employer::from(&**me),
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
            may_work.map_err(|error| Failed::Of(Fault::Exhausted { message: error.to_string() }))?;
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(Failed::Stopped),
                done = work.done() => done.map_err(Failed::Of),
            }
        })
    };
    jobs.map(spawn).collect()
}
