use super::{JournalLineContent, SessionError, SessionStore};
use shelly_core::{
    agent::journal::{JournalRecord, RecordedRunEnd},
    chat::Message,
    error::cut,
    limits,
};

impl SessionStore {
    /// Returns a summary of the tasks and answers of a session, for an agent that continues from it.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, is damaged, or the disk fails.
    pub fn recall(&self, given: &str) -> Result<String, SessionError> {
        let mut journal = self.read(given)?;
        let mut parts: Vec<String> = Vec::new();
        let mut top = std::collections::HashSet::new();
        for line in &mut journal {
            let line = line?;
            let JournalLineContent::Record(record) = line.what else { continue };
            match record {
                JournalRecord::Began { delegation_key: None, input, .. } => {
                    top.insert(line.run);
                    let tasks = input.iter().filter(|message| !message.is_note()).map(Message::text_content);
                    parts.extend(tasks.map(|task| format!("Task: {}", cut(task.trim(), limits::RECALLED_TASK_CHARS))));
                }
                JournalRecord::Ended { outcome, .. } if top.contains(&line.run) => {
                    let answer = match &outcome {
                        RecordedRunEnd::Failed { error, .. } => format!("none: {error}"),
                        ended => ended.message().map(Message::text_content).unwrap_or_default(),
                    };
                    parts.push(format!("Answer: {}", cut(answer.trim(), limits::RECALLED_ANSWER_CHARS)));
                }
                _ => {}
            }
        }
        // The newest entries matter most.
        let (mut left, mut from) = (limits::RECALLED_CHARS, parts.len());
        while let Some(more) = from.checked_sub(1).map(|at| parts[at].chars().count()).filter(|more| *more <= left) {
            (left, from) = (left - more, from - 1);
        }
        Ok(parts.split_off(from).join("\n\n"))
    }
}
