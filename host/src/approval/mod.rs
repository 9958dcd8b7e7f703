//! Who may say yes: the one place for every question that a person may have to answer.
//!
//! Whoever needs a person goes to the [`ApprovalBroker`]. A front end attends it through an [`ApprovalInbox`]; without one the headless
//! [`HeadlessPolicy`] decides. What a person [trusts](TrustedSubjects) is not asked again while a front end attends, nor under
//! [`HeadlessPolicy::Granted`].
//!
//! The same question from many callers of one run is asked once. Answers to open questions, [`Verdict::Trust`] and
//! [`Verdict::No`] hold for all who wait; [`Verdict::Yes`] holds for the one call whose details were shown, and the others
//! ask again. A question is never dropped while somebody waits for it, and it is withdrawn when nobody does.

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
