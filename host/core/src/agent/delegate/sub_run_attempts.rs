//! The work of a team member, or of an agent that is called as a tool, for its parent run: one sub-run for each attempt.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::sub_run::{ParentRun, SubRun, SubRunConversation, SubRunFailure, take_recorded_answer};
use crate::{
    agent::{
        context::{RunOrigin, Runner, in_time},
        journal::{DelegationKey, DelegationReport, DelegationState, JournalRecord, RecordedRun, SideChatRef},
        outcome::RunAnswer,
    },
    capability::BudgetAllocation,
    chat::{Chat, Message, Role},
    error::Fault,
    tool::ToolBox,
};

/// The part of a parent run that a sub-run works for.
pub(super) enum SubRunCause {
    /// The tool call of this id.
    Call(String),
    /// The step of a team of this number, from 0 on.
    Step(u32),
}

impl SubRunCause {
    /// Returns what the journal has in the place of a call.
    fn journal_call(&self) -> String {
        match self {
            Self::Call(call) => call.clone(),
            Self::Step(step) => DelegationKey::call_of_step(*step),
        }
    }

    /// Returns the id of the tool call.
    fn call(&self) -> Option<Arc<str>> {
        match self {
            Self::Call(call) => Some(call.as_str().into()),
            Self::Step(_) => None,
        }
    }
}

/// The attempts of a runner at one piece of work for a parent run: a [`SubRun`] each, until one has an answer.
pub(super) struct SubRunAttempts {
    pub parent_run: ParentRun,
    pub cause: SubRunCause,
    /// The position among the pieces of work of that call or step, from 0; with `cause` it is unique in the parent run.
    pub position: usize,
    pub runner: Arc<dyn Runner>,
    /// The name by which the parent run refers to this agent.
    pub name: Arc<str>,
    /// The instance name of this agent.
    pub instance: Arc<str>,
    pub depth: u32,
    /// The conversation to work in; `None`: a new one that no later run continues.
    pub chat: Option<Chat>,
    /// The relation of this chat to the parent's chat; `None` if it is the parent's chat or a new one.
    pub side_chat: Option<SideChatRef>,
    /// The messages that are new to this agent.
    pub input: Vec<Message>,
    /// Tools that it has in addition to its own.
    pub tools: ToolBox,
    /// The instructions for all members of its team; empty outside a team.
    pub team_instructions: Arc<str>,
    /// The number of failures that are followed by another attempt.
    pub retries: u32,
    /// A semaphore from which it takes a permit, in addition to that of the group.
    pub permits: Option<Arc<Semaphore>>,
    /// The budget allocation of this work.
    pub share: BudgetAllocation,
    /// The state from before the parent run was interrupted.
    pub past_state: DelegationState,
}

impl SubRunAttempts {
    /// Works until there is an answer, or until the retries are used up.
    pub async fn execute(mut self) -> Result<RunAnswer, Fault> {
        let mut input = std::mem::take(&mut self.input);
        let (mut attempt, mut has_run, mut newest) = (0, false, self.newest_message());
        let done = loop {
            // Each recorded run is an attempt, in order.
            let past_run = self.parent_run.past_run(&self.past_state.runs, attempt as usize);
            match self.attempt(input.clone(), past_run, &mut has_run).await {
                // An exhausted budget or bound stays exhausted at the next attempt.
                Err(fault) if attempt < self.retries && !matches!(fault, Fault::Exhausted { .. }) => attempt += 1,
                done => break done,
            }
            let before = std::mem::replace(&mut newest, self.newest_message());
            // An attempt that ended before its input was in the conversation leaves it to the next one.
            if newest != before {
                input.clear();
            }
        };
        if let Some(chat) = self.chat.as_ref().filter(|_| has_run) {
            // Its middleware may have answered or rejected the messages, which are then in no conversation.
            chat.hear_given();
        }
        let Self { parent_run, cause, position, name, share, past_state, .. } = self;
        let account = share.settle();
        if past_state.returned.is_none()
            && let Some(log) = parent_run.log
        {
            let error = done.as_ref().err().map(ToString::to_string);
            let (call, entry) = (cause.journal_call(), DelegationReport { error, ..DelegationReport::of(&name) });
            log.write(&JournalRecord::Returned { call, position, entry, account, board: None });
        }
        done
    }

    /// Returns the id of the newest message in the conversation, apart from the system prompt, which each attempt sets;
    /// `None` if there is none, or if each attempt has a conversation of its own.
    fn newest_message(&self) -> Option<u64> {
        let messages = self.chat.as_ref()?.snapshot();
        messages.iter().filter(|entry| entry.message.role != Role::System).map(|entry| entry.id).next_back()
    }

    /// Makes one attempt. Sets `has_run` if a run has ended, which one that got no permit has not.
    async fn attempt(
        &self,
        input: Vec<Message>,
        mut past_run: Option<(u64, Box<RecordedRun>)>,
        has_run: &mut bool,
    ) -> Result<RunAnswer, Fault> {
        if let Some(answer) = past_run.as_mut().and_then(|(_, past_run)| take_recorded_answer(past_run)) {
            *has_run = true;
            return answer.map_err(|failure| failure.fault);
        }
        let ParentRun { cx, ceiling, log, .. } = &self.parent_run;
        let sub_run = SubRun {
            parent_run: &self.parent_run,
            runner: &*self.runner,
            instance: &self.instance,
            depth: self.depth,
            ceiling,
            run_origin: RunOrigin::Member { parent: Arc::clone(&cx.agent), call: self.cause.call() },
            delegation_key: log.as_ref().map(|log| log.delegation_key(&self.cause.journal_call(), self.position)),
            conversation: match &self.chat {
                Some(chat) => SubRunConversation::Shared(chat.clone(), self.side_chat.clone()),
                None => SubRunConversation::New,
            },
            tools: self.tools.clone(),
            team_instructions: Arc::clone(&self.team_instructions),
            recorded: past_run,
        };
        let own = sub_run.allocate(self.share.budget_account());
        let permit = in_time(own.budget_account(), self.parent_run.take_permit(self.permits.as_ref())).await;
        let permit = permit.map_err(|error| error.as_fault())?;
        let answer = sub_run.execute(own, permit, input).await;
        *has_run = true;
        answer.map_err(|failure| match failure {
            SubRunFailure::Lost(error) => Fault::other(format!("the work of the agent is lost: {error}")),
            // The same words as those read back from the journal.
            SubRunFailure::Run(error) => error.as_fault().saying(error.in_full()),
        })
    }
}
