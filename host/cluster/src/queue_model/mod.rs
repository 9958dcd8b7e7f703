//! The protocol by which workers take runs, write their sessions and end them, checked in all orders of a few events.
//!
//! The model has the parts of the server that decide: the entry of a run with its revision, the message in the queue, the
//! lease on the run, the lease on its session, and the sequence of its journal. A worker does one thing at a time, and may
//! die, stand still, or lose a lease between any two; a message may be offered again at any time until it is acknowledged; a
//! client may cancel once. Standing still needs no event of its own: the others go on.
//!
//! A worker that loses its session leaves the run here, and the next one counts a death. The code gives the run back at once,
//! and counts the same.
//!
//! Checked are the promises of the book: a run ends once; a call that cannot be repeated is made at most once; no two
//! writers mix their lines; a worker that lost the session makes no further call; whatever dies, the run ends.
//!
//! Not covered are more workers, steps and faults than [`QueueModel`] has; the loss of what the server has
//! acknowledged; replies that are lost (the code recognizes its own write, which makes a repeated call the same as one);
//! clocks; budgets and limits, and runs that a worker declines or that wait for room; children on other hosts; and whether
//! the code does what the model does. The tests with a server and with real processes are for that.

mod checks;

/// The calls of a run. None of them can be repeated.
const STEPS: usize = 2;
/// The deaths after which a run ends.
const DEATHS: u8 = 2;

/// The size of a model, and the rules that it leaves out, so that it is shown that each rule is needed.
#[derive(Clone)]
struct QueueModel {
    workers: usize,
    crashes: u8,
    /// The number of times that the message may be offered again although a worker has the run.
    redeliveries: u8,
    /// The number of times that a lease may end although its holder lives.
    expiries: u8,
    drains: u8,
    may_cancel: bool,
    without: LeftOutRule,
}

/// A rule of the protocol that a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOutRule {
    Nothing,
    /// Lines are appended whatever the last sequence of the journal is.
    ExpectedSequence,
    /// The entry is replaced whatever its revision is.
    ExpectedRevision,
    /// A call is made before its beginning is in the journal.
    BeginningInJournal,
    /// A message is acknowledged when it is offered.
    LateAcknowledgement,
    /// Every further offer of a run at work is a death, whoever has the lease on the run.
    RunLease,
    /// Nothing publishes the message of an entry whose submitter died.
    Repair,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelPhase {
    Queued,
    Running { attempt: u8 },
    Ended(ModelEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelEnd {
    Completed,
    Cancelled,
    Poisoned,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelEntry {
    phase: ModelPhase,
    revision: u8,
    deaths: u8,
    is_cancel_requested: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum QueueMessage {
    /// The submitter died after it had created the entry.
    Missing,
    Waiting,
    Offered,
    Acknowledged,
}

/// A line of the journal, of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelLine {
    Began(usize),
    /// With its result, or with the word that it is not known.
    Ended(usize, ModelCallResult),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelCallResult {
    Known,
    Unknown,
}

/// The point at which a worker is. It knows of the server only what it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ModelWorker {
    Idle,
    /// The worker has a message.
    HasMessage,
    /// The worker has the lease on the run.
    HasLease {
        attempt: u8,
    },
    /// The worker has read the entry under the lease.
    HasEntry {
        attempt: u8,
        revision: u8,
    },
    /// The entry is its own; it waits for the lease on the session.
    Opening {
        attempt: u8,
    },
    /// The worker writes the journal, of which it knows this many lines.
    Writing {
        attempt: u8,
        lines: usize,
    },
    /// The beginning of a call is in the journal.
    Calling {
        attempt: u8,
        lines: usize,
    },
    /// The call was made.
    Called {
        attempt: u8,
        lines: usize,
    },
    /// The session has ended, or was cancelled; the entry is to say so.
    Ending {
        attempt: u8,
        end: ModelEnd,
    },
    /// The entry says how the run ended.
    Acknowledging,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModelState {
    entry: ModelEntry,
    message: QueueMessage,
    journal: Vec<ModelLine>,
    /// The attempt that holds the lease on the run.
    run_lease: Option<u8>,
    /// The attempt that holds the lease on the session.
    session_lease: Option<u8>,
    attempts: u8,
    workers: Vec<ModelWorker>,
    /// The calls that were made, by step.
    calls: [u8; STEPS],
    /// The ends that the entry was given, in order.
    ends: Vec<ModelEnd>,
    /// The calls that were made by a worker after another one had written to the journal, and that had not begun then.
    calls_after_loss: u8,
    /// The workers that gave up because another one had written to the journal.
    losses: u8,
    crashes: u8,
    redeliveries: u8,
    expiries: u8,
    drains: u8,
    has_cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelAction {
    /// The worker does the next thing.
    Step(usize),
    Die(usize),
    /// The worker gives the run back, between two calls.
    GiveBack(usize),
    OfferAgain,
    RunLeaseEnds,
    SessionLeaseEnds,
    /// The worker looks whether it still has the run.
    Heartbeat(usize),
    Cancel,
    /// A worker publishes the message of a queued entry that has none.
    Repair,
}

impl ModelState {
    fn new(model: &QueueModel, message: QueueMessage) -> Self {
        Self {
            entry: ModelEntry { phase: ModelPhase::Queued, revision: 0, deaths: 0, is_cancel_requested: false },
            message,
            journal: Vec::new(),
            run_lease: None,
            session_lease: None,
            attempts: 0,
            workers: vec![ModelWorker::Idle; model.workers],
            calls: [0; STEPS],
            ends: Vec::new(),
            calls_after_loss: 0,
            losses: 0,
            crashes: 0,
            redeliveries: 0,
            expiries: 0,
            drains: 0,
            has_cancelled: false,
        }
    }

    /// Replaces the entry if it has this revision.
    fn replace(&mut self, model: &QueueModel, revision: u8, phase: ModelPhase) -> bool {
        if self.entry.revision != revision && model.without != LeftOutRule::ExpectedRevision {
            return false;
        }
        self.entry.phase = phase;
        self.entry.revision += 1;
        if let ModelPhase::Ended(end) = phase {
            self.ends.push(end);
        }
        true
    }

    /// Appends a line if the journal has as many lines as its writer knows.
    fn append(&mut self, model: &QueueModel, known: usize, line: ModelLine) -> bool {
        let is_next = self.journal.len() == known || model.without == LeftOutRule::ExpectedSequence;
        match is_next {
            true => self.journal.push(line),
            false => self.losses += 1,
        }
        is_next
    }

    fn release_session(&mut self, attempt: u8) {
        if self.session_lease == Some(attempt) {
            self.session_lease = None;
        }
    }

    fn release_run(&mut self, attempt: u8) {
        if self.run_lease == Some(attempt) {
            self.run_lease = None;
        }
    }

    /// Changes the entry if this attempt has the run.
    fn change_held(&mut self, model: &QueueModel, attempt: u8, phase: ModelPhase) -> bool {
        let is_held =
            self.entry.phase == (ModelPhase::Running { attempt }) || model.without == LeftOutRule::ExpectedRevision;
        is_held && self.replace(model, self.entry.revision, phase)
    }

    /// Makes the call that has begun, by a writer that knows this many lines.
    fn call(&mut self, step: usize, known: usize, has_begun: bool) {
        self.calls[step] += 1;
        if self.journal.len() > known && !has_begun {
            self.calls_after_loss += 1;
        }
    }

    /// Takes the lease on a run that is offered.
    fn lease_offered(&mut self, model: &QueueModel) -> ModelWorker {
        if matches!(self.entry.phase, ModelPhase::Ended(_)) {
            return ModelWorker::Acknowledging;
        }
        if self.run_lease.is_some() && model.without != LeftOutRule::RunLease {
            // A worker has it: it is offered again later, and this is no death.
            return ModelWorker::Idle;
        }
        self.attempts += 1;
        self.run_lease = Some(self.attempts);
        ModelWorker::HasLease { attempt: self.attempts }
    }

    /// Decides about a run whose entry had this revision.
    fn decide(&mut self, model: &QueueModel, (attempt, revision): (u8, u8)) -> ModelWorker {
        let is_ended = matches!(self.entry.phase, ModelPhase::Ended(_));
        if is_ended || self.entry.revision != revision && model.without != LeftOutRule::ExpectedRevision {
            return if is_ended { self.answer(attempt) } else { ModelWorker::HasLease { attempt } };
        }
        let mut deaths = self.entry.deaths;
        let next = match self.entry.phase {
            _ if self.entry.is_cancel_requested => ModelPhase::Ended(ModelEnd::Cancelled),
            ModelPhase::Running { .. } => {
                deaths += 1;
                if deaths >= DEATHS { ModelPhase::Ended(ModelEnd::Poisoned) } else { ModelPhase::Running { attempt } }
            }
            _ => ModelPhase::Running { attempt },
        };
        self.replace(model, revision, next);
        self.entry.deaths = deaths;
        match next {
            ModelPhase::Ended(_) => self.answer(attempt),
            _ => ModelWorker::Opening { attempt },
        }
    }

    /// Gives up the lease on a run that has ended; the message is acknowledged next.
    fn answer(&mut self, attempt: u8) -> ModelWorker {
        self.release_run(attempt);
        ModelWorker::Acknowledging
    }

    /// Does what a writer does next: it ends what was begun, begins a call, or ends the run.
    fn write(&mut self, model: &QueueModel, (attempt, lines): (u8, usize)) -> ModelWorker {
        let known = &self.journal[..lines.min(self.journal.len())];
        let (line, step) = match known.last() {
            // It was begun by a worker that died: whether it was made is not known.
            Some(ModelLine::Began(step)) => (ModelLine::Ended(*step, ModelCallResult::Unknown), None),
            Some(ModelLine::Ended(step, _)) if step + 1 == STEPS => {
                return ModelWorker::Ending { attempt, end: ModelEnd::Completed };
            }
            _ if self.entry.is_cancel_requested => return ModelWorker::Ending { attempt, end: ModelEnd::Cancelled },
            Some(ModelLine::Ended(step, _)) => (ModelLine::Began(step + 1), Some(step + 1)),
            None => (ModelLine::Began(0), Some(0)),
        };
        if let (Some(step), LeftOutRule::BeginningInJournal) = (step, model.without) {
            self.call(step, lines, false);
            let is_appended = self.append(model, lines, line);
            return if is_appended { ModelWorker::Called { attempt, lines: lines + 1 } } else { ModelWorker::Idle };
        }
        match (self.append(model, lines, line), step) {
            (false, _) => ModelWorker::Idle,
            (true, None) => ModelWorker::Writing { attempt, lines: lines + 1 },
            (true, Some(_)) => ModelWorker::Calling { attempt, lines: lines + 1 },
        }
    }

    /// Returns the call whose beginning is the last line that a writer knows.
    fn begun(&self, lines: usize) -> usize {
        match self.journal.get(lines - 1) {
            Some(ModelLine::Began(step)) => *step,
            // Only without the expected sequence: another writer's line is there.
            _ => STEPS - 1,
        }
    }

    /// Returns the attempt of a worker that has the run, as far as the worker knows.
    fn held_by(&self, worker: ModelWorker) -> Option<u8> {
        match worker {
            ModelWorker::Opening { attempt }
            | ModelWorker::Writing { attempt, .. }
            | ModelWorker::Calling { attempt, .. }
            | ModelWorker::Called { attempt, .. }
            | ModelWorker::Ending { attempt, .. } => Some(attempt),
            ModelWorker::Idle
            | ModelWorker::HasMessage
            | ModelWorker::HasLease { .. }
            | ModelWorker::HasEntry { .. }
            | ModelWorker::Acknowledging => None,
        }
    }

    /// Returns `true` if a worker is at work on this attempt.
    fn lives(&self, attempt: u8) -> bool {
        let takes = |worker: &ModelWorker| match *worker {
            ModelWorker::HasLease { attempt: its } | ModelWorker::HasEntry { attempt: its, .. } => Some(its),
            worker => self.held_by(worker),
        };
        self.workers.iter().any(|worker| takes(worker) == Some(attempt))
    }

    fn step(&mut self, model: &QueueModel, at: usize) -> bool {
        let next = match self.workers[at] {
            ModelWorker::Idle if self.message == QueueMessage::Waiting => {
                self.message = match model.without {
                    LeftOutRule::LateAcknowledgement => QueueMessage::Acknowledged,
                    _ => QueueMessage::Offered,
                };
                ModelWorker::HasMessage
            }
            ModelWorker::Idle => return false,
            ModelWorker::HasMessage => self.lease_offered(model),
            ModelWorker::HasLease { attempt } => ModelWorker::HasEntry { attempt, revision: self.entry.revision },
            ModelWorker::HasEntry { attempt, revision } => self.decide(model, (attempt, revision)),
            ModelWorker::Opening { attempt } => {
                if self.session_lease.is_some() {
                    return false;
                }
                self.session_lease = Some(attempt);
                ModelWorker::Writing { attempt, lines: self.journal.len() }
            }
            ModelWorker::Writing { attempt, lines } => self.write(model, (attempt, lines)),
            ModelWorker::Calling { attempt, lines } => {
                self.call(self.begun(lines), lines, true);
                ModelWorker::Called { attempt, lines }
            }
            ModelWorker::Called { attempt, lines } => {
                let line = ModelLine::Ended(self.begun(lines), ModelCallResult::Known);
                match self.append(model, lines, line) {
                    true => ModelWorker::Writing { attempt, lines: lines + 1 },
                    false => ModelWorker::Idle,
                }
            }
            ModelWorker::Ending { attempt, end } => {
                self.release_session(attempt);
                match self.change_held(model, attempt, ModelPhase::Ended(end)) {
                    true => self.answer(attempt),
                    // Somebody else has the run, or it has ended.
                    false => {
                        self.release_run(attempt);
                        ModelWorker::Idle
                    }
                }
            }
            ModelWorker::Acknowledging => {
                self.message = QueueMessage::Acknowledged;
                ModelWorker::Idle
            }
        };
        self.workers[at] = next;
        true
    }
}
