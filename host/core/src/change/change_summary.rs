/// A summary of the change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSummary {
    /// `create`, `edit`, `remove`, `move`, `copy` or `make-folder`.
    pub act: &'static str,
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
            "create" => "created",
            "edit" => "changed",
            "remove" => "removed",
            "move" => "moved",
            "copy" => "copied",
            _ => "created the folder",
        };
        self.line(word)
    }

    /// Formats the change on one line in the imperative.
    pub fn wanted(&self) -> String {
        self.line(if self.act == "make-folder" { "create the folder" } else { self.act })
    }

    fn line(&self, word: &str) -> String {
        let to = self.to.as_ref().map_or(String::new(), |to| format!(" to {to}"));
        let lines = self.lines.map_or(String::new(), |(more, less)| format!(" (+{more} -{less})"));
        format!("{word} {}{to}{lines}", self.path)
    }
}
