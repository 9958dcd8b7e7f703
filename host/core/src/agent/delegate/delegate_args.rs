use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reply_calls::agent_calls_of_reply;
use crate::{
    agent::context::{AgentCalls, InteractionMode, RunState, is_same_name},
    capability::Budget,
    error::Fault,
    limits,
    tool::ToolCx,
};

/// The name of the tool that gives tasks to other agents.
pub const DELEGATE_TOOL: &str = "delegate";

/// Tasks for other agents.
#[derive(PartialEq, Serialize, Deserialize, JsonSchema)]
pub(super) struct DelegateArgs {
    /// The tasks. All of them run in parallel. The results come in the same order.
    tasks: Vec<DelegateTaskArgs>,
    /// True to stop the other tasks as soon as one fails. Usually false.
    #[serde(default)]
    fail_fast: bool,
}

#[derive(PartialEq, Serialize, Deserialize, JsonSchema)]
struct DelegateTaskArgs {
    /// The agent's name, as shown by list_agents.
    agent: String,
    /// What the agent is to do, and how you will know that it is done.
    task: String,
    /// Everything that the agent must know, as it does not see your conversation: files, decisions, constraints.
    context: String,
    /// The id of a task on the shared board, which is claimed and updated for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    /// The most that the agent may spend; an equal share of your own budget if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    budget: Option<Budget>,
    /// `interactive` if you answer the agent's questions, `blocking` if it must decide from its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<DelegationMode>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum DelegationMode {
    Blocking,
    Interactive,
}

impl DelegateArgs {
    /// Returns these arguments as JSON if they are not those that the model gave for the call in this conversation.
    fn changed_arguments(&self, cx: &ToolCx) -> Option<String> {
        let mut calls = cx.chat.iter().rev().flat_map(|entry| entry.message.tool_calls());
        let requested = calls.find(|call| *call.id == *cx.call);
        let requested = requested.and_then(|call| serde_json::from_str::<Self>(&call.arguments).ok());
        // Cannot fail: they were read from JSON.
        serde_json::to_string(self).ok().filter(|_| requested.as_ref() != Some(self))
    }
}

/// A task as a model requests it.
pub(super) struct DelegationRequest {
    pub agent: String,
    pub task: String,
    pub context: String,
    pub task_id: Option<String>,
    /// The most that may be spent on it.
    pub budget: Budget,
    /// Set if the questions of its agent go to the delegating agent.
    pub may_ask_delegator: bool,
}

/// Checks the tasks of a call, and returns them as requests.
fn requests(me: &RunState, tasks: Vec<DelegateTaskArgs>) -> Result<Vec<DelegationRequest>, Fault> {
    if tasks.len() > limits::TASKS_PER_DELEGATION {
        let most = limits::TASKS_PER_DELEGATION;
        return Err(Fault::invalid(format!("{} tasks in one call, the maximum is {most}", tasks.len())));
    }
    let request = |(at, task): (usize, DelegateTaskArgs)| {
        if is_same_name(&task.agent, &me.agent) {
            return Err(Fault::invalid(format!(
                "tasks[{at}]: you are {} and cannot delegate to yourself; choose another agent",
                me.agent
            )));
        }
        for (name, text) in [("agent", &task.agent), ("task", &task.task), ("context", &task.context)] {
            if text.trim().is_empty() {
                return Err(Fault::invalid(format!("tasks[{at}]: `{name}` is empty")));
            }
        }
        let may_ask_delegator = match (me.options.interaction, task.mode) {
            (InteractionMode::Blocking, _) | (_, Some(DelegationMode::Blocking)) | (InteractionMode::Auto, None) => {
                false
            }
            (_, Some(DelegationMode::Interactive)) | (InteractionMode::Interactive, None) => true,
        };
        let DelegateTaskArgs { agent, task, context, task_id, budget, .. } = task;
        Ok(DelegationRequest { agent, task, context, task_id, budget: budget.unwrap_or_default(), may_ask_delegator })
    };
    tasks.into_iter().enumerate().map(request).collect()
}

/// The tasks of one `delegate` call.
pub(super) struct DelegateCall {
    pub requests: Vec<DelegationRequest>,
    pub fail_fast: bool,
    /// The arguments, if middleware has changed those in the conversation.
    pub arguments_from_middleware: Option<String>,
    /// The calls of its reply; none for a call that is restored.
    pub reply: AgentCalls,
}

impl DelegateCall {
    /// Returns the tasks of the call that is under way.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] for the model if a task is not valid.
    pub fn of(me: &RunState, cx: &ToolCx, args: DelegateArgs) -> Result<Self, Fault> {
        let arguments_from_middleware = args.changed_arguments(cx);
        Ok(Self { arguments_from_middleware, reply: agent_calls_of_reply(me, cx, &cx.call), ..Self::new(me, args)? })
    }

    /// Returns the tasks of a call with these arguments.
    pub fn read(me: &RunState, arguments: &str) -> Option<Self> {
        Self::new(me, serde_json::from_str(arguments).ok()?).ok()
    }

    fn new(me: &RunState, args: DelegateArgs) -> Result<Self, Fault> {
        let requests = requests(me, args.tasks)?;
        Ok(Self { requests, fail_fast: args.fail_fast, arguments_from_middleware: None, reply: AgentCalls::default() })
    }
}
