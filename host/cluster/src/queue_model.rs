//! The protocol by which workers take runs, write their sessions and end them, checked in all orders of a few events.
//!
//! The model has the parts of the server that decide: the entry of a run with its revision, the message in the queue, the
//! lease on the session, and the sequence of its journal. A worker does one thing at a time, and may die, stand still, or
//! lose its lease between any two; a message may be delivered again at any time until it is acknowledged; a client may
//! cancel once. Standing still needs no event of its own: the others go on.
//!
//! What is checked is what the book promises: a run ends once; a call that cannot be repeated is made at most once; no two
//! writers mix their lines; a worker that lost the session makes no further call; whatever dies, the run ends.
//!
//! What is not covered: more workers, steps and faults than [`QueueModel`] has; the loss of what the server has
//! acknowledged; replies that are lost (the code recognizes its own write, which makes a repeated call the same as one);
//! clocks; budgets; children on other hosts; and whether the code does what the model does. The tests with a server and with
//! real processes are for that.

use stateright::{Checker, Model, Property};

/// The calls of a run. None of them can be repeated.
const STEPS: usize = 2;
/// The deaths after which a run ends.
const DEATHS: u8 = 2;

/// The size of a model, and the rules that it leaves out, so that it is shown that each rule is needed.
#[derive(Clone)]
struct QueueModel {
    workers: usize,
    crashes: u8,
    /// How often the message may be delivered again although nobody died.
    redeliveries: u8,
    /// How often the lease on the session may end although its holder lives.
    expiries: u8,
    drains: u8,
    may_cancel: bool,
    without: Without,
}

/// A rule of the protocol that a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    /// Lines are appended whatever the last sequence of the journal is.
    ExpectedSequence,
    /// The entry is replaced whatever its revision is.
    ExpectedRevision,
    /// A call is made before its beginning is in the journal.
    BeginningInJournal,
    /// A message is acknowledged when it is delivered.
    LateAcknowledgement,
    /// Nothing publishes the message of an entry whose submitter died.
    Repair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Queued,
    Running { attempt: u8 },
    Ended(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Completed,
    Cancelled,
    Poisoned,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    phase: Phase,
    revision: u8,
    deaths: u8,
    is_cancel_requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    /// The submitter died after it had created the entry.
    Missing,
    Waiting,
    Delivered,
    Acknowledged,
}

/// A line of the journal, of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Line {
    Began(usize),
    /// With its result, or with the word that it is not known.
    Ended(usize, CallResult),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallResult {
    Known,
    Unknown,
}

/// Where a worker is. What it knows of the server is what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Worker {
    Idle,
    /// It has a message.
    HasMessage,
    /// It has read the entry.
    HasEntry { revision: u8 },
    /// The entry is its own; it waits for the lease on the session.
    Opening { attempt: u8, revision: u8 },
    /// It writes the journal, of which it knows this many lines.
    Writing { attempt: u8, revision: u8, lines: usize },
    /// The beginning of a call is in the journal.
    Calling { attempt: u8, revision: u8, lines: usize },
    /// The call was made.
    Called { attempt: u8, revision: u8, lines: usize },
    /// The session has ended, or was cancelled.
    Ending { attempt: u8, revision: u8, end: End },
    /// The entry says how the run ended.
    Acknowledging,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    entry: Entry,
    message: Message,
    journal: Vec<Line>,
    /// The attempt that holds the lease on the session.
    lease: Option<u8>,
    attempts: u8,
    workers: Vec<Worker>,
    /// The calls that were made, by step.
    calls: [u8; STEPS],
    /// The ends that the entry was given, in order.
    ends: Vec<End>,
    /// The calls that were made by a worker after another one had written to the journal, and that had not begun then.
    calls_after_loss: u8,
    crashes: u8,
    redeliveries: u8,
    expiries: u8,
    drains: u8,
    has_cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// The worker does the next thing.
    Step(usize),
    Die(usize),
    /// The worker gives the run back, between two calls.
    GiveBack(usize),
    Redeliver,
    LeaseEnds,
    Cancel,
    /// A worker publishes the message of a queued entry that has none.
    Repair,
}

impl State {
    fn new(model: &QueueModel, message: Message) -> Self {
        Self {
            entry: Entry { phase: Phase::Queued, revision: 0, deaths: 0, is_cancel_requested: false },
            message,
            journal: Vec::new(),
            lease: None,
            attempts: 0,
            workers: vec![Worker::Idle; model.workers],
            calls: [0; STEPS],
            ends: Vec::new(),
            calls_after_loss: 0,
            crashes: 0,
            redeliveries: 0,
            expiries: 0,
            drains: 0,
            has_cancelled: false,
        }
    }

    /// Replaces the entry if it has this revision.
    fn replace(&mut self, model: &QueueModel, revision: u8, phase: Phase) -> bool {
        if self.entry.revision != revision && model.without != Without::ExpectedRevision {
            return false;
        }
        self.entry.phase = phase;
        self.entry.revision += 1;
        if let Phase::Ended(end) = phase {
            self.ends.push(end);
        }
        true
    }

    /// Appends a line if the journal has as many lines as its writer knows.
    fn append(&mut self, model: &QueueModel, known: usize, line: Line) -> bool {
        let is_next = self.journal.len() == known || model.without == Without::ExpectedSequence;
        if is_next {
            self.journal.push(line);
        }
        is_next
    }

    fn release(&mut self, attempt: u8) {
        if self.lease == Some(attempt) {
            self.lease = None;
        }
    }

    /// Makes the call that has begun, by a writer that knows this many lines.
    fn call(&mut self, step: usize, known: usize, has_begun: bool) {
        self.calls[step] += 1;
        if self.journal.len() > known && !has_begun {
            self.calls_after_loss += 1;
        }
    }

    /// Takes the run of an entry with this revision.
    fn take(&mut self, model: &QueueModel, revision: u8) -> Worker {
        match self.entry.phase {
            Phase::Ended(_) => return Worker::Acknowledging,
            Phase::Queued if self.entry.is_cancel_requested => {
                let is_done = self.replace(model, revision, Phase::Ended(End::Cancelled));
                return if is_done { Worker::Acknowledging } else { Worker::HasMessage };
            }
            _ => {}
        }
        if self.entry.revision != revision && model.without != Without::ExpectedRevision {
            return Worker::HasMessage;
        }
        if matches!(self.entry.phase, Phase::Running { .. }) {
            self.entry.deaths += 1;
        }
        if self.entry.deaths == DEATHS {
            self.replace(model, revision, Phase::Ended(End::Poisoned));
            return Worker::Acknowledging;
        }
        self.attempts += 1;
        let attempt = self.attempts;
        self.replace(model, revision, Phase::Running { attempt });
        Worker::Opening { attempt, revision: self.entry.revision }
    }

    /// Does what a writer does next: it ends what was begun, begins a call, or ends the run.
    fn write(&mut self, model: &QueueModel, (attempt, revision, lines): (u8, u8, usize)) -> Worker {
        let known = &self.journal[..lines.min(self.journal.len())];
        let (line, step) = match known.last() {
            // It was begun by a worker that died: whether it was made is not known.
            Some(Line::Began(step)) => (Line::Ended(*step, CallResult::Unknown), None),
            Some(Line::Ended(step, _)) if step + 1 == STEPS => {
                return Worker::Ending { attempt, revision, end: End::Completed };
            }
            _ if self.entry.is_cancel_requested => return Worker::Ending { attempt, revision, end: End::Cancelled },
            Some(Line::Ended(step, _)) => (Line::Began(step + 1), Some(step + 1)),
            None => (Line::Began(0), Some(0)),
        };
        if let (Some(step), Without::BeginningInJournal) = (step, model.without) {
            self.call(step, lines, false);
            let is_appended = self.append(model, lines, line);
            return if is_appended { Worker::Called { attempt, revision, lines: lines + 1 } } else { Worker::Idle };
        }
        match (self.append(model, lines, line), step) {
            (false, _) => Worker::Idle,
            (true, None) => Worker::Writing { attempt, revision, lines: lines + 1 },
            (true, Some(_)) => Worker::Calling { attempt, revision, lines: lines + 1 },
        }
    }

    /// Returns the call whose beginning is the last line that a writer knows.
    fn begun(&self, lines: usize) -> usize {
        match self.journal.get(lines - 1) {
            Some(Line::Began(step)) => *step,
            // Only without the expected sequence: another writer's line is there.
            _ => STEPS - 1,
        }
    }

    fn step(&mut self, model: &QueueModel, at: usize) -> bool {
        let next = match self.workers[at] {
            Worker::Idle if self.message == Message::Waiting => {
                self.message = match model.without {
                    Without::LateAcknowledgement => Message::Acknowledged,
                    _ => Message::Delivered,
                };
                Worker::HasMessage
            }
            Worker::Idle => return false,
            Worker::HasMessage => Worker::HasEntry { revision: self.entry.revision },
            Worker::HasEntry { revision } => self.take(model, revision),
            Worker::Opening { attempt, revision } => {
                if self.lease.is_some() {
                    return false;
                }
                self.lease = Some(attempt);
                Worker::Writing { attempt, revision, lines: self.journal.len() }
            }
            Worker::Writing { attempt, revision, lines } => self.write(model, (attempt, revision, lines)),
            Worker::Calling { attempt, revision, lines } => {
                self.call(self.begun(lines), lines, true);
                Worker::Called { attempt, revision, lines }
            }
            Worker::Called { attempt, revision, lines } => {
                let line = Line::Ended(self.begun(lines), CallResult::Known);
                match self.append(model, lines, line) {
                    true => Worker::Writing { attempt, revision, lines: lines + 1 },
                    false => Worker::Idle,
                }
            }
            Worker::Ending { attempt, revision, end } => {
                self.release(attempt);
                match self.replace(model, revision, Phase::Ended(end)) {
                    true => Worker::Acknowledging,
                    // A request to cancel has changed the entry, or somebody else has the run.
                    false if self.entry.phase == (Phase::Running { attempt }) => {
                        Worker::Ending { attempt, revision: self.entry.revision, end }
                    }
                    false => Worker::Idle,
                }
            }
            Worker::Acknowledging => {
                self.message = Message::Acknowledged;
                Worker::Idle
            }
        };
        self.workers[at] = next;
        true
    }
}

impl Model for QueueModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self, Message::Waiting), State::new(self, Message::Missing)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (at, worker) in state.workers.iter().enumerate() {
            actions.push(Action::Step(at));
            if *worker != Worker::Idle && state.crashes < self.crashes {
                actions.push(Action::Die(at));
            }
            if matches!(worker, Worker::Writing { .. }) && state.drains < self.drains {
                actions.push(Action::GiveBack(at));
            }
        }
        let nobody_works = state.workers.iter().all(|worker| *worker == Worker::Idle);
        // The message of a worker that died, or that gave up, is delivered again in any case.
        if state.message == Message::Delivered && (nobody_works || state.redeliveries < self.redeliveries) {
            actions.push(Action::Redeliver);
        }
        let is_held = |attempt: u8| {
            let holds = |worker: &Worker| match *worker {
                Worker::Writing { attempt: its, .. }
                | Worker::Calling { attempt: its, .. }
                | Worker::Called { attempt: its, .. }
                | Worker::Ending { attempt: its, .. } => its == attempt,
                _ => false,
            };
            state.workers.iter().any(holds)
        };
        // The lease of a worker that died ends in any case.
        if state.lease.is_some_and(|attempt| !is_held(attempt) || state.expiries < self.expiries) {
            actions.push(Action::LeaseEnds);
        }
        if self.may_cancel && !state.has_cancelled {
            actions.push(Action::Cancel);
        }
        if state.message == Message::Missing && self.without != Without::Repair {
            actions.push(Action::Repair);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Step(at) => return state.step(self, at).then_some(state),
            Action::Die(at) => {
                state.crashes += 1;
                state.workers[at] = Worker::Idle;
            }
            Action::GiveBack(at) => {
                let Worker::Writing { attempt, revision, .. } = state.workers[at] else { return None };
                state.drains += 1;
                state.release(attempt);
                if state.replace(self, revision, Phase::Queued) {
                    state.message = Message::Waiting;
                }
                state.workers[at] = Worker::Idle;
            }
            Action::Redeliver => {
                let nobody_works = state.workers.iter().all(|worker| *worker == Worker::Idle);
                state.redeliveries += u8::from(!nobody_works);
                state.message = Message::Waiting;
            }
            Action::LeaseEnds => {
                let attempt = state.lease.take()?;
                let lives = |worker: &Worker| matches!(*worker,
                    Worker::Writing { attempt: its, .. } | Worker::Calling { attempt: its, .. }
                    | Worker::Called { attempt: its, .. } | Worker::Ending { attempt: its, .. } if its == attempt);
                state.expiries += u8::from(state.workers.iter().any(lives));
            }
            Action::Cancel => {
                state.has_cancelled = true;
                match state.entry.phase {
                    Phase::Queued => {
                        state.replace(self, state.entry.revision, Phase::Ended(End::Cancelled));
                    }
                    Phase::Running { .. } => {
                        state.entry.is_cancel_requested = true;
                        state.entry.revision += 1;
                    }
                    Phase::Ended(_) => return None,
                }
            }
            Action::Repair => {
                state.message = match state.entry.phase {
                    Phase::Ended(_) => Message::Acknowledged,
                    _ => Message::Waiting,
                };
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a run ends once", |_, state| state.ends.len() <= 1),
            Property::always("a call is made at most once", |_, state| state.calls.iter().all(|calls| *calls <= 1)),
            Property::always("writers do not mix their lines", |_, state| {
                let expected = |at: usize, line: &Line| match *line {
                    Line::Began(step) => at % 2 == 0 && step == at / 2,
                    Line::Ended(step, _) => at % 2 == 1 && step == at / 2,
                };
                state.journal.iter().enumerate().all(|(at, line)| expected(at, line))
            }),
            Property::always("nobody begins a call after another one wrote", |_, state| state.calls_after_loss == 0),
            Property::always("a known result is that of a call that was made", |_, state| {
                let made = |line: &Line| match *line {
                    Line::Ended(step, CallResult::Known) => state.calls[step] > 0,
                    _ => true,
                };
                state.journal.iter().all(made)
            }),
            Property::always("a completed run has all results", |_, state| {
                state.ends.first() != Some(&End::Completed) || state.journal.len() == 2 * STEPS
            }),
            Property::always("without a fault everything is done", |_, state| {
                let is_calm = state.crashes + state.redeliveries + state.expiries + state.drains == 0;
                match state.ends.first() {
                    Some(End::Completed) if is_calm => state.calls == [1; STEPS],
                    Some(End::Poisoned) => !is_calm,
                    _ => true,
                }
            }),
            Property::always("whatever dies, the run ends", |model, state| {
                let is_over = model.next_states(state).is_empty();
                !is_over || matches!(state.entry.phase, Phase::Ended(_)) && state.message == Message::Acknowledged
            }),
            Property::sometimes("a run is completed", |_, state| state.ends.first() == Some(&End::Completed)),
            Property::sometimes("a run is completed by another worker", |_, state| {
                state.ends.first() == Some(&End::Completed) && state.entry.deaths > 0
            }),
            Property::sometimes("a run is poisoned", |_, state| state.ends.first() == Some(&End::Poisoned)),
            Property::sometimes("a result is not known", |_, state| {
                state.journal.iter().any(|line| matches!(line, Line::Ended(_, CallResult::Unknown)))
            }),
        ]
    }
}

/// All faults once or twice, with two workers.
fn model(without: Without) -> QueueModel {
    QueueModel { workers: 2, crashes: 2, redeliveries: 2, expiries: 1, drains: 1, may_cancel: true, without }
}

#[test]
fn every_order_of_faults_ends_a_run_once() {
    let checker = model(Without::Nothing).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "{} states", checker.unique_state_count());
}

#[test]
fn three_workers_end_a_run_once() {
    let larger = QueueModel { workers: 3, crashes: 1, redeliveries: 1, expiries: 1, drains: 0, ..model(Without::Nothing) };
    let larger = QueueModel { may_cancel: false, ..larger };
    let checker = larger.checker().threads(2).spawn_bfs().join();
    for property in [
        "a run ends once",
        "a call is made at most once",
        "writers do not mix their lines",
        "nobody begins a call after another one wrote",
        "whatever dies, the run ends",
    ] {
        checker.assert_no_discovery(property);
    }
}

#[test]
fn every_rule_is_needed() {
    for (without, broken) in [
        (Without::ExpectedSequence, "writers do not mix their lines"),
        (Without::ExpectedRevision, "a run ends once"),
        (Without::BeginningInJournal, "a call is made at most once"),
        (Without::LateAcknowledgement, "whatever dies, the run ends"),
        (Without::Repair, "whatever dies, the run ends"),
    ] {
        let checker = model(without).checker().threads(2).spawn_bfs().join();
        checker.assert_any_discovery(broken);
    }
}
