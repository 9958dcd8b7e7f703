//! The work that is left in the session of a run.

use super::{PreparedRun, RunSession};
use crate::{
    agent::{RunAnswer, RunError},
    chat::{Chat, Message},
    error::{ErrorKind, Report},
    event::RunCx,
};

/// The work that is left.
pub enum PendingWork {
    /// Finishes an interrupted run, which may be given further messages.
    Finish(Vec<Message>),
    /// Begins a run with these messages; without any it continues the conversation.
    Begin(Vec<Message>),
}

impl PendingWork {
    /// Returns the work that is left, with this task. A damaged session has to be opened before it is known to be complete.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no work.
    pub fn of(session: Option<&RunSession>, task: Option<Message>) -> Result<Self, Report> {
        let Some(session) = session else { return Ok(Self::Begin(task.into_iter().collect())) };
        if session.is_unfinished {
            return Ok(Self::Finish(task.into_iter().collect()));
        }
        if task.is_none() && !session.has_failed {
            let id = session.journal.id();
            let what = format!("the readable part of the session `{id}` is already complete");
            let hint = format!("give it a task: shelly-host session resume {id} \"…\"");
            return Err(Report::new(ErrorKind::Usage, what).hint(hint));
        }
        let recalled = session.summary.as_deref().filter(|summary| !summary.is_empty());
        let recalled = recalled.map(|summary| {
            let text = format!("<earlier_session>\n{}\n</earlier_session>", summary.replace("</", "<\\/"));
            Message::note("session", text)
        });
        Ok(Self::Begin(recalled.into_iter().chain(task).collect()))
    }

    /// Does the work. Returns its answer.
    ///
    /// # Errors
    ///
    /// A [`RunError`] if there is no answer.
    pub async fn run(self, prepared: &PreparedRun, cx: &RunCx, chat: &Chat) -> Result<RunAnswer, RunError> {
        let input = match self {
            Self::Begin(input) => input,
            Self::Finish(more) => match prepared.entrant.runner().resume(cx, chat, more.clone()).await {
                Some(outcome) => return outcome,
                None => more,
            },
        };
        prepared.entrant.runner().run(cx, chat, input).await
    }
}
