//! The agent loop: asks the model and runs the tools that it calls, until it answers.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::{
    Agent, RunAnswer, RunEnding, RunError, caller_context,
    completion::{ModelReply, ModelReplySummary, in_time},
    delegate::{self, RunState},
    effect::{EffectInput, EffectPhase, EffectSelection, EffectTarget, Effects},
    journal::{JournalRecord, RecordedToolCall},
    prompt,
    read_result_tool::read_result,
    run::{Run, RunLoop, RunnerInfo},
    runner::RunParams,
};
use crate::{
    chat::{Chat, Message, OpenCalls, Role},
    event::Event,
    model::{CompletionRequest, StopReason, Usage},
    tool::{CallStartHook, READ_RESULT, ToolBox, ToolCx},
};

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

/// The state of an agent in one run.
pub(crate) struct AgentLoop<'a> {
    pub agent: &'a Agent,
    pub tools: ToolBox,
    /// The tools of each source when `tools` was last put together.
    pub of_sources: Vec<ToolBox>,
    pub effects: Effects<'a>,
    pub last_usage: Option<Usage>,
    pub model_time: Duration,
    /// The position from which the run continues.
    pub at: TurnState,
    /// Set after the model was told that its reply only looks like a call; cleared when it makes a call.
    pub told_of_unread_call: bool,
    /// The recorded calls of the last reply, from before the run was interrupted.
    pub calls: HashMap<String, Box<RecordedToolCall>>,
}

/// The run of an agent.
pub(crate) type AgentRun<'a> = Run<'a, AgentLoop<'a>>;

impl Agent {
    pub(crate) async fn run_as(
        &self,
        mut start: Box<RunParams>,
        chat: &Chat,
        input: Vec<Message>,
    ) -> Result<RunAnswer, RunError> {
        let (past, errand) = (start.past.take(), start.errand.take());
        let me = Arc::new(RunState::new(&self.name, &self.options, &self.delegable, *start));
        caller_context::begin(self, &me, Some(chat));
        let work = AgentLoop::new(self, &me).await;
        let prompt = prompt::system_prompt(self, &me, &work.tools);
        let mut run = Run::new(self.shell(), Arc::clone(&me), chat, work);
        if past.is_none() {
            run.write_beginning(errand, &input, &prompt);
        }
        if let Some(log) = &me.log {
            me.handle.inbox.record(log);
        }
        match &me.agent_group {
            // After its first turn the system prompt is as the effects left it.
            _ if past.as_ref().is_some_and(|past| past.iterations > 0) && chat.has_edited_prompt() => {}
            Some(agent_group) => chat.share_system_prompt(agent_group.share_prompt(&self.name, prompt)),
            None => chat.set_system_prompt(&self.name, prompt),
        }
        run.tell_from_here();
        run.given(&input, past.as_deref());
        let input = match past {
            Some(past) => run.restore(*past, input),
            None => input,
        };
        run.through(input).await
    }

    fn shell(&self) -> RunnerInfo<'_> {
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

impl<'a> AgentLoop<'a> {
    async fn new(agent: &'a Agent, me: &Arc<RunState>) -> Self {
        let of_sources = agent.of_sources();
        Self {
            agent,
            tools: delegate::equip(agent, me).await,
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

impl<'a> RunLoop<'a> for AgentLoop<'a> {
    fn attempt<'r>(run: &'r mut Run<'a, Self>, input: Vec<Message>) -> BoxFuture<'r, Result<Message, RunError>> {
        Box::pin(run.attempt(input))
    }

    fn has_turns(run: &Run<'a, Self>) -> bool {
        run.has_turns()
    }
}

impl AgentRun<'_> {
    /// Makes one attempt at an answer: adds the input and loops. Turns, effects and time continue from the previous
    /// attempt. An interrupted attempt continues where it was.
    async fn attempt(&mut self, input: Vec<Message>) -> Result<Message, RunError> {
        self.ending = RunEnding::Answered;
        self.add(input)?;
        let mut at = std::mem::take(&mut self.work.at);
        loop {
            at = match at {
                TurnState::Turn if !self.has_turns() => {
                    return Err(RunError::MaxIterations(self.work.agent.options.max_iterations));
                }
                TurnState::Turn => {
                    self.begin_turn().await?;
                    TurnState::Reply(self.ask_model().await?)
                }
                TurnState::Model => {
                    self.go_on_with_turn().await?;
                    TurnState::Reply(self.ask_model().await?)
                }
                TurnState::Reply(reply) => match self.act_on(reply).await? {
                    Some(answer) => return Ok(answer),
                    None => TurnState::Turn,
                },
            }
        }
    }

    /// Does everything that happens before the model is asked.
    async fn begin_turn(&mut self) -> Result<(), RunError> {
        self.check_bytes()?;
        self.me.check_log()?;
        in_time(&self.me.budget_account, self.me.place.enter()).await?;
        self.look_for_tools().await;
        let iteration = self.iterations;
        self.iterations += 1;
        self.warn_of_the_end(iteration);
        self.eval_effects(EffectPhase::BeforeModel, iteration, EffectSelection::Due).await?;
        self.end_preparation(iteration).await;
        Ok(())
    }

    /// Continues a turn that was interrupted when the model was about to be asked. The effects have looked already; but the
    /// agent's tools may have changed since, and so may the effects that hide them.
    async fn go_on_with_turn(&mut self) -> Result<(), RunError> {
        if self.work.effects.has_new_tools(&self.work.tools) {
            let iteration = self.iterations.saturating_sub(1);
            self.eval_effects(EffectPhase::BeforeModel, iteration, EffectSelection::WithNewTools).await?;
            self.end_preparation(iteration).await;
        }
        Ok(())
    }

    /// Writes to the journal that the model is about to be asked.
    async fn end_preparation(&mut self, iteration: u32) {
        self.end_with_a_user();
        if self.me.log.is_some() {
            let (changes, effects, elapsed) = (self.changes(), self.work.effects.memories(), self.started.elapsed());
            self.me.write(|| JournalRecord::Turn { iteration, changes, effects, elapsed });
        }
        self.tell_messages().await;
    }

    /// Puts the tools together anew if a source has changed. Once a result was cut, the tool that reads the rest of it is
    /// among them.
    async fn look_for_tools(&mut self) {
        if !self.work.agent.has_same_tools(&self.work.of_sources) {
            self.work.of_sources = self.work.agent.of_sources();
            self.work.tools = delegate::equip(self.work.agent, &self.me).await;
        }
        self.offer_to_read_on();
    }

    pub(crate) fn offer_to_read_on(&mut self) {
        if self.chat.snapshot().keeps_results() && !self.work.tools.has(READ_RESULT) {
            // The name is reserved for this tool.
            let _ = self.work.tools.register(read_result(&self.work.agent.completer.info().context_window));
        }
    }

    async fn ask_model(&mut self) -> Result<Box<TurnReply>, RunError> {
        // A run that is resumed in the middle of a turn has no permit yet.
        in_time(&self.me.budget_account, self.me.place.enter()).await?;
        let iteration = self.iterations.saturating_sub(1);
        let mut tools = self.visible_tools();
        let mut replied = self.complete(&tools, iteration).await;
        if let Err(RunError::Window(exceeded)) = &replied
            && Box::pin(self.shorten_for(exceeded, iteration)).await?
        {
            tools = self.visible_tools();
            replied = self.complete(&tools, iteration).await;
        }
        let ModelReply { completion, cost, took } = replied?;
        // A tool that the vendor has just refused could not be called.
        let tools = tools.without(&self.me.refused_tools());
        let told = ModelReplySummary::of(&completion, took);
        let stop = completion.stop.clone();
        let message = completion.into_message(&self.me.cx.agent);
        let silent = message.says_nothing().then(|| message.clone());
        let open = self.chat.reply(message);
        if self.me.log.is_some() {
            let ModelReplySummary { model, stop, usage, .. } = told.clone();
            let (changes, silent) = (self.changes(), silent.clone());
            self.me.write(|| JournalRecord::Replied { iteration, model, stop, usage, cost, took, changes, silent });
        }
        self.tell_reply(told, iteration).await;
        // Boxed to keep the futures that pass it on small.
        Ok(Box::new(TurnReply { stop, silent, open, tools, looked: false }))
    }

    /// Lets the effects look at a reply, and runs its calls. Returns `None` if another turn follows.
    async fn act_on(&mut self, reply: Box<TurnReply>) -> Result<Option<Message>, RunError> {
        let (run, chat) = (self.me.cx.clone(), self.chat.snapshot());
        let seen = ToolCx { run, chat, tools: self.work.tools.specs(), begin: CallStartHook::default() };
        if reply.silent.is_none()
            && !reply.looked
            && let Err(error) = self.look_at_reply().await
        {
            reply.open.abandon(&error.to_string());
            return Err(error);
        }
        self.tell_messages().await;
        match reply.stop {
            StopReason::MaxTokens => {
                reply.open.abandon("the reply that made it was cut off");
                Err(self.why_cut())
            }
            StopReason::Refusal => {
                reply.open.abandon("the model declined to answer");
                Err(RunError::Refused(reply.silent.unwrap_or_else(|| self.last_reply()).text_content()))
            }
            _ if reply.open.calls().is_empty() => {
                let sent = self.messages();
                if sent.is_empty() && self.asks_to_call_again(&reply).await {
                    return Ok(None);
                }
                if sent.is_empty() {
                    return Ok(Some(reply.silent.unwrap_or_else(|| self.last_reply())));
                }
                self.add(sent)?;
                Ok(None)
            }
            _ => {
                self.work.told_of_unread_call = false;
                let control = self.run_calls(&seen, reply).await?;
                let sent = self.messages();
                match control {
                    Some(control) if sent.is_empty() => {
                        self.ending = control.into();
                        // Not the reply: the report leaves the agent, and middleware looks at the report.
                        Ok(Some(Message::text(Role::Assistant, &*self.me.cx.agent, self.ending.report())))
                    }
                    // The sender did not know that the task has ended: the agent reads the message first.
                    _ => {
                        self.add(sent)?;
                        Ok(None)
                    }
                }
            }
        }
    }

    /// Tells the model that its reply looks like a tool call and is none, since such a reply is rarely an answer. Does so
    /// once, and only while the model has a turn to try again. An event is emitted in any case.
    async fn asks_to_call_again(&mut self, reply: &TurnReply) -> bool {
        let message = reply.silent.clone().unwrap_or_else(|| self.last_reply());
        let Some(why) = message.unread_call() else { return false };
        let again = !std::mem::replace(&mut self.work.told_of_unread_call, true) && self.has_turns();
        let (agent, model) = (self.me.cx.agent.clone(), self.work.agent.completer.info().name.clone());
        let reason = format!("its reply looks like a tool call and is none: {why}");
        self.me.cx.events.emit(Event::ModelFailed { agent, model, reason, again }).await;
        if again {
            let note = format!(
                "Your reply looks like a tool call, but no tool was called: {why}. Call the tool again in the form that you \
                 were given. If this was your answer, give it again."
            );
            self.chat.note(&self.work.agent.name, note);
        }
        again
    }

    async fn look_at_reply(&mut self) -> Result<(), RunError> {
        if self.work.agent.effects.is_empty() {
            return Ok(());
        }
        self.eval_effects(EffectPhase::AfterModel, self.iterations.saturating_sub(1), EffectSelection::Due).await?;
        if self.me.log.is_some() {
            let (changes, effects) = (self.changes(), self.work.effects.memories());
            self.me.write(|| JournalRecord::Looked { changes, effects });
        }
        Ok(())
    }

    /// Takes the messages from the inbox while there is a turn in which to read them.
    fn messages(&self) -> Vec<Message> {
        if self.has_turns() { self.me.handle.inbox.take() } else { Vec::new() }
    }

    /// Returns `true` if the model may be asked again.
    pub(crate) fn has_turns(&self) -> bool {
        self.iterations < self.work.agent.options.max_iterations
    }

    fn add(&self, messages: Vec<Message>) -> Result<(), RunError> {
        messages.into_iter().try_for_each(|message| self.chat.append(message)).map_err(RunError::Input)
    }

    /// Ensures that the conversation ends with a user message or tool result. Vendors refuse any other conversation, which
    /// results from a retry without feedback and from edits.
    pub(crate) fn end_with_a_user(&self) {
        let chat = self.chat.snapshot();
        if !chat.last().is_some_and(|entry| matches!(entry.message.role, Role::User | Role::Tool)) {
            self.chat.note(&self.work.agent.name, "Go on.");
        }
    }

    fn warn_of_the_end(&self, iteration: u32) {
        let options = &self.work.agent.options;
        if options.warn_iterations > 0 && iteration == options.warn_iterations {
            let left = options.max_iterations - iteration;
            let note = format!(
                "You have {left} of {} turns left. Bring your work to an end: finish what is begun, and answer.",
                options.max_iterations
            );
            self.chat.note(&self.work.agent.name, note);
        }
    }

    /// Returns the tools that the model may see and call now.
    fn visible_tools(&self) -> ToolBox {
        self.work.effects.visible_tools(&self.work.tools).without(&self.me.refused_tools())
    }

    pub(crate) async fn eval_effects(
        &mut self,
        phase: EffectPhase,
        iteration: u32,
        callees: EffectSelection,
    ) -> Result<(), RunError> {
        match self.work.agent.effects.is_empty() {
            true => Ok(()),
            false => Box::pin(self.eval_all_effects(phase, iteration, callees)).await,
        }
    }

    async fn eval_all_effects(
        &mut self,
        phase: EffectPhase,
        iteration: u32,
        callees: EffectSelection,
    ) -> Result<(), RunError> {
        let request = CompletionRequest::new(self.chat.snapshot(), self.work.tools.specs());
        let mut moment = EffectInput {
            phase,
            iteration,
            request_tokens: request.tokens(),
            context_window: self.work.agent.completer.info().context_window.tokens(),
            last_usage: self.work.last_usage,
            run_usage: self.usage,
            model_time: self.work.model_time,
            elapsed: self.started.elapsed(),
            reply: None,
        };
        let tools = self.work.tools.specs();
        let on = EffectTarget { me: &self.me, chat: self.chat, of: self.work.agent, tools: &tools };
        in_time(&self.me.budget_account, self.work.effects.eval(on, callees, &mut moment, &mut self.usage)).await?
    }

    /// Returns the newest reply as it stands in the chat, where an effect may have changed it.
    fn last_reply(&self) -> Message {
        let chat = self.chat.snapshot();
        let reply = chat.iter().rev().find(|entry| entry.message.role == Role::Assistant);
        reply.map_or_else(
            || Message::text(Role::Assistant, &*self.work.agent.name, ""),
            |entry| Message::clone(&entry.message),
        )
    }
}
