use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{
    Agent, RunError,
    completion::{self, ModelRequest},
    delegate::RunState,
    journal::JournalRecord,
};
use crate::{
    capability::{NameSet, Power, Powers, Usd},
    chat::{Chat, ChatEditError, ChatSnapshot, Message, MessageReplacement, Role, ToolResultContent, ToolSpec},
    error::{Fault, OnFailure},
    event::{Event, RunCx},
    limits,
    model::{Completion, CompletionRequest, Usage},
    tool::ToolBox,
};

/// Looks at the agent's chat once per turn of its loop and answers with changes to it: a pure step, whose state the
/// host keeps.
#[async_trait]
pub trait Effect: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// When it wants to be called.
    fn phases(&self) -> &[EffectPhase];

    /// What it is trusted with.
    fn powers(&self) -> &Powers;

    /// The models of the config that it may ask, beside the agent's own.
    fn models(&self) -> &NameSet {
        &NO_MODELS
    }

    /// Whether the run goes on if it fails.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Names what it was set to, the same in every process. What it remembered when it was set to something else it is not
    /// given back. None: there is nothing to set.
    fn setup(&self) -> Option<&str> {
        None
    }

    /// Looks and answers. `chat` stands still during the call; `tools` are the agent's before any are hidden; `state` is what the last call returned, empty at first.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if it could not do its work; [`Effect::on_failure`] says what that means for the run.
    async fn eval(
        &self,
        cx: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        tools: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault>;
}

static NO_MODELS: LazyLock<NameSet> = LazyLock::new(NameSet::default);

/// An effect that is a closure: it sees the conversation and answers with edits, which need the powers that it is given.
///
/// ```
/// use shelly_host::{agent::{Edit, EffectFn, Phase}, capability::Power};
///
/// let hurry = EffectFn::new("hurry", Phase::BeforeModel, [Power::Note], |moment, _chat| {
///     Ok(if moment.iteration == 10 { vec![Edit::Note("Hurry up.".into())] } else { vec![] })
/// });
/// ```
pub struct EffectFn<F> {
    name: String,
    phases: [EffectPhase; 1],
    powers: Powers,
    eval: F,
}

impl<F: Fn(&EffectInput, &ChatSnapshot) -> Result<Vec<EffectEdit>, Fault> + Send + Sync> EffectFn<F> {
    /// Calls `eval` once a turn, in this phase.
    pub fn new(name: impl Into<String>, phase: EffectPhase, powers: impl IntoIterator<Item = Power>, eval: F) -> Self {
        Self { name: name.into(), phases: [phase], powers: powers.into_iter().collect(), eval }
    }
}

#[async_trait]
impl<F: Fn(&EffectInput, &ChatSnapshot) -> Result<Vec<EffectEdit>, Fault> + Send + Sync> Effect for EffectFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn phases(&self) -> &[EffectPhase] {
        &self.phases
    }

    fn powers(&self) -> &Powers {
        &self.powers
    }

    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        _: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        let edits = (self.eval)(moment, chat)?;
        Ok(EffectStep { state, action: EffectAction::Edits(edits), wake: None })
    }
}

/// Where in its turn the agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectPhase {
    /// The next request is about to be built; every call has its result.
    BeforeModel,
    /// The reply is in the chat; its calls have not run yet. One that [says nothing](Message::says_nothing) does not come
    /// there.
    AfterModel,
}

/// What an effect is told unasked.
#[derive(Debug, Clone)]
pub struct EffectInput {
    /// Where in the turn.
    pub phase: EffectPhase,
    /// Turns before this one.
    pub iteration: u32,
    /// Estimate of the next request: chat and tools.
    pub request_tokens: u64,
    /// What the model can take, if that is known.
    pub context_window: Option<u64>,
    /// Of the last completion of this run.
    pub last_usage: Option<Usage>,
    /// Of this agent in this run.
    pub run_usage: Usage,
    /// Time that this run has waited for the model.
    pub model_time: Duration,
    /// Time since the run began.
    pub elapsed: Duration,
    /// The answer to an [`EffectAction::AskModel`], only in the call that follows it.
    pub reply: Option<Result<Completion, Fault>>,
}

/// One change.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum EffectEdit {
    /// Adds a user message; after the results if calls are open.
    Note(String),
    /// Changes what a tool said.
    ReplaceResult { call_id: String, content: Vec<ToolResultContent> },
    /// Replaces or removes messages.
    Replace(MessageReplacement),
    /// Hides tools until the effect is called again before a model's turn. Where a tool comes later, the effect is called
    /// before a model is shown it, whatever its [`Wake`] says.
    HideTools(Vec<String>),
    /// Ends the run as failed.
    Stop { code: String, message: String },
    /// A change that this host does not know.
    Unknown(String),
}

impl EffectEdit {
    /// Its name in events.
    fn name(&self) -> &'static str {
        match self {
            Self::Note(_) => "note",
            Self::ReplaceResult { .. } => "replace-result",
            Self::Replace(_) => "replace",
            Self::HideTools(_) => "hide-tools",
            Self::Stop { .. } => "stop",
            Self::Unknown(_) => "unknown",
        }
    }

    /// What it takes to be made.
    fn needs(&self) -> &'static [Power] {
        match self {
            Self::Note(_) => &[Power::Note],
            Self::ReplaceResult { .. } => &[Power::EditResults],
            // What an effect may not see is blank to it, and it would write the blanks back.
            Self::Replace(_) => &[Power::Rewrite, Power::SeeMessages, Power::SeeArguments, Power::SeeResults],
            Self::HideTools(_) => &[Power::HideTools],
            Self::Stop { .. } => &[Power::Stop],
            Self::Unknown(_) => &[],
        }
    }
}

/// A question to the agent's model. Its tools are the effect's: the host runs none of them.
#[derive(Debug, Clone)]
pub struct ModelQuery {
    /// A model's name in the config; none: the agent's own.
    pub model: Option<String>,
    /// The question.
    pub request: CompletionRequest,
}

/// What to do.
#[derive(Debug, Clone)]
pub enum EffectAction {
    /// These changes, in most calls none.
    Edits(Vec<EffectEdit>),
    /// Ask a model, then call again.
    AskModel(Box<ModelQuery>),
}

/// Until when an effect has nothing to do; the first of these that holds wakes it. None at all: not again in this run. One that
/// may hide tools is woken by a tool that it has not seen, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wake {
    /// From this iteration on.
    pub iteration: Option<u32>,
    /// Once the next request is estimated at so many tokens.
    pub request_tokens: Option<u64>,
    /// Once the run has used so many tokens.
    pub run_tokens: Option<u64>,
    /// Once the run has waited so long for the model.
    pub model_time: Option<Duration>,
}

impl Wake {
    fn is_due(&self, moment: &EffectInput) -> bool {
        self.iteration.is_some_and(|at| moment.iteration >= at)
            || self.request_tokens.is_some_and(|at| moment.request_tokens >= at)
            || self.run_tokens.is_some_and(|at| moment.run_usage.total() >= at)
            || self.model_time.is_some_and(|at| moment.model_time >= at)
    }
}

/// The answer of an effect.
#[derive(Debug, Clone)]
pub struct EffectStep {
    /// For the next call.
    pub state: Vec<u8>,
    /// What to do.
    pub action: EffectAction,
    /// When to be called next; none: in the next of its phases.
    pub wake: Option<Wake>,
}

/// What a pure step wants remembered, if the host keeps so much.
pub(crate) fn bounded_state(state: Vec<u8>) -> Result<Vec<u8>, Fault> {
    if state.len() > limits::STATE_BYTES {
        let message = format!("its state has {} bytes, at most {} are kept", state.len(), limits::STATE_BYTES);
        return Err(Fault::TooLarge { message });
    }
    Ok(state)
}

/// Asks a model for a pure step that may ask these beside the agent's own.
pub(crate) async fn ask_for(
    me: &RunState,
    agent: &Agent,
    granted: &NameSet,
    ModelQuery { model, request }: ModelQuery,
    usage: &mut Usage,
) -> Result<(Completion, Usd), Fault> {
    if let Some(model) = &model {
        agent.check_model(model, granted)?;
    }
    // A conversation as it is seen after a reply has calls without results.
    request.messages.check().map_err(|error| Fault::invalid(format!("it cannot be asked: {error}")))?;
    let asked = ModelRequest { model, request, shown: false };
    completion::ask(me, agent, asked, usage).await.map_err(|error| error.as_fault())
}

/// The effects of one run, with the memory that the host keeps for them.
pub(crate) struct Effects<'a> {
    pub(super) running: Vec<RunningEffect<'a>>,
    /// What models told effects in this phase before the run was interrupted.
    pub(super) told: VecDeque<EffectModelReply>,
}

/// What a model told an effect.
#[derive(Debug)]
pub(crate) struct EffectModelReply {
    /// The effect's place.
    pub at: usize,
    /// Its name; empty where it was not written down.
    pub name: String,
    pub completion: Completion,
}

impl EffectModelReply {
    pub(crate) fn is_for(&self, at: usize, name: &str) -> bool {
        self.at == at && (self.name.is_empty() || self.name == name)
    }
}

/// What effects act on.
#[derive(Clone, Copy)]
pub(crate) struct EffectTarget<'a> {
    pub me: &'a RunState,
    pub chat: &'a Chat,
    pub of: &'a Agent,
    pub tools: &'a Arc<[Arc<ToolSpec>]>,
}

/// Which effects are called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectSelection {
    /// Those that are due.
    Due,
    /// Those that may hide tools and have not seen all of them.
    WithNewTools,
}

/// One of them, and what it remembers.
pub(crate) struct RunningEffect<'a> {
    pub(super) effect: &'a dyn Effect,
    pub(super) state: Vec<u8>,
    pub(super) wake: Option<Wake>,
    pub(super) hidden: Vec<String>,
    /// The names of the agent's tools when it last looked; kept of one that may hide tools.
    pub(super) seen: Option<BTreeSet<String>>,
    /// Whether its memory is another one than was written down.
    pub(super) changed: bool,
}

impl<'a> Effects<'a> {
    pub fn new(effects: &'a [Arc<dyn Effect>]) -> Self {
        let start = |effect: &'a Arc<dyn Effect>| {
            let (state, wake, hidden, seen) = (vec![], None, vec![], None);
            RunningEffect { effect: &**effect, state, wake, hidden, seen, changed: false }
        };
        Self { running: effects.iter().map(start).collect(), told: VecDeque::new() }
    }

    /// Returns the tools that a model may see and call now: without those that an effect hides, and without those that came
    /// after one that may hide tools has looked. It looks before the next turn.
    pub fn visible_tools(&self, tools: &ToolBox) -> ToolBox {
        let hidden = self.running.iter().flat_map(|running| running.hidden.iter().cloned());
        self.without_new(tools, hidden.collect(), |running| running.seen.is_some())
    }

    /// Ends the sleep of every effect: what it waits for may have come without a change that it knows of.
    pub fn wake(&mut self) {
        for running in &mut self.running {
            running.changed |= running.wake.take().is_some();
        }
    }

    /// Returns the tools whose calls may run in a turn that was interrupted, where `hidden` were not shown then. An effect
    /// that has never looked came into the config, or was changed there, since.
    pub fn visible_in_resumed_turn(&self, tools: &ToolBox, hidden: Vec<String>) -> ToolBox {
        let looks_before = |running: &RunningEffect<'_>| running.effect.phases().contains(&EffectPhase::BeforeModel);
        self.without_new(tools, hidden, |running| running.seen.is_some() || looks_before(running))
    }

    fn without_new(
        &self,
        tools: &ToolBox,
        mut hidden: Vec<String>,
        is_heeded: impl Fn(&RunningEffect<'_>) -> bool,
    ) -> ToolBox {
        for running in self.running.iter().filter(|running| is_heeded(running)) {
            hidden.extend(running.new_among(tools.names()).map(str::to_owned));
        }
        tools.without(&hidden)
    }

    /// Returns `true` if one that may hide tools has not seen all of these.
    pub fn has_new_tools(&self, tools: &ToolBox) -> bool {
        self.running.iter().any(|running| running.has_new(tools.names()))
    }

    /// Calls these effects, in order, and makes their changes. Usage of models that effects asked is added to `usage`.
    pub async fn eval(
        &mut self,
        agent: EffectTarget<'_>,
        callees: EffectSelection,
        moment: &mut EffectInput,
        usage: &mut Usage,
    ) -> Result<(), RunError> {
        for (at, running) in self.running.iter_mut().enumerate() {
            if !running.is_called(callees, moment, agent.tools) {
                continue;
            }
            let told = &mut self.told;
            let stepped = running.step(agent, moment, usage, (at, told)).await;
            if stepped.is_ok() {
                running.see(agent.tools);
            }
            match stepped {
                Ok(edits) if edits.is_empty() && running.hidden.is_empty() => {}
                Ok(edits) => {
                    running.apply(agent, moment, edits).await?;
                    // The next one sees the conversation as this one has left it.
                    moment.request_tokens =
                        CompletionRequest::new(agent.chat.snapshot(), Arc::clone(agent.tools)).tokens();
                }
                Err(fault) => running.failed(&agent.me.cx, fault).await?,
            }
            moment.run_usage = *usage;
        }
        Ok(())
    }
}

impl RunningEffect<'_> {
    fn is_called(&self, callees: EffectSelection, moment: &EffectInput, tools: &[Arc<ToolSpec>]) -> bool {
        let is_due = || callees == EffectSelection::Due && self.wake.is_none_or(|wake| wake.is_due(moment));
        self.effect.phases().contains(&moment.phase)
            && (is_due() || self.has_new(tools.iter().map(|tool| tool.name.as_str())))
    }

    fn may_hide(&self) -> bool {
        self.effect.powers().contains(&Power::HideTools)
    }

    /// Returns those of these names that it has not seen; none if it may not hide tools.
    fn new_among<'n>(&self, names: impl Iterator<Item = &'n str>) -> impl Iterator<Item = &'n str> {
        let may_hide = self.may_hide();
        names.filter(move |name| may_hide && self.seen.as_ref().is_none_or(|seen| !seen.contains(*name)))
    }

    fn has_new<'n>(&self, names: impl Iterator<Item = &'n str>) -> bool {
        self.new_among(names).next().is_some()
    }

    /// It has looked at an agent with these tools.
    fn see(&mut self, tools: &[Arc<ToolSpec>]) {
        let is_same = |seen: &BTreeSet<String>| {
            seen.len() == tools.len() && tools.iter().all(|tool| seen.contains(tool.name.as_str()))
        };
        if self.may_hide() && !self.seen.as_ref().is_some_and(is_same) {
            self.seen = Some(tools.iter().map(|tool| tool.name.clone()).collect());
            self.changed = true;
        }
    }

    /// One step, with as many questions to a model as it asks.
    async fn step(
        &mut self,
        agent: EffectTarget<'_>,
        moment: &mut EffectInput,
        usage: &mut Usage,
        (at, told): (usize, &mut VecDeque<EffectModelReply>),
    ) -> Result<Vec<EffectEdit>, Fault> {
        let chat = agent.chat.snapshot();
        for asked in 0..=limits::ASKS_IN_A_ROW {
            let state = self.state.clone();
            let step = self.effect.eval(&agent.me.cx, moment, &chat, agent.tools, state).await;
            moment.reply = None;
            let step = step?;
            let state = bounded_state(step.state)?;
            self.changed |= self.state != state || self.wake != step.wake;
            (self.state, self.wake) = (state, step.wake);
            match step.action {
                EffectAction::Edits(edits) if edits.len() > limits::EDITS_PER_STEP => {
                    let message =
                        format!("it asked for {} edits, at most {} are made", edits.len(), limits::EDITS_PER_STEP);
                    return Err(Fault::TooLarge { message });
                }
                EffectAction::Edits(edits) => return Ok(edits),
                EffectAction::AskModel(_) if asked == limits::ASKS_IN_A_ROW => break,
                EffectAction::AskModel(_) if told.front().is_some_and(|told| told.is_for(at, self.effect.name())) => {
                    moment.reply = told.pop_front().map(|told| Ok(told.completion));
                }
                EffectAction::AskModel(ask) => {
                    let reply = self.ask(agent, *ask, usage).await;
                    moment.reply = Some(reply.map(|(completion, cost)| {
                        agent.me.write(|| {
                            let (name, completion) = (self.effect.name().to_owned(), completion.clone());
                            JournalRecord::Asked { effect: at, name, completion, cost }
                        });
                        completion
                    }));
                }
            }
        }
        Err(Fault::Exhausted {
            message: format!("it asked a model more than {} times in a row", limits::ASKS_IN_A_ROW),
        })
    }

    async fn ask(
        &self,
        agent: EffectTarget<'_>,
        ask: ModelQuery,
        usage: &mut Usage,
    ) -> Result<(Completion, Usd), Fault> {
        if !self.effect.powers().contains(&Power::AskModel) {
            return Err(Fault::Denied { message: "the power `ask-model` was not granted".into() });
        }
        ask_for(agent.me, agent.of, self.effect.models(), ask, usage).await
    }

    /// Makes the changes, in order; one that is not allowed or not valid is reported, the others are made.
    async fn apply(
        &mut self,
        agent: EffectTarget<'_>,
        moment: &EffectInput,
        edits: Vec<EffectEdit>,
    ) -> Result<(), RunError> {
        if moment.phase == EffectPhase::BeforeModel && !self.hidden.is_empty() {
            (self.hidden, self.changed) = (Vec::new(), true);
        }
        let effect = self.effect.name();
        let mut noted = 0;
        for edit in edits {
            let name = edit.name();
            let event = match self.make(agent.chat, edit, &mut noted) {
                Ok(EffectEditOutcome::Stop { code, message }) => {
                    return Err(RunError::Stopped { by: effect.into(), code, message });
                }
                Ok(EffectEditOutcome::Change) => {
                    Event::EffectEdited { agent: agent.me.cx.agent.clone(), effect: effect.into(), edit: name }
                }
                Err(mut reason) => {
                    // It may quote what the effect said.
                    reason.truncate(reason.floor_char_boundary(limits::ERROR_BYTES));
                    Event::EffectRefused { agent: agent.me.cx.agent.clone(), effect: effect.into(), edit: name, reason }
                }
            };
            agent.me.cx.events.emit(event).await;
        }
        Ok(())
    }

    /// Makes one change. `noted`: the bytes of the notes of this step, this one included afterwards.
    fn make(&mut self, chat: &Chat, edit: EffectEdit, noted: &mut usize) -> Result<EffectEditOutcome, String> {
        if let Some(power) = edit.needs().iter().find(|power| !self.effect.powers().contains(power)) {
            return Err(format!("the power `{power}` was not granted"));
        }
        let invalid = |error: ChatEditError| error.to_string();
        match edit {
            EffectEdit::Note(text) if text.len() > limits::NOTE_BYTES => {
                return Err(format!("the note has {} bytes, at most {} are taken", text.len(), limits::NOTE_BYTES));
            }
            EffectEdit::Note(text) if *noted + text.len() > limits::NOTES_PER_STEP_BYTES => {
                let most = limits::NOTES_PER_STEP_BYTES;
                return Err(format!("the notes of this step have more than {most} bytes: this one is left out"));
            }
            EffectEdit::Note(text) if text.trim().is_empty() => return Err("the note is empty".into()),
            EffectEdit::Note(text) => {
                *noted += text.len();
                chat.append(Message::note(self.effect.name(), text)).map_err(invalid)?;
            }
            EffectEdit::ReplaceResult { call_id, content } => {
                chat.replace_result(&call_id, content).map_err(invalid)?
            }
            EffectEdit::Replace(replacement) => {
                if self.touches_system_prompt(chat, &replacement) {
                    return Err(format!("the power `{}` was not granted", Power::SystemPrompt));
                }
                chat.replace(replacement).map_err(invalid)?;
            }
            EffectEdit::HideTools(names) => (self.hidden, self.changed) = (names, true),
            EffectEdit::Stop { code, message } => return Ok(EffectEditOutcome::Stop { code, message }),
            EffectEdit::Unknown(kind) => return Err(format!("this host knows no edit `{kind}`")),
        }
        Ok(EffectEditOutcome::Change)
    }

    fn touches_system_prompt(&self, chat: &Chat, replacement: &MessageReplacement) -> bool {
        let is_system = |message: &Message| message.role == Role::System;
        let snapshot = chat.snapshot();
        let first_goes = snapshot.find(replacement.first) == Some(0);
        let goes = first_goes && snapshot.iter().next().is_some_and(|entry| is_system(&entry.message));
        (goes || replacement.messages.iter().any(is_system)) && !self.effect.powers().contains(&Power::SystemPrompt)
    }

    async fn failed(&mut self, cx: &RunCx, fault: Fault) -> Result<(), RunError> {
        let (agent, effect) = (cx.agent.clone(), self.effect.name().to_owned());
        let skipped = self.effect.on_failure() == OnFailure::Skip;
        cx.events.emit(Event::EffectFailed { agent, effect, reason: fault.to_string(), skipped }).await;
        match skipped {
            true => Ok(()),
            false => Err(RunError::Effect { name: self.effect.name().into(), fault }),
        }
    }
}

enum EffectEditOutcome {
    Change,
    Stop { code: String, message: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_told_one_effect_is_not_told_another() {
        let (stop, usage) = (crate::model::StopReason::EndTurn, Usage::default());
        let completion = Completion { parts: vec![], stop, usage, model: String::new(), meta: vec![] };
        let told = |name: &str| EffectModelReply { at: 1, name: name.into(), completion: completion.clone() };
        assert!(told("a").is_for(1, "a") && told("").is_for(1, "a"));
        assert!(!told("a").is_for(1, "b") && !told("a").is_for(0, "a"));
    }
}
