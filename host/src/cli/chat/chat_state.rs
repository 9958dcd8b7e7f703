//! The state of a chat as far as keys change it. It knows no terminal and no agent.

use std::collections::VecDeque;

use shelly_terminal::text_editor::CursorMotion;

use super::{
    chat_input::{ChatInput, InputEffect},
    chat_key::ChatKey,
    completion::InputCompletion,
    slash_command::is_immediate,
};
use crate::limits;

/// The person's side of a chat: what is typed, what waits, and what is asked.
pub struct ChatState {
    input: ChatInput,
    /// Messages that were sent while the agent worked, the oldest first.
    queue: VecDeque<String>,
    is_working: bool,
    question: Option<OpenPrompt>,
    /// A word to the person below the input; the next key removes it.
    hint: Option<String>,
    /// Set if the next interruption leaves the chat.
    is_leaving: bool,
    /// Set after the first key of a pair.
    is_prefixed: bool,
}

/// A question that the next line answers.
struct OpenPrompt {
    text: String,
    /// The message that was typed when the question came.
    draft: String,
}

/// A key's effect beyond the state.
#[derive(Debug, PartialEq, Eq)]
pub enum ChatAction {
    /// Sends a message, or executes a command.
    Send(String),
    /// Executes a command beside the running step.
    Execute(String),
    /// Answers the question.
    Answer(String),
    /// Shows the tool calls of the last answer in full, and with each further press those of the answer before.
    ShowCalls,
    /// Opens the text in the person's editor.
    EditText,
    /// Interrupts the running step.
    Interrupt,
    Quit,
    /// Draws the screen anew.
    Redraw,
}

impl ChatState {
    pub fn new(input: ChatInput) -> Self {
        Self {
            input,
            queue: VecDeque::new(),
            is_working: false,
            question: None,
            hint: None,
            is_leaving: false,
            is_prefixed: false,
        }
    }

    pub fn input(&self) -> &ChatInput {
        &self.input
    }

    pub fn queue(&self) -> &VecDeque<String> {
        &self.queue
    }

    /// Returns the prompt of the open question.
    pub fn prompt(&self) -> Option<&str> {
        self.question.as_ref().map(|question| &*question.text)
    }

    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub fn is_working(&self) -> bool {
        self.is_working
    }

    /// Handles a key. `complete` returns what Tab may insert for the text before the cursor.
    pub fn press(
        &mut self,
        key: ChatKey,
        complete: impl FnOnce(&str) -> Option<InputCompletion>,
    ) -> Option<ChatAction> {
        self.hint = None;
        let was_leaving = std::mem::take(&mut self.is_leaving);
        // A change of the terminal is no second key.
        let was_prefixed = key != ChatKey::Redraw && std::mem::take(&mut self.is_prefixed);
        if self.question.is_some() && self.is_meaningless_for_an_answer(&key) {
            return None;
        }
        if was_prefixed && key == ChatKey::Move(CursorMotion::LineEnd) {
            return Some(ChatAction::EditText);
        }
        let key_pressed = key.clone();
        match self.input.press(key, complete) {
            InputEffect::Taken => None,
            InputEffect::TooLong => {
                self.hint =
                    Some(format!("a message has at most {} bytes; attach a file with @path", limits::CHAT_INPUT_BYTES));
                None
            }
            InputEffect::Submitted(text) => self.submit(text),
            InputEffect::Unused => match key_pressed {
                ChatKey::Redraw => Some(ChatAction::Redraw),
                ChatKey::ShowCalls => Some(ChatAction::ShowCalls),
                ChatKey::Prefix => {
                    self.is_prefixed = true;
                    self.hint = Some("Ctrl+E opens the text in your editor".into());
                    None
                }
                ChatKey::EndOfInput => self.leave(),
                ChatKey::Focus(_) => None,
                _ => self.interrupt(was_leaving),
            },
        }
    }

    /// Returns `true` for keys of the history and of completion: an answer is neither in the one nor in the other.
    fn is_meaningless_for_an_answer(&self, key: &ChatKey) -> bool {
        use CursorMotion::{Down, Up};
        matches!(key, ChatKey::Tab | ChatKey::SearchHistory | ChatKey::Prefix | ChatKey::Move(Up | Down))
    }

    fn submit(&mut self, text: String) -> Option<ChatAction> {
        if self.question.is_some() {
            return Some(ChatAction::Answer(text));
        }
        if text.trim().is_empty() {
            return (!self.is_working).then_some(ChatAction::Send(String::new()));
        }
        self.input.remember(&text);
        if !self.is_working {
            return Some(ChatAction::Send(text));
        }
        if is_immediate(&text) {
            return Some(ChatAction::Execute(text));
        }
        if self.queue.len() >= limits::CHAT_QUEUE {
            self.hint = Some(format!("at most {} messages can wait", limits::CHAT_QUEUE));
            self.input.replace(&text);
            return None;
        }
        self.queue.push_back(text);
        None
    }

    fn leave(&mut self) -> Option<ChatAction> {
        match self.is_working {
            false => Some(ChatAction::Quit),
            true => {
                self.hint = Some("the agent works: Esc interrupts it, /quit leaves".into());
                None
            }
        }
    }

    fn interrupt(&mut self, was_leaving: bool) -> Option<ChatAction> {
        if self.is_working || self.question.is_some() {
            return Some(ChatAction::Interrupt);
        }
        if !self.input.editor().is_empty() {
            self.input.clear();
            self.hint = Some("Ctrl+Y brings the text back".into());
            return None;
        }
        if was_leaving {
            return Some(ChatAction::Quit);
        }
        self.is_leaving = true;
        self.hint = Some("press again to leave".into());
        None
    }

    /// Notes that the agent works from now on.
    pub fn begin_work(&mut self) {
        self.is_working = true;
    }

    /// Notes that the agent has ended. Returns the next message that waits.
    pub fn end_work(&mut self) -> Option<String> {
        self.is_working = false;
        self.queue.pop_front()
    }

    /// Moves the messages that wait back into the input, before what is typed: after an interruption the person decides anew.
    pub fn take_back_queue(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let typed = self.input.replace("");
        let waiting: Vec<_> = self.queue.drain(..).chain(Some(typed).filter(|typed| !typed.is_empty())).collect();
        self.input.replace(&waiting.join("\n"));
    }

    /// Puts a question: the next line is its answer. What is typed comes back afterwards.
    pub fn ask(&mut self, prompt: &str) {
        let text = prompt.trim_end().to_owned();
        match &mut self.question {
            Some(question) => question.text = text,
            None => {
                let draft = self.input.replace("");
                self.question = Some(OpenPrompt { text, draft });
            }
        }
    }

    /// Removes the question.
    pub fn end_question(&mut self) {
        if let Some(question) = self.question.take() {
            self.input.replace(&question.draft);
        }
    }

    /// Shows a word below the input until the next key.
    pub fn set_hint(&mut self, hint: String) {
        self.hint = Some(hint);
    }

    /// Replaces the text of the input.
    pub fn replace_text(&mut self, text: &str) {
        self.input.replace(text);
    }

    /// Puts a text back into the input, unless something else was typed.
    pub fn restore(&mut self, text: &str) {
        if self.input.editor().is_empty() {
            self.input.replace(text);
        }
    }
}
