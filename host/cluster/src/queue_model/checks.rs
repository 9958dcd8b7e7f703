//! The model as its checker sees it, the promises, and the sizes in which they are checked.

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{
    LeftOutRule, ModelAction, ModelCallResult, ModelEnd, ModelLine, ModelPhase, ModelState, ModelWorker, QueueMessage,
    QueueModel, STEPS,
};

impl Model for QueueModel {
    type State = ModelState;
    type Action = ModelAction;

    fn init_states(&self) -> Vec<ModelState> {
        vec![ModelState::new(self, QueueMessage::Waiting), ModelState::new(self, QueueMessage::Missing)]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<ModelAction>) {
        for (at, worker) in state.workers.iter().enumerate() {
            actions.push(ModelAction::Step(at));
            if *worker != ModelWorker::Idle && state.crashes < self.crashes {
                actions.push(ModelAction::Die(at));
            }
            if matches!(worker, ModelWorker::Writing { .. }) && state.drains < self.drains {
                actions.push(ModelAction::GiveBack(at));
            }
            if state.held_by(*worker).is_some() {
                actions.push(ModelAction::Heartbeat(at));
            }
        }
        // The message of a worker that died, or that gave up, is offered again in any case.
        let has_holder = state.workers.iter().any(|worker| *worker != ModelWorker::Idle);
        if state.message == QueueMessage::Offered && (!has_holder || state.redeliveries < self.redeliveries) {
            actions.push(ModelAction::OfferAgain);
        }
        // The leases of a worker that died end in any case, too.
        let may_end =
            |lease: Option<u8>| lease.is_some_and(|attempt| !state.lives(attempt) || state.expiries < self.expiries);
        if may_end(state.run_lease) {
            actions.push(ModelAction::RunLeaseEnds);
        }
        if may_end(state.session_lease) {
            actions.push(ModelAction::SessionLeaseEnds);
        }
        if self.may_cancel && !state.has_cancelled {
            actions.push(ModelAction::Cancel);
        }
        if state.message == QueueMessage::Missing && self.without != LeftOutRule::Repair {
            actions.push(ModelAction::Repair);
        }
    }

    fn next_state(&self, last: &ModelState, action: ModelAction) -> Option<ModelState> {
        let mut state = last.clone();
        match action {
            ModelAction::Step(at) => return state.step(self, at).then_some(state),
            ModelAction::Die(at) => {
                state.crashes += 1;
                state.workers[at] = ModelWorker::Idle;
            }
            ModelAction::GiveBack(at) => {
                let ModelWorker::Writing { attempt, .. } = state.workers[at] else { return None };
                state.drains += 1;
                state.release_session(attempt);
                if state.change_held(self, attempt, ModelPhase::Queued) {
                    state.message = QueueMessage::Waiting;
                }
                state.release_run(attempt);
                state.workers[at] = ModelWorker::Idle;
            }
            ModelAction::OfferAgain => {
                let has_holder = state.workers.iter().any(|worker| *worker != ModelWorker::Idle);
                state.redeliveries += u8::from(has_holder);
                state.message = QueueMessage::Waiting;
            }
            ModelAction::RunLeaseEnds => {
                let attempt = state.run_lease.take()?;
                state.expiries += u8::from(state.lives(attempt));
            }
            ModelAction::SessionLeaseEnds => {
                let attempt = state.session_lease.take()?;
                state.expiries += u8::from(state.lives(attempt));
            }
            ModelAction::Heartbeat(at) => {
                let attempt = state.held_by(state.workers[at])?;
                let is_held = state.entry.phase == (ModelPhase::Running { attempt });
                match (state.run_lease, is_held) {
                    (Some(holder), true) if holder == attempt => return None,
                    (None, true) => state.run_lease = Some(attempt),
                    _ => {
                        state.release_run(attempt);
                        state.release_session(attempt);
                        state.workers[at] = ModelWorker::Idle;
                    }
                }
            }
            ModelAction::Cancel => {
                state.has_cancelled = true;
                match state.entry.phase {
                    ModelPhase::Queued => {
                        state.replace(self, state.entry.revision, ModelPhase::Ended(ModelEnd::Cancelled));
                    }
                    ModelPhase::Running { .. } => {
                        state.entry.is_cancel_requested = true;
                        state.entry.revision += 1;
                    }
                    ModelPhase::Ended(_) => return None,
                }
            }
            ModelAction::Repair => {
                state.message = match state.entry.phase {
                    ModelPhase::Ended(_) => QueueMessage::Acknowledged,
                    _ => QueueMessage::Waiting,
                };
            }
        }
        Some(state)
    }

    /// Bounds the journal: if a rule is left out, the lines of two writers could mix for ever.
    fn within_boundary(&self, state: &ModelState) -> bool {
        state.journal.len() <= 3 * STEPS
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("a run ends once", |_, state| state.ends.len() <= 1),
            Property::<Self>::always("a call is made at most once", |_, state| {
                state.calls.iter().all(|calls| *calls <= 1)
            }),
            Property::<Self>::always("writers do not mix their lines", |_, state| {
                let expected = |at: usize, line: &ModelLine| match *line {
                    ModelLine::Began(step) => at.is_multiple_of(2) && step == at / 2,
                    ModelLine::Ended(step, _) => !at.is_multiple_of(2) && step == at / 2,
                };
                state.journal.iter().enumerate().all(|(at, line)| expected(at, line))
            }),
            Property::<Self>::always("nobody begins a call after another one wrote", |_, state| {
                state.calls_after_loss == 0
            }),
            Property::<Self>::always("a known result is that of a call that was made", |_, state| {
                let made = |line: &ModelLine| match *line {
                    ModelLine::Ended(step, ModelCallResult::Known) => state.calls[step] > 0,
                    _ => true,
                };
                state.journal.iter().all(made)
            }),
            Property::<Self>::always("a completed run has all results", |_, state| {
                state.ends.first() != Some(&ModelEnd::Completed) || state.journal.len() == 2 * STEPS
            }),
            Property::<Self>::always("without a fault everything is done", |_, state| {
                let is_calm = state.crashes + state.redeliveries + state.expiries + state.drains == 0;
                match state.ends.first() {
                    Some(ModelEnd::Completed) if is_calm => state.calls == [1; STEPS],
                    Some(ModelEnd::Poisoned) => !is_calm,
                    _ => true,
                }
            }),
            Property::<Self>::always("whatever dies, the run ends", |model, state| {
                let is_over = model.next_states(state).is_empty();
                !is_over
                    || matches!(state.entry.phase, ModelPhase::Ended(_)) && state.message == QueueMessage::Acknowledged
            }),
            Property::<Self>::always("a worker that only stands in line is no death", |_, state| {
                // A worker whose lease ends while it decides takes the run from the one that has it by now, and loses it
                // again at its first heartbeat: that counts twice. No call is made twice, and the run goes on.
                state.entry.deaths <= state.crashes + 2 * state.expiries + state.losses
            }),
            Property::<Self>::sometimes("a run is completed", |_, state| {
                state.ends.first() == Some(&ModelEnd::Completed)
            }),
            Property::<Self>::sometimes("a run is completed by another worker", |_, state| {
                state.ends.first() == Some(&ModelEnd::Completed) && state.entry.deaths > 0
            }),
            Property::<Self>::sometimes("a run is poisoned", |_, state| {
                state.ends.first() == Some(&ModelEnd::Poisoned)
            }),
            Property::<Self>::sometimes("a result is not known", |_, state| {
                state.journal.iter().any(|line| matches!(line, ModelLine::Ended(_, ModelCallResult::Unknown)))
            }),
        ]
    }
}

/// All faults once or twice, with two workers.
fn model(without: LeftOutRule) -> QueueModel {
    QueueModel { workers: 2, crashes: 1, redeliveries: 1, expiries: 2, drains: 1, may_cancel: true, without }
}

#[test]
fn every_order_of_faults_ends_a_run_once() {
    let checker = model(LeftOutRule::Nothing).checker().threads(2).spawn_bfs().join();
    checker.assert_properties();
    assert!(checker.unique_state_count() > 10_000, "{} states", checker.unique_state_count());
}

#[test]
fn three_workers_end_a_run_once() {
    let larger =
        QueueModel { workers: 3, crashes: 1, redeliveries: 1, expiries: 0, drains: 0, ..model(LeftOutRule::Nothing) };
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
        (LeftOutRule::ExpectedSequence, "writers do not mix their lines"),
        (LeftOutRule::ExpectedRevision, "a run ends once"),
        (LeftOutRule::BeginningInJournal, "a call is made at most once"),
        (LeftOutRule::LateAcknowledgement, "whatever dies, the run ends"),
        (LeftOutRule::RunLease, "a worker that only stands in line is no death"),
        (LeftOutRule::Repair, "whatever dies, the run ends"),
    ] {
        let found = HasDiscoveries::AnyOf([broken].into());
        let checker = model(without).checker().finish_when(found).threads(2).spawn_bfs().join();
        checker.assert_any_discovery(broken);
    }
}
