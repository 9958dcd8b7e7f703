/// The origin of a session that this person may resume. Each origin has separate marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionOrigin {
    /// This person created it.
    Person = 0,
    /// Another person created it, and this person has accepted it.
    Other = 1,
}

impl SessionOrigin {
    /// Returns the key label of the marks of earlier releases, which cover only the session's first line.
    pub fn first_line_label(self) -> &'static str {
        match self {
            Self::Person => "shelly-host session",
            Self::Other => "shelly-host session of somebody else",
        }
    }

    /// Returns the word for the origin in a mark.
    pub fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Other => "other",
        }
    }

    /// Parses the word for the origin in a mark.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Person, Self::Other].into_iter().find(|origin| origin.word() == word)
    }
}
