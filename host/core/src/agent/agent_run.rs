//! Runs an agent: the [driver](super::run::Run) around its [loop](AgentLoop).

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{
    agent::Agent,
    agent_loop::AgentLoop,
    context::{CallerContext, RunParams, RunState, Runner, RunnerProfile, in_time},
    delegate::run_tools,
    outcome::{RunAnswer, RunError},
    prompt::system_prompt,
    run::{Run, RunnerInfo},
    tool_call::call_through,
};
use crate::{
    capability::{Budget, BudgetAccount},
    chat::{Chat, Message, ToolCall, ToolResult},
    event::RunCx,
    tool::{CallStartHook, ToolCx},
};

impl Runner for Agent {
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

    /// Makes one tool call outside of any run: through the middleware around the agent's calls, and within a budget of its
    /// own. Never fails: any error is in the result. Dropping the future cancels the call.
    pub async fn call(&self, cx: &RunCx, call: &ToolCall) -> ToolResult {
        let budget_account = BudgetAccount::new(&self.budget, Instant::now());
        let start = RunParams::of_a_person(self.agent_group.as_ref(), cx, &budget_account, None);
        let me = RunState::new(&self.name, &self.options, &self.delegable, *start, Some(self.caller_context(None)));
        let tools = self.toolbox();
        let (run, begin) = (me.cx.clone(), CallStartHook::default());
        let cx = ToolCx { tools: tools.specs(), begin, ..ToolCx::new(run) };
        let made = call_through(&me, &self.tool_middleware, &tools, &cx, call, false);
        match in_time(&budget_account, made).await {
            Ok((mut dispatched, _)) => {
                tools.cut(call, &mut dispatched.result);
                tools.tell_finished(&cx, call, &dispatched).await;
                dispatched.result
            }
            Err(error) => ToolResult::error(&call.id, error.in_full()),
        }
    }

    async fn run_as(&self, mut start: Box<RunParams>, chat: &Chat, input: Vec<Message>) -> Result<RunAnswer, RunError> {
        let recorded = start.recorded.take();
        let caller = self.caller_context(Some(chat));
        let me = RunState::new(&self.name, &self.options, &self.delegable, *start, Some(caller));
        // A report or question that middleware may still change must not be seen before.
        let has_parked_children = recorded.as_ref().is_some_and(|recorded| !recorded.parked.is_empty());
        let run_tools = run_tools(&me, self.may_replace_answers(), has_parked_children);
        let mut work = AgentLoop::new(self, &me, run_tools).await;
        let prompt = system_prompt(self, &me, &work.tools);
        let mut run = Run::new(self.info(), me, chat);
        run.perform(&mut work, prompt, recorded, input).await
    }

    fn caller_context(&self, chat: Option<&Chat>) -> CallerContext {
        CallerContext { models: self.model_access(), tools: self.tools.clone(), chat: chat.cloned() }
    }

    fn info(&self) -> RunnerInfo<'_> {
        RunnerInfo {
            name: &self.name,
            prefix: &self.prefix,
            model: &self.completer.info().model,
            middleware: &self.middleware,
            model_middleware: &self.model_middleware,
            grants: Some(&self.grants),
        }
    }
}
