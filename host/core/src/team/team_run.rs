//! A run of a team: its coordinator decides and its members work, until the team is done.

use std::{collections::VecDeque, sync::Arc};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;

use super::{
    CoordinatorAction, CoordinatorInput, CoordinatorStep, Member, MemberAssignment, MemberOutcome, MemberProfile,
    MemberReport, Team, coordinators::words_of, transfer_tools::TransferTools,
};
use crate::{
    agent::{
        AgentModels, AgentRunOptions, MemberAllocations, MemberFailure, MemberRun, ModelQuery, Run, RunAnswer,
        RunEnding, RunError, RunParams, RunState, RunWork, Runner, RunnerInfo, RunnerProfile, ask_for, begin_members,
        bounded_state, in_time,
        journal::{ChosenMember, EffectModelReply, JournalRecord, RecordedRun, SideChatRef},
    },
    capability::Budget,
    chat::{Chat, ChatEntry, ChatSnapshot, Message, Part, Role},
    error::{Fault, OnFailure, cut},
    event::Event,
    limits,
    model::Completion,
    tool::{TaskHandoff, ToolBox},
};

impl Runner for Team {
    fn profile(&self) -> RunnerProfile<'_> {
        let Self { name, description, budget, delegable, agent_group, middleware, .. } = self;
        RunnerProfile { name, description, budget, delegable, agent_group: agent_group.as_ref(), middleware }
    }

    fn with_name_and_budget(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner> {
        Arc::new(Self { name, budget: self.budget.meet(budget), ..self.clone() })
    }

    fn work<'a>(
        &'a self,
        start: Box<RunParams>,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        Box::pin(run_as(self, start, chat, input))
    }
}

/// The state of a team in one run.
pub(super) struct TeamLoop<'a> {
    team: &'a Team,
    /// The instructions for all members.
    instructions: Arc<str>,
    /// The models that the coordinator may ask; `None` without a model.
    models: Option<AgentModels>,
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
    chosen: Option<TeamStepPlan>,
    /// The answers that models gave to the coordinator before the run was interrupted.
    recorded_replies: VecDeque<EffectModelReply>,
}

/// The members that work in a step.
struct TeamStepPlan {
    step: u32,
    members: Vec<ChosenMember>,
    shares: MemberAllocations,
}

async fn run_as(
    team: &Team,
    mut start: Box<RunParams>,
    chat: &Chat,
    input: Vec<Message>,
) -> Result<RunAnswer, RunError> {
    let recorded = start.recorded.take();
    let around = std::mem::take(&mut start.team_instructions);
    let instructions = [around.trim(), team.instructions.trim()].into_iter().filter(|text| !text.is_empty());
    let instructions = instructions.collect::<Vec<_>>().join("\n\n");
    let me = RunState::new(&team.name, &AgentRunOptions::default(), &team.delegable, *start, None);
    let info = RunnerInfo {
        name: &team.name,
        prefix: &team.prefix,
        model: "",
        middleware: &team.middleware,
        model_middleware: &[],
        grants: None,
    };
    let mut work = TeamLoop::new(team, instructions.as_str().into());
    let mut run = Run::new(info, me, chat);
    run.perform(&mut work, instructions, recorded, input).await
}

impl<'a> TeamLoop<'a> {
    fn new(team: &'a Team, instructions: Arc<str>) -> Self {
        let models = team.completer.as_ref().map(|completer| AgentModels {
            own: Arc::clone(completer),
            others: Arc::clone(&team.models),
            middleware: Vec::new(),
        });
        Self {
            team,
            instructions,
            models,
            transfers: TransferTools::default(),
            state: Vec::new(),
            first: 0,
            since: None,
            reports: Vec::new(),
            idle: 0,
            chosen: None,
            recorded_replies: VecDeque::new(),
        }
    }
}

impl<'a> RunWork<'a> for TeamLoop<'a> {
    fn show_prompt(&self, run: &Run<'a>, prompt: String, _: Option<&RecordedRun>) {
        // Members in a shared conversation each put their own system prompt in front of it, which contains these
        // instructions.
        if !prompt.is_empty() && !self.team.meeting.is_shared() {
            let message = Message::text(Role::System, &*self.team.name, prompt).by_member(None);
            run.chat.share_system_prompt(Arc::new(message));
        }
    }

    fn restore(&mut self, run: &mut Run<'a>, recorded: RecordedRun) {
        (self.recorded_replies, self.first) = (recorded.asked, recorded.first);
        if let Some(chosen) = recorded.chose {
            let shares = MemberAllocations::of_recorded(&run.me, chosen.step, &chosen.members);
            (self.state, self.since) = (chosen.state, chosen.since);
            self.chosen = Some(TeamStepPlan { step: chosen.step, members: chosen.members, shares });
        }
    }

    fn attempt<'r>(
        &'r mut self,
        run: &'r mut Run<'a>,
        input: Vec<Message>,
    ) -> BoxFuture<'r, Result<Message, RunError>> {
        Box::pin(self.attempt(run, input))
    }

    fn has_turns(&self, run: &Run<'a>) -> bool {
        run.iterations < limits::TEAM_STEPS
    }
}

impl TeamLoop<'_> {
    /// Makes one attempt at an answer. The coordinator begins anew, unless a step of an interrupted run is open.
    async fn attempt(&mut self, run: &mut Run<'_>, input: Vec<Message>) -> Result<Message, RunError> {
        run.ending = RunEnding::Answered;
        let mut decided = self.chosen.take();
        if decided.is_none() {
            (self.state, self.first, self.idle) = (Vec::new(), run.iterations, 0);
            let newest = run.chat.snapshot().last().map(|entry| entry.id);
            self.since = newest.filter(|_| !input.is_empty());
            self.reports.clear();
        }
        self.add(run, input)?;
        loop {
            let now = match decided.take() {
                Some(decided) => decided,
                None => match self.decide(run).await? {
                    NextTeamStep::Work(decided) => decided,
                    NextTeamStep::Done(answer) => return Ok(answer),
                },
            };
            self.work(run, now).await?;
            self.add(run, run.me.handle.inbox.take())?;
            run.tell_messages().await;
        }
    }

    fn add(&self, run: &Run<'_>, messages: Vec<Message>) -> Result<(), RunError> {
        messages.into_iter().try_for_each(|message| run.chat.append(message)).map_err(RunError::Input)
    }

    /// Asks the coordinator for the next step.
    async fn decide(&mut self, run: &mut Run<'_>) -> Result<NextTeamStep, RunError> {
        loop {
            run.me.check_log()?;
            run.me.budget_account.check().map_err(RunError::Budget)?;
            run.check_bytes()?;
            let members = self.team.members.now();
            let (decision, reasoning) = self.next(run, &members).await?;
            let assignments = match decision {
                TeamDecision::Run(assignments) => assignments,
                TeamDecision::Done(parts) => {
                    self.tell_step(run, &[], reasoning, true).await;
                    return self.finish(run, parts).map(NextTeamStep::Done);
                }
            };
            if !self.has_turns(run) {
                let message = format!("no answer after {} steps", limits::TEAM_STEPS);
                return Err(self.failed(Fault::Exhausted { message }));
            }
            self.reports.clear();
            if assignments.is_empty() {
                self.tell_step(run, &[], reasoning, false).await;
                self.idle += 1;
                if self.idle >= 2 {
                    return Err(self.failed(Fault::other("the coordinator chose no member twice in a row")));
                }
                run.iterations += 1;
                continue;
            }
            self.idle = 0;
            self.check(&assignments, &members).map_err(|fault| self.failed(fault))?;
            return Ok(NextTeamStep::Work(self.choose(run, assignments, reasoning).await));
        }
    }

    /// Returns the decision of the coordinator and its reason, after all its questions to models.
    async fn next(
        &mut self,
        run: &mut Run<'_>,
        members: &[Arc<Member>],
    ) -> Result<(TeamDecision, Option<String>), RunError> {
        let (team, shared, active) = (self.team, run.chat.snapshot(), run.chat.active());
        let profiles: Vec<MemberProfile> = members.iter().map(|member| member.profile()).collect();
        let mut state = std::mem::take(&mut self.state);
        let mut reply = None;
        for _ in 0..=limits::ASKS_IN_A_ROW {
            let moment = CoordinatorInput {
                step: run.iterations - self.first,
                shared: &shared,
                members: &profiles,
                reports: &self.reports,
                active: active.as_deref(),
                reply: reply.take(),
            };
            let next = in_time(&run.me.budget_account, team.coordinator.next(&run.me.cx, &moment, state)).await?;
            let CoordinatorStep { state: kept, action, reasoning } = next.map_err(|fault| self.failed(fault))?;
            state = bounded_state(kept).map_err(|fault| self.failed(fault))?;
            let decision = match action {
                CoordinatorAction::Run(assignments) => TeamDecision::Run(assignments),
                CoordinatorAction::Done(parts) => TeamDecision::Done(parts),
                CoordinatorAction::Ask(ask) => {
                    reply = Some(self.ask(run, *ask).await?);
                    continue;
                }
            };
            self.state = state;
            return Ok((decision, reasoning));
        }
        let message = format!("the coordinator called a model more than {} times in a row", limits::ASKS_IN_A_ROW);
        Err(self.failed(Fault::Exhausted { message }))
    }

    /// Asks a model for the coordinator. An answer from before the run was interrupted is used instead of a new request.
    async fn ask(&mut self, run: &mut Run<'_>, ask: ModelQuery) -> Result<Result<Completion, Fault>, RunError> {
        let coordinator = &self.team.coordinator;
        if self.recorded_replies.front().is_some_and(|reply| reply.is_for(0, coordinator.name())) {
            return Ok(Ok(self.recorded_replies.pop_front().expect("it is there").completion));
        }
        if !coordinator.may_ask() {
            return Ok(Err(Fault::Denied {
                message: "power `ask-model` is not granted; add it to `powers` of the plugin's entry in the config"
                    .into(),
            }));
        }
        let Some(models) = &self.models else {
            let message = format!("team `{}` has no model for its coordinator", run.runner.name);
            return Ok(Err(Fault::NotFound { message }));
        };
        let asked = ask_for(&run.me, models, coordinator.models(), ask, &mut run.usage);
        let reply = run.me.permit.wait_for(in_time(&run.me.budget_account, asked)).await?;
        Ok(reply.map(|(completion, cost)| {
            run.me.write(|| {
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
                let message = format!("there is no member `{}`; members: {}", shown().escape_debug(), names.join(", "));
                return Err(Fault::NotFound { message });
            }
            if assignments[..at].iter().any(|before| before.member == *member) {
                return Err(Fault::invalid(format!("member `{}` is chosen twice in one step", shown().escape_debug())));
            }
            if task.as_ref().is_some_and(|task| task.chars().count() > limits::ASSIGNMENT_CHARS) {
                let message = format!("a task exceeds the maximum of {} characters", limits::ASSIGNMENT_CHARS);
                return Err(Fault::TooLarge { message });
            }
        }
        if self.team.meeting.is_shared() && assignments.len() > 1 {
            return Err(Fault::invalid(
                "several members are chosen in one step, but in one conversation one member works at a time",
            ));
        }
        Ok(())
    }

    /// Records the members of a step, and emits its event.
    async fn choose(
        &mut self,
        run: &mut Run<'_>,
        assignments: Vec<MemberAssignment>,
        reasoning: Option<String>,
    ) -> TeamStepPlan {
        let step = run.iterations;
        let names: Vec<_> = assignments.iter().map(|assignment| Arc::clone(&assignment.member)).collect();
        self.tell_step(run, &names, reasoning, false).await;
        run.iterations += 1;
        let shares = MemberAllocations::new(&run.me, assignments.len());
        let chosen = |(MemberAssignment { member, task }, bounds)| ChosenMember { member, task, bounds };
        let members: Vec<_> = assignments.into_iter().zip(shares.bounds()).map(chosen).collect();
        if run.me.log.is_some() {
            let (changes, elapsed, state) = (run.changes(), run.started.elapsed(), self.state.clone());
            let (members, since) = (members.clone(), self.since);
            run.me.write(|| JournalRecord::Chose { step, members, state, changes, elapsed, since });
        }
        TeamStepPlan { step, members, shares }
    }

    async fn tell_step(&self, run: &Run<'_>, members: &[Arc<str>], reasoning: Option<String>, done: bool) {
        let cx = &run.me.cx;
        if !cx.events.is_watched() {
            return;
        }
        let reasoning = reasoning.map(|text| text.chars().take(limits::REASONING_CHARS).collect());
        let (agent, step) = (cx.agent.clone(), run.iterations);
        cx.events.emit(Event::TeamStep { agent, step, members: members.to_vec(), reasoning, done }).await;
    }

    /// Runs the members, and adds their replies to the conversation in the order in which they were chosen. The first
    /// failure of a member whose `on_failure` is `stop` cancels the others; replies until then are kept.
    async fn work(
        &mut self,
        run: &mut Run<'_>,
        TeamStepPlan { step, members: chosen, shares }: TeamStepPlan,
    ) -> Result<(), RunError> {
        let there = self.team.members.now();
        let find = |chosen: &ChosenMember| there.iter().find(|member| member.name == chosen.member).cloned();
        let gone = |chosen: &ChosenMember| {
            self.failed(Fault::NotFound { message: format!("member `{}` is no longer in the team", chosen.member) })
        };
        let members: Vec<_> =
            chosen.iter().map(|chosen| find(chosen).ok_or_else(|| gone(chosen))).collect::<Result<_, _>>()?;
        let is_shared = self.team.meeting.is_shared();
        let mut jobs = Vec::with_capacity(members.len());
        for (at, (member, ChosenMember { task, .. })) in members.iter().zip(chosen).enumerate() {
            jobs.push(self.job(run, member, task, &there, shares.has_input(at)));
        }
        run.chat.set_active(members.last().map(|member| Arc::clone(&member.name)));
        let stop = CancellationToken::new();
        let me = Arc::clone(&run.me);
        let mut working: FuturesUnordered<_> = begin_members(&me, step, jobs, shares, &stop)
            .into_iter()
            .enumerate()
            .map(async |(at, work)| (at, work.await.unwrap_or(Err(MemberFailure::Stopped))))
            .collect();
        let mut done: Vec<_> = members.iter().map(|_| None).collect();
        let gather = async {
            while let Some((at, came)) = working.next().await {
                if let Ok(answer) = &came {
                    self.tell_reply(run, &members[at], answer).await;
                }
                if matches!(came, Err(MemberFailure::Of(_))) && members[at].on_failure == OnFailure::Stop {
                    stop.cancel();
                }
                done[at] = Some(came);
            }
        };
        let in_time = in_time(&me.budget_account, me.permit.wait_for(gather)).await;
        drop(working);
        if is_shared {
            // The member has emitted events for its own messages.
            run.tell_from_here();
        }
        let mut failure = in_time.err();
        for (member, came) in members.iter().zip(done) {
            let fared = match came {
                Some(Ok(answer)) => self.take(run, member, answer, is_shared)?,
                Some(Err(MemberFailure::Of(fault))) if member.on_failure == OnFailure::Skip => {
                    let message =
                        format!("member `{}` of {} failed; continuing without it: {fault}", member.name, me.cx.agent);
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
                if self.team.coordinator.reads_handoffs() {
                    run.chat.append(handoff_note(&member.name, to)).map_err(RunError::Input)?;
                }
                let (agent, to, reason) = (me.member(&member.name), me.member(&to.agent), to.reason.clone());
                me.cx.events.emit(Event::HandedOver { agent, to, reason }).await;
            }
            self.reports.push(MemberReport { member: Arc::clone(&member.name), fared });
        }
        failure.map_or(Ok(()), Err)
    }

    /// Emits the event for a member's reply, with its text if no middleware may replace it.
    async fn tell_reply(&self, run: &Run<'_>, member: &Member, RunAnswer { message, ending, .. }: &RunAnswer) {
        let events = &run.me.cx.events;
        if !events.is_watched() || matches!(ending, RunEnding::HandedOver(_)) {
            return;
        }
        let text = (!run.runner.may_replace_answers()).then(|| cut(&message.text_content(), limits::REPLY_SHOWN_CHARS));
        events.emit(Event::MemberReplied { agent: run.me.member(&member.name), text }).await;
    }

    /// Returns the work of a member. `has_input`: it had its input before the run was interrupted.
    fn job(
        &mut self,
        run: &Run<'_>,
        member: &Arc<Member>,
        task: Option<String>,
        there: &[Arc<Member>],
        has_input: bool,
    ) -> MemberRun {
        let meeting = self.team.meeting;
        let name = Arc::clone(&member.name);
        let tools = match meeting.hands_over() {
            true => self.transfers.of(member, there),
            false => ToolBox::new(),
        };
        let by = || run.me.cx.agent.to_string();
        let task = task.filter(|_| !has_input).map(|task| Message::text(Role::User, by(), task));
        let (chat, side_chat, mut input) = if meeting.is_shared() {
            (run.chat.clone(), None, Vec::new())
        } else {
            let side_chat = run.chat.side_chat(&name);
            let (input, newest) = self.new_to(run, &name, &side_chat);
            side_chat.give(newest);
            (side_chat, Some(SideChatRef { name: Arc::clone(&name), heard: newest }), input)
        };
        input.extend(task);
        let (runner, instructions) = (Arc::clone(&member.runner), Arc::clone(&self.instructions));
        MemberRun { runner, member: name, chat, side_chat, input, tools, instructions, retries: member.retries }
    }

    /// Returns the messages of the shared conversation that are new to this member, and the id of the newest of all.
    fn new_to(&self, run: &Run<'_>, member: &str, side_chat: &Chat) -> (Vec<Message>, Option<u64>) {
        let (shared, heard) = (run.chat.snapshot(), side_chat.heard());
        let new: Vec<&ChatEntry> = newest(&shared, heard);
        // A member that has not worked yet has written nothing: messages under its name are another sender's.
        let has_worked = side_chat.snapshot().iter().any(|entry| entry.message.role != Role::System);
        let others = new.into_iter().filter(|entry| !has_worked || entry.message.member() != Some(member));
        let messages = others.filter_map(|entry| as_heard(&entry.message)).collect();
        (messages, shared.last().map(|entry| entry.id).or(heard))
    }

    /// Adds a member's answer to the shared conversation.
    fn take(
        &self,
        run: &Run<'_>,
        member: &Member,
        answer: RunAnswer,
        is_shared: bool,
    ) -> Result<MemberOutcome, RunError> {
        let RunAnswer { message, ending, .. } = answer;
        // A handoff is no reply: the coordinator passes its message on to the next member.
        if !is_shared && !matches!(ending, RunEnding::HandedOver(_)) {
            let parts = said_aloud(&message);
            let reply = Message { sender: member.name.to_string(), role: Role::Assistant, parts, meta: message.meta };
            let reply = reply.by_member(Some(&member.name));
            if !reply.says_nothing() {
                run.chat.append(reply).map_err(RunError::Input)?;
            }
        }
        Ok(match ending {
            RunEnding::HandedOver(to) => MemberOutcome::HandedOver(to),
            RunEnding::Answered | RunEnding::Completed(_) => MemberOutcome::Replied,
        })
    }

    /// Returns the answer of the team: the coordinator's, or the last reply.
    fn finish(&self, run: &Run<'_>, parts: Option<Vec<Part>>) -> Result<Message, RunError> {
        if let Some(parts) = parts {
            let sender = run.me.cx.agent.to_string();
            let message = Message { sender, role: Role::Assistant, parts, meta: Vec::new() };
            if message.says_nothing() {
                return Err(self.failed(Fault::invalid("the coordinator ended the team with an empty answer")));
            }
            run.chat.append(message.clone().by_member(None)).map_err(RunError::Input)?;
            return Ok(message);
        }
        let shared = run.chat.snapshot();
        let mut new = newest(&shared, self.since).into_iter().rev();
        let last = new.find(|entry| entry.message.role == Role::Assistant && !entry.message.is_paired());
        last.map(|entry| Message::clone(&entry.message).without_member()).ok_or(RunError::Empty)
    }

    fn failed(&self, fault: Fault) -> RunError {
        RunError::Coordinator { name: self.team.coordinator.name().to_owned(), fault }
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
fn handoff_note(member: &str, to: &TaskHandoff) -> Message {
    let text = format!("`{member}` hands over to `{}`.{}", to.agent, words_of(to));
    Message::note(member, text).handing_over_to(&to.agent)
}

/// Returns the parts of a message that are meant for others: no thoughts, and no calls and results.
fn said_aloud(message: &Message) -> Vec<Part> {
    message.parts.iter().filter(|part| matches!(part, Part::Text(_) | Part::Media(_))).cloned().collect()
}

#[cfg(test)]
mod tests;
