//! A run of a team: its coordinator decides and its members work, until the team is done.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    CoordinatorAction, CoordinatorInput, CoordinatorStep, Member, MemberAssignment, MemberOutcome, MemberProfile,
    MemberReport, Team, coordinators::words_of, transfer_tools::TransferTools,
};
use crate::{
    agent::{
        Agent, AgentRunOptions, EffectModelReply, MemberAllocations, MemberFailure, MemberRun, ModelQuery, RecordedRun,
        Run, RunAnswer, RunEnding, RunError, RunLoop, RunParams, RunState, RunnerInfo, ask_for, begin_members,
        bounded_state, in_time,
        journal::{ChosenMember, JournalRecord, SideChatRef},
    },
    chat::{Chat, ChatEntry, ChatSnapshot, Message, Part, Role, SideChat},
    error::{Fault, OnFailure, cut},
    event::Event,
    limits,
    model::Completion,
    tool::{TaskHandoff, ToolBox},
};

/// The conversations in which the members of a team work, and the way they hand over to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TeamChatMode {
    /// Each member works in its own conversation, as the coordinator decides.
    #[default]
    Coordinated,
    /// Each member works in its own conversation; a member hands over to another one with a tool.
    HandOver,
    /// All members work in the shared conversation, one after the other, so that each sees all work; a member hands over to
    /// another one with a tool.
    SharedHandOver,
}

impl TeamChatMode {
    fn is_shared(self) -> bool {
        self == Self::SharedHandOver
    }

    fn hands_over(self) -> bool {
        self != Self::Coordinated
    }
}

/// The state of a team in one run.
pub(super) struct TeamLoop<'a> {
    team: &'a Team,
    /// The instructions for all members.
    instructions: Arc<str>,
    /// The agent as which the coordinator asks models; `None` without a model.
    asker: Option<Agent>,
    transfers: TransferTools,
    state: Vec<u8>,
    /// The step with which the coordinator began anew.
    first: u32,
    /// The newest message before the input of this attempt: an older reply does not answer that input. `None` without
    /// input.
    since: Option<u64>,
    reports: Vec<MemberReport>,
    /// The number of consecutive steps in which nobody worked.
    idle: u32,
    /// The step that was chosen before the run was interrupted and is not completed.
    chose: Option<TeamStepPlan>,
    /// The answers that models gave to the coordinator before the run was interrupted.
    told: VecDeque<EffectModelReply>,
}

/// The members that work in a step.
struct TeamStepPlan {
    step: u32,
    members: Vec<ChosenMember>,
    shares: MemberAllocations,
}

type TeamRun<'a> = Run<'a, TeamLoop<'a>>;

pub(super) async fn run_as(
    team: &Team,
    mut start: Box<RunParams>,
    chat: &Chat,
    input: Vec<Message>,
) -> Result<RunAnswer, RunError> {
    let (past, errand) = (start.past.take(), start.errand.take());
    let around = std::mem::take(&mut start.team_instructions);
    let instructions = [around.trim(), team.instructions.trim()].into_iter().filter(|text| !text.is_empty());
    let instructions: Arc<str> = instructions.collect::<Vec<_>>().join("\n\n").into();
    let me = Arc::new(RunState::new(&team.name, &AgentRunOptions::default(), &team.delegable, *start));
    let shell = RunnerInfo {
        name: &team.name,
        prefix: &team.prefix,
        model: "",
        middleware: &team.middleware,
        model_middleware: &[],
        grants: None,
    };
    let mut run = Run::new(shell, Arc::clone(&me), chat, TeamLoop::new(team, Arc::clone(&instructions)));
    if past.is_none() {
        run.write_beginning(errand, &input, &instructions);
    }
    if let Some(log) = &me.log {
        me.handle.inbox.record(log);
    }
    // Members in a shared conversation each put their own system prompt in front of it, which contains these instructions.
    if !instructions.is_empty() && !team.meeting.is_shared() {
        let message = Message::text(Role::System, &*team.name, &*instructions).by_member(None);
        chat.share_system_prompt(Arc::new(message));
    }
    run.tell_from_here();
    run.given(&input, past.as_deref());
    let input = match past {
        Some(past) => run.restore(*past, input),
        None => input,
    };
    run.through(input).await
}

impl<'a> TeamLoop<'a> {
    fn new(team: &'a Team, instructions: Arc<str>) -> Self {
        let asker = team.completer.as_ref().map(|completer| {
            let mut asker = Agent::new(Arc::clone(&team.name), "", Arc::clone(completer));
            asker.models = Arc::clone(&team.models);
            asker
        });
        Self {
            team,
            instructions,
            asker,
            transfers: TransferTools::default(),
            state: Vec::new(),
            first: 0,
            since: None,
            reports: Vec::new(),
            idle: 0,
            chose: None,
            told: VecDeque::new(),
        }
    }
}

impl<'a> RunLoop<'a> for TeamLoop<'a> {
    fn attempt<'r>(run: &'r mut Run<'a, Self>, input: Vec<Message>) -> BoxFuture<'r, Result<Message, RunError>> {
        Box::pin(run.attempt(input))
    }

    fn has_turns(run: &Run<'a, Self>) -> bool {
        run.iterations < limits::TEAM_STEPS
    }
}

impl TeamRun<'_> {
    /// Restores the state that the run was interrupted in. Returns the input with which it continues.
    fn restore(&mut self, past: RecordedRun, input: Vec<Message>) -> Vec<Message> {
        (self.iterations, self.usage) = (past.iterations, past.usage);
        self.started = Instant::now().checked_sub(past.elapsed).unwrap_or_else(Instant::now);
        (self.passed, self.work.told, self.work.first) = (past.passed, past.asked, past.first);
        if let Some(chose) = past.chose {
            let shares = MemberAllocations::of_the_past(&self.me, chose.step, &chose.members);
            self.work.state = chose.state;
            self.work.chose = Some(TeamStepPlan { step: chose.step, members: chose.members, shares });
        }
        past.input.unwrap_or(input)
    }

    /// Makes one attempt at an answer. The coordinator begins anew, unless a step of an interrupted run is open.
    async fn attempt(&mut self, input: Vec<Message>) -> Result<Message, RunError> {
        self.ending = RunEnding::Answered;
        let mut decided = self.work.chose.take();
        if decided.is_none() {
            (self.work.state, self.work.first, self.work.idle) = (Vec::new(), self.iterations, 0);
            self.work.reports.clear();
        }
        let newest = self.chat.snapshot().last().map(|entry| entry.id);
        self.work.since = newest.filter(|_| !input.is_empty());
        self.add(input)?;
        loop {
            let now = match decided.take() {
                Some(decided) => decided,
                None => match self.decide().await? {
                    NextTeamStep::Work(decided) => decided,
                    NextTeamStep::Done(answer) => return Ok(answer),
                },
            };
            self.carry_out(now).await?;
            self.add(self.me.handle.inbox.take())?;
            self.tell_messages().await;
        }
    }

    fn add(&self, messages: Vec<Message>) -> Result<(), RunError> {
        messages.into_iter().try_for_each(|message| self.chat.append(message)).map_err(RunError::Input)
    }

    /// Asks the coordinator for the next step.
    async fn decide(&mut self) -> Result<NextTeamStep, RunError> {
        loop {
            self.me.check_log()?;
            self.me.budget_account.check().map_err(RunError::Budget)?;
            self.check_bytes()?;
            let members = self.work.team.members.now();
            let (decision, reasoning) = self.next(&members).await?;
            let assignments = match decision {
                TeamDecision::Run(assignments) => assignments,
                TeamDecision::Done(parts) => {
                    self.tell_step(&[], reasoning, true).await;
                    return self.finish(parts).map(NextTeamStep::Done);
                }
            };
            if !<TeamLoop<'_> as RunLoop<'_>>::has_turns(self) {
                let message = format!("no answer after {} steps", limits::TEAM_STEPS);
                return Err(self.failed(Fault::Exhausted { message }));
            }
            self.work.reports.clear();
            if assignments.is_empty() {
                self.tell_step(&[], reasoning, false).await;
                self.work.idle += 1;
                if self.work.idle >= 2 {
                    return Err(self.failed(Fault::other("nobody was to work, twice in a row")));
                }
                self.iterations += 1;
                continue;
            }
            self.work.idle = 0;
            self.check(&assignments, &members).map_err(|fault| self.failed(fault))?;
            return Ok(NextTeamStep::Work(self.choose(assignments, reasoning).await));
        }
    }

    /// Returns the decision of the coordinator and its reason, after all its questions to models.
    async fn next(&mut self, members: &[Arc<Member>]) -> Result<(TeamDecision, Option<String>), RunError> {
        let (team, shared, active) = (self.work.team, self.chat.snapshot(), self.chat.active());
        let profiles: Vec<MemberProfile> = members.iter().map(|member| member.profile()).collect();
        let mut state = std::mem::take(&mut self.work.state);
        let mut reply = None;
        for _ in 0..=limits::ASKS_IN_A_ROW {
            let moment = CoordinatorInput {
                step: self.iterations - self.work.first,
                shared: &shared,
                members: &profiles,
                reports: &self.work.reports,
                active: active.as_deref(),
                reply: reply.take(),
            };
            let next = in_time(&self.me.budget_account, team.coordinator.next(&self.me.cx, &moment, state)).await?;
            let CoordinatorStep { state: kept, action, reasoning } = next.map_err(|fault| self.failed(fault))?;
            state = bounded_state(kept).map_err(|fault| self.failed(fault))?;
            let decision = match action {
                CoordinatorAction::Run(assignments) => TeamDecision::Run(assignments),
                CoordinatorAction::Done(parts) => TeamDecision::Done(parts),
                CoordinatorAction::Ask(ask) => {
                    reply = Some(self.ask(*ask).await?);
                    continue;
                }
            };
            self.work.state = state;
            return Ok((decision, reasoning));
        }
        let message = format!("it asked a model more than {} times in a row", limits::ASKS_IN_A_ROW);
        Err(self.failed(Fault::Exhausted { message }))
    }

    /// Asks a model for the coordinator. An answer from before the run was interrupted is used instead of a new request.
    async fn ask(&mut self, ask: ModelQuery) -> Result<Result<Completion, Fault>, RunError> {
        let coordinator = &self.work.team.coordinator;
        if self.work.told.front().is_some_and(|told| told.is_for(0, coordinator.name())) {
            return Ok(Ok(self.work.told.pop_front().expect("it is there").completion));
        }
        if !coordinator.may_ask() {
            return Ok(Err(Fault::Denied { message: "the power `ask-model` was not granted".into() }));
        }
        let Some(asker) = &self.work.asker else {
            let message = format!("team `{}` has no model that its coordinator could ask", self.shell.name);
            return Ok(Err(Fault::NotFound { message }));
        };
        let asked = ask_for(&self.me, asker, coordinator.models(), ask, &mut self.usage);
        let reply = self.me.place.wait_for(in_time(&self.me.budget_account, asked)).await?;
        Ok(reply.map(|(completion, cost)| {
            self.me.write(|| {
                let (name, completion) = (coordinator.name().to_owned(), completion.clone());
                JournalRecord::Asked { effect: 0, name, completion, cost }
            });
            completion
        }))
    }

    fn check(&self, assignments: &[MemberAssignment], members: &[Arc<Member>]) -> Result<(), Fault> {
        for (at, MemberAssignment { member, task }) in assignments.iter().enumerate() {
            let shown = || member.chars().take(limits::NAME_SHOWN_CHARS).collect::<String>();
            if !members.iter().any(|there| there.name == *member) {
                let names: Vec<_> = members.iter().map(|member| &*member.name).collect();
                let message =
                    format!("there is no member `{}`; there are: {}", shown().escape_debug(), names.join(", "));
                return Err(Fault::NotFound { message });
            }
            if assignments[..at].iter().any(|before| before.member == *member) {
                return Err(Fault::invalid(format!("`{}` is to work twice in one step", shown().escape_debug())));
            }
            if task.as_ref().is_some_and(|task| task.chars().count() > limits::ASSIGNMENT_CHARS) {
                let message = format!("a task has at most {} characters", limits::ASSIGNMENT_CHARS);
                return Err(Fault::TooLarge { message });
            }
        }
        if self.work.team.meeting.is_shared() && assignments.len() > 1 {
            return Err(Fault::invalid("in one conversation one member works at a time"));
        }
        Ok(())
    }

    /// Records the members of a step, and emits its event.
    async fn choose(&mut self, assignments: Vec<MemberAssignment>, reasoning: Option<String>) -> TeamStepPlan {
        let step = self.iterations;
        let names: Vec<_> = assignments.iter().map(|assignment| Arc::clone(&assignment.member)).collect();
        self.tell_step(&names, reasoning, false).await;
        self.iterations += 1;
        let shares = MemberAllocations::new(&self.me, assignments.len());
        let chosen = |(MemberAssignment { member, task }, bounds)| ChosenMember { member, task, bounds };
        let members: Vec<_> = assignments.into_iter().zip(shares.bounds()).map(chosen).collect();
        if self.me.log.is_some() {
            let (changes, elapsed, state) = (self.changes(), self.started.elapsed(), self.work.state.clone());
            let members = members.clone();
            self.me.write(|| JournalRecord::Chose { step, members, state, changes, elapsed });
        }
        TeamStepPlan { step, members, shares }
    }

    async fn tell_step(&self, members: &[Arc<str>], reasoning: Option<String>, done: bool) {
        let cx = &self.me.cx;
        if !cx.events.is_watched() {
            return;
        }
        let reasoning = reasoning.map(|text| text.chars().take(limits::REASONING_CHARS).collect());
        let (agent, step) = (cx.agent.clone(), self.iterations);
        cx.events.emit(Event::TeamStep { agent, step, members: members.to_vec(), reasoning, done }).await;
    }

    /// Runs the members, and adds their replies to the conversation in the order in which they were chosen. The first
    /// failure of a member whose `on_failure` is `stop` cancels the others; replies until then are kept.
    async fn carry_out(
        &mut self,
        TeamStepPlan { step, members: chosen, shares }: TeamStepPlan,
    ) -> Result<(), RunError> {
        let there = self.work.team.members.now();
        let find = |chosen: &ChosenMember| there.iter().find(|member| member.name == chosen.member).cloned();
        let gone = |chosen: &ChosenMember| {
            self.failed(Fault::NotFound { message: format!("the member `{}` is not there any more", chosen.member) })
        };
        let members: Vec<_> =
            chosen.iter().map(|chosen| find(chosen).ok_or_else(|| gone(chosen))).collect::<Result<_, _>>()?;
        let is_shared = self.work.team.meeting.is_shared();
        let mut jobs = Vec::with_capacity(members.len());
        for (at, (member, ChosenMember { task, .. })) in members.iter().zip(chosen).enumerate() {
            jobs.push(self.job(member, task, &there, shares.has_begun(at)));
        }
        self.chat.set_active(members.last().map(|member| Arc::clone(&member.name)));
        let stop = CancellationToken::new();
        let me = Arc::clone(&self.me);
        let mut working: FuturesUnordered<_> = begin_members(&me, step, jobs, shares, &stop)
            .into_iter()
            .enumerate()
            .map(async |(at, work)| (at, work.await.unwrap_or(Err(MemberFailure::Stopped))))
            .collect();
        let mut done: Vec<_> = members.iter().map(|_| None).collect();
        let gather = async {
            while let Some((at, came)) = working.next().await {
                if let Ok(answer) = &came {
                    self.tell_reply(&members[at], answer).await;
                }
                if matches!(came, Err(MemberFailure::Of(_))) && members[at].on_failure == OnFailure::Stop {
                    stop.cancel();
                }
                done[at] = Some(came);
            }
        };
        let in_time = in_time(&me.budget_account, me.place.wait_for(gather)).await;
        drop(working);
        if is_shared {
            // The member has emitted events for its own messages.
            self.tell_from_here();
        }
        let mut failure = in_time.err();
        for (member, came) in members.iter().zip(done) {
            let fared = match came {
                Some(Ok(answer)) => self.take(member, answer, is_shared)?,
                Some(Err(MemberFailure::Of(fault))) if member.on_failure == OnFailure::Skip => {
                    let message =
                        format!("member `{}` of {} failed and is passed over: {fault}", member.name, me.cx.agent);
                    me.cx.events.emit(Event::Warning { message }).await;
                    MemberOutcome::Failed(fault)
                }
                Some(Err(MemberFailure::Of(fault))) => {
                    failure.get_or_insert(RunError::Member { member: member.name.to_string(), fault });
                    continue;
                }
                Some(Err(MemberFailure::Stopped)) | None => continue,
            };
            if let MemberOutcome::HandedOver(to) = &fared {
                if self.work.team.coordinator.reads_hand_overs() {
                    self.chat.append(hand_over_note(&member.name, to)).map_err(RunError::Input)?;
                }
                let (agent, to, reason) = (me.member(&member.name), me.member(&to.agent), to.reason.clone());
                me.cx.events.emit(Event::HandedOver { agent, to, reason }).await;
            }
            self.work.reports.push(MemberReport { member: Arc::clone(&member.name), fared });
        }
        failure.map_or(Ok(()), Err)
    }

    /// Emits the event for a member's reply, with its text if no middleware may replace it.
    async fn tell_reply(&self, member: &Member, RunAnswer { message, ending, .. }: &RunAnswer) {
        let events = &self.me.cx.events;
        if !events.is_watched() || matches!(ending, RunEnding::HandedOver(_)) {
            return;
        }
        let text = (!self.shell.may_replace_answers()).then(|| cut(&message.text_content(), limits::REPLY_SHOWN_CHARS));
        events.emit(Event::MemberReplied { agent: self.me.member(&member.name), text }).await;
    }

    /// Returns the work of a member. A member that had begun when the run was interrupted has its input already.
    fn job(&mut self, member: &Arc<Member>, task: Option<String>, there: &[Arc<Member>], has_begun: bool) -> MemberRun {
        let meeting = self.work.team.meeting;
        let name = Arc::clone(&member.name);
        let tools = match meeting.hands_over() {
            true => self.work.transfers.of(member, there),
            false => ToolBox::new(),
        };
        let by = || self.me.cx.agent.to_string();
        let task = task.filter(|_| !has_begun).map(|task| Message::text(Role::User, by(), task));
        let (chat, beside, mut input) = if meeting.is_shared() {
            (self.chat.clone(), None, Vec::new())
        } else {
            let mut beside = self.chat.beside(&name);
            let input = if has_begun { Vec::new() } else { self.hear(&name, &mut beside) };
            let id = SideChatRef { name: Arc::clone(&name), heard: beside.heard };
            let chat = beside.chat.clone();
            self.chat.put_beside(Arc::clone(&name), beside);
            (chat, Some(id), input)
        };
        input.extend(task);
        let (runner, instructions) = (Arc::clone(&member.runner), Arc::clone(&self.work.instructions));
        MemberRun { runner, member: name, chat, beside, input, tools, instructions, retries: member.retries }
    }

    /// Returns the messages of the shared conversation that are new to this member.
    fn hear(&self, member: &str, beside: &mut SideChat) -> Vec<Message> {
        let shared = self.chat.snapshot();
        let new: Vec<&ChatEntry> = newest(&shared, beside.heard);
        beside.heard = shared.last().map(|entry| entry.id).or(beside.heard);
        // A member that has not worked yet has written nothing: messages under its name are another sender's.
        let has_worked = !beside.chat.snapshot().is_empty();
        let others = new.into_iter().filter(|entry| !has_worked || entry.message.member() != Some(member));
        others.filter_map(|entry| as_heard(&entry.message)).collect()
    }

    /// Adds a member's answer to the shared conversation.
    fn take(&self, member: &Member, answer: RunAnswer, is_shared: bool) -> Result<MemberOutcome, RunError> {
        let RunAnswer { message, ending, .. } = answer;
        // A handoff is no reply: the coordinator passes its message on to the next member.
        if !is_shared && !matches!(ending, RunEnding::HandedOver(_)) {
            let parts = said_aloud(&message);
            let reply = Message { sender: member.name.to_string(), role: Role::Assistant, parts, meta: message.meta };
            let reply = reply.by_member(Some(&member.name));
            if !reply.says_nothing() {
                self.chat.append(reply).map_err(RunError::Input)?;
            }
        }
        Ok(match ending {
            RunEnding::HandedOver(to) => MemberOutcome::HandedOver(to),
            RunEnding::Answered | RunEnding::Completed(_) => MemberOutcome::Replied,
        })
    }

    /// Returns the answer of the team: the coordinator's, or the last reply.
    fn finish(&self, parts: Option<Vec<Part>>) -> Result<Message, RunError> {
        if let Some(parts) = parts {
            let sender = self.me.cx.agent.to_string();
            let message = Message { sender, role: Role::Assistant, parts, meta: Vec::new() };
            if message.says_nothing() {
                return Err(self.failed(Fault::invalid("it ended the team with an answer that says nothing")));
            }
            self.chat.append(message.clone().by_member(None)).map_err(RunError::Input)?;
            return Ok(message);
        }
        let shared = self.chat.snapshot();
        let mut new = newest(&shared, self.work.since).into_iter().rev();
        let last = new.find(|entry| entry.message.role == Role::Assistant && !entry.message.is_paired());
        last.map(|entry| Message::clone(&entry.message).without_member()).ok_or(RunError::Empty)
    }

    fn failed(&self, fault: Fault) -> RunError {
        RunError::Coordinator { name: self.work.team.coordinator.name().to_owned(), fault }
    }
}

/// The decision of the coordinator.
enum TeamDecision {
    /// These members work.
    Run(Vec<MemberAssignment>),
    /// The team is done. `None`: the last reply is its answer.
    Done(Option<Vec<Part>>),
}

enum NextTeamStep {
    Work(TeamStepPlan),
    Done(Message),
}

/// Returns the messages after this one, in order.
fn newest(chat: &ChatSnapshot, after: Option<u64>) -> Vec<&ChatEntry> {
    let is_new = |entry: &&ChatEntry| after.is_none_or(|after| entry.id > after);
    let mut new: Vec<_> = chat.iter().rev().take_while(is_new).collect();
    new.reverse();
    new
}

/// Returns a message as members receive it: as a user message with its sender, its parts and its metadata. `None` if it
/// holds nothing for others.
fn as_heard(message: &Message) -> Option<Message> {
    if message.role == Role::System {
        return None;
    }
    let parts = said_aloud(message);
    let heard = Message { sender: message.sender.clone(), role: Role::User, parts, meta: message.meta.clone() };
    (!heard.says_nothing()).then(|| heard.without_member())
}

/// Returns the note about a handoff, for a coordinator and members that learn of it in no other way.
fn hand_over_note(member: &str, to: &TaskHandoff) -> Message {
    let text = format!("`{member}` hands over to `{}`.{}", to.agent, words_of(to));
    Message::note(member, text).handing_over_to(&to.agent)
}

/// Returns the parts of a message that are meant for others: no thoughts, and no calls and results.
fn said_aloud(message: &Message) -> Vec<Part> {
    message.parts.iter().filter(|part| matches!(part, Part::Text(_) | Part::Media(_))).cloned().collect()
}
