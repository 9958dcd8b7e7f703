//! The work of one member of a team in one step: as many runs as it takes.

use std::sync::Arc;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    Answer, Runner,
    delegate::{Entry, Instance},
    journal::{BesideId, Chosen, ErrandId, ErrandPast, Log, Record, RunPast},
    place::Place,
    runner::{Start, WorksFor},
};
use crate::{
    capability::{Bounds, Budget, Carved, Share},
    chat::{Chat, Message},
    error::Fault,
    event::RunCx,
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
    /// How often it may fail before that counts.
    pub retries: u32,
}

/// The step in which members work, and which of them this is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub step: u32,
    pub at: usize,
}

impl Turn {
    fn errand(self, run: u64) -> ErrandId {
        ErrandId { run, call: format!("step-{}", self.step), task: self.at }
    }
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
        let past = |at| {
            let log = me.log.as_ref()?;
            log.journal.errand(&Turn { step, at }.errand(log.run))
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
        let work = Working {
            // Not the team's run itself: when that goes away, so does this.
            cx: me.cx.clone(),
            crew: me.crew.clone(),
            ceiling: me.ceiling.clone(),
            tasks: me.tasks.clone(),
            log: me.log.clone(),
            turn: Turn { step, at },
            job,
            share,
            past,
        };
        let stop = stop.clone();
        me.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(Failed::Stopped),
                done = work.done() => done.map_err(Failed::Of),
            }
        })
    };
    jobs.map(spawn).collect()
}

struct Working {
    cx: RunCx,
    crew: Option<Arc<super::Crew>>,
    ceiling: crate::capability::Ceiling,
    tasks: super::tasks::Tasks,
    log: Option<Log>,
    turn: Turn,
    job: Job,
    share: Share,
    past: ErrandPast,
}

impl Working {
    /// Has it work until it has an answer, or has failed once too often.
    async fn done(mut self) -> Result<Answer, Fault> {
        let mut input = std::mem::take(&mut self.job.input);
        let mut attempt = 0;
        let done = loop {
            let before = self.before(attempt as usize);
            let done = self.attempt(std::mem::take(&mut input), before).await;
            match done {
                // What is used up is so also the next time.
                Err(fault) if attempt < self.job.retries && !matches!(fault, Fault::Exhausted { .. }) => attempt += 1,
                done => break done,
            }
        };
        let Self { log, turn, job, share, past, .. } = self;
        let account = share.settle();
        if past.returned.is_none()
            && let Some(log) = log
        {
            let ErrandId { call, task, .. } = turn.errand(log.run);
            let error = done.as_ref().err().map(ToString::to_string);
            let entry = Entry { error, ..Entry::of(&job.member) };
            log.write(&Record::Returned { call, task, entry, account, board: None });
        }
        done
    }

    /// The run that was this attempt before the team was interrupted.
    fn before(&self, attempt: usize) -> Option<(u64, Box<RunPast>)> {
        let run = *self.past.runs.get(attempt)?;
        self.log.as_ref()?.journal.run(run).map(|past| (run, past))
    }

    async fn attempt(&self, input: Vec<Message>, before: Option<(u64, Box<RunPast>)>) -> Result<Answer, Fault> {
        let Job { runner, member, chat, beside, tools, .. } = &self.job;
        let (before, ended) = match before {
            Some((run, mut past)) => {
                let ended = past.ended.take();
                (Some((run, past)), ended)
            }
            None => (None, None),
        };
        if let Some((ended, account)) = ended {
            return ended.into_answer(account).map_err(|((message, exhausted), _)| match exhausted {
                true => Fault::Exhausted { message },
                false => Fault::other(message),
            });
        }
        let purse = self.share.purse();
        let Budget { tokens, usd, tool_calls, time } = runner.budget().meet(&purse.left());
        let (elapsed, spent) = before.as_ref().map(|(_, past)| (past.elapsed, past.spent)).unwrap_or_default();
        let start = Instant::now().checked_sub(elapsed).unwrap_or_else(Instant::now);
        let carved = Carved { bounds: Bounds { tokens, usd, tool_calls }, time, start, spent };
        let own = purse.carve_exactly(&[carved]).pop().expect("one share was asked for");
        let log = self.log.as_ref().map(|log| match &before {
            Some((run, _)) => Log::of(&log.journal, *run),
            None => Log::beside(&log.journal, chat, beside.clone()),
        });
        let (waiting, past) = match before {
            Some((_, mut past)) => (std::mem::take(&mut past.inbox), Some(past)),
            None => (Vec::new(), None),
        };
        let instance: Arc<str> = format!("{}/{member}", self.cx.agent).into();
        let crew = self.crew.clone();
        let places = crew.iter().map(|crew| Arc::clone(crew.places())).collect();
        let place =
            super::completion::in_time(own.purse(), Place::take(places)).await.map_err(|error| error.as_fault())?;
        let start = Box::new(Start {
            badge: crew.as_ref().map(|crew| crew.enter(&instance, waiting)).unwrap_or_default(),
            cx: RunCx { agent: instance, ..self.cx.anew() },
            crew,
            purse: Arc::clone(own.purse()),
            ceiling: self.ceiling.clone(),
            place,
            tasks: self.tasks.below(),
            works_for: WorksFor::Member(Arc::clone(&self.cx.agent)),
            more_tools: tools.clone(),
            errand: log.as_ref().and(self.log.as_ref()).map(|log| self.turn.errand(log.run)),
            log,
            past,
        });
        let answer = runner.work(start, chat, input).await;
        let _ = own.settle();
        answer.map_err(|error| error.as_fault())
    }
}
