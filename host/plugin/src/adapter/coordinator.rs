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
    event::RunCx,
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

    /// Returns `true`: a `report` of the contract cannot carry a handoff, so a note in the chat has to tell of it.
    fn reads_handoffs(&self) -> bool {
        true
    }

    async fn next(&self, cx: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let Some(kind) = &self.plugin.kinds.coordinator else {
            return Err(Fault::other("the plugin has no coordinator"));
        };
        let wit_moment = moment_to_wit(cx, moment);
        let setup = CallSetup {
            function: "coordinator.next",
            time: self.plugin.limits().step_time,
            lane: Lane::Step,
            input: wit_moment.bytes() + state.len(),
        };
        let step = self.plugin.executor.call(
            cx,
            setup,
            |store| {
                let (chat, powers) = (moment.shared.clone(), self.plugin.grant.powers.clone());
                // A team has no tools: its members have.
                store.chat = ChatView { chat, tools: [].into(), powers };
            },
            async |store, instance| kind.load(&mut *store, instance)?.call_next(store, &wit_moment, &state).await,
        );
        let step = step.await?;
        let reply = moment.reply.as_ref().and_then(|reply| reply.as_ref().ok());
        let seen = GuestMediaIndex::in_chat_and(moment.shared, reply.map_or(&[], |completion| &completion.parts));
        Ok(CoordinatorStep::new(step.state, action(step.action, &seen)?))
    }
}

fn moment_to_wit(cx: &RunCx, moment: &CoordinatorInput<'_>) -> wit::Moment {
    wit::Moment {
        cx: run_context(cx),
        step: moment.step,
        members: moment.members.iter().map(member).collect(),
        reports: moment.reports.iter().map(report).collect(),
        reply: moment.reply.as_ref().map(convert::reply_to_wit),
    }
}

fn member(MemberProfile { name, role, description }: &MemberProfile) -> wit::Member {
    wit::Member { name: name.to_string(), role: role.to_string(), description: description.to_string() }
}

fn report(MemberReport { member, fared }: &MemberReport) -> wit::Report {
    let failure = match fared {
        // A note in the chat tells of a handoff.
        MemberOutcome::Replied | MemberOutcome::HandedOver(_) => None,
        MemberOutcome::Failed(fault) => Some(convert::fault_to_wit(fault)),
    };
    wit::Report { member: member.to_string(), failure }
}

fn action(action: wit::Action, seen: &GuestMediaIndex<'_>) -> Result<CoordinatorAction, Fault> {
    Ok(match action {
        wit::Action::Run(assignments) => CoordinatorAction::Run(assignments.into_iter().map(assignment).collect()),
        wit::Action::Done(None) => CoordinatorAction::Done(None),
        wit::Action::Done(Some(content)) if content.len() > limits::RESULT_PIECES => {
            let (pieces, most) = (content.len(), limits::RESULT_PIECES);
            let message = format!("the answer of the team has {pieces} pieces, the maximum is {most}");
            return Err(Fault::TooLarge { message });
        }
        wit::Action::Done(Some(content)) => {
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
