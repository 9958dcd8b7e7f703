use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{
    Agent, AgentGroup, RunError,
    agent_group::AgentHandle,
    concurrency_permit::ConcurrencyPermit,
    delegate::DelegationContext,
    journal::{DelegationId, JournalRecord, RecordedRun, RunJournal},
    run_middleware::{HANDED_OVER, may_replace_answers},
    run_tasks::RunTasks,
};
use crate::{
    capability::{Budget, BudgetAccount, BudgetBreakdown, Ceiling},
    chat::{Chat, Message},
    event::RunCx,
    model::Usage,
    tool::{CompletionStatus, TaskCompletion, TaskHandoff, ToolBox},
};

/// Anything that works on a conversation until there is an answer: an [`Agent`], or a [`Team`](crate::team::Team) of
/// runners. They nest in any order.
///
/// Every run passes through the runner's middleware, spends from one budget, emits events, is written to the journal, and
/// can be resumed after an interruption.
pub trait Runner: Send + Sync {
    /// Returns the name by which other agents know it.
    fn name(&self) -> &Arc<str>;

    /// Returns its purpose, as shown to people and to other agents.
    fn description(&self) -> &Arc<str>;

    /// Returns the budget of one run, including everything that works for that run.
    fn budget(&self) -> &Budget;

    /// Returns the upper bound on what the agents that it starts may do.
    fn delegable(&self) -> &Ceiling;

    /// Returns the agents that it works with; `None` if it works alone.
    fn agent_group(&self) -> Option<&Arc<AgentGroup>>;

    /// Returns the same runner under another name and with at most this budget.
    fn as_entered(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner>;

    /// Returns `true` if a middleware around its runs may replace its messages. Nobody is shown a message before it has
    /// passed such a middleware.
    fn may_replace_answers(&self) -> bool;

    /// Performs the run itself. [`Runner::run`] and the code that starts sub-runs call it.
    #[doc(hidden)]
    fn work<'a>(
        &'a self,
        start: Box<RunParams>,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>>;

    /// Works on `input` in `chat` until there is an answer. Dropping the future cancels the run and everything that works
    /// for it; the chat stays valid.
    ///
    /// # Errors
    ///
    /// Returns a [`RunError`]. The chat stays valid and holds the work done so far.
    fn run<'a>(
        &'a self,
        cx: &'a RunCx,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        let budget_account = BudgetAccount::new(self.budget(), Instant::now());
        Box::pin(async move { self.run_on(cx, chat, input, &budget_account).await })
    }

    /// Runs like [`Runner::run`], but spends from `budget_account`, for runs that share one budget. [`Runner::budget`] is not
    /// consulted.
    ///
    /// # Errors
    ///
    /// The errors of [`Runner::run`].
    fn run_on<'a>(
        &'a self,
        cx: &'a RunCx,
        chat: &'a Chat,
        input: Vec<Message>,
        budget_account: &'a Arc<BudgetAccount>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        Box::pin(async move {
            let _turn = chat.turn().await;
            let log = self
                .agent_group()
                .and_then(|agent_group| agent_group.journal.as_ref())
                .map(|journal| RunJournal::main(journal, chat));
            self.work(RunParams::of_a_person(self.agent_group(), cx, budget_account, log), chat, input).await
        })
    }

    /// Resumes the unfinished run that a person started in the session of the [group](AgentGroup::resuming), in `chat`, its
    /// conversation. Completed work is not repeated. The run reads `more` before its next turn. Returns `None` if all runs
    /// have ended: then [`Runner::run`] continues the conversation.
    ///
    /// Earlier spending and the time that the run was at work count against the budget.
    ///
    /// # Errors
    ///
    /// The errors of [`Runner::run`].
    fn resume<'a>(
        &'a self,
        cx: &'a RunCx,
        chat: &'a Chat,
        more: Vec<Message>,
    ) -> BoxFuture<'a, Option<Result<RunAnswer, RunError>>> {
        Box::pin(async move {
            let journal = self.agent_group()?.journal.as_ref()?;
            let _turn = chat.turn().await;
            let (run, mut past) = journal.unfinished()?;
            let began = Instant::now().checked_sub(past.elapsed).unwrap_or_else(Instant::now);
            let budget_account = BudgetAccount::restored(self.budget(), began, past.spent);
            let log = RunJournal::of(journal, run);
            for message in &more {
                log.write(&JournalRecord::Sent { message: message.clone() });
            }
            let waiting = std::mem::take(&mut past.inbox).into_iter().chain(more).collect();
            let start = RunParams {
                past: Some(past),
                ..RunParams::with_waiting(self.agent_group(), cx, &budget_account, Some(log), waiting)
            };
            Some(self.work(Box::new(start), chat, Vec::new()).await)
        })
    }
}

/// The outcome of a run that did not fail.
#[derive(Debug, Clone)]
pub struct RunAnswer {
    /// The final message: the answer, or the report with which the agent ended its task or handed it over.
    pub message: Message,
    /// The way in which the run ended.
    pub ending: RunEnding,
    /// Turns of an agent or steps of a team, over all attempts.
    pub iterations: u32,
    /// Tokens of all completions of this agent, including those that its effects asked for.
    pub usage: Usage,
    /// Everything that was spent: by this agent, and by the agents that worked for it.
    pub account: BudgetBreakdown,
}

/// The way in which a successful run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RunEnding {
    /// The last reply calls no tool.
    #[default]
    Answered,
    /// The agent reported that its task has ended.
    Completed(TaskCompletion),
    /// The agent asked for another agent to continue.
    HandedOver(TaskHandoff),
}

impl RunEnding {
    /// Returns the word for this ending that middleware sees; `None` for an answer.
    pub(super) fn word(&self) -> Option<&'static str> {
        Some(match self {
            Self::Answered => return None,
            Self::Completed(TaskCompletion { status: CompletionStatus::Completed, .. }) => "completed",
            Self::Completed(TaskCompletion { status: CompletionStatus::Failed, .. }) => "failed",
            Self::HandedOver(_) => HANDED_OVER,
        })
    }

    /// Returns the full report to the agent that gets the task back.
    pub(super) fn report(&self) -> String {
        match self {
            Self::Answered => String::new(),
            Self::Completed(completed) => completed.in_full(),
            Self::HandedOver(to) => format!("{}\n\n{}", to.reason, to.context),
        }
    }

    /// Takes over the report as middleware left it. If middleware changed it, only the changed text remains.
    pub(super) fn report_as(&mut self, message: &Message) {
        let text = message.text_content();
        if text == self.report() {
            return;
        }
        match self {
            Self::Answered => {}
            Self::Completed(completed) => {
                *completed = TaskCompletion { summary: text, ..TaskCompletion::bare(completed.status) }
            }
            Self::HandedOver(to) => (to.context, to.reason) = (text, String::new()),
        }
    }
}

impl<R: Runner + ?Sized> Runner for Arc<R> {
    fn name(&self) -> &Arc<str> {
        (**self).name()
    }

    fn description(&self) -> &Arc<str> {
        (**self).description()
    }

    fn budget(&self) -> &Budget {
        (**self).budget()
    }

    fn delegable(&self) -> &Ceiling {
        (**self).delegable()
    }

    fn agent_group(&self) -> Option<&Arc<AgentGroup>> {
        (**self).agent_group()
    }

    fn as_entered(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner> {
        (**self).as_entered(name, budget)
    }

    fn may_replace_answers(&self) -> bool {
        (**self).may_replace_answers()
    }

    fn work<'a>(
        &'a self,
        start: Box<RunParams>,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        (**self).work(start, chat, input)
    }
}

/// The parameters of a run.
pub struct RunParams {
    pub(crate) cx: RunCx,
    pub(crate) agent_group: Option<Arc<AgentGroup>>,
    pub(crate) budget_account: Arc<BudgetAccount>,
    /// The upper bound on what the agents that this run starts may do.
    pub(crate) ceiling: Ceiling,
    pub(crate) handle: AgentHandle,
    pub(crate) place: ConcurrencyPermit,
    pub(crate) tasks: RunTasks,
    pub(crate) run_origin: RunOrigin,
    /// Tools that the runner has in this run in addition to its own.
    pub(crate) more_tools: ToolBox,
    /// The instructions for all members of the team in which it works, and of the teams around that team.
    pub(crate) team_instructions: Arc<str>,
    /// The journal of the run, if there is one.
    pub(crate) log: Option<RunJournal>,
    /// The delegated task that it works on for its parent run.
    pub(crate) errand: Option<DelegationId>,
    /// The state in which the run was interrupted; `None` for a new run.
    pub(crate) past: Option<Box<RecordedRun>>,
}

/// The party for which a run works.
#[derive(Debug, Clone, Default)]
pub(crate) enum RunOrigin {
    /// The person who started the run.
    #[default]
    Person,
    /// The agent that delegated a task to it.
    Delegator(Arc<DelegationContext>),
    /// The parent that runs it as a team member or calls it as a tool, by instance name.
    Member(Arc<str>),
}

impl RunOrigin {
    /// Returns the context that the delegating agent gave.
    pub fn assignment(&self) -> Option<&Arc<DelegationContext>> {
        match self {
            Self::Delegator(assignment) => Some(assignment),
            Self::Person | Self::Member(_) => None,
        }
    }

    /// Returns the instance name of the parent; `None` if a person started the run.
    pub fn parent(&self) -> Option<&Arc<str>> {
        match self {
            Self::Person => None,
            Self::Delegator(assignment) => Some(&assignment.by),
            Self::Member(of) => Some(of),
        }
    }
}

impl RunParams {
    /// Returns the parameters of a run that a person starts.
    pub(super) fn of_a_person(
        agent_group: Option<&Arc<AgentGroup>>,
        cx: &RunCx,
        budget_account: &Arc<BudgetAccount>,
        log: Option<RunJournal>,
    ) -> Box<Self> {
        Box::new(Self::with_waiting(agent_group, cx, budget_account, log, Vec::new()))
    }

    fn with_waiting(
        agent_group: Option<&Arc<AgentGroup>>,
        cx: &RunCx,
        budget_account: &Arc<BudgetAccount>,
        log: Option<RunJournal>,
        waiting: Vec<Message>,
    ) -> Self {
        Self {
            cx: cx.anew(),
            agent_group: agent_group.cloned(),
            budget_account: Arc::clone(budget_account),
            ceiling: Ceiling::default(),
            handle: agent_group.map(|agent_group| agent_group.enter(&cx.agent, waiting)).unwrap_or_default(),
            place: ConcurrencyPermit::free(),
            tasks: RunTasks::default(),
            run_origin: RunOrigin::Person,
            more_tools: ToolBox::new(),
            team_instructions: Arc::default(),
            log,
            errand: None,
            past: None,
        }
    }
}

impl Runner for Agent {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn description(&self) -> &Arc<str> {
        &self.description
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn delegable(&self) -> &Ceiling {
        &self.delegable
    }

    fn agent_group(&self) -> Option<&Arc<AgentGroup>> {
        self.agent_group.as_ref()
    }

    fn as_entered(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner> {
        Arc::new(Self { name, budget: self.budget.meet(budget), ..self.clone() })
    }

    fn may_replace_answers(&self) -> bool {
        may_replace_answers(&self.middleware)
    }

    fn work<'a>(
        &'a self,
        start: Box<RunParams>,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        Box::pin(self.run_as(start, chat, input))
    }
}

impl Agent {
    /// Runs the agent like [`Runner::run`]. Puts the system prompt in front of the chat, or updates it.
    ///
    /// # Errors
    ///
    /// The errors of [`Runner::run`].
    pub async fn run(&self, cx: &RunCx, chat: &Chat, input: Vec<Message>) -> Result<RunAnswer, RunError> {
        Runner::run(self, cx, chat, input).await
    }

    /// Runs the agent like [`Runner::run_on`].
    ///
    /// # Errors
    ///
    /// The errors of [`Runner::run`].
    pub async fn run_on(
        &self,
        cx: &RunCx,
        chat: &Chat,
        input: Vec<Message>,
        budget_account: &Arc<BudgetAccount>,
    ) -> Result<RunAnswer, RunError> {
        Runner::run_on(self, cx, chat, input, budget_account).await
    }

    /// Resumes the agent like [`Runner::resume`].
    ///
    /// # Errors
    ///
    /// The errors of [`Runner::run`].
    pub async fn resume(&self, cx: &RunCx, chat: &Chat, more: Vec<Message>) -> Option<Result<RunAnswer, RunError>> {
        Runner::resume(self, cx, chat, more).await
    }
}
