/// The disk usage of all sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionDiskUsage {
    /// The number of sessions.
    pub sessions: usize,
    /// The size in bytes with attachments, as far as it can be determined. Attachments shared by several sessions count for
    /// each.
    pub bytes: u64,
}
