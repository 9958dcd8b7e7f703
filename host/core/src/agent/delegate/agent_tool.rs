//! Agents and teams as tools of an agent: each call is a run, and the answer of the run is the result.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    reply_calls::agent_calls_of_reply,
    sub_run::{ParentRun, take_recorded_answer},
    sub_run_attempts::{SubRunAttempts, SubRunCause},
};
use crate::{
    agent::{
        context::{AgentFactory, AgentRefusal, CallerContext, RunState, Runner, SpawnError, SpawnedAgent, refusal},
        journal::{DelegatedTask, DelegationState, JournalRecord, SideChatRef},
        outcome::{RunAnswer, RunEnding},
        text::in_tags,
    },
    capability::{Budget, Ceiling, RestoredAllocation},
    chat::{Message, Part, Role, ToolCall, ToolHints, ToolResultContent, ToolSpec},
    error::Fault,
    event::AGENT_ORIGIN,
    limits,
    tool::{CompletionStatus, InputSchema, Tool, ToolBox, ToolConcurrency, ToolCx, ToolOutput, described},
};

/// An agent or a team as a tool: another agent calls it, it works, and its answer is the result.
///
/// The calling agent pays for it. All calls of one reply that run agents get equal shares of the remaining budget, and one
/// more share is kept back. The ceiling of the calling agent bounds the agents that the tool's agent starts; it also bounds
/// the tool's agent itself if that is made for each call, by [`AgentTool::made`] or [`AgentTool::registered`]. A failure of
/// it is an error result that names it, and the calling agent continues.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::{Agent, AgentTool, AgentToolOptions},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedCompleter::new([ScriptedCompleter::text("Two million.")]);
/// let researcher = Agent::new("researcher", "Find facts.", Arc::new(model)).with_description("Finds facts.");
///
/// let model = ScriptedCompleter::new([
///     ScriptedCompleter::calls(&[("1", "researcher", r#"{"task":"How many people live in Paris?"}"#)]),
///     ScriptedCompleter::text("Paris has two million people."),
/// ]);
/// let lead = Agent::new("lead", "", Arc::new(model)).with_tool(AgentTool::new(researcher, AgentToolOptions::default())?);
/// let answer = lead.run(&RunCx::new("lead"), &Chat::new(), vec![Message::user("How big is Paris?")]).await?;
/// assert_eq!(answer.message.text_content(), "Paris has two million people.");
/// assert!(answer.account.of_children.usage.total() > 0);
/// # Ok(()) }
/// ```
pub struct AgentTool {
    whom: AgentToolTarget,
    agent: Arc<str>,
    spec: Arc<ToolSpec>,
    schema: InputSchema,
    /// Set if the arguments are one text that describes the task.
    is_task: bool,
    instruction: String,
    conversation: ConversationMode,
    origin: String,
}

/// Options of an agent that is used as a tool. Defaults follow from the agent.
#[derive(Debug, Clone, Default)]
pub struct AgentToolOptions {
    /// The name of the tool; `None`: the agent's name, with `-` in place of characters that no vendor accepts.
    pub name: Option<String>,
    /// The description for the model that has the tool; `None`: the description of the agent.
    pub description: Option<String>,
    /// The conversation in which the agent works.
    pub conversation: ConversationMode,
    /// The [JSON Schema](InputSchema) of its arguments, which the agent receives unchanged; `None`: `task`, a text.
    pub input_schema: Option<Value>,
    /// An instruction that the agent reads before its arguments.
    pub instruction: String,
}

/// The conversation in which an agent works when it is called as a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConversationMode {
    /// Each call has a new conversation. Calls of one reply run side by side.
    #[default]
    Fresh,
    /// All calls share one conversation, which lasts as long as the calling agent's: the agent remembers earlier calls.
    /// Calls of one reply run in order.
    Kept,
}

/// The reason why an agent cannot be a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AgentToolError(pub String);

/// The agent that works on a call.
enum AgentToolTarget {
    This(Arc<dyn Runner>),
    /// An agent that is made for each call under the ceiling of the calling agent.
    Made(AgentFactory),
    /// The agent of this name in the registry of the group, made for each call under the ceiling of the calling agent.
    Registered,
}

impl AgentTool {
    /// Creates a tool that runs this agent for every caller: its own tools and plugins keep their capabilities under any
    /// ceiling. Use it for an agent without plugins, or whose plugins may do the same for every caller.
    ///
    /// # Errors
    ///
    /// [`AgentToolError`] if the name is not valid for a tool, or the schema is not valid.
    pub fn new(runner: impl Runner + 'static, how: AgentToolOptions) -> Result<Self, AgentToolError> {
        let (agent, about) = (Arc::clone(runner.name()), Arc::clone(runner.description()));
        Self::of(AgentToolTarget::This(Arc::new(runner)), agent, &about, how)
    }

    /// Creates a tool whose agent `factory` makes for each call, so that it may do no more than the calling agent may pass
    /// on.
    ///
    /// # Errors
    ///
    /// The errors of [`AgentTool::new`].
    pub fn made<R: Runner + 'static>(
        agent: impl Into<Arc<str>>,
        about: &str,
        factory: impl Fn(&Ceiling) -> Result<R, AgentRefusal> + Send + Sync + 'static,
        how: AgentToolOptions,
    ) -> Result<Self, AgentToolError> {
        let factory: AgentFactory = Arc::new(move |ceiling| factory(ceiling).map(|runner| Arc::new(runner) as _));
        Self::of(AgentToolTarget::Made(factory), agent.into(), about, how)
    }

    /// Creates a tool that runs the agent of this name in the [registry](crate::agent::AgentRegistry) of the caller's group. The
    /// agent is made anew for each call, so that it may do no more than the calling agent may pass on.
    ///
    /// # Errors
    ///
    /// The errors of [`AgentTool::new`].
    pub fn registered(agent: impl Into<Arc<str>>, about: &str, how: AgentToolOptions) -> Result<Self, AgentToolError> {
        Self::of(AgentToolTarget::Registered, agent.into(), about, how)
    }

    fn of(whom: AgentToolTarget, agent: Arc<str>, about: &str, how: AgentToolOptions) -> Result<Self, AgentToolError> {
        let AgentToolOptions { name, description, conversation, input_schema, instruction } = how;
        let name = name.unwrap_or_else(|| ToolSpec::name_like(&agent));
        let description = description.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| {
            let remembers =
                if conversation == ConversationMode::Kept { " The agent remembers your earlier calls." } else { "" };
            match about.trim() {
                "" => format!("Gives the agent {agent} a task and returns its answer.{remembers}"),
                about => format!("{about}{remembers}"),
            }
        });
        let is_task = input_schema.is_none();
        let schema = input_schema.unwrap_or_else(task_schema);
        let spec = described(name, description, schema.to_string(), ToolHints::default()).map_err(AgentToolError)?;
        let schema =
            InputSchema::new(&schema).map_err(|why| AgentToolError(format!("the schema of `{}`: {why}", spec.name)))?;
        let origin = format!("{AGENT_ORIGIN}{agent}");
        Ok(Self { whom, agent, spec: Arc::new(spec), schema, is_task, instruction, conversation, origin })
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the description that a model reads.
    pub fn description(&self) -> &str {
        &self.spec.description
    }

    /// Returns the message that the agent receives.
    fn input(&self, from: &Arc<str>, call: &ToolCall) -> Result<Message, Fault> {
        let arguments: Value = serde_json::from_str(&call.arguments)
            .map_err(|error| Fault::invalid(format!("the arguments are not valid JSON: {error}")))?;
        let wrong = |why| Fault::invalid(format!("the arguments do not match the schema: {why}"));
        self.schema.check(&arguments).map_err(wrong)?;
        let given = match &arguments["task"] {
            Value::String(task) if self.is_task && task.trim().is_empty() => {
                return Err(Fault::invalid("`task` is empty; say what to do"));
            }
            Value::String(task) if self.is_task => task.clone(),
            // The text of the arguments is passed on unchanged, so that numbers keep their precision.
            _ => in_tags("arguments", call.arguments.trim()),
        };
        let text = match self.instruction.trim() {
            "" => given,
            instruction => format!("{instruction}\n\n{given}"),
        };
        Ok(Message::text(Role::User, &**from, text))
    }

    /// Returns the runner for a call, and the semaphore that bounds how many of it work at once.
    async fn runner(&self, me: &RunState) -> Result<(Arc<dyn Runner>, Option<Arc<Semaphore>>), Fault> {
        let named = |runner: &dyn Runner| runner.with_name_and_budget(Arc::clone(&self.agent), &me.ceiling.budget());
        match (&self.whom, &me.agent_group) {
            (AgentToolTarget::This(runner), _) => Ok((named(&**runner), None)),
            (AgentToolTarget::Made(factory), _) => match factory(&me.ceiling) {
                Ok(runner) => Ok((named(&*runner), None)),
                Err(refused) => {
                    let message = refusal(&me.cx, &self.agent, &refused).await;
                    Err(Fault::Denied { message })
                }
            },
            (AgentToolTarget::Registered, Some(agent_group)) => {
                match agent_group.spawn_agent(&me.cx, &me.agent, &self.agent, &me.ceiling).await {
                    Ok(SpawnedAgent { runner, permits }) => Ok((runner, permits)),
                    Err(SpawnError::Unknown(message)) => Err(Fault::NotFound { message }),
                    Err(SpawnError::Refused(message)) => Err(Fault::Denied { message }),
                }
            }
            (AgentToolTarget::Registered, None) => {
                let caller = &me.agent;
                Err(Fault::other(format!(
                    "the calling agent `{caller}` belongs to no group of agents, so it cannot start other agents"
                )))
            }
        }
    }

    /// Runs the agent for a call. A call that had begun before the calling run was interrupted continues where it was.
    async fn work(
        &self,
        me: &Arc<RunState>,
        caller: &CallerContext,
        cx: &ToolCx,
        call: &ToolCall,
        input: Message,
    ) -> Result<RunAnswer, Fault> {
        let past_task = me.children.recorded_task(&call.id).cloned();
        let log = past_task.as_ref().and(me.log.as_ref());
        let past_state = log.and_then(|log| log.journal.take_delegation(&log.delegation_key(&call.id, 0)));
        let past_state = past_state.unwrap_or_default();
        if let Some(returned) = returned(me, &past_state) {
            return returned;
        }
        if me.cx.depth >= limits::DELEGATION_DEPTH_CEILING {
            let most = limits::DELEGATION_DEPTH_CEILING;
            return Err(Fault::Exhausted {
                message: format!("agents can be nested at most {most} deep; do the task yourself"),
            });
        }
        let (runner, permits) = self.runner(me).await.inspect_err(|_| {
            me.budget_account.charge_child(past_state.spent.total());
            me.budget_account.charge_child(ParentRun::from(&**me).spent_by_interrupted(&past_state.runs));
        })?;
        let has_begun = !past_state.runs.is_empty();
        if let Some(agent_group) = me.agent_group.as_ref().filter(|_| !has_begun) {
            agent_group.begin().map_err(|error| Fault::Exhausted { message: error.to_string() })?;
        }
        let name: Arc<str> = self.spec.name.as_str().into();
        let chat = caller.chat.as_ref().filter(|_| self.conversation == ConversationMode::Kept);
        let kept = chat.map(|chat| {
            // In a conversation that several agents share, each has its own.
            let owner: Arc<str> = format!("{}/{name}", me.agent).into();
            (chat.side_chat(&owner), SideChatRef { name: owner, heard: None })
        });
        let instance = match &past_task {
            Some(task) => Arc::clone(&task.instance),
            None if kept.is_some() => format!("{}/{name}", me.cx.agent).into(),
            None => format!("{}/{name}#{}", me.cx.agent, number(cx, call)).into(),
        };
        let (parent_run, budget_account) = (ParentRun::from(&**me), Arc::clone(&me.budget_account));
        let (allocated, reply) = (me.allocated_calls.clone(), agent_calls_of_reply(me, cx, &call.id));
        let (depth, agent, call) = (me.cx.depth + 1, Arc::clone(&self.agent), call.id.clone());
        // The spawned task does not keep the calling run alive.
        let work = me.spawned.spawn(async move {
            let (chat, side_chat) = kept.unzip();
            let _turn = match &chat {
                Some(chat) => Some(chat.turn().await),
                None => None,
            };
            let mut share = match &past_task {
                Some(task) => {
                    let (bounds, spent) = (task.bounds, past_state.spent);
                    let share = RestoredAllocation { bounds, time: None, start: Instant::now(), spent };
                    allocated.restore(&budget_account, &call, &[share])
                }
                None => allocated.allocate(&budget_account, &reply, &call, &[Budget::default()]),
            };
            let share = share.pop().expect("one share was asked for");
            if let (None, Some(log)) = (&past_task, &parent_run.log) {
                let bounds = share.bounds();
                let task = DelegatedTask { id: None, agent, instance: Arc::clone(&instance), bounds };
                log.write(&JournalRecord::Delegated { call: call.clone(), tasks: vec![task], arguments: None });
            }
            let attempts = SubRunAttempts {
                parent_run,
                cause: SubRunCause::Call(call),
                position: 0,
                runner,
                name,
                instance,
                depth,
                chat: chat.clone(),
                side_chat,
                input: if has_begun { Vec::new() } else { vec![input] },
                tools: ToolBox::new(),
                team_instructions: Arc::default(),
                retries: 0,
                permits,
                share,
                past_state,
            };
            attempts.execute().await
        });
        me.permit.wait_for(work).await.unwrap_or_else(|_| Err(Fault::other("the run crashed")))
    }

    /// Returns the answer of a run as the result of the call.
    fn answer_as_output(&self, RunAnswer { message, ending, .. }: RunAnswer) -> Result<ToolOutput, Fault> {
        let content = message.parts.into_iter().filter_map(|part| match part {
            Part::Text(text) => Some(ToolResultContent::Text(text)),
            Part::Media(media) => Some(ToolResultContent::Media(media)),
            _ => None,
        });
        match ending {
            RunEnding::HandedOver(to) => {
                let whom: String = to.agent.chars().take(limits::NAME_SHOWN_CHARS).collect();
                let message = format!(
                    "the agent handed the task over to `{}`, but a tool call cannot be handed over",
                    whom.escape_debug()
                );
                Err(Fault::other(message))
            }
            RunEnding::Completed(completed) if completed.status == CompletionStatus::Failed => {
                let first = ToolResultContent::Text(format!("agent `{}` reports that its task failed:", self.agent));
                Ok(ToolOutput::Failed([first].into_iter().chain(content).collect()))
            }
            RunEnding::Answered | RunEnding::Completed(_) => Ok(ToolOutput::Reply(content.collect())),
        }
    }
}

fn task_schema() -> Value {
    let about = "What to do, understandable without any other context.";
    json!({"type": "object", "properties": {"task": {"type": "string", "description": about}}, "required": ["task"]})
}

/// Returns the result of a call whose agent had returned before the calling run was interrupted.
fn returned(me: &RunState, past_state: &DelegationState) -> Option<Result<RunAnswer, Fault>> {
    let ((report, _), log) = (past_state.returned.as_ref()?, me.log.as_ref()?);
    let run = past_state.runs.last().and_then(|run| log.journal.take_run(*run));
    Some(match run.and_then(|mut run| take_recorded_answer(&mut run)) {
        Some(answer) => answer.map_err(|failure| failure.fault),
        // The agent had failed before its run began.
        None => Err(Fault::other(report.error.clone().unwrap_or_else(|| "the answer of the agent is lost".into()))),
    })
}

/// Returns the number of this call among the calls of this tool in its conversation, from 1 on.
fn number(cx: &ToolCx, call: &ToolCall) -> usize {
    let calls = cx.chat.iter().flat_map(|entry| entry.message.tool_calls()).filter(|there| there.name == call.name);
    let before = calls.take_while(|there| there.id != call.id).count();
    before + 1
}

#[async_trait]
impl Tool for AgentTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    /// The budget bounds the run, not the time limit of a tool.
    fn time_limit(&self) -> Duration {
        limits::DELEGATION_TIME
    }

    /// An interrupted call continues where it was.
    fn is_repeatable(&self) -> bool {
        true
    }

    fn concurrency(&self) -> ToolConcurrency {
        let is_kept = self.conversation == ConversationMode::Kept;
        ToolConcurrency::Delegation { conversation: is_kept.then(|| self.spec.name.as_str().into()) }
    }

    fn runs_agents(&self) -> bool {
        true
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let input = self.input(&cx.run.agent, call)?;
        let nobody = || Fault::other("no agent is running here that could call another agent");
        let me = RunState::of_caller(&cx.run).ok_or_else(nobody)?;
        let caller = me.caller.as_ref().ok_or_else(nobody)?;
        let output = match Box::pin(self.work(&me, caller, cx, call, input)).await {
            Ok(answer) => self.answer_as_output(answer),
            Err(fault) => Err(fault),
        };
        output.map_err(|fault| fault.with_context(format!("agent `{}` failed", self.agent)))
    }
}

impl fmt::Debug for AgentTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentTool").field("spec", &self.spec).field("agent", &self.agent).finish_non_exhaustive()
    }
}
