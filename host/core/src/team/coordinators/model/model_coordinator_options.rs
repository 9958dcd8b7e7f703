use crate::limits;

/// Options of a model coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelCoordinatorOptions {
    /// The name of a model in the config; `None`: the team's own model.
    pub model: Option<String>,
    /// The number of steps that the team may take for each member; 0: [`limits::TEAM_STEPS`] in all. After the last step
    /// the model is asked once more whether the task is done; if it is not, the run fails with
    /// [`Fault::Exhausted`](crate::error::Fault::Exhausted).
    pub max_rounds: u32,
    /// The number of newest messages of the shared conversation that the model sees; 0: [`limits::COORDINATOR_WINDOW`], and
    /// at most [`limits::COORDINATOR_WINDOW_CEILING`]. Each message is cut to [`limits::COORDINATOR_MESSAGE_CHARS`], and
    /// further if together they would exceed [`limits::COORDINATOR_CHARS`].
    pub window: u32,
    /// Further instructions for the model.
    pub instructions: String,
    /// Lets the model summarize the messages that leave its window. It is asked to when more messages are new to the
    /// summary than the window holds, and then summarizes the older half of them, so that it is asked seldom.
    pub summary: bool,
    /// Gives the model tools: it can look at the team and at older messages, give each member its own task, and write the
    /// team's answer.
    pub tools: bool,
}

impl Default for ModelCoordinatorOptions {
    fn default() -> Self {
        Self {
            model: None,
            max_rounds: 0,
            window: limits::COORDINATOR_WINDOW,
            instructions: String::new(),
            summary: false,
            tools: false,
        }
    }
}
