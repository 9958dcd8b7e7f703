use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;

use super::{
    Coordinator, JoinError, Member, Members,
    team_run::{TeamChatMode, run_as},
};
use crate::{
    agent::{AgentGroup, DEFAULT_PREFIX, RunAnswer, RunError, RunMiddleware, RunParams, Runner, may_replace_answers},
    capability::{Budget, Ceiling},
    chat::{Chat, Message},
    model::Completer,
};

/// Members that work on one conversation, and what decides who works next.
///
/// Each member has a conversation of its own. Before it works it hears what is new in the one that the team shares: what
/// others said comes as user messages of theirs, what it said itself it knows. Its reply goes into the shared conversation;
/// what it thought and which tools it called does not. The answer of the team is the last reply.
///
/// ```
/// use std::sync::Arc;
/// use shelly_host::{
///     agent::{Agent, Runner},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
///     team::{Member, Sequence, Team},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let says = |name: &str, text: &str| {
///     Agent::new(name, "", Arc::new(ScriptedCompleter::new([ScriptedCompleter::text(text)])))
/// };
/// let team = Team::new("desk", Sequence)
///     .with_member(Member::new(says("researcher", "Two million people.")))
///     .with_member(Member::new(says("writer", "Paris is large.")));
/// let chat = Chat::new();
/// let answer = team.run(&RunCx::new("desk"), &chat, vec![Message::user("Write about Paris.")]).await?;
/// assert_eq!(answer.message.text_content(), "Paris is large.");
/// assert_eq!(chat.snapshot().len(), 3);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Team {
    /// Its name, by which others know it.
    pub name: Arc<str>,
    /// What it is good for, for people and for other agents.
    pub description: Arc<str>,
    /// What to show before its name.
    pub prefix: Arc<str>,
    /// What all of it are told, members of teams in it included, before what each is told alone. Its coordinator finds it as
    /// the system message of the conversation, unless that is a member's because they work in one.
    pub instructions: Arc<str>,
    /// Who is in it.
    pub members: Members,
    /// Who decides.
    pub coordinator: Arc<dyn Coordinator>,
    /// The model that the coordinator may ask; none: it asks none.
    pub completer: Option<Arc<dyn Completer>>,
    /// Models beside it, by their names.
    pub models: Arc<BTreeMap<String, Arc<dyn Completer>>>,
    /// What stands around its runs, outermost first.
    pub middleware: Vec<Arc<dyn RunMiddleware>>,
    /// What one run may spend, that of its members included.
    pub budget: Budget,
    /// What its members may not exceed, nor those that they start.
    pub delegable: Ceiling,
    /// Those it works with; none: it works alone.
    pub crew: Option<Arc<AgentGroup>>,
    /// In which conversations its members work, and how they give way to each other.
    pub meeting: TeamChatMode,
}

impl Team {
    /// A team of nobody.
    pub fn new(name: impl Into<Arc<str>>, coordinator: impl Coordinator + 'static) -> Self {
        Self {
            name: name.into(),
            description: Arc::default(),
            prefix: DEFAULT_PREFIX.into(),
            instructions: Arc::default(),
            members: Members::default(),
            coordinator: Arc::new(coordinator),
            completer: None,
            models: Arc::default(),
            middleware: Vec::new(),
            budget: Budget::default(),
            delegable: Ceiling::default(),
            crew: None,
            meeting: TeamChatMode::Coordinated,
        }
    }

    /// One more member.
    ///
    /// # Panics
    ///
    /// If there is one of its name, or no room; [`Team::try_with`] returns that as an error.
    pub fn with_member(self, member: Member) -> Self {
        self.try_with(member).unwrap_or_else(|error| panic!("{error}"))
    }

    /// One more member.
    ///
    /// # Errors
    ///
    /// [`JoinError`].
    pub fn try_with(self, member: Member) -> Result<Self, JoinError> {
        self.members.join(member)?;
        Ok(self)
    }

    /// What it is good for.
    pub fn with_description(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = description.into();
        self
    }

    /// What all of it are told.
    pub fn with_instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// The model that its coordinator may ask.
    pub fn with_completer(mut self, completer: Arc<dyn Completer>) -> Self {
        self.completer = Some(completer);
        self
    }

    /// One more middleware around its runs, inside those that it has.
    pub fn with_middleware(mut self, middleware: impl RunMiddleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// What one run may spend.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Those it works with.
    pub fn with_crew(mut self, crew: Arc<AgentGroup>) -> Self {
        self.crew = Some(crew);
        self
    }

    /// In which conversations its members work, and how they give way to each other.
    pub fn with_meeting(mut self, meeting: TeamChatMode) -> Self {
        self.meeting = meeting;
        self
    }
}

impl Runner for Team {
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
        Box::pin(run_as(self, start, chat, input))
    }
}
