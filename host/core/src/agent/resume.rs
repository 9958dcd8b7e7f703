//! Resumes an interrupted run of an agent from its recorded state.

use super::{
    agent_loop::{AgentLoop, TurnReply, TurnState},
    delegate::restore_delegations,
    journal::{RecordedRun, RecordedTurnState},
    run::Run,
};

impl AgentLoop<'_> {
    /// Restores the state that the run was interrupted in.
    pub(super) fn restore_turn(&mut self, run: &mut Run<'_>, recorded: RecordedRun) {
        self.last_usage = recorded.last_usage;
        self.model_time = recorded.model_time;
        self.effects.restore(recorded.effects, recorded.asked);
        self.calls = recorded.calls;
        run.me.restore_remote_tasks(recorded.remote_tasks);
        let open = run.chat.reopen();
        restore_delegations(&run.me, recorded.parked, recorded.delegated, &self.calls);
        self.at = match recorded.at {
            RecordedTurnState::Turn => {
                open.abandon("the run was interrupted");
                TurnState::Turn
            }
            RecordedTurnState::Model => {
                self.offer_to_read_on(run);
                TurnState::Model
            }
            RecordedTurnState::Reply { stop, silent, looked } => {
                self.offer_to_read_on(run);
                let tools = self.effects.visible_in_resumed_turn(&self.tools, recorded.hidden);
                TurnState::Reply(Box::new(TurnReply { stop, silent, open, tools, looked }))
            }
        };
    }
}
