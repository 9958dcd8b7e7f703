use super::{compaction::is_summary_request, rewind::words_of_person};
use crate::{
    agent::journal::JournalState,
    app::{App, Recording},
    chat::{Chat, Message, Role},
    cli::{launch::LaunchFlags, session_target},
    error::{ErrorKind, Report},
    limits,
    model::Ledger,
    session::{SessionHeader, SessionStore},
};

/// The session that a chat is in. It is open only while a message is answered, so other commands can use it in between.
pub struct ChatSession {
    /// The name of the session; `None` before the first message, and if nothing is recorded.
    pub id: Option<String>,
    /// `true` if the person has consented to a session that somebody else may have made.
    pub is_trusted: bool,
    /// The conversation so far. If nothing is recorded, it is all there is.
    pub chat: Chat,
    /// The usage of each agent so far.
    pub ledger: Ledger,
    /// `true` if the last run has no answer, so that it can go on without a further message.
    pub can_go_on: bool,
}

impl ChatSession {
    /// Returns a session that begins with the first message.
    pub fn new() -> Self {
        Self { id: None, is_trusted: false, chat: Chat::new(), ledger: Ledger::new(), can_go_on: false }
    }

    /// Reads an existing session. Returns it with its header.
    ///
    /// # Errors
    ///
    /// A [`Report`] if it cannot be read.
    pub fn existing(store: &SessionStore, id: &str, is_trusted: bool) -> Result<(Self, SessionHeader), Report> {
        let unreadable = |cause: String| {
            Report::new(ErrorKind::Usage, format!("the session `{id}` cannot be continued"))
                .cause(cause)
                .hint(format!("see what it contains with `shelly-host session show {id}`"))
        };
        let (header, past): (_, JournalState) = session_target::read(store, id).map_err(unreadable)?;
        let chat = past.chat().map_err(|error| unreadable(error.to_string()))?;
        // A run that goes on by itself would answer the request for a summary, and replace nothing.
        let asks_for_summary = chat.snapshot().last().is_some_and(|last| is_summary_request(&last.message));
        let can_go_on = (past.is_unfinished() || past.has_failed()) && !asks_for_summary;
        let ledger = past.ledger().clone();
        Ok((Self { id: Some(id.to_owned()), is_trusted, chat, ledger, can_go_on }, header))
    }

    /// Returns where the run of the next message is recorded. `title` is that of a new session.
    pub fn recording(&self, app: &App, flags: &LaunchFlags, title: &str) -> Recording {
        match &self.id {
            Some(id) => Recording::Existing { id: id.clone(), up_to_damage: false, is_trusted: self.is_trusted },
            None if !app.config.sessions.is_recording() => Recording::Off,
            None => {
                let options = flags.to_options(&app.config.root);
                Recording::New { id: None, title: title.to_owned(), follows: None, options }
            }
        }
    }

    /// Returns the last messages of the person and of the agent, the newest last.
    pub fn last_messages(&self) -> Vec<(Role, String)> {
        let snapshot = self.chat.snapshot();
        let newest = snapshot.iter().rev().filter_map(|entry| Some((entry.message.role, said(&entry.message)?)));
        let mut messages: Vec<_> = newest.take(limits::CHAT_RECALLED_MESSAGES).collect();
        messages.reverse();
        messages
    }
}

/// Returns what the person or an agent said in a message, without attached files; `None` if it says nothing to people.
pub fn said(message: &Message) -> Option<String> {
    let text = match message.role {
        Role::User => words_of_person(message)?,
        Role::Assistant => message.text_content(),
        Role::System | Role::Tool => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::marked_text;

    #[test]
    fn recalled_messages_are_without_attached_files() {
        let file = marked_text("attached_file", "is the content of the file `big.md`", "a long text");
        let session = ChatSession::new();
        for message in [
            Message::user(format!("Read @big.md.\n\n{file}")),
            Message::text(Role::Assistant, "ada", "It is long."),
            Message::note("session", "earlier"),
        ] {
            session.chat.append(message).unwrap();
        }
        let said: Vec<_> = session.last_messages().into_iter().map(|(_, text)| text).collect();
        assert_eq!(said, ["Read @big.md.", "It is long."]);
    }
}
