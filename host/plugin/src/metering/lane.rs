/// The set of permits from which a call takes its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Calls that compute and end.
    Step,
    /// Calls that may wait for a model, a server or a program.
    Stream,
    /// Instances that are kept for a run: the instance holds the permit, not the call.
    Kept,
}
