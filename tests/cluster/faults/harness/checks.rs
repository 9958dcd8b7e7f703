//! The checks after a trial.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shelly_host::{
    cluster::{QueuedRunEnd, RunEndState, RunEntry},
    limits,
    session::{SessionStore, SessionStoreOptions},
};

use super::{
    model::ModelRecord,
    plan::BoxError,
    report::FaultReport,
    run_tree::{RunTree, is_poisoned, part_of},
    session_checks::check_session,
    tasks::{PLACED, TaskKind},
    trial::Trial,
};

/// The number of sessions that the commands of the program read.
const SHOWN: usize = 6;

/// Checks a trial whose runs have these entries, and returns what it found.
pub fn check(trial: &Trial<'_>, entries: &[RunEntry]) -> Result<FaultReport, BoxError> {
    let effects = trial.workers.effects()?;
    let options = SessionStoreOptions { own: trial.workers.key(), ..SessionStoreOptions::default() };
    let store = SessionStore::with_journals(Arc::new(trial.cluster.journals()), "/none", options);
    let trees = RunTree::all(trial, entries);
    let mut report = FaultReport {
        effects: effects.values().sum(),
        ended_workers: trial.workers.ended(),
        left_out: trial.left_out.clone(),
        ..FaultReport::new(trial.plan)
    };
    for (_, fault) in &trial.disturbances {
        *report.faults.entry(*fault).or_default() += 1;
    }
    let ids: BTreeSet<_> = trees.iter().map(RunTree::id).collect();
    if (trees.len(), ids.len()) != (trial.plan.runs, trial.plan.runs) {
        report.failures.push(format!("{} entries of {} runs", trees.len(), trial.plan.runs));
    }
    report.children = trees.iter().map(|tree| tree.children.len()).sum();
    if report.children + trees.len() != entries.len() {
        report.failures.push(format!("{} entries are of no run", entries.len() - trees.len() - report.children));
    }
    for tree in &trees {
        let record = &tree.record;
        report.interrupted += tree.runs().map(|(run, _)| run.starts.saturating_sub(1)).sum::<u32>();
        report.repeated += record.repeated();
        report.late += record.late;
        report.claims += record.claims.len();
        report.notes += usize::from(record.notes > 0);
        let failures = check_end(trial, tree, &mut report)
            .into_iter()
            .chain(check_children(tree))
            .chain(check_requests(tree))
            .chain(check_effects(tree, &effects, &mut report.unknown))
            .chain(check_claims(tree))
            .chain(check_notes(trial, tree))
            .chain(tree.runs().flat_map(|(run, part)| check_session(&store, tree, run, part)));
        let failures: Vec<_> = failures.map(|failure| format!("{}: {failure}", tree.id())).collect();
        report.failures.extend(failures);
    }
    let step = (trees.len() / SHOWN).max(1);
    for tree in trees.iter().step_by(step) {
        report.failures.extend(check_commands(trial, tree.id())?);
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

/// Checks that a run ended with the answer that it has without faults, or that so many workers died with it, or with one of
/// those that it has begun.
fn check_end(trial: &Trial<'_>, tree: &RunTree<'_>, report: &mut FaultReport) -> Vec<String> {
    let Some(QueuedRunEnd { state, answer, error, .. }) = tree.root.ending() else {
        return vec!["it has not ended".into()];
    };
    let expected = tree.kind.answer(tree.id());
    let failures = match state {
        RunEndState::Poisoned => {
            report.poisoned += 1;
            check_deaths(trial, tree, tree.root)
        }
        _ if tree.has_poisoned_child() => {
            report.poisoned += 1;
            // An agent above says that a part is missing, unless the person has cancelled the run.
            let is_said = answer.as_deref().is_some_and(|answer| answer.starts_with(tree.id()));
            match (state, tree.kind) {
                (RunEndState::Completed, _) if is_said => Vec::new(),
                (RunEndState::Cancelled, TaskKind::Cancel) => Vec::new(),
                _ => vec![format!("it ended as {state:?} after a poisoned part: {answer:?}, {error:?}")],
            }
        }
        RunEndState::Cancelled if tree.kind == TaskKind::Cancel => {
            report.cancelled += 1;
            Vec::new()
        }
        RunEndState::Completed if answer.as_deref() == Some(expected.as_str()) && tree.kind != TaskKind::Cancel => {
            report.completed += 1;
            match tree.children.len() == PLACED.iter().filter(|placed| placed.kind == tree.kind).count() {
                true => Vec::new(),
                false => vec![format!("it has begun {} runs", tree.children.len())],
            }
        }
        RunEndState::Completed => vec![format!("the answer is {answer:?}, not `{expected}`")],
        _ => vec![format!("it ended as {state:?}: {error:?}")],
    };
    let poisoned = tree.children.iter().filter(|child| is_poisoned(child));
    failures.into_iter().chain(poisoned.flat_map(|child| check_deaths(trial, tree, child))).collect()
}

/// Checks that faults are the reason for which workers died with a run.
fn check_deaths(trial: &Trial<'_>, tree: &RunTree<'_>, run: &RunEntry) -> Vec<String> {
    // The clocks of workers jump; this is the time of this process.
    let ended = trial.ended.get(&run.spec.id).copied().unwrap_or(tree.root.spec.submitted);
    let its_time = tree.root.spec.submitted..=ended;
    let faults = trial.disturbances.iter().filter(|(at, _)| its_time.contains(at)).count();
    match run.deaths == limits::CLUSTER_RUN_DEATHS && faults >= limits::CLUSTER_RUN_DEATHS as usize {
        true => Vec::new(),
        false => vec![format!("poisoned after {} deaths and {faults} faults in its time", run.deaths)],
    }
}

/// Checks that the runs which a run has begun ended as it did, and that none was begun twice.
fn check_children(tree: &RunTree<'_>) -> Vec<String> {
    let is_cancelled = tree.root.ending().is_some_and(|ending| ending.state != RunEndState::Completed);
    let mut failures = Vec::new();
    let mut parts = BTreeSet::new();
    for child in &tree.children {
        let id = &child.spec.id;
        if !parts.insert(part_of(child)) {
            failures.push(format!("part {} was begun twice, last as {id}", part_of(child)));
        }
        let Some(QueuedRunEnd { state, error, .. }) = child.ending() else {
            failures.push(format!("{id} has not ended"));
            continue;
        };
        let may_end_so = match state {
            RunEndState::Completed | RunEndState::Poisoned => true,
            // Its parent was cancelled, or ended because three workers died with it.
            RunEndState::Cancelled => is_cancelled || tree.has_poisoned_child(),
            RunEndState::Failed | RunEndState::Refused => false,
        };
        if !may_end_so {
            failures.push(format!("{id} ended as {state:?}: {error:?}"));
        }
    }
    failures
}

/// Checks that no attempt asked for a step twice.
fn check_requests(tree: &RunTree<'_>) -> Vec<String> {
    let starts =
        |part: u32| -> u32 { tree.runs().filter(|(_, of)| *of == tree.owner(part)).map(|(run, _)| run.starts).sum() };
    // A further message that comes with the answer is read by a request of its own, which has no new result of a call.
    let notes = tree.record.notes;
    let more = u32::try_from(notes.saturating_sub(1)).unwrap_or(u32::MAX);
    let most = |part: u32| starts(part).saturating_add(more);
    let too_often = tree.record.requests.iter().filter(|((part, _), count)| **count > most(*part));
    let shown = |((part, step), count): (&(u32, usize), &u32)| {
        let starts = starts(*part);
        format!("step {step} of part {part} was asked for {count} times in {starts} attempts, with {notes} messages")
    };
    too_often.map(shown).collect()
}

/// Checks that each call that cannot be repeated was made once at most, and that its result says so.
fn check_effects(tree: &RunTree<'_>, effects: &BTreeMap<String, usize>, unknown: &mut usize) -> Vec<String> {
    let is_of_run = |name: &str| name.split('.').next() == Some(tree.id());
    let made = effects.iter().filter(|(name, count)| is_of_run(name) && **count > 1);
    let mut failures: Vec<_> = made.map(|(name, count)| format!("the call {name} was made {count} times")).collect();
    for (name, result) in &tree.record.results {
        let count = effects.get(name).copied().unwrap_or_default();
        match (result.contains(name.as_str()), ModelRecord::is_unknown(result)) {
            (true, _) if count == 1 => {}
            (false, true) => *unknown += 1,
            _ => failures.push(format!("the call {name} was made {count} times, and its result is: {result}")),
        }
    }
    failures
}

/// Checks that no task of a board was claimed by two agents, and that the board has all claims.
fn check_claims(tree: &RunTree<'_>) -> Vec<String> {
    let record = &tree.record;
    let twice = record.claims.iter().filter(|(_, parts)| parts.len() > 1);
    let mut failures: Vec<_> =
        twice.map(|(task, parts)| format!("{task} was claimed by several agents: {parts:?}")).collect();
    let listed = record.board.matches("in_progress").count();
    if !record.board.is_empty() && listed < record.claims.len() {
        failures.push(format!("its board has {listed} claims of {}: {}", record.claims.len(), record.board));
    }
    failures
}

/// Checks that a run has seen no message more often than it was sent.
fn check_notes(trial: &Trial<'_>, tree: &RunTree<'_>) -> Vec<String> {
    let sent = trial.notes.get(tree.id()).copied().unwrap_or_default();
    match tree.record.notes > sent {
        true => vec![format!("a message was sent {sent} times, and came {} times", tree.record.notes)],
        false => Vec::new(),
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
