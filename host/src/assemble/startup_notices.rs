/// Notices for a person before a run.
#[derive(Default)]
pub(crate) struct StartupNotices {
    /// Choices that the host made without being told to.
    pub notes: Vec<String>,
    /// Problems that do not keep the agent from running.
    pub warnings: Vec<String>,
}
