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
    ApprovalInbox, HeadlessPolicy, OpenQuestion, OpenQuestionAnswer, PermissionSubject, Question, QuestionKind,
    TrustedSubjects, Verdict, question::shown_detail,
};
use crate::{
    error::Fault,
    event::{AnsweredBy, Event, RunCx},
    limits,
};

/// Where agents ask. Clones are the same desk.
#[derive(Clone)]
pub struct ApprovalBroker(Arc<BrokerCloseGuard>);

/// Whether something may be done, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermissionDecision {
    /// Whether it may.
    pub verdict: Verdict,
    /// Who says so.
    pub by: AnsweredBy,
}

impl ApprovalBroker {
    /// A desk that nobody attends yet.
    pub fn new(policy: HeadlessPolicy, trusted: TrustedSubjects) -> Self {
        let state = BrokerState { attended: false, closed: false, last_id: 0, open: BTreeMap::new(), trusted };
        Self(Arc::new(BrokerCloseGuard(Arc::new(BrokerShared {
            policy,
            places: Arc::new(Semaphore::new(limits::OPEN_QUESTIONS)),
            changed: Notify::new(),
            state: Mutex::new(state),
        }))))
    }

    /// What may be done without asking from now on.
    pub fn trust(&self, trusted: TrustedSubjects) {
        self.0.0.state().trusted = trusted;
    }

    /// Lets a front end attend the desk: from now on a person is asked. None if another attends it.
    pub fn attend(&self) -> Option<ApprovalInbox> {
        let shared = &self.0.0;
        let mut state = shared.state();
        if state.attended {
            return None;
        }
        state.attended = true;
        Some(ApprovalInbox { shared: Arc::clone(shared) })
    }

    /// Whether a front end attends it.
    pub fn is_attended(&self) -> bool {
        self.0.0.state().attended
    }

    /// Whether this was trusted.
    pub fn trusts(&self, subject: &PermissionSubject) -> bool {
        self.0.0.state().trusted.contains(subject)
    }

    /// Asks a person. None: nobody is there to answer. Dropping the future withdraws the question.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] and [`Fault::TooLarge`] for what cannot be asked, [`Fault::Denied`] if the person does not want
    /// to answer, [`Fault::Timeout`] after [`limits::QUESTION_TIME`].
    pub async fn ask(&self, cx: &RunCx, question: OpenQuestion) -> Result<Option<OpenQuestionAnswer>, Fault> {
        question.check()?;
        match self.put(cx, QuestionKind::Open(question)).await?.0 {
            QuestionOutcome::Answer(answer) => Ok(Some(answer)),
            QuestionOutcome::Nobody => Ok(None),
            QuestionOutcome::Declined => {
                let message = "the person does not want to answer: decide by yourself, or say what you lack".into();
                Err(Fault::Denied { message })
            }
            QuestionOutcome::Verdict(_) => unreachable!("the inbox takes no verdict for an open question"),
        }
    }

    /// Asks whether something may be done, with what exactly it is this time. Dropping the future withdraws the question.
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
        subject.check()?;
        let detail = shown_detail(&subject, detail);
        let (given, by) = self.put(cx, QuestionKind::Permission { subject, detail }).await?;
        let verdict = match given {
            QuestionOutcome::Verdict(verdict) => verdict,
            QuestionOutcome::Declined => Verdict::No,
            QuestionOutcome::Answer(_) | QuestionOutcome::Nobody => {
                unreachable!("the inbox takes only verdicts for a permission")
            }
        };
        Ok(PermissionDecision { verdict, by })
    }

    async fn put(&self, cx: &RunCx, kind: QuestionKind) -> Result<(QuestionOutcome, AnsweredBy), Fault> {
        time::timeout(limits::QUESTION_TIME, self.put_for_ever(cx, &kind)).await.map_err(|_| Fault::Timeout {
            message: format!("nobody answered within {} hours", limits::QUESTION_TIME.as_secs() / 3_600),
        })
    }

    async fn put_for_ever(&self, cx: &RunCx, kind: &QuestionKind) -> (QuestionOutcome, AnsweredBy) {
        let shared = &self.0.0;
        let (agent, question) = (&cx.agent, kind.summary());
        let asked = async |id| {
            let (agent, question) = (Arc::clone(agent), question.clone());
            cx.events.emit(Event::QuestionAsked { agent, id, question }).await;
        };
        let mut place = None;
        let (id, given, by) = loop {
            match shared.step(cx, kind, place.take()) {
                QuestionStep::NeedsPlace => {
                    let free = Arc::clone(&shared.places).acquire_owned().await;
                    place = Some(free.expect("the places are never closed"));
                }
                QuestionStep::Ruled { id, given, by } => {
                    asked(id).await;
                    break (id, given, by);
                }
                QuestionStep::Waits(mut waiter) => {
                    asked(waiter.id).await;
                    if let Some(given) = waiter.given().await {
                        break (waiter.id, given, AnsweredBy::Person);
                    }
                }
            }
        };
        let (agent, outcome) = (Arc::clone(agent), given.outcome());
        cx.events.emit(Event::QuestionAnswered { agent, id, question, outcome, by }).await;
        (given, by)
    }
}

impl fmt::Debug for ApprovalBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("policy", &self.0.0.policy).finish_non_exhaustive()
    }
}

/// What all clones of a desk hold together: without it nobody can ask any more.
struct BrokerCloseGuard(Arc<BrokerShared>);

impl Drop for BrokerCloseGuard {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.changed.notify_waiters();
    }
}

/// What the desk and its inbox share.
pub(super) struct BrokerShared {
    policy: HeadlessPolicy,
    /// One for each question that may be open.
    places: Arc<Semaphore>,
    /// Something was opened or closed.
    pub(super) changed: Notify,
    state: Mutex<BrokerState>,
}

pub(super) struct BrokerState {
    pub(super) attended: bool,
    /// Whether there is no desk any more.
    pub(super) closed: bool,
    last_id: u64,
    /// In the order in which they were asked.
    pub(super) open: BTreeMap<u64, UnansweredQuestion>,
    pub(super) trusted: TrustedSubjects,
}

/// A question that a person has not answered yet. Those who wait hold the receivers; if it is dropped they ask again.
pub(super) struct UnansweredQuestion {
    pub(super) question: Arc<Question>,
    /// Whether the front end has it.
    pub(super) is_shown: bool,
    pub(super) answer: watch::Sender<Option<QuestionOutcome>>,
    _place: OwnedSemaphorePermit,
}

/// What came of a question.
#[derive(Debug, Clone)]
pub(super) enum QuestionOutcome {
    Answer(OpenQuestionAnswer),
    Verdict(Verdict),
    Declined,
    Nobody,
}

impl QuestionOutcome {
    fn outcome(&self) -> &'static str {
        match self {
            Self::Answer(_) => "answered",
            Self::Verdict(Verdict::Yes) => "yes",
            Self::Verdict(Verdict::Trust) => "trust",
            Self::Verdict(Verdict::No) => "no",
            Self::Declined => "declined",
            Self::Nobody => "nobody",
        }
    }
}

/// What is to be done next about a question.
enum QuestionStep {
    /// No person is needed.
    Ruled {
        id: u64,
        given: QuestionOutcome,
        by: AnsweredBy,
    },
    Waits(AnswerWaiter),
    /// As many as may be are open, or it was not looked yet.
    NeedsPlace,
}

impl BrokerShared {
    pub(super) fn state(&self) -> MutexGuard<'_, BrokerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for a rule, joins the same question, or opens it in `place`.
    fn step(self: &Arc<Self>, cx: &RunCx, kind: &QuestionKind, place: Option<OwnedSemaphorePermit>) -> QuestionStep {
        let mut state = self.state();
        if let Some((given, by)) = state.rule(self.policy, kind) {
            return QuestionStep::Ruled { id: state.next_id(), given, by };
        }
        // Behind another run may be another person.
        let is_same = |open: &UnansweredQuestion| open.question.run == cx.run && open.question.kind.is_same(kind);
        if let Some((id, open)) = state.open.iter().find(|(_, open)| is_same(open)) {
            let answer = open.answer.subscribe();
            let part = if kind.is_for_all() { WaiterRole::Any } else { WaiterRole::Further };
            return QuestionStep::Waits(AnswerWaiter { id: *id, part, answer: Some(answer), shared: Arc::clone(self) });
        }
        let Some(place) = place.or_else(|| Arc::clone(&self.places).try_acquire_owned().ok()) else {
            return QuestionStep::NeedsPlace;
        };
        let id = state.next_id();
        let question = Question { kind: kind.clone(), from: Arc::clone(&cx.agent), run: Arc::clone(&cx.run) };
        let (sender, answer) = watch::channel(None);
        let open = UnansweredQuestion { question: Arc::new(question), is_shown: false, answer: sender, _place: place };
        state.open.insert(id, open);
        drop(state);
        self.changed.notify_waiters();
        let part = if kind.is_for_all() { WaiterRole::Any } else { WaiterRole::First };
        QuestionStep::Waits(AnswerWaiter { id, part, answer: Some(answer), shared: Arc::clone(self) })
    }
}

impl BrokerState {
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// What holds without asking a person.
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

/// How the question that is shown stands to one who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaiterRole {
    /// It is the same for all who wait.
    Any,
    /// It shows what this one wants: a yes is for this one.
    First,
    /// It shows what another one wants.
    Further,
}

/// Somebody who waits for the answer to an open question.
struct AnswerWaiter {
    id: u64,
    part: WaiterRole,
    /// None once it has let go.
    answer: Option<watch::Receiver<Option<QuestionOutcome>>>,
    shared: Arc<BrokerShared>,
}

impl AnswerWaiter {
    /// None: it was withdrawn, or what was given is not for this one.
    async fn given(&mut self) -> Option<QuestionOutcome> {
        let given = self.answer.as_mut()?.wait_for(Option::is_some).await.ok()?.clone()?;
        match given {
            QuestionOutcome::Verdict(Verdict::Yes) if self.part == WaiterRole::Further => None,
            given => Some(given),
        }
    }
}

impl Drop for AnswerWaiter {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        // While the desk is locked: of two who let go at once one is the last.
        drop(self.answer.take());
        let Some(open) = state.open.get(&self.id) else { return };
        // Nobody may be allowed what was shown of somebody else.
        if self.part == WaiterRole::First || open.answer.receiver_count() == 0 {
            state.open.remove(&self.id);
            drop(state);
            self.shared.changed.notify_waiters();
        }
    }
}
