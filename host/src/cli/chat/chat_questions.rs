//! The questions of a chat: those of agents, and its own whether to undo something.

use std::{io::Write, sync::Arc};

use tokio::time::Instant;

use super::{chat_loop::ChatLoop, running_step::RunningStep};
use crate::{
    change::UndoableChange,
    cli::{
        ask::{AnswerOutcome, QuestionDialog, WITHDRAWN, shown},
        render::{DIM, PLAIN, name, warning},
    },
    limits,
};

/// A change of the questions of agents.
pub enum QuestionTurn {
    Asked,
    Withdrawn,
    Over,
}

impl<W: Write> ChatLoop<W> {
    /// Shows a change of the questions.
    pub(super) fn show_question(&mut self, turn: &QuestionTurn) {
        match turn {
            QuestionTurn::Asked => {
                if let Some(asked) = self.dialog.as_ref().and_then(QuestionDialog::asked) {
                    let from = Arc::clone(&asked.question.from);
                    self.screen.print(&shown(asked));
                    self.notify_of_question(&from);
                    self.answers_from = Some(Instant::now() + limits::CHAT_QUESTION_PAUSE);
                }
            }
            QuestionTurn::Withdrawn => {
                self.screen.print(&format!("{DIM}{WITHDRAWN}{PLAIN}\n"));
                self.answers_from = None;
                self.state.end_question();
            }
            QuestionTurn::Over => self.dialog = None,
        }
        self.screen.change();
    }

    /// Shows the prompt of the question that was on the screen long enough to be seen.
    pub(super) fn begin_answers(&mut self) {
        self.answers_from = None;
        if let Some(dialog) = self.dialog.as_ref().filter(|dialog| dialog.asked().is_some()) {
            self.state.ask(dialog.prompt());
        } else if self.undo.is_some() {
            self.state.ask("undo these changes? [y]es; [n]o: ");
        }
        self.screen.change();
    }

    /// Asks the person to confirm that changes are undone.
    pub(super) fn ask_to_undo(&mut self, change: UndoableChange) {
        self.undo = Some(change);
        self.answers_from = Some(Instant::now() + limits::CHAT_QUESTION_PAUSE);
    }

    /// Answers the question on the screen with a line.
    pub(super) fn answer(&mut self, line: &str) {
        if let Some(change) = self.undo.take() {
            return self.answer_undo(change, line);
        }
        let Some(dialog) = &mut self.dialog else { return self.state.end_question() };
        let from = dialog.asked().map(|asked| Arc::clone(&asked.question.from));
        // "n, do this instead" refuses, and gives the agent the rest as a message.
        let instead = dialog.is_permission().then(|| refusal_with_words(line)).flatten();
        let outcome = match &instead {
            Some(_) => dialog.refuse(),
            None => dialog.answer(line),
        };
        let prompt = dialog.prompt();
        match outcome {
            AnswerOutcome::Taken { warning: what } => {
                self.screen.print_typed(if line.trim().is_empty() { "(no answer)" } else { line.trim() });
                what.iter().for_each(|what| self.screen.print(&warning(what)));
                self.state.end_question();
                if let (Some(words), Some(from), RunningStep::Message { run, .. }) = (instead, from, &self.step)
                    && run.send(&from, &words).is_err()
                {
                    self.screen.print(&warning("the agent has ended before it could read your words"));
                }
            }
            AnswerOutcome::InWords => self.state.ask(prompt),
            AnswerOutcome::Unclear(why) => {
                self.state.ask(prompt);
                self.state.set_hint(name(&why));
            }
        }
    }

    fn answer_undo(&mut self, change: UndoableChange, line: &str) {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => {
                self.state.end_question();
                match change.make() {
                    Ok(_) => self.screen.print(&format!("{DIM}undone{PLAIN}\n")),
                    Err(error) => self.screen.print(&warning(&format!("nothing was undone: {error}"))),
                }
            }
            "n" | "no" => {
                self.state.end_question();
                self.screen.print(&format!("{DIM}nothing was undone{PLAIN}\n"));
            }
            _ => {
                self.undo = Some(change);
                self.state.set_hint("type y or n".into());
            }
        }
    }
}

/// Waits for the next change of the questions. Cancel safe.
pub async fn question_turn(dialog: Option<&mut QuestionDialog>) -> QuestionTurn {
    let Some(dialog) = dialog else { return std::future::pending().await };
    if dialog.asked().is_some() {
        dialog.withdrawn().await;
        return QuestionTurn::Withdrawn;
    }
    if dialog.next().await { QuestionTurn::Asked } else { QuestionTurn::Over }
}

/// Returns the words of a line that refuses something and says what to do instead.
fn refusal_with_words(line: &str) -> Option<String> {
    let line = line.trim();
    let (word, rest) = line.split_once(|c: char| c.is_whitespace() || c == ',')?;
    let rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    (matches!(word.to_lowercase().as_str(), "n" | "no") && !rest.is_empty()).then(|| rest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_may_say_what_to_do_instead() {
        for (line, words) in [
            ("n use the other file", Some("use the other file")),
            ("No, use rg", Some("use rg")),
            ("n", None),
            ("no, ", None),
            ("y go on", None),
            ("nothing here", None),
        ] {
            assert_eq!(refusal_with_words(line).as_deref(), words, "{line}");
        }
    }
}
