/// The conversations in which the members of a team work, and the way they hand over to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TeamChatMode {
    /// Each member works in its own conversation, as the coordinator decides.
    #[default]
    Coordinated,
    /// Each member works in its own conversation; a member hands over to another one with a tool.
    Handoff,
    /// All members work in the shared conversation, one after the other, so that each sees all work; a member hands over to
    /// another one with a tool.
    SharedHandoff,
}

impl TeamChatMode {
    /// Returns `true` if all members work in one conversation.
    pub(super) fn is_shared(self) -> bool {
        self == Self::SharedHandoff
    }

    /// Returns `true` if a member hands over to another one with a tool.
    pub(super) fn hands_over(self) -> bool {
        self != Self::Coordinated
    }
}
