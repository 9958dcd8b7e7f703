use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time,
};

use super::{
    ApprovalInbox, HeadlessPolicy, InboxQuestion, OpenQuestion, OpenQuestionAnswer, PermissionSubject, Question,
    QuestionKind, TrustedSubjects, Verdict, question::shown_detail,
};
use crate::{
    error::Fault,
    event::{AnsweredBy, Event, FileDifference, QuestionDecision, RunCx},
    limits,
};

/// Puts the questions of agents to a person. Clones share one broker.
#[derive(Clone)]
pub struct ApprovalBroker(Arc<BrokerCloseGuard>);

/// The decision on a permission, and its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionDecision {
    /// The verdict.
    pub verdict: Verdict,
    /// The origin of the verdict: person, trust or policy.
    pub by: AnsweredBy,
}

impl ApprovalBroker {
    /// Returns a broker that no front end attends yet.
    pub fn new(policy: HeadlessPolicy, trusted: TrustedSubjects) -> Self {
        let state = BrokerState { attended: false, closed: false, last_id: 0, open: BTreeMap::new(), trusted };
        Self(Arc::new(BrokerCloseGuard(Arc::new(BrokerShared {
            policy,
            permits: Arc::new(Semaphore::new(limits::OPEN_QUESTIONS)),
            changed: Notify::new(),
            state: Mutex::new(state),
        }))))
    }

    /// Replaces the trusted subjects.
    pub fn trust(&self, trusted: TrustedSubjects) {
        self.0.0.state().trusted = trusted;
    }

    /// Attaches a front end: from now on a person is asked. Returns `None` if another front end attends.
    pub fn attend(&self) -> Option<ApprovalInbox> {
        let shared = &self.0.0;
        let mut state = shared.state();
        if state.attended {
            return None;
        }
        state.attended = true;
        Some(ApprovalInbox { shared: Arc::clone(shared) })
    }

    /// Returns `true` if a front end attends.
    pub fn is_attended(&self) -> bool {
        self.0.0.state().attended
    }

    /// Returns `true` if the subject is trusted.
    pub fn trusts(&self, subject: &PermissionSubject) -> bool {
        self.0.0.state().trusted.contains(subject)
    }

    /// Returns the trusted subjects, sorted by their description.
    pub fn trusted(&self) -> Vec<PermissionSubject> {
        let mut subjects: Vec<_> = self.0.0.state().trusted.iter().cloned().collect();
        subjects.sort_by_cached_key(ToString::to_string);
        subjects
    }

    /// Asks a person. Returns `None` if no front end attends. Dropping the future withdraws the question.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] and [`Fault::TooLarge`] for a question that cannot be asked, [`Fault::Denied`] if the person
    /// declines to answer, [`Fault::Timeout`] after [`limits::QUESTION_TIME`].
    pub async fn ask(&self, cx: &RunCx, question: OpenQuestion) -> Result<Option<OpenQuestionAnswer>, Fault> {
        question.check()?;
        match self.put(cx, QuestionKind::Open(question), &Arc::default()).await?.0 {
            QuestionOutcome::Answer(answer) => Ok(Some(answer)),
            QuestionOutcome::Nobody => Ok(None),
            QuestionOutcome::Declined => {
                let message =
                    "the person declined to answer; decide by yourself, or say what information is missing".into();
                Err(Fault::Denied { message })
            }
            QuestionOutcome::Verdict(_) => unreachable!("the inbox takes no verdict for an open question"),
        }
    }

    /// Asks for a permission; `detail` is what exactly would be done this time. Dropping the future withdraws the question.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] for a subject that cannot be shown, [`Fault::Timeout`] after [`limits::QUESTION_TIME`].
    pub async fn permit(
        &self,
        cx: &RunCx,
        subject: PermissionSubject,
        detail: &str,
    ) -> Result<PermissionDecision, Fault> {
        self.permit_changes(cx, subject, detail, &Arc::default()).await
    }

    /// Asks for a permission like [`Self::permit`]. A front end that compares texts shows `changes`, the file changes that
    /// `detail` describes.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::permit`].
    pub async fn permit_changes(
        &self,
        cx: &RunCx,
        subject: PermissionSubject,
        detail: &str,
        changes: &Arc<[FileDifference]>,
    ) -> Result<PermissionDecision, Fault> {
        subject.check()?;
        let detail = shown_detail(&subject, detail);
        let (outcome, by) = self.put(cx, QuestionKind::Permission { subject, detail }, changes).await?;
        let verdict = match outcome {
            QuestionOutcome::Verdict(verdict) => verdict,
            QuestionOutcome::Declined => Verdict::No,
            QuestionOutcome::Answer(_) | QuestionOutcome::Nobody => {
                unreachable!("the inbox takes only verdicts for a permission")
            }
        };
        Ok(PermissionDecision { verdict, by })
    }

    async fn put(
        &self,
        cx: &RunCx,
        kind: QuestionKind,
        changes: &Arc<[FileDifference]>,
    ) -> Result<(QuestionOutcome, AnsweredBy), Fault> {
        time::timeout(limits::QUESTION_TIME, self.put_for_ever(cx, &kind, changes)).await.map_err(|_| Fault::Timeout {
            message: format!("no answer within {} hours", limits::QUESTION_TIME.as_secs() / 3_600),
        })
    }

    async fn put_for_ever(
        &self,
        cx: &RunCx,
        kind: &QuestionKind,
        changes: &Arc<[FileDifference]>,
    ) -> (QuestionOutcome, AnsweredBy) {
        let shared = &self.0.0;
        let (agent, question) = (&cx.agent, kind.summary());
        let asked = async |id| {
            let (agent, question) = (Arc::clone(agent), question.clone());
            cx.events.emit(Event::QuestionAsked { agent, id, question }).await;
        };
        let mut permit = None;
        let (id, outcome, by) = loop {
            match shared.step(cx, (kind, changes), permit.take()) {
                QuestionStep::NeedsPermit => {
                    let free = Arc::clone(&shared.permits).acquire_owned().await;
                    permit = Some(free.expect("the semaphore is never closed"));
                }
                QuestionStep::Ruled { id, outcome, by } => {
                    asked(id).await;
                    break (id, outcome, by);
                }
                QuestionStep::Waits(mut waiter) => {
                    asked(waiter.id).await;
                    if let Some(outcome) = waiter.outcome().await {
                        break (waiter.id, outcome, AnsweredBy::Person);
                    }
                }
            }
        };
        let (agent, decision) = (Arc::clone(agent), outcome.decision());
        cx.events.emit(Event::QuestionAnswered { agent, id, question, outcome: decision, by }).await;
        (outcome, by)
    }
}

impl fmt::Debug for ApprovalBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalBroker").field("policy", &self.0.0.policy).finish_non_exhaustive()
    }
}

/// Owned by all clones of a broker together; its drop closes the inbox.
struct BrokerCloseGuard(Arc<BrokerShared>);

impl Drop for BrokerCloseGuard {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_waiters();
    }
}

/// State shared by the broker and its inbox.
pub(super) struct BrokerShared {
    policy: HeadlessPolicy,
    /// One permit for each question that may be open.
    permits: Arc<Semaphore>,
    /// Notified when a question is opened or closed.
    pub(super) changed: Notify,
    state: Mutex<BrokerState>,
}

pub(super) struct BrokerState {
    pub(super) attended: bool,
    /// `true` once all clones of the broker are dropped.
    pub(super) closed: bool,
    last_id: u64,
    /// The open questions, in the order in which they were asked.
    pub(super) open: BTreeMap<u64, UnansweredQuestion>,
    pub(super) trusted: TrustedSubjects,
}

/// A question that a person has not answered yet. Waiting callers hold the receivers of `answer`; if the question is
/// dropped, they ask again.
pub(super) struct UnansweredQuestion {
    pub(super) question: Arc<Question>,
    /// `true` if the front end has it.
    pub(super) is_shown: bool,
    pub(super) answer: watch::Sender<Option<QuestionOutcome>>,
    _permit: OwnedSemaphorePermit,
}

/// The outcome of a question.
#[derive(Debug, Clone)]
pub(super) enum QuestionOutcome {
    Answer(OpenQuestionAnswer),
    Verdict(Verdict),
    Declined,
    Nobody,
}

impl QuestionOutcome {
    /// Returns the outcome as events tell it.
    fn decision(&self) -> QuestionDecision {
        match self {
            Self::Answer(_) => QuestionDecision::Answered,
            Self::Verdict(Verdict::Yes) => QuestionDecision::Yes,
            Self::Verdict(Verdict::Trust) => QuestionDecision::Trust,
            Self::Verdict(Verdict::No) => QuestionDecision::No,
            Self::Declined => QuestionDecision::Declined,
            Self::Nobody => QuestionDecision::Nobody,
        }
    }
}

/// The next step for a question.
enum QuestionStep {
    /// A rule decides; no person is needed.
    Ruled {
        id: u64,
        outcome: QuestionOutcome,
        by: AnsweredBy,
    },
    Waits(AnswerWaiter),
    /// The maximum of open questions is reached: a permit must be awaited.
    NeedsPermit,
}

impl BrokerShared {
    pub(super) fn state(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a rule, joins the same question, or opens a new one with this permit.
    fn step(
        self: &Arc<Self>,
        cx: &RunCx,
        (kind, changes): (&QuestionKind, &Arc<[FileDifference]>),
        permit: Option<OwnedSemaphorePermit>,
    ) -> QuestionStep {
        let mut state = self.state();
        if let Some((outcome, by)) = state.rule(self.policy, kind) {
            return QuestionStep::Ruled { id: state.next_id(), outcome, by };
        }
        // Another run may belong to another person.
        let is_same = |open: &UnansweredQuestion| open.question.run == cx.run && open.question.kind.is_same(kind);
        if let Some((id, open)) = state.open.iter().find(|(_, open)| is_same(open)) {
            let answer = open.answer.subscribe();
            let part = if kind.is_for_all() { WaiterRole::Any } else { WaiterRole::Further };
            return QuestionStep::Waits(AnswerWaiter { id: *id, part, answer: Some(answer), shared: Arc::clone(self) });
        }
        let Some(permit) = permit.or_else(|| Arc::clone(&self.permits).try_acquire_owned().ok()) else {
            return QuestionStep::NeedsPermit;
        };
        let id = state.next_id();
        let (from, run) = (Arc::clone(&cx.agent), Arc::clone(&cx.run));
        let question = Question { kind: kind.clone(), from, run, changes: Arc::clone(changes) };
        let (sender, answer) = watch::channel(None);
        let open =
            UnansweredQuestion { question: Arc::new(question), is_shown: false, answer: sender, _permit: permit };
        state.open.insert(id, open);
        drop(state);
        self.changed.notify_waiters();
        let part = if kind.is_for_all() { WaiterRole::Any } else { WaiterRole::First };
        QuestionStep::Waits(AnswerWaiter { id, part, answer: Some(answer), shared: Arc::clone(self) })
    }
}

impl BrokerState {
    /// Returns the open questions, in the order in which they were asked.
    pub(super) fn open_questions(&self) -> Vec<InboxQuestion> {
        let question =
            |(id, open): (&u64, &UnansweredQuestion)| InboxQuestion { id: *id, question: Arc::clone(&open.question) };
        self.open.iter().map(question).collect()
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns the outcome if no person needs to be asked.
    fn rule(&self, policy: HeadlessPolicy, kind: &QuestionKind) -> Option<(QuestionOutcome, AnsweredBy)> {
        let QuestionKind::Permission { subject, .. } = kind else {
            return (!self.attended).then_some((QuestionOutcome::Nobody, AnsweredBy::Policy));
        };
        let (verdict, by) = match (self.attended, policy, self.trusted.contains(subject)) {
            (true, _, true) | (false, HeadlessPolicy::Granted, true) => (Verdict::Yes, AnsweredBy::Trust),
            (true, _, false) => return None,
            (false, HeadlessPolicy::All, _) => (Verdict::Yes, AnsweredBy::Policy),
            (false, HeadlessPolicy::Never, _) | (false, HeadlessPolicy::Granted, false) => {
                (Verdict::No, AnsweredBy::Policy)
            }
        };
        Some((QuestionOutcome::Verdict(verdict), by))
    }
}

/// The relation of a waiting caller to the details that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaiterRole {
    /// The details do not matter: the answer is the same for all.
    Any,
    /// The details of this caller are shown: a yes is for this one.
    First,
    /// The details of another caller are shown.
    Further,
}

/// A caller that waits for the answer to an open question.
struct AnswerWaiter {
    id: u64,
    part: WaiterRole,
    /// `None` once the waiter is being dropped.
    answer: Option<watch::Receiver<Option<QuestionOutcome>>>,
    shared: Arc<BrokerShared>,
}

impl AnswerWaiter {
    /// Returns the outcome; `None` if the question was withdrawn or the outcome is not for this caller.
    async fn outcome(&mut self) -> Option<QuestionOutcome> {
        let outcome = self.answer.as_mut()?.wait_for(Option::is_some).await.ok()?.clone()?;
        match outcome {
            QuestionOutcome::Verdict(Verdict::Yes) if self.part == WaiterRole::Further => None,
            outcome => Some(outcome),
        }
    }
}

impl Drop for AnswerWaiter {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // Under the lock: of two waiters that are dropped at once, one is the last.
        drop(self.answer.take());
        let Some(open) = state.open.get(&self.id) else { return };
        // Withdrawn even if others wait: a yes to details that were shown for this call must not allow another.
        if self.part == WaiterRole::First || open.answer.receiver_count() == 0 {
            state.open.remove(&self.id);
            drop(state);
            self.shared.changed.notify_waiters();
        }
    }
}
