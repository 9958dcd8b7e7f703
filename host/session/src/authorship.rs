/// The authorship of a session's lines, according to its mark and their codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorship {
    /// This person's programs wrote every line, or this person accepted the session as it was. It may have been truncated to
    /// an earlier line since: each prefix of it is `Own`, too.
    Own,
    /// This person began the session with an earlier release, whose mark covers only the first line; the authors of the
    /// other lines are unknown. Another person who kept such a mark can put it in the place of a newer one.
    FirstLine,
    /// The mark matches, but from this line on another author wrote.
    Altered {
        /// The number of the line.
        line: u64,
    },
    /// No mark matches the session's name and first lines.
    Unmarked,
}

impl Authorship {
    /// Returns `true` if the session may be resumed without asking.
    pub fn is_own(self) -> bool {
        self == Self::Own
    }
}
