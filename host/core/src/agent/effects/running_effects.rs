use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use super::{
    edit_texts::EditTexts,
    effect_editor::{EffectEditOutcome, EffectEditor, check_edits},
};
use crate::{
    agent::{
        bounded_state::bounded_state,
        context::{AgentModels, RunState},
        effect::{Effect, EffectAction, EffectEdit, EffectInput, EffectPhase, ModelQuery, Wake},
        journal::{EffectModelReply, JournalRecord},
        model_call::ask_for,
        outcome::RunError,
    },
    capability::{Power, Usd},
    chat::{Chat, ToolSpec},
    error::{Fault, OnFailure},
    event::{Event, RunCx},
    limits,
    model::{Completion, CompletionRequest, Usage},
    tool::ToolBox,
};

/// The effects of one run, with the state that the host keeps for them.
pub(crate) struct Effects<'a> {
    pub(super) running: Vec<RunningEffect<'a>>,
    /// The answers that models gave to effects in this phase before the run was interrupted.
    pub(super) told: VecDeque<EffectModelReply>,
}

/// The run and the conversation that effects act on, and the models that they may ask.
#[derive(Clone, Copy)]
pub(crate) struct EffectTarget<'a> {
    pub me: &'a RunState,
    pub chat: &'a Chat,
    pub models: &'a AgentModels,
    pub tools: &'a Arc<[Arc<ToolSpec>]>,
    /// `true` if texts of the conversation may be seen before the run has ended.
    pub is_shown: bool,
}

/// The selection of effects to call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EffectSelection {
    /// The effects that are due.
    Due,
    /// The effects that may hide tools and have not seen all of them.
    WithNewTools,
}

/// One effect with its state.
pub(crate) struct RunningEffect<'a> {
    pub(super) effect: &'a dyn Effect,
    pub(super) state: Vec<u8>,
    pub(super) wake: Option<Wake>,
    pub(super) hidden: Vec<String>,
    /// The names of the agent's tools when the effect last looked; only for an effect that may hide tools.
    pub(super) seen: Option<BTreeSet<String>>,
    /// Set if the memory differs from the last recorded one.
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

    /// Returns the tools that a model may see and call now: without those that an effect hides, and without those that were
    /// added after an effect that may hide tools has looked. Such an effect looks again before the next turn.
    pub fn visible_tools(&self, tools: &ToolBox) -> ToolBox {
        let hidden = self.running.iter().flat_map(|running| running.hidden.iter().cloned());
        self.without_new(tools, hidden.collect(), |running| running.seen.is_some())
    }

    /// Wakes every effect: a condition that it waits for may have been met by a change that it does not know of.
    pub fn wake(&mut self) {
        for running in &mut self.running {
            running.changed |= running.wake.take().is_some();
        }
    }

    /// Returns the tools whose calls may run in a turn that was interrupted. `hidden` are the tools that the model was not
    /// shown in that turn. An effect that has never looked was added to the config, or changed there, since then.
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

    /// Returns `true` if an effect that may hide tools has not seen all of these.
    pub fn has_new_tools(&self, tools: &ToolBox) -> bool {
        self.running.iter().any(|running| running.has_new(tools.names()))
    }

    /// Calls the selected effects in order and applies their edits. Usage of models that effects asked is added to `usage`.
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
                    // The next effect sees the conversation as this one has left it.
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

    /// Returns the names that the effect has not seen; none if it may not hide tools.
    fn new_among<'n>(&self, names: impl Iterator<Item = &'n str>) -> impl Iterator<Item = &'n str> {
        let may_hide = self.may_hide();
        names.filter(move |name| may_hide && self.seen.as_ref().is_none_or(|seen| !seen.contains(*name)))
    }

    fn has_new<'n>(&self, names: impl Iterator<Item = &'n str>) -> bool {
        self.new_among(names).next().is_some()
    }

    /// Notes that the effect has looked at an agent with these tools.
    fn see(&mut self, tools: &[Arc<ToolSpec>]) {
        let is_same = |seen: &BTreeSet<String>| {
            seen.len() == tools.len() && tools.iter().all(|tool| seen.contains(tool.name.as_str()))
        };
        if self.may_hide() && !self.seen.as_ref().is_some_and(is_same) {
            self.seen = Some(tools.iter().map(|tool| tool.name.clone()).collect());
            self.changed = true;
        }
    }

    /// Performs one step, which may ask a model at most [`limits::ASKS_IN_A_ROW`] times.
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
                EffectAction::Edits(edits) => return check_edits(&edits).map(|()| edits),
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
            message: format!("the effect called a model more than {} times in a row", limits::ASKS_IN_A_ROW),
        })
    }

    async fn ask(
        &self,
        agent: EffectTarget<'_>,
        ask: ModelQuery,
        usage: &mut Usage,
    ) -> Result<(Completion, Usd), Fault> {
        if !self.effect.powers().contains(&Power::AskModel) {
            return Err(Fault::Denied {
                message: "power `ask-model` is not granted; add it to `powers` of the plugin's entry in the config"
                    .into(),
            });
        }
        ask_for(agent.me, agent.models, self.effect.models(), ask, usage).await
    }

    /// Applies the edits in order. An edit that is not allowed or not valid is reported and skipped.
    async fn apply(
        &mut self,
        agent: EffectTarget<'_>,
        moment: &EffectInput,
        edits: Vec<EffectEdit>,
    ) -> Result<(), RunError> {
        if moment.phase == EffectPhase::BeforeModel && !self.hidden.is_empty() {
            (self.hidden, self.changed) = (Vec::new(), true);
        }
        let (effect, mut editor) = (self.effect.name(), EffectEditor::new(self.effect, agent.chat));
        for edit in edits {
            let kind = edit.kind();
            let is_watched = agent.me.cx.events.is_watched();
            let texts = is_watched.then(|| EditTexts::of(&edit, &agent.chat.snapshot(), agent.is_shown));
            let outcome = editor.apply(edit);
            if let Ok(EffectEditOutcome::Hidden(names)) = &outcome {
                (self.hidden, self.changed) = (names.clone(), true);
            }
            let (agent_name, effect_name) = (agent.me.cx.agent.clone(), effect.into());
            let event = match outcome {
                Ok(EffectEditOutcome::Stopped { code, message }) => {
                    return Err(RunError::Stopped { by: effect_name, code, message });
                }
                Ok(EffectEditOutcome::Changed | EffectEditOutcome::Hidden(_)) => match texts {
                    Some(texts) => texts.into_event(agent_name, effect_name, agent.chat.snapshot().len()),
                    None => continue,
                },
                Err(reason) => Event::EffectRefused { agent: agent_name, effect: effect_name, edit: kind, reason },
            };
            agent.me.cx.events.emit(event).await;
        }
        Ok(())
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
