//! The state of a chat as far as keys change it. It knows no terminal and no agent.

use std::collections::VecDeque;

use shelly_terminal::text_editor::CursorMotion;

use super::{
    chat_input::{ChatInput, InputEffect, TypedText},
    chat_key::ChatKey,
    completion::InputCompletion,
    slash_command::is_immediate,
};
use crate::{error::count, limits};

/// The person's side of a chat: what is typed, what waits, and what is asked.
pub struct ChatState {
    input: ChatInput,
    /// Messages that were sent while the agent worked, the oldest first.
    queue: VecDeque<String>,
    /// Set while the queue waits for the person, who decides anew after an interruption.
    is_queue_held: bool,
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
    draft: TypedText,
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
            is_queue_held: false,
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
        self.is_queue_held = false;
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

    /// Notes that the agent has ended. Returns the next message that waits, unless the person is to decide about it.
    pub fn end_work(&mut self) -> Option<String> {
        self.is_working = false;
        if self.is_queue_held { None } else { self.queue.pop_front() }
    }

    /// Moves a message that was sent and the messages that wait back into the input, before what is typed: after an interruption
    /// the person decides anew. `first` may be empty. Messages that are too long together stay where they are.
    pub fn take_back_queue(&mut self, first: &str) {
        let waiting = std::mem::take(&mut self.queue);
        self.put_back(unless_blank(first).into_iter().chain(waiting).collect());
    }

    /// Puts a message that was not sent back into the input, before what is typed.
    pub fn restore(&mut self, text: &str) {
        self.put_back(unless_blank(text).into_iter().collect());
    }

    /// Puts messages before what is typed, as far as there is room, and the others at the head of the queue.
    fn put_back(&mut self, mut messages: VecDeque<String>) {
        if messages.is_empty() {
            return;
        }
        let mut typed = String::new();
        self.change_message(|input| typed = input.replace(""));
        let mut text = String::new();
        while let Some(next) = messages.front() {
            let breaks = usize::from(!text.is_empty()) + usize::from(!typed.is_empty());
            if text.len() + next.len() + typed.len() + breaks > limits::CHAT_INPUT_BYTES {
                break;
            }
            add_line(&mut text, next);
            messages.pop_front();
        }
        add_line(&mut text, &typed);
        self.change_message(|input| drop(input.replace(&text)));
        if !messages.is_empty() {
            self.is_queue_held = true;
            let left = count(messages.len() as u64, "message still waits", "messages still wait");
            self.hint = Some(format!("{left}: with the others it is too long for one message"));
            messages.append(&mut self.queue);
            self.queue = messages;
        }
    }

    /// Changes the message that is typed, also while an answer is typed in its place.
    fn change_message(&mut self, change: impl FnOnce(&mut ChatInput)) {
        let Self { input, question, .. } = self;
        match question {
            Some(OpenPrompt { draft, .. }) => {
                input.swap(draft);
                change(input);
                input.swap(draft);
            }
            None => change(input),
        }
    }

    /// Puts a question: the next line is its answer. What is typed comes back afterwards.
    pub fn ask(&mut self, prompt: &str) {
        let text = prompt.trim_end().to_owned();
        match &mut self.question {
            Some(question) => question.text = text,
            None => {
                let mut draft = TypedText::empty();
                self.input.swap(&mut draft);
                self.question = Some(OpenPrompt { text, draft });
                // The second key of a pair would now belong to the answer.
                if std::mem::take(&mut self.is_prefixed) {
                    self.hint = None;
                }
            }
        }
    }

    /// Removes the question.
    pub fn end_question(&mut self) {
        if let Some(mut question) = self.question.take() {
            self.input.swap(&mut question.draft);
        }
    }

    /// Shows a word below the input until the next key.
    pub fn set_hint(&mut self, hint: String) {
        self.hint = Some(hint);
    }

    /// Replaces the message that is typed, also while an answer is typed in its place.
    pub fn replace_text(&mut self, text: &str) {
        self.change_message(|input| drop(input.replace(text)));
    }
}

/// Returns a message, if it has any text.
fn unless_blank(message: &str) -> Option<String> {
    (!message.trim().is_empty()).then(|| message.to_owned())
}

/// Adds a message on a line of its own, if it has any text.
fn add_line(text: &mut String, message: &str) {
    if !text.is_empty() && !message.is_empty() {
        text.push('\n');
    }
    text.push_str(message);
}
