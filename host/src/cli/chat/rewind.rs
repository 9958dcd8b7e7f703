use super::compaction::is_summary_request;
use crate::{
    agent::journal::JournalRecord,
    chat::{Message, Part, Role},
    error::Report,
    session::{JournalLineContent, SessionStore},
    task::without_marked_texts,
};

/// A message of the person in a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    pub text: String,
    /// The last line of the journal before the run that the message began; `None` if the session began with it.
    pub line_before: Option<u64>,
}

/// Returns the messages with which a person began runs of a session, the oldest first.
///
/// # Errors
///
/// A [`Report`] if the session cannot be read.
pub fn sent_messages(store: &SessionStore, id: &str) -> Result<Vec<SentMessage>, Report> {
    let journal = store.read(id).map_err(|error| error.report())?;
    let (mut sent, mut has_begun) = (Vec::new(), false);
    for line in journal {
        let line = line.map_err(|error| error.report())?;
        let JournalLineContent::Record(JournalRecord::Began { delegation_key: None, input, .. }) = &line.what else {
            continue;
        };
        if let Some(text) = said_by_person(input) {
            sent.push(SentMessage { text, line_before: has_begun.then(|| line.n - 1) });
        }
        has_begun = true;
    }
    Ok(sent)
}

/// Returns what the person said in the input of a run, without attached files; `None` if the input has nothing of a person.
fn said_by_person(input: &[Message]) -> Option<String> {
    words_of_person(input.iter().rfind(|message| message.role == Role::User && !message.is_note())?)
}

/// Returns what the person said in a message, without attached files and outputs of commands; `None` if it is not a person's, or
/// asks for a summary.
pub fn words_of_person(message: &Message) -> Option<String> {
    if message.role != Role::User || message.is_note() || is_summary_request(message) {
        return None;
    }
    let text = message.parts.iter().find_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    })?;
    Some(without_marked_texts(text).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cli::chat::compaction::summary_request, task::marked_text};

    #[test]
    fn sent_text_is_without_notes_and_attached_files() {
        let note = Message::note("session", "earlier");
        let typed = |text: &str| said_by_person(&[note.clone(), Message::user(text)]);
        assert_eq!(typed("Read it.").as_deref(), Some("Read it."));
        let attached = marked_text("attached_file", "is the content of the file `a`", "1");
        assert_eq!(typed(&format!("Read @a.\n\n{attached}")).as_deref(), Some("Read @a."));
        assert_eq!(typed(&summary_request("in short")), None);
        assert_eq!(said_by_person(&[note]), None);
        assert_eq!(said_by_person(&[]), None);
    }
}
