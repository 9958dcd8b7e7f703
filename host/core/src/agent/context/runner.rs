use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{AgentGroup, AgentHandle, ConcurrencyPermit, RunOrigin, RunTasks};
use crate::{
    agent::{
        journal::{DelegationKey, JournalRecord, RecordedRun, RunJournal},
        middleware::{RunMiddleware, may_replace_answers},
        outcome::{RunAnswer, RunError},
    },
    capability::{Budget, BudgetAccount, Ceiling},
    chat::{Chat, Message},
    event::RunCx,
    tool::ToolBox,
};

/// Anything that works on a conversation until there is an answer: an [`Agent`](crate::agent::Agent), or a [`Team`](crate::team::Team) of
/// runners. They nest in any order.
///
/// Every run passes through the runner's middleware, spends from one budget, emits events, is written to the journal, and
/// can be resumed after an interruption.
pub trait Runner: Send + Sync {
    /// Returns the properties that it has in common with all runners.
    fn profile(&self) -> RunnerProfile<'_>;

    /// Returns the same runner under another name and with at most this budget.
    fn with_name_and_budget(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner>;

    /// Returns the name by which other agents know it.
    fn name(&self) -> &Arc<str> {
        self.profile().name
    }

    /// Returns its purpose, as shown to people and to other agents.
    fn description(&self) -> &Arc<str> {
        self.profile().description
    }

    /// Returns the budget of one run, including everything that works for that run.
    fn budget(&self) -> &Budget {
        self.profile().budget
    }

    /// Returns the upper bound on what the agents that it starts may do.
    fn delegable(&self) -> &Ceiling {
        self.profile().delegable
    }

    /// Returns the agents that it works with; `None` if it works alone.
    fn agent_group(&self) -> Option<&Arc<AgentGroup>> {
        self.profile().agent_group
    }

    /// Returns `true` if a middleware around its runs may replace its messages. Nobody is shown a message before it has
    /// passed such a middleware.
    fn may_replace_answers(&self) -> bool {
        may_replace_answers(self.profile().middleware)
    }

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
            let (run, mut recorded) = journal.take_unfinished()?;
            let began = Instant::now().checked_sub(recorded.elapsed).unwrap_or_else(Instant::now);
            let budget_account = BudgetAccount::restored(self.budget(), began, recorded.spent);
            let log = RunJournal::of(journal, run);
            for message in &more {
                log.write(&JournalRecord::Sent { message: message.clone() });
            }
            let waiting = std::mem::take(&mut recorded.inbox).into_iter().chain(more).collect();
            let start = RunParams {
                recorded: Some(recorded),
                ..RunParams::with_waiting(self.agent_group(), cx, &budget_account, Some(log), waiting)
            };
            Some(self.work(Box::new(start), chat, Vec::new()).await)
        })
    }
}

impl<R: Runner + ?Sized> Runner for Arc<R> {
    fn profile(&self) -> RunnerProfile<'_> {
        (**self).profile()
    }

    fn with_name_and_budget(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner> {
        (**self).with_name_and_budget(name, budget)
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

/// The properties that an agent and a team have in common.
#[derive(Clone, Copy)]
pub struct RunnerProfile<'a> {
    /// The name by which other agents know it.
    pub name: &'a Arc<str>,
    /// Its purpose, as shown to people and to other agents.
    pub description: &'a Arc<str>,
    /// The budget of one run, including everything that works for that run.
    pub budget: &'a Budget,
    /// The upper bound on what the agents that it starts may do.
    pub delegable: &'a Ceiling,
    /// The agents that it works with; `None` if it works alone.
    pub agent_group: Option<&'a Arc<AgentGroup>>,
    /// The middleware around its runs, outermost first.
    pub middleware: &'a [Arc<dyn RunMiddleware>],
}

/// The parameters of a run.
pub struct RunParams {
    pub(crate) cx: RunCx,
    pub(crate) agent_group: Option<Arc<AgentGroup>>,
    pub(crate) budget_account: Arc<BudgetAccount>,
    /// The upper bound on what the agents that this run starts may do.
    pub(crate) ceiling: Ceiling,
    pub(crate) handle: AgentHandle,
    pub(crate) permit: ConcurrencyPermit,
    pub(crate) spawned: RunTasks,
    pub(crate) run_origin: RunOrigin,
    /// Tools that the runner has in this run in addition to its own.
    pub(crate) more_tools: ToolBox,
    /// The instructions for all members of the team in which it works, and of the teams around that team.
    pub(crate) team_instructions: Arc<str>,
    /// The journal of the run, if there is one.
    pub(crate) log: Option<RunJournal>,
    /// The delegated task that it works on for its parent run.
    pub(crate) delegation_key: Option<DelegationKey>,
    /// The state in which the run was interrupted; `None` for a new run.
    pub(crate) recorded: Option<Box<RecordedRun>>,
}

impl RunParams {
    /// Returns the parameters of a run that a person starts.
    pub(crate) fn of_a_person(
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
            cx: cx.of_new_run(),
            agent_group: agent_group.cloned(),
            budget_account: Arc::clone(budget_account),
            ceiling: Ceiling::default(),
            handle: agent_group.map(|agent_group| agent_group.join(&cx.agent, waiting)).unwrap_or_default(),
            permit: ConcurrencyPermit::free(),
            spawned: RunTasks::default(),
            run_origin: RunOrigin::Person,
            more_tools: ToolBox::new(),
            team_instructions: Arc::default(),
            log,
            delegation_key: None,
            recorded: None,
        }
    }
}
