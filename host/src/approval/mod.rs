//! Who may say yes: the one place for every question that a person may have to answer.
//!
//! Whoever needs a person goes to the [`Desk`]. A front end attends it through an [`Inbox`]; without one the headless
//! [`Policy`] decides. What a person [trusts](Trusted) is not asked again while a front end attends, nor under
//! [`Policy::Granted`].
//!
//! The same question from many callers of one run is asked once. Answers to open questions, [`Verdict::Trust`] and
//! [`Verdict::No`] hold for all who wait; [`Verdict::Yes`] holds for the one call whose details were shown, and the others
//! ask again. A question is never dropped while somebody waits for it, and it is withdrawn when nobody does.

mod desk;
mod inbox;
mod question;
#[cfg(test)]
mod tests;
mod trust;

pub use desk::{Desk, Ruling};
pub use inbox::{AnswerError, Asked, Inbox};
pub use question::{Answer, Choice, OpenQuestion, Question, QuestionKind, Subject, Verdict};
pub use trust::{KeepTrust, Policy, Trusted};
