//! Agents of other hosts: their network access, and the person's approval of their cards.

use std::{path::PathBuf, sync::Arc};

use async_trait::async_trait;
use serde_json::json;

use super::{App, ResolvedModel, StartupNotices};
use crate::{
    a2a::{CardApproval, RemoteAgentModel, RemoteAgentOptions, RemoteCard},
    approval::{ApprovalBroker, PermissionSubject, Verdict},
    config::{AgentConfig, ProviderKind, RemoteAgentConfig},
    digest::Sha256Digest,
    error::{ErrorKind, Fault, Report},
    event::{Event, RunCx},
    limits,
    mcp::{PinStatus, Pins},
    net::egress::{Egress, EgressLimits},
    trust::{PinnedServer, TrustStore},
};

/// The name under which the digest of a card is approved.
const CARD: &str = "card";

/// The name of what an agent does with one of another host, in the question about a card that has changed.
const GIVE_TASK: &str = "give_task";

/// Approves the card of one agent: the first one, since the person has consented to the agent, and later ones if they are
/// the same or a person says so.
struct PinnedCard {
    agent: String,
    /// The name of the approval.
    origin: String,
    /// The digest of the address and the credential: an approval for one does not carry over to another.
    target: String,
    trust: TrustStore,
    root: PathBuf,
    approves_all: bool,
    broker: ApprovalBroker,
}

impl App {
    /// Returns an agent of another host in the place of a model. Nothing is sent before it gets a task.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the address is none, which a checked config has not.
    pub(super) async fn remote_agent(
        &self,
        agent: &AgentConfig,
        remote: &RemoteAgentConfig,
        notices: &mut StartupNotices,
    ) -> Result<ResolvedModel, Report> {
        let place = format!("{}.remote", agent.place());
        let card = remote.url().ok_or_else(|| Report::new(ErrorKind::Usage, format!("{place}.card: not a URL")))?;
        let named = |name: &String| self.config.credentials.iter().find(|held| held.name == *name);
        let credential = match remote.credential.as_ref().and_then(named) {
            Some(held) => self.resolved_credential(held, &place, &mut notices.warnings).await,
            None => None,
        };
        let bounds = EgressLimits {
            request_bytes: limits::A2A_REQUEST_BYTES,
            response_bytes: limits::A2A_STREAM_BYTES,
            ..EgressLimits::default()
        };
        let approval = PinnedCard {
            agent: agent.name.clone(),
            origin: format!("a2a:{}", agent.name),
            target: Sha256Digest::of(json!([remote.card, remote.credential]).to_string()).to_string(),
            trust: self.trust.clone(),
            root: self.config.root.clone(),
            approves_all: self.approves_all,
            broker: self.broker.clone(),
        };
        let completer = RemoteAgentModel::new(RemoteAgentOptions {
            name: agent.name.clone(),
            card,
            egress: Egress::new(remote.grant().http, credential.into_iter().collect(), bounds),
            broker: self.broker.clone(),
            approval: Arc::new(approval),
            cancellations: self.cancellations.clone(),
        });
        Ok(ResolvedModel {
            completer: Arc::new(completer),
            source: remote_source(&agent.place()),
            kind: ProviderKind::Plugin,
        })
    }
}

impl PinnedCard {
    /// Returns the relation of a card to its approval.
    fn state(&self, card: &RemoteCard) -> Result<PinStatus, Fault> {
        let answered = self.trust.of(&self.root).map_err(|error| Fault::other(error.to_string()))?;
        let is_this = |pinned: &PinnedServer| pinned.name == self.origin && pinned.target == self.target;
        let pinned = answered.servers.into_iter().find(is_this);
        let pins: Pins = pinned.map(|pinned| pinned.tools.into_iter().collect()).unwrap_or_default();
        Ok(pins.state(CARD, &card.digest))
    }

    /// Stores the approval. Without a store it holds for this run.
    async fn keep(&self, cx: &RunCx, card: &RemoteCard) {
        let pinned = PinnedServer {
            name: self.origin.clone(),
            target: self.target.clone(),
            tools: [(CARD.to_owned(), card.digest.clone())].into(),
        };
        if let Err(error) = self.trust.change(&self.root, |answered| answered.pin(pinned)) {
            let message = format!("agents.{}.remote: the card is approved for this run only: {error}", self.agent);
            cx.events.emit(Event::Warning { message }).await;
        }
    }
}

#[async_trait]
impl CardApproval for PinnedCard {
    async fn approve(&self, cx: &RunCx, card: &RemoteCard) -> Result<(), Fault> {
        let state = self.state(card)?;
        if state == PinStatus::Unchanged {
            return Ok(());
        }
        if state == PinStatus::New || self.approves_all {
            self.keep(cx, card).await;
            return Ok(());
        }
        let subject = PermissionSubject::Tool {
            agent: self.agent.clone(),
            origin: self.origin.clone(),
            name: GIVE_TASK.into(),
            digest: card.digest.clone(),
        };
        let detail = format!("the agent card has changed since it was approved; now it says:\n{}", card.summary());
        let asked = self.broker.permit(cx, subject, &detail);
        match cx.wait_for_others(asked).await?.verdict {
            Verdict::Yes => Ok(()),
            Verdict::Trust => {
                self.keep(cx, card).await;
                Ok(())
            }
            Verdict::No => {
                let message = format!(
                    "the card of the remote agent `{}` has changed since it was approved, and nobody has approved the new \
                     one; look at it, and start with --trust to approve it",
                    self.agent
                );
                Err(Fault::Denied { message })
            }
        }
    }
}

/// Returns the source of an agent of another host, for hints. `place` is its position in the config.
pub(super) fn remote_source(place: &str) -> String {
    format!("{place}.remote in the config")
}

/// Returns the words for an agent of another host in messages about models.
pub(crate) fn remote_model(agent: &AgentConfig) -> String {
    format!("of the remote agent `{}`", agent.name)
}
