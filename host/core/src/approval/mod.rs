//! Approvals: the one place for every question that a person may have to answer.
//!
//! An agent that needs a person asks the [`ApprovalBroker`]. A front end attends the broker through an [`ApprovalInbox`];
//! without one the [`HeadlessPolicy`] decides. A person is not asked again about what they [trust](TrustedSubjects) while a
//! front end attends, nor under [`HeadlessPolicy::Granted`].
//!
//! Callers of one run that ask the same question share one question. Answers to open questions, [`Verdict::Trust`] and
//! [`Verdict::No`] hold for all waiting callers. [`Verdict::Yes`] holds for the one call whose details were shown; the
//! others ask again. A question is never dropped while a caller waits for it, and it is withdrawn when none does.

mod approval_policy;
mod broker;
mod inbox;
mod question;
#[cfg(test)]
mod tests;

pub use approval_policy::{HeadlessPolicy, TrustPersistence, TrustedSubjects};
pub use broker::{ApprovalBroker, PermissionDecision};
pub use inbox::{AnswerError, ApprovalInbox, InboxQuestion};
pub use question::{
    OpenQuestion, OpenQuestionAnswer, PermissionSubject, Question, QuestionKind, QuestionOption, Verdict,
};
