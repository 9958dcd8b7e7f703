//! Resumes an interrupted run of an agent from its recorded state.

use tokio::time::Instant;

use super::{
    agent_loop::{AgentRun, TurnReply, TurnState},
    journal::{RecordedRun, RecordedTurnState},
};
use crate::chat::Message;

impl AgentRun<'_> {
    /// Restores the state that the run was interrupted in. Returns the input with which it continues.
    pub(super) fn restore(&mut self, past: RecordedRun, input: Vec<Message>) -> Vec<Message> {
        (self.iterations, self.usage, self.work.last_usage) = (past.iterations, past.usage, past.last_usage);
        self.started = Instant::now().checked_sub(past.elapsed).unwrap_or_else(Instant::now);
        self.work.model_time = past.model_time;
        self.work.effects.restore(past.effects, past.asked);
        (self.work.calls, self.passed) = (past.calls, past.passed);
        let open = self.chat.reopen();
        self.me.restore_delegations(past.parked, past.delegated, &self.work.calls, open.calls());
        self.work.at = match past.at {
            RecordedTurnState::Turn => {
                open.abandon("the run was interrupted");
                TurnState::Turn
            }
            RecordedTurnState::Model => {
                self.offer_to_read_on();
                TurnState::Model
            }
            RecordedTurnState::Reply { stop, silent, looked } => {
                self.offer_to_read_on();
                let tools = self.work.effects.visible_in_resumed_turn(&self.work.tools, past.hidden);
                TurnState::Reply(Box::new(TurnReply { stop, silent, open, tools, looked }))
            }
        };
        past.input.unwrap_or(input)
    }
}
