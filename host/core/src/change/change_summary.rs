use crate::event::FileChangeKind;

/// A summary of the change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSummary {
    /// The kind of the change.
    pub act: FileChangeKind,
    /// The path as the proposing tool names it.
    pub path: String,
    /// The destination of a move or copy.
    pub to: Option<String>,
    /// The numbers of added and removed lines, for a text file.
    pub lines: Option<(usize, usize)>,
}

impl ChangeSummary {
    /// Formats the change on one line in the past tense.
    pub fn done(&self) -> String {
        let word = match self.act {
            FileChangeKind::Create => "created",
            FileChangeKind::Edit => "changed",
            FileChangeKind::Remove => "removed",
            FileChangeKind::Move => "moved",
            FileChangeKind::Copy => "copied",
            FileChangeKind::MakeFolder => "created the folder",
        };
        self.line(word)
    }

    /// Formats the change on one line in the imperative.
    pub fn wanted(&self) -> String {
        self.line(if self.act == FileChangeKind::MakeFolder { "create the folder" } else { self.act.name() })
    }

    fn line(&self, word: &str) -> String {
        let to = self.to.as_ref().map_or(String::new(), |to| format!(" to {to}"));
        let lines = self.lines.map_or(String::new(), |(more, less)| format!(" (+{more} -{less})"));
        format!("{word} {}{to}{lines}", self.path)
    }
}
