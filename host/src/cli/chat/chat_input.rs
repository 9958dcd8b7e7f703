use shelly_terminal::text_editor::{CursorMotion, TextEditor};

use super::{chat_key::ChatKey, completion::InputCompletion, input_history::InputHistory};
use crate::limits;

/// The message that a person types, with the history of earlier ones.
pub struct ChatInput {
    editor: TextEditor,
    history: InputHistory,
    mode: InputMode,
    /// The names that Tab has proposed.
    proposals: Vec<String>,
}

/// A text that is typed, apart from the input that is shown.
pub struct TypedText {
    editor: TextEditor,
    mode: InputMode,
}

impl TypedText {
    /// Returns a text that nothing was typed of.
    pub fn empty() -> Self {
        Self { editor: TextEditor::new(limits::CHAT_INPUT_BYTES), mode: InputMode::Typing }
    }
}

/// The origin of the text that is shown.
enum InputMode {
    /// The text is typed.
    Typing,
    /// The text is the message at this position of the history; `draft` is what was typed before.
    Browsing { at: usize, draft: String },
    /// The history is searched for `query`; `found` is the position of the newest match.
    Searching { query: TextEditor, found: Option<usize>, draft: String },
}

/// The effect of a key on the message.
#[derive(Debug, PartialEq, Eq)]
pub enum InputEffect {
    /// The key was taken.
    Taken,
    /// The message is complete.
    Submitted(String),
    /// The text would be too long, so nothing was inserted.
    TooLong,
    /// The key means nothing here.
    Unused,
}

impl ChatInput {
    pub fn new(history: InputHistory) -> Self {
        let editor = TextEditor::new(limits::CHAT_INPUT_BYTES);
        Self { editor, history, mode: InputMode::Typing, proposals: Vec::new() }
    }

    /// Returns the text and its cursor.
    pub fn editor(&self) -> &TextEditor {
        &self.editor
    }

    /// Returns the query of a search in the history, and the message that was found.
    pub fn search(&self) -> Option<(&str, Option<&str>)> {
        let InputMode::Searching { query, found, .. } = &self.mode else { return None };
        Some((query.text(), found.map(|at| &*self.history.entries()[at])))
    }

    /// Returns the names that Tab has proposed.
    pub fn proposals(&self) -> &[String] {
        &self.proposals
    }

    /// Adds a message to the history.
    pub fn remember(&mut self, message: &str) {
        self.history.add(message);
    }

    /// Replaces the text, and returns what was there.
    pub fn replace(&mut self, text: &str) -> String {
        self.stop_search();
        self.mode = InputMode::Typing;
        self.proposals.clear();
        let before = self.editor.take();
        self.editor.set(text);
        before
    }

    /// Exchanges what is typed with another text. A search in the history goes on when it comes back.
    pub fn swap(&mut self, other: &mut TypedText) {
        self.proposals.clear();
        std::mem::swap(&mut self.editor, &mut other.editor);
        std::mem::swap(&mut self.mode, &mut other.mode);
    }

    /// Removes the text. Ctrl+Y brings it back.
    pub fn clear(&mut self) {
        self.stop_search();
        self.mode = InputMode::Typing;
        self.proposals.clear();
        self.editor.clear();
    }

    /// Handles a key. `complete` returns what Tab may insert for the text before the cursor.
    pub fn press(&mut self, key: ChatKey, complete: impl FnOnce(&str) -> Option<InputCompletion>) -> InputEffect {
        self.proposals.clear();
        if matches!(self.mode, InputMode::Searching { .. }) {
            return self.press_in_search(key, complete);
        }
        match key {
            ChatKey::Text(text) => return self.insert(&text),
            ChatKey::NewLine => return self.insert("\n"),
            ChatKey::Enter if self.continues_line() => {
                self.editor.remove(CursorMotion::Left);
                return self.insert("\n");
            }
            ChatKey::Enter => {
                self.mode = InputMode::Typing;
                return InputEffect::Submitted(self.editor.take());
            }
            ChatKey::Tab => return self.complete(complete(self.editor.before_cursor())),
            ChatKey::EndOfInput if !self.editor.is_empty() => self.editor.remove(CursorMotion::Right),
            ChatKey::Move(CursorMotion::Up) if !self.editor.move_cursor(CursorMotion::Up) => self.browse_back(),
            ChatKey::Move(CursorMotion::Down) if !self.editor.move_cursor(CursorMotion::Down) => self.browse_on(),
            ChatKey::Move(CursorMotion::Up | CursorMotion::Down) => {}
            ChatKey::Move(motion) => drop(self.editor.move_cursor(motion)),
            ChatKey::Remove(motion) => self.editor.remove(motion),
            ChatKey::RestoreRemoved => self.editor.restore_removed(),
            ChatKey::SearchHistory => {
                let (query, draft) = (TextEditor::new(limits::CHAT_HISTORY_ENTRY_BYTES), self.editor.take());
                self.mode = InputMode::Searching { query, found: None, draft };
            }
            ChatKey::Escape
            | ChatKey::Interrupt
            | ChatKey::EndOfInput
            | ChatKey::ShowCalls
            | ChatKey::Prefix
            | ChatKey::Redraw
            | ChatKey::Focus(_) => return InputEffect::Unused,
        }
        InputEffect::Taken
    }

    /// Returns `true` if the backslash before the cursor asks for another line.
    fn continues_line(&self) -> bool {
        self.editor.text().ends_with('\\') && self.editor.before_cursor() == self.editor.text()
    }

    fn insert(&mut self, text: &str) -> InputEffect {
        if self.editor.insert(text) { InputEffect::Taken } else { InputEffect::TooLong }
    }

    fn complete(&mut self, completion: Option<InputCompletion>) -> InputEffect {
        let Some(completion) = completion else { return InputEffect::Taken };
        if !self.editor.replace_before_cursor(completion.replaced, &completion.inserted) {
            return InputEffect::TooLong;
        }
        self.proposals = completion.proposals;
        InputEffect::Taken
    }

    /// Shows the message before the present one of the history.
    fn browse_back(&mut self) {
        let at = match &self.mode {
            InputMode::Browsing { at, .. } => *at,
            _ => self.history.entries().len(),
        };
        let Some(at) = at.checked_sub(1) else { return };
        let draft = match std::mem::replace(&mut self.mode, InputMode::Typing) {
            InputMode::Browsing { draft, .. } => draft,
            _ => self.editor.text().to_owned(),
        };
        self.editor.set(&self.history.entries()[at]);
        self.mode = InputMode::Browsing { at, draft };
    }

    /// Shows the message after the present one of the history, and in the end what was typed.
    fn browse_on(&mut self) {
        let InputMode::Browsing { at, draft } = std::mem::replace(&mut self.mode, InputMode::Typing) else { return };
        match self.history.entries().get(at + 1) {
            Some(entry) => {
                self.editor.set(entry);
                self.mode = InputMode::Browsing { at: at + 1, draft };
            }
            None => self.editor.set(&draft),
        }
    }

    fn press_in_search(&mut self, key: ChatKey, complete: impl FnOnce(&str) -> Option<InputCompletion>) -> InputEffect {
        let InputMode::Searching { query, found, draft } = &mut self.mode else { return InputEffect::Unused };
        match key {
            ChatKey::Text(text) => {
                query.insert(&text);
                *found = self.history.find(query.text(), usize::MAX);
            }
            ChatKey::Remove(CursorMotion::Left) => {
                query.remove(CursorMotion::Left);
                *found = self.history.find(query.text(), usize::MAX).filter(|_| !query.is_empty());
            }
            ChatKey::SearchHistory => {
                let before = found.unwrap_or(usize::MAX);
                *found = self.history.find(query.text(), before).or(*found).filter(|_| !query.is_empty());
            }
            ChatKey::Escape | ChatKey::Interrupt => {
                let draft = std::mem::take(draft);
                self.mode = InputMode::Typing;
                self.editor.set(&draft);
            }
            ChatKey::Enter | ChatKey::Tab => self.stop_search(),
            // They say something of the terminal or show something above: the search goes on.
            ChatKey::Redraw | ChatKey::Focus(_) | ChatKey::ShowCalls => return InputEffect::Unused,
            other => {
                self.stop_search();
                return self.press(other, complete);
            }
        }
        InputEffect::Taken
    }

    /// Ends a search: the message that was found is the text, or else what was typed before.
    fn stop_search(&mut self) {
        if let InputMode::Searching { found, draft, .. } = &self.mode {
            let text = found.map_or(draft, |at| &self.history.entries()[at]).clone();
            self.mode = InputMode::Typing;
            self.editor.set(&text);
        }
    }
}
