//! The checks after a trial.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shelly_host::{
    agent::journal::{JournalRecord, JournalState},
    chat::Usage,
    cluster::{QueuedRunEnd, RunEndState, RunEntry},
    limits,
    session::{JournalLineContent, SessionStore, SessionStoreOptions},
};

use super::{
    model::{ModelRecord, REPLY_USAGE, TaskKind},
    plan::BoxError,
    report::FaultReport,
    trial::{Trial, kind_of},
};

/// The number of sessions that the commands of the program read.
const SHOWN: usize = 6;

/// A session as its journal tells it.
struct SessionFacts {
    /// The replies that are in a conversation.
    replies: usize,
    /// All replies that were paid for.
    paid: usize,
    /// Their usage.
    usage: Usage,
}

/// Checks a trial whose runs have these entries, and returns what it found.
pub fn check(trial: &Trial<'_>, entries: &[RunEntry]) -> Result<FaultReport, BoxError> {
    let effects = trial.workers.effects()?;
    let options = SessionStoreOptions { own: trial.workers.key(), ..SessionStoreOptions::default() };
    let store = SessionStore::with_journals(Arc::new(trial.cluster.journals()), "/none", options);
    let mut report = FaultReport {
        effects: effects.values().sum(),
        ended_workers: trial.workers.ended(),
        ..FaultReport::new(trial.plan)
    };
    for (_, fault) in &trial.disturbances {
        *report.faults.entry(*fault).or_default() += 1;
    }
    let ids: BTreeSet<_> = entries.iter().map(|entry| entry.spec.id.as_str()).collect();
    if (entries.len(), ids.len()) != (trial.plan.runs, trial.plan.runs) {
        report.failures.push(format!("{} entries of {} runs", entries.len(), trial.plan.runs));
    }
    for entry in entries {
        let id = &entry.spec.id;
        let record = trial.model.record(id);
        report.interrupted += entry.starts.saturating_sub(1);
        report.repeated += record.repeated();
        report.late += record.late;
        let failures = check_end(trial, entry, &mut report)
            .into_iter()
            .chain(check_requests(entry, &record))
            .chain(check_effects(id, &record, &effects, &mut report.unknown))
            .chain(check_session(&store, entry, &record));
        let failures: Vec<_> = failures.map(|failure| format!("{id}: {failure}")).collect();
        report.failures.extend(failures);
    }
    let step = (entries.len() / SHOWN).max(1);
    for entry in entries.iter().step_by(step) {
        report.failures.extend(check_commands(trial, &entry.spec.id)?);
    }
    // A worker that was cut off, or stood still, learns of it when the server refuses its next record: each of its runs may
    // have asked the model once more by then.
    let alone = trial.disturbances.iter().filter(|(_, fault)| fault.leaves_a_worker_alone()).count();
    if report.late as usize > alone * trial.plan.jobs * trial.plan.workers {
        report.failures.push(format!("{} requests for steps that the journal has, {alone} faults", report.late));
    }
    if report.interrupted == 0 {
        report.failures.push("no attempt was interrupted: the faults hit nothing".into());
    }
    if report.poisoned * 4 > trial.plan.runs {
        report.failures.push(format!("{} runs are poisoned: that says little about the others", report.poisoned));
    }
    Ok(report)
}

/// Checks that a run ended with the answer that it has without faults, or that so many workers died with it.
fn check_end(trial: &Trial<'_>, entry: &RunEntry, report: &mut FaultReport) -> Vec<String> {
    let Some(QueuedRunEnd { state, answer, error, finished, .. }) = entry.ending() else {
        return vec!["it has not ended".into()];
    };
    let expected = kind_of(&entry.spec.id).answer(&entry.spec.id);
    match state {
        RunEndState::Completed if answer.as_deref() == Some(expected.as_str()) => {
            report.completed += 1;
            Vec::new()
        }
        RunEndState::Completed => vec![format!("the answer is {answer:?}, not `{expected}`")],
        RunEndState::Poisoned => {
            report.poisoned += 1;
            let its_time = entry.spec.submitted..=*finished;
            let faults = trial.disturbances.iter().filter(|(at, _)| its_time.contains(at)).count();
            match entry.deaths == limits::CLUSTER_RUN_DEATHS && faults >= limits::CLUSTER_RUN_DEATHS as usize {
                true => Vec::new(),
                false => vec![format!("poisoned after {} deaths and {faults} faults in its time", entry.deaths)],
            }
        }
        _ => vec![format!("it ended as {state:?}: {error:?}")],
    }
}

/// Checks that no attempt asked for a step twice.
fn check_requests(entry: &RunEntry, record: &ModelRecord) -> Vec<String> {
    let too_often = record.requests.iter().filter(|(_, count)| **count > entry.starts);
    let shown = |((depth, step), count): (&(u32, usize), &u32)| {
        format!("step {step} at depth {depth} was asked for {count} times in {} attempts", entry.starts)
    };
    too_often.map(shown).collect()
}

/// Checks that each call that cannot be repeated was made once at most, and that its result says so.
fn check_effects(
    id: &str,
    record: &ModelRecord,
    effects: &BTreeMap<String, usize>,
    unknown: &mut usize,
) -> Vec<String> {
    let is_of_run = |name: &str| name.split('.').next() == Some(id);
    let made = effects.iter().filter(|(name, count)| is_of_run(name) && **count > 1);
    let mut failures: Vec<_> = made.map(|(name, count)| format!("the call {name} was made {count} times")).collect();
    for (name, result) in &record.results {
        let count = effects.get(name).copied().unwrap_or_default();
        match (result.contains(name.as_str()), ModelRecord::is_unknown(result)) {
            (true, _) if count == 1 => {}
            (false, true) => *unknown += 1,
            _ => failures.push(format!("the call {name} was made {count} times, and its result is: {result}")),
        }
    }
    failures
}

/// Checks that the session reads, that it has each step once, and that the usage of the run is the sum of its replies.
fn check_session(store: &SessionStore, entry: &RunEntry, record: &ModelRecord) -> Vec<String> {
    let id = &entry.spec.id;
    let Some(ending) = entry.ending().filter(|ending| ending.state == RunEndState::Completed) else {
        // A poisoned run may have no session.
        return match store.contains(id).then(|| read_session(store, id)) {
            Some(Err(failure)) => vec![failure],
            _ => Vec::new(),
        };
    };
    let facts = match read_session(store, id) {
        Ok(facts) => facts,
        Err(failure) => return vec![failure],
    };
    let (mut failures, kind) = (Vec::new(), kind_of(id));
    // A question whose answer is lost may be asked in a step of its own.
    if facts.replies < kind.replies() || (facts.replies > kind.replies() && kind != TaskKind::Ask) {
        failures.push(format!("its journal has {} replies, not {}", facts.replies, kind.replies()));
    }
    let requests: u32 = record.requests.values().sum();
    if facts.paid > requests as usize {
        failures.push(format!("its journal has {} replies, and the model was asked {requests} times", facts.paid));
    }
    if facts.usage != ending.usage {
        failures.push(format!("its usage is {:?}, and that in its journal {:?}", ending.usage, facts.usage));
    }
    let mut given = Usage::default();
    (0..facts.paid).for_each(|_| given += REPLY_USAGE);
    if facts.usage != given {
        failures.push(format!("its journal has {:?}, and the model gave {given:?}", facts.usage));
    }
    failures
}

/// Reads a session as resuming it would.
fn read_session(store: &SessionStore, id: &str) -> Result<SessionFacts, String> {
    let mut facts = SessionFacts { replies: 0, paid: 0, usage: Usage::default() };
    let (mut steps, mut ended, mut records) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for line in store.read(id).map_err(|error| error.report().to_string())? {
        let line = line.map_err(|error| error.report().to_string())?;
        let JournalLineContent::Record(record) = line.what else { continue };
        match &record {
            JournalRecord::Replied { iteration, usage, .. } => {
                facts.replies += 1;
                facts.paid += 1;
                facts.usage += *usage;
                if !steps.insert((line.run, *iteration)) {
                    return Err(format!("its journal has step {iteration} of run {} twice", line.run));
                }
            }
            // A reply that came when the run was interrupted.
            JournalRecord::Wasted { usage, .. } => {
                facts.paid += 1;
                facts.usage += *usage;
            }
            JournalRecord::Ended { .. } if !ended.insert(line.run) => {
                return Err(format!("its journal ends run {} twice", line.run));
            }
            _ => {}
        }
        records.push((line.run, record));
    }
    match JournalState::of(records) {
        Ok(_) => Ok(facts),
        Err(error) => Err(format!("its journal does not replay: {error}")),
    }
}

/// Checks that the program shows a session and its trace.
fn check_commands(trial: &Trial<'_>, id: &str) -> Result<Vec<String>, BoxError> {
    let mut failures = Vec::new();
    for command in [&["session", "show", "--config", "shelly.yaml", id][..], &["trace", "--config", "shelly.yaml", id]]
    {
        let output = trial.workers.run(command)?;
        if !output.status.success() || output.stdout.is_empty() {
            failures.push(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(failures)
}
