use std::sync::Arc;

use async_trait::async_trait;

use super::run_context;
use crate::{
    capability::{Names, Power},
    chat::{Content, Part},
    error::Fault,
    event::RunCx,
    limits,
    plugin::{
        bindings::exports::coordinator as wit,
        convert::{self, Attached, Weigh},
        loader::Plugin,
        runtime::{CallSetup, ChatView, Lane},
    },
    team::{Action, Assignment, Coordinator, Fared, Moment, Profile, Report, Step},
};

/// The coordinator of a plugin.
pub struct PluginCoordinator {
    plugin: Arc<Plugin>,
}

impl PluginCoordinator {
    /// The coordinator of a plugin; none if it has none.
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin.kinds.coordinator.is_some().then(|| Self { plugin: Arc::clone(plugin) })
    }
}

#[async_trait]
impl Coordinator for PluginCoordinator {
    fn name(&self) -> &str {
        &self.plugin.id
    }

    fn models(&self) -> &Names {
        &self.plugin.grant.models
    }

    fn may_ask(&self) -> bool {
        self.plugin.grant.powers.contains(&Power::AskModel)
    }

    /// A report of the contract has no room for it.
    fn reads_hand_overs(&self) -> bool {
        true
    }

    async fn next(&self, cx: &RunCx, moment: &Moment<'_>, state: Vec<u8>) -> Result<Step, Fault> {
        let Some(kind) = &self.plugin.kinds.coordinator else {
            return Err(Fault::other("the plugin has no coordinator"));
        };
        let told = moment_to_wit(cx, moment);
        let setup = CallSetup {
            function: "coordinator.next",
            time: self.plugin.limits.step_time,
            lane: Lane::Step,
            input: told.bytes() + state.len(),
        };
        let step = self.plugin.call(
            cx,
            setup,
            |store| {
                let (chat, powers) = (moment.shared.clone(), self.plugin.grant.powers.clone());
                // A team has no tools: its members have.
                store.chat = ChatView { chat, tools: [].into(), powers };
            },
            async |store, instance| kind.load(&mut *store, instance)?.call_next(store, &told, &state).await,
        );
        let step = step.await?;
        let reply = moment.reply.as_ref().and_then(|reply| reply.as_ref().ok());
        let seen = Attached::in_chat_and(moment.shared, reply.map_or(&[], |completion| &completion.parts));
        Ok(Step::new(step.state, action(step.action, &seen)?))
    }
}

fn moment_to_wit(cx: &RunCx, moment: &Moment<'_>) -> wit::Moment {
    wit::Moment {
        cx: run_context(cx),
        step: moment.step,
        members: moment.members.iter().map(member).collect(),
        reports: moment.reports.iter().map(report).collect(),
        reply: moment.reply.as_ref().map(convert::reply_to_wit),
    }
}

fn member(Profile { name, role, description }: &Profile) -> wit::Member {
    wit::Member { name: name.to_string(), role: role.to_string(), description: description.to_string() }
}

fn report(Report { member, fared }: &Report) -> wit::Report {
    let failure = match fared {
        // Of a hand-over there is a note in the chat.
        Fared::Replied | Fared::HandedOver(_) => None,
        Fared::Failed(fault) => Some(convert::fault_to_wit(fault)),
    };
    wit::Report { member: member.to_string(), failure }
}

fn action(action: wit::Action, seen: &Attached<'_>) -> Result<Action, Fault> {
    Ok(match action {
        wit::Action::Run(assignments) => Action::Run(assignments.into_iter().map(assignment).collect()),
        wit::Action::Done(None) => Action::Done(None),
        wit::Action::Done(Some(content)) if content.len() > limits::RESULT_PIECES => {
            let (pieces, most) = (content.len(), limits::RESULT_PIECES);
            let message = format!("the answer of the team has {pieces} pieces, at most {most} are taken");
            return Err(Fault::TooLarge { message });
        }
        wit::Action::Done(Some(content)) => {
            Action::Done(Some(convert::content(content, seen)?.into_iter().map(part).collect()))
        }
        wit::Action::AskModel(ask) => Action::Ask(Box::new(convert::ask(ask, seen)?)),
    })
}

fn assignment(wit::Assignment { member, task }: wit::Assignment) -> Assignment {
    Assignment { member: member.into(), task }
}

/// A piece of the answer: people and agents read JSON as text.
fn part(content: Content) -> Part {
    match content {
        Content::Text(text) | Content::Json(text) => Part::Text(text),
        Content::Media(media) => Part::Media(media),
        Content::Other(opaque) => Part::Other(opaque),
    }
}
