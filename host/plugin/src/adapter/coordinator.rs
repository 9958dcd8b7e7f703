use std::sync::Arc;

use async_trait::async_trait;

use super::run_context::run_context;
use crate::{
    bindings::exports::coordinator as wit,
    convert::{self, GuestMediaIndex, GuestPayload},
    loader::Plugin,
    metering::Lane,
    runtime::CallSetup,
    store::ChatView,
};
use shelly_core::{
    capability::{NameSet, Power},
    chat::{Part, ToolResultContent},
    error::Fault,
    event::{CalledFunction, RunCx},
    limits,
    team::{
        Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment, MemberOutcome,
        MemberProfile, MemberReport,
    },
};

/// A team coordinator that is implemented by a plugin.
pub struct PluginCoordinator {
    plugin: Arc<Plugin>,
}

impl PluginCoordinator {
    /// Creates the coordinator of a plugin; `None` if the plugin has none.
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin.kinds.coordinator.is_some().then(|| Self { plugin: Arc::clone(plugin) })
    }
}

#[async_trait]
impl Coordinator for PluginCoordinator {
    fn name(&self) -> &str {
        self.plugin.id()
    }

    fn models(&self) -> &NameSet {
        &self.plugin.grant.models
    }

    fn may_ask(&self) -> bool {
        self.plugin.grant.powers.contains(&Power::AskModel)
    }

    /// Returns `true`: a report names the member that continues, and the reason is in a note in the chat. In version 0.1 of
    /// the contract the note says both.
    fn reads_handoffs(&self) -> bool {
        true
    }

    async fn next(&self, cx: &RunCx, input: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let Some(kind) = &self.plugin.kinds.coordinator else {
            return Err(Fault::other("the plugin has no coordinator"));
        };
        let wit_input = input_to_wit(cx, input);
        let setup = CallSetup {
            function: CalledFunction::CoordinatorNext,
            time: self.plugin.limits().step_time,
            lane: Lane::Step,
            input: wit_input.bytes() + state.len(),
        };
        let step = self.plugin.executor.call(
            cx,
            setup,
            |store| {
                let (chat, powers) = (input.shared.clone(), self.plugin.grant.powers.clone());
                // A team has no tools: its members have.
                store.chat = ChatView { chat, tools: [].into(), powers };
            },
            async |store, instance| kind.next(store, instance, wit_input, &state).await,
        );
        let step = step.await?;
        let reply = input.reply.as_ref().and_then(|reply| reply.as_ref().ok());
        let seen = GuestMediaIndex::in_chat_and(input.shared, reply.map_or(&[], |completion| &completion.parts));
        Ok(CoordinatorStep::new(step.state, action(step.action, &seen)?))
    }
}

fn input_to_wit(cx: &RunCx, input: &CoordinatorInput<'_>) -> wit::CoordinatorInput {
    wit::CoordinatorInput {
        cx: run_context(cx),
        step: input.step,
        members: input.members.iter().map(member).collect(),
        reports: input.reports.iter().map(report).collect(),
        reply: input.reply.as_ref().map(convert::reply_to_wit),
    }
}

fn member(MemberProfile { name, role, description }: &MemberProfile) -> wit::Member {
    wit::Member { name: name.to_string(), role: role.to_string(), description: description.to_string() }
}

fn report(MemberReport { member, fared }: &MemberReport) -> wit::Report {
    let outcome = match fared {
        MemberOutcome::Replied => wit::MemberOutcome::Replied,
        MemberOutcome::HandedOver(handoff) => wit::MemberOutcome::HandedOver(handoff.agent.clone()),
        MemberOutcome::Failed(fault) => wit::MemberOutcome::Failed(convert::fault_to_wit(fault)),
    };
    wit::Report { member: member.to_string(), outcome }
}

fn action(action: wit::Action, seen: &GuestMediaIndex<'_>) -> Result<CoordinatorAction, Fault> {
    Ok(match action {
        wit::Action::Run(assignments) => CoordinatorAction::Run(assignments.into_iter().map(assignment).collect()),
        wit::Action::Done(wit::TeamAnswer::LastReply) => CoordinatorAction::Done(None),
        wit::Action::Done(wit::TeamAnswer::Content(content)) if content.len() > limits::RESULT_PIECES => {
            let (pieces, most) = (content.len(), limits::RESULT_PIECES);
            let message = format!("the answer of the team has {pieces} pieces, the maximum is {most}");
            return Err(Fault::TooLarge { message });
        }
        wit::Action::Done(wit::TeamAnswer::Content(content)) => {
            CoordinatorAction::Done(Some(convert::content(content, seen)?.into_iter().map(part).collect()))
        }
        wit::Action::AskModel(ask) => CoordinatorAction::Ask(Box::new(convert::ask(ask, seen)?)),
    })
}

fn assignment(wit::Assignment { member, task }: wit::Assignment) -> MemberAssignment {
    MemberAssignment { member: member.into(), task }
}

/// Converts a piece of the answer. JSON becomes text, which is how people and agents read it.
fn part(content: ToolResultContent) -> Part {
    match content {
        ToolResultContent::Text(text) | ToolResultContent::Json(text) => Part::Text(text),
        ToolResultContent::Media(media) => Part::Media(media),
        ToolResultContent::Other(opaque) => Part::Other(opaque),
    }
}
