use super::question_text::{ParsedAnswerLine, prompt, understood};
use crate::approval::{AnswerError, ApprovalInbox, InboxQuestion, QuestionKind, Verdict};

/// The note about a question that nobody waits for any more.
pub const WITHDRAWN: &str = "(this question was withdrawn)";

/// The questions of a run, one after another, and the lines that answer them. It neither shows nor reads anything.
pub struct QuestionDialog {
    inbox: ApprovalInbox,
    /// The question that is open for an answer.
    asked: Option<InboxQuestion>,
    /// Set if the person chose to answer in their own words instead of an option.
    in_words: bool,
}

/// The effect of a line on the open question.
#[derive(Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The question is closed. A warning says why the answer has less effect than the person wanted.
    Taken { warning: Option<String> },
    /// The person wants to answer in their own words: another line follows.
    InWords,
    /// The line is no answer, for this reason.
    Unclear(String),
}

impl QuestionDialog {
    pub fn new(inbox: ApprovalInbox) -> Self {
        Self { inbox, asked: None, in_words: false }
    }

    /// Returns the open question.
    pub fn asked(&self) -> Option<&InboxQuestion> {
        self.asked.as_ref()
    }

    /// Returns `true` if the open question asks for a permission.
    pub fn is_permission(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| matches!(asked.question.kind, QuestionKind::Permission { .. }))
    }

    /// Returns the prompt for the next line; empty without an open question.
    pub fn prompt(&self) -> &'static str {
        self.asked.as_ref().map_or("", |asked| prompt(&asked.question.kind, self.in_words))
    }

    /// Waits for the next question. Returns `false` if there will be none. Cancel safe.
    pub async fn next(&mut self) -> bool {
        self.asked = self.inbox.next().await;
        self.in_words = false;
        self.asked.is_some()
    }

    /// Waits until nobody waits for the answer to the open question any more, and closes it. Never ready without one. Cancel
    /// safe.
    pub async fn withdrawn(&mut self) {
        match &self.asked {
            Some(asked) => self.inbox.closed(asked.id).await,
            None => std::future::pending().await,
        }
        self.asked = None;
    }

    /// Answers the open question with a line.
    pub fn answer(&mut self, line: &str) -> AnswerOutcome {
        let Some(InboxQuestion { id, question }) = &self.asked else { return AnswerOutcome::Taken { warning: None } };
        let taken = match understood(&question.kind, self.in_words, line) {
            ParsedAnswerLine::Words => {
                self.in_words = true;
                return AnswerOutcome::InWords;
            }
            ParsedAnswerLine::Unclear(why) => return AnswerOutcome::Unclear(why),
            ParsedAnswerLine::Nothing => self.inbox.decline(*id),
            ParsedAnswerLine::Answer(answer) => self.inbox.answer(*id, answer),
            ParsedAnswerLine::Verdict(verdict) => self.inbox.decide(*id, verdict),
        };
        self.close(taken)
    }

    /// Refuses the open question, if it asks for a permission.
    pub fn refuse(&mut self) -> AnswerOutcome {
        let Some(asked) = &self.asked else { return AnswerOutcome::Taken { warning: None } };
        let refused = self.inbox.decide(asked.id, Verdict::No);
        self.close(refused)
    }

    fn close(&mut self, taken: Result<(), AnswerError>) -> AnswerOutcome {
        let warning = match taken {
            Ok(()) => None,
            Err(error @ (AnswerError::NotOpen { .. } | AnswerError::NotKept(_))) => Some(error.to_string()),
            Err(error) => return AnswerOutcome::Unclear(error.to_string()),
        };
        self.asked = None;
        AnswerOutcome::Taken { warning }
    }
}
