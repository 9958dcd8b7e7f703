use serde_json::Value;

use super::{editor_connection::EditorConnection, run_updates::RunUpdates, session_update::plan};
use crate::{
    event::{EventSink, EventStream},
    state::TaskBoard,
};

/// Sends the updates of one run to the editor.
pub(super) struct UpdateStream {
    pub connection: EditorConnection,
    /// The id of the conversation.
    pub session: String,
    /// The task board of the run, which is its plan.
    pub board: Option<TaskBoard>,
    /// Receives the events, too.
    pub mirror: EventSink,
}

impl UpdateStream {
    /// Sends updates until the run has ended.
    pub async fn send(self, mut updates: RunUpdates, mut events: EventStream) -> RunUpdates {
        let mut revision = None;
        loop {
            let event = tokio::select! {
                biased;
                event = events.next() => event,
                () = changed(self.board.as_ref(), revision) => {
                    self.send_plan(&mut revision).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            for update in updates.note(&event) {
                self.update(update).await;
            }
            self.mirror.emit(event.event).await;
        }
        self.send_plan(&mut revision).await;
        updates
    }

    /// Sends the plan, if the board has changed since this revision. A board without tasks is no plan until it had some.
    async fn send_plan(&self, revision: &mut Option<u64>) {
        let Some(board) = &self.board else { return };
        let now = Some(board.revision());
        let before = std::mem::replace(revision, now);
        if before == now {
            return;
        }
        let tasks = board.list(&Default::default());
        if before.is_some() || !tasks.is_empty() {
            self.update(plan(&tasks)).await;
        }
    }

    async fn update(&self, update: Value) {
        self.connection.update(&self.session, update).await;
    }
}

/// Waits until the board is no longer at this revision. Cancel safe.
async fn changed(board: Option<&TaskBoard>, revision: Option<u64>) {
    match (board, revision) {
        (None, _) => std::future::pending().await,
        // It was never looked at.
        (Some(_), None) => {}
        (Some(board), Some(revision)) => {
            board.changed(revision).await;
        }
    }
}
