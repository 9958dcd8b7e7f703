use async_trait::async_trait;

use super::{
    super::{
        super::{Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep},
        step_checks::{check, exhausted},
        stored_state::{read, write},
    },
    ModelCoordinatorOptions,
    coordinator_prompt::ConversationView,
    coordinator_state::{CoordinatorQuestion, ModelCoordinatorState, PastDecision, PendingDecision, RejectedReply},
    coordinator_tools,
    model_decision::{self, CoordinatorReply, ModelDecision, ModelDecisionKind, text},
};
use crate::{
    agent::ModelQuery,
    capability::NameSet,
    chat::{ChatSnapshot, Message, Role},
    error::{Fault, cut},
    event::RunCx,
    limits,
    model::{Completion, CompletionRequest, ToolChoice},
};

/// A coordinator that asks a model which members work next, and when the team is done.
///
/// The answer is a JSON object. In a longer text, the last object that contains a decision counts. An answer that cannot be
/// used (no JSON, an unknown member, a member named twice, no member at all) is sent back to the model once with the
/// reason; the next one ends the run. A failed request also ends the run, unless a retry may help, which is done once. If a
/// vendor refuses a schema for the reply, or a forced call, later requests go without.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::{Agent, Runner},
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
///     team::{Member, ModelCoordinator, ModelCoordinatorOptions, Team},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let says = |name: &str, text: &str| {
///     Agent::new(name, "", Arc::new(ScriptedCompleter::new([ScriptedCompleter::text(text)])))
/// };
/// let decides = ScriptedCompleter::new([
///     ScriptedCompleter::text(r#"{"members":["writer"],"done":false,"reasoning":"Nothing is written yet."}"#),
///     ScriptedCompleter::text(r#"{"members":[],"done":true,"reasoning":"It is written."}"#),
/// ]);
/// let options = ModelCoordinatorOptions { max_rounds: 10, ..ModelCoordinatorOptions::default() };
/// let team = Team::new("desk", ModelCoordinator::new(options))
///     .with_completer(Arc::new(decides))
///     .with_member(Member::new(says("researcher", "Two million people.").with_description("finds facts")))
///     .with_member(Member::new(says("writer", "Paris is large.").with_description("writes articles")));
/// let answer = team.run(&RunCx::new("desk"), &Chat::new(), vec![Message::user("Write about Paris.")]).await?;
/// assert_eq!(answer.message.text_content(), "Paris is large.");
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ModelCoordinator {
    options: ModelCoordinatorOptions,
    models: NameSet,
}

impl ModelCoordinator {
    /// Creates a coordinator with these options.
    pub fn new(options: ModelCoordinatorOptions) -> Self {
        Self { models: options.model.iter().cloned().collect(), options }
    }

    /// Returns the maximum number of messages that the model sees.
    fn window(&self) -> usize {
        let window = match self.options.window {
            0 => limits::COORDINATOR_WINDOW,
            window => window.min(limits::COORDINATOR_WINDOW_CEILING),
        };
        usize::try_from(window).expect("it is bounded")
    }

    /// Returns `true` if the team may take no further step.
    fn is_over(&self, moment: &CoordinatorInput<'_>) -> bool {
        let members = u32::try_from(moment.members.len()).unwrap_or(u32::MAX);
        self.options.max_rounds > 0 && moment.step >= self.options.max_rounds.saturating_mul(members)
    }

    fn step(&self, moment: &CoordinatorInput<'_>, state: &[u8]) -> Result<CoordinatorStep, Fault> {
        let mut memory: ModelCoordinatorState = read(state)?;
        check(moment)?;
        let mut asking = memory.asking.take().unwrap_or_default();
        if let (Some(asked), Some(reply)) = (asking.asked.take(), &moment.reply)
            && let Some(decision) = self.hear(moment, (&mut memory, &mut asking), asked, reply)?
        {
            return self.decided(moment, memory, decision);
        }
        self.ask(moment, memory, asking)
    }

    /// Handles the reply of the model. Returns `None` if it has to be asked again.
    fn hear(
        &self,
        moment: &CoordinatorInput<'_>,
        (memory, asking): (&mut ModelCoordinatorState, &mut PendingDecision),
        asked: CoordinatorQuestion,
        reply: &Result<Completion, Fault>,
    ) -> Result<Option<ModelDecision>, Fault> {
        let completion = match (reply, asked) {
            (Ok(completion), _) => completion,
            (Err(Fault::Invalid { .. }), CoordinatorQuestion::Decision) if !memory.plain => {
                memory.plain = true;
                return Ok(None);
            }
            (Err(fault), _) if fault.is_transient() && !asking.retried => {
                asking.retried = true;
                return Ok(None);
            }
            (Err(fault), _) => return Err(fault.clone()),
        };
        if asked == CoordinatorQuestion::Summary {
            let through = self.view(moment, memory).overdue.last().map(|entry| entry.id);
            memory.sum_up(through, model_decision::without_thought(&text(completion)));
            return Ok(None);
        }
        match model_decision::heard(completion, moment.members, self.options.tools) {
            Ok(CoordinatorReply::Decided(decision)) => Ok(Some(decision)),
            Ok(CoordinatorReply::Look(looks)) => {
                asking.look(looks);
                Ok(None)
            }
            Err(why) if asking.wrong.is_none() => {
                let short = |text: &str| cut(text, limits::COORDINATOR_WRONG_CHARS);
                let said = text(completion);
                asking.wrong =
                    Some(RejectedReply { said: short(model_decision::without_thought(&said)), why: short(&why) });
                Ok(None)
            }
            Err(why) => Err(Fault::other(format!("the coordinator's model gave no usable answer: {why}"))),
        }
    }

    fn decided(
        &self,
        moment: &CoordinatorInput<'_>,
        mut memory: ModelCoordinatorState,
        decision: ModelDecision,
    ) -> Result<CoordinatorStep, Fault> {
        let said = decision.said();
        let action = match decision.what {
            ModelDecisionKind::Done(answer) => CoordinatorAction::Done(answer),
            ModelDecisionKind::Run(_) if self.is_over(moment) => {
                let max = self.options.max_rounds;
                return Err(exhausted(format!(
                    "the team has reached its maximum of {} steps (`max_rounds`: {max}) and is not done",
                    moment.step
                )));
            }
            ModelDecisionKind::Run(run) => CoordinatorAction::Run(run),
        };
        memory.keep(PastDecision { after: moment.shared.last().map(|entry| entry.id), said });
        let reasoning = decision.reasoning.map(|why| cut(&why, limits::REASONING_CHARS - 1));
        Ok(CoordinatorStep { state: write(&memory)?, action, reasoning })
    }

    fn ask(
        &self,
        moment: &CoordinatorInput<'_>,
        mut memory: ModelCoordinatorState,
        mut asking: PendingDecision,
    ) -> Result<CoordinatorStep, Fault> {
        if asking.times >= limits::ASKS_IN_A_ROW {
            let most = limits::ASKS_IN_A_ROW;
            return Err(exhausted(format!("the coordinator's model has not decided after {most} requests in a row")));
        }
        asking.times += 1;
        let view = self.view(moment, &memory);
        let (asked, prompt) = match self.options.summary && !view.overdue.is_empty() {
            true => (CoordinatorQuestion::Summary, view.summary_prompt()),
            false => (CoordinatorQuestion::Decision, view.decision_prompt(&asking)),
        };
        let messages = vec![Message::text(Role::System, "", prompt.system), Message::note(self.name(), prompt.user)];
        let messages = ChatSnapshot::from_messages(messages).map_err(|error| Fault::other(error.to_string()))?;
        let mut request = CompletionRequest::new(messages, [].into());
        match (asked, self.options.tools) {
            (CoordinatorQuestion::Summary, _) => {}
            (CoordinatorQuestion::Decision, true) => {
                let may_look = asking.times < limits::ASKS_IN_A_ROW && asking.may_look();
                request.tools = coordinator_tools::specs(moment.members, may_look);
                request.tool_choice = if memory.plain { ToolChoice::Auto } else { ToolChoice::Required };
            }
            (CoordinatorQuestion::Decision, false) => {
                request.response_schema = (!memory.plain).then(|| model_decision::schema(moment.members));
            }
        }
        asking.asked = Some(asked);
        memory.asking = Some(asking);
        let ask = ModelQuery { model: self.options.model.clone(), request };
        Ok(CoordinatorStep::new(write(&memory)?, CoordinatorAction::Ask(Box::new(ask))))
    }

    fn view<'a>(&'a self, moment: &'a CoordinatorInput<'a>, memory: &'a ModelCoordinatorState) -> ConversationView<'a> {
        ConversationView::new(moment, memory, &self.options, (self.window(), self.is_over(moment)))
    }
}

#[async_trait]
impl Coordinator for ModelCoordinator {
    fn name(&self) -> &str {
        "model"
    }

    fn models(&self) -> &NameSet {
        &self.models
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        self.step(moment, &state)
    }
}

#[cfg(test)]
mod tests;
