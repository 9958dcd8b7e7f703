use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    board_task_claim::BoardTaskClaim,
    delegate_args::DelegationRequest,
    instance_name::instance_name,
    sub_run::{ParentRun, SubRun, SubRunConversation, SubRunFailure, take_recorded_answer},
};
use crate::{
    agent::{
        context::{
            AgentGroup, ConcurrencyPermit, DelegationContext, QuestionRoute, RunOrigin, Runner, SpawnError,
            SpawnedAgent, in_time,
        },
        journal::{DelegationKey, DelegationReport, JournalRecord, RecordedFailure, RecordedRun},
        outcome::{RunAnswer, RunEnding, RunError},
        text::{cut, in_tags},
    },
    capability::{BudgetAllocation, Ceiling},
    chat::Message,
    event::Event,
    limits,
    state::TaskStatus,
    tool::{CompletionStatus, TaskCompletion, TaskHandoff, ToolBox},
};

/// One delegated task, from its request to its report. It does not keep the delegating run alive: when that is dropped, so
/// is the delegation.
pub(super) struct Delegation {
    pub parent_run: ParentRun,
    pub agent_group: Arc<AgentGroup>,
    /// The name of the delegating agent.
    pub delegator: Arc<str>,
    /// The id of the call that delegates it.
    pub call: Arc<str>,
    /// The number of times that the task may be handed to another agent.
    pub handoffs: u32,
    /// The instance name of the first agent that works on it.
    pub instance: Arc<str>,
    pub request: DelegationRequest,
    pub share: BudgetAllocation,
    pub question_route: QuestionRoute,
    pub question_time: Option<Duration>,
    /// Cancelled when another task of the same call has failed.
    pub stop: CancellationToken,
    /// The key of this task in the journal of the delegating run.
    pub delegation_key: Option<DelegationKey>,
    /// The runs that worked on it before the delegating run was interrupted, in order.
    pub past_runs: Vec<u64>,
}

/// The state of a run from before the delegating run was interrupted, until another run continues it. If none does, what it has
/// spent is spent on the task.
struct InterruptedRun<'a> {
    delegation: &'a Delegation,
    past_run: Option<(u64, Box<RecordedRun>)>,
}

impl InterruptedRun<'_> {
    fn take(mut self) -> Option<(u64, Box<RecordedRun>)> {
        self.past_run.take()
    }
}

impl Drop for InterruptedRun<'_> {
    fn drop(&mut self) {
        if let Some((run, past_run)) = self.past_run.take() {
            let spent = self.delegation.parent_run.spent_by_abandoned(run, &past_run);
            self.delegation.share.budget_account().charge_child(spent);
        }
    }
}

/// The agent that works on a task, which may hand it to another one.
struct Assignee {
    /// Its name in the registry.
    name: String,
    instance: Arc<str>,
    /// The upper bound on what it may do.
    ceiling: Ceiling,
    /// The facts that it must know.
    context: String,
    /// The number of times that the task may still be handed to another agent.
    handoffs_left: u32,
    /// The instance name of the agent that gave it the task.
    from: Arc<str>,
}

impl Delegation {
    /// Works on the task. Boxed, as the future would otherwise hold it twice.
    pub async fn run(self: Box<Self>) -> DelegationReport {
        let mut report = DelegationReport::of(&self.request.agent);
        let claim = self.claim(&mut report);
        let outcome = tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(DelegationFailure::Stopped),
            () = claim.cancelled() => Err(DelegationFailure::Cancelled),
            outcome = self.carry_out(&claim, &mut report) => outcome,
        };
        if matches!(outcome, Err(DelegationFailure::Stopped | DelegationFailure::Cancelled)) {
            // The agents that it had started have spent for this task too. Boxed, since few tasks are cut off.
            let gone = tokio::time::timeout(limits::CANCEL_GRACE, self.parent_run.spawned.gone());
            let _ = Box::pin(gone).await;
        }
        let status = match &outcome {
            Ok(RunAnswer { ending: RunEnding::Completed(completion), .. })
                if completion.status == CompletionStatus::Failed =>
            {
                TaskStatus::Failed
            }
            Ok(_) => TaskStatus::Completed,
            Err(DelegationFailure::Cancelled) => TaskStatus::Canceled,
            Err(_) => TaskStatus::Failed,
        };
        match completion_of(outcome) {
            Ok(completed) => {
                self.reflect(&completed, &mut report).await;
                report = report.completed(completed);
            }
            Err(TaskEnd::Answer(text)) => report.result = Some(text),
            Err(TaskEnd::Failure(failure)) => report.error = Some(failure.to_string()),
        }
        self.share.budget_account().charge_child(self.parent_run.spent_by_interrupted(&self.past_runs));
        let account = self.share.settle();
        // Written before the board changes: after a crash in between, the resumed run changes the board.
        if let Some((log, DelegationKey { call, position, .. })) = self.parent_run.log.zip(self.delegation_key) {
            let (entry, board) = (report.clone(), claim.outcome(status));
            log.write(&JournalRecord::Returned { call, position, entry, account, board });
        }
        if let Err(error) = claim.settle(status) {
            report.warn(format!("the task board was not updated: {error}"));
        }
        report
    }

    /// Returns the claim on the board task that the request names.
    fn claim(&self, report: &mut DelegationReport) -> BoardTaskClaim {
        let board_task = self.request.task_id.clone().filter(|id| !id.is_empty());
        if board_task.is_some() && self.agent_group.board.is_none() {
            report.warn("there is no task board; `task_id` was ignored".into());
        }
        BoardTaskClaim::new(self.agent_group.board.clone(), board_task)
    }

    /// Runs agents on the task, one after the other if it is handed over.
    async fn carry_out(
        &self,
        claim: &BoardTaskClaim,
        report: &mut DelegationReport,
    ) -> Result<RunAnswer, DelegationFailure> {
        let (mut assignee, mut input) = (self.first_assignee(), self.first_input().await);
        let mut stage = 0;
        loop {
            // Each past run is that of one assignee, in order.
            let past_run = self.parent_run.past_run(&self.past_runs, stage);
            if let Some((_, past_run)) = &past_run {
                (assignee.name, assignee.instance) = (past_run.agent.to_string(), past_run.instance.clone());
            }
            let has_ended = past_run.as_ref().is_some_and(|(_, past_run)| past_run.ended.is_some());
            input.push(Message::user(self.request.task.clone()));
            let answer = self.run_assignee(claim, &assignee, input, past_run).await?;
            let RunEnding::HandedOver(handoff) = answer.ending else { return Ok(answer) };
            if !has_ended {
                let (mut reason, to) = (handoff.reason.clone(), handoff.agent.as_str().into());
                cut(&mut reason, limits::DELEGATION_ANSWER_CHARS);
                let event = Event::HandedOver { agent: assignee.instance.clone(), to, reason };
                self.parent_run.cx.events.emit(event).await;
            }
            report.handed_over_to = Some(handoff.agent.as_str().into());
            stage += 1;
            (assignee, input) = self.next_assignee(assignee, handoff, stage);
        }
    }

    fn first_assignee(&self) -> Assignee {
        let mut context = self.request.context.clone();
        cut(&mut context, limits::DELEGATION_CONTEXT_CHARS);
        Assignee {
            name: self.request.agent.clone(),
            instance: Arc::clone(&self.instance),
            ceiling: self.parent_run.ceiling.clone(),
            context,
            handoffs_left: self.handoffs,
            from: Arc::clone(&self.parent_run.cx.agent),
        }
    }

    /// Returns what the first agent reads before the task.
    async fn first_input(&self) -> Vec<Message> {
        let from = &*self.parent_run.cx.agent;
        let mut input = vec![Message::note(from, context_in_tags("delegation_context", &self.request.context))];
        if let Some(reflections) = &self.agent_group.reflections {
            let prior = reflections.relevant(&self.request.task).await;
            input.extend(prior.map(|prior| Message::note(from, context_in_tags("prior_reflections", &prior))));
        }
        input
    }

    /// Returns the agent that a task is handed to, with what it reads before the task.
    fn next_assignee(&self, assignee: Assignee, handoff: TaskHandoff, stage: usize) -> (Assignee, Vec<Message>) {
        let Assignee { name, instance, ceiling, handoffs_left, .. } = assignee;
        let TaskHandoff { agent, reason, mut context } = handoff;
        // The agent that hands over starts the next one, so the next one gets no more than that agent may pass on.
        let handing = self.agent_group.registry.spawn(&name, &ceiling).and_then(Result::ok);
        let ceiling = handing.map_or_else(Ceiling::nothing, |runner| ceiling.meet(runner.delegable()));
        let handed = format!("{name} hands this task over to you.\nReason: {reason}\n\n{context}");
        let input = vec![Message::note(&*name, context_in_tags("handoff_context", &handed))];
        cut(&mut context, limits::DELEGATION_CONTEXT_CHARS);
        let next = Assignee {
            instance: match self.past_runs.get(stage) {
                // The past run has the instance name.
                Some(_) => Arc::default(),
                None => instance_name(&self.agent_group, &agent, &self.request.task),
            },
            // The handoff tool has checked that there is such an agent, and that the task may still be handed over.
            handoffs_left: handoffs_left.saturating_sub(1),
            name: agent,
            ceiling,
            context,
            from: instance,
        };
        (next, input)
    }

    /// Runs one agent from its creation to its end.
    async fn run_assignee(
        &self,
        claim: &BoardTaskClaim,
        assignee: &Assignee,
        input: Vec<Message>,
        mut past_run: Option<(u64, Box<RecordedRun>)>,
    ) -> Result<RunAnswer, DelegationFailure> {
        let Assignee { instance, ceiling, context, handoffs_left, .. } = assignee;
        if let Some(answer) = past_run.as_mut().and_then(|(_, past_run)| take_recorded_answer(past_run)) {
            claim.reclaim(instance);
            return answer.map_err(|failure| match failure.cancelled {
                true => DelegationFailure::Cancelled,
                false => DelegationFailure::Recorded(instance.clone(), failure),
            });
        }
        let (cx, share) = (&self.parent_run.cx, self.share.budget_account());
        // This task may be stopped while it waits for its agent and for permits.
        let interrupted = InterruptedRun { delegation: self, past_run };
        let (runner, permit) = self.admit_assignee(claim, assignee, interrupted.past_run.is_none()).await?;
        let past_run = interrupted.take();
        let run_failed = |error| DelegationFailure::Run(instance.clone(), error);
        let assignment = DelegationContext {
            delegator: cx.agent.clone(),
            call: Arc::clone(&self.call),
            context: context.clone(),
            handoffs_left: *handoffs_left,
            question_route: self.question_route.clone(),
            question_time: self.question_time,
        };
        let sub_run = SubRun {
            parent_run: &self.parent_run,
            runner: &*runner,
            instance,
            depth: cx.depth + 1,
            ceiling,
            run_origin: RunOrigin::Delegator(Arc::new(assignment)),
            delegation_key: self.delegation_key.clone(),
            conversation: SubRunConversation::New,
            tools: ToolBox::new(),
            team_instructions: Arc::default(),
            recorded: past_run,
        };
        let own = sub_run.allocate(share);
        sub_run.execute(own, permit, input).await.map_err(|failure| match failure {
            SubRunFailure::Lost(error) => DelegationFailure::Other(format!("the work of the agent is lost: {error}")),
            SubRunFailure::Run(RunError::Cancelled) => DelegationFailure::Cancelled,
            SubRunFailure::Run(error) => run_failed(error),
        })
    }

    /// Creates the agent, gives it the board task, and waits for the permits of its run. `is_new`: it has not run before.
    async fn admit_assignee(
        &self,
        claim: &BoardTaskClaim,
        Assignee { name, instance, ceiling, from, .. }: &Assignee,
        is_new: bool,
    ) -> Result<(Arc<dyn Runner>, ConcurrencyPermit), DelegationFailure> {
        let spawned = self.agent_group.spawn_agent(&self.parent_run.cx, &self.delegator, name, ceiling).await;
        let SpawnedAgent { runner, permits } = spawned.map_err(|why| match why {
            SpawnError::Unknown(message) => DelegationFailure::Other(message),
            SpawnError::Refused(message) => {
                DelegationFailure::Other(format!("{message}; give the task to another agent"))
            }
        })?;
        if is_new {
            self.agent_group.begin().map_err(|error| DelegationFailure::Other(error.to_string()))?;
        }
        claim.claim(instance, from).map_err(DelegationFailure::Other)?;
        let permit = in_time(self.share.budget_account(), self.parent_run.take_permit(permits.as_ref())).await;
        Ok((runner, permit.map_err(|error| DelegationFailure::Run(instance.clone(), error))?))
    }

    /// Writes a reflection if the task failed.
    async fn reflect(&self, completed: &TaskCompletion, report: &mut DelegationReport) {
        if completed.status == CompletionStatus::Failed
            && let Some(reflections) = &self.agent_group.reflections
            && let Err(error) = reflections.write(&self.request.agent, &self.request.task, completed).await
        {
            report.warn(format!("cannot write the reflection: {error}"));
        }
    }
}

/// The end of a task without a structured completion.
enum TaskEnd {
    Answer(String),
    Failure(DelegationFailure),
}

/// Returns the structured completion of a task, as its agent reported it, or as the end of a budget makes it.
fn completion_of(outcome: Result<RunAnswer, DelegationFailure>) -> Result<TaskCompletion, TaskEnd> {
    match outcome {
        Ok(RunAnswer { ending: RunEnding::Completed(completed), .. }) => Ok(completed),
        Ok(answer) => Err(TaskEnd::Answer(answer.message.text_content())),
        Err(DelegationFailure::Run(instance, error)) if error.is_exhausted() => {
            Ok(exhausted(&instance, &error.in_full()))
        }
        Err(DelegationFailure::Recorded(instance, failure)) if failure.exhausted => {
            Ok(exhausted(&instance, &failure.fault.to_string()))
        }
        Err(failure) => Err(TaskEnd::Failure(failure)),
    }
}

/// Returns the completion of a task whose agent has used up a budget.
fn exhausted(instance: &str, error: &str) -> TaskCompletion {
    let summary = format!("{instance} stopped before its task was done: {error}");
    TaskCompletion { summary, ..TaskCompletion::bare(CompletionStatus::Failed) }
}

/// The reason why there is no answer.
enum DelegationFailure {
    /// Another task of the same call has failed.
    Stopped,
    /// The task was cancelled on the board, or its agent was cancelled.
    Cancelled,
    Run(Arc<str>, RunError),
    /// The run had failed before the delegating run was interrupted.
    Recorded(Arc<str>, RecordedFailure),
    Other(String),
}

impl std::fmt::Display for DelegationFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped: another task of the same call failed"),
            Self::Cancelled => f.write_str("task canceled"),
            Self::Run(_, error) => f.write_str(&error.in_full()),
            Self::Recorded(_, RecordedFailure { fault, .. }) => fault.fmt(f),
            Self::Other(text) => f.write_str(text),
        }
    }
}

fn context_in_tags(tag: &str, text: &str) -> String {
    let mut text = text.trim().to_owned();
    cut(&mut text, limits::DELEGATION_CONTEXT_CHARS);
    in_tags(tag, &text)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::{
        agent::{
            Agent, AgentEntry, AgentRegistry,
            testing::{MemoryRecorder, recorded_group, resumed_group},
        },
        capability::{Budget, BudgetBreakdown},
        chat::Chat,
        error::Fault,
        event::RunCx,
        model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ScriptedCompleter},
    };

    /// A model that never replies again after its script.
    struct HangingCompleter {
        script: ScriptedCompleter,
        replies: usize,
    }

    #[async_trait]
    impl Completer for HangingCompleter {
        fn info(&self) -> &ModelInfo {
            self.script.info()
        }

        async fn complete(
            &self,
            cx: &RunCx,
            request: &CompletionRequest,
            sink: &DeltaSink,
        ) -> Result<Completion, Fault> {
            if self.script.requests().len() == self.replies {
                return std::future::pending().await;
            }
            self.script.complete(cx, request, sink).await
        }
    }

    fn calls(name: &str, arguments: &str) -> Result<Completion, Fault> {
        ScriptedCompleter::calls(&[("c1", name, arguments)])
    }

    fn hanging(name: &str, script: Vec<Result<Completion, Fault>>) -> Agent {
        let replies = script.len();
        Agent::new(name, "", Arc::new(HangingCompleter { script: ScriptedCompleter::new(script), replies }))
    }

    /// Returns a registry with `leaf`, which calls a tool that is not there and hangs then; `mid`, which delegates to it; and
    /// `late`, which fails after a minute.
    fn registry() -> AgentRegistry {
        let registry = AgentRegistry::new();
        registry.register(AgentEntry::new("leaf", ""), || hanging("leaf", vec![calls("none", "{}")]));
        registry.register(AgentEntry::new("mid", ""), || {
            let mut mid = hanging("mid", vec![calls("delegate", &delegate(&["leaf"]))]);
            mid.options.max_delegation_depth = 2;
            mid
        });
        registry.register(AgentEntry::new("late", ""), || {
            hanging("late", vec![]).with_budget(Budget { time: Some(Duration::from_secs(60)), ..Budget::default() })
        });
        registry
    }

    fn delegate(agents: &[&str]) -> String {
        let task = |agent| format!(r#"{{"agent":"{agent}","task":"Paint","context":"It is old."}}"#);
        let tasks: Vec<_> = agents.iter().map(task).collect();
        format!(r#"{{"tasks":[{}],"fail_fast":true}}"#, tasks.join(","))
    }

    fn ends_call((_, record): &(u64, JournalRecord)) -> bool {
        matches!(record, JournalRecord::CallEnded { .. })
    }

    /// Returns the records of a lead that delegates to these agents, and what it spends.
    async fn recorded(agents: &[&str]) -> (Vec<(u64, JournalRecord)>, BudgetBreakdown) {
        let recorder = Arc::<MemoryRecorder>::default();
        let lead = hanging("lead", vec![calls("delegate", &delegate(agents)), ScriptedCompleter::text("done")]);
        let lead = lead.with_agent_group(recorded_group(&recorder, &registry()), 1);
        let whole = lead.run(&RunCx::new("lead"), &Chat::recorded(), vec![Message::user("go")]).await.unwrap();
        (recorder.records(), whole.account)
    }

    /// Returns what the lead spends if it is interrupted after these records, and resumed with this delegation depth.
    async fn spent_after(records: &[(u64, JournalRecord)], agents: &AgentRegistry, depth: u32) -> BudgetBreakdown {
        let (group, chat) = resumed_group(records, agents);
        let lead = hanging("lead", vec![ScriptedCompleter::text("done")]).with_agent_group(group, depth);
        lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap().account
    }

    /// Returns what a lead spends that delegates to these agents, and what it spends if it is interrupted at the record that
    /// `cut` finds and resumed with this delegation depth.
    async fn spent(
        agents: &[&str],
        cut: impl Fn(&[(u64, JournalRecord)]) -> Option<usize>,
        depth: u32,
    ) -> (BudgetBreakdown, BudgetBreakdown) {
        let (records, whole) = recorded(agents).await;
        (whole, spent_after(&records[..=cut(&records).unwrap()], &registry(), depth).await)
    }

    #[tokio::test(start_paused = true)]
    async fn spending_of_cut_off_agents_counts_after_a_resume() {
        // `leaf` is cut off by the time of the call, or because `late` has failed, also if `mid` had started it.
        for agents in [&["leaf"][..], &["mid"], &["leaf", "late"], &["mid", "late"]] {
            let (whole, resumed) = spent(agents, |records| records.iter().rposition(ends_call), 1).await;
            assert!(whole.of_children.usage.total() > 0, "{agents:?}");
            assert_eq!(resumed, whole, "{agents:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spending_of_agents_that_cannot_continue_counts() {
        let (whole, resumed) = spent(&["leaf"], |records| records.iter().position(ends_call), 0).await;
        assert_eq!((resumed.of_children.usage, resumed.own.usage), (whole.of_children.usage, whole.own.usage));
    }

    #[tokio::test(start_paused = true)]
    async fn failed_call_begins_no_work_when_it_is_resumed() {
        let first_returned =
            |records: &[_]| records.iter().position(|(_, record)| matches!(record, JournalRecord::Returned { .. }));
        // `late` has failed, and the others were not stopped yet: `leaf` would ask its model again.
        for agents in [["late", "leaf"], ["late", "mid"]] {
            let (whole, resumed) = spent(&agents, first_returned, 1).await;
            assert!(whole.of_children.usage.total() > 0, "{agents:?}");
            assert_eq!(resumed, whole, "{agents:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spending_of_an_agent_stopped_while_it_waits_counts() {
        let (records, _) = recorded(&["leaf", "leaf"]).await;
        let lead = records[0].0;
        let cut = records.iter().rposition(|(run, _)| *run != lead).unwrap();
        let replies = records[..=cut].iter().filter_map(|(run, record)| match record {
            JournalRecord::Replied { usage, .. } if *run != lead => Some(usage.total()),
            _ => None,
        });
        let replies: Vec<_> = replies.collect();
        assert_eq!(replies.len(), 2, "both have spent something");
        // Only one works at once now. It fails after a minute, in which the other one waits for its permit.
        let one_by_one = AgentRegistry::new();
        one_by_one.register(AgentEntry { max_concurrency: Some(1), ..AgentEntry::new("leaf", "") }, || {
            hanging("leaf", vec![]).with_budget(Budget { time: Some(Duration::from_secs(60)), ..Budget::default() })
        });
        let resumed = spent_after(&records[..=cut], &one_by_one, 1).await;
        assert_eq!(resumed.of_children.usage.total(), replies.iter().sum::<u64>());
    }
}
