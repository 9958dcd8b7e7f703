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

/// Whatever works on a conversation until there is an answer: an [`Agent`], or a [`Team`](crate::team::Team) of such. They
/// nest in any order.
///
/// Whatever it is, a run of it goes through the middleware around it, spends from one budget, is told in events, written
/// down, and goes on where it was interrupted.
pub trait Runner: Send + Sync {
    /// Its name, by which others know it.
    fn name(&self) -> &Arc<str>;

    /// What it is good for, for people and for other agents.
    fn description(&self) -> &Arc<str>;

    /// What one run may spend, all that work for it included.
    fn budget(&self) -> &Budget;

    /// What those that it starts may not exceed.
    fn delegable(&self) -> &Ceiling;

    /// Those it works with; none: it works alone.
    fn crew(&self) -> Option<&Arc<AgentGroup>>;

    /// The same under another name and with no more than this to spend.
    fn as_entered(&self, name: Arc<str>, budget: &Budget) -> Arc<dyn Runner>;

    /// Returns `true` if something around its runs may put another message in place of what it says: until that has passed,
    /// nobody is shown it.
    fn may_replace_answers(&self) -> bool;

    /// The run itself; [`Runner::run`] and whoever starts others begin it.
    #[doc(hidden)]
    fn work<'a>(
        &'a self,
        start: Box<RunParams>,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>>;

    /// Works on `input` in `chat` until there is an answer. Dropping the future cancels the run and all that work for it;
    /// the chat stays valid.
    ///
    /// # Errors
    ///
    /// [`RunError`]; the chat stays valid and holds what was done.
    fn run<'a>(
        &'a self,
        cx: &'a RunCx,
        chat: &'a Chat,
        input: Vec<Message>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        let purse = BudgetAccount::new(self.budget(), Instant::now());
        Box::pin(async move { self.run_on(cx, chat, input, &purse).await })
    }

    /// The same, spending from `purse`: for runs that share one budget. What [`Runner::budget`] says is not looked at.
    ///
    /// # Errors
    ///
    /// As [`Runner::run`].
    fn run_on<'a>(
        &'a self,
        cx: &'a RunCx,
        chat: &'a Chat,
        input: Vec<Message>,
        purse: &'a Arc<BudgetAccount>,
    ) -> BoxFuture<'a, Result<RunAnswer, RunError>> {
        Box::pin(async move {
            let _turn = chat.turn().await;
            let log = self.crew().and_then(|crew| crew.journal.as_ref()).map(|journal| RunJournal::main(journal, chat));
            self.work(RunParams::of_a_person(self.crew(), cx, purse, log), chat, input).await
        })
    }

    /// Goes on with the run that a person started in the session of the [crew](AgentGroup::resuming) and that has not ended, in
    /// `chat`, its conversation. What was done is not done again; `more` is what it is told before its next turn. None if all
    /// runs have ended: then [`Runner::run`] goes on with the conversation.
    ///
    /// What it has spent counts for the budget, and the time that it was at work.
    ///
    /// # Errors
    ///
    /// As [`Runner::run`].
    fn resume<'a>(
        &'a self,
        cx: &'a RunCx,
        chat: &'a Chat,
        more: Vec<Message>,
    ) -> BoxFuture<'a, Option<Result<RunAnswer, RunError>>> {
        Box::pin(async move {
            let journal = self.crew()?.journal.as_ref()?;
            let _turn = chat.turn().await;
            let (run, mut past) = journal.unfinished()?;
            let began = Instant::now().checked_sub(past.elapsed).unwrap_or_else(Instant::now);
            let purse = BudgetAccount::restored(self.budget(), began, past.spent);
            let log = RunJournal::of(journal, run);
            for message in &more {
                log.write(&JournalRecord::Sent { message: message.clone() });
            }
            let waiting = std::mem::take(&mut past.inbox).into_iter().chain(more).collect();
            let start =
                RunParams { past: Some(past), ..RunParams::with_waiting(self.crew(), cx, &purse, Some(log), waiting) };
            Some(self.work(Box::new(start), chat, Vec::new()).await)
        })
    }
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct RunAnswer {
    /// The final message: the answer, or what the agent reported when it ended its task or handed it over.
    pub message: Message,
    /// How it ended.
    pub ending: RunEnding,
    /// Turns of the loop, all attempts together.
    pub iterations: u32,
    /// Tokens of all completions of this agent, those that its effects asked for included.
    pub usage: Usage,
    /// All that was spent: by this agent, and by those that it delegated to.
    pub account: BudgetBreakdown,
}

/// How a run ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RunEnding {
    /// With a reply that calls no tool.
    #[default]
    Answered,
    /// The agent said that its task has ended.
    Completed(TaskCompletion),
    /// The agent wants another one to go on.
    HandedOver(TaskHandoff),
}

impl RunEnding {
    /// The word for it, for those around the run; none for an answer.
    pub(super) fn word(&self) -> Option<&'static str> {
        Some(match self {
            Self::Answered => return None,
            Self::Completed(TaskCompletion { status: CompletionStatus::Completed, .. }) => "completed",
            Self::Completed(TaskCompletion { status: CompletionStatus::Failed, .. }) => "failed",
            Self::HandedOver(_) => HANDED_OVER,
        })
    }

    /// All that the agent says to whoever gets its task back.
    pub(super) fn report(&self) -> String {
        match self {
            Self::Answered => String::new(),
            Self::Completed(completed) => completed.in_full(),
            Self::HandedOver(to) => format!("{}\n\n{}", to.reason, to.context),
        }
    }

    /// Says it as middleware left it: if that changed anything, in its words alone.
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

    fn crew(&self) -> Option<&Arc<AgentGroup>> {
        (**self).crew()
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

/// What a run is begun with.
pub struct RunParams {
    pub(crate) cx: RunCx,
    pub(crate) crew: Option<Arc<AgentGroup>>,
    pub(crate) purse: Arc<BudgetAccount>,
    /// What it was started under.
    pub(crate) ceiling: Ceiling,
    pub(crate) badge: AgentHandle,
    pub(crate) place: ConcurrencyPermit,
    pub(crate) tasks: RunTasks,
    pub(crate) works_for: RunOrigin,
    /// Tools that it has in this run beside its own.
    pub(crate) more_tools: ToolBox,
    /// What all members of the team are told in which it works, and of the teams around that.
    pub(crate) team_instructions: Arc<str>,
    /// Where what happens is written down, if it is.
    pub(crate) log: Option<RunJournal>,
    /// What it does there for whom it works.
    pub(crate) errand: Option<DelegationId>,
    /// What it was when it was interrupted; none for one that begins.
    pub(crate) past: Option<Box<RecordedRun>>,
}

/// For whom a run works.
#[derive(Debug, Clone, Default)]
pub(crate) enum RunOrigin {
    /// The person who started it.
    #[default]
    Person,
    /// The agent that delegated to it.
    Delegator(Arc<DelegationContext>),
    /// Whoever called it as a member, or as a tool: the instance name.
    Member(Arc<str>),
}

impl RunOrigin {
    /// What it was given by the agent that delegated to it.
    pub fn assignment(&self) -> Option<&Arc<DelegationContext>> {
        match self {
            Self::Delegator(assignment) => Some(assignment),
            Self::Person | Self::Member(_) => None,
        }
    }

    /// The instance name of whom it works for; none for a person.
    pub fn parent(&self) -> Option<&Arc<str>> {
        match self {
            Self::Person => None,
            Self::Delegator(assignment) => Some(&assignment.by),
            Self::Member(of) => Some(of),
        }
    }
}

impl RunParams {
    /// Of a run of a person.
    pub(super) fn of_a_person(
        crew: Option<&Arc<AgentGroup>>,
        cx: &RunCx,
        purse: &Arc<BudgetAccount>,
        log: Option<RunJournal>,
    ) -> Box<Self> {
        Box::new(Self::with_waiting(crew, cx, purse, log, Vec::new()))
    }

    fn with_waiting(
        crew: Option<&Arc<AgentGroup>>,
        cx: &RunCx,
        purse: &Arc<BudgetAccount>,
        log: Option<RunJournal>,
        waiting: Vec<Message>,
    ) -> Self {
        Self {
            cx: cx.anew(),
            crew: crew.cloned(),
            purse: Arc::clone(purse),
            ceiling: Ceiling::default(),
            badge: crew.map(|crew| crew.enter(&cx.agent, waiting)).unwrap_or_default(),
            place: ConcurrencyPermit::free(),
            tasks: RunTasks::default(),
            works_for: RunOrigin::Person,
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

    fn crew(&self) -> Option<&Arc<AgentGroup>> {
        self.crew.as_ref()
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
    /// As [`Runner::run`]. The system prompt is put in front of the chat, or brought up to date.
    ///
    /// # Errors
    ///
    /// As [`Runner::run`].
    pub async fn run(&self, cx: &RunCx, chat: &Chat, input: Vec<Message>) -> Result<RunAnswer, RunError> {
        Runner::run(self, cx, chat, input).await
    }

    /// As [`Runner::run_on`].
    ///
    /// # Errors
    ///
    /// As [`Runner::run`].
    pub async fn run_on(
        &self,
        cx: &RunCx,
        chat: &Chat,
        input: Vec<Message>,
        purse: &Arc<BudgetAccount>,
    ) -> Result<RunAnswer, RunError> {
        Runner::run_on(self, cx, chat, input, purse).await
    }

    /// As [`Runner::resume`].
    ///
    /// # Errors
    ///
    /// As [`Runner::run`].
    pub async fn resume(&self, cx: &RunCx, chat: &Chat, more: Vec<Message>) -> Option<Result<RunAnswer, RunError>> {
        Runner::resume(self, cx, chat, more).await
    }
}
