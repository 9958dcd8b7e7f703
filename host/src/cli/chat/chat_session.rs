use crate::{
    agent::journal::JournalState,
    app::{App, Recording},
    chat::{Chat, Role},
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
        let can_go_on = past.is_unfinished() || past.has_failed();
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
        let said = snapshot.iter().rev().filter_map(|entry| {
            let message = &entry.message;
            let is_said = matches!(message.role, Role::User | Role::Assistant) && !message.is_note();
            let text = message.text_content();
            (is_said && !text.trim().is_empty()).then_some((message.role, text))
        });
        let mut messages: Vec<_> = said.take(limits::CHAT_RECALLED_MESSAGES).collect();
        messages.reverse();
        messages
    }
}
