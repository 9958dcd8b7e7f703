use crate::{
    capability::BudgetBreakdown,
    chat::Message,
    model::Usage,
    tool::{CompletionStatus, RunControl, TaskCompletion, TaskHandoff},
};

/// The outcome of a run that did not fail.
#[derive(Debug, Clone)]
pub struct RunAnswer {
    /// The final message: the answer, or the report with which the agent ended its task or handed it over.
    pub message: Message,
    /// The way in which the run ended.
    pub ending: RunEnding,
    /// Turns of an agent or steps of a team, over all attempts.
    pub iterations: u32,
    /// Tokens of all completions of this agent, including those that its effects asked for.
    pub usage: Usage,
    /// Everything that was spent: by this agent, and by the agents that worked for it.
    pub account: BudgetBreakdown,
}

/// The way in which a successful run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RunEnding {
    /// The last reply calls no tool.
    #[default]
    Answered,
    /// The agent reported that its task has ended.
    Completed(TaskCompletion),
    /// The agent asked for another agent to continue.
    HandedOver(TaskHandoff),
}

impl RunEnding {
    /// Returns the word for this ending that middleware sees; `None` for an answer.
    pub(crate) fn word(&self) -> Option<&'static str> {
        Some(match self {
            Self::Answered => return None,
            Self::Completed(TaskCompletion { status: CompletionStatus::Completed, .. }) => "completed",
            Self::Completed(TaskCompletion { status: CompletionStatus::Failed, .. }) => "failed",
            Self::HandedOver(_) => HANDED_OVER,
        })
    }

    /// Returns the full report to the agent that gets the task back.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Answered => String::new(),
            Self::Completed(completed) => completed.in_full(),
            Self::HandedOver(to) => format!("{}\n\n{}", to.reason, to.context),
        }
    }

    /// Takes over the report as middleware left it. If middleware changed it, only the changed text remains.
    pub(crate) fn report_as(&mut self, message: &Message) {
        let text = message.text_content();
        if text == self.report() {
            return;
        }
        match self {
            Self::Answered => {}
            Self::Completed(completed) => {
                *completed = TaskCompletion { summary: text, ..TaskCompletion::bare(completed.status) }
            }
            Self::HandedOver(to) => (to.context, to.reason) = (text, String::new()),
        }
    }
}

impl From<RunControl> for RunEnding {
    fn from(control: RunControl) -> Self {
        match control {
            RunControl::Complete(completed) => Self::Completed(completed),
            RunControl::Handoff(to) => Self::HandedOver(to),
        }
    }
}

/// The word for [`RunEnding::HandedOver`] that middleware sees.
pub(crate) const HANDED_OVER: &str = "handed-over";
