//! The loop: ask the model, run the tools that it calls, until it answers.

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

/// Where in its turn a run is.
#[derive(Default)]
pub(crate) enum TurnState {
    /// A turn is to begin.
    #[default]
    Turn,
    /// The run was interrupted when the model was to be asked.
    Model,
    /// The model has replied.
    Reply(Box<TurnReply>),
}

/// A reply that stands in the conversation, if it says anything.
pub(crate) struct TurnReply {
    pub stop: StopReason,
    /// One that says nothing: it does not come into the conversation, and is no matter for effects.
    pub silent: Option<Message>,
    pub open: OpenCalls,
    /// The tools that the model could call.
    pub tools: ToolBox,
    /// Whether the effects have looked at it.
    pub looked: bool,
}

/// What an agent works with in one run.
pub(crate) struct AgentLoop<'a> {
    pub agent: &'a Agent,
    pub tools: ToolBox,
    /// What each source had when the tools were last put together.
    pub of_sources: Vec<ToolBox>,
    pub effects: Effects<'a>,
    pub last_usage: Option<Usage>,
    pub model_time: Duration,
    /// Where it goes on.
    pub at: TurnState,
    /// The model was told that a reply looks like a call and is none, and has called nothing since.
    pub told_of_unread_call: bool,
    /// What is known of the calls of the last reply from before it was interrupted.
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
            me.badge.inbox.record(log);
        }
        match &me.crew {
            // Once it has had a turn, it is as its effects have left it.
            _ if past.as_ref().is_some_and(|past| past.iterations > 0) && chat.has_edited_prompt() => {}
            Some(crew) => chat.share_system_prompt(crew.share_prompt(&self.name, prompt)),
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
    /// One attempt at an answer: adds the input and goes round. Turns, effects and time go on from the attempt before; one
    /// that was interrupted goes on where it was.
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

    /// Everything that happens before the model is asked.
    async fn begin_turn(&mut self) -> Result<(), RunError> {
        self.check_bytes()?;
        self.me.check_log()?;
        in_time(&self.me.purse, self.me.place.enter()).await?;
        self.look_for_tools().await;
        let iteration = self.iterations;
        self.iterations += 1;
        self.warn_of_the_end(iteration);
        self.eval_effects(EffectPhase::BeforeModel, iteration, EffectSelection::Due).await?;
        self.end_preparation(iteration).await;
        Ok(())
    }

    /// Goes on with a turn in which the model was about to be asked when the run was interrupted. The effects have looked; but
    /// the agent's tools may be others now, and so may the effects that hide them.
    async fn go_on_with_turn(&mut self) -> Result<(), RunError> {
        if self.work.effects.has_new_tools(&self.work.tools) {
            let iteration = self.iterations.saturating_sub(1);
            self.eval_effects(EffectPhase::BeforeModel, iteration, EffectSelection::WithNewTools).await?;
            self.end_preparation(iteration).await;
        }
        Ok(())
    }

    /// Writes down that the model is about to be asked.
    async fn end_preparation(&mut self, iteration: u32) {
        self.end_with_a_user();
        if self.me.log.is_some() {
            let (changes, effects, elapsed) = (self.changes(), self.work.effects.memories(), self.started.elapsed());
            self.me.write(|| JournalRecord::Turn { iteration, changes, effects, elapsed });
        }
        self.tell_messages().await;
    }

    /// Puts the tools together anew if a source has others now; and once a result was cut, the one that reads on in it is
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
            // No other tool has this name.
            let _ = self.work.tools.register(read_result(&self.work.agent.completer.info().context_window));
        }
    }

    async fn ask_model(&mut self) -> Result<Box<TurnReply>, RunError> {
        // One that goes on in the middle of its turn has no place yet.
        in_time(&self.me.purse, self.me.place.enter()).await?;
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
        // What the vendor has refused just now could not be called.
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
        // Boxed: all who hand it on would have room for it.
        Ok(Box::new(TurnReply { stop, silent, open, tools, looked: false }))
    }

    /// Has the effects look at a reply, and runs its calls. None: another turn follows.
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
                        // Not the reply: it is the report that leaves the agent, and that middleware looks at.
                        Ok(Some(Message::text(Role::Assistant, &*self.me.cx.agent, self.ending.report())))
                    }
                    // Whoever sent a message did so before it knew that the task had ended: the agent reads it first.
                    _ => {
                        self.add(sent)?;
                        Ok(None)
                    }
                }
            }
        }
    }

    /// A reply that looks like a tool call and is none is rarely an answer: the model is told so, once, as long as it has a
    /// turn to try again. Whoever watches is told in any case.
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

    /// What it was sent, as long as there is a turn to read it in.
    fn messages(&self) -> Vec<Message> {
        if self.has_turns() { self.me.badge.inbox.take() } else { Vec::new() }
    }

    /// Whether the model may be asked once more.
    pub(crate) fn has_turns(&self) -> bool {
        self.iterations < self.work.agent.options.max_iterations
    }

    fn add(&self, messages: Vec<Message>) -> Result<(), RunError> {
        messages.into_iter().try_for_each(|message| self.chat.append(message)).map_err(RunError::Input)
    }

    /// Vendors refuse a conversation in which nobody waits for an answer: after an attempt that is repeated without a word,
    /// and after edits.
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
        in_time(&self.me.purse, self.work.effects.eval(on, callees, &mut moment, &mut self.usage)).await?
    }

    /// The newest reply as it stands in the chat: an effect may have changed it.
    fn last_reply(&self) -> Message {
        let chat = self.chat.snapshot();
        let reply = chat.iter().rev().find(|entry| entry.message.role == Role::Assistant);
        reply.map_or_else(
            || Message::text(Role::Assistant, &*self.work.agent.name, ""),
            |entry| Message::clone(&entry.message),
        )
    }
}
