use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::time::{Instant, sleep_until};

use super::RunHostError;
use crate::approval::{AnswerError, ApprovalInbox, InboxQuestion, OpenQuestionAnswer, Question, QuestionKind, Verdict};

/// A question of a hosted run that waits for a person.
#[derive(Debug, Clone)]
pub struct HostedQuestion {
    /// The id for the answer.
    pub id: u64,
    /// The question, with the agent and the run that asked.
    pub question: Arc<Question>,
    /// The time at which it was asked.
    pub asked: SystemTime,
    /// The time at which it is declined.
    pub expires: SystemTime,
}

/// A person's reply to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuestionReply {
    /// The decision on a permission. After a no, the agent can be told what to do instead.
    Verdict(Verdict, Option<String>),
    /// The answer to an open question.
    Answer(OpenQuestionAnswer),
    /// No answer; for a permission this is a no.
    Decline,
}

/// The questions of all hosted runs.
pub(super) struct RunQuestions {
    /// `None` if a policy answers all questions.
    inbox: Option<ApprovalInbox>,
    /// The time at which each open question was first seen.
    asked: Mutex<BTreeMap<u64, (SystemTime, Instant)>>,
    /// The time that a question waits.
    time: Duration,
}

/// The times at which questions were first seen, by id, while they are locked.
type AskedTimes<'a> = MutexGuard<'a, BTreeMap<u64, (SystemTime, Instant)>>;

impl RunQuestions {
    pub fn new(inbox: Option<ApprovalInbox>, time: Duration) -> Self {
        Self { inbox, asked: Mutex::default(), time }
    }

    /// Returns the open questions, in the order in which they were asked.
    pub fn open(&self) -> Vec<HostedQuestion> {
        let Some(inbox) = &self.inbox else { return Vec::new() };
        let (open, asked) = self.look(inbox);
        let hosted = |InboxQuestion { id, question }: InboxQuestion| {
            let (asked, _) = *asked.get(&id)?;
            Some(HostedQuestion { id, question, asked, expires: asked + self.time })
        };
        open.into_iter().filter_map(hosted).collect()
    }

    /// Answers a question. The words for an agent whose permission is denied are given to `say`, if this answer counts:
    /// before the agent learns of it, and may begin its next turn.
    ///
    /// # Errors
    ///
    /// A [`RunHostError`] if it is not open, or expects another answer.
    pub fn answer(
        &self,
        id: u64,
        reply: &QuestionReply,
        say: impl FnOnce(&Question, &str),
    ) -> Result<(), RunHostError> {
        let inbox = self.inbox.as_ref().ok_or(RunHostError::NobodyAsked)?;
        let open = inbox.open().into_iter().find(|open| open.id == id);
        let InboxQuestion { question, .. } = open.ok_or(AnswerError::NotOpen { id })?;
        let is_permission = matches!(question.kind, QuestionKind::Permission { .. });
        match reply {
            QuestionReply::Verdict(Verdict::No, Some(words)) => inbox.deny_and(id, |question| say(question, words))?,
            QuestionReply::Verdict(verdict, _) => inbox.decide(id, *verdict)?,
            QuestionReply::Answer(answer) => inbox.answer(id, answer.clone())?,
            QuestionReply::Decline if is_permission => inbox.decide(id, Verdict::No)?,
            QuestionReply::Decline => inbox.decline(id)?,
        }
        Ok(())
    }

    /// Declines each question that nobody answers in time, until no agent can ask any more.
    pub async fn decline_late(&self) {
        let Some(inbox) = &self.inbox else { return };
        let mut known = Vec::new();
        loop {
            let first = self.asked().values().map(|(_, since)| *since + self.time).min();
            let late = async {
                match first {
                    Some(deadline) => sleep_until(deadline).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                open = inbox.other_than(&known) => {
                    if open.is_none() {
                        return;
                    }
                    known = self.look(inbox).0.iter().map(|open| open.id).collect();
                }
                () = late => {
                    let now = Instant::now();
                    let is_late = |since: &Instant| *since + self.time <= now;
                    let late: Vec<_> =
                        self.asked().iter().filter(|(_, (_, since))| is_late(since)).map(|(id, _)| *id).collect();
                    for id in late {
                        // It may have been answered just now.
                        let _ = inbox.decline(id);
                        self.asked().remove(&id);
                    }
                }
            }
        }
    }

    /// Returns the open questions, and the time at which each was first seen. Forgets the times of all others.
    fn look(&self, inbox: &ApprovalInbox) -> (Vec<InboxQuestion>, AskedTimes<'_>) {
        // The lock comes first: a list that is older than the times would take away that of a newer question, which would
        // then wait for ever.
        let mut asked = self.asked();
        let open = inbox.open();
        asked.retain(|id, _| open.iter().any(|open| open.id == *id));
        for InboxQuestion { id, .. } in &open {
            asked.entry(*id).or_insert_with(|| (SystemTime::now(), Instant::now()));
        }
        (open, asked)
    }

    fn asked(&self) -> AskedTimes<'_> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, pin::pin};

    use futures_util::poll;

    use super::*;
    use crate::{
        approval::{ApprovalBroker, HeadlessPolicy, OpenQuestion, PermissionSubject, TrustedSubjects},
        event::RunCx,
        limits,
    };

    fn program(name: &str) -> PermissionSubject {
        PermissionSubject::Program { name: name.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_question_is_declined_in_time() {
        let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
        let questions = RunQuestions::new(broker.attend(), limits::SERVE_QUESTION_TIME);
        let cx = RunCx::new("ada");
        let before = Instant::now();
        let asked = async {
            let first = broker.permit(&cx, program("git"), "git push");
            let second = async {
                tokio::time::sleep(limits::SERVE_QUESTION_TIME / 2).await;
                let second = broker.permit(&cx, program("make"), "make").await;
                (second.unwrap().verdict, before.elapsed())
            };
            let first = async { (first.await.unwrap().verdict, before.elapsed()) };
            tokio::join!(first, second)
        };
        let ((first, first_time), (second, second_time)) = tokio::select! {
            () = questions.decline_late() => panic!("agents can still ask"),
            verdicts = asked => verdicts,
        };
        assert_eq!((first, second), (Verdict::No, Verdict::No));
        assert!(first_time >= limits::SERVE_QUESTION_TIME && first_time < limits::SERVE_QUESTION_TIME * 3 / 2);
        assert!(second_time >= limits::SERVE_QUESTION_TIME * 3 / 2);
        assert!(questions.open().is_empty());
    }

    #[tokio::test]
    async fn question_takes_one_fitting_answer() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let questions = RunQuestions::new(broker.attend(), limits::SERVE_QUESTION_TIME);
        let cx = RunCx::new("ada").with_run("r");
        let text = OpenQuestion { text: "why?".into(), ..OpenQuestion::default() };
        let (mut open, mut permission) = (pin!(broker.ask(&cx, text)), pin!(broker.permit(&cx, program("git"), "git")));
        assert!(poll!(open.as_mut()).is_pending() && poll!(permission.as_mut()).is_pending());
        let [first, second] = questions.open().try_into().unwrap();
        assert_eq!((first.id, &*first.question.run, second.id), (1, "r", 2));
        assert_eq!(first.expires, first.asked + limits::SERVE_QUESTION_TIME);
        let answer = QuestionReply::Answer(OpenQuestionAnswer::Text("so".into()));
        let yes = QuestionReply::Verdict(Verdict::Yes, None);
        for (id, wrong) in [(1, &yes), (2, &answer), (3, &yes)] {
            assert!(matches!(questions.answer(id, wrong, |_, _| {}), Err(RunHostError::Answer(_))), "{id}");
        }
        questions.answer(1, &answer, |_, _| {}).unwrap();
        questions.answer(2, &QuestionReply::Decline, |_, _| {}).unwrap();
        assert_eq!(open.await, Ok(Some(OpenQuestionAnswer::Text("so".into()))));
        assert_eq!(permission.await.unwrap().verdict, Verdict::No);
        let again = questions.answer(1, &answer, |_, _| {});
        assert!(matches!(again, Err(RunHostError::Answer(AnswerError::NotOpen { id: 1 }))));
        let nobody = RunQuestions::new(None, limits::SERVE_QUESTION_TIME);
        let asked = nobody.answer(1, &answer, |_, _| {});
        assert!(matches!(asked, Err(RunHostError::NobodyAsked)) && nobody.open().is_empty());
    }

    #[tokio::test]
    async fn words_are_said_only_with_the_answer_that_counts() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let questions = RunQuestions::new(broker.attend(), limits::SERVE_QUESTION_TIME);
        let cx = RunCx::new("ada").with_run("r");
        let text = OpenQuestion { text: "why?".into(), ..OpenQuestion::default() };
        let (mut open, mut permission) = (pin!(broker.ask(&cx, text)), pin!(broker.permit(&cx, program("git"), "git")));
        assert!(poll!(open.as_mut()).is_pending() && poll!(permission.as_mut()).is_pending());
        let said = RefCell::new(Vec::new());
        let say = |question: &Question, words: &str| said.borrow_mut().push(format!("{}: {words}", question.from));
        let no = |words: &str| QuestionReply::Verdict(Verdict::No, Some(words.to_owned()));
        assert!(questions.answer(1, &no("none"), say).is_err(), "it is an open question");
        assert!(questions.answer(3, &no("none"), say).is_err(), "it was never asked");
        questions.answer(2, &no("look first"), say).unwrap();
        assert!(questions.answer(2, &no("too late"), say).is_err(), "it was answered");
        assert_eq!(*said.borrow(), ["ada: look first"]);
        assert_eq!(permission.await.unwrap().verdict, Verdict::No);
    }
}
