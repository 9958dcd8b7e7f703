use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::editor_files::{EditorProposal, blocking};
use crate::{
    approval::{ApprovalBroker, PermissionSubject, Verdict},
    change::{ChangeApplier, ChangeOrigin, ChangePlan},
    chat::ToolCall,
    error::{Fault, seconds},
    event::{AnsweredBy, Event, FileDifference, RunCx},
    limits,
    tool::{ChangeProposalPart, Tool, ToolCx, ToolOutput, WrappedTool},
};

/// A tool whose proposed file changes are applied after approval, which is asked for with the diff.
pub struct FileChangeTool {
    tool: Arc<dyn Tool>,
    changes: ChangeApplier,
    broker: ApprovalBroker,
    agent: String,
    digest: String,
    asks: ChangeApprovalPolicy,
    is_pure: bool,
}

/// The policy that decides which changes need approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeApprovalPolicy {
    /// All changes that are not trusted.
    All,
    /// Only changes that cannot be undone or have warnings, such as for files that programs read or execute on their own.
    Remarkable,
}

impl FileChangeTool {
    /// Wraps the tool of this agent; approval is asked for at `broker`. `digest` is that of the plugin that provides the tool,
    /// empty for a tool of the host: an answer to trust the tool applies to this digest alone.
    pub fn new(
        tool: Arc<dyn Tool>,
        changes: ChangeApplier,
        broker: ApprovalBroker,
        agent: impl Into<String>,
        digest: impl Into<String>,
        asks: ChangeApprovalPolicy,
    ) -> Self {
        Self { tool, changes, broker, agent: agent.into(), digest: digest.into(), asks, is_pure: false }
    }

    /// Marks the tool as free of effects other than its proposals: an interrupted call is repeated, and does nothing if its
    /// changes were applied.
    pub fn pure(self) -> Self {
        Self { is_pure: true, ..self }
    }

    /// Plans the proposed changes, asks for approval and applies them. In the editor in which the person has their files
    /// open, unsaved text is saved first, and the new text follows.
    async fn make(&self, cx: &ToolCx, call: &ToolCall, pieces: Vec<ChangeProposalPart>) -> Result<ToolOutput, Fault> {
        let mut proposal = EditorProposal::of(&self.changes, ChangeProposalPart::changes(&pieces)).await?;
        let (here, changes) = (self.changes.clone(), std::mem::take(&mut proposal.changes));
        let unsaved = Arc::clone(&proposal.unsaved);
        let plan = blocking(move || here.plan_over(&changes, &unsaved).map_err(Fault::from)).await?;
        let differences: Arc<[FileDifference]> = plan.differences().collect();
        let by = self.permitted(&cx.run, &plan, &differences).await?;
        if WrappedTool::is_repeatable(self) {
            // If the host is interrupted now, the record must show that this call may have taken effect.
            cx.begin_now().await?;
        }
        proposal.save(&self.changes).await?;
        let content = ChangeProposalPart::made(pieces, &plan);
        let summaries: Vec<_> = plan.summaries().collect();
        let (here, agent, result) = (self.changes.clone(), Arc::clone(&cx.run.agent), content.clone());
        let (id, tool) = (call.id.clone(), self.spec().name.clone());
        // Runs to its end even if the call is cancelled.
        let plan = blocking(move || {
            let proposer = ChangeOrigin { agent: &agent, call: &id, tool: &tool };
            here.apply(&plan, proposer, &result).map_err(Fault::from)?;
            if by == Some(AnsweredBy::Person) {
                here.tell_seen(&plan);
            }
            Ok(plan)
        })
        .await?;
        if let Some(message) = proposal.show(&self.changes, &plan).await {
            cx.run.events.emit(Event::Warning { message }).await;
        }
        for (summary, difference) in summaries.into_iter().zip(&*differences) {
            let (added, removed) = summary.lines.unzip();
            let (agent, call, tool) = (Arc::clone(&cx.run.agent), call.id.clone(), self.spec().name.clone());
            let (act, path, to) = (summary.act, summary.path, summary.to);
            let difference = Some(Arc::new(difference.clone()));
            let change = Event::FileChange { agent, call, tool, act, path, to, added, removed, by, difference };
            cx.run.events.emit(change).await;
        }
        Ok(ToolOutput::Reply(content))
    }

    /// Asks for approval, and returns who gave it; `None` if the config needs none.
    async fn permitted(
        &self,
        cx: &RunCx,
        plan: &ChangePlan,
        differences: &Arc<[FileDifference]>,
    ) -> Result<Option<AnsweredBy>, Fault> {
        if self.asks == ChangeApprovalPolicy::Remarkable && plan.is_plain() {
            return Ok(None);
        }
        let name = &self.spec().name;
        let subject = PermissionSubject::Change {
            agent: self.agent.clone(),
            origin: self.origin().into(),
            name: name.clone(),
            digest: self.digest.clone(),
            content: plan.digest().hex(),
            always_asked: plan.is_remarkable(),
        };
        let ruling = self.broker.permit_changes(cx, subject, &plan.shown(), differences).await?;
        if ruling.verdict != Verdict::No {
            return Ok(Some(ruling.by));
        }
        let message = match ruling.by {
            AnsweredBy::Person => format!(
                "the person declined the changes that `{name}` proposed, and nothing was changed: do not try to achieve the same \
                 in another way; continue without them, or ask what is wanted instead"
            ),
            AnsweredBy::Policy | AnsweredBy::Trust => format!(
                "the changes that `{name}` proposed need a person's consent, and no person can be asked: nothing was changed; \
                 continue without them, or report what you could not do"
            ),
        };
        Err(Fault::Denied { message })
    }
}

#[async_trait]
impl WrappedTool for FileChangeTool {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    /// The tool's own limit, followed by [`limits::QUESTION_TIME`] and [`limits::CHANGE_TIME`].
    fn time_limit(&self) -> Duration {
        limits::QUESTION_TIME + limits::CHANGE_TIME + self.tool.time_limit()
    }

    fn is_repeatable(&self) -> bool {
        self.is_pure || self.tool.is_repeatable()
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        if cx.begin.is_again() {
            let (here, agent, id) = (self.changes.clone(), Arc::clone(&cx.run.agent), call.id.clone());
            let tool = self.spec().name.clone();
            let by = move || Ok(here.made(ChangeOrigin { agent: &agent, call: &id, tool: &tool }));
            if let Some(content) = blocking(by).await? {
                return Ok(ToolOutput::Reply(content));
            }
        }
        // The time that the person takes does not count for the tool.
        let limit = self.tool.time_limit();
        match tokio::time::timeout(limit, self.tool.call(cx, call)).await {
            Ok(Ok(ToolOutput::Propose(pieces))) => self.make(cx, call, pieces).await,
            Ok(outcome) => outcome,
            Err(_) => Err(Fault::Timeout { message: format!("the call took longer than {}", seconds(limit)) }),
        }
    }
}

#[cfg(test)]
mod tests;
