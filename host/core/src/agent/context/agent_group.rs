use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use tokio::sync::Semaphore;

use super::{
    AgentEntry, AgentHandle, AgentRefusal, RunLimits, Runner, SendError,
    agent_entry::no_agent,
    agent_handle::{AgentInbox, Roster, RunningAgent},
};
use crate::{
    agent::journal::{BoardTaskOutcome, Journal, JournalRecord, JournalState, Recorder},
    capability::{Ceiling, Usd},
    chat::{Chat, ConversationBudget, Message, Part, Role},
    event::{Event, RunCx},
    model::{Ledger, Usage},
    state::{Blackboard, BlackboardChange, ReflectionStore, Task, TaskActor, TaskBoard, TaskStatus},
    tool::ToolCallId,
};

/// The state that agents working together share: the registry, the task board, the reflections on failures, and the roster
/// of running agents. One group serves one run, or all runs of one session.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::{Agent, AgentEntry, AgentGroup, AgentRegistry},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = AgentRegistry::new();
/// registry.register(AgentEntry::new("researcher", "Finds facts"), || {
///     let model = ScriptedCompleter::new([ScriptedCompleter::calls(&[(
///         "1",
///         "task_complete",
///         r#"{"status":"completed","summary":"Paris has two million people."}"#,
///     )])]);
///     Agent::new("researcher", "Find facts.", Arc::new(model))
/// });
/// let group = Arc::new(AgentGroup::new(registry));
///
/// let model = ScriptedCompleter::new([
///     ScriptedCompleter::calls(&[(
///         "1",
///         "delegate",
///         r#"{"tasks":[{"agent":"researcher","task":"Count Paris","context":"For a summary."}]}"#,
///     )]),
///     ScriptedCompleter::text("Two million."),
/// ]);
/// let lead = Agent::new("lead", "Delegate.", Arc::new(model)).with_agent_group(group.clone(), 1);
/// let answer = lead.run(&RunCx::new("lead"), &Chat::new(), vec![Message::user("How big is Paris?")]).await?;
/// assert_eq!(answer.message.text_content(), "Two million.");
/// // What everyone used, to the token.
/// assert_eq!(group.ledger().total().usage, answer.account.total().usage);
/// # Ok(()) }
/// ```
pub struct AgentGroup {
    /// The agents to which tasks can be delegated.
    pub registry: AgentRegistry,
    /// The tasks whose status follows the delegations that name them.
    pub board: Option<TaskBoard>,
    /// The store of reflections on failures.
    pub reflections: Option<ReflectionStore>,
    /// The blackboards that the agents use, by namespace.
    blackboards: Mutex<BTreeMap<String, Blackboard>>,
    /// The journal from which another process can resume the runs.
    pub(crate) journal: Option<Arc<Journal>>,
    roster: Roster,
    limits: RunLimits,
    /// The permits of agents that work at once; an agent that waits for others holds none.
    permits: Arc<Semaphore>,
    begun: AtomicUsize,
    conversations: Arc<ConversationBudget>,
    /// The team members that have worked. Each counts as one agent.
    members: Mutex<HashSet<Arc<str>>>,
    ledger: Mutex<Ledger>,
    /// The newest system prompt of each agent, by its name in the registry.
    prompts: Mutex<HashMap<Arc<str>, Arc<Message>>>,
}

impl Default for AgentGroup {
    fn default() -> Self {
        let limits = RunLimits::default();
        Self {
            registry: AgentRegistry::default(),
            board: None,
            reflections: None,
            blackboards: Mutex::default(),
            journal: None,
            roster: Roster::default(),
            permits: Arc::new(Semaphore::new(limits.working_agents)),
            begun: AtomicUsize::new(0),
            conversations: Arc::new(ConversationBudget::new(limits.chat_bytes)),
            members: Mutex::default(),
            ledger: Mutex::default(),
            prompts: Mutex::default(),
            limits,
        }
    }
}

/// Makes a fresh agent for each task that is delegated to it. The agent may do no more than the ceiling allows.
pub type AgentFactory = Arc<dyn Fn(&Ceiling) -> Result<Arc<dyn Runner>, AgentRefusal> + Send + Sync>;

/// The agents to which tasks can be delegated. Clones share one registry.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{agent::{Agent, AgentEntry, AgentRegistry}, capability::Ceiling, model::ScriptedCompleter};
///
/// let registry = AgentRegistry::new();
/// registry.register(AgentEntry::new("writer", "Writes summaries"), || {
///     Agent::new("writer", "Write clearly.", Arc::new(ScriptedCompleter::new([])))
/// });
/// assert_eq!(registry.list(&Ceiling::default())[0].name.as_ref(), "writer");
/// ```
#[derive(Clone, Default)]
pub struct AgentRegistry {
    pub(super) agents: Arc<RwLock<BTreeMap<Arc<str>, RegisteredAgent>>>,
}

/// An agent of a registry.
pub(super) struct RegisteredAgent {
    pub entry: AgentEntry,
    pub factory: AgentFactory,
    pub permits: Option<Arc<Semaphore>>,
    /// The number of instances that were named.
    pub named: Arc<AtomicU32>,
}

/// An agent that was made for a task.
pub(crate) struct SpawnedAgent {
    pub runner: Arc<dyn Runner>,
    pub permits: Option<Arc<Semaphore>>,
}

/// Tells the operator why an agent cannot be started, and returns the text for the requester, which does not give the
/// reason.
pub(crate) async fn refusal(cx: &RunCx, name: &str, refused: &AgentRefusal) -> String {
    let message = format!("{} cannot start agent `{name}`: {refused}", cx.agent);
    cx.events.emit(Event::Warning { message }).await;
    format!("agent `{name}` cannot be started by this agent")
}

/// The reason why no more agents may work in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyAgents {
    /// The maximum number of agents has worked already.
    #[error(
        "this run has started its maximum of {0} agents (limit `runs.agents`); do the rest yourself, or ask a person \
         to raise the limit in the config"
    )]
    Agents(usize),
    /// The conversations hold the maximum number of bytes.
    #[error(
        "the conversations of this run have reached {0} bytes in total (limit `runs.chat_bytes`), so no more agents \
         can be started; do the rest yourself, or ask a person to raise the limit in the config"
    )]
    Conversations(usize),
}

/// The reason why an agent cannot be started, as shown to the requester.
pub(crate) enum SpawnError {
    /// The registry has no agent of this name.
    Unknown(String),
    /// The ceiling takes away something that the agent needs.
    Refused(String),
}

impl AgentGroup {
    /// Creates a group with these agents and without a task board.
    pub fn new(registry: AgentRegistry) -> Self {
        Self { registry, ..Self::default() }
    }

    /// Sets the bounds on what its agents take together, each at least 1 and at most what a config can name.
    pub fn with_limits(self, limits: RunLimits) -> Self {
        let limits = limits.within_ceilings();
        let permits = Arc::new(Semaphore::new(limits.working_agents));
        Self { limits, permits, conversations: Arc::new(ConversationBudget::new(limits.chat_bytes)), ..self }
    }

    /// Returns the account of the bytes that the conversations of its agents hold together, with its bound.
    pub fn conversations(&self) -> &Arc<ConversationBudget> {
        &self.conversations
    }

    /// Sets the task board.
    pub fn with_board(mut self, board: TaskBoard) -> Self {
        self.board = Some(board);
        self
    }

    /// Sets the store of reflections on failures.
    pub fn with_reflections(mut self, reflections: ReflectionStore) -> Self {
        self.reflections = Some(reflections);
        self
    }

    /// Sets the recorder of the journal. Changes of the task board are recorded too.
    pub fn with_recorder(mut self, recorder: Arc<dyn Recorder>) -> Self {
        self.record_board(&recorder);
        self.journal = Some(Arc::new(Journal::new(recorder)));
        self
    }

    /// Prepares the group of a resumed session, all of whose agents are registered: restores the ledger and the numbers of
    /// instances, and lets [`Agent::resume`](crate::agent::Agent::resume) find the runs that were interrupted. `chat` is the
    /// conversation that [`JournalState::chat`] returned. The caller restores the task board and the blackboards.
    pub fn resuming(mut self, recorder: Arc<dyn Recorder>, recorded: JournalState, chat: &Chat) -> Self {
        let members: HashSet<_> = recorded.members().cloned().collect();
        self.begun = AtomicUsize::new(recorded.delegates().count() + members.len());
        self.members = Mutex::new(members);
        recorded.delegates().chain(recorded.named()).for_each(|(agent, instance)| self.resume_names(agent, instance));
        self.ledger = Mutex::new(recorded.ledger().clone());
        self.record_board(&recorder);
        self.journal = Some(Arc::new(Journal::resumed(recorder, recorded, Some(chat))));
        self
    }

    fn record_board(&self, recorder: &Arc<dyn Recorder>) {
        if let Some(board) = &self.board {
            let recorder = Arc::clone(recorder);
            board.on_change(Arc::new(move |task: &Task, by: Option<&ToolCallId>| {
                recorder.write(0, &JournalRecord::Task { task: task.clone(), by: by.cloned() });
            }));
        }
    }

    /// Adds a blackboard that its agents use under this namespace. Its changes are recorded, if there is a journal.
    pub fn add_blackboard(&self, namespace: &str, blackboard: &Blackboard) {
        let mut blackboards = self.blackboards.lock().unwrap_or_else(PoisonError::into_inner);
        blackboards.insert(namespace.to_owned(), blackboard.clone());
        if let Some(journal) = &self.journal {
            let (recorder, namespace) = (Arc::clone(journal.recorder()), namespace.to_owned());
            blackboard.on_change(Arc::new(move |change: &BlackboardChange, by: Option<&ToolCallId>| {
                let (namespace, change, by) = (namespace.clone(), change.clone(), by.cloned());
                recorder.write(0, &JournalRecord::Blackboard { namespace, change, by });
            }));
        }
    }

    /// Returns the blackboards that its agents use, by namespace.
    pub fn blackboards(&self) -> BTreeMap<String, Blackboard> {
        self.blackboards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the instance names of the running agents, sorted.
    pub fn working(&self) -> Vec<Arc<str>> {
        let mut names: Vec<_> = self.roster().keys().cloned().collect();
        names.sort();
        names
    }

    /// Returns the usage and cost of each agent so far, by instance name.
    pub fn ledger(&self) -> Ledger {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn record(&self, agent: &Arc<str>, usage: Usage, cost: Usd) {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).record(agent, usage, cost);
    }

    /// Sends a message to a running agent. The agent reads it before its next turn; an agent that was about to end
    /// continues for it. An accepted message is read, or is added to the conversation if the run fails or has no turn left.
    ///
    /// # Errors
    ///
    /// Returns a [`SendError`] if the message was not accepted.
    pub fn send(&self, instance: &str, message: Message) -> Result<(), SendError> {
        self.inbox_for(instance, &message)?.put(message)
    }

    /// Sends a message like [`send`](Self::send), and returns once it would survive a loss of power: whoever resumes the run
    /// reads it. In a group without a journal it returns at once.
    ///
    /// # Errors
    ///
    /// The errors of [`send`](Self::send), and [`SendError::Unrecorded`].
    pub async fn send_recorded(&self, instance: &str, message: Message) -> Result<(), SendError> {
        let inbox = self.inbox_for(instance, &message)?;
        match &self.journal {
            Some(_) => inbox.put_recorded(message).await,
            None => inbox.put(message),
        }
    }

    /// Returns the inbox of a running agent that may be sent this message.
    fn inbox_for(&self, instance: &str, message: &Message) -> Result<AgentInbox, SendError> {
        if message.role != Role::User || message.is_paired() || message.says_nothing() {
            return Err(SendError::Unfit);
        }
        Ok(self.roster().get(instance).cloned().ok_or(SendError::NotWorking)?.inbox)
    }

    /// Cancels a running agent and the agents that work for it. The delegating agent is told; an agent without one ends
    /// with [`RunError::Cancelled`](crate::agent::RunError::Cancelled). Returns `false` if no agent of this name is running.
    pub fn cancel(&self, instance: &str) -> bool {
        let working = self.roster().get(instance).cloned();
        working.as_ref().inspect(|working| working.cancel.cancel()).is_some()
    }

    /// Sets the status of a task on the board whose agent had ended when the delegating run was interrupted. Does nothing
    /// if the status was set already, or if another agent holds the task by now.
    pub(crate) fn settle(&self, task: Option<BoardTaskOutcome>) {
        let (Some(board), Some(BoardTaskOutcome { id, holder, status })) = (&self.board, task) else { return };
        if board
            .get(&id)
            .is_ok_and(|task| task.status == TaskStatus::InProgress && task.assignee.as_deref() == Some(&holder))
        {
            let _ = board.set_status(&id, status, TaskActor::Agent(&holder));
        }
    }

    pub(crate) fn permits(&self) -> &Arc<Semaphore> {
        &self.permits
    }

    /// Counts one more agent.
    ///
    /// # Errors
    ///
    /// [`TooManyAgents`] if the maximum number of agents, or of bytes in their conversations, is reached.
    pub(crate) fn begin(&self) -> Result<(), TooManyAgents> {
        if self.conversations.held() >= self.conversations.most() {
            return Err(TooManyAgents::Conversations(self.conversations.most()));
        }
        let most = self.limits.agents;
        let counted =
            self.begun.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |begun| (begun < most).then_some(begun + 1));
        counted.map(drop).map_err(|_| TooManyAgents::Agents(most))
    }

    /// Counts a team member as one more agent when it works for the first time.
    ///
    /// # Errors
    ///
    /// [`TooManyAgents`], as for [`AgentGroup::begin`].
    pub(crate) fn begin_member(&self, instance: &Arc<str>) -> Result<(), TooManyAgents> {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if !members.contains(instance) {
            self.begin()?;
            members.insert(Arc::clone(instance));
        }
        Ok(())
    }

    /// Continues the numbering of instances after this one.
    fn resume_names(&self, agent: &str, instance: &str) {
        let rest = instance.strip_prefix(agent).and_then(|rest| rest.strip_prefix('-'));
        if let Some(number) = rest.and_then(|rest| rest.rsplit('-').next()).and_then(|number| number.parse().ok()) {
            self.registry.resume_ids(agent, number);
        }
    }

    /// Spawns an agent under the ceiling of the agent `starter`. If there is none, only the operator is told
    /// why, not the requester.
    pub(crate) async fn spawn_agent(
        &self,
        cx: &RunCx,
        starter: &str,
        name: &str,
        ceiling: &Ceiling,
    ) -> Result<SpawnedAgent, SpawnError> {
        let refused = match self.registry.make(name, ceiling) {
            Some(Ok(spawned)) => return Ok(spawned),
            Some(Err(refused)) => refused,
            None => return Err(SpawnError::Unknown(no_agent(name, &self.registry.others(starter, ceiling)))),
        };
        Err(SpawnError::Refused(refusal(cx, name, &refused).await))
    }

    /// Adds an agent to the roster: see [`AgentHandle::join`].
    pub(crate) fn join(&self, instance: &Arc<str>, waiting: Vec<Message>) -> AgentHandle {
        AgentHandle::join(&self.roster, instance, waiting)
    }

    /// Returns a system prompt as a message. All agents with the same prompt share it, as there can be a thousand of them.
    pub(crate) fn share_prompt(&self, agent: &Arc<str>, text: String) -> Arc<Message> {
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        match prompts.get(agent) {
            Some(there) if matches!(&*there.parts, [Part::Text(same)] if *same == text) => Arc::clone(there),
            _ => {
                let message = Arc::new(Message::text(Role::System, &**agent, text));
                prompts.insert(Arc::clone(agent), Arc::clone(&message));
                message
            }
        }
    }

    fn roster(&self) -> MutexGuard<'_, HashMap<Arc<str>, RunningAgent>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        agent::{Agent, MemberAllocations, MemberFailure, MemberRun, RunParams, RunState, begin_members},
        capability::{Budget, BudgetAccount},
        limits,
        model::ScriptedCompleter,
    };

    #[test]
    fn resumed_group_continues_instance_numbers() {
        let agent_group = AgentGroup::default();
        for name in ["ada", "ada-two"] {
            agent_group
                .registry
                .register(AgentEntry::new(name, ""), || Agent::new("", "", Arc::new(ScriptedCompleter::new([]))));
        }
        for (agent, instance, next) in [
            ("ada", "ada-parser-3", 4),
            ("ada", "ada-index-2", 5),
            ("ada-two", "ada-two-task-9", 10),
            ("ada-two", "no number", 11),
            ("ada-two", "ada-two-task-99999999999999999999", 12),
            ("eve", "eve-task-1", 0),
        ] {
            agent_group.resume_names(agent, instance);
            assert_eq!(agent_group.registry.next_id(agent), next, "{instance}");
        }
    }

    #[test]
    fn team_members_count_once_towards_the_agent_limit() {
        let agent_group = AgentGroup::default();
        let name = |n: usize| -> Arc<str> { format!("desk/{n}").into() };
        let refused = Err(TooManyAgents::Agents(limits::AGENTS_PER_RUN));
        assert!((0..limits::AGENTS_PER_RUN - 1).all(|_| agent_group.begin().is_ok()));
        assert_eq!(
            (agent_group.begin_member(&name(1)), agent_group.begin_member(&name(1))),
            (Ok(()), Ok(())),
            "it has worked before"
        );
        assert_eq!((agent_group.begin_member(&name(2)), agent_group.begin()), (refused, refused));
        assert_eq!((agent_group.begin_member(&name(2)), agent_group.begin_member(&name(1))), (refused, Ok(())));
    }

    #[test]
    fn run_limits_are_clamped_to_valid_ranges() {
        let most =
            AgentGroup::default().with_limits(RunLimits { agents: usize::MAX, working_agents: 0, chat_bytes: 0 });
        let RunLimits { agents, working_agents, chat_bytes } = most.limits;
        assert_eq!((agents, working_agents, chat_bytes), (limits::AGENTS_PER_RUN_CEILING, 1, 1));
        assert_eq!(most.permits().available_permits(), 1);
        let few = AgentGroup::default().with_limits(RunLimits { agents: 2, ..RunLimits::default() });
        assert_eq!((few.begin(), few.begin(), few.begin()), (Ok(()), Ok(()), Err(TooManyAgents::Agents(2))));
    }

    #[tokio::test]
    async fn team_fails_when_the_agent_limit_is_reached() {
        let model = ScriptedCompleter::new([ScriptedCompleter::text("done")]);
        let member = Agent::new("ada", "", Arc::new(model));
        // The `team` module depends on this one, so the test builds only the `MemberRun` that a team passes here.
        let agent_group = Arc::new(AgentGroup::default());
        agent_group.begun.store(limits::AGENTS_PER_RUN, Ordering::Relaxed);
        let cx = RunCx::new("desk");
        let budget_account = BudgetAccount::new(&Budget::default(), Instant::now());
        let start = *RunParams::of_a_person(Some(&agent_group), &cx, &budget_account, None);
        let me = RunState::new(&"desk".into(), &Default::default(), &Ceiling::default(), start, None);
        let job = MemberRun {
            runner: Arc::new(member),
            member: "ada".into(),
            chat: Chat::new(),
            side_chat: None,
            input: vec![Message::user("go")],
            tools: Default::default(),
            instructions: Arc::default(),
            retries: 0,
        };
        let shares = MemberAllocations::new(&me, 1);
        let mut working = begin_members(&me, 0, vec![job], shares, &CancellationToken::new());
        let failed = working.remove(0).await.unwrap().err();
        let Some(MemberFailure::Of(fault)) = failed else { panic!("{failed:?}") };
        assert_eq!(fault.to_string(), TooManyAgents::Agents(limits::AGENTS_PER_RUN).to_string());
    }
}
