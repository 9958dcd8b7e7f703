//! The checks of the sessions of a trial.

use std::collections::BTreeSet;

use shelly_host::{
    agent::journal::{JournalRecord, JournalState},
    chat::Usage,
    cluster::{RunEndState, RunEntry},
    session::{JournalLineContent, SessionStore},
};

use super::{model::REPLY_USAGE, run_tree::RunTree};

/// A session as its journal tells it.
#[derive(Default)]
struct SessionFacts {
    /// The replies that are in a conversation.
    replies: usize,
    /// All replies that were paid for.
    paid: usize,
    /// Their usage.
    usage: Usage,
}

impl SessionFacts {
    /// Counts a reply. The answer of an agent on another worker is a reply too, without a usage of its own.
    fn count(&mut self, usage: Usage, is_in_conversation: bool) {
        if usage != Usage::default() {
            self.paid += 1;
            self.replies += usize::from(is_in_conversation);
            self.usage += usage;
        }
    }
}

/// Checks that the session of a run reads, that it has each step once, and that the usage of the run is the sum of its
/// replies and of the runs that it has begun.
pub fn check_session(store: &SessionStore, tree: &RunTree<'_>, run: &RunEntry, part: u32) -> Vec<String> {
    let id = &run.spec.session;
    let Some(ending) = run.ending().filter(|ending| ending.state == RunEndState::Completed) else {
        // A run that did not end by itself may have no session.
        return match store.contains(id).then(|| read_session(store, id)) {
            Some(Err(failure)) => vec![failure],
            _ => Vec::new(),
        };
    };
    let facts = match read_session(store, id) {
        Ok(facts) => facts,
        Err(failure) => return vec![failure],
    };
    let (mut failures, (replies, may_be_more)) = (Vec::new(), tree.kind.replies(part));
    if !tree.has_poisoned_child() && (facts.replies < replies || (facts.replies > replies && !may_be_more)) {
        failures.push(format!("the journal of {id} has {} replies, not {replies}", facts.replies));
    }
    let of_run = tree.record.requests.iter().filter(|((of, _), _)| tree.owner(*of) == part);
    let requests: u32 = of_run.map(|(_, count)| *count).sum();
    if facts.paid > requests as usize {
        failures
            .push(format!("the journal of {id} has {} replies, and the model was asked {requests} times", facts.paid));
    }
    let mut given = Usage::default();
    (0..facts.paid).for_each(|_| given += REPLY_USAGE);
    if facts.usage != given {
        failures.push(format!("the journal of {id} has {:?}, and the model gave {given:?}", facts.usage));
    }
    // What a run has spent with which three workers died is known by its journal alone.
    if !tree.has_poisoned_child() {
        let is_child = |child: &&&RunEntry| child.spec.parent.as_ref().is_some_and(|parent| parent.session == *id);
        let mut spent = facts.usage;
        for ending in tree.children.iter().filter(is_child).filter_map(|child| child.ending()) {
            spent += ending.usage;
        }
        if spent != ending.usage {
            let (has, replies) = (ending.usage, facts.usage);
            failures.push(format!("the usage of {id} is {has:?}, its replies {replies:?}, with others {spent:?}"));
        }
    }
    failures
}

/// Reads a session as resuming it would.
fn read_session(store: &SessionStore, id: &str) -> Result<SessionFacts, String> {
    let mut facts = SessionFacts::default();
    let (mut steps, mut ended, mut records) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for line in store.read(id).map_err(|error| error.report().to_string())? {
        let line = line.map_err(|error| error.report().to_string())?;
        let JournalLineContent::Record(record) = line.what else { continue };
        match &record {
            JournalRecord::Replied { iteration, usage, .. } => {
                facts.count(*usage, true);
                if !steps.insert((line.run, *iteration)) {
                    return Err(format!("the journal of {id} has step {iteration} of run {} twice", line.run));
                }
            }
            // A reply that came when the run was interrupted.
            JournalRecord::Wasted { usage, .. } => facts.count(*usage, false),
            JournalRecord::Ended { .. } if !ended.insert(line.run) => {
                return Err(format!("the journal of {id} ends run {} twice", line.run));
            }
            _ => {}
        }
        records.push((line.run, record));
    }
    match JournalState::of(records) {
        Ok(_) => Ok(facts),
        Err(error) => Err(format!("the journal of {id} does not replay: {error}")),
    }
}
