//! What it takes to go on: what a run writes down of itself, and how it takes up what an interrupted one has written.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    Agent, Answer, RunError,
    delegate::Instance,
    journal::{Ended, ErrandId, Log, Record, RunPast, Where},
    react::{At, Reply},
    runner::Run,
};
use crate::{
    capability::Purse,
    chat::{Change, Chat, Message, Written},
    event::RunCx,
};

impl Agent {
    /// Goes on with the run that a person started in the session of the [crew](super::Crew::resuming) and that has not
    /// ended, in `chat`, its conversation. What was done is not done again; `more` is what it is told before its next turn.
    /// None if all runs have ended: then [`Agent::run`] goes on with the conversation.
    ///
    /// What it has spent counts for the budget, and the time that it was at work.
    ///
    /// # Errors
    ///
    /// As [`Agent::run`].
    pub async fn resume(&self, cx: &RunCx, chat: &Chat, more: Vec<Message>) -> Option<Result<Answer, RunError>> {
        let journal = self.journal()?;
        let _turn = chat.turn().await;
        let (run, mut past) = journal.unfinished()?;
        let began = Instant::now().checked_sub(past.elapsed).unwrap_or_else(Instant::now);
        let purse = Purse::restored(&self.budget, began, past.spent);
        let log = Log::of(journal, run);
        for message in &more {
            log.write(&Record::Sent { message: message.clone() });
        }
        let waiting = std::mem::take(&mut past.inbox).into_iter().chain(more).collect();
        let start = self.start(cx, &purse, Some(log), Some(past), waiting);
        Some(self.run_as(start, chat, Vec::new()).await)
    }

    pub(super) fn beginning(
        &self,
        (me, errand): (&Instance, Option<ErrandId>),
        chat: &Chat,
        input: &[Message],
        prompt: &str,
    ) -> Record {
        let continues = me.log.as_ref().and_then(|log| log.continues);
        Record::Began {
            agent: self.name.clone(),
            instance: me.cx.agent.clone(),
            model: self.completer.info().model.clone(),
            depth: me.cx.depth,
            // Whoever delegated a task gives it again.
            input: if errand.is_none() { input.to_vec() } else { Vec::new() },
            errand,
            continues,
            prompt: prompt.into(),
            changes: match continues {
                Some(_) => chat.take_changes(),
                None => chat.record(),
            },
        }
    }
}

impl Run<'_> {
    /// Goes back to where it was when it was interrupted. What it is to be given then.
    pub(super) fn restore(&mut self, past: RunPast, input: Vec<Message>) -> Vec<Message> {
        (self.iterations, self.usage, self.last_usage) = (past.iterations, past.usage, past.last_usage);
        self.started = Instant::now().checked_sub(past.elapsed).unwrap_or_else(Instant::now);
        self.model_time = past.model_time;
        self.effects.restore(past.effects, past.asked);
        (self.calls, self.passed) = (past.calls, past.passed);
        let open = self.chat.reopen();
        self.me.restore_delegations(past.parked, past.delegated, &self.calls, open.calls());
        self.at = match past.at {
            Where::Turn => {
                open.abandon("the run was interrupted");
                At::Turn
            }
            Where::Model => At::Model,
            Where::Reply { stop, silent, looked } => {
                self.offer_to_read_on();
                let tools = self.tools.without(&past.hidden);
                At::Reply(Box::new(Reply { stop, silent, open, tools, looked }))
            }
        };
        past.input.unwrap_or(input)
    }

    /// Writes down how it ended, and waits until that is kept where somebody waits for its answer outside.
    pub(super) async fn write_end(&mut self, reply: Result<Message, RunError>) -> Result<Message, RunError> {
        let me = Arc::clone(&self.me);
        let mark = me.write(|| {
            let outcome = Ended::of(&reply, &self.ending);
            let (iterations, usage, account) = (self.iterations, self.usage, self.me.purse.spent());
            Record::Ended { changes: self.changes(), outcome, iterations, usage, account }
        });
        if self.me.assignment.is_none() {
            self.me.kept(mark).await?;
        }
        reply
    }

    /// What has changed in the conversation since it was last written down. Results that stand in a record of their own are
    /// only named.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let answered = |change: &Change| {
            let Change::Added(Written { id, group: Some(group), message, .. }) = change else { return None };
            let result = message.tool_results().next()?;
            let is_same = self.recorded.get(&result.call_id).is_some_and(|bytes| *bytes == message.bytes());
            is_same.then(|| Change::Answered { id: *id, group: *group, call: result.call_id.clone() })
        };
        let changes = self.chat.take_changes().into_iter();
        let changes = changes.map(|change| answered(&change).unwrap_or(change)).collect();
        self.recorded.clear();
        changes
    }
}
