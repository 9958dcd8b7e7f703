use std::{fmt, sync::Arc};

use super::{
    OpenQuestion, OpenQuestionAnswer, PermissionSubject, Question, QuestionKind, Verdict,
    broker::{BrokerShared, BrokerState, QuestionOutcome, UnansweredQuestion},
};
use crate::{error::Fault, limits};

/// A front end's end of an [`ApprovalBroker`](super::ApprovalBroker). Dropping it leaves the open questions to the headless
/// policy.
pub struct ApprovalInbox {
    pub(super) shared: Arc<BrokerShared>,
}

/// A question for a person.
#[derive(Debug, Clone)]
pub struct InboxQuestion {
    /// The id for the answer, unique in its broker.
    pub id: u64,
    /// The question, with the agent and run that asked.
    pub question: Arc<Question>,
}

/// An answer that was not accepted. Unless stated otherwise, the question is still open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum AnswerError {
    /// The id was never used, or its question was answered or withdrawn.
    #[error("question {id} is not open; it was answered, withdrawn or never asked")]
    NotOpen { id: u64 },
    /// An open question got a verdict, or a permission question an answer.
    #[error("question {id} expects {wants}")]
    WrongKind { id: u64, wants: &'static str },
    /// An unknown option was chosen.
    #[error("question {id} has no option `{label}`")]
    NoOption { id: u64, label: String },
    /// No option was chosen, or too many.
    #[error("question {id}: {chosen} options were chosen, choose 1 to {most}")]
    Selections { id: u64, chosen: usize, most: usize },
    /// The answer is empty.
    #[error("the answer to question {id} is empty")]
    Empty { id: u64 },
    /// The answer is too long.
    #[error("the answer to question {id} has {bytes} bytes, the maximum is {}", limits::ANSWER_BYTES)]
    TooLong { id: u64, bytes: usize },
    /// The maximum number of trusted subjects is reached.
    #[error("{} subjects are trusted already, which is the maximum; answer yes or no", limits::TRUSTED_SUBJECTS)]
    TrustIsFull,
    /// The subject is trusted and the question closed, but the trust could not be stored beyond this process.
    #[error("the subject is trusted until this process ends, but the decision could not be stored: {0}")]
    NotKept(Fault),
}

impl ApprovalInbox {
    /// Returns the next question, in the order in which they were asked; `None` once the broker is gone. Dropping the
    /// future loses no question.
    pub async fn next(&mut self) -> Option<InboxQuestion> {
        loop {
            let changed = self.shared.changed.notified();
            let (unseen, is_last) = self.unseen();
            if unseen.is_some() || is_last {
                return unseen;
            }
            changed.await;
        }
    }

    /// Returns a question that was not handed out yet, and `true` if the broker is gone.
    fn unseen(&self) -> (Option<InboxQuestion>, bool) {
        let mut state = self.shared.state();
        let closed = state.closed;
        let unseen = state.open.iter_mut().find(|(_, open)| !open.is_shown).map(|(id, open)| {
            open.is_shown = true;
            InboxQuestion { id: *id, question: Arc::clone(&open.question) }
        });
        (unseen, closed)
    }

    /// Returns the open questions, in the order in which they were asked, whether they were handed out or not.
    pub fn open(&self) -> Vec<InboxQuestion> {
        self.shared.state().open_questions()
    }

    /// Waits until the ids of the open questions are others than these, which are in ascending order, and returns the
    /// questions; `None` once the broker is gone. Dropping the future loses nothing.
    pub async fn other_than(&self, known: &[u64]) -> Option<Vec<InboxQuestion>> {
        loop {
            let changed = self.shared.changed.notified();
            {
                let state = self.shared.state();
                if state.closed {
                    return None;
                }
                if !state.open.keys().eq(known) {
                    return Some(state.open_questions());
                }
            }
            changed.await;
        }
    }

    /// Waits until the question is no longer open.
    pub async fn closed(&self, id: u64) {
        loop {
            let changed = self.shared.changed.notified();
            if !self.shared.state().open.contains_key(&id) {
                return;
            }
            changed.await;
        }
    }

    /// Answers an open question, for all waiting callers.
    ///
    /// # Errors
    ///
    /// An [`AnswerError`].
    pub fn answer(&self, id: u64, answer: OpenQuestionAnswer) -> Result<(), AnswerError> {
        self.close(id, |_, question| match &question.kind {
            QuestionKind::Open(open) => Ok(QuestionOutcome::Answer(checked(id, open, answer)?)),
            QuestionKind::Permission { .. } => Err(AnswerError::WrongKind { id, wants: "a yes or a no" }),
        })
    }

    /// Decides a permission question. A [`Verdict::Yes`] is for the call whose details were shown, and the others ask
    /// again; for [`GitReading`](PermissionSubject::GitReading) it is for all. A [`Verdict::Trust`] is stored before any
    /// waiting caller learns of it, so that nothing is done under a trust that the program then forgets.
    ///
    /// # Errors
    ///
    /// An [`AnswerError`].
    pub fn decide(&self, id: u64, verdict: Verdict) -> Result<(), AnswerError> {
        let kept = match verdict {
            Verdict::Trust => self.keep_trust(id)?.map_err(AnswerError::NotKept),
            Verdict::Yes | Verdict::No => Ok(()),
        };
        self.close(id, |state, question| {
            let subject = permission(id, question)?;
            if verdict == Verdict::Trust {
                state.trusted.insert(subject.clone());
            }
            Ok(QuestionOutcome::Verdict(verdict))
        })?;
        kept
    }

    /// Denies a permission like [`decide`](Self::decide). If this answer counts, `then` is called before any waiting caller
    /// learns of it. It must not use this inbox.
    ///
    /// # Errors
    ///
    /// An [`AnswerError`].
    pub fn deny_and(&self, id: u64, then: impl FnOnce(&Question)) -> Result<(), AnswerError> {
        self.close(id, |_, question| {
            permission(id, question)?;
            then(question);
            Ok(QuestionOutcome::Verdict(Verdict::No))
        })
    }

    /// Stores the trust in a question's subject. The outer error says that the subject cannot be trusted at all; the inner
    /// one that it could not be written.
    fn keep_trust(&self, id: u64) -> Result<Result<(), Fault>, AnswerError> {
        let (persistence, subject) = {
            let state = self.shared.state();
            let open = state.open.get(&id).ok_or(AnswerError::NotOpen { id })?;
            let subject = permission(id, &open.question)?;
            if !state.trusted.takes(subject) {
                return Err(AnswerError::TrustIsFull);
            }
            (state.trusted.persistence(), subject.clone())
        };
        Ok(persistence.map_or(Ok(()), |persistence| persistence.keep(&subject)))
    }

    /// Declines to answer, for all waiting callers. For a permission question this is a no.
    ///
    /// # Errors
    ///
    /// [`AnswerError::NotOpen`].
    pub fn decline(&self, id: u64) -> Result<(), AnswerError> {
        self.close(id, |_, _| Ok(QuestionOutcome::Declined))
    }

    /// Closes the question with the outcome of `give`; on an error the question stays open.
    fn close(
        &self,
        id: u64,
        give: impl FnOnce(&mut BrokerState, &Question) -> Result<QuestionOutcome, AnswerError>,
    ) -> Result<(), AnswerError> {
        let mut state = self.shared.state();
        let question = match state.open.get(&id) {
            Some(open) => Arc::clone(&open.question),
            None => return Err(AnswerError::NotOpen { id }),
        };
        let outcome = give(&mut state, &question)?;
        if let Some(UnansweredQuestion { answer, .. }) = state.open.remove(&id) {
            answer.send_replace(Some(outcome));
        }
        drop(state);
        self.shared.changed.notify_waiters();
        Ok(())
    }
}

impl Drop for ApprovalInbox {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.attended = false;
        // The waiting callers ask again and get the decision of the policy.
        state.open.clear();
    }
}

impl fmt::Debug for ApprovalInbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalInbox").finish_non_exhaustive()
    }
}

/// Returns the subject of a permission question.
fn permission(id: u64, question: &Question) -> Result<&PermissionSubject, AnswerError> {
    match &question.kind {
        QuestionKind::Permission { subject, .. } => Ok(subject),
        QuestionKind::Open(_) => Err(AnswerError::WrongKind { id, wants: "an answer, not a yes or a no" }),
    }
}

/// Checks an answer; returns the chosen labels in the order of the options.
fn checked(id: u64, question: &OpenQuestion, answer: OpenQuestionAnswer) -> Result<OpenQuestionAnswer, AnswerError> {
    match answer {
        OpenQuestionAnswer::Text(text) if text.trim().is_empty() => Err(AnswerError::Empty { id }),
        OpenQuestionAnswer::Text(text) if text.len() > limits::ANSWER_BYTES => {
            Err(AnswerError::TooLong { id, bytes: text.len() })
        }
        OpenQuestionAnswer::Text(text) => Ok(OpenQuestionAnswer::Text(text)),
        OpenQuestionAnswer::Chosen(mut labels) => {
            let labels_of = || question.options.iter().map(|option| &option.label);
            if let Some(at) = labels.iter().position(|label| !labels_of().any(|known| known == label)) {
                return Err(AnswerError::NoOption { id, label: labels.swap_remove(at) });
            }
            let chosen: Vec<_> = labels_of().filter(|label| labels.contains(label)).cloned().collect();
            let most = question.most_selections();
            if !(1..=most).contains(&chosen.len()) {
                return Err(AnswerError::Selections { id, chosen: chosen.len(), most });
            }
            Ok(OpenQuestionAnswer::Chosen(chosen))
        }
    }
}
