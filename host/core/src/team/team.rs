use std::{collections::BTreeMap, sync::Arc};

use super::{Coordinator, JoinError, Member, Members, TeamChatMode};
use crate::{
    agent::{AgentGroup, DEFAULT_PREFIX, RunMiddleware},
    capability::{Budget, Ceiling},
    model::Completer,
};

/// Members that work on one conversation, and a coordinator that decides which of them work next.
///
/// Each member has its own conversation. Before it works it receives the new messages of the shared one: messages of other
/// members arrive as user messages, and its own messages it knows already. Its reply goes into the shared conversation; its
/// thoughts and tool calls do not. The answer of the team is the last reply.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::{Agent, Runner},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
///     team::{Member, SequenceCoordinator, Team},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let says = |name: &str, text: &str| {
///     Agent::new(name, "", Arc::new(ScriptedCompleter::new([ScriptedCompleter::text(text)])))
/// };
/// let team = Team::new("desk", SequenceCoordinator)
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
    /// The name by which other agents know it.
    pub name: Arc<str>,
    /// The purpose of the team, as shown to people and to other agents.
    pub description: Arc<str>,
    /// The text that is shown before its name.
    pub prefix: Arc<str>,
    /// The instructions for all members, including members of nested teams, placed before each member's own. The
    /// coordinator finds them as the system message of the conversation, unless the members share one conversation and that
    /// message is a member's.
    pub instructions: Arc<str>,
    /// The members of the team.
    pub members: Members,
    /// The coordinator, which decides which members work.
    pub coordinator: Arc<dyn Coordinator>,
    /// The model that the coordinator may ask; `None`: it asks none.
    pub completer: Option<Arc<dyn Completer>>,
    /// Further models, by name.
    pub models: Arc<BTreeMap<String, Arc<dyn Completer>>>,
    /// The middleware around its runs, outermost first.
    pub middleware: Vec<Arc<dyn RunMiddleware>>,
    /// The budget of one run, including that of its members.
    pub budget: Budget,
    /// The upper bound on what its members and the agents that they start may do.
    pub delegable: Ceiling,
    /// The agents that it works with; `None` if it works alone.
    pub agent_group: Option<Arc<AgentGroup>>,
    /// The conversations in which its members work, and the way they hand over to each other.
    pub meeting: TeamChatMode,
}

impl Team {
    /// Creates a team without members.
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
            agent_group: None,
            meeting: TeamChatMode::Coordinated,
        }
    }

    /// Adds a member.
    ///
    /// # Panics
    ///
    /// Panics if there is one of its name, or no room; [`Team::try_with`] returns that as an error.
    pub fn with_member(self, member: Member) -> Self {
        self.try_with(member).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Adds a member.
    ///
    /// # Errors
    ///
    /// Returns a [`JoinError`] if the member cannot join.
    pub fn try_with(self, member: Member) -> Result<Self, JoinError> {
        self.members.join(member)?;
        Ok(self)
    }

    /// Sets the description of its purpose.
    pub fn with_description(mut self, description: impl Into<Arc<str>>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the instructions for all members.
    pub fn with_instructions(mut self, instructions: impl Into<Arc<str>>) -> Self {
        self.instructions = instructions.into();
        self
    }

    /// Sets the model that its coordinator may ask.
    pub fn with_completer(mut self, completer: Arc<dyn Completer>) -> Self {
        self.completer = Some(completer);
        self
    }

    /// Adds a middleware around its runs, inside the existing ones.
    pub fn with_middleware(mut self, middleware: impl RunMiddleware + 'static) -> Self {
        self.middleware.push(Arc::new(middleware));
        self
    }

    /// Sets the budget of one run.
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the group of agents that it works with.
    pub fn with_agent_group(mut self, agent_group: Arc<AgentGroup>) -> Self {
        self.agent_group = Some(agent_group);
        self
    }

    /// Sets the conversations in which its members work, and the way they hand over to each other.
    pub fn with_meeting(mut self, meeting: TeamChatMode) -> Self {
        self.meeting = meeting;
        self
    }
}
