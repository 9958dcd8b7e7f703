use std::path::{Path, PathBuf};

use crate::{cli::secrets::without_secrets, files, limits};

/// The messages that a person has sent, the newest last. They are stored in a file that all chats of the person share.
#[derive(Debug, Default)]
pub struct InputHistory {
    entries: Vec<String>,
    /// `None`: the history ends with the chat.
    file: Option<PathBuf>,
}

impl InputHistory {
    /// Reads the history from a file. A file that is missing or cannot be read is an empty history.
    pub fn read(file: Option<PathBuf>) -> Self {
        Self { entries: file.as_deref().map(entries_of).unwrap_or_default(), file }
    }

    /// Returns the messages, the newest last.
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Adds a message, unless it repeats the newest one or is too long. A file that cannot be written is no failure: the
    /// history then ends with the chat.
    pub fn add(&mut self, message: &str) {
        if message.trim().is_empty() || message.len() > limits::CHAT_HISTORY_ENTRY_BYTES {
            return;
        }
        push(&mut self.entries, without_secrets(message));
        if let Some(file) = &self.file {
            // Another chat may have added messages meanwhile.
            let mut stored = entries_of(file);
            push(&mut stored, without_secrets(message));
            let lines: String = stored.iter().map(|entry| format!("{}\n", serde_json::json!(entry))).collect();
            let folder = file.parent().unwrap_or(Path::new("/"));
            let _ = files::create_private_folders(folder).and_then(|()| files::replace(file, lines.as_bytes()));
        }
    }

    /// Returns the position of the newest message before position `before` that contains `text`, whatever its case.
    pub fn find(&self, text: &str, before: usize) -> Option<usize> {
        let text = text.to_lowercase();
        let entries = &self.entries[..before.min(self.entries.len())];
        entries.iter().rposition(|entry| entry.to_lowercase().contains(&text))
    }
}

/// Adds a message and drops the oldest ones beyond the maximum.
fn push(entries: &mut Vec<String>, message: String) {
    if entries.last() != Some(&message) {
        entries.push(message);
    }
    let over = entries.len().saturating_sub(limits::CHAT_HISTORY_ENTRIES);
    entries.drain(..over);
}

/// Reads the messages of a file; a line that is no JSON string is skipped.
fn entries_of(file: &Path) -> Vec<String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let text = files::read(file, folder, limits::CHAT_HISTORY_BYTES).unwrap_or_default();
    let mut entries: Vec<_> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let over = entries.len().saturating_sub(limits::CHAT_HISTORY_ENTRIES);
    entries.drain(..over);
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_shared_by_chats_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new/history.jsonl");
        let (mut one, mut two) = (InputHistory::read(Some(file.clone())), InputHistory::read(Some(file.clone())));
        one.add("first\nsecond line");
        two.add("other");
        two.add("other");
        one.add(" ");
        one.add(&"x".repeat(limits::CHAT_HISTORY_ENTRY_BYTES + 1));
        assert_eq!(one.entries(), ["first\nsecond line"]);
        assert_eq!(InputHistory::read(Some(file.clone())).entries(), ["first\nsecond line", "other"]);
        let lines: String = (0..limits::CHAT_HISTORY_ENTRIES).map(|at| format!("\"{at}\"\n")).collect();
        std::fs::write(&file, format!("no json\n{lines}")).unwrap();
        one.add("last");
        let read = InputHistory::read(Some(file));
        assert_eq!((read.entries().len(), &*read.entries()[0]), (limits::CHAT_HISTORY_ENTRIES, "1"));
    }

    #[test]
    fn history_is_searched_from_the_newest() {
        let mut history = InputHistory::default();
        ["fix the Build", "run tests", "build docs"].iter().for_each(|entry| history.add(entry));
        assert_eq!(history.find("build", usize::MAX), Some(2));
        assert_eq!(history.find("build", 2), Some(0));
        assert_eq!(history.find("build", 0), None);
        assert_eq!(history.find("nothing", 3), None);
    }
}
