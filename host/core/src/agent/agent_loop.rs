//! The agent loop: asks the model and runs the tools that it calls, until it answers.
//!
//! Read from top to bottom it follows a turn: the effects look at the conversation, the model is asked, the effects look at
//! its reply, its calls are run, and their results begin the next turn.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::Instant;

use super::{
    agent::Agent,
    context::{AgentModels, RunState, in_time},
    effect::{EffectInput, EffectPhase},
    effects::{EffectSelection, EffectTarget, Effects},
    journal::{JournalRecord, RecordedRun, RecordedToolCall},
    model_call::{ModelRequest, ask},
    outcome::{RunEnding, RunError},
    run::{Run, RunWork},
    run_toolbox::all_tools,
    tool_call::{read_result, run_calls},
};
use crate::{
    capability::Usd,
    chat::{Message, OpenCalls, Part, Role, ToolCall, ToolResult},
    event::Event,
    limits,
    model::{Completion, CompletionRequest, StopReason, Usage},
    tool::{CallStartHook, READ_RESULT, RunControl, Tool, ToolBox, ToolCx},
};

/// The state of an agent in one run.
pub(crate) struct AgentLoop<'a> {
    pub agent: &'a Agent,
    models: AgentModels,
    /// The tools that depend on the position of the run, such as its parent.
    run_tools: Vec<Arc<dyn Tool>>,
    pub tools: ToolBox,
    /// The tools of each source when `tools` was last put together.
    of_sources: Vec<ToolBox>,
    pub effects: Effects<'a>,
    pub last_usage: Option<Usage>,
    pub model_time: Duration,
    /// The position from which the run continues.
    pub at: TurnState,
    /// Set after the model was told that its reply only looks like a call; cleared when it makes a call.
    told_of_unread_call: bool,
    /// The recorded calls of the last reply, from before the run was interrupted.
    pub calls: HashMap<String, Box<RecordedToolCall>>,
}

/// The position of a run in its turn.
#[derive(Default)]
pub(crate) enum TurnState {
    /// A turn is about to begin.
    #[default]
    Turn,
    /// The run was interrupted when the model was about to be asked.
    Model,
    /// The model has replied.
    Reply(Box<TurnReply>),
}

/// A reply of the model. It is in the conversation unless it is empty.
pub(crate) struct TurnReply {
    pub stop: StopReason,
    /// A reply that says nothing. It is not added to the conversation, and effects do not see it.
    pub silent: Option<Message>,
    pub open: OpenCalls,
    /// The tools that the model could call.
    pub tools: ToolBox,
    /// Set after the effects have looked at the reply.
    pub looked: bool,
}

impl<'a> AgentLoop<'a> {
    /// Creates the state of a run that has `run_tools` in addition to the agent's own tools.
    pub async fn new(agent: &'a Agent, me: &RunState, run_tools: Vec<Arc<dyn Tool>>) -> Self {
        let of_sources = agent.of_sources();
        Self {
            agent,
            models: agent.model_access(),
            tools: all_tools(agent, me, &run_tools).await,
            run_tools,
            of_sources,
            effects: Effects::new(&agent.effects),
            last_usage: None,
            model_time: Duration::ZERO,
            at: TurnState::Turn,
            told_of_unread_call: false,
            calls: HashMap::new(),
        }
    }
}

impl<'a> RunWork<'a> for AgentLoop<'a> {
    fn show_prompt(&self, run: &Run<'a>, prompt: String, recorded: Option<&RecordedRun>) {
        match &run.me.agent_group {
            // After its first turn the system prompt is as the effects left it.
            _ if recorded.is_some_and(|recorded| recorded.iterations > 0) && run.chat.has_edited_prompt() => {}
            Some(agent_group) => run.chat.share_system_prompt(agent_group.share_prompt(&self.agent.name, prompt)),
            None => run.chat.set_system_prompt(&self.agent.name, prompt),
        }
    }

    fn restore(&mut self, run: &mut Run<'a>, recorded: RecordedRun) {
        self.restore_turn(run, recorded);
    }

    fn attempt<'r>(
        &'r mut self,
        run: &'r mut Run<'a>,
        input: Vec<Message>,
    ) -> BoxFuture<'r, Result<Message, RunError>> {
        Box::pin(self.attempt(run, input))
    }

    fn has_turns(&self, run: &Run<'a>) -> bool {
        self.has_turns(run)
    }
}

impl AgentLoop<'_> {
    /// Makes one attempt at an answer: adds the input and loops. Turns, effects and time continue from the previous
    /// attempt. An interrupted attempt continues where it was.
    async fn attempt(&mut self, run: &mut Run<'_>, input: Vec<Message>) -> Result<Message, RunError> {
        run.ending = RunEnding::Answered;
        self.add(run, input)?;
        let mut at = std::mem::take(&mut self.at);
        loop {
            at = match at {
                TurnState::Turn if !self.has_turns(run) => {
                    return Err(RunError::MaxIterations(self.agent.options.max_iterations));
                }
                TurnState::Turn => {
                    self.begin_turn(run).await?;
                    TurnState::Reply(self.ask_model(run).await?)
                }
                TurnState::Model => {
                    self.go_on_with_turn(run).await?;
                    TurnState::Reply(self.ask_model(run).await?)
                }
                TurnState::Reply(reply) => match self.act_on(run, reply).await? {
                    Some(answer) => return Ok(answer),
                    None => TurnState::Turn,
                },
            }
        }
    }

    /// Does everything that happens before the model is asked.
    async fn begin_turn(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        run.check_bytes()?;
        run.me.check_log()?;
        in_time(&run.me.budget_account, run.me.permit.acquire()).await?;
        self.look_for_tools(run).await;
        let iteration = run.iterations;
        run.iterations += 1;
        self.warn_of_the_end(run, iteration);
        self.eval_effects(run, EffectPhase::BeforeModel, iteration, EffectSelection::Due).await?;
        self.end_preparation(run, iteration).await;
        Ok(())
    }

    /// Continues a turn that was interrupted when the model was about to be asked. The effects have looked already; but the
    /// agent's tools may have changed since, and so may the effects that hide them.
    async fn go_on_with_turn(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        if self.effects.has_new_tools(&self.tools) {
            let iteration = run.iterations.saturating_sub(1);
            self.eval_effects(run, EffectPhase::BeforeModel, iteration, EffectSelection::WithNewTools).await?;
            self.end_preparation(run, iteration).await;
        }
        Ok(())
    }

    /// Puts the tools together anew if a source has changed. Once a result was cut, the tool that reads the rest of it is
    /// among them.
    async fn look_for_tools(&mut self, run: &mut Run<'_>) {
        if !self.agent.has_same_tools(&self.of_sources) {
            self.of_sources = self.agent.of_sources();
            self.tools = all_tools(self.agent, &run.me, &self.run_tools).await;
        }
        self.offer_to_read_on(run);
    }

    /// Adds the tool that reads on in a cut result, once there is such a result.
    pub(crate) fn offer_to_read_on(&mut self, run: &Run<'_>) {
        if run.chat.snapshot().keeps_results() && !self.tools.has(READ_RESULT) {
            // The name is reserved for this tool.
            let _ = self.tools.register(read_result(&self.agent.completer.info().context_window));
        }
    }

    /// Tells the agent, once, that few turns are left.
    fn warn_of_the_end(&self, run: &Run<'_>, iteration: u32) {
        let options = &self.agent.options;
        if options.warn_iterations > 0 && iteration == options.warn_iterations {
            let left = options.max_iterations - iteration;
            let note = format!(
                "You have {left} of {} turns left. Finish what you have begun, then answer.",
                options.max_iterations
            );
            run.chat.note(&self.agent.name, note);
        }
    }

    /// Calls the selected effects, which may change the conversation.
    pub(crate) async fn eval_effects(
        &mut self,
        run: &mut Run<'_>,
        phase: EffectPhase,
        iteration: u32,
        callees: EffectSelection,
    ) -> Result<(), RunError> {
        match self.agent.effects.is_empty() {
            true => Ok(()),
            false => Box::pin(self.eval_all_effects(run, phase, iteration, callees)).await,
        }
    }

    async fn eval_all_effects(
        &mut self,
        run: &mut Run<'_>,
        phase: EffectPhase,
        iteration: u32,
        callees: EffectSelection,
    ) -> Result<(), RunError> {
        let request = CompletionRequest::new(run.chat.snapshot(), self.tools.specs());
        let mut moment = EffectInput {
            phase,
            iteration,
            request_tokens: request.tokens(),
            context_window: self.agent.completer.info().context_window.tokens(),
            last_usage: self.last_usage,
            run_usage: run.usage,
            model_time: self.model_time,
            elapsed: run.started.elapsed(),
            reply: None,
        };
        let tools = self.tools.specs();
        let is_shown = !run.runner.may_replace_answers();
        let on = EffectTarget { me: &run.me, chat: run.chat, models: &self.models, tools: &tools, is_shown };
        in_time(&run.me.budget_account, self.effects.eval(on, callees, &mut moment, &mut run.usage)).await?
    }

    /// Writes to the journal that the model is about to be asked.
    async fn end_preparation(&mut self, run: &mut Run<'_>, iteration: u32) {
        self.end_with_a_user(run);
        if run.me.log.is_some() {
            let (changes, effects, elapsed) = (run.changes(), self.effects.memories(), run.started.elapsed());
            run.me.write(|| JournalRecord::Turn { iteration, changes, effects, elapsed });
        }
        run.tell_messages().await;
    }

    /// Ensures that the conversation ends with a user message or tool result. Vendors refuse any other conversation, which
    /// results from a retry without feedback and from edits.
    pub(crate) fn end_with_a_user(&self, run: &Run<'_>) {
        let chat = run.chat.snapshot();
        if !chat.last().is_some_and(|entry| matches!(entry.message.role, Role::User | Role::Tool)) {
            run.chat.note(&self.agent.name, "Continue.");
        }
    }

    /// Asks the model, and adds its reply to the conversation. A conversation that is too long for it is shortened once.
    async fn ask_model(&mut self, run: &mut Run<'_>) -> Result<Box<TurnReply>, RunError> {
        // A run that is resumed in the middle of a turn has no permit yet.
        in_time(&run.me.budget_account, run.me.permit.acquire()).await?;
        let iteration = run.iterations.saturating_sub(1);
        let mut tools = self.visible_tools(run);
        let mut replied = self.complete(run, &tools, iteration).await;
        if let Err(RunError::Window(exceeded)) = &replied
            && Box::pin(self.shorten_for(run, exceeded, iteration)).await?
        {
            tools = self.visible_tools(run);
            replied = self.complete(run, &tools, iteration).await;
        }
        let ModelReply { completion, cost, took } = replied?;
        // A tool that the vendor has just refused could not be called.
        let tools = tools.without(&run.me.refused_tools());
        let told = ModelReplySummary::of(&completion, took);
        let stop = completion.stop.clone();
        let message = completion.into_message(&run.me.cx.agent);
        let silent = message.says_nothing().then(|| message.clone());
        let open = run.chat.reply(message);
        if run.me.log.is_some() {
            let ModelReplySummary { model, stop, usage, .. } = told.clone();
            let (changes, silent) = (run.changes(), silent.clone());
            run.me.write(|| JournalRecord::Replied { iteration, model, stop, usage, cost, took, changes, silent });
        }
        self.tell_reply(run, told, iteration).await;
        // Boxed to keep the futures that pass it on small.
        Ok(Box::new(TurnReply { stop, silent, open, tools, looked: false }))
    }

    /// Requests a completion within the budget and its time.
    async fn complete(&mut self, run: &mut Run<'_>, tools: &ToolBox, iteration: u32) -> Result<ModelReply, RunError> {
        let cx = &run.me.cx;
        let mut request = CompletionRequest::new(run.chat.snapshot(), tools.specs());
        if tools.is_empty() {
            request.response_schema = self.agent.response_schema.as_deref().map(str::to_owned);
        }
        let watched = cx.events.is_watched();
        if watched {
            let (agent, window) = (cx.agent.clone(), self.agent.completer.info().context_window.tokens());
            let (tokens, parts) = (request.tokens(), request.tokens_by_part());
            cx.events.emit(Event::ModelStarted { agent, iteration, tokens, parts, window }).await;
        }
        // A reply that a middleware may still replace must not be shown before.
        let shown = cx.events.has_readers() && !run.runner.may_replace_answers() && !self.models.may_replace_replies();
        let started = Instant::now();
        let asked = ask(&run.me, &self.models, ModelRequest { model: None, request, shown }, &mut run.usage);
        let outcome = in_time(&run.me.budget_account, asked).await;
        let took = started.elapsed();
        self.model_time += took;
        let (completion, cost) = outcome??;
        self.last_usage = Some(completion.usage);
        Ok(ModelReply { completion, cost, took })
    }

    /// Emits the event of a reply.
    async fn tell_reply(&self, run: &Run<'_>, replied: ModelReplySummary, iteration: u32) {
        let cx = &run.me.cx;
        if cx.events.is_watched() {
            let ModelReplySummary { model, stop, calls, usage, took: duration } = replied;
            let agent = cx.agent.clone();
            let event = Event::ModelFinished { agent, iteration, model, stop, calls, usage, duration };
            cx.events.emit(event).await;
        }
    }

    /// Lets the effects look at a reply, and runs its calls. Returns `None` if another turn follows.
    async fn act_on(&mut self, run: &mut Run<'_>, reply: Box<TurnReply>) -> Result<Option<Message>, RunError> {
        let (tools, begin) = (self.tools.specs(), CallStartHook::default());
        // Tools see the conversation as the model saw it, with its reply.
        let seen = ToolCx { chat: run.chat.snapshot(), tools, begin, ..ToolCx::new(run.me.cx.clone()) };
        if reply.silent.is_none()
            && !reply.looked
            && let Err(error) = self.look_at_reply(run).await
        {
            reply.open.abandon(&error.to_string());
            return Err(error);
        }
        run.tell_messages().await;
        match reply.stop {
            StopReason::MaxTokens => {
                reply.open.abandon("the reply with this call was cut off");
                Err(self.why_cut(run))
            }
            StopReason::Refusal => {
                reply.open.abandon("the model declined to answer");
                Err(RunError::Refused(reply.silent.unwrap_or_else(|| self.last_reply(run)).text_content()))
            }
            _ if reply.open.calls().is_empty() => {
                let sent = self.messages(run);
                if sent.is_empty() && self.asks_to_call_again(run, &reply).await {
                    return Ok(None);
                }
                if sent.is_empty() {
                    return Ok(Some(reply.silent.unwrap_or_else(|| self.last_reply(run))));
                }
                self.add(run, sent)?;
                Ok(None)
            }
            _ => {
                self.told_of_unread_call = false;
                let control = self.run_calls(run, &seen, reply).await?;
                let sent = self.messages(run);
                match control {
                    Some(control) if sent.is_empty() => {
                        run.ending = control.into();
                        // Not the reply: the report leaves the agent, and middleware looks at the report.
                        Ok(Some(Message::text(Role::Assistant, &*run.me.cx.agent, run.ending.report())))
                    }
                    // The sender did not know that the task has ended: the agent reads the message first.
                    _ => {
                        self.add(run, sent)?;
                        Ok(None)
                    }
                }
            }
        }
    }

    /// Lets the effects look at the reply in the conversation.
    async fn look_at_reply(&mut self, run: &mut Run<'_>) -> Result<(), RunError> {
        if self.agent.effects.is_empty() {
            return Ok(());
        }
        let iteration = run.iterations.saturating_sub(1);
        self.eval_effects(run, EffectPhase::AfterModel, iteration, EffectSelection::Due).await?;
        if run.me.log.is_some() {
            let (changes, effects) = (run.changes(), self.effects.memories());
            run.me.write(|| JournalRecord::Looked { changes, effects });
        }
        Ok(())
    }

    /// Runs the calls of a reply and answers them in its order. Returns the control action of the first call that has one.
    async fn run_calls(
        &mut self,
        run: &mut Run<'_>,
        cx: &ToolCx,
        reply: Box<TurnReply>,
    ) -> Result<Option<RunControl>, RunError> {
        let TurnReply { open, tools, .. } = *reply;
        let window = self.agent.completer.info().context_window.tokens();
        let tools = tools.for_calls(open.calls().len(), window);
        let (calls, beyond) = open.calls().split_at(open.calls().len().min(limits::CALLS_PER_REPLY));
        let (around, recorded) = (&self.agent.tool_middleware, std::mem::take(&mut self.calls));
        let outcomes = run_calls(&run.me, around, &tools, cx, calls, recorded).await;
        run.usage += run.me.take_used_by_tools();
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                open.abandon(&error.to_string());
                return Err(error);
            }
        };
        let most = limits::CALLS_PER_REPLY;
        let too_many = |call: &ToolCall| {
            ToolResult::error(
                &call.id,
                format!("not run: a reply can have at most {most} calls; repeat this call in your next reply"),
            )
        };
        let too_many: Vec<_> = beyond.iter().map(too_many).collect();
        let mut control = None;
        let results = outcomes.into_iter().map(|(mut dispatched, whole)| {
            match (&control, dispatched.control.take()) {
                (None, first) => control = first,
                (Some(_), None) => {}
                (Some(_), Some(_)) => dispatched.result = ToolResult::error(&dispatched.result.call_id, TOO_LATE),
            }
            whole.into_iter().for_each(|whole| run.chat.keep_result(&dispatched.result.call_id, whole));
            dispatched.result
        });
        let results: Vec<_> = results.chain(too_many).collect();
        if run.me.log.is_some() {
            let ran = results.iter().take(calls.len());
            run.recorded_results = ran.map(|result| (result.call_id.clone(), result.message_bytes())).collect();
        }
        open.answer(results);
        Ok(control)
    }

    /// Tells the model that its reply looks like a tool call and is none, since such a reply is rarely an answer. Does so
    /// once, and only while the model has a turn to try again. An event is emitted in any case.
    async fn asks_to_call_again(&mut self, run: &mut Run<'_>, reply: &TurnReply) -> bool {
        let message = reply.silent.clone().unwrap_or_else(|| self.last_reply(run));
        let Some(why) = message.unread_call() else { return false };
        let again = !std::mem::replace(&mut self.told_of_unread_call, true) && self.has_turns(run);
        let (agent, model) = (run.me.cx.agent.clone(), self.agent.completer.info().name.clone());
        let reason = format!("the reply looks like a tool call but is not one: {why}");
        run.me.cx.events.emit(Event::ModelFailed { agent, model, reason, again }).await;
        if again {
            let note = format!(
                "Your reply looks like a tool call, but no tool was called: {why}. Call the tool again in the \
                 required format. If this was your answer, repeat it."
            );
            run.chat.note(&self.agent.name, note);
        }
        again
    }

    /// Returns the error for a reply that was cut off: if the budget cut it, the model is not to blame.
    fn why_cut(&self, run: &Run<'_>) -> RunError {
        let request = CompletionRequest::new(run.chat.snapshot(), self.tools.specs());
        let price = self.agent.completer.info().price.as_ref();
        run.me.budget_account.clamp(None, request.tokens(), price).map_or_else(RunError::Budget, |_| RunError::Cut)
    }

    /// Returns the tools that the model may see and call now.
    fn visible_tools(&self, run: &Run<'_>) -> ToolBox {
        self.effects.visible_tools(&self.tools).without(&run.me.refused_tools())
    }

    /// Takes the messages from the inbox while there is a turn in which to read them.
    fn messages(&self, run: &Run<'_>) -> Vec<Message> {
        if self.has_turns(run) { run.me.handle.inbox.take() } else { Vec::new() }
    }

    /// Returns `true` if the model may be asked again.
    pub(crate) fn has_turns(&self, run: &Run<'_>) -> bool {
        run.iterations < self.agent.options.max_iterations
    }

    fn add(&self, run: &Run<'_>, messages: Vec<Message>) -> Result<(), RunError> {
        messages.into_iter().try_for_each(|message| run.chat.append(message)).map_err(RunError::Input)
    }

    /// Returns the newest reply as it stands in the chat, where an effect may have changed it.
    fn last_reply(&self, run: &Run<'_>) -> Message {
        let chat = run.chat.snapshot();
        let reply = chat.iter().rev().find(|entry| entry.message.role == Role::Assistant);
        reply.map_or_else(
            || Message::text(Role::Assistant, &*self.agent.name, ""),
            |entry| Message::clone(&entry.message),
        )
    }
}

/// A reply of the model, with its cost and duration.
struct ModelReply {
    completion: Completion,
    cost: Usd,
    took: Duration,
}

/// The facts of a reply for its event.
#[derive(Clone)]
struct ModelReplySummary {
    model: String,
    stop: StopReason,
    usage: Usage,
    calls: usize,
    took: Duration,
}

impl ModelReplySummary {
    fn of(completion: &Completion, took: Duration) -> Self {
        let calls = completion.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count();
        let Completion { model, stop, usage, .. } = completion;
        Self { model: model.clone(), stop: stop.clone(), usage: *usage, calls, took }
    }
}

/// The text for the model in place of a second call in one reply that would end its turn.
const TOO_LATE: &str = "not run: an earlier call of the same reply has already ended your turn";
